//! Locks.
#![allow(missing_docs, reason = "the name of a case says what it is about")]
#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

mod holding;
mod waiting;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ferrisson_core::{Error, Lease, Lock, LockHandle, LossReason, MAX_LEASE, Result, codec::Text};
use futures::future::join_all;
use tokio::time::{self, Instant};

pub use self::{holding::*, waiting::*};
use super::{LONG, SHORT, SOON, Store, WATCHDOG, bad_names, begin, soon};
use crate::check::Tally;

/// The hold was lost in this way.
fn assert_lost<T>(result: Result<T>, expected: LossReason) {
    match result {
        Err(Error::LeaseLost { reason, .. }) => assert_eq!(reason, expected),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it is still held"),
    }
}

pub async fn a_lock_is_held_until_it_is_unlocked(store: &Store) {
    let [lock, other, _] = store.locks("held");
    for _ in 0..2 {
        assert!(!other.is_locked().await.unwrap());
        let guard = soon(lock.lock()).await.unwrap();
        assert!(guard.is_held() && guard.remaining() <= WATCHDOG);
        assert_eq!((guard.name(), guard.hold_count()), (lock.name(), 1));
        for lock in [&lock, &other] {
            assert!(lock.is_locked().await.unwrap());
            assert!(lock.try_lock(Duration::ZERO, LONG).await.unwrap().is_none());
        }
        guard.unlock().await.unwrap();
    }
    let guard = other.try_lock(Duration::ZERO, LONG).await.unwrap().expect("it is free");
    guard.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

pub async fn a_lock_can_be_used_as_a_trait_object(store: &Store) {
    let [lock, other, _] = store.locks("dyn");
    let (lock, other): (Arc<dyn Lock>, Arc<dyn Lock>) = (Arc::new(lock), Arc::new(other));
    let guard = lock.lock(Lease::AutoRenew).await.unwrap();
    assert_eq!(other.name(), guard.name());
    assert!(other.is_locked().await.unwrap());
    assert!(other.inspect().await.unwrap().is_some());
    assert!(other.remaining_lease().await.unwrap().is_some());
    assert!(other.try_lock(Duration::ZERO, LONG.into()).await.unwrap().is_none());
    assert!(other.force_unlock().await.unwrap());
    assert!(guard.unlock().await.is_err());
}

pub async fn every_hold_has_an_owner_of_its_own(store: &Store) {
    let [lock, other, _] = store.locks("owner");
    let mut owners = Vec::new();
    for _ in 0..2 {
        for lock in [&lock, &other] {
            let guard = soon(lock.lock()).await.unwrap();
            let info = other.inspect().await.unwrap().expect("it is held");
            assert_eq!((guard.owner() == *info.owner.as_str(), info.holds), (true, 1));
            owners.push(guard.owner());
            guard.unlock().await.unwrap();
        }
    }
    owners.sort();
    owners.dedup();
    assert_eq!(owners.len(), 4);
    assert!(owners.iter().any(|owner| owner.client() == store.clients[0].id()));
}

pub async fn tasks_and_clients_exclude_each_other(store: &Store) {
    const ROUNDS: u64 = 8;
    let tally = Tally::default();
    let work = async |lock: LockHandle| {
        for _ in 0..ROUNDS {
            let guard = soon(lock.lock_with(LONG)).await.unwrap();
            let read = tally.read();
            tokio::task::yield_now().await;
            time::sleep(Duration::from_millis(1)).await;
            tally.write_next(read);
            guard.unlock().await.unwrap();
        }
    };
    let [a, b, c] = store.locks("exclusive");
    join_all([a.clone(), a, b.clone(), b, c].map(work)).await;
    assert_eq!((tally.read(), tally.lost_updates()), (5 * ROUNDS, 0));
}

pub async fn locks_of_different_names_are_independent(store: &Store) {
    let client = &store.clients[0];
    let names = ["case", "CASE", "case ", "case:2"].map(|name| store.name(name));
    let locks = names.map(|name| store.lock_of(client, name));
    let guards = join_all(locks.iter().map(|lock| lock.try_lock(Duration::ZERO, LONG))).await;
    for guard in guards {
        guard.unwrap().expect("nobody has it").unlock().await.unwrap();
    }
}

pub async fn many_locks_can_be_held_at_once(store: &Store) {
    let names: Vec<_> = (0..200).map(|number| store.name(&number.to_string())).collect();
    let lock = |name: &String| {
        let lock = store.lock_of(&store.clients[0], name);
        async move { soon(lock.lock()).await.unwrap() }
    };
    let guards = join_all(names.iter().map(lock)).await;
    time::sleep(WATCHDOG).await;
    for (guard, name) in guards.into_iter().zip(&names) {
        assert!(guard.is_held(), "{name}");
        guard.unlock().await.unwrap();
    }
}

pub async fn leases_that_cannot_work_are_refused(store: &Store) {
    let [lock, ..] = store.locks("lease");
    let bad = [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(9999), Duration::MAX];
    for lease in bad {
        let wait = Duration::ZERO;
        let error = lock.try_lock(wait, lease).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(lock.lock_with(lease).await.is_err());
    }
    assert!(!lock.is_locked().await.unwrap());
    let guard = lock.lock_with(MAX_LEASE).await.unwrap();
    for lease in bad {
        assert!(matches!(guard.renew(lease).await, Err(Error::InvalidArgument { .. })));
    }
    let left = lock.remaining_lease().await.unwrap().unwrap();
    assert!(left <= MAX_LEASE && left > MAX_LEASE - SOON, "{left:?}");
    guard.unlock().await.unwrap();
    // Fractions are rounded up.
    let guard = lock.lock_with(LONG + Duration::from_nanos(1)).await.unwrap();
    guard.unlock().await.unwrap();
}

pub async fn the_remaining_lease_is_told(store: &Store) {
    let [lock, other, _] = store.locks("remaining");
    assert_eq!(other.remaining_lease().await.unwrap(), None);
    assert_eq!(other.inspect().await.unwrap(), None);
    let guard = lock.lock_with(LONG).await.unwrap();
    let left = other.remaining_lease().await.unwrap().expect("it is held");
    assert!(left <= LONG && left > LONG - SOON, "{left:?}");
    assert!(guard.remaining() <= left, "the holder counts on no more than there is");
    guard.unlock().await.unwrap();
    let guard = lock.lock().await.unwrap();
    let left = other.remaining_lease().await.unwrap().expect("it is held");
    assert!(left <= WATCHDOG && !left.is_zero(), "{left:?}");
    guard.unlock().await.unwrap();
    assert_eq!(other.remaining_lease().await.unwrap(), None);
}

pub async fn odd_names_are_names(store: &Store) {
    for name in store.odd_names() {
        let lock = store.lock_of(&store.clients[0], &name);
        let other = store.lock_of(&store.clients[1], &name);
        let guard = soon(lock.lock()).await.unwrap();
        assert_eq!(guard.name().as_str(), name);
        assert!(other.try_lock(Duration::ZERO, LONG).await.unwrap().is_none(), "{name:?}");
        guard.renew(LONG).await.unwrap();
        let waiting = tokio::spawn(async move { other.lock_with(LONG).await });
        guard.unlock().await.unwrap();
        soon(waiting).await.unwrap().unwrap().unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap(), "{name:?}");
    }
}

