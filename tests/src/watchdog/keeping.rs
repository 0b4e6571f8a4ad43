//! What is held is renewed: in time, in batches, and as often as needed.

use ferrisson_core::Client;
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs, tasks};
use tokio::time::{self, Duration, Instant};

use super::{W, watched_by};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_at_each_third() {
    let world = World::new();
    let lock = world.client().lock("x");
    let (start, guard) = (Instant::now(), lock.lock().await.unwrap());
    for third in 1..=20 {
        let due = start + secs(10) * third;
        time::sleep_until(due - ms(2)).await;
        assert_eq!(world.faults.calls(Op::Renew), u64::from(third) - 1, "early");
        time::sleep_until(due + ms(2)).await;
        assert_eq!(world.faults.calls(Op::Renew), u64::from(third), "late");
        assert!(lock.remaining_lease().await.unwrap() > Some(ms(29_990)));
    }
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn renewals_travel_in_batches() {
    let world = World::new();
    for batch in [100, 7] {
        let client = world.builder().renewal_batch(batch).build().unwrap();
        let mut guards = Vec::new();
        for number in 0..250 {
            guards.push(client.lock(format!("{batch}:{number}")).lock().await.unwrap());
            // All of them within a second.
            if number % 5 == 0 {
                time::sleep(ms(10)).await;
            }
        }
        let calls = world.faults.calls(Op::Renew);
        time::sleep(secs(29)).await;
        let calls = world.faults.calls(Op::Renew) - calls;
        let full = 250_u64.div_ceil(batch as u64);
        assert!((2 * full..=2 * (full + 2)).contains(&calls), "{calls} calls");
        assert!(guards.iter().all(ferrisson_core::LockGuard::is_held));
    }
}

// B040
#[tokio::test(start_paused = true)]
async fn ten_thousand_locks_are_kept() {
    let world = World::new();
    let client = watched_by(&world);
    let mut guards = Vec::new();
    for number in 0..10_000 {
        guards.push(client.lock(format!("lock {number}")).lock().await.unwrap());
    }
    time::sleep(5 * W).await;
    assert!(guards.iter().all(ferrisson_core::LockGuard::is_held));
    assert_eq!(world.store.keys().len(), guards.len());
    // Fourteen passes and a part of one.
    let calls = world.faults.calls(Op::Renew);
    assert!((1400..=1600).contains(&calls), "{calls}");
    drop(guards);
    time::sleep(W).await;
    assert_eq!((world.store.keys(), tasks()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn no_task_outlives_the_last_hold() {
    let world = World::new();
    let client = watched_by(&world);
    assert_eq!(tasks(), 0);
    let (a, b) = (client.lock("a").lock().await.unwrap(), client.lock("b").lock().await.unwrap());
    time::sleep(secs(5)).await;
    assert_eq!(tasks(), 1, "one for all holds");
    a.unlock().await.unwrap();
    time::sleep(secs(5)).await;
    assert_eq!(tasks(), 1);
    b.unlock().await.unwrap();
    time::sleep(ms(250)).await;
    assert_eq!(tasks(), 0);
    // It comes back when it is needed.
    let guard = client.lock("a").lock().await.unwrap();
    time::sleep(5 * W).await;
    assert!(guard.is_held());
    guard.forget();
    time::sleep(ms(250)).await;
    assert_eq!(tasks(), 0);
}

// B099
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_not_renewed_and_needs_no_task() {
    let world = World::new();
    let guard = watched_by(&world).lock("x").lock_with(secs(10)).await.unwrap();
    assert_eq!(tasks(), 0);
    time::sleep(secs(9)).await;
    assert!(guard.is_held());
    time::sleep(secs(2)).await;
    assert!(!guard.is_held());
    assert_eq!((world.faults.calls(Op::Renew), world.store.keys().len()), (0, 0));
}

// B037
#[tokio::test(start_paused = true)]
async fn a_hold_is_kept_until_its_last_guard_is_gone() {
    let world = World::new();
    let lock = watched_by(&world).lock("x");
    let outer = lock.lock().await.unwrap();
    let inner = outer.reenter().await.unwrap();
    inner.unlock().await.unwrap();
    time::sleep(3 * W).await;
    let info = lock.inspect().await.unwrap().expect("still held");
    assert_eq!((info.holds, outer.hold_count()), (1, 1));
    assert!(info.remaining.is_some_and(|left| left > W / 2 && left <= W), "{info:?}");
    assert!(outer.is_held());
}

// B041
#[tokio::test(start_paused = true)]
async fn a_batch_that_hangs_delays_no_other() {
    let world = World::new();
    let client = world.builder().watchdog_lease(W).renewal_batch(1).build().unwrap();
    let (a, b) = (client.lock("a").lock().await.unwrap(), client.lock("b").lock().await.unwrap());
    world.faults.fail_next(Op::Renew, 1, Fault::LostRequest);
    time::sleep(ms(900)).await;
    let [a, b] = [a, b].map(|guard| (guard.is_held(), guard.remaining() > W / 2));
    assert_eq!((a, b), ((false, false), (true, true)));
}

// B042
#[tokio::test(start_paused = true)]
async fn a_renewal_counts_from_now_however_late_it_is() {
    let world = World::new();
    let lock = world.builder().watchdog_lease(secs(1)).build().unwrap().lock("x");
    let guard = lock.lock().await.unwrap();
    world.faults.fail_all(Op::Renew, Fault::SlowRequest(ms(100)));
    let (mut shortest, mut longest) = (Duration::MAX, Duration::ZERO);
    for _ in 0..10_000 {
        time::sleep(ms(1)).await;
        let left = lock.remaining_lease().await.unwrap().expect("held all the time");
        (shortest, longest) = (shortest.min(left), longest.max(left));
        assert!(guard.remaining() <= left, "never more than the store has");
    }
    assert!(world.faults.calls(Op::Renew) >= 20);
    assert!(longest >= ms(999) && shortest >= ms(550), "{shortest:?}..{longest:?}");
}

// B043
#[tokio::test(start_paused = true)]
async fn each_of_many_holds_in_a_row_is_kept() {
    let world = World::new();
    let lock = watched_by(&world).lock("x");
    for _ in 0..20 {
        for thirds in [4, 9] {
            let guard = lock.lock().await.unwrap();
            time::sleep(thirds * W / 3).await;
            assert!(guard.is_held() && lock.is_locked().await.unwrap());
            guard.unlock().await.unwrap();
        }
    }
}

// B044
#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_sets_the_lease_and_nothing_else() {
    let world = World::new();
    let lock = world.client().lock("x");
    for (lease, new) in [(secs(1), secs(5)), (secs(5), secs(1))] {
        let guard = lock.lock_with(lease).await.unwrap();
        time::sleep(ms(300)).await;
        guard.renew(new).await.unwrap();
        let info = lock.inspect().await.unwrap().unwrap();
        assert_eq!((info.remaining, info.holds), (Some(new), 1));
        assert_eq!(guard.owner(), *info.owner.as_str());
        assert!(guard.remaining() <= new && guard.remaining() > new - ms(100));
        time::sleep(new + ms(2)).await;
        assert!(!lock.is_locked().await.unwrap(), "nothing renews a fixed lease");
    }
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_goes_on_with_a_lease_that_was_set_by_hand() {
    let world = World::new();
    let lock = watched_by(&world).lock("x");
    let guard = lock.lock().await.unwrap();
    for lease in [secs(9), ms(30), secs(3)] {
        guard.renew(lease).await.unwrap();
        let calls = world.faults.calls(Op::Renew);
        for _ in 0..10 {
            time::sleep(lease / 3 + ms(1)).await;
            assert!(guard.is_held());
            assert!(lock.remaining_lease().await.unwrap() > Some(lease / 2));
        }
        let calls = world.faults.calls(Op::Renew) - calls;
        assert!((9..=11).contains(&calls), "{calls} for {lease:?}");
    }
}

// B033
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_lost_in_an_outage_is_kept_when_it_is_taken_again() {
    let world = World::new();
    let lock = watched_by(&world).lock("x");
    let guard = lock.lock().await.unwrap();
    world.faults.fail_everything(Fault::NotExecuted);
    time::sleep(2 * W).await;
    assert!(guard.unlock().await.is_err());
    world.faults.heal();
    let guard = lock.lock().await.unwrap();
    time::sleep(3 * W).await;
    assert!(guard.is_held() && lock.is_locked().await.unwrap());
}

// B034
#[tokio::test(start_paused = true)]
async fn a_new_hold_is_kept_while_the_guard_of_a_lost_one_still_lives() {
    let world = World::new();
    let lock = watched_by(&world).lock("x");
    let old = lock.lock().await.unwrap();
    world.store.remove("x");
    let new = lock.lock().await.unwrap();
    time::sleep(3 * W).await;
    assert!(new.is_held() && !old.is_held());
    drop(old);
    time::sleep(3 * W).await;
    assert!(new.is_held() && lock.is_locked().await.unwrap());
}

/// A client that is used from one runtime after the other, as from tests that share it.
#[test]
fn a_watchdog_survives_the_end_of_its_runtime() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let hold = async |client: &Client, name: &'static str| client.lock(name).lock().await.unwrap();
    let first = runtime();
    let (world, client) = first.block_on(async {
        let world = World::new();
        let client = watched_by(&world);
        (world, client)
    });
    let lost = first.block_on(hold(&client, "a"));
    drop(first);
    runtime().block_on(async {
        let kept = hold(&client, "b").await;
        time::sleep(5 * W).await;
        assert!(kept.is_held(), "renewed by a task of this runtime");
        assert!(world.store.keys().contains(&"b".into()));
        drop((kept, lost));
    });
}
