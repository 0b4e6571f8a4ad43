use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{self, Instant},
};

use super::{Context, hold::Hold};
use crate::{backend::RenewalRequest, owner::OwnerId};

/// How long the task stays after the last renewed hold, so that a busy lock does not start and end
/// it every time.
const LINGER: Duration = Duration::from_millis(100);

/// The watchdog of a client: knows every hold, and renews those that ask for it.
///
/// One task for all holds, which ends soon after the last. Renewals that are due at about the same
/// time go out in batches, and batches do not wait for each other.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    state: Mutex<State>,
    rescheduled: Notify,
}

#[derive(Debug, Default)]
struct State {
    holds: HashMap<u64, Entry>,
    schedule: BTreeMap<(Instant, u64), Arc<Hold>>,
    /// When the task wakes up by itself; `None` if it does not run.
    awake_at: Option<Instant>,
    /// Holds that are renewed, scheduled or in the middle of it.
    renewed: usize,
}

#[derive(Debug)]
struct Entry {
    hold: Arc<Hold>,
    renews: bool,
    due: Option<Instant>,
}

impl Keeper {
    /// Takes a hold in; `due` is when it has to be renewed first.
    pub(crate) fn add(&self, context: &Arc<Context>, hold: &Arc<Hold>, due: Option<Instant>) {
        let number = hold.owner().hold();
        let mut state = self.locked();
        let entry = Entry { hold: Arc::clone(hold), renews: due.is_some(), due: None };
        state.holds.insert(number, entry);
        let Some(due) = due else { return };
        state.renewed += 1;
        state.schedule(number, due);
        match state.awake_at {
            Some(awake_at) if awake_at <= due => {}
            Some(_) => self.rescheduled.notify_one(),
            None => {
                state.awake_at = Some(due);
                drop(state);
                context.tasks.spawn(run(Task::new(context)));
            }
        }
    }

    /// Lets a hold go: it is not renewed any more.
    pub(crate) fn remove(&self, owner: OwnerId) {
        let mut state = self.locked();
        let Some(entry) = state.holds.remove(&owner.hold()) else { return };
        if let Some(due) = entry.due {
            state.schedule.remove(&(due, owner.hold()));
        }
        if entry.renews {
            state.renewed -= 1;
            let far = state.awake_at.is_some_and(|at| at > Instant::now() + LINGER);
            if state.renewed == 0 && far {
                self.rescheduled.notify_one();
            }
        }
    }

    /// A hold was renewed, or not, by its own guard: the next renewal is due at `due`.
    pub(crate) fn reschedule(&self, hold: &Hold, due: Option<Instant>) {
        let number = hold.owner().hold();
        let mut state = self.locked();
        let Some(old) = state.holds.get_mut(&number).and_then(|entry| entry.due.take()) else {
            return;
        };
        state.schedule.remove(&(old, number));
        drop(state);
        self.put_back(hold, due);
    }

    /// Lets all holds go.
    pub(crate) fn drain(&self) -> Vec<Arc<Hold>> {
        let mut state = self.locked();
        state.schedule.clear();
        state.renewed = 0;
        self.rescheduled.notify_one();
        state.holds.drain().map(|(_, entry)| entry.hold).collect()
    }

    /// Takes out what is due, and tells when to look again; `None` ends the task.
    fn due(&self, slack: Duration, pace: Pace) -> (Vec<Arc<Hold>>, Option<Instant>) {
        let now = Instant::now();
        let mut state = self.locked();
        let mut due = Vec::new();
        while let Some(first) = state.schedule.first_entry()
            && first.key().0 <= now + if due.is_empty() { Duration::ZERO } else { slack }
        {
            let hold = first.remove();
            if let Some(entry) = state.holds.get_mut(&hold.owner().hold()) {
                entry.due = None;
            }
            due.push(hold);
        }
        let next = state.schedule.keys().next().map(|(at, _)| *at);
        // Holds whose renewal is under way come back to the schedule by themselves.
        let next = match next {
            Some(at) => Some(at),
            None if state.renewed > 0 => Some(now + Duration::from_secs(1)),
            None if pace == Pace::Lingered => None,
            None => Some(now + LINGER),
        };
        // Woken a moment ago: a lock that is taken and released all the time must not do it again
        // each time.
        let next = match pace {
            Pace::Woken => next.map(|at| at.min(now + LINGER)),
            Pace::Slept | Pace::Lingered => next,
        };
        state.awake_at = next;
        (due, next)
    }

    /// The renewal of a hold is over; it is due again at `due`.
    fn put_back(&self, hold: &Hold, due: Option<Instant>) {
        let number = hold.owner().hold();
        let mut state = self.locked();
        // Released meanwhile: stays away.
        if !state.holds.contains_key(&number) {
            return;
        }
        match due {
            Some(due) => {
                state.schedule(number, due);
                if state.awake_at.is_none_or(|awake_at| due < awake_at) {
                    self.rescheduled.notify_one();
                }
            }
            // Lost: nothing to renew, but still known until its guard goes.
            None => {
                let entry = state.holds.get_mut(&number).expect("looked up above");
                if std::mem::take(&mut entry.renews) {
                    state.renewed -= 1;
                }
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn schedule(&mut self, number: u64, due: Instant) {
        if let Some(entry) = self.holds.get_mut(&number) {
            entry.due = Some(due);
            self.schedule.insert((due, number), Arc::clone(&entry.hold));
        }
    }
}

/// Why the task looks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Somebody has woken it.
    Woken,
    /// It is time.
    Slept,
    /// It is time, and there was nothing to renew when it went to sleep.
    Lingered,
}

/// The task. It can end before its time, with its runtime: then the next hold starts another.
struct Task {
    context: Arc<Context>,
    is_over: bool,
}

impl Task {
    fn new(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), is_over: false }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_over {
            self.context.keeper.locked().awake_at = None;
        }
    }
}

async fn run(mut task: Task) {
    let context = Arc::clone(&task.context);
    // Renewals may go out this much early, to travel together.
    let slack = context.config.watchdog_lease / 60;
    let mut pace = Pace::Slept;
    loop {
        let (due, next) = context.keeper.due(slack, pace);
        let Some(next) = next else {
            task.is_over = true;
            return;
        };
        for chunk in due.chunks(context.config.renewal_batch) {
            context.tasks.spawn(renew(Arc::clone(&context), chunk.to_vec()));
        }
        let idle = context.keeper.locked().renewed == 0;
        tokio::select! {
            biased;
            () = context.closed.cancelled() => return,
            () = context.keeper.rescheduled.notified() => pace = Pace::Woken,
            () = time::sleep_until(next) => pace = if idle { Pace::Lingered } else { Pace::Slept },
        }
    }
}

/// Renews one batch.
async fn renew(context: Arc<Context>, holds: Vec<Arc<Hold>>) {
    let sent = Instant::now();
    let (mut asked, mut requests): (Vec<Arc<Hold>>, Vec<RenewalRequest>) = (vec![], vec![]);
    for hold in holds {
        match hold.begin_automatic_renewal() {
            Some(request) => {
                asked.push(hold);
                requests.push(request);
            }
            // Its own guard renews it at the moment, or it is lost.
            None => context.keeper.put_back(&hold, hold.next_renewal(sent)),
        }
    }
    if requests.is_empty() {
        return;
    }
    let replies = context.backend.renew(&requests).await;
    debug_assert_eq!(replies.len(), requests.len(), "one reply for each request");
    for ((hold, request), reply) in asked.iter().zip(&requests).zip(&replies) {
        hold.renewed(sent, request.lease, reply);
        context.keeper.put_back(hold, hold.next_renewal(sent));
    }
}
