use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::Instant};

use crate::{
    backend::{ABANDON_MEMORY, BackendError, Failure, PermitAttempt, PermitRecord, Topic},
    engine::{
        Context,
        acquire::{Source, Tried},
        cleanup::{Claim, GiveBack, Object},
    },
    name::Name,
};

/// One acquisition of permits.
pub(crate) struct PermitSource {
    context: Arc<Context>,
    name: Name,
    permits: u32,
    claim: Claim,
}

impl PermitSource {
    pub(crate) fn new(context: &Arc<Context>, name: &Name, permits: u32) -> Self {
        Self {
            claim: Claim::new(
                context,
                Object::Permits { name: name.clone(), permits, record: PermitRecord::Kept },
            ),
            context: Arc::clone(context),
            name: name.clone(),
            permits,
        }
    }
}

impl Source for PermitSource {
    type Grant = HeldPermits;

    const OPERATION: &'static str = "acquisition";

    fn topic(&self) -> Topic {
        Topic::Semaphore(self.name.clone())
    }

    fn permits(&self) -> i64 {
        i64::from(self.permits)
    }

    fn poll_interval(&self, _idle: u32) -> Duration {
        self.context.config.poll_interval
    }

    async fn attempt(&mut self) -> Result<Tried<HeldPermits>, BackendError> {
        let (owner, taken) = (self.claim.owner(), Instant::now());
        let attempt = self.context.backend.acquire_permits(&self.name, owner, self.permits).await;
        match attempt {
            Ok(PermitAttempt::Acquired { available }) => {
                let (owner, tainted) = self.claim.won();
                let (name, permits) = (self.name.clone(), self.permits);
                let record = PermitRecord::Kept;
                let object = Object::Permits { name: name.clone(), permits, record };
                let release = GiveBack { object, owner, tainted, was_held: true };
                let context = Arc::clone(&self.context);
                let grant = HeldPermits {
                    context,
                    runtime: Handle::current(),
                    name,
                    permits,
                    taken,
                    release: Some(release),
                };
                if self.context.closed.is_cancelled() {
                    return Err(BackendError::new(Failure::Closed, "closed meanwhile"));
                }
                Ok(Tried::Granted { grant, busy_for: Duration::MAX, available })
            }
            Ok(PermitAttempt::Exhausted { available }) => {
                Ok(Tried::Busy { busy_for: None, available })
            }
            Ok(PermitAttempt::Abandoned) => {
                Err(BackendError::new(Failure::Unexpected, "this owner was abandoned"))
            }
            Err(error) => {
                self.claim.failed(&error);
                Err(error)
            }
        }
    }
}

/// Permits that were taken. Dropped, they are given back in the background.
#[derive(Debug)]
pub(crate) struct HeldPermits {
    context: Arc<Context>,
    runtime: Handle,
    name: Name,
    permits: u32,
    taken: Instant,
    release: Option<GiveBack>,
}

impl HeldPermits {
    pub(crate) const fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) const fn permits(&self) -> u32 {
        self.permits
    }

    /// How long the release may be repeated: the store is sure to remember the grant.
    pub(crate) fn end(&self) -> Instant {
        self.taken + ABANDON_MEMORY
    }

    /// The release, for somebody who sees to it himself.
    pub(crate) fn into_release(mut self) -> GiveBack {
        self.begin_release().expect("taken only when it is consumed")
    }

    fn begin_release(&mut self) -> Option<GiveBack> {
        let mut release = self.release.take()?;
        if let Object::Permits { record, .. } = &mut release.object
            // Half of the store's memory is kept in reserve, for a release that takes long.
            && self.taken.elapsed() > ABANDON_MEMORY / 2
        {
            *record = PermitRecord::Expired;
        }
        Some(release)
    }
}

impl Drop for HeldPermits {
    fn drop(&mut self) {
        if let Some(release) = self.begin_release() {
            release.in_background(&self.context, &self.runtime, self.end());
        }
    }
}
