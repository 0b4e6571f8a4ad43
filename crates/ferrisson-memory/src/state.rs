//! The keyspace and its transitions: `state × operation × now → reply`.
//!
//! Nothing here waits, reads a clock or signals. This is the specification that the scripts of
//! the Redis backend are compared with, so it models one keyspace as Redis has it: a bucket, a
//! semaphore and both kinds of lock of one name are one key, and a key of another type is
//! [`Rejection::WrongType`].

mod bucket;
mod lock;
mod semaphore;

use std::collections::BTreeMap;

use bytes::Bytes;
use ferrisson_core::{
    Name, OwnerId, Refusal,
    backend::{BackendError, Expiry, Failure},
};

use crate::expiring::{Entry, Expiring, end_of};

/// All that a store knows.
#[derive(Debug, Default)]
pub(crate) struct State {
    objects: Expiring<Name, Value>,
    /// Owners that are never granted the lock of this name again, of whatever kind.
    abandoned: Expiring<(Name, OwnerId), ()>,
    /// What owners have of a semaphore.
    grants: Expiring<(Name, OwnerId), Grant>,
}

/// What a key holds.
#[derive(Debug)]
enum Value {
    /// A lock that can be re-entered: owner → number of holds. Never empty.
    Hash(BTreeMap<String, i64>),
    /// A bucket, a semaphore or a plain lock.
    String(Bytes),
}

/// What an owner has of a semaphore.
#[derive(Clone, Copy, Debug)]
enum Grant {
    Permits(u32),
    /// Nothing, and it is never granted anything.
    Abandoned,
}

/// Why an operation changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    #[error("the operation is for another type of value")]
    WrongType,
    #[error("the value is not an integer, or out of range")]
    NotAnInteger,
    #[error("the count would leave the range of 64 bits")]
    Overflow,
    #[error("the in-process backend has no locks of this kind")]
    UnknownKind,
}

impl From<Rejection> for BackendError {
    fn from(rejection: Rejection) -> Self {
        let failure = match rejection {
            Rejection::WrongType => Failure::WrongType,
            Rejection::Overflow => Failure::Refused(Refusal::Overflow),
            Rejection::NotAnInteger | Rejection::UnknownKind => Failure::Refused(Refusal::Other),
        };
        Self::new(failure, rejection)
    }
}

impl State {
    /// The keys that are there, and the records of owners with a prefix that says what they are.
    pub(crate) fn keys(&self, now: u64) -> Vec<String> {
        let objects = self.objects.keys(now).map(Name::to_string);
        let abandoned = self.abandoned.keys(now);
        let abandoned = abandoned.map(|(name, owner)| format!("abandoned:{name}:{owner}"));
        let grants = self.grants.keys(now).map(|(name, owner)| format!("permits:{name}:{owner}"));
        let mut keys: Vec<_> = objects.chain(abandoned).chain(grants).collect();
        keys.sort_unstable();
        keys
    }

    /// The string at a key.
    fn string(&self, name: &Name, now: u64) -> Result<Option<&Bytes>, Rejection> {
        match self.objects.get(name, now).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::String(bytes)) => Ok(Some(bytes)),
            Some(Value::Hash(_)) => Err(Rejection::WrongType),
        }
    }

    /// Puts a string in the place of a value of any type.
    fn put(&mut self, name: &Name, bytes: Bytes, expiry: Expiry, now: u64) {
        let until = match expiry {
            Expiry::Never => None,
            Expiry::Keep => self.objects.get(name, now).and_then(|entry| entry.until),
            Expiry::After(lifetime) => Some(end_of(lifetime, now)),
        };
        self.objects.put(name.clone(), Value::String(bytes), until, now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferrisson_core::backend::{Attempt, Condition, LockKey, LockKind, PermitAttempt};
    use uuid::Uuid;

    use super::*;

    pub(super) const TTL: Duration = Duration::from_millis(100);

    pub(super) fn owner(number: u64) -> OwnerId {
        OwnerId::new(Uuid::from_u128(7), number)
    }

    pub(super) fn lock(kind: LockKind) -> LockKey {
        LockKey { kind, name: Name::new("x") }
    }

    pub(super) fn set(state: &mut State, value: impl Into<Bytes>, expiry: Expiry) {
        assert!(state.set(&Name::new("x"), value.into(), Condition::Always, expiry, 0));
    }

    #[test]
    fn all_objects_of_one_name_are_one_key() {
        let mut state = State::default();
        assert!(state.init_permits(&Name::new("x"), 3, 0));
        assert_eq!(state.string(&Name::new("x"), 0), Ok(Some(&Bytes::from("3"))));
        let plain = state.acquire(&lock(LockKind::Plain), owner(1), TTL, 0);
        assert_eq!(plain, Ok(Attempt::Contended { remaining: None }));
        let reentrant = state.acquire(&lock(LockKind::Reentrant), owner(1), TTL, 0);
        assert_eq!(reentrant, Err(Rejection::WrongType));
    }

    #[test]
    fn records_of_owners_are_keys_of_their_own() {
        let mut state = State::default();
        let name = Name::new("x");
        state.abandon(&lock(LockKind::Plain), owner(1), 0).unwrap();
        state.init_permits(&name, 3, 0);
        let attempt = state.acquire_permits(&name, owner(2), 1, 0);
        assert_eq!(attempt, Ok(PermitAttempt::Acquired { available: 2 }));
        let expected = [
            format!("abandoned:x:{}", owner(1)),
            format!("permits:x:{}", owner(2)),
            String::from("x"),
        ];
        assert_eq!(state.keys(0), expected);
    }
}
