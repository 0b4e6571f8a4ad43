use ferrisson_core::backend::{Backend, PermitAttempt, PermitRecord, PermitRelease};
use proptest::{prelude::*, sample::select};

use super::{Reply, Seen, World, owner};

/// One operation of [`SemaphoreBackend`](ferrisson_core::backend::SemaphoreBackend). Owners are
/// numbers.
#[derive(Clone, Debug)]
pub enum SemaphoreOperation {
    /// `acquire_permits` by this owner.
    Acquire(u64, u32),
    /// `release_permits` by this owner, with or without its record.
    Release(u64, u32, PermitRecord),
    /// `abandon_permits` by this owner.
    Abandon(u64),
    /// `add_permits`; `true` keeps the time to live.
    Add(i64, bool),
    /// `init_permits`.
    Init(u32),
    /// `drain_permits`.
    Drain,
    /// `available_permits`.
    Available,
}

pub(super) fn operations() -> impl Strategy<Value = SemaphoreOperation> {
    let record = prop_oneof![5 => Just(PermitRecord::Kept), 1 => Just(PermitRecord::Expired)];
    let acquire = (owner(), permits());
    prop_oneof![
        6 => acquire.prop_map(|(owner, permits)| SemaphoreOperation::Acquire(owner, permits)),
        4 => (owner(), permits(), record)
            .prop_map(|(owner, permits, record)| SemaphoreOperation::Release(owner, permits, record)),
        1 => owner().prop_map(SemaphoreOperation::Abandon),
        3 => (change(), any::<bool>())
            .prop_map(|(permits, keep_ttl)| SemaphoreOperation::Add(permits, keep_ttl)),
        3 => permits().prop_map(SemaphoreOperation::Init),
        1 => Just(SemaphoreOperation::Drain),
        1 => Just(SemaphoreOperation::Available),
    ]
}

fn permits() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0..6_u32, 1 => Just(u32::MAX)]
}

/// Small numbers, and those at which something could break: the range of the count, and of the
/// integers that a double holds.
fn change() -> impl Strategy<Value = i64> {
    let edges = vec![i64::MAX, i64::MIN, i64::MAX - 2, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1];
    prop_oneof![4 => -5..6_i64, 1 => select(edges)]
}

impl SemaphoreOperation {
    pub(super) async fn apply(&self, backend: &dyn Backend, world: &World, name: usize) -> Seen {
        let name = &world.name(name);
        match *self {
            Self::Acquire(owner, permits) => {
                Seen::of(backend.acquire_permits(name, world.owner(owner), permits).await)
            }
            Self::Release(owner, permits, record) => {
                Seen::of(backend.release_permits(name, world.owner(owner), permits, record).await)
            }
            Self::Abandon(owner) => {
                Seen::of(backend.abandon_permits(name, world.owner(owner)).await)
            }
            Self::Add(permits, keep_ttl) => {
                Seen::of(backend.add_permits(name, permits, keep_ttl).await)
            }
            Self::Init(permits) => Seen::of(backend.init_permits(name, permits).await),
            Self::Drain => Seen::of(backend.drain_permits(name).await),
            Self::Available => Seen::of(backend.available_permits(name).await),
        }
    }
}

impl Reply for PermitAttempt {}
impl Reply for PermitRelease {}
impl Reply for i64 {}
