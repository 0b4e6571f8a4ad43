//! What is no longer held is no longer renewed, whatever was under way.

use ferrisson_core::{Error, HoldState, LossReason, Refusal};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, loss, ms, secs, settle, tasks};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{
    sync::oneshot,
    time::{self, Duration, Instant},
};

use super::{W, watched_by};

/// Nothing is renewed any more, the lock is free, and no task is left.
async fn is_over(world: &World) {
    let calls = world.faults.calls(Op::Renew);
    time::sleep(5 * W).await;
    assert_eq!(world.faults.calls(Op::Renew), calls, "renewed though nobody holds it");
    assert_eq!((world.store.keys(), tasks()), (vec![], 0));
}

// B018
#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_a_release_however_soon_it_comes() {
    let world = World::new();
    let lock = watched_by(&world).lock("x");
    let mut rng = SmallRng::seed_from_u64(18);
    world.faults.fail_all(Op::Renew, Fault::SlowRequest(ms(5)));
    for round in 0..1000 {
        let (sender, receiver) = oneshot::channel();
        let taker = lock.clone();
        tokio::spawn(async move { sender.send(taker.lock().await.unwrap()).unwrap() });
        let guard = receiver.await.unwrap();
        match round % 3 {
            0 => {}
            1 => tokio::task::yield_now().await,
            // Often while a renewal is under way.
            _ => time::sleep(ms(rng.random_range(95..110))).await,
        }
        guard.unlock().await.unwrap();
        if round % 100 == 99 {
            assert!(!lock.is_locked().await.unwrap());
            time::sleep(ms(10)).await;
            is_over(&world).await;
        }
    }
    assert!(world.faults.calls(Op::Renew) > 100, "some were under way");
}

// B020
#[tokio::test(start_paused = true)]
async fn a_holder_that_panics_or_is_aborted_has_released() {
    let world = World::new();
    let client = watched_by(&world);
    for is_aborted in [true, false] {
        let lock = client.lock("x");
        let holder = tokio::spawn(async move {
            let _guard = lock.lock().await.unwrap();
            time::sleep(4 * W).await;
            // Without a message in the log of the tests.
            std::panic::resume_unwind(Box::new("a fault of the application"));
        });
        time::sleep(W).await;
        let waiting = tokio::spawn({
            let lock = world.stranger().lock("x");
            async move { lock.try_lock(4 * W, secs(60)).await }
        });
        settle().await;
        if is_aborted {
            holder.abort();
        }
        assert_eq!(holder.await.unwrap_err().is_panic(), !is_aborted);
        let ended = Instant::now();
        waiting.await.unwrap().unwrap().expect("released").unlock().await.unwrap();
        assert!(ended.elapsed() < ms(5));
        is_over(&world).await;
    }
}

// B023, B253
#[tokio::test(start_paused = true)]
async fn a_release_that_fails_ends_the_renewals_all_the_same() {
    for fault in [Fault::NotExecuted, Fault::Refuse(Refusal::Misconfigured), Fault::LostRequest] {
        let world = World::new();
        let lock = watched_by(&world).lock("x");
        let guard = lock.lock().await.unwrap();
        world.faults.fail_all(Op::Release, fault);
        let calls = world.faults.calls(Op::Renew);
        let error = guard.unlock().await.unwrap_err();
        if let Fault::Refuse(_) = fault {
            assert!(matches!(error, Error::Refused { refusal: Refusal::Misconfigured, .. }));
        } else {
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        }
        assert_eq!(world.faults.calls(Op::Renew), calls);
        // The lease ends, though no release ever gets through.
        time::sleep(W + ms(2)).await;
        assert!(!lock.is_locked().await.unwrap(), "{fault:?}");
        time::sleep(secs(5)).await;
        is_over(&world).await;
    }
}

// B024
#[tokio::test(start_paused = true)]
async fn a_key_that_is_gone_is_noticed_by_the_first_renewal_which_is_the_last() {
    let world = World::new();
    let guard = watched_by(&world).lock("x").lock().await.unwrap();
    time::sleep(W).await;
    world.store.remove("x");
    let (removed, calls) = (Instant::now(), world.faults.calls(Op::Renew));
    assert_eq!(guard.lost().await, LossReason::Taken);
    assert!(removed.elapsed() <= W / 3 + ms(1));
    assert_eq!(world.faults.calls(Op::Renew), calls + 1);
    time::sleep(secs(2)).await;
    is_over(&world).await;
    assert!(!guard.is_held());
}

