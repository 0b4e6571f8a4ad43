use std::{fmt, sync::Arc};

use tokio::time::Instant;

use super::source::HeldPermits;
use crate::{
    backend::Release,
    engine::completing::Completing,
    error::{Error, LossReason, Result},
    name::Name,
};

/// Permits of a semaphore. Dropping them gives them back in the background.
#[must_use = "the permits are given back when this is dropped"]
#[clippy::has_significant_drop]
pub struct SemaphorePermit(Inner);

enum Inner {
    Held(HeldPermits),
    /// Nothing to give back; for zero permits and for mocks.
    Detached {
        name: Name,
        permits: u32,
    },
}

impl SemaphorePermit {
    pub(crate) const fn new(held: HeldPermits) -> Self {
        Self(Inner::Held(held))
    }

    /// Permits that nobody has to give back: what a mock of [`Semaphore`](super::Semaphore)
    /// returns.
    pub fn detached(name: impl Into<Name>, permits: u32) -> Self {
        Self(Inner::Detached { name: name.into(), permits })
    }

    /// The name of the semaphore.
    #[must_use]
    pub fn name(&self) -> &Name {
        match &self.0 {
            Inner::Held(held) => held.name(),
            Inner::Detached { name, .. } => name,
        }
    }

    /// How many permits these are.
    #[must_use]
    pub fn permits(&self) -> u32 {
        match &self.0 {
            Inner::Held(held) => held.permits(),
            Inner::Detached { permits, .. } => *permits,
        }
    }

    /// Gives the permits back and tells whether that is confirmed. They are given back exactly
    /// once, however often a request has to be repeated, if they were held for no more than 8
    /// minutes; after that the request is sent once.
    ///
    /// # Cancel safety
    ///
    /// A dropped call is completed in the background: the permits are given back.
    ///
    /// # Errors
    ///
    /// - [`LeaseLost`](Error::LeaseLost): the store no longer knows of these permits; it has lost
    ///   its data.
    /// - [`Unavailable`](Error::Unavailable), [`Refused`](Error::Refused): not confirmed within
    ///   the client's patience; a background task goes on trying.
    pub async fn release(self) -> Result<()> {
        match self.0 {
            Inner::Held(held) => {
                let context = Arc::clone(held.context());
                Completing::new(&context, release(held)).await
            }
            Inner::Detached { .. } => Ok(()),
        }
    }

    /// Keeps the permits for good: the semaphore has that many less.
    pub fn forget(self) {
        if let Inner::Held(held) = self.0 {
            drop(held.into_release());
        }
    }
}

async fn release(held: HeldPermits) -> Result<()> {
    let context = Arc::clone(held.context());
    let (name, end) = (held.name().clone(), held.end());
    let release = held.into_release();
    let until = Instant::now() + context.config.patience;
    match release.run(&context, until, end).await {
        Ok(Release::Released) => Ok(()),
        Ok(Release::NotHeld) => Err(Error::LeaseLost { name, reason: LossReason::Taken }),
        Err(error) => Err(Error::of("release", &name, error)),
    }
}

impl fmt::Debug for SemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit")
            .field("name", self.name())
            .field("permits", &self.permits())
            .finish()
    }
}
