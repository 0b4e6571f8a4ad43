//! A server that is out of memory.

use std::time::Duration;

use bytes::Bytes;
use ferrisson_core::{
    Refusal,
    backend::{
        Attempt, BucketBackend, Condition, Expiry, Failure, LockBackend, LockKind, PermitAttempt,
        PermitRecord, PermitRelease, Release, Renewal, RenewalRequest, SemaphoreBackend,
    },
};
use ferrisson_testkit::Server;

use crate::support::{KINDS, World, failure, fresh_lock, fresh_name, owner};

const LEASE: Duration = Duration::from_secs(100);
const FULL: Failure = Failure::Refused(Refusal::OutOfMemory);

async fn fill(server: &Server) {
    server.set_config("maxmemory-policy", "noeviction").await;
    server.set_config("maxmemory", "1").await;
}

#[tokio::test]
async fn locks_are_renewed_released_and_abandoned_and_new_ones_refused() {
    let server = Server::start().await;
    let mut world = World::on(&server).await;
    for kind in KINDS {
        let [renewed, released, abandoned, forced, free] =
            std::array::from_fn(|_| fresh_lock(kind));
        server.set_config("maxmemory", "0").await;
        for lock in [&renewed, &released, &abandoned, &forced] {
            world.backend.acquire(lock, owner(1), LEASE).await.unwrap();
        }
        fill(&server).await;

        let backend = &world.backend;
        assert_eq!(failure(backend.acquire(&free, owner(1), LEASE).await), FULL);
        assert!(matches!(
            backend.acquire(&renewed, owner(2), LEASE).await.unwrap(),
            Attempt::Contended { .. }
        ));
        let request = RenewalRequest { lock: renewed.clone(), owner: owner(1), lease: 2 * LEASE };
        let renewals = backend.renew(&[request]).await;
        assert_eq!(renewals[0].as_ref().unwrap(), &Renewal::Renewed);
        assert_eq!(backend.release(&released, owner(1)).await.unwrap(), Release::Released);
        assert_eq!(backend.abandon(&abandoned, owner(1)).await.unwrap(), Release::Released);
        assert_eq!(backend.abandon(&free, owner(1)).await.unwrap(), Release::NotHeld);
        for lock in [&abandoned, &free] {
            let attempt = backend.acquire(lock, owner(1), LEASE).await.unwrap();
            assert_eq!(attempt, Attempt::Abandoned);
        }
        assert!(backend.force_release(&forced).await.unwrap());
        if kind == LockKind::Reentrant {
            let holds = backend.set_holds(&renewed, owner(1), 1).await.unwrap();
            assert_eq!(holds, Renewal::Renewed);
        }
        assert_eq!(world.ttl(renewed.name.as_str()).await, 200);
        for lock in [&released, &abandoned, &forced, &free] {
            assert_eq!(world.ttl(lock.name.as_str()).await, -2, "it is free");
        }
    }
}

#[tokio::test]
async fn permits_come_back_and_new_ones_are_refused() {
    let server = Server::start().await;
    let mut world = World::on(&server).await;
    let [by_record, by_number, abandoned, added] = std::array::from_fn(|_| fresh_name());
    for name in [&by_record, &by_number, &abandoned, &added] {
        world.command(&["SET", name.as_str(), "5", "EX", "500"]).await;
        world.backend.acquire_permits(name, owner(1), 2).await.unwrap();
    }
    fill(&server).await;

    let backend = &world.backend;
    assert_eq!(failure(backend.acquire_permits(&added, owner(2), 1).await), FULL);
    let exhausted = backend.acquire_permits(&added, owner(2), 9).await.unwrap();
    assert_eq!(exhausted, PermitAttempt::Exhausted { available: 3 });
    let repeated = backend.acquire_permits(&added, owner(1), 2).await.unwrap();
    assert_eq!(repeated, PermitAttempt::Acquired { available: 3 });
    let absent = fresh_name();
    assert_eq!(failure(backend.init_permits(&absent, 1).await), FULL);

    let released = PermitRelease::Released;
    let release = backend.release_permits(&by_record, owner(1), 2, PermitRecord::Kept);
    assert_eq!(release.await.unwrap(), released);
    world.command(&["DEL", &format!("ferrisson_permit:{{{by_number}}}:{}", owner(1))]).await;
    let backend = &world.backend;
    let release = backend.release_permits(&by_number, owner(1), 2, PermitRecord::Expired);
    assert_eq!(release.await.unwrap(), released);
    assert_eq!(backend.abandon_permits(&abandoned, owner(1)).await.unwrap(), released);
    let not_held = backend.abandon_permits(&abandoned, owner(2)).await.unwrap();
    assert_eq!(not_held, PermitRelease::NotHeld);
    for number in [1, 2] {
        let attempt = backend.acquire_permits(&abandoned, owner(number), 2).await.unwrap();
        assert_eq!(attempt, PermitAttempt::Abandoned);
    }
    assert_eq!(backend.add_permits(&added, 2, true).await.unwrap(), 5);
    for name in [&by_record, &by_number, &abandoned, &added] {
        assert_eq!(world.get(name.as_str()).await.as_deref(), Some("5"));
        assert_eq!(world.ttl(name.as_str()).await, 500);
    }
}

#[tokio::test]
async fn values_are_refused_and_can_be_removed() {
    let server = Server::start().await;
    let mut world = World::on(&server).await;
    let name = fresh_name();
    world.command(&["SET", name.as_str(), "a"]).await;
    fill(&server).await;
    let backend = &world.backend;
    let value = Bytes::from_static(b"b");
    let set = backend.set(&name, value.clone(), Condition::Always, Expiry::Never).await;
    assert_eq!(failure(set), FULL);
    let swap = backend.compare_and_set(&name, Some(Bytes::from_static(b"a")), Some(value)).await;
    assert_eq!(failure(swap), FULL);
    assert_eq!(backend.take(&name).await.unwrap().as_deref(), Some(&b"a"[..]));
}
