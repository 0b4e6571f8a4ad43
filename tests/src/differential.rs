//! The in-process backend is the specification of the scripts: whatever is done, both reply alike.
//!
//! The sequences are the same in each run. `PROPTEST_RNG_SEED=<number>` makes others, and
//! `PROPTEST_CASES=<number>` more of them. A failure prints the shortest sequence that shows it.

use std::{future::Future, time::Duration};

use ferrisson_core::backend::{
    Condition, Expiry, Lifecycle,
    LockKind::{Plain, Reentrant},
    PermitRecord,
};
use ferrisson_fred::{FredBuilder, FredConnection};
use ferrisson_memory::MemoryBackend;
use ferrisson_protocol::RedisBackend;
use ferrisson_testkit::{
    differential::{
        BucketOperation as B, Hold, Lock, LockOperation as L,
        Operation::{self, AwaitGone, Bucket, Semaphore},
        SemaphoreOperation as S, Value, buckets, compare, everything, locks, semaphores, sequences,
    },
    shared,
};
use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner},
};

/// Long enough to be seen, short enough to be waited for.
const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(600);

/// Room for a busy machine: what takes longer is a failure, and failures are compared.
const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn locks_agree() {
    agree_on_sequences_of(locks());
}

#[test]
fn semaphores_agree() {
    agree_on_sequences_of(semaphores());
}

#[test]
fn buckets_agree() {
    agree_on_sequences_of(buckets());
}

#[test]
fn different_objects_of_one_name_agree() {
    agree_on_sequences_of(everything());
}

#[tokio::test]
async fn a_lock_whose_lease_has_ended_is_gone_for_its_owner_and_free_for_others() {
    for kind in [Reentrant, Plain] {
        let hold = |owner| Hold(Lock(kind, 0), owner);
        let after = [
            L::Renew(vec![(hold(1), LONG)]),
            L::SetHolds(0, 1, 2),
            L::Inspect(Lock(kind, 0)),
            L::Release(hold(1)),
            L::ForceRelease(Lock(kind, 0)),
            L::Acquire(hold(2), LONG),
            L::Acquire(hold(1), LONG),
        ];
        let mut operations = vec![Operation::Lock(L::Acquire(hold(1), SHORT)), AwaitGone(0)];
        operations.extend(after.map(Operation::Lock));
        agree_on(&operations).await;
    }
}

#[tokio::test]
async fn a_lease_is_set_anew_also_if_it_is_shorter() {
    for kind in [Reentrant, Plain] {
        let hold = Hold(Lock(kind, 0), 1);
        for shorten in [L::Acquire(hold, SHORT), L::Renew(vec![(hold, SHORT)])] {
            let [long, short] = [L::Acquire(hold, LONG), shorten].map(Operation::Lock);
            agree_on(&[long, short, AwaitGone(0)]).await;
        }
    }
}

#[tokio::test]
async fn a_semaphore_that_has_ended_is_absent_and_its_grants_are_not() {
    let five = B::Set(Value::Bytes(b"5".into()), Condition::Always, Expiry::After(LONG));
    agree_on(&[
        Bucket(0, five),
        Semaphore(0, S::Acquire(1, 2)),
        Semaphore(0, S::Acquire(2, 1)),
        Bucket(0, B::Expire(Some(SHORT))),
        AwaitGone(0),
        Semaphore(0, S::Available),
        Semaphore(0, S::Drain),
        Semaphore(0, S::Acquire(1, 2)),
        Semaphore(0, S::Acquire(3, 1)),
        Semaphore(0, S::Release(1, 2, PermitRecord::Kept)),
        Semaphore(0, S::Available),
        Semaphore(0, S::Init(7)),
        Semaphore(0, S::Abandon(2)),
        Semaphore(0, S::Available),
    ])
    .await;
}

#[tokio::test]
async fn adding_permits_keeps_or_drops_a_ttl() {
    for keep_ttl in [true, false] {
        let five = B::Set(Value::Bytes(b"5".into()), Condition::Always, Expiry::After(LONG));
        let operations = [Bucket(0, five), Semaphore(0, S::Add(2, keep_ttl)), Bucket(0, B::Ttl)];
        agree_on(&operations).await;
    }
}

#[tokio::test]
async fn a_value_that_has_ended_leaves_nothing_behind() {
    let value = || Value::Bytes(b"a".into());
    let set = |condition, expiry| Bucket(0, B::Set(value(), condition, expiry));
    agree_on(&[
        set(Condition::Always, Expiry::After(SHORT)),
        AwaitGone(0),
        Bucket(0, B::Get),
        Bucket(0, B::Size),
        Bucket(0, B::Touch),
        Bucket(0, B::Expire(None)),
        Bucket(0, B::Expire(Some(LONG))),
        Bucket(0, B::CompareAndSet(Some(value()), None)),
        set(Condition::IfExists, Expiry::Never),
        set(Condition::IfAbsent, Expiry::Keep),
        Bucket(0, B::Ttl),
        Bucket(0, B::Replace(value(), Some(SHORT))),
        AwaitGone(0),
        Bucket(0, B::Take),
        Bucket(0, B::CompareAndSet(None, Some(value()))),
        Bucket(0, B::Ttl),
    ])
    .await;
}

/// Applies random sequences of these operations to both backends.
#[track_caller]
fn agree_on_sequences_of(operation: impl Strategy<Value = Operation>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    let (memory, redis) = (MemoryBackend::new(), runtime.block_on(redis()));
    let result = TestRunner::new(config()).run(&sequences(operation), |operations| {
        let compared = runtime.block_on(compare(&memory, &redis, &operations));
        compared.map_err(|disagreement| TestCaseError::fail(disagreement.to_string()))
    });
    runtime.block_on(redis.close());
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, sequence)) => panic!("{reason}\nafter {sequence:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

async fn agree_on(operations: &[Operation]) {
    let (memory, redis) = (MemoryBackend::new(), redis().await);
    let compared = compare(&memory, &redis, operations).await;
    redis.close().await;
    compared.expect("both backends reply alike");
}

fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases *= 2;
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(7);
    }
    config
}

fn redis() -> impl Future<Output = RedisBackend<FredConnection>> {
    let builder = FredBuilder::new(shared().url());
    let builder = builder.connect_timeout(TIMEOUT).command_timeout(TIMEOUT);
    async { RedisBackend::new(builder.connect().await.expect("the server is there")) }
}
