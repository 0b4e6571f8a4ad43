//! Counting semaphores: the trait, the handle and the permit.

mod permit;
mod source;

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::permit::SemaphorePermit;
use self::source::PermitSource;
use crate::{
    backend::Topic,
    engine::{Context, acquire},
    error::{Error, Result},
    name::Name,
};

/// Most permits that one call can ask for; Java's `int` is the limit of the shared format.
pub const MAX_PERMITS: u32 = i32::MAX as u32;

/// A counting semaphore that many processes share.
///
/// What applications pass around and mock: `&dyn Semaphore`. The methods of [`SemaphoreHandle`]
/// do the same.
///
/// Permits have no lease, as in Redisson's `RSemaphore`: a process that dies takes its permits
/// with it, until somebody calls [`release`](Self::release) in its place.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Semaphore: Debug + Send + Sync {
    /// The name that all processes share.
    fn name(&self) -> &Name;

    /// Waits until `permits` are available and takes them. See [`SemaphoreHandle::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and takes no permits.
    ///
    /// # Errors
    ///
    /// As [`SemaphoreHandle::try_acquire`].
    async fn acquire(&self, permits: u32) -> Result<SemaphorePermit>;

    /// Takes `permits` if they get available within `wait`. See [`SemaphoreHandle::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and takes no permits.
    ///
    /// # Errors
    ///
    /// As [`SemaphoreHandle::try_acquire`].
    async fn try_acquire(&self, permits: u32, wait: Duration) -> Result<Option<SemaphorePermit>>;

    /// Adds permits without having had them. See [`SemaphoreHandle::release`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`SemaphoreHandle::release`].
    async fn release(&self, permits: u32) -> Result<()>;

    /// Sets the number of permits if the semaphore does not exist. See
    /// [`SemaphoreHandle::try_set_permits`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`SemaphoreHandle::release`].
    async fn try_set_permits(&self, permits: u32) -> Result<bool>;

    /// Changes the number of permits. See [`SemaphoreHandle::add_permits`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`SemaphoreHandle::release`].
    async fn add_permits(&self, permits: i32) -> Result<()>;

    /// Takes all available permits away. See [`SemaphoreHandle::drain_permits`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`SemaphoreHandle::release`].
    async fn drain_permits(&self) -> Result<i64>;

    /// The number of available permits; negative if more were taken away than there were.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`SemaphoreHandle::release`].
    async fn available_permits(&self) -> Result<i64>;
}

/// A semaphore of one client. Made by [`Client::semaphore`](crate::Client::semaphore) without any
/// I/O; clone it freely.
///
/// A semaphore that nobody has set has no permits: call
/// [`try_set_permits`](Self::try_set_permits) first, from as many processes as you like.
#[derive(Clone, Debug)]
pub struct SemaphoreHandle {
    context: Arc<Context>,
    name: Name,
}

impl SemaphoreHandle {
    pub(crate) fn new(context: &Arc<Context>, name: Name) -> Self {
        Self { context: Arc::clone(context), name }
    }

    /// The name that all processes share.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Waits until `permits` are available and takes them, all or none. Redisson: `acquire(n)`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and takes no permits.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire). A failing backend is ridden out for the client's
    /// patience, then reported.
    pub async fn acquire(&self, permits: u32) -> Result<SemaphorePermit> {
        loop {
            if let Some(permit) = self.try_acquire(permits, Duration::MAX).await? {
                return Ok(permit);
            }
        }
    }

