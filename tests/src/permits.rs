//! Permits are neither lost nor made, and whoever waits for some is woken when there are enough.
//! On the in-process backend, with paused time. The ids are those of the table of fault cases in
//! the book.

#[path = "permits/repeats.rs"]
mod repeats;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use ferrisson_core::{
    Error, MAX_PERMITS, Refusal, SemaphoreHandle,
    backend::{NotifyBackend, Topic},
};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs, settle};
use futures::FutureExt;
use tokio::{
    task::JoinSet,
    time::{self, Duration, Instant},
};

/// A semaphore with so many permits.
async fn semaphore(world: &World, permits: u32) -> SemaphoreHandle {
    let semaphore = world.client().semaphore("s");
    assert!(semaphore.try_set_permits(permits).await.expect("nothing fails"));
    semaphore
}

async fn available(semaphore: &SemaphoreHandle) -> i64 {
    semaphore.available_permits().await.expect("nothing fails")
}

// B004
#[tokio::test(start_paused = true)]
async fn a_permit_that_goes_round_is_never_left_lying() {
    let world = World::new();
    let semaphore = semaphore(&world, 1).await;
    let clients = [world.client(), world.client()];
    let (start, holders) = (Instant::now(), Arc::new(AtomicI64::new(0)));
    let mut crowd = JoinSet::new();
    for number in 0..40 {
        let semaphore = clients[number % 2].semaphore("s");
        let holders = Arc::clone(&holders);
        crowd.spawn(async move {
            for _ in 0..100 {
                let permit = semaphore.acquire(1).await.unwrap();
                assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0);
                tokio::task::yield_now().await;
                holders.fetch_sub(1, Ordering::Relaxed);
                permit.release().await.unwrap();
            }
        });
    }
    crowd.join_all().await;
    assert!(start.elapsed() < ms(5), "somebody slept: {:?}", start.elapsed());
    assert_eq!(available(&semaphore).await, 1);
    assert_eq!(world.store.keys(), ["s"]);
}

