//! Who holds a lock, and which grant came later.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use uuid::Uuid;

/// Identity of one hold: `<client uuid>:<number>`.
///
/// Every acquisition gets a fresh one, so two tasks that share a handle exclude each other, a
/// repeated request is recognised, and a late release can never free somebody else's lock. Java
/// Redisson reads it as one more thread of one more client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId {
    client: Uuid,
    hold: u64,
}

impl OwnerId {
    /// The owner with this number at this client.
    #[must_use]
    pub const fn new(client: Uuid, hold: u64) -> Self {
        Self { client, hold }
    }

    /// The client that the hold belongs to.
    #[must_use]
    pub const fn client(&self) -> Uuid {
        self.client
    }

    /// The number of the hold within its client.
    #[must_use]
    pub const fn hold(&self) -> u64 {
        self.hold
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client.as_hyphenated(), self.hold)
    }
}

/// Lets an owner be compared with the text that a server reports.
impl PartialEq<str> for OwnerId {
    fn eq(&self, other: &str) -> bool {
        let Some((client, hold)) = other.split_once(':') else { return false };
        hold.parse() == Ok(self.hold) && client == self.client.as_hyphenated().to_string()
    }
}

/// Makes the owners of one client.
#[derive(Debug)]
pub(crate) struct OwnerIds {
    client: Uuid,
    next: AtomicU64,
}

impl OwnerIds {
    pub(crate) fn new(client: Uuid) -> Self {
        Self { client, next: AtomicU64::new(1) }
    }

    pub(crate) fn fresh(&self) -> OwnerId {
        OwnerId::new(self.client, self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) const fn client(&self) -> Uuid {
        self.client
    }
}

/// A number that grows with every grant of a lock, for the protected resource to compare.
///
/// A resource that refuses a token smaller than the largest it has seen is safe from a holder
/// that has lost its lock without noticing (Kleppmann, *How to do distributed locking*, 2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Wraps the number that a backend granted.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number to hand to the resource.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_fresh_and_compare_with_their_text() {
        let owners = OwnerIds::new(Uuid::new_v4());
        let (a, b) = (owners.fresh(), owners.fresh());
        assert_ne!(a, b);
        assert_eq!(a, *a.to_string().as_str());
        assert_ne!(a, *b.to_string().as_str());
        assert_ne!(a, *"not an owner");
    }
}