// B024, B259
#[tokio::test(start_paused = true)]
async fn a_key_that_became_something_else_is_a_loss_and_is_not_touched() {
    let world = World::new();
    let lock = watched_by(&world).lock("x");
    let guard = lock.lock().await.unwrap();
    world.store.put_raw("x", "of somebody else");
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Taken);
    assert!(start.elapsed() <= W / 3 + ms(1), "known at the first renewal");
    assert!(matches!(guard.unlock().await, Err(Error::LeaseLost { .. })));
    time::sleep(secs(5)).await;
    let value = world.stranger().bucket_with::<String, _>("x", ferrisson_core::codec::Text);
    assert_eq!(value.get().await.unwrap().as_deref(), Some("of somebody else"));
}

// B026, B046
#[tokio::test(start_paused = true)]
async fn a_holder_that_was_stopped_for_longer_than_its_lease_takes_nothing_back() {
    let world = World::new();
    let guard = watched_by(&world).lock("x").lock().await.unwrap();
    // This process is stopped: time goes on and nothing runs.
    time::advance(2 * W).await;
    assert!(!guard.is_held());
    let other = world.stranger().lock("x").try_lock(Duration::ZERO, secs(60)).await.unwrap();
    time::sleep(ms(200)).await;
    other.expect("the lease has ended").unlock().await.unwrap();
    assert!(loss(&guard).await.is_some());
    assert!(matches!(guard.renew(secs(1)).await, Err(Error::LeaseLost { .. })));
    time::sleep(secs(2)).await;
    is_over(&world).await;
}

// B029
#[tokio::test(start_paused = true)]
async fn closing_ends_renewals_and_releases_what_is_held() {
    let world = World::new();
    let client = watched_by(&world);
    let renewed = client.lock("x").lock().await.unwrap();
    let fixed = client.lock("y").lock_with(secs(60)).await.unwrap();
    time::sleep(W).await;
    let start = Instant::now();
    client.close().await;
    assert!(start.elapsed() < ms(5));
    for guard in [renewed, fixed] {
        assert_eq!(guard.state(), HoldState::Lost(LossReason::Closed));
        let Err(Error::LeaseLost { reason: LossReason::Closed, .. }) = guard.unlock().await else {
            panic!("closed")
        };
    }
    is_over(&world).await;
}

// B030
#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_lease_is_no_loss() {
    let world = World::new();
    let guard = watched_by(&world).lock("x").lock().await.unwrap();
    time::sleep(ms(95)).await;
    world.faults.fail_everything(Fault::NotExecuted);
    time::sleep(6 * W / 10).await;
    assert_eq!((guard.state(), loss(&guard).await), (HoldState::Suspended, None));
    world.faults.heal();
    time::sleep(W / 3).await;
    assert_eq!(guard.state(), HoldState::Held);
    time::sleep(3 * W).await;
    assert!(guard.is_held());
}

// B030
#[tokio::test(start_paused = true)]
async fn what_was_reported_lost_is_not_renewed_though_the_store_still_had_it() {
    let world = World::new();
    let guard = watched_by(&world).lock("x").lock().await.unwrap();
    // Executed in time, and the reply comes after the lease that it would have extended.
    world.faults.fail_next(Op::Renew, 1, Fault::SlowReply(ms(250)));
    let start = Instant::now();
    let lock = world.stranger().lock("x");
    let waiting = tokio::spawn(async move { lock.lock_with(secs(60)).await });
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(start.elapsed() < W);
    let other = waiting.await.unwrap().unwrap();
    assert!((ms(400)..ms(410)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!((guard.is_held(), world.faults.calls(Op::Renew)), (false, 1));
    assert!(guard.unlock().await.is_err());
    other.unlock().await.unwrap();
    time::sleep(secs(2)).await;
    is_over(&world).await;
}

// B031
#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_renewal_arms_nothing() {
    for is_shared in [false, true] {
        let world = World::new();
        let guard = watched_by(&world).lock("x").lock().await.unwrap();
        let inner = if is_shared { Some(guard.reenter().await.unwrap()) } else { None };
        world.faults.fail_next(Op::Renew, 1, Fault::SlowReply(ms(200)));
        let body = guard.run(time::sleep(ms(150)));
        body.await.unwrap();
        assert_eq!(world.faults.calls(Op::Renew), 1, "under way");
        drop(inner);
        guard.unlock().await.unwrap();
        time::sleep(secs(2)).await;
        assert_eq!(world.faults.calls(Op::Renew), 1);
        is_over(&world).await;
    }
}
