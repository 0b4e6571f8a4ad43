//! Clients on the in-process backend, and a network between them that fails as it is told. For
//! tests with paused time.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ferrisson_core::{Client, ClientBuilder, LockGuard, LockHandle, LossReason};
use ferrisson_memory::MemoryBackend;
use ferrisson_testkit::faulty::{Faults, FaultyBackend};
use tokio::{
    runtime::Handle,
    time::{self, Instant},
};

/// So many milliseconds.
#[must_use]
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// So many seconds.
#[must_use]
pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// One store of its own, and two ways to it.
#[derive(Debug)]
pub struct World {
    /// The store, for a look at its keys.
    pub store: MemoryBackend,
    /// The way through the network that can fail.
    pub network: FaultyBackend,
    /// Tells the network to fail.
    pub faults: Faults,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let store = MemoryBackend::new();
        let network = FaultyBackend::new(store.clone());
        let faults = network.faults();
        Self { store, network, faults }
    }

    /// A client whose network can fail.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.network.clone())
    }

    /// The same, with other settings.
    pub fn builder(&self) -> ClientBuilder {
        Client::builder(self.network.clone())
    }

    /// Another client, whose network never fails.
    #[must_use]
    pub fn stranger(&self) -> Client {
        Client::new(self.store.clone())
    }
}

/// Lets everything run that can run now.
pub async fn settle() {
    time::sleep(ms(1)).await;
}

/// Tasks of this runtime that have not ended.
#[must_use]
pub fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Whether the guard's loss has been told.
pub async fn loss(guard: &LockGuard) -> Option<LossReason> {
    time::timeout(ms(1), guard.lost()).await.ok()
}

/// A lock of which somebody watches that it never lies free while somebody waits for it.
#[derive(Debug)]
pub struct Watched {
    freed: Mutex<Instant>,
}

impl Default for Watched {
    fn default() -> Self {
        Self { freed: Mutex::new(Instant::now()) }
    }
}

impl Watched {
    /// Longest time that a free lock may keep a waiter waiting: no time but that of the clock's
    /// steps.
    const IDLE: Duration = ms(5);

    /// Takes the lock.
    ///
    /// # Panics
    /// It was free for a while before, or is not free within a minute, or the client fails.
    pub async fn take(&self, lock: &LockHandle) -> LockGuard {
        let asked = Instant::now();
        let guard = lock.try_lock(secs(60), secs(60)).await.expect("nothing fails");
        let free_since = asked.max(*self.freed.lock().unwrap_or_else(PoisonError::into_inner));
        assert!(free_since.elapsed() < Self::IDLE, "free for {:?}", free_since.elapsed());
        guard.expect("free within a minute")
    }

    /// Gives it back.
    ///
    /// # Panics
    /// It is not held.
    pub async fn give(&self, guard: LockGuard) {
        *self.freed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        guard.unlock().await.expect("held until now");
    }
}
