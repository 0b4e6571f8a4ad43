//! A waiter is woken when, and only when, there is something to get.

use std::time::Duration;

use ferrisson_core::{
    Error, LossReason,
    backend::{LockKind, NotifyBackend, Topic},
};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs, settle};
use futures::FutureExt;
use tokio::time::Instant;

// B001
#[tokio::test(start_paused = true)]
async fn a_release_before_the_subscription_is_live_is_not_missed() {
    let world = World::new();
    let guard = world.stranger().lock("x").lock_with(secs(10)).await.unwrap();
    let lock = world.client().lock("x");
    let subscription = world.faults.hold(Op::Subscribe);
    let waiting = tokio::spawn(async move { lock.try_lock(secs(8), secs(10)).await });
    subscription.arrived(1).await;
    guard.unlock().await.unwrap();
    let free = Instant::now();
    subscription.release();
    assert!(waiting.await.unwrap().unwrap().is_some());
    assert!(free.elapsed() < ms(5), "{:?}", free.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_found_within_the_poll_interval_though_every_signal_is_lost() {
    let world = World::new();
    world.faults.lose_signals();
    for round in 0..50 {
        let guard = world.stranger().lock("x").lock_with(secs(60)).await.unwrap();
        let lock = world.client().lock("x");
        let waiting = tokio::spawn(async move { lock.lock().await });
        tokio::time::sleep(ms(1234 + 77 * round)).await;
        guard.unlock().await.unwrap();
        let free = Instant::now();
        waiting.await.unwrap().unwrap().unlock().await.unwrap();
        // The poll interval, and a step of the clock.
        assert!(free.elapsed() <= ms(1001), "{:?}", free.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_without_a_subscription_polls_and_hears_its_own_process() {
    let world = World::new();
    world.faults.fail_all(Op::Subscribe, Fault::NotExecuted);
    let client = world.client();
    let guard = client.lock("x").lock_with(secs(60)).await.unwrap();
    let lock = client.lock("x");
    let waiting = tokio::spawn(async move { lock.lock().await });
    tokio::time::sleep(ms(300)).await;
    let start = Instant::now();
    guard.unlock().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(start.elapsed() < ms(5), "a release of this client is no message");

    let lock = world.client().lock("x");
    let waiting = tokio::spawn(async move { lock.lock().await });
    settle().await;
    let start = Instant::now();
    guard.unlock().await.unwrap();
    waiting.await.unwrap().unwrap().unlock().await.unwrap();
    assert!(start.elapsed() <= secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_a_dead_holder_is_taken_when_its_lease_ends() {
    let world = World::new();
    world.stranger().lock("x").lock_with(ms(700)).await.unwrap().forget();
    let start = Instant::now();
    let guard = world.client().lock("x").try_lock(secs(10), secs(1)).await.unwrap();
    assert!(guard.is_some());
    // It is held through its last millisecond.
    assert!((ms(701)..ms(705)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

// B011
#[tokio::test(start_paused = true)]
async fn a_signal_that_nobody_waits_for_wakes_nobody_later() {
    for is_subscribed in [true, false] {
        let world = World::new();
        if !is_subscribed {
            world.faults.fail_all(Op::Subscribe, Fault::NotExecuted);
        }
        let client = world.client();
        let guard = client.lock("x").lock_with(secs(60)).await.unwrap();
        assert!(client.lock("x").try_lock(ms(200), secs(1)).await.unwrap().is_none());
        guard.unlock().await.unwrap();
        let _guard = client.lock("x").lock_with(secs(60)).await.unwrap();

        let (start, calls) = (Instant::now(), world.faults.calls(Op::Acquire));
        assert!(client.lock("x").try_lock(secs(3), secs(1)).await.unwrap().is_none());
        assert_eq!(start.elapsed(), secs(3));
        // At the start, after the subscription, and a poll each second or a little more often.
        let tries = world.faults.calls(Op::Acquire) - calls;
        assert!(tries <= 6, "{tries} tries");
    }
}

// B305
#[tokio::test(start_paused = true)]
async fn a_client_that_is_alone_wakes_itself() {
    let world = World::new();
    let lock = world.client().lock("x");
    let guard = lock.lock().await.unwrap();
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.lock_with(ms(500)).await });
    tokio::time::sleep(ms(10)).await;
    let start = Instant::now();
    drop(guard);
    waiting.await.unwrap().unwrap().forget();
    assert!(start.elapsed() < ms(5));
    let _guard = lock.lock().await.unwrap();
    assert!(start.elapsed() < ms(510), "the lease of the one before has ended");
}

// B302
#[tokio::test(start_paused = true)]
async fn a_store_that_forgets_everything_is_noticed_by_holder_and_waiters() {
    let world = World::new();
    let guard = world.client().lock("x").lock().await.unwrap();
    let locks = [world.client().lock("x"), world.client().lock("x")];
    let waiting = locks.map(|lock| tokio::spawn(async move { lock.lock_with(secs(60)).await }));
    tokio::time::sleep(ms(100)).await;
    world.store.clear();
    let (start, calls) = (Instant::now(), world.faults.calls(Op::Acquire));
    let ((winner, _, others), reason) =
        tokio::join!(futures::future::select_all(waiting), guard.lost());
    let _winner = winner.unwrap().unwrap();
    assert!(start.elapsed() <= secs(10), "the first renewal finds nothing");
    assert_eq!(reason, LossReason::Taken);
    assert!(matches!(guard.unlock().await, Err(Error::LeaseLost { .. })));
    let tries = world.faults.calls(Op::Acquire) - calls;
    assert!(tries <= 24, "{tries} tries of two waiters in ten seconds are a busy loop");
    others.iter().for_each(tokio::task::JoinHandle::abort);
}

// B302
#[tokio::test(start_paused = true)]
async fn a_waiter_takes_over_within_the_poll_interval_after_a_loss_of_data() {
    let world = World::new();
    let _guard = world.stranger().lock("x").lock_with(secs(3600)).await.unwrap();
    let lock = world.client().lock("x");
    let waiting = tokio::spawn(async move { lock.lock().await });
    tokio::time::sleep(ms(100)).await;
    world.store.clear();
    let start = Instant::now();
    let _guard = waiting.await.unwrap().unwrap();
    assert!(start.elapsed() <= secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_wakes_nobody() {
    let world = World::new();
    let client = world.builder().watchdog_lease(ms(300)).build().unwrap();
    let _guard = client.lock("x").lock().await.unwrap();
    let topic = Topic::lock(LockKind::Reentrant, "x".into());
    let wakeup = world.store.subscribe(&topic).await.unwrap();
    tokio::time::sleep(secs(3)).await;
    assert!(world.faults.calls(Op::Renew) > 20);
    assert!(wakeup.notified().now_or_never().is_none());
}

// B060
#[tokio::test(start_paused = true)]
async fn a_release_of_nothing_signals_nobody() {
    let world = World::new();
    let lock = world.client().lock("x");
    let topic = Topic::lock(LockKind::Reentrant, "x".into());
    let wakeup = world.store.subscribe(&topic).await.unwrap();
    let guard = lock.lock_with(ms(100)).await.unwrap();
    tokio::time::sleep(ms(200)).await;
    assert!(guard.unlock().await.is_err());
    assert!(!lock.force_unlock().await.unwrap());
    assert!(wakeup.notified().now_or_never().is_none());
    drop(lock.lock().await.unwrap());
    settle().await;
    assert!(wakeup.notified().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_row_is_served_in_order() {
    let world = World::new();
    let client = world.client();
    let guard = client.lock("x").lock().await.unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..20 {
        let (lock, sender) = (client.lock("x"), sender.clone());
        tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            sender.send(number).unwrap();
            tokio::time::sleep(ms(1)).await;
            guard.unlock().await.unwrap();
        });
        settle().await;
    }
    drop((guard, sender));
    let mut served = Vec::new();
    while let Some(number) = order.recv().await {
        served.push(number);
    }
    assert_eq!(served, Vec::from_iter(0..20));
}

// B086
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_woken_and_too_late_goes_on_waiting() {
    let world = World::new();
    let start = Instant::now();
    let guard = world.stranger().lock("x").lock().await.unwrap();
    let hold = |hold: Duration| {
        let lock = world.client().lock("x");
        tokio::spawn(async move {
            let guard = lock.try_lock(secs(5), secs(60)).await.unwrap().expect("within 5 s");
            let got = start.elapsed();
            tokio::time::sleep(hold).await;
            guard.unlock().await.unwrap();
            got
        })
    };
    let (b, c) = (hold(ms(500)), hold(ms(500)));
    tokio::time::sleep(ms(200)).await;
    guard.unlock().await.unwrap();
    let (b, c) = (b.await.unwrap(), c.await.unwrap());
    let (first, second) = (b.min(c), b.max(c));
    assert!((ms(200)..ms(205)).contains(&first), "{first:?}");
    assert!((ms(700)..ms(710)).contains(&second), "{second:?}");
}
