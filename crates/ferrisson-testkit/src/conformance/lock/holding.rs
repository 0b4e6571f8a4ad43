//! What a holder can count on.

use super::*;

pub async fn a_dropped_guard_releases(store: &Store) {
    let [lock, other, _] = store.locks("drop");
    for lease in [Lease::AutoRenew, LONG.into()] {
        drop(soon(lock.lock_with(lease)).await.unwrap());
        soon(other.lock_with(LONG)).await.unwrap().unlock().await.unwrap();
    }
}

pub async fn a_lease_ends_by_itself_and_its_holder_knows(store: &Store) {
    let [lock, other, _] = store.locks("lease");
    let start = Instant::now();
    let guard = lock.lock_with(SHORT).await.unwrap();
    let next = soon(other.lock_with(LONG)).await.unwrap();
    // Told by the clock: however late this task runs, it is not believed to be held twice.
    assert!(!guard.is_held() && guard.remaining().is_zero());
    assert!(start.elapsed() >= SHORT);
    assert_eq!(soon(guard.lost()).await, LossReason::Expired);
    assert_lost(guard.unlock().await, LossReason::Expired);
    next.unlock().await.unwrap();
}

pub async fn a_stale_unlock_does_not_free_the_next_holder(store: &Store) {
    let [lock, other, _] = store.locks("stale");
    let stale = soon(lock.lock_with(SHORT)).await.unwrap();
    let dropped = soon(lock.lock_with(SHORT)).await.unwrap();
    let next = soon(other.lock_with(LONG)).await.unwrap();
    assert_lost(stale.unlock().await, LossReason::Expired);
    drop(dropped);
    time::sleep(SHORT).await;
    let info = lock.inspect().await.unwrap().expect("it is held");
    assert_eq!(next.owner(), *info.owner.as_str());
    next.unlock().await.unwrap();
}

pub async fn the_watchdog_keeps_a_lock(store: &Store) {
    let [lock, other, _] = store.locks("watchdog");
    let guard = lock.lock().await.unwrap();
    assert!(other.try_lock(WATCHDOG * 3 + SHORT, LONG).await.unwrap().is_none());
    assert!(guard.is_held());
    let left = other.remaining_lease().await.unwrap().expect("it is held");
    assert!(left <= WATCHDOG, "{left:?}");
    guard.unlock().await.unwrap();
    // And then lets it go.
    soon(other.lock_with(LONG)).await.unwrap().unlock().await.unwrap();
}

pub async fn a_forgotten_lock_stays_until_its_lease_ends(store: &Store) {
    let [lock, other, _] = store.locks("forget");
    let start = Instant::now();
    soon(lock.lock_with(SHORT)).await.unwrap().forget();
    let guard = soon(other.lock_with(LONG)).await.unwrap();
    assert!(start.elapsed() >= SHORT);
    guard.unlock().await.unwrap();
    // The watchdog goes on no more.
    soon(lock.lock()).await.unwrap().forget();
    assert!(other.is_locked().await.unwrap());
    soon(other.lock_with(LONG)).await.unwrap().unlock().await.unwrap();
}

pub async fn a_renewal_extends_and_shortens(store: &Store) {
    let [lock, other, _] = store.locks("renew");
    let guard = lock.lock_with(SOON).await.unwrap();
    guard.renew(LONG).await.unwrap();
    assert!(guard.remaining() > SOON && guard.remaining() <= LONG);
    let left = other.remaining_lease().await.unwrap().expect("it is held");
    assert!(left > SOON && left <= LONG, "{left:?}");
    // So short that it may be over before the answer is here.
    drop(guard.renew(SHORT).await);
    assert!(guard.remaining() <= SHORT);
    let next = soon(other.lock_with(LONG)).await.unwrap();
    assert!(!guard.is_held());
    next.unlock().await.unwrap();
}

