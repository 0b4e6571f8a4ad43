//! The backend tier: what somebody who brings another store implements.
//!
//! A backend is a set of small atomic operations. The engine above it does everything that takes
//! time: waiting, queueing, renewing, noticing loss, cleaning up after cancelled calls. So a
//! backend is short, and what a test shows of the engine on one backend holds on all.
//!
//! # The contract
//!
//! Every operation of [`LockBackend`], [`SemaphoreBackend`] and [`BucketBackend`]
//!
//! - is **one atomic step**, and takes effect at most once for one call;
//! - **never waits** for a lock or permit, and **never retries**: a failure is reported at once;
//! - **ends in bounded time** (the command timeout), with [`Failure::Unavailable`] when nothing is
//!   known;
//! - tells apart what was certainly not executed from what may have been
//!   ([`Outcome`](crate::Outcome)). When in doubt it says [`Unknown`](crate::Outcome::Unknown);
//! - goes on when its future is dropped, or not, as it likes: the engine never drops one half way,
//!   it lets it finish in the background;
//! - takes durations in whole milliseconds of at least 1, already checked by the engine, and
//!   **measures them by its own clock**, starting at execution;
//! - is **safe to repeat for the same owner** where its docs say so.
//!
//! [`NotifyBackend::subscribe`] returns once every later release of that topic is sure to be
//! signalled, or the connection that would bring it is known to have failed and every waiter is
//! woken. [`WakeupHub`] has the bookkeeping for that.
//!
//! A backend that keeps this contract passes the conformance suite of `ferrisson-testkit`.

mod bucket;
mod failure;
mod lock;
mod semaphore;
mod wakeup;

use std::fmt::Debug;

use async_trait::async_trait;

pub use self::{
    bucket::{BucketBackend, Condition, Expiry, Ttl},
    failure::{BackendError, Failure},
    lock::{Attempt, LockBackend, LockInfo, LockKey, LockKind, Release, Renewal, RenewalRequest},
    semaphore::{PermitAttempt, PermitRecord, PermitRelease, SemaphoreBackend},
    wakeup::{NotifyBackend, Topic, Wakeup, WakeupHub},
};

/// How long a backend remembers an abandoned owner.
///
/// Long enough to outlive the retransmissions of a dead TCP connection (`tcp_retries2` = 15 is
/// 924 s at most in practice), after which a request that was in flight can no longer arrive.
pub const ABANDON_MEMORY: std::time::Duration = std::time::Duration::from_secs(16 * 60);

/// All that a [`Client`](crate::Client) needs of a store.
///
/// Implemented for every type that implements the parts.
pub trait Backend:
    LockBackend + SemaphoreBackend + BucketBackend + NotifyBackend + Lifecycle
{
}

impl<B> Backend for B where
    B: LockBackend + SemaphoreBackend + BucketBackend + NotifyBackend + Lifecycle
{
}

/// The end of a backend.
#[async_trait]
pub trait Lifecycle: Debug + Send + Sync + 'static {
    /// Ends connections and tasks. Later operations fail with [`Failure::Closed`].
    ///
    /// A backend whose clones share state (as the in-process one) does nothing here.
    async fn close(&self);
}
