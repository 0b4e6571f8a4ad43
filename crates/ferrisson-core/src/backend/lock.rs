use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;

use super::BackendError;
use crate::{
    name::Name,
    owner::{FencingToken, OwnerId},
};

/// Which kind of lock a name stands for. The engine is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LockKind {
    /// Redisson's `RLock`: a hash with the owner and its number of holds. Can be re-entered.
    Reentrant,
    /// A string with the owner (`SET NX PX`), as StackExchange.Redis, Jedis, redis-py and redsync
    /// write it. Cannot be re-entered.
    Plain,
}

/// A lock: its kind and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey {
    /// The kind.
    pub kind: LockKind,
    /// The name.
    pub name: Name,
}

/// The atomic operations behind every lock. See the [contract](super).
#[async_trait]
pub trait LockBackend: Debug + Send + Sync + 'static {
    /// Takes the lock for `owner` if it is free.
    ///
    /// - Free: the lock is now held once by `owner`, for `lease` from now. [`Attempt::Acquired`].
    /// - Held by this very `owner`: an earlier request of the same attempt has won; the lease is
    ///   set anew, the number of holds is not changed. [`Attempt::Acquired`].
    /// - Held by another: [`Attempt::Contended`] with the time that the holder has left.
    /// - `owner` was [abandoned](Self::abandon): [`Attempt::Abandoned`], nothing is changed.
    ///
    /// Safe to repeat for the same owner.
    async fn acquire(
        &self,
        lock: &LockKey,
        owner: OwnerId,
        lease: Duration,
    ) -> Result<Attempt, BackendError>;

    /// Frees the lock whatever the number of holds if `owner` holds it, and signals the topic.
    ///
    /// Works when the store is out of memory. Safe to repeat: the second time it says
    /// [`Release::NotHeld`].
    async fn release(&self, lock: &LockKey, owner: OwnerId) -> Result<Release, BackendError>;

    /// As [`release`](Self::release), and makes sure that `owner` is never granted this lock
    /// again: a request of it that is still under way will find [`Attempt::Abandoned`].
    ///
    /// Remembered for [`ABANDON_MEMORY`](super::ABANDON_MEMORY). Safe to repeat. Freeing the lock
    /// comes first, and is done even if the store has no memory to remember the owner. The owner is
    /// remembered also if the key holds a value of another type.
    async fn abandon(&self, lock: &LockKey, owner: OwnerId) -> Result<Release, BackendError>;

    /// Extends leases: each lock that is still held by its owner gets the requested lease from
    /// now. Never creates anything.
    ///
    /// Answers one result for each request, in their order. Requests fail independently: one
    /// unreachable shard does not fail the others. Safe to repeat.
    async fn renew(&self, requests: &[RenewalRequest]) -> Vec<Result<Renewal, BackendError>>;

    /// Sets the number of holds that the store shows for `owner`, if it holds the lock. The lease
    /// is not touched. Safe to repeat.
    ///
    /// Only asked for kinds that can be re-entered.
    async fn set_holds(
        &self,
        lock: &LockKey,
        owner: OwnerId,
        holds: u32,
    ) -> Result<Renewal, BackendError>;

    /// Who holds the lock.
    async fn inspect(&self, lock: &LockKey) -> Result<Option<LockInfo>, BackendError>;

    /// Frees the lock whoever holds it, and signals the topic. `true` if it was held. A value of
    /// another type is not touched.
    async fn force_release(&self, lock: &LockKey) -> Result<bool, BackendError>;
}

/// The answer to one try to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The lock is held by the asking owner.
    Acquired {
        /// The token of this grant, for kinds that have one.
        token: Option<FencingToken>,
    },
    /// Another owner holds it.
    Contended {
        /// Time until the holder's lease ends; `None` when it has no end.
        remaining: Option<Duration>,
    },
    /// The asking owner was abandoned and gets nothing.
    Abandoned,
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The owner held the lock; it is free now.
    Released,
    /// The owner did not hold the lock; nothing was changed.
    NotHeld,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The owner holds the lock, now for the requested lease.
    Renewed,
    /// The owner does not hold the lock; nothing was changed.
    NotHeld,
}

/// One hold to extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalRequest {
    /// The lock.
    pub lock: LockKey,
    /// Its holder.
    pub owner: OwnerId,
    /// The lease from now.
    pub lease: Duration,
}

/// What a store knows of a held lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The holder, as the store has it: `<uuid>:<number>` for ferrisson and Redisson, anything for
    /// a plain lock of another library. Compare it with [`OwnerId`].
    pub owner: String,
    /// How often the holder has entered it.
    pub holds: u32,
    /// Time until the lease ends; `None` when it has no end.
    pub remaining: Option<Duration>,
}

impl LockInfo {
    /// For backends.
    #[must_use]
    pub const fn new(owner: String, holds: u32, remaining: Option<Duration>) -> Self {
        Self { owner, holds, remaining }
    }
}
