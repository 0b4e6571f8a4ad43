//! Traits, engine and vocabulary of [ferrisson](https://docs.rs/ferrisson): locks, semaphores and
//! buckets that many processes share. Applications use the facade crate `ferrisson`; this one is
//! for those who write a backend or a wrapper.
//!
//! # Two tiers and one engine
//!
//! - **Primitives**, for applications: the object-safe traits [`Lock`], [`Semaphore`] and
//!   [`Bucket`], the handles that implement them, and what they hand out: [`LockGuard`],
//!   [`SemaphorePermit`].
//! - **Backends**, for other stores: small traits of atomic operations that never wait, joined as
//!   [`backend::Backend`]. Its documentation is the contract.
//! - Between them one engine does everything that takes time: it waits in a fair row with one
//!   attempt under way, renews leases, tells the holder in time that one is lost, and cleans up
//!   after calls that were cancelled or whose outcome is unknown.
//!
//! A [`Client`] joins a backend with the engine and hands out handles by name.
//!
//! # Rules that hold everywhere
//!
//! - "Not now" is `Ok(None)` or `Ok(false)`; an [`Error`] is news.
//! - A hold is valid until a deadline that is counted from before its request was sent, so the
//!   holder stops before the server gives the lock away.
//! - Every acquisition has an [`OwnerId`] of its own; nobody can release or renew for another.
//! - Every dropped future leaves nothing behind; requests that were sent are completed in the
//!   background and what they won is given back.
//! - Time is [`tokio::time`], so that tests can pause it.

pub mod backend;
mod bucket;
mod client;
pub mod codec;
mod engine;
mod error;
mod lease;
mod lock;
#[cfg(feature = "mock")]
pub mod mock;
mod name;
mod owner;
mod semaphore;

pub use self::{
    backend::{LockInfo, Ttl},
    bucket::{Bucket, BucketHandle},
    client::{Client, ClientBuilder},
    engine::hold::HoldState,
    error::{Cause, Error, LossReason, Outcome, Refusal, Result},
    lease::{Lease, MAX_LEASE, MIN_LEASE},
    lock::{Lock, LockGuard, LockHandle},
    name::{MAX_NAME_LEN, Name},
    owner::{FencingToken, OwnerId},
    semaphore::{MAX_PERMITS, Semaphore, SemaphoreHandle, SemaphorePermit},
};
