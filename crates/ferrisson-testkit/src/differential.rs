//! Differential: the same operations on two backends give the same replies.
//!
//! Random sequences of operations of the backend tier, on few names and few owners so that they
//! meet: locks of both kinds, semaphores and buckets of one name, abandoned and repeated requests,
//! odd values and numbers out of range. [`compare`] applies them to two backends step by step.
//!
//! Leases and times to live are so long that none of them ends by itself in a random sequence;
//! [`Operation::AwaitGone`] is for scripted ones with short times.

mod bucket;
mod lock;
mod semaphore;

use std::{fmt::Debug, mem, time::Duration};

use ferrisson_core::{
    Name, OwnerId,
    backend::{Attempt, Backend, BackendError, LockInfo, Ttl},
};
use proptest::{collection::vec, prelude::*, sample::select};
use uuid::Uuid;

pub use self::{
    bucket::{BucketOperation, Lifetime, Value},
    lock::{Hold, Lock, LockOperation},
    semaphore::SemaphoreOperation,
};

/// How far two backends may differ in the time that something has left: as long as a test can
/// hang between the two. Far shorter than the differences between the times that are asked for.
const TOLERANCE: Duration = Duration::from_secs(15);

/// How long a key is waited for that has a short time to live.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many names the operations of a sequence are about. They are numbered from 0.
pub const NAMES: usize = 2;

/// One step of a sequence.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Of a lock.
    Lock(LockOperation),
    /// Of the semaphore with this name.
    Semaphore(usize, SemaphoreOperation),
    /// Of the bucket with this name.
    Bucket(usize, BucketOperation),
    /// Waits until the key with this name has ended.
    AwaitGone(usize),
}

/// Two backends do not agree.
#[derive(Debug, thiserror::Error)]
#[error("step {step}, {operation:?}: {left:?} on the left, {right:?} on the right")]
pub struct Disagreement {
    /// Where, counted from 1. Steps beyond the sequence look at what is left.
    pub step: usize,
    /// What was done.
    pub operation: Operation,
    /// The reply of the one.
    pub left: Seen,
    /// The reply of the other.
    pub right: Seen,
}

/// A reply in the form in which it is compared: failures by their kind, times apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    reply: String,
    left: Option<Duration>,
}

/// Sequences of up to 40 such operations.
pub fn sequences(
    operation: impl Strategy<Value = Operation>,
) -> impl Strategy<Value = Vec<Operation>> {
    vec(operation, 1..=40)
}

/// Operations of locks.
pub fn locks() -> impl Strategy<Value = Operation> {
    lock::operations().prop_map(Operation::Lock)
}

/// Operations of semaphores.
pub fn semaphores() -> impl Strategy<Value = Operation> {
    (name(), semaphore::operations())
        .prop_map(|(name, operation)| Operation::Semaphore(name, operation))
}

/// Operations of buckets.
pub fn buckets() -> impl Strategy<Value = Operation> {
    (name(), bucket::operations()).prop_map(|(name, operation)| Operation::Bucket(name, operation))
}

/// Operations of all objects. Deleted names are taken by objects of another type.
pub fn everything() -> impl Strategy<Value = Operation> {
    let delete = name().prop_map(|name| Operation::Bucket(name, BucketOperation::Delete));
    prop_oneof![3 => locks(), 3 => semaphores(), 2 => buckets(), 1 => delete]
}

/// Applies the operations to both backends, and looks at what is left of them.
///
/// # Errors
///
/// The first step at which the replies differ.
///
/// # Panics
///
/// A key that [`Operation::AwaitGone`] waits for does not end.
pub async fn compare(
    left: &dyn Backend,
    right: &dyn Backend,
    operations: &[Operation],
) -> Result<(), Disagreement> {
    let world = World::fresh();
    let looks: Vec<_> = (0..NAMES).flat_map(looks).collect();
    for (step, operation) in operations.iter().chain(&looks).enumerate() {
        let (left, right) =
            (operation.apply(left, &world).await, operation.apply(right, &world).await);
        if !left.agrees_with(&right) {
            return Err(Disagreement { step: step + 1, operation: operation.clone(), left, right });
        }
    }
    Ok(())
}

impl Operation {
    async fn apply(&self, backend: &dyn Backend, world: &World) -> Seen {
        match self {
            Self::Lock(operation) => operation.apply(backend, world).await,
            Self::Semaphore(name, operation) => operation.apply(backend, world, *name).await,
            Self::Bucket(name, operation) => operation.apply(backend, world, *name).await,
            Self::AwaitGone(name) => Seen::of(await_gone(backend, &world.name(*name)).await),
        }
    }
}

impl Seen {
    fn of(reply: Result<impl Reply, BackendError>) -> Self {
        match reply {
            Ok(mut reply) => {
                let left = reply.take_left();
                Self { reply: format!("{reply:?}"), left }
            }
            Err(error) => Self { reply: format!("{:?}", error.failure()), left: None },
        }
    }

    fn agrees_with(&self, other: &Self) -> bool {
        let is_as_long = match (self.left, other.left) {
            (Some(left), Some(right)) => left.abs_diff(right) <= TOLERANCE,
            (left, right) => left == right,
        };
        is_as_long && self.reply == other.reply
    }
}

/// What a backend answers. The time in it is taken out, to be compared with a tolerance.
trait Reply: Debug {
    fn take_left(&mut self) -> Option<Duration> {
        None
    }
}

impl Reply for Attempt {
    fn take_left(&mut self) -> Option<Duration> {
        match self {
            Self::Contended { remaining } => remaining.take(),
            Self::Acquired { .. } | Self::Abandoned => None,
        }
    }
}

impl Reply for Option<LockInfo> {
    fn take_left(&mut self) -> Option<Duration> {
        self.as_mut().and_then(|info| info.remaining.take())
    }
}

impl Reply for Ttl {
    fn take_left(&mut self) -> Option<Duration> {
        match self {
            Self::After(left) => Some(mem::take(left)),
            Self::Absent | Self::Persistent => None,
        }
    }
}

/// The names and owners of one run of a sequence. Fresh ones each time, so that runs leave each
/// other alone.
struct World {
    client: Uuid,
}

impl World {
    fn fresh() -> Self {
        Self { client: Uuid::new_v4() }
    }

    fn name(&self, number: usize) -> Name {
        Name::new(format!("differential:{}:{number}", self.client))
    }

    fn owner(&self, number: u64) -> OwnerId {
        OwnerId::new(self.client, number)
    }
}

/// Everything that can be seen under a name.
fn looks(name: usize) -> impl Iterator<Item = Operation> {
    let locks = lock::looks(name).map(Operation::Lock);
    let semaphore = Operation::Semaphore(name, SemaphoreOperation::Available);
    let bucket = [BucketOperation::Get, BucketOperation::Ttl];
    let bucket = bucket.map(|operation| Operation::Bucket(name, operation));
    locks.into_iter().chain([semaphore]).chain(bucket)
}

/// Mostly the same, so that operations meet.
fn name() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0), 1 => 1..NAMES]
}

/// Mostly the same, so that who releases something often has it.
fn owner() -> impl Strategy<Value = u64> {
    prop_oneof![6 => Just(1), 3 => Just(2), 1 => Just(3)]
}

/// Times that do not end in a test, far apart.
fn long_time() -> impl Strategy<Value = Duration> {
    select([60, 600, 6000].map(Duration::from_secs).to_vec())
}

async fn await_gone(backend: &dyn Backend, name: &Name) -> Result<bool, BackendError> {
    let gone = async {
        while backend.exists(name).await? {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(true)
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the key ends in time")
}
