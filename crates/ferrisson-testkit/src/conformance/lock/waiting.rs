//! What waiters do and get.

use super::*;

pub async fn a_try_without_wait_answers_at_once(store: &Store) {
    let [lock, other, _] = store.locks("try");
    let guard = lock.lock_with(LONG).await.unwrap();
    let start = Instant::now();
    assert!(other.try_lock(Duration::ZERO, LONG).await.unwrap().is_none());
    assert!(start.elapsed() < SOON);
    guard.unlock().await.unwrap();
    let guard = other.try_lock(Duration::ZERO, Lease::AutoRenew).await.unwrap();
    guard.expect("it is free").unlock().await.unwrap();
}

pub async fn a_wait_ends_when_it_is_over(store: &Store) {
    let [lock, other, _] = store.locks("wait");
    let guard = lock.lock_with(LONG).await.unwrap();
    for lock in [&other, &lock] {
        let start = Instant::now();
        // The second one waits in the row behind the first.
        let waits = [lock.try_lock(SHORT, LONG), lock.try_lock(SHORT, LONG)];
        for result in join_all(waits).await {
            assert!(result.unwrap().is_none());
        }
        let waited = start.elapsed();
        assert!(waited >= SHORT && waited < SOON, "{waited:?}");
    }
    guard.unlock().await.unwrap();
}

pub async fn waits_of_any_length_are_taken(store: &Store) {
    let [lock, other, _] = store.locks("waits");
    for wait in [Duration::ZERO, Duration::from_nanos(1), MAX_LEASE, Duration::MAX] {
        let guard = soon(lock.try_lock(wait, LONG)).await.unwrap().expect("it is free");
        if wait < SHORT {
            assert!(soon(other.try_lock(wait, LONG)).await.unwrap().is_none());
        } else {
            let waiting = time::timeout(SHORT, other.try_lock(wait, LONG)).await;
            assert!(waiting.is_err(), "it waits");
        }
        guard.unlock().await.unwrap();
    }
}

pub async fn a_release_wakes_a_waiter(store: &Store) {
    let [lock, other, _] = store.locks("wake");
    for holder in [&lock, &other] {
        let guard = soon(holder.lock_with(LONG)).await.unwrap();
        let [here, there] = [&lock, &other].map(|lock| {
            let lock = lock.clone();
            async move { lock.lock_with(LONG).await?.unlock().await }
        });
        let (here, there) = (begin(here).await, begin(there).await);
        assert!(!here.is_finished() && !there.is_finished());
        guard.unlock().await.unwrap();
        soon(here).await.unwrap().unwrap();
        soon(there).await.unwrap().unwrap();
    }
}

pub async fn a_forced_release_wakes_a_waiter_and_the_holder_learns_of_it(store: &Store) {
    let [lock, other, third] = store.locks("force");
    assert!(!third.force_unlock().await.unwrap());
    let guard = lock.lock().await.unwrap();
    let waiting = {
        let other = other.clone();
        begin(async move { other.lock_with(LONG).await }).await
    };
    assert!(third.force_unlock().await.unwrap());
    let next = soon(waiting).await.unwrap().unwrap();
    assert_eq!(soon(guard.lost()).await, LossReason::Taken);
    assert_lost(guard.unlock().await, LossReason::Taken);
    assert!(next.is_held() && other.is_locked().await.unwrap());
    next.unlock().await.unwrap();
}

pub async fn waiters_of_one_client_are_served_in_their_order(store: &Store) {
    let [lock, other, _] = store.locks("row");
    let guard = other.lock_with(LONG).await.unwrap();
    let order = Mutex::new(Vec::new());
    let waiter = async |number: usize| {
        let guard = soon(lock.lock_with(LONG)).await.unwrap();
        order.lock().unwrap().push(number);
        guard.unlock().await.unwrap();
    };
    let release = async {
        time::sleep(Duration::from_millis(100)).await;
        guard.unlock().await.unwrap();
    };
    // Polled for the first time in this order.
    tokio::join!(join_all((0..8).map(waiter)), release);
    assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<_>>());
}

pub async fn waiters_of_several_clients_are_all_served(store: &Store) {
    let locks = store.locks("crowd");
    let guard = locks[0].lock_with(LONG).await.unwrap();
    let wait = |number: usize| {
        let lock = locks[number % 3].clone();
        tokio::spawn(async move { soon(lock.lock_with(LONG)).await?.unlock().await })
    };
    let crowd: Vec<_> = (0..15).map(wait).collect();
    time::sleep(Duration::from_millis(100)).await;
    guard.unlock().await.unwrap();
    for waiter in crowd {
        waiter.await.unwrap().unwrap();
    }
    assert!(!locks[0].is_locked().await.unwrap());
}

pub async fn a_cancelled_waiter_leaves_nothing(store: &Store) {
    let [lock, other, _] = store.locks("cancel");
    let guard = lock.lock_with(LONG).await.unwrap();
    for patience in [Duration::from_millis(1), Duration::from_millis(20), SHORT] {
        for lock in [&lock, &other] {
            assert!(time::timeout(patience, lock.lock_with(LONG)).await.is_err());
        }
    }
    guard.unlock().await.unwrap();
    // Nobody is left who would take it.
    time::sleep(SHORT).await;
    assert!(!lock.is_locked().await.unwrap());
    for lock in [&lock, &other] {
        let guard = lock.try_lock(Duration::ZERO, LONG).await.unwrap();
        guard.expect("it is free").unlock().await.unwrap();
    }
}

pub async fn a_cancelled_head_of_the_row_lets_the_next_one_in(store: &Store) {
    let [lock, other, _] = store.locks("head");
    let guard = lock.lock_with(LONG).await.unwrap();
    let wait = || {
        let other = other.clone();
        async move { other.lock_with(LONG).await }
    };
    let (head, next) = (begin(wait()).await, begin(wait()).await);
    head.abort();
    assert!(head.await.is_err());
    guard.unlock().await.unwrap();
    soon(next).await.unwrap().unwrap().unlock().await.unwrap();
}

pub async fn a_lock_that_a_stranger_deletes_is_found_by_polling(store: &Store) {
    let [lock, ..] = store.locks("deleted");
    let patient = store.lock_of(&store.impatient, lock.name().as_str());
    let guard = lock.lock_with(LONG).await.unwrap();
    let waiting = begin(async move { patient.lock_with(LONG).await }).await;
    let stranger = store.clients[1].bucket_with::<String, _>(lock.name().clone(), Text);
    assert!(stranger.delete().await.unwrap());
    let next = soon(waiting).await.unwrap().unwrap();
    assert_lost(guard.unlock().await, LossReason::Taken);
    assert!(lock.is_locked().await.unwrap(), "the next holder is not disturbed");
    next.unlock().await.unwrap();
}

pub async fn the_holder_learns_at_its_next_renewal_that_a_stranger_deleted_the_lock(store: &Store) {
    let [lock, ..] = store.locks("gone");
    let guard = lock.lock().await.unwrap();
    let stranger = store.clients[1].bucket_with::<String, _>(lock.name().clone(), Text);
    assert!(stranger.delete().await.unwrap());
    assert_eq!(soon(guard.lost()).await, LossReason::Taken);
    assert!(!guard.is_held() && guard.remaining().is_zero());
    assert_lost(guard.renew(LONG).await, LossReason::Taken);
    assert!(!lock.is_locked().await.unwrap(), "a renewal creates nothing");
}
