//! A call that is dropped, given up or overtaken by the end of its wait leaves nothing behind.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ferrisson_core::Error;
use ferrisson_testkit::{
    cancel::{Cut, at_every_cut, cancel_at},
    faulty::{Fault, Op},
};
use ferrisson_tests::inproc::{World, ms, secs, settle, tasks};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};

// B064
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_granted_to_a_call_that_is_gone_is_given_back() {
    for (fault, gone_after) in [
        (Fault::SlowReply(ms(500)), ms(500)),
        (Fault::SlowRequest(ms(500)), ms(500)),
        (Fault::LostReply, ms(1000)),
    ] {
        let world = World::new();
        let lock = world.client().lock("x");
        world.faults.fail_next(Op::Acquire, 1, fault);
        assert!(time::timeout(ms(100), lock.lock()).await.is_err());
        time::sleep(gone_after - ms(99)).await;
        assert!(!world.stranger().lock("x").is_locked().await.unwrap(), "{fault:?}");
        time::sleep(secs(60)).await;
        assert_eq!(world.faults.calls(Op::Renew), 0);
        assert_eq!(tasks(), 0);
    }
}

// B064
#[tokio::test(start_paused = true)]
async fn a_request_that_arrives_after_its_call_was_dropped_wins_nothing() {
    let world = World::new();
    let lock = world.client().lock("x");
    world.faults.fail_next(Op::Acquire, 1, Fault::Late(secs(30)));
    assert!(time::timeout(ms(1), lock.lock()).await.is_err());
    time::sleep(secs(40)).await;
    assert!(!lock.is_locked().await.unwrap());
    assert!(lock.try_lock(ms(0), secs(1)).await.unwrap().is_some());
}

// B066
#[tokio::test(start_paused = true)]
async fn a_second_try_is_not_blocked_by_the_first() {
    let world = World::new();
    let lock = world.client().lock("x");
    world.faults.fail_next(Op::Acquire, 2, Fault::LostReply);
    let start = Instant::now();
    let guard = lock.try_lock(secs(5), secs(60)).await.unwrap().expect("its own key is no other");
    assert!(start.elapsed() < ms(2100), "two command timeouts and two pauses");
    assert_eq!(lock.inspect().await.unwrap().map(|info| info.holds), Some(1));
    guard.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

// B069
#[tokio::test(start_paused = true)]
async fn a_waiter_that_gave_up_is_not_granted_the_lock() {
    for is_one_client in [true, false] {
        let world = World::new();
        let guard = world.stranger().lock("x").lock().await.unwrap();
        let one = world.client();
        let other = if is_one_client { one.clone() } else { world.client() };
        let start = Instant::now();
        assert!(one.lock("x").try_lock(ms(200), secs(60)).await.unwrap().is_none());
        let waiting = tokio::spawn(async move { other.lock("x").try_lock(secs(1), secs(1)).await });
        time::sleep(ms(100)).await;
        guard.unlock().await.unwrap();
        assert!(waiting.await.unwrap().unwrap().is_some());
        assert!((ms(300)..ms(305)).contains(&start.elapsed()), "{:?}", start.elapsed());
    }
}

// B070
#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_half_way_is_done_before_the_next_gets_in() {
    let world = World::new();
    let lock = world.client().lock("x");
    let guard = lock.lock().await.unwrap();
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.try_lock(secs(2), secs(60)).await });
    settle().await;
    let start = Instant::now();
    world.faults.fail_next(Op::Release, 1, Fault::SlowRequest(ms(300)));
    assert!(cancel_at(guard.unlock(), Cut::After(1)).await.is_none());
    let next = waiting.await.unwrap().unwrap().expect("released in the background");
    assert!((ms(300)..ms(305)).contains(&start.elapsed()), "{:?}", start.elapsed());
    time::sleep(secs(10)).await;
    assert!(lock.is_locked().await.unwrap(), "the late release is not for the next hold");
    assert_eq!(world.faults.calls(Op::Release), 1);
    next.unlock().await.unwrap();
}

