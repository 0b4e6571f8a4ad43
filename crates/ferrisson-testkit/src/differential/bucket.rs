use std::time::Duration;

use bytes::Bytes;
use ferrisson_core::backend::{Backend, Condition, Expiry};
use proptest::{option, prelude::*, sample::select};

use super::{Reply, Seen, World, long_time, owner};

/// One operation of [`BucketBackend`](ferrisson_core::backend::BucketBackend).
#[derive(Clone, Debug)]
pub enum BucketOperation {
    /// `get`.
    Get,
    /// `set`.
    Set(Value, Condition, Expiry),
    /// `replace`.
    Replace(Value, Lifetime),
    /// `compare_and_set`.
    CompareAndSet(Option<Value>, Option<Value>),
    /// `take`.
    Take,
    /// `delete`.
    Delete,
    /// `exists`.
    Exists,
    /// `size`.
    Size,
    /// `expire`.
    Expire(Lifetime),
    /// `ttl`.
    Ttl,
    /// `touch`.
    Touch,
}

/// A time to live, or none.
pub type Lifetime = Option<Duration>;

/// The bytes of a value.
#[derive(Clone, Debug)]
pub enum Value {
    /// These.
    Bytes(Vec<u8>),
    /// The text of the owner with this number, as a plain lock has it.
    Owner(u64),
}

/// What a semaphore, a script or a codec could stumble over.
const ODD_VALUES: [&[u8]; 18] = [
    b"",
    b"0",
    b"5",
    b"-3",
    b"007",
    b"-0",
    b"+1",
    b" 1",
    b"1 ",
    b"1.5",
    b"1e3",
    b"0x10",
    b"nan",
    b"text",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"\xff\0\r\n",
];

pub(super) fn operations() -> impl Strategy<Value = BucketOperation> {
    let condition = select(vec![Condition::Always, Condition::IfAbsent, Condition::IfExists]);
    let compare_and_set = (option::of(value()), option::of(value()));
    prop_oneof![
        2 => Just(BucketOperation::Get),
        6 => (value(), condition, expiry())
            .prop_map(|(value, condition, expiry)| BucketOperation::Set(value, condition, expiry)),
        2 => (value(), lifetime())
            .prop_map(|(value, lifetime)| BucketOperation::Replace(value, lifetime)),
        4 => compare_and_set
            .prop_map(|(expected, new)| BucketOperation::CompareAndSet(expected, new)),
        1 => Just(BucketOperation::Take),
        2 => Just(BucketOperation::Delete),
        1 => Just(BucketOperation::Exists),
        1 => Just(BucketOperation::Size),
        3 => lifetime().prop_map(BucketOperation::Expire),
        2 => Just(BucketOperation::Ttl),
        1 => Just(BucketOperation::Touch),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let odd = ODD_VALUES.map(|bytes| Value::Bytes(bytes.to_vec()));
    // Few values, so that they are compared with their like.
    let common = [Value::Bytes(b"1".to_vec()), Value::Bytes(b"a".to_vec())];
    prop_oneof![
        3 => select(common.to_vec()),
        2 => select(odd.to_vec()),
        1 => owner().prop_map(Value::Owner),
    ]
}

fn lifetime() -> impl Strategy<Value = Lifetime> {
    option::of(long_time())
}

fn expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![Just(Expiry::Never), Just(Expiry::Keep), long_time().prop_map(Expiry::After)]
}

impl BucketOperation {
    pub(super) async fn apply(&self, backend: &dyn Backend, world: &World, name: usize) -> Seen {
        let name = &world.name(name);
        match self {
            Self::Get => Seen::of(backend.get(name).await),
            Self::Set(value, condition, expiry) => {
                Seen::of(backend.set(name, world.value(value), *condition, *expiry).await)
            }
            Self::Replace(value, lifetime) => {
                let expiry = lifetime.map_or(Expiry::Never, Expiry::After);
                Seen::of(backend.replace(name, world.value(value), expiry).await)
            }
            Self::CompareAndSet(expected, new) => {
                let expected = expected.as_ref().map(|value| world.value(value));
                let new = new.as_ref().map(|value| world.value(value));
                Seen::of(backend.compare_and_set(name, expected, new).await)
            }
            Self::Take => Seen::of(backend.take(name).await),
            Self::Delete => Seen::of(backend.delete(name).await),
            Self::Exists => Seen::of(backend.exists(name).await),
            Self::Size => Seen::of(backend.size(name).await),
            Self::Expire(lifetime) => Seen::of(backend.expire(name, *lifetime).await),
            Self::Ttl => Seen::of(backend.ttl(name).await),
            Self::Touch => Seen::of(backend.touch(name).await),
        }
    }
}

impl World {
    fn value(&self, value: &Value) -> Bytes {
        match value {
            Value::Bytes(bytes) => Bytes::from(bytes.clone()),
            Value::Owner(number) => Bytes::from(self.owner(*number).to_string()),
        }
    }
}

impl Reply for Option<Bytes> {}
impl Reply for u64 {}
