//! The holder is told of a loss before anybody else can have the lock.

use ferrisson_core::{Error, HoldState, LossReason};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, loss, ms, secs, settle};
use tokio::time::{self, Duration, Instant};

use super::{W, watched_by};

#[tokio::test(start_paused = true)]
async fn a_hold_is_suspended_held_again_and_at_last_lost() {
    let world = World::new();
    let guard = watched_by(&world).lock("x").lock().await.unwrap();
    let faults = world.faults.clone();
    tokio::spawn(async move {
        for outage in [ms(150), secs(10)] {
            time::sleep(W).await;
            faults.fail_everything(Fault::NotExecuted);
            time::sleep(outage).await;
            faults.heal();
        }
    });
    let mut states = vec![guard.state()];
    for _ in 0..15_000 {
        time::sleep(ms(1)).await;
        if states.last() != Some(&guard.state()) {
            states.push(guard.state());
        }
    }
    let expected = [
        HoldState::Held,
        HoldState::Suspended,
        HoldState::Held,
        HoldState::Suspended,
        HoldState::Lost(LossReason::Expired),
    ];
    assert_eq!(states, expected);
}

// B049
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_is_told_before_another_can_have_the_lock() {
    for offset in [0, 1, 50, 99, 100, 101, 150] {
        for fault in [Fault::NotExecuted, Fault::LostRequest, Fault::LostReply] {
            let world = World::new();
            let guard = watched_by(&world).lock("x").lock().await.unwrap();
            time::sleep(ms(offset)).await;
            world.faults.fail_everything(fault);
            let cut = Instant::now();
            let lock = world.stranger().lock("x");
            let waiting = tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                (Instant::now(), guard)
            });
            assert_eq!(guard.lost().await, LossReason::Expired);
            let told = Instant::now();
            assert!(told - cut < W);
            let (granted, _guard) = waiting.await.unwrap();
            assert!(told < granted, "{fault:?} at {offset}: {told:?} {granted:?}");
            assert!(granted - cut < 3 * W || matches!(fault, Fault::LostReply));
        }
    }
}

// B049
#[tokio::test(start_paused = true)]
async fn slow_replies_do_not_move_the_end_of_a_lease() {
    for slow in [ms(1), ms(50), ms(150), ms(250)] {
        for op in [Op::Acquire, Op::Renew] {
            let world = World::new();
            world.faults.fail_next(op, 1, Fault::SlowReply(slow));
            let guard = watched_by(&world).lock("x").lock().await.unwrap();
            if op == Op::Renew {
                time::sleep(W / 3 + ms(1)).await;
                assert_eq!(world.faults.calls(Op::Renew), 1);
            }
            // The reply still arrives, and nothing that is sent later does.
            world.faults.fail_everything(Fault::LostRequest);
            let lock = world.stranger().lock("x");
            let waiting = tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                (Instant::now(), guard)
            });
            guard.lost().await;
            let told = Instant::now();
            let (granted, _guard) = waiting.await.unwrap();
            assert!(told < granted, "{op:?}, {slow:?}: {told:?} {granted:?}");
        }
    }
}

// B030
#[tokio::test(start_paused = true)]
async fn a_reply_after_the_end_of_the_lease_makes_nothing_held_again_whoever_has_looked() {
    for has_looked in [true, false] {
        let world = World::new();
        let guard = watched_by(&world).lock("x").lock().await.unwrap();
        world.faults.fail_next(Op::Renew, 1, Fault::SlowReply(ms(250)));
        time::sleep(ms(320)).await;
        assert_eq!(world.faults.calls(Op::Renew), 1);
        assert!(guard.remaining().is_zero());
        assert!(!has_looked || !guard.is_held());
        time::sleep(ms(60)).await;
        assert_eq!(guard.state(), HoldState::Lost(LossReason::Expired));
    }
}

// B047
#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_knows_at_once_and_leaves_its_successor_alone() {
    for lease in [None, Some(W)] {
        let world = World::new();
        let lock = watched_by(&world).lock("x");
        let guard = match lease {
            None => lock.lock().await.unwrap(),
            Some(lease) => lock.lock_with(lease).await.unwrap(),
        };
        time::advance(2 * W).await;
        let successor = world.stranger().lock("x").try_lock(Duration::ZERO, secs(60)).await;
        let successor = successor.unwrap().expect("the lease has ended");
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert!(loss(&guard).await.is_some());
        assert!(matches!(guard.run(async {}).await, Err(Error::LeaseLost { .. })));
        assert!(matches!(guard.unlock().await, Err(Error::LeaseLost { .. })));
        time::sleep(secs(1)).await;
        assert!(successor.is_held());
        let info = world.stranger().lock("x").inspect().await.unwrap().unwrap();
        assert_eq!(successor.owner(), *info.owner.as_str());
    }
}

// B052
#[tokio::test]
#[allow(clippy::disallowed_methods)] // The runtime is blocked on purpose.
async fn a_runtime_that_is_blocked_cannot_hide_the_end_of_a_lease() {
    let world = World::new();
    let client = world.builder().watchdog_lease(ms(60)).build().unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    std::thread::sleep(ms(100));
    assert!(!guard.is_held(), "computed from the time, not from the last tick");
    assert_eq!(guard.state(), HoldState::Lost(LossReason::Expired));
    assert_eq!(guard.lost().await, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn the_work_is_stopped_when_the_lock_is_lost() {
    struct Bell<'a>(&'a std::cell::Cell<Option<Instant>>);
    impl Drop for Bell<'_> {
        fn drop(&mut self) {
            self.0.set(Some(Instant::now()));
        }
    }
    let world = World::new();
    let guard = watched_by(&world).lock("x").lock().await.unwrap();
    let (start, stopped) = (Instant::now(), std::cell::Cell::new(None));
    world.faults.fail_everything(Fault::LostRequest);
    let work = async {
        let _bell = Bell(&stopped);
        std::future::pending::<()>().await;
    };
    assert!(matches!(guard.run(work).await, Err(Error::LeaseLost { .. })));
    assert!(stopped.get().is_some_and(|at| at - start < W));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_being_shortened_ends_for_its_holder_when_it_may_end_at_the_store() {
    for fault in [Fault::SlowReply(ms(900)), Fault::LostReply, Fault::LostRequest] {
        let world = World::new();
        let lock = world.client().lock("x");
        let guard = std::sync::Arc::new(lock.lock_with(secs(60)).await.unwrap());
        let watcher = std::sync::Arc::clone(&guard);
        let start = Instant::now();
        let told = tokio::spawn(async move {
            watcher.lost().await;
            Instant::now()
        });
        settle().await;
        world.faults.fail_next(Op::Renew, 1, fault);
        assert!(guard.renew(ms(50)).await.is_err());
        assert!(told.await.unwrap() - start <= ms(51), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_who_ask_are_told_of_a_loss() {
    let world = World::new();
    let lock = watched_by(&world).lock("x");
    let guard = std::sync::Arc::new(lock.lock().await.unwrap());
    let inner = guard.reenter().await.unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let guard = std::sync::Arc::clone(&guard);
        waiting.spawn(async move { guard.lost().await });
    }
    settle().await;
    assert!(world.stranger().lock("x").force_unlock().await.unwrap());
    let start = Instant::now();
    assert_eq!(inner.lost().await, LossReason::Taken);
    assert_eq!(waiting.join_all().await, [LossReason::Taken; 10]);
    assert!(start.elapsed() <= W / 3);
    assert_eq!(guard.lost().await, LossReason::Taken, "also those who ask later");
}