pub async fn names_that_cannot_work_are_refused(store: &Store) {
    for name in bad_names() {
        let lock = store.lock_of(&store.clients[0], name);
        let wait = Duration::from_secs(1);
        let errors = [
            lock.try_lock(wait, LONG).await.map(drop).unwrap_err(),
            lock.lock().await.map(drop).unwrap_err(),
            lock.inspect().await.map(drop).unwrap_err(),
            lock.force_unlock().await.map(drop).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| matches!(error, Error::InvalidArgument { .. })));
    }
}

pub async fn a_key_of_another_type_is_not_touched(store: &Store) {
    let [lock, ..] = store.locks("type");
    let bucket = store.clients[1].bucket_with::<String, _>(lock.name().clone(), Text);
    bucket.set(&"mine".into()).await.unwrap();
    let errors = [
        lock.try_lock(Duration::ZERO, LONG).await.map(drop).unwrap_err(),
        lock.try_lock(LONG, LONG).await.map(drop).unwrap_err(),
        lock.lock().await.map(drop).unwrap_err(),
        lock.inspect().await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::WrongType { .. }), "{error}");
        assert_eq!(error.name(), Some(lock.name()));
    }
    assert_eq!(bucket.get().await.unwrap().as_deref(), Some("mine"));
    assert!(bucket.delete().await.unwrap());
    lock.lock().await.unwrap().unlock().await.unwrap();
}

pub async fn a_closed_client_lets_go_and_does_nothing_more(store: &Store) {
    let client = &store.mortal;
    let name = store.name("closed");
    let (lock, other) = (store.lock_of(client, &name), store.lock_of(&store.clients[0], &name));
    let guard = lock.lock_with(LONG).await.unwrap();
    let waiting = {
        let lock = lock.clone();
        begin(async move { lock.lock().await }).await
    };
    assert!(!client.is_closed());
    soon(client.close()).await;
    assert!(client.is_closed() && !guard.is_held());
    assert_eq!(soon(guard.lost()).await, LossReason::Closed);
    assert!(matches!(soon(waiting).await.unwrap(), Err(Error::Closed)));
    assert_lost(guard.unlock().await, LossReason::Closed);
    for error in [lock.lock().await.map(drop), lock.inspect().await.map(drop)] {
        assert!(matches!(error, Err(Error::Closed)));
    }
    soon(other.lock_with(LONG)).await.unwrap().unlock().await.unwrap();
    soon(client.close()).await;
}