pub async fn a_lost_lock_cannot_be_renewed(store: &Store) {
    let [lock, ..] = store.locks("lost");
    let guard = lock.lock_with(SHORT).await.unwrap();
    assert_eq!(soon(guard.lost()).await, LossReason::Expired);
    assert_lost(guard.renew(LONG).await, LossReason::Expired);
    time::sleep(SHORT).await;
    assert!(!lock.is_locked().await.unwrap());
}

pub async fn work_is_stopped_when_the_lock_is_lost(store: &Store) {
    let [lock, ..] = store.locks("run");
    let guard = lock.lock_with(LONG).await.unwrap();
    assert_eq!(guard.run(async { 42 }).await.unwrap(), 42);
    assert!(guard.is_held());
    drop(guard.renew(SHORT).await);
    let work = Arc::new(());
    let running = {
        let work = Arc::clone(&work);
        async move {
            std::future::pending::<()>().await;
            drop(work);
        }
    };
    assert_lost(soon(guard.run(running)).await, LossReason::Expired);
    assert_eq!(Arc::strong_count(&work), 1, "the work is dropped");
    assert_lost(soon(guard.run(std::future::pending::<()>())).await, LossReason::Expired);
}

pub async fn a_held_lock_can_be_entered_again(store: &Store) {
    let [lock, other, _] = store.locks("reenter");
    let holds = async || other.inspect().await.unwrap().map_or(0, |info| info.holds);
    let guard = lock.lock_with(LONG).await.unwrap();
    assert_eq!((guard.hold_count(), holds().await), (1, 1));
    let inner = guard.reenter().await.unwrap();
    assert_eq!(inner.owner(), guard.owner());
    assert_eq!((guard.hold_count(), inner.hold_count(), holds().await), (2, 2, 2));
    let innermost = inner.reenter().await.unwrap();
    assert_eq!((guard.hold_count(), holds().await), (3, 3));
    innermost.unlock().await.unwrap();
    inner.unlock().await.unwrap();
    assert_eq!((guard.hold_count(), holds().await), (1, 1));
    // Somebody else in the same client is no better off than one elsewhere.
    for lock in [&lock, &other] {
        assert!(lock.try_lock(Duration::ZERO, LONG).await.unwrap().is_none());
    }
    guard.unlock().await.unwrap();
    assert_eq!(holds().await, 0);
}

pub async fn holds_can_end_in_any_order(store: &Store) {
    let [lock, other, _] = store.locks("order");
    let guard = lock.lock_with(LONG).await.unwrap();
    let (inner, dropped) = (guard.reenter().await.unwrap(), guard.reenter().await.unwrap());
    guard.unlock().await.unwrap();
    drop(dropped);
    assert!(inner.is_held() && other.is_locked().await.unwrap());
    assert_eq!(inner.hold_count(), 1);
    inner.renew(LONG).await.unwrap();
    inner.unlock().await.unwrap();
    soon(other.lock_with(LONG)).await.unwrap().unlock().await.unwrap();
}

pub async fn a_lost_lock_cannot_be_entered_again(store: &Store) {
    let [lock, other, _] = store.locks("reenter lost");
    let guard = lock.lock_with(SHORT).await.unwrap();
    soon(guard.lost()).await;
    assert_lost(guard.reenter().await, LossReason::Expired);
    let guard = soon(lock.lock_with(LONG)).await.unwrap();
    assert!(other.force_unlock().await.unwrap());
    assert_lost(guard.reenter().await, LossReason::Taken);
    assert!(!lock.is_locked().await.unwrap());
}

pub async fn a_re_entry_does_not_stop_the_watchdog(store: &Store) {
    let [lock, other, _] = store.locks("reenter watchdog");
    let guard = lock.lock().await.unwrap();
    guard.reenter().await.unwrap().unlock().await.unwrap();
    assert!(other.try_lock(WATCHDOG * 2, LONG).await.unwrap().is_none());
    assert!(guard.is_held());
    guard.unlock().await.unwrap();
}
