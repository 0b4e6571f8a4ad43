use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use super::BackendError;
use crate::name::Name;

/// The atomic operations behind a bucket: one value of bytes under one name. See the
/// [contract](super).
#[async_trait]
pub trait BucketBackend: Debug + Send + Sync + 'static {
    /// The value.
    async fn get(&self, name: &Name) -> Result<Option<Bytes>, BackendError>;

    /// Sets the value if `condition` holds; `false` if it does not. Without a condition a value of
    /// any other type is replaced.
    async fn set(
        &self,
        name: &Name,
        value: Bytes,
        condition: Condition,
        expiry: Expiry,
    ) -> Result<bool, BackendError>;

    /// Sets the value and answers the one before. `expiry` is never [`Expiry::Keep`].
    async fn replace(
        &self,
        name: &Name,
        value: Bytes,
        expiry: Expiry,
    ) -> Result<Option<Bytes>, BackendError>;

    /// If the value is exactly `expected` (`None`: absent), sets it to `new` (`None`: deletes it),
    /// without a time to live. `true` if it did so.
    async fn compare_and_set(
        &self,
        name: &Name,
        expected: Option<Bytes>,
        new: Option<Bytes>,
    ) -> Result<bool, BackendError>;

    /// Removes the value and answers it.
    async fn take(&self, name: &Name) -> Result<Option<Bytes>, BackendError>;

    /// Deletes the key, whatever its type; `true` if it existed.
    async fn delete(&self, name: &Name) -> Result<bool, BackendError>;

    /// Whether the key exists, whatever its type.
    async fn exists(&self, name: &Name) -> Result<bool, BackendError>;

    /// Length of the encoded value in bytes, 0 if absent.
    async fn size(&self, name: &Name) -> Result<u64, BackendError>;

    /// Sets (`Some`) or removes (`None`) the time to live. `false` if the key is absent or, for
    /// `None`, has no time to live.
    async fn expire(&self, name: &Name, ttl: Option<Duration>) -> Result<bool, BackendError>;

    /// The time to live.
    async fn ttl(&self, name: &Name) -> Result<Ttl, BackendError>;

    /// Marks the key as used; `true` if it exists.
    async fn touch(&self, name: &Name) -> Result<bool, BackendError>;
}

/// When a value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// In any case.
    Always,
    /// If the key is absent.
    IfAbsent,
    /// If the key exists.
    IfExists,
}

/// What happens to the time to live when a value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// The value has no time to live.
    Never,
    /// The value has the time to live of the one before.
    Keep,
    /// The value ends after this time.
    After(Duration),
}

/// How long a value stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ttl {
    /// There is no value.
    Absent,
    /// Until somebody removes it.
    Persistent,
    /// Until this time has passed.
    After(Duration),
}
