//! The in-process backend of ferrisson: for tests, and for a first run without a server.
//!
//! [`MemoryBackend`] is a keyspace in memory that answers as the Redis backend does. The engine
//! above it is the one that runs in production, so an application's tests on it show what the
//! application will do; with tokio's paused time they take no time.
//!
//! Clones share one keyspace. Several clients on clones of one backend are to each other what
//! several processes on one server are:
//!
//! ```
//! use ferrisson_core::{
//!     Name, OwnerId,
//!     backend::{Attempt, LockBackend, LockKey, LockKind},
//! };
//! use ferrisson_memory::MemoryBackend;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ferrisson_core::backend::BackendError> {
//! let (one, two) = {
//!     let backend = MemoryBackend::new();
//!     (backend.clone(), backend)
//! };
//! let lock = LockKey { kind: LockKind::Reentrant, name: Name::new("orders:42") };
//! let owner = |client: u128| OwnerId::new(uuid::Uuid::from_u128(client), 1);
//! let lease = Duration::from_secs(30);
//! assert_eq!(one.acquire(&lock, owner(1), lease).await?, Attempt::Acquired { token: None });
//! assert!(matches!(two.acquire(&lock, owner(2), lease).await?, Attempt::Contended { .. }));
//! # Ok(())
//! # }
//! ```

mod backend;
mod expiring;
mod state;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use ferrisson_core::{
    Name,
    backend::{Condition, Expiry, WakeupHub},
};
use tokio::time::Instant;

use self::state::State;

/// A store in the memory of this process.
///
/// Cheap to clone; clones share the store, which ends with the last of them. Its clock is
/// `tokio::time`, so a test that pauses time decides when leases end.
///
/// The methods beside the backend traits do what a stranger could do to a server: they look at
/// keys, put and remove them. They signal nobody.
#[derive(Clone)]
pub struct MemoryBackend(Arc<Store>);

struct Store {
    state: Mutex<State>,
    hub: WakeupHub,
    created: Instant,
}

impl MemoryBackend {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Store {
            state: Mutex::default(),
            hub: WakeupHub::new(),
            created: Instant::now(),
        }))
    }

    /// The keys that are there, in order: those of objects, and the records that are kept of
    /// abandoned owners (`abandoned:<name>:<owner>`) and of granted permits
    /// (`permits:<name>:<owner>`).
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.step(|state, now| state.keys(now))
    }

    /// How many objects have somebody who waits for their release.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.0.hub.channels().len()
    }

    /// Removes an object, whatever its type. `true` if it was there.
    pub fn remove(&self, name: impl Into<Name>) -> bool {
        let name = name.into();
        self.step(|state, now| state.delete(&name, now))
    }

    /// Sets the bytes of an object, whatever was there before.
    pub fn put_raw(&self, name: impl Into<Name>, value: impl Into<Bytes>) {
        let (name, value) = (name.into(), value.into());
        self.step(|state, now| state.set(&name, value, Condition::Always, Expiry::Never, now));
    }

    /// Forgets everything, as a server does that comes back without its data.
    pub fn clear(&self) {
        self.step(|state, _| *state = State::default());
    }

    /// One atomic step, at the time in milliseconds at which it is made.
    fn step<T>(&self, step: impl FnOnce(&mut State, u64) -> T) -> T {
        let mut state = self.state();
        let now = u64::try_from(self.0.created.elapsed().as_millis()).unwrap_or(u64::MAX);
        step(&mut state, now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend")
            .field("keys", &self.keys().len())
            .field("subscriptions", &self.subscriptions())
            .finish()
    }
}
