use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::source::HeldLock;
use crate::{
    backend::{LockKind, Release, Renewal},
    engine::{
        completing::Completing,
        hold::{Hold, HoldState},
    },
    error::{Error, LossReason, Result},
    lease,
    name::Name,
    owner::{FencingToken, OwnerId},
};

/// A held lock. Dropping it releases the lock in the background.
///
/// The guard owns all it needs and may be sent to other tasks. What it tells about the hold is
/// computed from the clock, counted from before the request was sent, so a guard stops being
/// [held](Self::is_held) before the server can give the lock to somebody else, also when this
/// process was stopped or cut off.
#[must_use = "the lock is released when the guard is dropped"]
#[clippy::has_significant_drop]
pub struct LockGuard(Inner);

enum Inner {
    Held(HeldLock),
    /// Holds nothing; for mocks.
    Detached {
        name: Name,
        owner: OwnerId,
    },
}

impl LockGuard {
    pub(crate) const fn new(held: HeldLock) -> Self {
        Self(Inner::Held(held))
    }

    /// A guard that holds nothing and is never lost: what a mock of [`Lock`](super::Lock) returns.
    pub fn detached(name: impl Into<Name>) -> Self {
        Self(Inner::Detached { name: name.into(), owner: OwnerId::new(uuid::Uuid::nil(), 0) })
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &Name {
        match &self.0 {
            Inner::Held(held) => &held.hold().key().name,
            Inner::Detached { name, .. } => name,
        }
    }

    /// The owner under which the server has this hold.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        match &self.0 {
            Inner::Held(held) => held.hold().owner(),
            Inner::Detached { owner, .. } => *owner,
        }
    }

    /// Whether the lock is certainly still held: a look at the clock, without I/O. Once `false` it
    /// stays `false`.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !matches!(self.state(), HoldState::Lost(_))
    }

    /// What is known of the hold, without I/O.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold().map_or(HoldState::Held, |hold| hold.state())
    }

    /// How long the lock is certainly still held if nothing renews it; zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold().map_or(Duration::MAX, |hold| hold.remaining())
    }

    /// The token of this grant, for kinds of locks that have one. Never asked for again later, so
    /// it is not the token of somebody else.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.hold().and_then(|hold| hold.token())
    }

    /// How many guards share this hold: 1, and one more for each [`reenter`](Self::reenter).
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.hold().map_or(1, |hold| hold.guards())
    }

    /// Resolves when the lock is lost, before the server can give it to another owner: the lease
    /// ran out, a renewal was refused because the lock was deleted or forced, or the client was
    /// closed. Never resolves otherwise.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; can be called as often as you like.
    pub async fn lost(&self) -> LossReason {
        match self.hold() {
            Some(hold) => hold.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Runs the protected work, and stops it, by dropping it, when the lock is lost. The lock is
    /// still held afterwards.
    ///
    /// # Cancel safety
    ///
    /// Dropping this drops the work; the lock stays held.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`](Error::LeaseLost) when the lock was lost before the work had ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ferrisson_core::{LockGuard, Result};
    /// # async fn pay_salaries() {}
    /// # async fn example(guard: LockGuard) -> Result<()> {
    /// guard.run(pay_salaries()).await?;
    /// guard.unlock().await
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        tokio::select! {
            biased;
            reason = self.lost() => Err(Error::LeaseLost { name: self.name().clone(), reason }),
            output = work => Ok(output),
        }
    }

    /// Sets a new lease from now, longer or shorter. A watchdog goes on with this lease.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background. Either lease may then be in
    /// force, and the guard counts with the shorter.
    ///
    /// # Errors
    ///
    /// - [`InvalidArgument`](Error::InvalidArgument): under 10 ms or over 100 years. Nothing is
    ///   changed.
    /// - [`LeaseLost`](Error::LeaseLost): the lock is no longer held.
    /// - [`Unavailable`](Error::Unavailable), [`Refused`](Error::Refused): the old lease goes on,
    ///   cut to the new one if that is shorter.
    pub async fn renew(&self, lease: Duration) -> Result<()> {
        let lease = lease::check_lease(lease, self.name())?;
        match self.hold() {
            Some(hold) => hold.renew(lease).await,
            None => Ok(()),
        }
    }

    /// Enters the lock once more: a second guard of the same hold. The lock is free when both are
    /// gone. The lease is not changed. Redisson does this by itself when the same thread locks
    /// again; a Rust task has no such identity, so the guard is the proof.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call leaves the number of holds as it was.
    ///
    /// # Errors
    ///
    /// - [`LeaseLost`](Error::LeaseLost): the lock is no longer held.
    /// - [`InvalidArgument`](Error::InvalidArgument): a plain lock, which has no place for a count.
    /// - [`Unavailable`](Error::Unavailable), [`Refused`](Error::Refused): not entered.
    pub async fn reenter(&self) -> Result<Self> {
        let Some(hold) = self.hold() else { return Ok(Self::detached(self.name().clone())) };
        if hold.key().kind == LockKind::Plain {
            return Err(Error::invalid(self.name(), "re-entry", "a plain lock has no hold count"));
        }
        if let HoldState::Lost(reason) = hold.state() {
            return Err(hold.error(reason));
        }
        // Counted first: should this call be dropped, the share takes itself back.
        let share = HeldLock::share(hold);
        let request = async move {
            let hold = share.hold();
            let holds = hold.guards();
            let reply = hold.context().backend.set_holds(hold.key(), hold.owner(), holds).await;
            (reply, share)
        };
        match Completing::new(hold.context(), request).await {
            (Ok(Renewal::Renewed), share) => Ok(Self::new(share)),
            (Ok(Renewal::NotHeld), _) => Err(hold.error(hold.lose(LossReason::Taken))),
            (Err(error), _) => Err(Error::of("re-entry", self.name(), error)),
        }
    }

    /// Releases the lock, and tells whether it had been held until now. The last guard of a hold
    /// frees the lock; an earlier one only lowers the count.
    ///
    /// # Cancel safety
    ///
    /// A dropped call is completed in the background: the lock is released.
    ///
    /// # Errors
    ///
    /// - [`LeaseLost`](Error::LeaseLost): the lock was no longer held. Another owner's lock is not
    ///   touched.
    /// - [`Unavailable`](Error::Unavailable), [`Refused`](Error::Refused): not confirmed within
    ///   the client's patience. It is not renewed any more, and a background task goes on trying
    ///   to release it until the lease is over.
    pub async fn unlock(self) -> Result<()> {
        let held = match self.0 {
            Inner::Held(held) => held,
            Inner::Detached { .. } => return Ok(()),
        };
        let hold = Arc::clone(held.hold());
        if let HoldState::Lost(reason @ (LossReason::Taken | LossReason::Closed)) = hold.state() {
            return Err(hold.error(reason));
        }
        Completing::new(hold.context(), unlock(held)).await
    }

    /// Keeps the lock until its lease ends, without renewing it any more.
    ///
    /// While other guards share the hold, they decide: it is renewed for them, and the last of them
    /// releases it.
    pub fn forget(self) {
        if let Inner::Held(held) = self.0 {
            let hold = held.into_hold();
            if hold.leave() == 0 {
                hold.retire();
            }
        }
    }

    fn hold(&self) -> Option<&Arc<Hold>> {
        match &self.0 {
            Inner::Held(held) => Some(held.hold()),
            Inner::Detached { .. } => None,
        }
    }
}

async fn unlock(held: HeldLock) -> Result<()> {
    let hold = held.into_hold();
    let name = &hold.key().name;
    let holds = hold.leave();
    if holds > 0 {
        let reply = hold.context().backend.set_holds(hold.key(), hold.owner(), holds).await;
        return match reply {
            Ok(Renewal::Renewed) => Ok(()),
            Ok(Renewal::NotHeld) => Err(hold.error(hold.lose(LossReason::Taken))),
            Err(error) => Err(Error::of("release", name, error)),
        };
    }
    match hold.release().await {
        Ok(Release::Released) => Ok(()),
        Ok(Release::NotHeld) => match hold.state() {
            HoldState::Lost(reason) => Err(hold.error(reason)),
            HoldState::Held | HoldState::Suspended => Err(hold.error(LossReason::Taken)),
        },
        Err(error) => Err(Error::of("release", name, error)),
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", self.name())
            .field("owner", &self.owner())
            .field("state", &self.state())
            .finish()
    }
}