// B005, B172
#[tokio::test(start_paused = true)]
async fn more_permits_wake_who_waits_for_them() {
    let world = World::new();
    let semaphore = semaphore(&world, 1).await;
    let stranger = world.stranger().semaphore("s");
    type Raise = fn(SemaphoreHandle) -> futures::future::BoxFuture<'static, ()>;
    let ways: [Raise; 2] = [
        |semaphore| async move { semaphore.add_permits(1).await.unwrap() }.boxed(),
        |semaphore| async move { semaphore.release(1).await.unwrap() }.boxed(),
    ];
    for raise in ways {
        for other in [semaphore.clone(), stranger.clone()] {
            let waiter = semaphore.clone();
            let waiting = tokio::spawn(async move { waiter.acquire(2).await });
            time::sleep(secs(5)).await;
            let start = Instant::now();
            raise(other).await;
            let permit = waiting.await.unwrap().unwrap();
            assert!(start.elapsed() < ms(5));
            assert_eq!((permit.permits(), available(&semaphore).await), (2, 0));
            permit.release().await.unwrap();
            semaphore.add_permits(-1).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_permits_wake_who_waits_for_a_semaphore_that_is_not_there() {
    let world = World::new();
    let waiter = world.client().semaphore("s");
    let waiting = tokio::spawn(async move { waiter.acquire(2).await });
    time::sleep(secs(5)).await;
    let start = Instant::now();
    assert!(world.stranger().semaphore("s").try_set_permits(2).await.unwrap());
    assert_eq!(waiting.await.unwrap().unwrap().permits(), 2);
    assert!(start.elapsed() < ms(5));
}

// B006
#[tokio::test(start_paused = true)]
async fn several_permits_that_come_at_once_are_enough_for_who_waits_for_several() {
    let world = World::new();
    let semaphore = semaphore(&world, 2).await;
    let two = semaphore.acquire(2).await.unwrap();
    for is_at_once in [true, false] {
        let waiter = world.client().semaphore("s");
        let waiting = tokio::spawn(async move { waiter.try_acquire(2, secs(5)).await });
        time::sleep(ms(500)).await;
        let start = Instant::now();
        if is_at_once {
            semaphore.release(2).await.unwrap();
        } else {
            semaphore.release(1).await.unwrap();
            time::sleep(ms(100)).await;
            semaphore.release(1).await.unwrap();
        }
        waiting.await.unwrap().unwrap().expect("within 5 s").forget();
        assert!(start.elapsed() < ms(105));
    }
    two.forget();
    // One release is enough for several who wait for one.
    let start = Instant::now();
    let mut crowd = JoinSet::new();
    for client in [world.client(), world.client(), world.client()] {
        for _ in 0..5 {
            let waiter = client.semaphore("s");
            crowd.spawn(async move { waiter.acquire(1).await.unwrap().forget() });
        }
    }
    settle().await;
    semaphore.release(15).await.unwrap();
    crowd.join_all().await;
    assert!(start.elapsed() < ms(10), "{:?}", start.elapsed());
    assert_eq!(available(&semaphore).await, 0);
}

// B013
#[tokio::test(start_paused = true)]
async fn a_call_without_effect_wakes_nobody() {
    for is_subscribed in [true, false] {
        let world = World::new();
        let semaphore = semaphore(&world, 3).await;
        if !is_subscribed {
            // Then the waiter hears only its own client.
            world.faults.fail_all(Op::Subscribe, Fault::NotExecuted);
        }
        let waiter = semaphore.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(4).await });
        let wakeup = world.store.subscribe(&Topic::Semaphore("s".into())).await.unwrap();
        settle().await;
        let tries = world.faults.calls(Op::AcquirePermits);
        assert!(!semaphore.try_set_permits(5).await.unwrap());
        semaphore.release(0).await.unwrap();
        settle().await;
        assert_eq!(world.faults.calls(Op::AcquirePermits), tries);
        assert!(wakeup.notified().now_or_never().is_none());
        waiting.abort();
    }
}

// B164
#[tokio::test(start_paused = true)]
async fn a_semaphore_with_no_permits_left_is_set_already() {
    let world = World::new();
    let semaphore = semaphore(&world, 10).await;
    semaphore.acquire(10).await.unwrap().forget();
    assert!(!semaphore.try_set_permits(10).await.unwrap());
    assert_eq!(available(&semaphore).await, 0);
}

// B276
#[tokio::test(start_paused = true)]
async fn a_semaphore_is_set_by_one_of_many_and_nobodys_permits_are_overwritten() {
    let world = World::new();
    for round in 0..500 {
        let mut crowd = JoinSet::new();
        for number in 0..4 {
            let semaphore = world.client().semaphore(format!("s{round}"));
            crowd.spawn(async move {
                for _ in 0..(round + number) % 3 {
                    tokio::task::yield_now().await;
                }
                let is_set = semaphore.try_set_permits(10).await.unwrap();
                semaphore.acquire(1).await.unwrap().forget();
                is_set
            });
        }
        let set = crowd.join_all().await;
        assert_eq!(set.iter().filter(|is_set| **is_set).count(), 1);
        assert_eq!(available(&world.client().semaphore(format!("s{round}"))).await, 6);
    }
}

// B172
#[tokio::test(start_paused = true)]
async fn permits_can_be_added_taken_away_and_drained() {
    let world = World::new();
    let semaphore = semaphore(&world, 5).await;
    semaphore.add_permits(3).await.unwrap();
    assert_eq!(available(&semaphore).await, 8);
    assert_eq!(semaphore.drain_permits().await.unwrap(), 8);
    assert_eq!((available(&semaphore).await, semaphore.drain_permits().await.unwrap()), (0, 0));
    semaphore.add_permits(-2).await.unwrap();
    assert_eq!(available(&semaphore).await, -2);
    semaphore.release(2).await.unwrap();
    assert!(semaphore.try_acquire(1, Duration::ZERO).await.unwrap().is_none(), "a debt first");
    semaphore.release(1).await.unwrap();
    assert!(semaphore.try_acquire(1, Duration::ZERO).await.unwrap().is_some());
}

// B169
#[tokio::test(start_paused = true)]
async fn permits_of_a_process_that_died_stay_taken_until_somebody_gives_them_back() {
    let world = World::new();
    let semaphore = semaphore(&world, 1).await;
    // As if its process had died.
    semaphore.acquire(1).await.unwrap().forget();
    let waiter = world.client().semaphore("s");
    assert!(waiter.try_acquire(1, secs(3600)).await.unwrap().is_none());
    semaphore.release(1).await.unwrap();
    assert!(waiter.try_acquire(1, Duration::ZERO).await.unwrap().is_some());
}

// B278
#[tokio::test(start_paused = true)]
async fn numbers_out_of_range_are_refused_and_change_nothing() {
    let world = World::new();
    let semaphore = semaphore(&world, MAX_PERMITS).await;
    assert!(semaphore.try_acquire(MAX_PERMITS, Duration::ZERO).await.unwrap().is_some());
    settle().await;
    for permits in [MAX_PERMITS + 1, u32::MAX] {
        let results = [
            semaphore.try_acquire(permits, secs(1)).await.map(drop),
            semaphore.acquire(permits).await.map(drop),
            semaphore.release(permits).await,
            semaphore.try_set_permits(permits).await.map(drop),
        ];
        for result in results {
            assert!(matches!(result, Err(Error::InvalidArgument { .. })), "{result:?}");
        }
    }
    semaphore.add_permits(1).await.unwrap();
    assert_eq!(available(&semaphore).await, i64::from(i32::MAX) + 1, "no wrap at 32 bits");
    world.store.put_raw("s", i64::MAX.to_string());
    let result = semaphore.release(1).await;
    assert!(matches!(result, Err(Error::Refused { refusal: Refusal::Overflow, .. })));
    assert_eq!(available(&semaphore).await, i64::MAX);
    world.store.put_raw("s", i64::MIN.to_string());
    let result = semaphore.add_permits(-1).await;
    assert!(matches!(result, Err(Error::Refused { refusal: Refusal::Overflow, .. })));
    assert_eq!(available(&semaphore).await, i64::MIN);
}

// B277
#[tokio::test(start_paused = true)]
async fn a_text_that_is_no_number_is_refused_and_stays() {
    let world = World::new();
    let semaphore = world.client().semaphore("s");
    for text in ["abc", "1.5", " 7", ""] {
        world.store.put_raw("s", text);
        let results = [
            semaphore.acquire(1).await.map(drop),
            semaphore.release(1).await,
            semaphore.drain_permits().await.map(drop),
            semaphore.available_permits().await.map(drop),
        ];
        for result in results {
            let Err(Error::Refused { refusal: Refusal::Other, .. }) = result else {
                panic!("{text:?}: {result:?}")
            };
        }
        let value = world.client().bucket_with::<String, _>("s", ferrisson_core::codec::Text);
        assert_eq!(value.get().await.unwrap().as_deref(), Some(text));
    }
}

#[tokio::test(start_paused = true)]
async fn no_permits_are_granted_without_a_word_to_the_store() {
    let world = World::new();
    let semaphore = world.client().semaphore("s");
    let permit = semaphore.acquire(0).await.unwrap();
    assert_eq!(permit.permits(), 0);
    permit.release().await.unwrap();
    assert_eq!((world.faults.total_calls(), world.store.keys()), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_much_is_not_overtaken_by_who_asks_for_little() {
    let world = World::new();
    let semaphore = semaphore(&world, 2).await;
    let one = semaphore.acquire(1).await.unwrap();
    let (much, little) = (semaphore.clone(), semaphore.clone());
    let much = tokio::spawn(async move { much.acquire(2).await });
    settle().await;
    let little = tokio::spawn(async move { little.acquire(1).await });
    time::sleep(secs(5)).await;
    assert!(!much.is_finished() && !little.is_finished());
    one.release().await.unwrap();
    much.await.unwrap().unwrap().release().await.unwrap();
    little.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(available(&semaphore).await, 2);
}
