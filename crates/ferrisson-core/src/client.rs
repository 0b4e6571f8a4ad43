//! The client: names become handles here.

use std::{fmt::Debug, sync::Arc, time::Duration};

use tokio::time;
use uuid::Uuid;

use crate::{
    backend::{Backend, LockKind},
    bucket::BucketHandle,
    codec::Codec,
    engine::{Config, Context, completing::Completing},
    error::{Error, LossReason, Result},
    lease::{MAX_LEASE, MIN_LEASE},
    lock::LockHandle,
    name::Name,
    semaphore::SemaphoreHandle,
};

/// One participant: hands out the shared objects of a backend.
///
/// Cheap to clone; clones are the same participant. Making handles does no I/O.
///
/// Waiting, renewing and releasing in the background run as tasks on the tokio runtime in which
/// the objects are used. Leases that are held when the runtime ends end by themselves;
/// [`close`](Self::close) releases them at once.
#[derive(Clone, Debug)]
pub struct Client {
    context: Arc<Context>,
}

impl Client {
    /// A client with the default settings.
    pub fn new(backend: impl Backend) -> Self {
        Self::from_arc(Arc::new(backend))
    }

    /// A client with the default settings, for a backend that is shared or erased already.
    #[must_use]
    pub fn from_arc(backend: Arc<dyn Backend>) -> Self {
        Self { context: Arc::new(Context::new(backend, ClientBuilder::defaults())) }
    }

    /// Starts to build a client with other settings.
    pub fn builder(backend: impl Backend) -> ClientBuilder {
        ClientBuilder { backend: Arc::new(backend), config: ClientBuilder::defaults() }
    }

    /// Identifies this client among all; the first part of its owners' ids.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.context.owners.client()
    }

    /// A lock that can be held again by its holder: Redisson's `RLock`, on the wire too.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ferrisson_core::{Client, Result};
    /// # async fn example(client: Client) -> Result<()> {
    /// let lock = client.lock("orders:42");
    /// if let Some(guard) = lock.try_lock(Duration::from_secs(2), Duration::from_secs(30)).await? {
    ///     // … at most one process is here …
    ///     guard.unlock().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lock(&self, name: impl Into<Name>) -> LockHandle {
        LockHandle::new(&self.context, LockKind::Reentrant, self.name(name.into()))
    }

    /// A lock in the format that most other libraries use: one string, set with `NX PX`. Shared
    /// with StackExchange.Redis, Jedis recipes, redis-py and redsync. Cannot be re-entered.
    #[must_use]
    pub fn plain_lock(&self, name: impl Into<Name>) -> LockHandle {
        LockHandle::new(&self.context, LockKind::Plain, self.name(name.into()))
    }

    /// A counting semaphore: Redisson's `RSemaphore`.
    #[must_use]
    pub fn semaphore(&self, name: impl Into<Name>) -> SemaphoreHandle {
        SemaphoreHandle::new(&self.context, self.name(name.into()))
    }

    /// A value of type `T` as JSON: Redisson's `RBucket` with `TypedJsonJacksonCodec`.
    #[cfg(feature = "json")]
    #[must_use]
    pub fn bucket<T>(&self, name: impl Into<Name>) -> BucketHandle<T, crate::codec::Json>
    where
        crate::codec::Json: Codec<T>,
    {
        self.bucket_with(name, crate::codec::Json)
    }

    /// A value of type `T` in an encoding of your choice: Redisson's `RBucket`.
    #[must_use]
    pub fn bucket_with<T, C: Codec<T>>(
        &self,
        name: impl Into<Name>,
        codec: C,
    ) -> BucketHandle<T, C> {
        BucketHandle::new(&self.context, self.name(name.into()), codec)
    }

    /// Ends this client in order: waiting calls and later ones fail with
    /// [`Closed`](Error::Closed), holds are lost and released, permits that were dropped are given
    /// back, and then the backend is closed. Takes at most the client's patience and one command
    /// timeout more; what could not be released by then ends with its lease.
    ///
    /// Permits of live [`SemaphorePermit`](crate::SemaphorePermit)s stay taken.
    ///
    /// # Cancel safety
    ///
    /// A dropped call is completed in the background. May be called again.
    pub async fn close(&self) {
        self.context.closed.cancel();
        for hold in self.context.keeper.drain() {
            hold.lose(LossReason::Closed);
            hold.release_in_background();
        }
        let (tasks, patience) = (self.context.tasks.clone(), self.context.config.patience);
        let backend = Arc::clone(&self.context.backend);
        tasks.close();
        let ending = async move {
            // The backend's own limit on a command comes on top.
            let _ = time::timeout(patience + Duration::from_secs(2), tasks.wait()).await;
            backend.close().await;
        };
        Completing::untracked(&self.context, ending).await;
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.context.closed.is_cancelled()
    }

    fn name(&self, name: Name) -> Name {
        match &self.context.config.namespace {
            Some(namespace) if !name.as_str().is_empty() => {
                Name::new(format!("{namespace}:{name}"))
            }
            _ => name,
        }
    }
}

