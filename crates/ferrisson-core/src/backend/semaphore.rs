use std::fmt::Debug;

use async_trait::async_trait;

use super::BackendError;
use crate::{name::Name, owner::OwnerId};

/// The atomic operations behind a counting semaphore. See the [contract](super).
///
/// The count can be negative, and an absent semaphore counts as zero. Signals carry no number:
/// a waiter that is woken asks again. A value that is no decimal integer is refused with
/// [`Other`](crate::Refusal::Other).
#[async_trait]
pub trait SemaphoreBackend: Debug + Send + Sync + 'static {
    /// Takes `permits` for `owner` if that many are available, all or none.
    ///
    /// Keeps a record of the grant for [`ABANDON_MEMORY`](super::ABANDON_MEMORY), by which a
    /// repeated request is recognised: it takes nothing more. Safe to repeat for the same owner
    /// and number.
    async fn acquire_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
    ) -> Result<PermitAttempt, BackendError>;

    /// Gives the permits of `owner` back and signals the topic. Works when the store is out of
    /// memory.
    ///
    /// With [`PermitRecord::Kept`] the grant's record decides: it is removed and its permits are
    /// returned, and without one nothing happens. Safe to repeat. With [`PermitRecord::Expired`]
    /// `permits` are returned in any case; not safe to repeat.
    async fn release_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
        record: PermitRecord,
    ) -> Result<PermitRelease, BackendError>;

    /// Gives back what `owner` has, by its record, and makes sure that it is granted nothing
    /// later. Remembered for [`ABANDON_MEMORY`](super::ABANDON_MEMORY). Safe to repeat.
    async fn abandon_permits(
        &self,
        name: &Name,
        owner: OwnerId,
    ) -> Result<PermitRelease, BackendError>;

    /// Adds to the count (which may go down, and below zero) and signals the topic. Answers the
    /// new count. Creates an absent semaphore. **Not** safe to repeat. Out of range of an `i64`:
    /// refused with [`Overflow`](crate::Refusal::Overflow), nothing is changed.
    ///
    /// `keep_ttl` tells Redisson's `release(n)` (`true`: a time to live of the key stays) from its
    /// `addPermits(n)` (`false`: the time to live is dropped).
    async fn add_permits(
        &self,
        name: &Name,
        permits: i64,
        keep_ttl: bool,
    ) -> Result<i64, BackendError>;

    /// Sets the count and signals the topic, if the semaphore does not exist. `true` if it did so;
    /// a semaphore with a count of zero exists.
    async fn init_permits(&self, name: &Name, permits: u32) -> Result<bool, BackendError>;

    /// Sets the count to zero and answers what it was. Drops a time to live. An absent semaphore
    /// stays absent. **Not** safe to repeat.
    async fn drain_permits(&self, name: &Name) -> Result<i64, BackendError>;

    /// The count.
    async fn available_permits(&self, name: &Name) -> Result<i64, BackendError>;
}

/// The answer to one try to take permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitAttempt {
    /// The permits are taken.
    Acquired {
        /// The count that is left.
        available: i64,
    },
    /// Too few are available.
    Exhausted {
        /// The count.
        available: i64,
    },
    /// The asking owner was abandoned and gets nothing.
    Abandoned,
}

/// Whether the record of a grant can still be expected in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitRecord {
    /// The grant is younger than the memory of the store.
    Kept,
    /// The grant is so old that its record may have expired.
    Expired,
}

/// The answer to a release of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitRelease {
    /// The permits were returned.
    Released,
    /// There was no record of a grant; nothing was changed.
    NotHeld,
}
