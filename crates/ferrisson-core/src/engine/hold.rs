use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{self, Instant},
};

use super::{
    Context,
    cleanup::{GiveBack, Object},
    completing::Completing,
};
use crate::{
    backend::{ABANDON_MEMORY, BackendError, Failure, LockKey, Release, Renewal, RenewalRequest},
    error::{Error, LossReason, Result},
    owner::{FencingToken, OwnerId},
};

/// One hold of a lock: what its guards and the keeper share.
#[derive(Debug)]
pub(crate) struct Hold {
    context: Arc<Context>,
    key: LockKey,
    owner: OwnerId,
    token: Option<FencingToken>,
    /// An earlier request of this owner may still be under way.
    tainted: bool,
    runtime: Handle,
    guards: AtomicU32,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// Until then no other owner can have the lock, whatever the network does.
    valid_until: Instant,
    /// What the keeper asks for; `None` for a fixed lease.
    renew_for: Option<Duration>,
    /// Shortest lease that a request of unknown outcome may still set.
    ceiling: Duration,
    renewing: bool,
    suspended: bool,
    lost: Option<LossReason>,
}

/// What is known of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldState {
    /// Held; the last renewal, if any, was confirmed.
    Held,
    /// Held until its lease ends, but the last renewal failed.
    Suspended,
    /// No longer held. Final.
    Lost(LossReason),
}

/// How a grant was obtained.
pub(crate) struct Grant {
    pub(crate) key: LockKey,
    pub(crate) owner: OwnerId,
    pub(crate) token: Option<FencingToken>,
    pub(crate) tainted: bool,
    pub(crate) sent: Instant,
    pub(crate) lease: Duration,
    pub(crate) renew: bool,
}

impl Hold {
    /// A hold from a grant, known to the keeper.
    pub(crate) fn new(context: &Arc<Context>, grant: Grant) -> Arc<Self> {
        let Grant { key, owner, token, tainted, sent, lease, renew } = grant;
        let hold = Arc::new(Self {
            context: Arc::clone(context),
            key,
            owner,
            token,
            tainted,
            runtime: Handle::current(),
            guards: AtomicU32::new(1),
            state: Mutex::new(State {
                valid_until: valid_until(sent, lease),
                renew_for: renew.then_some(lease),
                ceiling: if tainted { lease } else { Duration::MAX },
                renewing: false,
                suspended: false,
                lost: None,
            }),
            changed: Notify::new(),
        });
        context.keeper.add(context, &hold, renew.then(|| sent + lease / 3));
        hold
    }

