//! Locks of both kinds.

use std::time::Duration;

use ferrisson_core::{
    Name,
    backend::{
        Attempt, BackendError, Failure, LockBackend, LockInfo, LockKey, LockKind, Release, Renewal,
        RenewalRequest,
    },
};

use crate::support::{KINDS, World, failure, fresh_lock, fresh_name, owner};

const LEASE: Duration = Duration::from_secs(100);
const LONGER: Duration = Duration::from_secs(200);
const ACQUIRED: Attempt = Attempt::Acquired { token: None };

fn channel(lock: &LockKey) -> String {
    match lock.kind {
        LockKind::Reentrant => format!("redisson_lock__channel:{{{}}}", lock.name),
        _ => format!("ferrisson_lock__channel:{{{}}}", lock.name),
    }
}

fn tombstone(name: &Name, number: u64) -> String {
    format!("ferrisson_abandoned:{{{name}}}:{}", owner(number))
}

/// Writes a lock as another client would.
async fn put(world: &mut World, lock: &LockKey, owner: &str, ttl: Option<&str>) {
    let name = lock.name.as_str();
    match lock.kind {
        LockKind::Reentrant => world.command(&["HSET", name, owner, "2"]).await,
        _ => world.command(&["SET", name, owner]).await,
    };
    if let Some(ttl) = ttl {
        world.command(&["PEXPIRE", name, ttl]).await;
    }
}

/// Who holds the lock, as the server has it.
async fn holder(world: &mut World, lock: &LockKey) -> Option<String> {
    match lock.kind {
        LockKind::Reentrant => world.hash(&lock.name).await.pop(),
        _ => world.get(lock.name.as_str()).await,
    }
}

fn request(lock: &LockKey, number: u64, lease: Duration) -> RenewalRequest {
    RenewalRequest { lock: lock.clone(), owner: owner(number), lease }
}

#[tokio::test]
async fn a_free_lock_is_taken_in_the_format_of_its_kind() {
    let mut world = World::new().await;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        let mut listener = world.listen(channel(&lock)).await;
        assert_eq!(world.backend.acquire(&lock, owner(1), LEASE).await.unwrap(), ACQUIRED);
        let expected = match kind {
            LockKind::Reentrant => format!("{}=1", owner(1)),
            _ => owner(1).to_string(),
        };
        assert_eq!(holder(&mut world, &lock).await, Some(expected));
        assert_eq!(world.ttl(lock.name.as_str()).await, 100);
        assert_eq!(world.keys(&lock.name).await, [lock.name.as_str()], "nothing else is written");
        assert!(listener.heard().await.is_empty());
    }
}

#[tokio::test]
async fn an_owner_that_asks_again_holds_it_once_for_the_new_lease() {
    let mut world = World::new().await;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        for (lease, ttl) in [(LEASE, 100), (LONGER, 200), (LEASE, 100)] {
            let before = holder(&mut world, &lock).await;
            assert_eq!(world.backend.acquire(&lock, owner(1), lease).await.unwrap(), ACQUIRED);
            assert_eq!(world.ttl(lock.name.as_str()).await, ttl);
            assert!(before.is_none() || before == holder(&mut world, &lock).await);
        }
    }
}

#[tokio::test]
async fn a_lock_of_another_is_contended_for_as_long_as_it_lasts() {
    let mut world = World::new().await;
    for kind in KINDS {
        let (lock, endless) = (fresh_lock(kind), fresh_lock(kind));
        put(&mut world, &lock, "java:1", Some("100000")).await;
        put(&mut world, &endless, "java:1", None).await;
        let before = holder(&mut world, &lock).await;
        let attempt = world.backend.acquire(&lock, owner(1), LONGER).await.unwrap();
        let Attempt::Contended { remaining: Some(remaining) } = attempt else {
            panic!("{attempt:?}")
        };
        assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
        assert_eq!(holder(&mut world, &lock).await, before);
        assert_eq!(world.ttl(lock.name.as_str()).await, 100);
        let attempt = world.backend.acquire(&endless, owner(1), LEASE).await.unwrap();
        assert_eq!(attempt, Attempt::Contended { remaining: None });
        assert_eq!(world.ttl(endless.name.as_str()).await, -1);
    }
}

#[tokio::test]
async fn release_frees_the_lock_whatever_the_number_of_holds_and_tells() {
    let mut world = World::new().await;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        let mut listener = world.listen(channel(&lock)).await;
        put(&mut world, &lock, &owner(1).to_string(), Some("100000")).await;
        assert_eq!(world.backend.release(&lock, owner(1)).await.unwrap(), Release::Released);
        assert!(world.keys(&lock.name).await.is_empty());
        assert_eq!(world.backend.release(&lock, owner(1)).await.unwrap(), Release::NotHeld);
        assert_eq!(listener.heard().await, ["0"]);
    }
}

