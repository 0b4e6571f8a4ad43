//! Every length of a lease is either kept or refused.

use ferrisson_core::{Error, Lease, MAX_LEASE, MIN_LEASE, Ttl};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs};
use tokio::time::{self, Duration, Instant};

use super::{is_lost, is_lost_as};

fn is_invalid<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::InvalidArgument { .. }))
}

const TOO_LONG: [Duration; 4] = [
    Duration::MAX,
    Duration::from_millis(u64::MAX),
    Duration::from_millis(i64::MAX as u64),
    MAX_LEASE.saturating_add(Duration::from_nanos(1)),
];

const TOO_SHORT: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_micros(1),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_nanos(9_999_999),
];

// B098, B102, B103
#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_can_keep_is_refused_before_anything_is_sent() {
    let world = World::new();
    let client = world.client();
    for lock in [client.lock("x"), client.plain_lock("x")] {
        for lease in TOO_SHORT.into_iter().chain(TOO_LONG) {
            assert!(is_invalid(&lock.try_lock(Duration::ZERO, lease).await), "{lease:?}");
            assert!(is_invalid(&lock.lock_with(lease).await), "{lease:?}");
        }
    }
    assert_eq!(world.faults.total_calls(), 0);
}

// B102, B103
#[tokio::test(start_paused = true)]
async fn a_lease_within_the_limits_is_kept_to_the_millisecond() {
    let world = World::new();
    let lock = world.client().lock("x");
    for (lease, kept) in [
        (MIN_LEASE, ms(10)),
        (Duration::from_micros(10_001), ms(11)),
        (Duration::from_nanos(99_000_001), ms(100)),
        (secs(i32::MAX as u64 + 1), secs(i32::MAX as u64 + 1)),
        (MAX_LEASE, MAX_LEASE),
    ] {
        let guard = lock.lock_with(lease).await.unwrap();
        assert_eq!(lock.remaining_lease().await.unwrap(), Some(kept));
        assert!(guard.is_held() && guard.remaining() < kept);
        assert!(guard.remaining() >= kept / 3, "{:?} of {kept:?}", guard.remaining());
        guard.unlock().await.unwrap();
    }
}

// B094, B102
#[tokio::test(start_paused = true)]
async fn a_renewal_that_nobody_can_keep_changes_nothing() {
    let world = World::new();
    let lock = world.client().lock("x");
    for lease in [Lease::from(secs(10)), Lease::AutoRenew] {
        let guard = lock.lock_with(lease).await.unwrap();
        let left = lock.remaining_lease().await.unwrap();
        for lease in TOO_SHORT.into_iter().chain(TOO_LONG) {
            assert!(is_invalid(&guard.renew(lease).await), "{lease:?}");
        }
        assert_eq!((lock.remaining_lease().await.unwrap(), guard.is_held()), (left, true));
        guard.unlock().await.unwrap();
    }
    assert_eq!(world.faults.calls(Op::Renew), 0);
}

// B098
#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_after_its_lease_is_none() {
    let world = World::new();
    let lock = world.client().lock("x");
    for lease in [ms(10), ms(20), ms(50)] {
        world.faults.fail_next(Op::Acquire, 1, Fault::SlowReply(ms(50)));
        let result = lock.try_lock(Duration::ZERO, lease).await;
        assert!(is_lost_as(ferrisson_core::LossReason::Expired, &result), "{lease:?}");
        time::sleep(ms(2)).await;
        assert!(!lock.is_locked().await.unwrap());
    }
    // A waiting call tries again.
    world.faults.fail_next(Op::Acquire, 3, Fault::SlowReply(ms(50)));
    let start = Instant::now();
    let guard = lock.try_lock(secs(1), ms(20)).await.unwrap().expect("the fourth try is in time");
    assert!(guard.is_held() && start.elapsed() < ms(200));
    guard.unlock().await.unwrap();
    world.faults.fail_all(Op::Acquire, Fault::SlowReply(ms(50)));
    assert!(is_lost(&lock.try_lock(secs(1), ms(20)).await));
    assert!(start.elapsed() < ms(1300));
}

#[tokio::test(start_paused = true)]
async fn a_lease_shorter_than_the_way_to_the_backend_is_not_tried_for_ever() {
    let world = World::new();
    world.faults.fail_all(Op::Acquire, Fault::SlowReply(ms(50)));
    let (lock, start) = (world.client().lock("x"), Instant::now());
    assert!(is_lost(&lock.lock_with(ms(20)).await));
    assert!((secs(2)..ms(2200)).contains(&start.elapsed()), "the client's patience");
    time::sleep(ms(100)).await;
    assert!(!lock.is_locked().await.unwrap());
}

// B096
#[tokio::test(start_paused = true)]
async fn a_client_without_patience_locks_and_unlocks() {
    let world = World::new();
    let client = world.builder().patience(Duration::ZERO).build().unwrap();
    for lock in [client.lock("x"), client.plain_lock("p")] {
        lock.lock().await.unwrap().unlock().await.unwrap();
        drop(lock.lock().await.unwrap());
        time::sleep(ms(1)).await;
        assert!(!lock.is_locked().await.unwrap());
    }
}

// B100
#[tokio::test(start_paused = true)]
async fn settings_that_can_never_work_are_refused() {
    let world = World::new();
    let builder = || world.builder();
    for watchdog in [Duration::ZERO, ms(29), MAX_LEASE + ms(1), Duration::MAX] {
        assert!(is_invalid(&builder().watchdog_lease(watchdog).build()), "{watchdog:?}");
    }
    for poll in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        assert!(is_invalid(&builder().poll_interval(poll).build()), "{poll:?}");
    }
    assert!(is_invalid(&builder().patience(secs(24 * 3600) + ms(1)).build()));
    assert!(is_invalid(&builder().renewal_batch(0).build()));
    assert!(is_invalid(&builder().namespace("").build()));
    // The shortest watchdog keeps what it holds: its interval follows from its lease.
    let client = builder().watchdog_lease(ms(30)).poll_interval(ms(1)).build().unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    time::sleep(secs(1)).await;
    assert!(guard.is_held());
}

// B101
#[tokio::test(start_paused = true)]
async fn no_end_no_value_and_an_end_are_three_answers() {
    let world = World::new();
    let client = world.client();
    let (bucket, lock) = (client.bucket::<u8>("b"), client.plain_lock("b"));
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Absent);
    assert_eq!(lock.remaining_lease().await.unwrap(), None);
    bucket.set(&1).await.unwrap();
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);
    assert_eq!(lock.remaining_lease().await.unwrap(), Some(Duration::MAX));
    bucket.set_with_ttl(&1, Duration::from_micros(1)).await.unwrap();
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::After(ms(1)), "rounded up, not down to none");
    assert_eq!(lock.remaining_lease().await.unwrap(), Some(ms(1)));
    time::sleep(ms(3)).await;
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Absent);
}

// B111
#[tokio::test(start_paused = true)]
async fn a_renewal_of_what_is_gone_leaves_no_time() {
    let world = World::new();
    let lock = world.client().lock("x");
    let guard = lock.lock_with(secs(10)).await.unwrap();
    world.store.remove("x");
    assert!(guard.remaining() > secs(9), "nobody has told");
    assert!(is_lost(&guard.renew(secs(10)).await));
    assert_eq!((guard.remaining(), guard.is_held()), (Duration::ZERO, false));
}
