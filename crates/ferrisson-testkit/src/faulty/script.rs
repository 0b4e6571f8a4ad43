use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{Fault, Op};

/// Tells a [`FaultyBackend`](super::FaultyBackend) what to do to whom. Cheap to clone; clones are
/// the same script.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    next: BTreeMap<Op, VecDeque<Fault>>,
    always: BTreeMap<Op, Fault>,
    everything: Option<Fault>,
    gates: BTreeMap<Op, Arc<Gate>>,
    calls: BTreeMap<Op, u64>,
    signals_lost: bool,
}

impl Faults {
    /// The next `n` operations of this kind that are not failing already.
    pub fn fail_next(&self, op: Op, n: usize, fault: Fault) {
        let mut script = self.locked();
        script.next.entry(op).or_default().extend(std::iter::repeat_n(fault, n));
    }

    /// All operations of this kind, until [`heal`](Self::heal).
    pub fn fail_all(&self, op: Op, fault: Fault) {
        self.locked().always.insert(op, fault);
    }

    /// All operations of all kinds, until [`heal`](Self::heal).
    pub fn fail_everything(&self, fault: Fault) {
        self.locked().everything = Some(fault);
    }

    /// Loses all signals of releases, until [`heal`](Self::heal).
    pub fn lose_signals(&self) {
        self.locked().signals_lost = true;
    }

    /// Ends every failure that was told. Operations that are lost or late stay so, and those that
    /// are [held](Self::hold) stay held.
    pub fn heal(&self) {
        let mut script = self.locked();
        script.next.clear();
        script.always.clear();
        (script.everything, script.signals_lost) = (None, false);
    }

    /// Holds operations of this kind back before they are executed. Their callers give up after
    /// the command timeout as usual.
    #[must_use = "operations go on when this is dropped"]
    pub fn hold(&self, op: Op) -> Held {
        let gate = Arc::new(Gate(watch::Sender::new(Crowd { arrived: 0, open: false })));
        self.locked().gates.insert(op, Arc::clone(&gate));
        Held { faults: self.clone(), op, gate }
    }

    /// How many operations of this kind were asked for, whatever became of them.
    #[must_use]
    pub fn calls(&self, op: Op) -> u64 {
        self.locked().calls.get(&op).copied().unwrap_or(0)
    }

    /// How many operations of any kind were asked for.
    #[must_use]
    pub fn total_calls(&self) -> u64 {
        self.locked().calls.values().sum()
    }

    /// Counts an operation and tells what becomes of it.
    pub(super) fn next(&self, op: Op) -> Option<Fault> {
        let mut script = self.locked();
        *script.calls.entry(op).or_default() += 1;
        let next = script.next.get_mut(&op).and_then(VecDeque::pop_front);
        next.or_else(|| script.always.get(&op).copied()).or(script.everything)
    }

    pub(super) fn gate(&self, op: Op) -> Option<Arc<Gate>> {
        self.locked().gates.get(&op).cloned()
    }

    pub(super) fn loses_signals(&self) -> bool {
        self.locked().signals_lost
    }

    fn locked(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Operations that are held back. Dropping this lets them go on.
#[derive(Debug)]
pub struct Held {
    faults: Faults,
    op: Op,
    gate: Arc<Gate>,
}

impl Held {
    /// Waits until `n` operations have arrived here.
    pub async fn arrived(&self, n: usize) {
        self.gate.wait_until(|crowd| crowd.arrived >= n).await;
    }

    /// Lets them, and all later ones, go on.
    pub fn release(self) {}
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut script = self.faults.locked();
        if script.gates.get(&self.op).is_some_and(|gate| Arc::ptr_eq(gate, &self.gate)) {
            script.gates.remove(&self.op);
        }
        drop(script);
        self.gate.0.send_modify(|crowd| crowd.open = true);
    }
}

#[derive(Debug)]
pub(super) struct Gate(watch::Sender<Crowd>);

#[derive(Debug)]
struct Crowd {
    arrived: usize,
    open: bool,
}

impl Gate {
    pub(super) async fn pass(&self) {
        self.0.send_modify(|crowd| crowd.arrived += 1);
        self.wait_until(|crowd| crowd.open).await;
    }

    async fn wait_until(&self, condition: impl Fn(&Crowd) -> bool) {
        let mut crowd = self.0.subscribe();
        crowd.wait_for(|crowd| condition(crowd)).await.expect("the sender is in this gate");
    }
}