#[tokio::test]
async fn release_leaves_the_lock_of_another_alone() {
    let mut world = World::new().await;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        let mut listener = world.listen(channel(&lock)).await;
        put(&mut world, &lock, &owner(2).to_string(), Some("100000")).await;
        let before = holder(&mut world, &lock).await;
        assert_eq!(world.backend.release(&lock, owner(1)).await.unwrap(), Release::NotHeld);
        assert_eq!(world.backend.abandon(&lock, owner(1)).await.unwrap(), Release::NotHeld);
        assert_eq!(holder(&mut world, &lock).await, before);
        assert_eq!(world.ttl(lock.name.as_str()).await, 100);
        assert!(listener.heard().await.is_empty());
    }
}

#[tokio::test]
async fn an_abandoned_owner_loses_the_lock_and_never_gets_it_again() {
    let mut world = World::new().await;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        let mut listener = world.listen(channel(&lock)).await;
        world.backend.acquire(&lock, owner(1), LEASE).await.unwrap();
        assert_eq!(world.backend.abandon(&lock, owner(1)).await.unwrap(), Release::Released);
        assert_eq!(listener.heard().await, ["0"]);
        let tombstone = tombstone(&lock.name, 1);
        assert_eq!(world.keys(&lock.name).await, [tombstone.as_str()]);
        assert_eq!(world.ttl(&tombstone).await, 16 * 60);

        let acquire = |number| world.backend.acquire(&lock, owner(number), LEASE);
        assert_eq!(acquire(1).await.unwrap(), Attempt::Abandoned);
        assert_eq!(acquire(2).await.unwrap(), ACQUIRED);
        assert_eq!(acquire(1).await.unwrap(), Attempt::Abandoned, "also if another holds it");
        world.command(&["PEXPIRE", &tombstone, "5000"]).await;
        assert_eq!(world.backend.abandon(&lock, owner(1)).await.unwrap(), Release::NotHeld);
        assert_eq!(world.ttl(&tombstone).await, 16 * 60);
    }
}

#[tokio::test]
async fn renewals_extend_own_locks_and_fail_one_by_one() {
    let mut world = World::new().await;
    for kind in KINDS {
        let [own, other, absent, list, last] = std::array::from_fn(|_| fresh_lock(kind));
        world.backend.acquire(&own, owner(1), LEASE).await.unwrap();
        world.backend.acquire(&other, owner(2), LEASE).await.unwrap();
        world.backend.acquire(&last, owner(3), LONGER).await.unwrap();
        world.put_list(&list.name).await;
        world.backend.connection().take_sent();

        let requests = [
            request(&own, 1, LONGER),
            request(&other, 1, LONGER),
            request(&list, 1, LONGER),
            request(&absent, 1, LONGER),
            request(&last, 3, LEASE),
        ];
        let renewals = world.backend.renew(&requests).await;
        assert_eq!(world.backend.connection().take_runs(), 1);
        let renewals: Vec<_> =
            renewals.iter().map(|r| r.as_ref().map_err(BackendError::failure).copied()).collect();
        let [renewed, not_held] = [Ok(Renewal::Renewed), Ok(Renewal::NotHeld)];
        assert_eq!(renewals, [renewed, not_held, Err(Failure::WrongType), not_held, renewed]);
        assert_eq!(world.ttl(own.name.as_str()).await, 200);
        assert_eq!(world.ttl(other.name.as_str()).await, 100);
        assert_eq!(world.ttl(absent.name.as_str()).await, -2);
        assert_eq!(world.ttl(last.name.as_str()).await, 100);
        world.assert_list(&list.name).await;
    }
}

#[tokio::test]
async fn a_thousand_locks_are_renewed_by_one_command_for_each_kind() {
    let mut world = World::new().await;
    let locks: Vec<_> = (0..1000).map(|number| fresh_lock(KINDS[number % 2])).collect();
    for lock in locks.iter().step_by(5) {
        world.backend.acquire(lock, owner(1), LEASE).await.unwrap();
    }
    world.backend.connection().take_sent();
    let requests: Vec<_> = locks.iter().map(|lock| request(lock, 1, LONGER)).collect();
    let renewals = world.backend.renew(&requests).await;
    assert_eq!(world.backend.connection().take_runs(), 2);
    assert_eq!(renewals.len(), locks.len());
    for (index, renewal) in renewals.into_iter().enumerate() {
        let expected = if index % 5 == 0 { Renewal::Renewed } else { Renewal::NotHeld };
        assert_eq!(renewal.unwrap(), expected, "{index}");
    }
    assert_eq!(world.ttl(locks[995].name.as_str()).await, 200);
    assert!(world.backend.renew(&[]).await.is_empty());
}

#[tokio::test]
async fn in_a_cluster_renewals_share_a_command_by_slot() {
    let world = World::as_cluster().await;
    let tag = fresh_name();
    let names = [format!("{{{tag}}}a"), fresh_name().to_string(), format!("{{{tag}}}b")];
    let locks = names.map(|name| LockKey { kind: LockKind::Reentrant, name: Name::new(name) });
    for lock in &locks {
        world.backend.acquire(lock, owner(1), LEASE).await.unwrap();
    }
    world.backend.connection().take_sent();
    let mut requests = locks.each_ref().map(|lock| request(lock, 1, LEASE));
    requests[2].owner = owner(2);
    let renewals = world.backend.renew(&requests).await;
    assert_eq!(world.backend.connection().take_runs(), 2);
    let renewals: Vec<_> = renewals.into_iter().map(Result::unwrap).collect();
    assert_eq!(renewals, [Renewal::Renewed, Renewal::Renewed, Renewal::NotHeld]);
}

