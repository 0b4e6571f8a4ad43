//! A hold belongs to one guard, and nobody else's call is for it.

use ferrisson_core::{Lease, LockHandle, LossReason};
use ferrisson_testkit::faulty::Op;
use ferrisson_tests::inproc::{World, ms, secs, settle};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::{self, Duration, Instant};

use super::{is_lost, is_lost_as};

/// Both kinds of lock that a client has.
fn kinds(world: &World) -> [LockHandle; 2] {
    let client = world.client();
    [client.lock("reentrant"), client.plain_lock("plain")]
}

// B053, B055
#[tokio::test(start_paused = true)]
async fn a_late_release_is_not_for_the_successor() {
    let world = World::new();
    for lock in kinds(&world) {
        // The same handle for all: a hold is the guard's.
        let (first, second) = (lock.clone(), lock.clone());
        let a = first.lock_with(ms(200)).await.unwrap();
        time::sleep(ms(202)).await;
        let b = second.lock_with(secs(5)).await.unwrap();
        assert!(is_lost_as(LossReason::Expired, &a.unlock().await));
        assert!(lock.try_lock(Duration::ZERO, secs(1)).await.unwrap().is_none());
        assert!(b.is_held());
        b.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
    }
}

// B053
#[tokio::test(start_paused = true)]
async fn a_lost_guard_that_is_dropped_or_forgotten_takes_nothing_with_it() {
    let world = World::new();
    for lock in kinds(&world) {
        for is_forgotten in [false, true] {
            let a = lock.lock_with(ms(200)).await.unwrap();
            time::sleep(ms(202)).await;
            let b = lock.lock().await.unwrap();
            if is_forgotten {
                a.forget()
            } else {
                drop(a)
            }
            time::sleep(secs(40)).await;
            assert!(b.is_held() && lock.is_locked().await.unwrap());
            b.unlock().await.unwrap();
        }
    }
}

// B054
#[tokio::test(start_paused = true)]
async fn a_late_renewal_is_not_for_the_successor() {
    let world = World::new();
    for lock in kinds(&world) {
        let a = lock.lock_with(ms(200)).await.unwrap();
        time::sleep(ms(202)).await;
        let b = lock.lock_with(secs(1)).await.unwrap();
        assert!(is_lost(&a.renew(secs(60)).await));
        assert_eq!(lock.remaining_lease().await.unwrap(), Some(secs(1)));
        assert!(!a.is_held() && b.is_held());
    }
}

