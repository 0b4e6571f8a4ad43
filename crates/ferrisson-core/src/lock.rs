//! Locks: the trait, the handle and the guard.

mod guard;
mod source;

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::guard::LockGuard;
use self::source::LockSource;
use crate::{
    backend::{LockInfo, LockKey, LockKind},
    engine::{Context, acquire},
    error::Result,
    lease::Lease,
    name::Name,
};

/// A lock that many processes share: at most one of them holds it at a time.
///
/// What applications pass around and mock: `&dyn Lock`, `Arc<dyn Lock>`. The methods of
/// [`LockHandle`] do the same and take leases more freely.
///
/// A lock is a **lease**: it ends when its time is over, whatever its holder is doing. The guard
/// tells in time ([`LockGuard::lost`], [`LockGuard::run`]).
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Lock: Debug + Send + Sync {
    /// The name that all processes share.
    fn name(&self) -> &Name;

    /// Waits until the lock is free and takes it. See [`LockHandle::lock_with`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and leaves nothing on the server.
    ///
    /// # Errors
    ///
    /// As [`LockHandle::try_lock`].
    async fn lock(&self, lease: Lease) -> Result<LockGuard>;

    /// Waits for at most `wait`, and takes the lock if it gets free by then. See
    /// [`LockHandle::try_lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and leaves nothing on the server.
    ///
    /// # Errors
    ///
    /// As [`LockHandle::try_lock`].
    async fn try_lock(&self, wait: Duration, lease: Lease) -> Result<Option<LockGuard>>;

    /// Whether anybody holds the lock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`LockHandle::inspect`].
    async fn is_locked(&self) -> Result<bool>;

    /// How long the holder's lease still lasts, `None` if the lock is free. [`Duration::MAX`] if
    /// somebody has taken away its end.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`LockHandle::inspect`].
    async fn remaining_lease(&self) -> Result<Option<Duration>>;

    /// Who holds the lock, how often and how long; `None` if it is free.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`LockHandle::inspect`].
    async fn inspect(&self) -> Result<Option<LockInfo>>;

    /// Frees the lock whoever holds it. See [`LockHandle::force_unlock`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`LockHandle::inspect`].
    async fn force_unlock(&self) -> Result<bool>;
}

/// A lock of one client. Made by [`Client::lock`](crate::Client::lock) and
/// [`Client::plain_lock`](crate::Client::plain_lock) without any I/O; clone it freely.
///
/// Every acquisition has an owner of its own, so two tasks that share a handle exclude each other.
/// Holding it twice is asked for explicitly, from the guard: [`LockGuard::reenter`].
#[derive(Clone, Debug)]
pub struct LockHandle {
    context: Arc<Context>,
    key: LockKey,
}

impl LockHandle {
    pub(crate) fn new(context: &Arc<Context>, kind: LockKind, name: Name) -> Self {
        Self { context: Arc::clone(context), key: LockKey { kind, name } }
    }

