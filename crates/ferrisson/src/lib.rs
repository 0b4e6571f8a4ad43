//! Locks, semaphores and buckets that many processes share, on Redis and Valkey, in the format of
//! Java's Redisson.
//!
//! ```
//! use std::time::Duration;
//!
//! use ferrisson::{Client, MemoryBackend};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> ferrisson::Result<()> {
//! let client = Client::new(MemoryBackend::new()); // or ferrisson::connect("redis://…").await?
//! let lock = client.lock("orders:42");
//!
//! // Waits for at most half a second, then holds the lock for at most ten.
//! match lock.try_lock(Duration::from_millis(500), Duration::from_secs(10)).await? {
//!     Some(guard) => {
//!         // … nobody else is here …
//!         guard.unlock().await?;
//!     }
//!     None => println!("somebody else has it"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! | object | made by | Redisson |
//! | --- | --- | --- |
//! | [`Lock`] | [`Client::lock`] | `RLock` |
//! | [`Lock`], plain | [`Client::plain_lock`] | – (the usual `SET NX PX` recipe) |
//! | [`Semaphore`] | [`Client::semaphore`] | `RSemaphore` |
//! | [`Bucket`] | [`Client::bucket`], [`Client::bucket_with`] | `RBucket` |
//!
//! Each is a trait, for applications to pass around and to mock, and a handle that implements it.
//! A [`LockGuard`] or [`SemaphorePermit`] is what a successful call hands out; dropping it releases
//! in the background.
//!
//! # What to know
//!
//! - **A hold is a lease.** It ends by itself: after a fixed time, or when its process dies, see
//!   [`Lease`]. The guard knows ([`LockGuard::is_held`]) and tells ([`LockGuard::lost`],
//!   [`LockGuard::run`]) before the server can give the lock to another.
//! - **"Not now" is a value**, `None` or `false`. An [`Error`] is trouble, grouped by what can be
//!   done about it.
//! - **Every future may be dropped.** What a dropped call had sent is completed in the background
//!   and undone; each says in *Cancel safety* what it leaves.
//! - **Each acquisition is a hold of its own**: tasks that share a handle exclude each other. Enter
//!   again with [`LockGuard::reenter`].
//! - A lock of one Redis server is as good as that server. With failovers it can be held twice; a
//!   resource that must not see a stale write has to refuse it by itself.
//!
//! # Features
//!
//! | feature | default | |
//! | --- | --- | --- |
//! | `fred` | yes | Redis and Valkey through the client fred: [`connect`], [`connect_lazy`], and the module [`fred`] |
//! | `rustls` | yes | TLS (`rediss://`) by rustls |
//! | `json` | yes | the codec `Json`, and [`Client::bucket`] |
//! | `memory` | yes | [`MemoryBackend`], in this process: for tests and a first look |
//! | `mock` | no | mocks of the traits, in the module `mock` |
//!
//! # Other stores
//!
//! A backend is a set of small atomic operations that never wait; the engine above does the rest.
//! The contract is in [`backend`].

#[cfg(feature = "fred")]
mod connect;
#[cfg(feature = "fred")]
pub mod fred;

#[doc(inline)]
pub use ferrisson_core::*;
#[cfg(feature = "memory")]
pub use ferrisson_memory::MemoryBackend;

#[cfg(feature = "fred")]
pub use self::connect::{connect, connect_lazy};

/// The code of the README is compiled.
#[cfg(all(doctest, feature = "fred", feature = "memory"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