    pub(crate) const fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) const fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) const fn owner(&self) -> OwnerId {
        self.owner
    }

    pub(crate) const fn token(&self) -> Option<FencingToken> {
        self.token
    }

    pub(crate) fn guards(&self) -> u32 {
        self.guards.load(Ordering::Acquire)
    }

    pub(crate) fn state(&self) -> HoldState {
        let mut state = self.locked();
        state.check_clock();
        match state.lost {
            Some(reason) => HoldState::Lost(reason),
            None if state.suspended => HoldState::Suspended,
            None => HoldState::Held,
        }
    }

    /// Time that is left, zero once lost.
    pub(crate) fn remaining(&self) -> Duration {
        let state = self.locked();
        match state.lost {
            Some(_) => Duration::ZERO,
            None => state.valid_until.saturating_duration_since(Instant::now()),
        }
    }

    /// Resolves when the hold is lost: by the clock, so also when nothing else runs.
    pub(crate) async fn lost(&self) -> LossReason {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let HoldState::Lost(reason) = self.state() {
                return reason;
            }
            let valid_until = self.locked().valid_until;
            tokio::select! {
                () = changed => {}
                () = time::sleep_until(valid_until) => {}
            }
        }
    }

    /// Ends the hold, if it has not ended before; answers how it did.
    pub(crate) fn lose(&self, reason: LossReason) -> LossReason {
        let mut state = self.locked();
        state.check_clock();
        let reason = *state.lost.get_or_insert(reason);
        drop(state);
        self.changed.notify_waiters();
        reason
    }

    pub(crate) fn error(&self, reason: LossReason) -> Error {
        Error::LeaseLost { name: self.key.name.clone(), reason }
    }

    /// One more guard.
    pub(crate) fn enter(&self) {
        self.guards.fetch_add(1, Ordering::AcqRel);
    }

    /// One guard less; answers how many are left.
    pub(crate) fn leave(&self) -> u32 {
        self.guards.fetch_sub(1, Ordering::AcqRel) - 1
    }

    /// Stops renewals; the lease ends by itself.
    pub(crate) fn retire(&self) {
        self.context.keeper.remove(self.owner);
    }

    /// Not if the store has said that it is not ours, nor after the client has released it.
    pub(crate) fn is_worth_releasing(&self) -> bool {
        !matches!(self.locked().lost, Some(LossReason::Taken | LossReason::Closed))
    }

    /// Releases; with an error a background task goes on until the lease has ended.
    pub(crate) async fn release(self: &Arc<Self>) -> Result<Release, BackendError> {
        self.retire();
        let until = Instant::now() + self.context.config.patience;
        let (end, release) = self.releasing();
        release.run(&self.context, until.min(end), end).await
    }

    /// Releases without anybody waiting for it.
    pub(crate) fn release_in_background(self: &Arc<Self>) {
        self.retire();
        let (end, release) = self.releasing();
        release.in_background(&self.context, &self.runtime, end);
    }

    /// After this time there is nothing left to release.
    fn releasing(&self) -> (Instant, GiveBack) {
        let object = Object::Lock(self.key.clone());
        let was_held = !matches!(self.state(), HoldState::Lost(_));
        let release = GiveBack { object, owner: self.owner, tainted: self.tainted, was_held };
        let now = Instant::now();
        if self.tainted {
            return (now + ABANDON_MEMORY, release);
        }
        let state = self.locked();
        // A renewal that is still under way may be executed as late as now.
        let last = state.valid_until.max(now + state.renew_for.unwrap_or_default());
        // The margin by which we end before the server does, and what the clocks may differ.
        (last + Duration::from_secs(1), release)
    }

    /// Tells the store how many guards there are.
    pub(crate) fn show_holds_in_background(self: &Arc<Self>) {
        let hold = Arc::clone(self);
        let task = async move {
            let holds = hold.guards();
            drop(hold.context.backend.set_holds(&hold.key, hold.owner, holds).await);
        };
        self.context.tasks.spawn_on(task, &self.runtime);
    }

    /// Sets a new lease from now.
    pub(crate) async fn renew(self: &Arc<Self>, lease: Duration) -> Result<()> {
        self.begin_renewal(lease).await?;
        let hold = Arc::clone(self);
        let renewal = async move {
            let sent = Instant::now();
            let request = hold.request(lease);
            let mut replies = hold.context.backend.renew(&[request]).await;
            let reply = replies.pop().expect("one reply for one request");
            hold.renewed(sent, lease, &reply);
            hold.context.keeper.reschedule(&hold, hold.next_renewal(sent));
            reply
        };
        match Completing::new(&self.context, renewal).await {
            Ok(_) => match self.state() {
                HoldState::Lost(reason) => Err(self.error(reason)),
                HoldState::Held | HoldState::Suspended => Ok(()),
            },
            Err(error) => Err(Error::of("renewal", &self.key.name, error)),
        }
    }

    /// Takes the turn to renew: two renewals under way could be executed in either order.
    async fn begin_renewal(&self, lease: Duration) -> Result<()> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = self.locked();
                state.check_clock();
                if let Some(reason) = state.lost {
                    return Err(self.error(reason));
                }
                if !state.renewing {
                    state.renewing = true;
                    if state.renew_for.is_some() {
                        state.renew_for = Some(lease);
                    }
                    // A shorter lease counts from the moment when it may be executed, for those
                    // who wait for the loss, too.
                    state.valid_until = state.valid_until.min(valid_until(Instant::now(), lease));
                    drop(state);
                    self.changed.notify_waiters();
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    /// The keeper's turn to renew; `None` if there is nothing to do or somebody else renews.
    pub(crate) fn begin_automatic_renewal(&self) -> Option<RenewalRequest> {
        let mut state = self.locked();
        state.check_clock();
        let lease = state.renew_for?;
        if state.lost.is_some() || state.renewing {
            return None;
        }
        state.renewing = true;
        Some(self.request(lease))
    }

    fn request(&self, lease: Duration) -> RenewalRequest {
        RenewalRequest { lock: self.key.clone(), owner: self.owner, lease }
    }

    /// What came of a renewal that was sent at `sent`.
    pub(crate) fn renewed(
        &self,
        sent: Instant,
        lease: Duration,
        reply: &Result<Renewal, BackendError>,
    ) {
        let mut state = self.locked();
        state.renewing = false;
        // A hold that has been called lost is never called held again.
        state.check_clock();
        match reply {
            Ok(Renewal::Renewed) => {
                state.suspended = false;
                state.valid_until = valid_until(sent, lease.min(state.ceiling));
            }
            Ok(Renewal::NotHeld) => {
                state.lost.get_or_insert(LossReason::Taken);
            }
            // Another kind of value is in its place.
            Err(error) if error.failure() == Failure::WrongType => {
                state.lost.get_or_insert(LossReason::Taken);
            }
            Err(error) => {
                state.suspended = true;
                if error.is_ambiguous() {
                    state.ceiling = state.ceiling.min(lease);
                }
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// When the keeper has to renew next: at a third of the lease, and after a failure sooner.
    pub(crate) fn next_renewal(&self, sent: Instant) -> Option<Instant> {
        let state = self.locked();
        let lease = state.renew_for?.min(state.ceiling);
        if state.lost.is_some() {
            return None;
        }
        if !state.suspended {
            return Some(sent + lease / 3);
        }
        let now = Instant::now();
        let left = state.valid_until.saturating_duration_since(now);
        Some(now + (lease / 12).min(left / 2).max(Duration::from_millis(10)))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check_clock(&mut self) {
        if self.lost.is_none() && Instant::now() >= self.valid_until {
            self.lost = Some(LossReason::Expired);
        }
    }
}

/// Until when a lease that was asked for at `sent` is safe: it started at the server after that,
/// the clocks may run apart by a thousandth, and a margin is left for the holder to stop.
fn valid_until(sent: Instant, lease: Duration) -> Instant {
    let margin = (lease / 100).max(Duration::from_millis(5));
    sent + lease.saturating_sub(lease / 1000).saturating_sub(margin)
}