#[tokio::test]
async fn the_number_of_holds_is_set_and_the_lease_is_not() {
    let mut world = World::new().await;
    let lock = fresh_lock(LockKind::Reentrant);
    assert_eq!(world.backend.set_holds(&lock, owner(1), 2).await.unwrap(), Renewal::NotHeld);
    assert!(world.keys(&lock.name).await.is_empty());
    world.backend.acquire(&lock, owner(1), LEASE).await.unwrap();
    assert_eq!(world.backend.set_holds(&lock, owner(1), 3).await.unwrap(), Renewal::Renewed);
    assert_eq!(world.backend.set_holds(&lock, owner(2), 4).await.unwrap(), Renewal::NotHeld);
    assert_eq!(world.hash(&lock.name).await, [format!("{}=3", owner(1))]);
    assert_eq!(world.ttl(lock.name.as_str()).await, 100);
}

#[tokio::test]
async fn inspect_shows_whoever_holds_it() {
    let mut world = World::new().await;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        assert_eq!(world.backend.inspect(&lock).await.unwrap(), None);
        put(&mut world, &lock, "java:7", None).await;
        let holds = if kind == LockKind::Reentrant { 2 } else { 1 };
        let info = world.backend.inspect(&lock).await.unwrap();
        assert_eq!(info, Some(LockInfo::new("java:7".into(), holds, None)));
        world.command(&["PEXPIRE", lock.name.as_str(), "100000"]).await;
        let remaining = world.backend.inspect(&lock).await.unwrap().unwrap().remaining.unwrap();
        assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
    }
}

#[tokio::test]
async fn a_read_write_lock_of_redisson_is_held_by_another() {
    let mut world = World::new().await;
    let lock = fresh_lock(LockKind::Reentrant);
    let fields = ["mode", "read", "java:7", "2", "java:8", "1"];
    world.command(&[&["HSET", lock.name.as_str()], &fields[..]].concat()).await;
    let attempt = world.backend.acquire(&lock, owner(1), LEASE).await.unwrap();
    assert_eq!(attempt, Attempt::Contended { remaining: None });
    let info = world.backend.inspect(&lock).await.unwrap().unwrap();
    assert_eq!((info.owner.as_str(), info.holds), ("java:7", 2));
    assert_eq!(world.backend.release(&lock, owner(1)).await.unwrap(), Release::NotHeld);
    assert_eq!(world.hash(&lock.name).await, ["java:7=2", "java:8=1", "mode=read"]);
}

#[tokio::test]
async fn force_release_frees_the_lock_of_anybody_and_tells() {
    let mut world = World::new().await;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        let mut listener = world.listen(channel(&lock)).await;
        assert!(!world.backend.force_release(&lock).await.unwrap());
        assert!(listener.heard().await.is_empty());
        put(&mut world, &lock, "java:7", None).await;
        assert!(world.backend.force_release(&lock).await.unwrap());
        assert!(world.keys(&lock.name).await.is_empty());
        assert_eq!(listener.heard().await, ["0"]);
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_left_alone() {
    let mut world = World::new().await;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        world.put_list(&lock.name).await;
        let backend = &world.backend;
        assert_eq!(failure(backend.acquire(&lock, owner(1), LEASE).await), Failure::WrongType);
        assert_eq!(failure(backend.release(&lock, owner(1)).await), Failure::WrongType);
        assert_eq!(failure(backend.inspect(&lock).await), Failure::WrongType);
        assert_eq!(failure(backend.force_release(&lock).await), Failure::WrongType);
        assert_eq!(failure(backend.abandon(&lock, owner(1)).await), Failure::WrongType);
        if kind == LockKind::Reentrant {
            assert_eq!(failure(backend.set_holds(&lock, owner(1), 2).await), Failure::WrongType);
        }
        world.assert_list(&lock.name).await;
        let attempt = world.backend.acquire(&lock, owner(1), LEASE).await;
        assert_eq!(attempt.unwrap(), Attempt::Abandoned, "the owner is barred all the same");
    }
}

#[tokio::test]
async fn the_two_kinds_do_not_take_each_others_locks() {
    let world = World::new().await;
    for (kind, other) in [(KINDS[0], KINDS[1]), (KINDS[1], KINDS[0])] {
        let lock = fresh_lock(kind);
        let wrong = LockKey { kind: other, name: lock.name.clone() };
        world.backend.acquire(&lock, owner(1), LEASE).await.unwrap();
        let attempt = world.backend.acquire(&wrong, owner(1), LEASE).await;
        assert_eq!(failure(attempt), Failure::WrongType);
        assert_eq!(failure(world.backend.force_release(&wrong).await), Failure::WrongType);
        assert!(world.backend.inspect(&lock).await.unwrap().is_some());
    }
}
