//! Servers and users that may not do everything.

use std::time::Duration;

use ferrisson_core::{
    Refusal,
    backend::{
        Attempt, BucketBackend, Condition, Expiry, Failure, LockBackend, LockKey, LockKind,
        PermitRecord, PermitRelease, Release, Renewal, RenewalRequest, SemaphoreBackend,
    },
};
use ferrisson_testkit::{Server, shared};

use crate::support::{KINDS, World, failure, fresh_lock, fresh_name, owner};

const LEASE: Duration = Duration::from_secs(100);
const NOT_PERMITTED: Failure = Failure::Refused(Refusal::NotPermitted);

#[tokio::test]
async fn a_user_without_the_command_or_the_key_is_not_permitted() {
    let read_only = ["~*", "+@read", "+@scripting"];
    let elsewhere = ["~elsewhere:*", "+@all"];
    for rules in [&read_only[..], &elsewhere[..]] {
        let mut world = World::as_user(shared(), rules).await;
        for kind in KINDS {
            let lock = fresh_lock(kind);
            let attempt = world.backend.acquire(&lock, owner(1), LEASE).await;
            assert_eq!(failure(attempt), NOT_PERMITTED, "{rules:?}");
            let request = RenewalRequest { lock: lock.clone(), owner: owner(1), lease: LEASE };
            if rules == elsewhere {
                let renewals = world.backend.renew(&[request]).await;
                let renewal = renewals.into_iter().next().unwrap();
                assert_eq!(failure(renewal), NOT_PERMITTED);
            }
            assert!(world.keys(&lock.name).await.is_empty());
        }
        let (name, always) = (fresh_name(), Condition::Always);
        let set = world.backend.set(&name, "a".into(), always, Expiry::Never).await;
        assert_eq!(failure(set), NOT_PERMITTED);
    }
}

#[tokio::test]
async fn a_user_that_may_not_publish_releases_all_the_same() {
    let mut world = World::as_user(shared(), &["~*", "+@all", "resetchannels"]).await;
    for kind in KINDS {
        let [released, abandoned, forced] = std::array::from_fn(|_| fresh_lock(kind));
        for lock in [&released, &abandoned, &forced] {
            world.backend.acquire(lock, owner(1), LEASE).await.unwrap();
        }
        assert_eq!(world.backend.release(&released, owner(1)).await.unwrap(), Release::Released);
        assert_eq!(world.backend.abandon(&abandoned, owner(1)).await.unwrap(), Release::Released);
        assert!(world.backend.force_release(&forced).await.unwrap());
        for lock in [&released, &abandoned, &forced] {
            assert_eq!(world.ttl(lock.name.as_str()).await, -2);
        }
    }
    let name = fresh_name();
    assert!(world.backend.init_permits(&name, 5).await.unwrap());
    for number in [1, 2] {
        world.backend.acquire_permits(&name, owner(number), 1).await.unwrap();
    }
    let release = world.backend.release_permits(&name, owner(1), 1, PermitRecord::Kept).await;
    assert_eq!(release.unwrap(), PermitRelease::Released);
    let abandon = world.backend.abandon_permits(&name, owner(2)).await;
    assert_eq!(abandon.unwrap(), PermitRelease::Released);
    assert_eq!(world.backend.add_permits(&name, 2, true).await.unwrap(), 7);
}

#[tokio::test]
async fn a_lock_without_end_is_not_left_behind() {
    let mut world = World::as_user(shared(), &["~*", "+@all", "-pexpire"]).await;
    let lock = fresh_lock(LockKind::Reentrant);
    let attempt = world.backend.acquire(&lock, owner(1), LEASE).await;
    assert_eq!(failure(attempt), NOT_PERMITTED);
    assert!(world.keys(&lock.name).await.is_empty());
}

#[tokio::test]
async fn a_renewal_that_is_not_permitted_fails_alone() {
    let world = World::new().await;
    let limited = World::as_user(shared(), &["~*", "+@all", "-pexpire"]).await;
    for kind in KINDS {
        let [own, other] = [1, 2].map(|number| (fresh_lock(kind), owner(number)));
        for (lock, owner) in [&own, &other] {
            world.backend.acquire(lock, *owner, LEASE).await.unwrap();
        }
        let request =
            |lock: &LockKey| RenewalRequest { lock: lock.clone(), owner: owner(1), lease: LEASE };
        let renewals = limited.backend.renew(&[request(&own.0), request(&other.0)]).await;
        let [renewal, not_held] = renewals.try_into().unwrap();
        assert_eq!(failure(renewal), NOT_PERMITTED);
        assert_eq!(not_held.unwrap(), Renewal::NotHeld);
    }
}

#[tokio::test]
async fn a_replica_refuses_what_would_write() {
    let server = Server::start().await;
    let mut world = World::on(&server).await;
    let locks = KINDS.map(fresh_lock);
    for lock in &locks {
        world.backend.acquire(lock, owner(1), LEASE).await.unwrap();
    }
    world.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let read_only = Failure::Refused(Refusal::ReadOnly);
    for lock in &locks {
        let backend = &world.backend;
        let attempt = backend.acquire(lock, owner(2), LEASE).await.unwrap();
        assert!(matches!(attempt, Attempt::Contended { .. }));
        assert_eq!(failure(backend.acquire(lock, owner(1), LEASE).await), read_only);
        assert_eq!(
            failure(backend.acquire(&fresh_lock(lock.kind), owner(1), LEASE).await),
            read_only
        );
        assert_eq!(failure(backend.release(lock, owner(1)).await), read_only);
        assert_eq!(failure(backend.abandon(lock, owner(1)).await), read_only);
        let request = RenewalRequest { lock: lock.clone(), owner: owner(1), lease: LEASE };
        let renewals = backend.renew(&[request]).await;
        assert_eq!(failure(renewals.into_iter().next().unwrap()), read_only);
        assert!(backend.inspect(lock).await.unwrap().is_some());
    }
    assert_eq!(failure(world.backend.add_permits(&fresh_name(), 1, true).await), read_only);
    server.set_config("replica-serve-stale-data", "no").await;
    let stale = Failure::Refused(Refusal::PrimaryDown);
    assert_eq!(failure(world.backend.inspect(&locks[0]).await), stale);
    assert_eq!(failure(world.backend.get(&fresh_name()).await), stale);
}

#[tokio::test]
async fn too_few_replicas_refuse_what_would_write() {
    let server = Server::start().await;
    let world = World::on(&server).await;
    server.set_config("min-replicas-to-write", "1").await;
    let too_few = Failure::Refused(Refusal::TooFewReplicas);
    for kind in KINDS {
        let attempt = world.backend.acquire(&fresh_lock(kind), owner(1), LEASE).await;
        assert_eq!(failure(attempt), too_few);
    }
    assert_eq!(failure(world.backend.init_permits(&fresh_name(), 1).await), too_few);
}