    /// Takes `permits`, all or none, if they get available within `wait`; zero is one try.
    /// Redisson: `tryAcquire(n, wait)`.
    ///
    /// Tasks of one client are served in the order in which they asked, also when a later one
    /// asks for less; between clients there is no order. Zero permits are granted at once, without
    /// a word to the server.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and takes no permits. A request that
    /// was already sent is completed in the background, and what it took is given back.
    ///
    /// # Errors
    ///
    /// - [`InvalidArgument`](Error::InvalidArgument): an empty or huge name, or more than
    ///   [`MAX_PERMITS`].
    /// - [`Unavailable`](Error::Unavailable), [`Refused`](Error::Refused): the backend cannot
    ///   serve. What failed with an unknown outcome is undone in the background.
    /// - [`WrongType`](Error::WrongType): the name is used by something else. A text that is not a
    ///   number is [`Refused`](Error::Refused).
    /// - [`Closed`](Error::Closed).
    pub async fn try_acquire(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<SemaphorePermit>> {
        self.context.check(&self.name)?;
        self.check(permits)?;
        if permits == 0 {
            return Ok(Some(SemaphorePermit::detached(self.name.clone(), 0)));
        }
        let source = PermitSource::new(&self.context, &self.name, permits);
        let taken = acquire::acquire(&self.context, source, wait).await?;
        Ok(taken.map(SemaphorePermit::new))
    }

    /// Adds `permits` without having had them, and wakes waiters. Creates an absent semaphore.
    /// This is how permits of a dead process are given back. Redisson: `release(n)`.
    ///
    /// A [`SemaphorePermit`] gives its own back by itself.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](Error::InvalidArgument), [`Unavailable`](Error::Unavailable) (with an
    /// unknown outcome it is never repeated), [`Refused`](Error::Refused), also for a number that
    /// would leave the range, [`WrongType`](Error::WrongType), [`Closed`](Error::Closed).
    pub async fn release(&self, permits: u32) -> Result<()> {
        self.check(permits)?;
        if permits == 0 {
            return self.context.check(&self.name);
        }
        self.add("release", i64::from(permits), true).await
    }

    /// Sets the number of permits if the semaphore does not exist, and wakes waiters; `false`, and
    /// nothing changed, if it does. A semaphore with no permits left exists. Redisson:
    /// `trySetPermits(n)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        let set = self
            .context
            .call("initialisation", &self.name, move |context, name| async move {
                context.backend.init_permits(&name, permits).await
            })
            .await?;
        if set {
            self.released();
        }
        Ok(set)
    }

    /// Raises or lowers the number of permits, also below zero, and wakes waiters. Creates an
    /// absent semaphore. Drops a time to live of the key. Redisson: `addPermits(n)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    pub async fn add_permits(&self, permits: i32) -> Result<()> {
        self.add("change of permits", i64::from(permits), false).await
    }

    /// Takes all available permits away and answers how many there were. Redisson:
    /// `drainPermits()`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    pub async fn drain_permits(&self) -> Result<i64> {
        self.context
            .call("drain", &self.name, |context, name| async move {
                context.backend.drain_permits(&name).await
            })
            .await
    }

    /// The number of available permits; negative if more were taken away than there were.
    /// Redisson: `availablePermits()`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    pub async fn available_permits(&self) -> Result<i64> {
        self.context
            .call("count", &self.name, |context, name| async move {
                context.backend.available_permits(&name).await
            })
            .await
    }

    async fn add(&self, operation: &'static str, permits: i64, keep_ttl: bool) -> Result<()> {
        self.context
            .call(operation, &self.name, move |context, name| async move {
                context.backend.add_permits(&name, permits, keep_ttl).await
            })
            .await?;
        self.released();
        Ok(())
    }

    fn released(&self) {
        self.context.queues.released(&Topic::Semaphore(self.name.clone()));
    }

    fn check(&self, permits: u32) -> Result<()> {
        if permits > MAX_PERMITS {
            return Err(Error::invalid(&self.name, "permits", "more than 2147483647"));
        }
        Ok(())
    }
}

#[async_trait]
impl Semaphore for SemaphoreHandle {
    fn name(&self) -> &Name {
        Self::name(self)
    }

    async fn acquire(&self, permits: u32) -> Result<SemaphorePermit> {
        Self::acquire(self, permits).await
    }

    async fn try_acquire(&self, permits: u32, wait: Duration) -> Result<Option<SemaphorePermit>> {
        Self::try_acquire(self, permits, wait).await
    }

    async fn release(&self, permits: u32) -> Result<()> {
        Self::release(self, permits).await
    }

    async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        Self::try_set_permits(self, permits).await
    }

    async fn add_permits(&self, permits: i32) -> Result<()> {
        Self::add_permits(self, permits).await
    }

    async fn drain_permits(&self) -> Result<i64> {
        Self::drain_permits(self).await
    }

    async fn available_permits(&self) -> Result<i64> {
        Self::available_permits(self).await
    }
}
