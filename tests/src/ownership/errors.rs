//! An error says what happened, at once, and leaves nothing undone.

use std::error::Error as _;

use ferrisson_core::{Error, LossReason, Outcome, Refusal};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs, settle};
use tokio::time::{self, Duration, Instant};

use super::{is_lost, is_lost_as};

// B289
#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_lost_lock_says_so_at_once() {
    for is_taken in [false, true] {
        let world = World::new();
        let guard = world.client().lock("x").lock_with(secs(60)).await.unwrap();
        world.store.remove("x");
        if is_taken {
            world.stranger().lock("x").lock_with(secs(60)).await.unwrap().forget();
        }
        let start = Instant::now();
        assert!(is_lost_as(LossReason::Taken, &guard.renew(secs(1)).await));
        assert!(start.elapsed().is_zero());
        assert_eq!(world.faults.calls(Op::Renew), 1);
    }
}

// B137
#[tokio::test(start_paused = true)]
async fn a_release_of_a_lost_lock_says_so_at_once() {
    let world = World::new();
    let guard = world.client().lock("x").lock().await.unwrap();
    world.store.remove("x");
    let start = Instant::now();
    assert!(is_lost_as(LossReason::Taken, &guard.unlock().await));
    assert!(start.elapsed().is_zero());
    time::sleep(secs(60)).await;
    assert_eq!(world.faults.calls(Op::Release), 1);
}

// B290
#[tokio::test(start_paused = true)]
async fn a_backend_that_is_gone_is_not_a_lock_that_is_busy() {
    for (fault, expected) in [
        (Fault::NotExecuted, Outcome::NotExecuted),
        (Fault::LostRequest, Outcome::Unknown),
        (Fault::LostReply, Outcome::Unknown),
    ] {
        for wait in [Duration::ZERO, secs(1), secs(30)] {
            let world = World::new();
            world.faults.fail_everything(fault);
            let result = world.client().lock("x").try_lock(wait, secs(60)).await;
            let Err(Error::Unavailable { outcome, .. }) = &result else {
                panic!("{fault:?}, {wait:?}: {result:?}")
            };
            assert_eq!(*outcome, expected);
            assert!(result.unwrap_err().is_retryable());
        }
    }
}

// B291
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_among_failures_tells_the_last_of_them() {
    let world = World::new();
    world.faults.fail_all(Op::Acquire, Fault::Refuse(Refusal::Loading));
    let start = Instant::now();
    let error = world.client().lock("orders").try_lock(ms(700), secs(1)).await.unwrap_err();
    assert_eq!(start.elapsed(), ms(700));
    assert!(matches!(error, Error::Refused { refusal: Refusal::Loading, .. }));
    assert_eq!(
        error.to_string(),
        "acquisition of \"orders\": refused by the server: loading its data"
    );
    assert_eq!(error.source().expect("the cause").to_string(), "injected");
}

// B291
#[tokio::test(start_paused = true)]
async fn a_wait_of_the_row_ends_with_the_failure_of_its_head() {
    let world = World::new();
    world.faults.fail_all(Op::Acquire, Fault::NotExecuted);
    let client = world.client();
    let head = client.lock("x");
    let head = tokio::spawn(async move { head.lock().await.map(drop) });
    settle().await;
    let second = client.lock("x").try_lock(ms(500), secs(1)).await;
    assert!(matches!(second, Err(Error::Unavailable { .. })), "nobody knows whether it is busy");
    assert!(matches!(head.await.unwrap(), Err(Error::Unavailable { .. })));
}

// B292
#[tokio::test(start_paused = true)]
async fn the_error_of_a_release_speaks_of_a_loss_and_its_reason() {
    let world = World::new();
    let lock = world.client().lock("orders:42");
    let text = |result: Result<(), Error>| result.unwrap_err().to_string();
    let guard = lock.lock_with(ms(100)).await.unwrap();
    time::sleep(ms(200)).await;
    assert_eq!(text(guard.unlock().await), "lost \"orders:42\": the lease ran out");
    let guard = lock.lock_with(secs(1)).await.unwrap();
    lock.force_unlock().await.unwrap();
    let taken = "lost \"orders:42\": the server no longer has this owner";
    assert_eq!(text(guard.unlock().await), taken);
    let client = world.client();
    let guard = client.lock("orders:42").lock().await.unwrap();
    client.close().await;
    assert_eq!(text(guard.unlock().await), "lost \"orders:42\": the client was closed");
}

// B293
#[tokio::test(start_paused = true)]
async fn a_release_that_failed_goes_on_in_the_background() {
    for fault in [Fault::NotExecuted, Fault::LostRequest, Fault::Refuse(Refusal::OutOfMemory)] {
        let world = World::new();
        let client = world.builder().patience(Duration::ZERO).build().unwrap();
        let lock = client.lock("x");
        for is_dropped in [false, true] {
            let guard = lock.lock_with(secs(3600)).await.unwrap();
            world.faults.fail_all(Op::Release, fault);
            if is_dropped {
                drop(guard);
            } else {
                assert!(guard.unlock().await.is_err());
            }
            time::sleep(secs(60)).await;
            assert!(lock.is_locked().await.unwrap());
            world.faults.heal();
            // The longest pause, and a command that was still under way.
            time::sleep(secs(2)).await;
            assert!(!lock.is_locked().await.unwrap(), "{fault:?}");
        }
    }
}

// B296
#[tokio::test(start_paused = true)]
async fn the_error_of_the_work_is_not_hidden_by_that_of_the_release() {
    let world = World::new();
    let guard = world.client().lock("x").lock_with(secs(60)).await.unwrap();
    let work = async {
        world.store.remove("x");
        Err::<(), _>("of the work")
    };
    assert_eq!(guard.run(work).await.unwrap(), Err("of the work"));
    assert!(is_lost(&guard.unlock().await));
}

// B253
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_refused_is_reported_and_the_old_lease_goes_on() {
    let world = World::new();
    let guard = world.client().lock("x").lock_with(secs(10)).await.unwrap();
    world.faults.fail_next(Op::Renew, 1, Fault::Refuse(Refusal::Misconfigured));
    let result = guard.renew(secs(60)).await;
    let Err(Error::Refused { refusal: Refusal::Misconfigured, .. }) = result else {
        panic!("{result:?}")
    };
    assert!(guard.is_held() && guard.remaining() > secs(9) && guard.remaining() < secs(10));
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_error_names_its_object_and_none_is_retried_in_vain() {
    let world = World::new();
    let lock = world.client().lock("orders:42");
    let mut errors = vec![lock.lock_with(Duration::ZERO).await.unwrap_err()];
    for fault in [Fault::NotExecuted, Fault::Refuse(Refusal::NotPermitted)] {
        world.faults.fail_next(Op::Inspect, 1, fault);
        errors.push(lock.inspect().await.unwrap_err());
    }
    world.store.put_raw("orders:42", "no lock");
    errors.push(lock.inspect().await.unwrap_err());
    for error in &errors {
        assert_eq!(error.name().map(ferrisson_core::Name::as_str), Some("orders:42"));
        assert!(error.to_string().contains("orders:42"), "{error}");
    }
    let retryable = errors.iter().map(Error::is_retryable);
    assert_eq!(Vec::from_iter(retryable), [false, true, false, false]);
}