// B073
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_interrupted_never_yields_a_guard() {
    let world = World::new();
    let guard = world.stranger().lock("x").lock().await.unwrap();
    let (aborted, closed) = (world.client(), world.client());
    let wait = |client: &ferrisson_core::Client| {
        let lock = client.lock("x");
        tokio::spawn(async move { lock.lock().await })
    };
    let (a, b) = (wait(&aborted), wait(&closed));
    settle().await;
    a.abort();
    closed.close().await;
    assert!(a.await.unwrap_err().is_cancelled());
    assert!(matches!(b.await.unwrap(), Err(Error::Closed)));
    guard.unlock().await.unwrap();
    settle().await;
    assert_eq!(world.store.keys(), Vec::<String>::new());
}

// B074
#[tokio::test(start_paused = true)]
async fn a_try_that_succeeds_after_the_end_of_the_wait_is_a_success() {
    for wait in [ms(0), ms(1), ms(300)] {
        let world = World::new();
        let lock = world.client().lock("x");
        world.faults.fail_next(Op::Acquire, 1, Fault::SlowReply(ms(400)));
        let guard = lock.try_lock(wait, secs(10)).await.unwrap().expect("the store has granted it");
        assert!(guard.is_held());
        guard.unlock().await.unwrap();
    }
}

// B074
#[tokio::test(start_paused = true)]
async fn a_last_try_is_a_success_or_leaves_nothing() {
    let mut outcomes = [0, 0];
    for wait in 480..=560 {
        let world = World::new();
        world.stranger().lock("x").lock_with(ms(500)).await.unwrap().forget();
        world.faults.fail_all(Op::Acquire, Fault::SlowReply(ms(40)));
        let lock = world.client().lock("x");
        let guard = lock.try_lock(ms(wait), secs(10)).await.unwrap();
        outcomes[usize::from(guard.is_some())] += 1;
        time::sleep(ms(100)).await;
        assert_eq!(lock.is_locked().await.unwrap(), guard.is_some(), "waited for {wait} ms");
    }
    assert!(outcomes.iter().all(|&n| n > 10), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_can_be_dropped_at_any_point() {
    let cuts = at_every_cut(async |cut| {
        let world = World::new();
        let guard = world.stranger().lock("x").lock_with(secs(60)).await.unwrap();
        world.faults.fail_all(Op::Acquire, Fault::SlowReply(ms(20)));
        world.faults.fail_all(Op::Subscribe, Fault::SlowReply(ms(20)));
        let lock = world.client().lock("x");
        tokio::spawn(async move {
            time::sleep(ms(100)).await;
            guard.unlock().await.unwrap();
        });
        let is_cancelled = cancel_at(lock.try_lock(secs(1), secs(60)), cut).await.is_none();
        time::sleep(ms(200)).await;
        assert_eq!(world.store.keys(), Vec::<String>::new(), "{cut:?}");
        assert_eq!((world.store.subscriptions(), tasks()), (0, 0), "{cut:?}");
        is_cancelled
    })
    .await;
    assert!(cuts >= 8, "{cuts}");
}

// B071
#[tokio::test(start_paused = true)]
async fn waiters_that_are_dropped_give_back_only_what_they_had() {
    for seed in 0..50 {
        let world = World::new();
        let semaphore = world.client().semaphore("s");
        semaphore.try_set_permits(1).await.unwrap();
        let permit = semaphore.acquire(1).await.unwrap();
        world.faults.fail_all(Op::AcquirePermits, Fault::SlowReply(ms(2)));
        let mut rng = SmallRng::seed_from_u64(seed);
        let holders = Arc::new(AtomicU32::new(0));
        let mut crowd = JoinSet::new();
        for _ in 0..100 {
            let (semaphore, holders) = (semaphore.clone(), Arc::clone(&holders));
            let patience = ms(rng.random_range(0..60));
            crowd.spawn(async move {
                let acquire = semaphore.acquire(1);
                let Ok(permit) = time::timeout(patience, acquire).await else { return };
                assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0);
                time::sleep(ms(1)).await;
                holders.fetch_sub(1, Ordering::Relaxed);
                drop(permit.unwrap());
            });
        }
        time::sleep(ms(30)).await;
        drop(permit);
        crowd.join_all().await;
        time::sleep(ms(10)).await;
        assert_eq!(semaphore.available_permits().await.unwrap(), 1, "seed {seed}");
        assert_eq!(world.store.keys(), ["s"], "seed {seed}");
    }
}
