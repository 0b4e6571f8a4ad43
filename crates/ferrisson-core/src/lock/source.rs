use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    backend::{Attempt, BackendError, Failure, LockKey, LockKind, Topic},
    engine::{
        Context,
        acquire::{Source, Tried},
        cleanup::{Claim, Object},
        hold::{Grant, Hold, HoldState},
    },
    error::Result,
    lease::Lease,
};

/// First pause between looks at a plain lock, whose foreign holders do not notify.
const PLAIN_POLL: Duration = Duration::from_millis(50);

/// One acquisition of a lock.
pub(crate) struct LockSource {
    context: Arc<Context>,
    key: LockKey,
    lease: Duration,
    renew: bool,
    claim: Claim,
}

impl LockSource {
    pub(crate) fn new(context: &Arc<Context>, key: &LockKey, lease: Lease) -> Result<Self> {
        context.check(&key.name)?;
        Ok(Self {
            lease: lease.duration(context.config.watchdog_lease, &key.name)?,
            renew: matches!(lease, Lease::AutoRenew),
            claim: Claim::new(context, Object::Lock(key.clone())),
            context: Arc::clone(context),
            key: key.clone(),
        })
    }

    fn hold(&mut self, token: Option<crate::FencingToken>, sent: Instant) -> Arc<Hold> {
        let (owner, tainted) = self.claim.won();
        let (key, lease, renew) = (self.key.clone(), self.lease, self.renew);
        Hold::new(&self.context, Grant { key, owner, token, tainted, sent, lease, renew })
    }
}

impl Source for LockSource {
    type Grant = HeldLock;

    const OPERATION: &'static str = "acquisition";

    fn topic(&self) -> Topic {
        Topic::Lock(self.key.clone())
    }

    fn permits(&self) -> i64 {
        1
    }

    fn poll_interval(&self, idle: u32) -> Duration {
        let longest = self.context.config.poll_interval;
        match self.key.kind {
            LockKind::Plain => PLAIN_POLL.saturating_mul(1 << idle.min(16)).min(longest),
            LockKind::Reentrant => longest,
        }
    }

    async fn attempt(&mut self) -> Result<Tried<HeldLock>, BackendError> {
        let sent = Instant::now();
        let attempt = self.context.backend.acquire(&self.key, self.claim.owner(), self.lease).await;
        match attempt {
            Ok(Attempt::Acquired { token }) => {
                let held = HeldLock(Some(self.hold(token, sent)));
                if self.context.closed.is_cancelled() {
                    return Err(BackendError::new(Failure::Closed, "closed meanwhile"));
                }
                if held.hold().state() != HoldState::Held {
                    return Ok(Tried::Stale);
                }
                Ok(Tried::Granted { grant: held, busy_for: self.lease, available: 0 })
            }
            Ok(Attempt::Contended { remaining }) => {
                Ok(Tried::Busy { busy_for: remaining, available: 0 })
            }
            Ok(Attempt::Abandoned) => {
                Err(BackendError::new(Failure::Unexpected, "this owner was abandoned"))
            }
            Err(error) => {
                self.claim.failed(&error);
                Err(error)
            }
        }
    }
}

/// One guard's share of a hold. Dropped, it gives the share back in the background.
#[derive(Debug)]
pub(crate) struct HeldLock(Option<Arc<Hold>>);

impl HeldLock {
    /// A further share.
    pub(crate) fn share(hold: &Arc<Hold>) -> Self {
        hold.enter();
        Self(Some(Arc::clone(hold)))
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.0.as_ref().expect("taken only when it is consumed")
    }

    /// The hold, for somebody who sees to the release himself.
    pub(crate) fn into_hold(mut self) -> Arc<Hold> {
        self.0.take().expect("taken only when it is consumed")
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let Some(hold) = self.0.take() else { return };
        if hold.leave() > 0 {
            hold.show_holds_in_background();
        } else if hold.is_worth_releasing() {
            hold.release_in_background();
        } else {
            hold.retire();
        }
    }
}
