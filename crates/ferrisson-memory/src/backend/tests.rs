use ferrisson_core::backend::{Failure, LockKind};
use futures::FutureExt;
use uuid::Uuid;

use super::*;

const LEASE: Duration = Duration::from_millis(100);

fn owner(number: u64) -> OwnerId {
    OwnerId::new(Uuid::from_u128(7), number)
}

fn lock() -> LockKey {
    LockKey { kind: LockKind::Reentrant, name: Name::new("x") }
}

fn is_woken(wakeup: &Wakeup) -> bool {
    wakeup.notified().now_or_never().is_some()
}

#[tokio::test]
async fn a_release_of_a_lock_is_signalled_to_the_waiters_of_its_kind() {
    let backend = MemoryBackend::new();
    let plain = Topic::lock(LockKind::Plain, Name::new("x"));
    let wakeup = backend.subscribe(&Topic::Lock(lock())).await.unwrap();
    let other = backend.subscribe(&plain).await.unwrap();
    assert!(wakeup.is_live());
    for _ in 0..2 {
        backend.acquire(&lock(), owner(1), LEASE).await.unwrap();
        assert!(!is_woken(&wakeup));
        backend.release(&lock(), owner(1)).await.unwrap();
        assert!(is_woken(&wakeup));
    }
    backend.acquire(&lock(), owner(1), LEASE).await.unwrap();
    backend.force_release(&lock()).await.unwrap();
    assert!(is_woken(&wakeup));
    backend.acquire(&lock(), owner(2), LEASE).await.unwrap();
    backend.abandon(&lock(), owner(2)).await.unwrap();
    assert!(is_woken(&wakeup) && !is_woken(&other));
}

#[tokio::test]
async fn what_frees_nothing_signals_nobody() {
    let (backend, name) = (MemoryBackend::new(), Name::new("s"));
    let lock_wakeup = backend.subscribe(&Topic::Lock(lock())).await.unwrap();
    backend.acquire(&lock(), owner(1), LEASE).await.unwrap();
    backend.release(&lock(), owner(2)).await.unwrap();
    backend.abandon(&lock(), owner(2)).await.unwrap();
    backend.remove("x");
    backend.force_release(&lock()).await.unwrap();
    assert!(!is_woken(&lock_wakeup));
    backend.put_raw("s", "5");
    let wakeup = backend.subscribe(&Topic::Semaphore(name.clone())).await.unwrap();
    assert!(!backend.init_permits(&name, 1).await.unwrap());
    backend.acquire_permits(&name, owner(1), 1).await.unwrap();
    backend.release_permits(&name, owner(2), 1, PermitRecord::Kept).await.unwrap();
    backend.abandon_permits(&name, owner(2)).await.unwrap();
    backend.drain_permits(&name).await.unwrap();
    backend.add_permits(&name, i64::MAX, true).await.unwrap();
    assert!(is_woken(&wakeup));
    backend.add_permits(&name, i64::MAX, true).await.unwrap_err();
    assert!(!is_woken(&wakeup));
}

#[tokio::test]
async fn every_way_to_return_permits_is_signalled() {
    let (backend, name) = (MemoryBackend::new(), Name::new("s"));
    let wakeup = backend.subscribe(&Topic::Semaphore(name.clone())).await.unwrap();
    backend.init_permits(&name, 5).await.unwrap();
    assert!(is_woken(&wakeup));
    for number in [1, 2] {
        backend.acquire_permits(&name, owner(number), 1).await.unwrap();
    }
    assert!(!is_woken(&wakeup));
    backend.release_permits(&name, owner(1), 1, PermitRecord::Kept).await.unwrap();
    assert!(is_woken(&wakeup));
    backend.abandon_permits(&name, owner(2)).await.unwrap();
    assert!(is_woken(&wakeup));
    backend.release_permits(&name, owner(3), 1, PermitRecord::Expired).await.unwrap();
    assert!(is_woken(&wakeup));
}

#[tokio::test(start_paused = true)]
async fn leases_end_by_the_clock_of_tokio() {
    let backend = MemoryBackend::new();
    backend.acquire(&lock(), owner(1), LEASE).await.unwrap();
    tokio::time::advance(LEASE).await;
    let attempt = backend.acquire(&lock(), owner(2), LEASE).await.unwrap();
    assert_eq!(attempt, Attempt::Contended { remaining: Some(Duration::ZERO) });
    tokio::time::advance(Duration::from_millis(1)).await;
    let attempt = backend.acquire(&lock(), owner(2), LEASE).await.unwrap();
    assert_eq!(attempt, Attempt::Acquired { token: None });
}

#[tokio::test]
async fn clones_share_the_store_and_closing_one_ends_nothing() {
    let one = MemoryBackend::new();
    let two = one.clone();
    one.acquire(&lock(), owner(1), LEASE).await.unwrap();
    one.close().await;
    let wakeup = two.subscribe(&Topic::Lock(lock())).await.unwrap();
    assert_eq!((two.keys(), one.subscriptions()), (vec![String::from("x")], 1));
    one.release(&lock(), owner(1)).await.unwrap();
    assert!(is_woken(&wakeup));
    drop(wakeup);
    assert_eq!((two.keys().len(), one.subscriptions()), (0, 0));
    assert!(MemoryBackend::new().keys().is_empty());
}

#[tokio::test]
async fn a_stranger_can_put_remove_and_wipe() {
    let backend = MemoryBackend::new();
    backend.abandon(&lock(), owner(1)).await.unwrap();
    backend.put_raw("x", vec![0xff, 0]);
    assert_eq!(backend.get(&Name::new("x")).await.unwrap(), Some(Bytes::from(vec![0xff, 0])));
    let error = backend.inspect(&lock()).await.unwrap_err();
    assert_eq!(error.failure(), Failure::WrongType);
    assert!(backend.remove("x") && !backend.remove("x"));
    assert_eq!(backend.keys().len(), 1);
    backend.clear();
    assert!(backend.keys().is_empty());
    let attempt = backend.acquire(&lock(), owner(1), LEASE).await.unwrap();
    assert_eq!(attempt, Attempt::Acquired { token: None });
}

#[tokio::test]
async fn renewals_fail_one_by_one() {
    let backend = MemoryBackend::new();
    backend.acquire(&lock(), owner(1), LEASE).await.unwrap();
    backend.put_raw("string", "");
    let request = |name: &str, number| {
        let lock = LockKey { kind: LockKind::Reentrant, name: Name::new(name) };
        RenewalRequest { lock, owner: owner(number), lease: LEASE }
    };
    let requests = [request("string", 1), request("x", 2), request("x", 1), request("y", 1)];
    let replies: Vec<_> = backend.renew(&requests).await.into_iter().map(Result::ok).collect();
    let not_held = Some(Renewal::NotHeld);
    assert_eq!(replies, [None, not_held, Some(Renewal::Renewed), not_held]);
    assert!(backend.renew(&[]).await.is_empty());
}

#[tokio::test]
async fn a_loop_of_operations_leaves_others_their_turn() {
    let (backend, name) = (MemoryBackend::new(), Name::new("flag"));
    let setter = backend.clone();
    let set = tokio::spawn(async move { setter.put_raw("flag", "") });
    while !backend.exists(&name).await.unwrap() {}
    set.await.unwrap();
}
