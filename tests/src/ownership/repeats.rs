//! A request that is sent again, arrives twice or arrives late has the effect of one, or none.

use ferrisson_core::Error;
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs, settle};
use tokio::time::{self, Duration, Instant};

use super::is_lost;

// B118
#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_sent_again_is_one_hold() {
    let slow = Fault::SlowReply(ms(1500));
    for faults in [vec![slow], vec![slow; 3], vec![Fault::Late(ms(300)), Fault::LostReply]] {
        let world = World::new();
        let lock = world.client().lock("x");
        for fault in &faults {
            world.faults.fail_next(Op::Acquire, 1, *fault);
        }
        let patient = world.builder().patience(secs(20)).build().unwrap().lock("x");
        let guard = patient.try_lock(secs(20), secs(60)).await.unwrap().expect("it is free");
        let info = lock.inspect().await.unwrap().unwrap();
        assert_eq!((info.holds, guard.hold_count()), (1, 1));
        guard.unlock().await.unwrap();
        time::sleep(secs(5)).await;
        assert!(!lock.is_locked().await.unwrap(), "{faults:?}");
    }
}

// B118
#[tokio::test(start_paused = true)]
async fn an_acquisition_that_arrives_once_more_after_the_release_wins_nothing() {
    let world = World::new();
    let lock = world.client().lock("x");
    // The second request wins; the first arrives after the release.
    world.faults.fail_next(Op::Acquire, 1, Fault::Late(secs(5)));
    let guard = lock.lock().await.unwrap();
    guard.unlock().await.unwrap();
    time::sleep(secs(6)).await;
    assert!(!lock.is_locked().await.unwrap());
}

// B120
#[tokio::test(start_paused = true)]
async fn a_release_that_was_lost_does_not_make_the_next_hold_a_second_one() {
    let world = World::new();
    let client = world.builder().patience(Duration::ZERO).build().unwrap();
    let lock = client.lock("x");
    let guard = lock.lock().await.unwrap();
    world.faults.fail_next(Op::Release, 1, Fault::LostRequest);
    assert!(matches!(guard.unlock().await, Err(Error::Unavailable { .. })));
    // The release goes on in the background; the next hold is one of its own.
    let guard = lock.try_lock(secs(5), secs(60)).await.unwrap().expect("released soon");
    assert_eq!(lock.inspect().await.unwrap().unwrap().holds, 1);
    guard.unlock().await.unwrap();
    let other = world.stranger().lock("x").try_lock(Duration::ZERO, secs(1)).await.unwrap();
    assert!(other.is_some());
}

// B121
#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_was_lost_is_a_success_when_it_is_repeated() {
    for fault in [Fault::LostReply, Fault::LostRequest, Fault::Duplicate(ms(10))] {
        let world = World::new();
        let client = world.client();
        for lock in [client.lock("x"), client.plain_lock("p")] {
            let guard = lock.lock().await.unwrap();
            world.faults.fail_next(Op::Release, 1, fault);
            guard.unlock().await.unwrap();
            assert!(!lock.is_locked().await.unwrap());
        }
    }
}

// B121
#[tokio::test(start_paused = true)]
async fn a_loss_that_was_known_is_not_made_a_success_by_a_lost_reply() {
    let world = World::new();
    let lock = world.client().lock("x");
    let guard = lock.lock_with(ms(100)).await.unwrap();
    time::sleep(ms(200)).await;
    assert!(!guard.is_held());
    // Executed, and the connection breaks before the reply.
    world.faults.fail_next(Op::Release, 1, Fault::Late(Duration::ZERO));
    assert!(is_lost(&guard.unlock().await));
    assert_eq!(world.faults.calls(Op::Release), 2);
}

// B121
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_executed_late_or_twice_extends_nobody_elses_lock() {
    for fault in [Fault::Late(ms(150)), Fault::Duplicate(ms(150))] {
        let world = World::new();
        let lock = world.client().lock("x");
        let guard = lock.lock_with(secs(10)).await.unwrap();
        world.faults.fail_next(Op::Renew, 1, fault);
        let _ = guard.renew(secs(20)).await;
        drop(guard);
        settle().await;
        let next = lock.lock_with(secs(1)).await.unwrap();
        time::sleep(ms(300)).await;
        assert_eq!(lock.remaining_lease().await.unwrap(), Some(ms(700)));
        assert!(next.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_counts_with_the_shorter_lease_as_long_as_nobody_knows() {
    for fault in [Fault::Late(ms(2500)), Fault::LostReply, Fault::LostRequest] {
        let world = World::new();
        let lock = world.client().lock("x");
        let guard = lock.lock_with(secs(60)).await.unwrap();
        world.faults.fail_next(Op::Renew, 1, fault);
        assert!(guard.renew(secs(5)).await.is_err());
        // The first may be executed after this one.
        guard.renew(secs(60)).await.unwrap();
        let start = Instant::now();
        guard.lost().await;
        assert!(start.elapsed() <= secs(5), "{fault:?}");
        assert!(lock.is_locked().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_that_fails_is_none() {
    for fault in [Fault::NotExecuted, Fault::LostReply, Fault::LostRequest] {
        let world = World::new();
        let lock = world.client().lock("x");
        let guard = lock.lock().await.unwrap();
        world.faults.fail_next(Op::SetHolds, 1, fault);
        assert!(matches!(guard.reenter().await, Err(Error::Unavailable { .. })));
        settle().await;
        assert_eq!((guard.hold_count(), lock.inspect().await.unwrap().unwrap().holds), (1, 1));
        guard.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap(), "{fault:?}");
    }
}
