use std::time::Duration;

use ferrisson_core::backend::{Backend, LockKey, LockKind, Release, Renewal, RenewalRequest};
use proptest::{collection::vec, prelude::*, sample::select};

use super::{Reply, Seen, World, long_time, name, owner};

/// A lock: its kind and the number of its name.
#[derive(Clone, Copy, Debug)]
pub struct Lock(pub LockKind, pub usize);

/// A lock and the number of an owner, who may or may not hold it.
#[derive(Clone, Copy, Debug)]
pub struct Hold(pub Lock, pub u64);

/// One operation of [`LockBackend`](ferrisson_core::backend::LockBackend).
#[derive(Clone, Debug)]
pub enum LockOperation {
    /// `acquire` with this lease.
    Acquire(Hold, Duration),
    /// `release`.
    Release(Hold),
    /// `abandon`.
    Abandon(Hold),
    /// `renew` of several, each with this lease.
    Renew(Vec<(Hold, Duration)>),
    /// `set_holds`, of the reentrant lock with this name, by this owner, to this number.
    SetHolds(usize, u64, u32),
    /// `inspect`.
    Inspect(Lock),
    /// `force_release`.
    ForceRelease(Lock),
}

const KINDS: [LockKind; 2] = [LockKind::Reentrant, LockKind::Plain];

pub(super) fn operations() -> impl Strategy<Value = LockOperation> {
    let set_holds = (name(), owner(), prop_oneof![0..4_u32, Just(u32::MAX)]);
    prop_oneof![
        6 => (hold(), long_time()).prop_map(|(hold, lease)| LockOperation::Acquire(hold, lease)),
        4 => hold().prop_map(LockOperation::Release),
        1 => hold().prop_map(LockOperation::Abandon),
        2 => vec((hold(), long_time()), 0..4).prop_map(LockOperation::Renew),
        1 => set_holds.prop_map(|(name, owner, holds)| LockOperation::SetHolds(name, owner, holds)),
        1 => lock().prop_map(LockOperation::Inspect),
        1 => lock().prop_map(LockOperation::ForceRelease),
    ]
}

pub(super) fn looks(name: usize) -> [LockOperation; 2] {
    KINDS.map(|kind| LockOperation::Inspect(Lock(kind, name)))
}

fn lock() -> impl Strategy<Value = Lock> {
    (select(KINDS.to_vec()), name()).prop_map(|(kind, name)| Lock(kind, name))
}

fn hold() -> impl Strategy<Value = Hold> {
    (lock(), owner()).prop_map(|(lock, owner)| Hold(lock, owner))
}

impl LockOperation {
    pub(super) async fn apply(&self, backend: &dyn Backend, world: &World) -> Seen {
        match self {
            Self::Acquire(Hold(lock, owner), lease) => {
                Seen::of(backend.acquire(&world.lock(*lock), world.owner(*owner), *lease).await)
            }
            Self::Release(Hold(lock, owner)) => {
                Seen::of(backend.release(&world.lock(*lock), world.owner(*owner)).await)
            }
            Self::Abandon(Hold(lock, owner)) => {
                Seen::of(backend.abandon(&world.lock(*lock), world.owner(*owner)).await)
            }
            Self::Renew(holds) => renew(backend, world, holds).await,
            Self::SetHolds(name, owner, holds) => {
                let lock = world.lock(Lock(LockKind::Reentrant, *name));
                Seen::of(backend.set_holds(&lock, world.owner(*owner), *holds).await)
            }
            Self::Inspect(lock) => Seen::of(backend.inspect(&world.lock(*lock)).await),
            Self::ForceRelease(lock) => Seen::of(backend.force_release(&world.lock(*lock)).await),
        }
    }
}

impl World {
    fn lock(&self, Lock(kind, name): Lock) -> LockKey {
        LockKey { kind, name: self.name(name) }
    }
}

impl Reply for Release {}
impl Reply for Renewal {}
impl Reply for bool {}
impl Reply for Vec<Seen> {}

async fn renew(backend: &dyn Backend, world: &World, holds: &[(Hold, Duration)]) -> Seen {
    let requests: Vec<_> = holds
        .iter()
        .map(|&(Hold(lock, owner), lease)| {
            RenewalRequest { lock: world.lock(lock), owner: world.owner(owner), lease } //
        })
        .collect();
    let replies: Vec<_> = backend.renew(&requests).await.into_iter().map(Seen::of).collect();
    Seen::of(Ok(replies))
}