    /// The name that all processes share.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.key.name
    }

    /// Waits until the lock is free and takes it, with a lease that is renewed as long as the
    /// guard lives ([`Lease::AutoRenew`]). Redisson: `lock()`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and leaves nothing on the server.
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Self::try_lock). A failing backend is ridden out for the client's patience
    /// (2 s unless configured), then reported.
    pub async fn lock(&self) -> Result<LockGuard> {
        self.lock_with(Lease::AutoRenew).await
    }

    /// As [`lock`](Self::lock), with a lease of your choice. Redisson: `lock(leaseTime, unit)`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and leaves nothing on the server.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn lock_with(&self, lease: impl Into<Lease> + Send) -> Result<LockGuard> {
        let lease = lease.into();
        loop {
            if let Some(guard) = self.try_lock(Duration::MAX, lease).await? {
                return Ok(guard);
            }
        }
    }

    /// Waits for at most `wait`, and takes the lock if it gets free by then. A `wait` of zero is
    /// one try. Redisson: `tryLock(waitTime, leaseTime, unit)`.
    ///
    /// `Ok(None)` means that somebody else holds the lock; trouble is never reported that way.
    /// The lease counts from the moment of the grant, not of the call. The call returns within
    /// `wait` and one command timeout.
    ///
    /// Tasks of one client get a lock in the order in which they asked, and only the first of
    /// them talks to the server; between clients there is no order. A release wakes the waiters
    /// at once. Should every message be lost, a free lock is found within the poll interval (1 s
    /// unless configured), and one whose holder died when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call loses its place in the row and leaves nothing on the server. A
    /// request that was already sent is completed in the background, and what it won is released.
    ///
    /// # Errors
    ///
    /// - [`InvalidArgument`](crate::Error::InvalidArgument): an empty or huge name, a lease under
    ///   10 ms or over 100 years.
    /// - [`Unavailable`](crate::Error::Unavailable), [`Refused`](crate::Error::Refused): the
    ///   backend cannot serve. What failed with an unknown outcome is undone in the background,
    ///   and can win nothing later.
    /// - [`WrongType`](crate::Error::WrongType): the name is used by something else.
    /// - [`LeaseLost`](crate::Error::LeaseLost): the lock was granted, but the answer took longer
    ///   than the lease, at each try in the client's patience or the wait.
    /// - [`Closed`](crate::Error::Closed).
    pub async fn try_lock(
        &self,
        wait: Duration,
        lease: impl Into<Lease> + Send,
    ) -> Result<Option<LockGuard>> {
        let source = LockSource::new(&self.context, &self.key, lease.into())?;
        let hold = acquire::acquire(&self.context, source, wait).await?;
        Ok(hold.map(LockGuard::new))
    }

    /// Whether anybody holds the lock. Redisson: `isLocked()`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.inspect().await?.is_some())
    }

    /// How long the holder's lease still lasts, `None` if the lock is free. [`Duration::MAX`] if
    /// somebody has taken away its end. Redisson: `remainTimeToLive()`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn remaining_lease(&self) -> Result<Option<Duration>> {
        let info = self.inspect().await?;
        Ok(info.map(|info| info.remaining.unwrap_or(Duration::MAX)))
    }

    /// Who holds the lock, how often and how long; `None` if it is free.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for an empty or huge name,
    /// [`WrongType`](crate::Error::WrongType), [`Unavailable`](crate::Error::Unavailable),
    /// [`Refused`](crate::Error::Refused), [`Closed`](crate::Error::Closed).
    pub async fn inspect(&self) -> Result<Option<LockInfo>> {
        let kind = self.key.kind;
        self.context
            .call("inspection", &self.key.name, |context, name| async move {
                context.backend.inspect(&LockKey { kind, name }).await
            })
            .await
    }

    /// Frees the lock whoever holds it, and wakes a waiter; `true` if it was held. The holder
    /// learns of it at its next renewal. Redisson: `forceUnlock()`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn force_unlock(&self) -> Result<bool> {
        let kind = self.key.kind;
        let key = self.key.clone();
        let freed = self
            .context
            .call("forced release", &self.key.name, |context, name| async move {
                context.backend.force_release(&LockKey { kind, name }).await
            })
            .await?;
        if freed {
            self.context.queues.released(&crate::backend::Topic::Lock(key));
        }
        Ok(freed)
    }
}

#[async_trait]
impl Lock for LockHandle {
    fn name(&self) -> &Name {
        Self::name(self)
    }

    async fn lock(&self, lease: Lease) -> Result<LockGuard> {
        self.lock_with(lease).await
    }

    async fn try_lock(&self, wait: Duration, lease: Lease) -> Result<Option<LockGuard>> {
        Self::try_lock(self, wait, lease).await
    }

    async fn is_locked(&self) -> Result<bool> {
        Self::is_locked(self).await
    }

    async fn remaining_lease(&self) -> Result<Option<Duration>> {
        Self::remaining_lease(self).await
    }

    async fn inspect(&self) -> Result<Option<LockInfo>> {
        Self::inspect(self).await
    }

    async fn force_unlock(&self) -> Result<bool> {
        Self::force_unlock(self).await
    }
}
