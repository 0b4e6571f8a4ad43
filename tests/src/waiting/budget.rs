//! A call waits as long as it was told: not longer, and not less.

use ferrisson_core::{
    Error, Outcome, Refusal,
    backend::{Condition, Expiry},
};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs};
use tokio::{
    task::JoinSet,
    time::{self, Duration, Instant},
};

// B076
#[tokio::test(start_paused = true)]
async fn no_wait_is_one_round_trip_and_no_subscription_for_however_many() {
    let world = World::new();
    let _guard = world.stranger().lock("x").lock().await.unwrap();
    world.faults.fail_all(Op::Acquire, Fault::SlowReply(ms(900)));
    let (client, start) = (world.client(), Instant::now());
    let mut crowd = JoinSet::new();
    for _ in 0..50 {
        let lock = client.lock("x");
        crowd.spawn(async move { lock.try_lock(Duration::ZERO, secs(1)).await.map(drop) });
    }
    for result in crowd.join_all().await {
        result.unwrap();
    }
    assert_eq!(start.elapsed(), ms(900));
    assert_eq!((world.faults.calls(Op::Acquire), world.faults.calls(Op::Subscribe)), (50, 0));
}

// B084
#[tokio::test(start_paused = true)]
async fn each_call_has_a_wait_of_its_own() {
    let world = World::new();
    let _guard = world.stranger().lock("x").lock().await.unwrap();
    let lock = world.client().lock("x");
    for wait in [Duration::from_micros(1), ms(1), ms(200), ms(999), secs(10), ms(200)] {
        let start = Instant::now();
        assert!(lock.try_lock(wait, secs(1)).await.unwrap().is_none());
        let took = start.elapsed();
        assert!((wait..wait + ms(2)).contains(&took), "{took:?} for {wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_row_wait_side_by_side() {
    let world = World::new();
    let _guard = world.stranger().lock("x").lock().await.unwrap();
    let (client, start) = (world.client(), Instant::now());
    let mut crowd = JoinSet::new();
    for number in 0..20 {
        let (lock, wait) = (client.lock("x"), ms(500 - 20 * number));
        crowd.spawn(async move {
            assert!(lock.try_lock(wait, secs(1)).await.unwrap().is_none());
            assert_eq!(start.elapsed(), wait);
        });
    }
    crowd.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_end_has_none() {
    let world = World::new();
    let guard = world.stranger().lock("x").lock().await.unwrap();
    let lock = world.client().lock("x");
    for wait in [Duration::MAX, Duration::from_millis(u64::MAX), secs(100 * 365 * 24 * 3600)] {
        let wait = lock.try_lock(wait, secs(1));
        assert!(time::timeout(secs(600), wait).await.is_err());
    }
    drop(guard);
}

// B090, B051, B110
#[tokio::test(start_paused = true)]
async fn the_lease_neither_limits_the_wait_nor_begins_before_its_end() {
    for hold in [ms(1200), secs(3)] {
        let world = World::new();
        let guard = world.stranger().lock("x").lock().await.unwrap();
        let (lock, start) = (world.client().lock("x"), Instant::now());
        let waiting = tokio::spawn(async move { lock.try_lock(secs(10), secs(1)).await });
        time::sleep(hold).await;
        guard.unlock().await.unwrap();
        let guard = waiting.await.unwrap().unwrap().expect("free after the hold");
        assert!(start.elapsed() < hold + ms(5));
        assert!(guard.is_held());
        assert!((ms(980)..=secs(1)).contains(&guard.remaining()), "{:?}", guard.remaining());
    }
}

// B088
#[tokio::test(start_paused = true)]
async fn a_call_begins_with_the_first_pause_whatever_came_before() {
    let world = World::new();
    let lock = world.client().lock("x");
    world.faults.fail_all(Op::Acquire, Fault::NotExecuted);
    assert!(lock.lock().await.is_err(), "ridden out for as long as the client's patience");
    assert!(world.faults.calls(Op::Acquire) > 5, "with pauses that grow");
    let healing = tokio::spawn({
        let faults = world.faults.clone();
        async move {
            time::sleep(ms(15)).await;
            faults.heal();
        }
    });
    let start = Instant::now();
    let _guard = lock.lock().await.unwrap();
    assert!(start.elapsed() < ms(50), "{:?}", start.elapsed());
    healing.await.unwrap();
}

// B088
#[tokio::test(start_paused = true)]
async fn a_plain_lock_of_a_stranger_is_looked_at_often_first_and_seldom_later() {
    use ferrisson_core::backend::BucketBackend;
    let world = World::new();
    let lock = world.client().plain_lock("x");
    let stranger = async || {
        let (name, token) = ("x".into(), "a token of another library".into());
        world.store.set(&name, token, Condition::Always, Expiry::Never).await.unwrap();
    };
    stranger().await;
    assert!(lock.try_lock(secs(30), secs(1)).await.unwrap().is_none());
    let tries = world.faults.calls(Op::Acquire);
    assert!((30..=45).contains(&tries), "{tries} tries in 30 s");

    let start = Instant::now();
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    time::sleep(ms(15)).await;
    world.store.remove("x");
    let _guard = waiting.await.unwrap().unwrap();
    assert!(start.elapsed() <= ms(70), "{:?}", start.elapsed());
}

// B089
#[tokio::test(start_paused = true)]
async fn the_last_failure_is_not_slept_on() {
    let world = World::new();
    let lock = world.client().lock("x");
    world.faults.fail_all(Op::Acquire, Fault::NotExecuted);
    for wait in [Duration::ZERO, ms(300), ms(1500)] {
        let start = Instant::now();
        assert!(matches!(lock.try_lock(wait, secs(1)).await, Err(Error::Unavailable { .. })));
        assert_eq!(start.elapsed(), wait);
    }
    let impatient = world.builder().patience(Duration::ZERO).build().unwrap();
    let start = Instant::now();
    assert!(impatient.lock("x").lock().await.is_err());
    assert!(start.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_failing_backend_is_reported_after_the_clients_patience() {
    let world = World::new();
    world.faults.fail_all(Op::Acquire, Fault::NotExecuted);
    let (client, start) = (world.client(), Instant::now());
    let mut row = JoinSet::new();
    for _ in 0..10 {
        let lock = client.lock("x");
        row.spawn(async move { lock.lock().await.map(drop) });
    }
    for result in row.join_all().await {
        let Err(Error::Unavailable { outcome: Outcome::NotExecuted, .. }) = result else {
            panic!("{result:?}")
        };
    }
    // The first pause after the patience is the last, and nobody in the row starts again.
    assert!((secs(2)..ms(2510)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

// B236
#[tokio::test(start_paused = true)]
async fn a_refusal_that_passes_is_ridden_out_and_another_is_not() {
    let lasting = [Refusal::NotPermitted, Refusal::OutOfMemory, Refusal::Misconfigured];
    let passing = [
        Refusal::Loading,
        Refusal::Busy,
        Refusal::ClusterDown,
        Refusal::PrimaryDown,
        Refusal::ReadOnly,
    ];
    for refusal in passing.into_iter().chain(lasting) {
        let world = World::new();
        world.faults.fail_all(Op::Acquire, Fault::Refuse(refusal));
        let (lock, start) = (world.client().lock("x"), Instant::now());
        let waiting = tokio::spawn(async move { lock.try_lock(secs(10), secs(1)).await });
        time::sleep(ms(1500)).await;
        world.faults.heal();
        let result = waiting.await.unwrap();
        if passing.contains(&refusal) {
            assert!(result.unwrap().is_some(), "{refusal:?}");
            assert!(start.elapsed() <= secs(2), "{:?}", start.elapsed());
        } else {
            let Err(Error::Refused { refusal: reported, .. }) = result else {
                panic!("{refusal:?}: {result:?}")
            };
            assert_eq!((reported, world.faults.calls(Op::Acquire)), (refusal, 1));
        }
    }
}