/// Builds a [`Client`] with other settings than the default ones.
#[derive(Debug)]
#[must_use = "nothing happens until it is built"]
pub struct ClientBuilder {
    backend: Arc<dyn Backend>,
    config: Config,
}

impl ClientBuilder {
    fn defaults() -> Config {
        Config {
            id: Uuid::new_v4(),
            namespace: None,
            watchdog_lease: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            patience: Duration::from_secs(2),
            renewal_batch: 100,
        }
    }

    /// Identity of the client instead of a random one. For simulations that have to repeat: two
    /// live clients with one id break every promise.
    pub const fn id(mut self, id: Uuid) -> Self {
        self.config.id = id;
        self
    }

    /// Puts `namespace:` before every name, so that applications can share a server. Redisson: a
    /// `NameMapper`. Default: none.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.config.namespace = Some(namespace.into());
        self
    }

    /// The lease of [`Lease::AutoRenew`](crate::Lease::AutoRenew), renewed at a third: how long a
    /// lock outlives a process that died. Redisson: `lockWatchdogTimeout`. Default: 30 s.
    pub const fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.config.watchdog_lease = lease;
        self
    }

    /// How long a waiter sleeps at most without looking, for the case that a message is lost.
    /// Default: 1 s.
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.config.poll_interval = interval;
        self
    }

    /// How long a call that waits rides out a failing backend before it reports the failure, and
    /// how long a release is repeated before it does. Zero reports at once. Default: 2 s.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.config.patience = patience;
        self
    }

    /// Most renewals in one call of the backend. Redisson: `lockWatchdogBatchSize`. Default: 100.
    pub const fn renewal_batch(mut self, renewals: usize) -> Self {
        self.config.renewal_batch = renewals;
        self
    }

    /// Builds the client. No I/O.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](Error::InvalidArgument) for a setting that can never work: an empty
    /// namespace, a watchdog lease under 30 ms or over 100 years, a poll interval or batch of
    /// zero, a patience of more than a day.
    pub fn build(self) -> Result<Client> {
        let config = &self.config;
        let invalid = |what, reason| Err(Error::invalid(&Name::new("client"), what, reason));
        if config.namespace.as_ref().is_some_and(String::is_empty) {
            return invalid("namespace", "it is empty");
        }
        if config.watchdog_lease < MIN_LEASE * 3 || config.watchdog_lease > MAX_LEASE {
            return invalid("watchdog lease", "not between 30 ms and 100 years");
        }
        if config.poll_interval < Duration::from_millis(1) || config.poll_interval > MAX_LEASE {
            return invalid("poll interval", "not between 1 ms and 100 years");
        }
        if config.patience > Duration::from_secs(24 * 60 * 60) {
            return invalid("patience", "longer than a day");
        }
        if config.renewal_batch == 0 {
            return invalid("renewal batch", "it is zero");
        }
        Ok(Client { context: Arc::new(Context::new(self.backend, self.config)) })
    }
}