// B056
#[tokio::test(start_paused = true)]
async fn each_release_is_for_the_hold_of_its_guard_however_they_mix() {
    let world = World::new();
    let lock = world.client().lock("x");
    let mut crowd = tokio::task::JoinSet::new();
    for seed in 0..8 {
        let lock = lock.clone();
        crowd.spawn(async move {
            let mut rng = SmallRng::seed_from_u64(seed);
            for _ in 0..1000 {
                let guard = lock.lock_with(secs(60)).await.unwrap();
                for _ in 0..rng.random_range(0..3) {
                    tokio::task::yield_now().await;
                }
                guard.unlock().await.unwrap();
                if rng.random_ratio(1, 2) {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    crowd.join_all().await;
    assert!(!lock.is_locked().await.unwrap());
}

// B060
#[tokio::test(start_paused = true)]
async fn a_release_of_what_is_not_held_is_no_success() {
    let world = World::new();
    for lock in kinds(&world) {
        let guard = lock.lock_with(ms(100)).await.unwrap();
        time::sleep(ms(102)).await;
        assert!(is_lost_as(LossReason::Expired, &guard.unlock().await));

        let guard = lock.lock_with(secs(1)).await.unwrap();
        world.store.remove(lock.name().clone());
        assert!(is_lost_as(LossReason::Taken, &guard.unlock().await));
        assert!(!lock.force_unlock().await.unwrap());
    }
}

// B061
#[tokio::test(start_paused = true)]
async fn a_lock_can_be_forced_by_anybody_once() {
    let world = World::new();
    for (lock, stranger) in kinds(&world)
        .into_iter()
        .zip([world.stranger().lock("reentrant"), world.stranger().plain_lock("plain")])
    {
        let a = lock.lock().await.unwrap();
        assert!(stranger.force_unlock().await.unwrap());
        assert!(!stranger.force_unlock().await.unwrap(), "it is free");
        assert_eq!(a.lost().await, LossReason::Taken);

        let (a, waiter) = (lock.lock().await.unwrap(), lock.clone());
        let waiting = tokio::spawn(async move { waiter.lock().await });
        settle().await;
        let start = Instant::now();
        assert!(stranger.force_unlock().await.unwrap());
        let c = waiting.await.unwrap().unwrap();
        assert!(start.elapsed() < ms(5));
        assert_eq!(a.lost().await, LossReason::Taken);
        assert!(is_lost(&a.unlock().await) && c.is_held());
        c.unlock().await.unwrap();
    }
}

// B104, B105
#[tokio::test(start_paused = true)]
async fn entering_again_and_leaving_do_not_touch_the_lease() {
    let world = World::new();
    let lock = world.client().lock("x");
    let outer = lock.lock_with(secs(10)).await.unwrap();
    time::sleep(secs(1)).await;
    let inner = outer.reenter().await.unwrap();
    assert_eq!(lock.remaining_lease().await.unwrap(), Some(secs(9)));
    time::sleep(secs(1)).await;
    inner.unlock().await.unwrap();
    assert_eq!(lock.remaining_lease().await.unwrap(), Some(secs(8)));
    let start = Instant::now();
    let stranger = world.stranger().lock("x");
    assert!(stranger.try_lock(ms(7_900), Lease::AutoRenew).await.unwrap().is_none());
    assert!(stranger.try_lock(secs(1), Lease::AutoRenew).await.unwrap().is_some());
    assert!(start.elapsed() > secs(8));
}

// B116
#[tokio::test(start_paused = true)]
async fn holds_are_counted_from_one() {
    let world = World::new();
    let lock = world.client().lock("x");
    let holds = async || lock.inspect().await.unwrap().map(|info| info.holds);
    let one = lock.lock().await.unwrap();
    assert_eq!((one.hold_count(), holds().await), (1, Some(1)));
    let two = one.reenter().await.unwrap();
    let three = two.reenter().await.unwrap();
    assert_eq!((one.hold_count(), two.hold_count(), holds().await), (3, 3, Some(3)));
    assert_eq!(one.owner(), three.owner());
    // The first can go first.
    one.unlock().await.unwrap();
    assert_eq!((two.hold_count(), holds().await), (2, Some(2)));
    drop(three);
    settle().await;
    assert_eq!((two.hold_count(), holds().await), (1, Some(1)));
    assert!(two.is_held());
    two.unlock().await.unwrap();
    assert_eq!(holds().await, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_or_plain_cannot_be_entered_again() {
    let world = World::new();
    let client = world.client();
    let guard = client.lock("x").lock_with(secs(10)).await.unwrap();
    world.store.remove("x");
    assert!(is_lost_as(LossReason::Taken, &guard.reenter().await));
    assert_eq!((guard.is_held(), guard.hold_count()), (false, 1));
    assert_eq!(world.faults.calls(Op::SetHolds), 1);
    assert!(is_lost(&guard.reenter().await));
    assert_eq!(world.faults.calls(Op::SetHolds), 1, "it is known already");
    let plain = client.plain_lock("p").lock().await.unwrap();
    let Err(ferrisson_core::Error::InvalidArgument { .. }) = plain.reenter().await else {
        panic!("a plain lock has no count")
    };
    assert!(plain.is_held());
}

// B108, B295
#[tokio::test(start_paused = true)]
async fn a_handle_can_be_used_again_whatever_became_of_its_holds() {
    let world = World::new();
    for lock in kinds(&world) {
        lock.lock_with(secs(1)).await.unwrap().unlock().await.unwrap();
        time::sleep(secs(2)).await;
        let expired = lock.lock_with(secs(1)).await.unwrap();
        time::sleep(secs(2)).await;
        assert!(!expired.is_held());
        let taken = lock.lock().await.unwrap();
        world.store.remove(lock.name().clone());
        assert_eq!(taken.lost().await, LossReason::Taken);
        let guard = lock.lock().await.unwrap();
        drop((expired, taken));
        settle().await;
        guard.unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_stays_until_its_lease_ends() {
    let world = World::new();
    for lock in kinds(&world) {
        lock.lock().await.unwrap().forget();
        time::sleep(ms(29_990)).await;
        assert!(lock.is_locked().await.unwrap());
        time::sleep(ms(20)).await;
        assert!(!lock.is_locked().await.unwrap());
        assert_eq!((world.faults.calls(Op::Renew), world.faults.calls(Op::Release)), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_leaves_the_hold_to_the_guards_that_share_it() {
    let world = World::new();
    let lock = world.client().lock("x");
    let kept = lock.lock().await.unwrap();
    kept.reenter().await.unwrap().forget();
    time::sleep(secs(60)).await;
    assert_eq!((kept.is_held(), kept.hold_count()), (true, 1));
    kept.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}
