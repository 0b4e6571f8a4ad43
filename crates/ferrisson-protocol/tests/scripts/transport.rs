//! How commands travel, and how releases are told.

use std::time::Duration;

use ferrisson_core::{
    Name, Refusal,
    backend::{
        Attempt, BucketBackend, Condition, Expiry, Failure, Lifecycle, LockBackend, LockKey,
        LockKind, NotifyBackend, PermitAttempt, PermitRecord, PermitRelease, Release, Renewal,
        RenewalRequest, SemaphoreBackend, Topic, Ttl,
    },
};
use ferrisson_testkit::{Cluster, Server};

use crate::support::{KINDS, World, failure, fresh_lock, fresh_name, owner};

const LEASE: Duration = Duration::from_secs(100);
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs every script, with `SCRIPT FLUSH` before each if asked. Answers the commands of each.
async fn run_all_scripts(world: &mut World, flush: bool) -> Vec<Vec<&'static str>> {
    let mut sent = Vec::new();
    macro_rules! check {
        ($operation:ident($($arg:expr),*), $expected:pat $(if $guard:expr)?) => {{
            if flush {
                world.command(&["SCRIPT", "FLUSH"]).await;
            }
            world.backend.connection().take_sent();
            let reply = world.backend.$operation($($arg),*).await;
            assert!(matches!(&reply, $expected $(if $guard)?), "{reply:?}");
            sent.push(world.backend.connection().take_sent());
        }};
    }
    for lock in KINDS.map(fresh_lock) {
        let (lease, lock) = (LEASE, &lock);
        check!(acquire(lock, owner(1), lease), Ok(Attempt::Acquired { .. }));
        check!(inspect(lock), Ok(Some(_)));
        if lock.kind == LockKind::Reentrant {
            check!(set_holds(lock, owner(1), 2), Ok(Renewal::Renewed));
        }
        let requests = [RenewalRequest { lock: lock.clone(), owner: owner(1), lease }];
        check!(renew(&requests), all if matches!(all[..], [Ok(Renewal::Renewed)]));
        check!(release(lock, owner(1)), Ok(Release::Released));
        check!(abandon(lock, owner(1)), Ok(Release::NotHeld));
        check!(force_release(lock), Ok(false));
    }
    let name = &fresh_name();
    check!(init_permits(name, 5), Ok(true));
    check!(acquire_permits(name, owner(1), 2), Ok(PermitAttempt::Acquired { available: 3 }));
    let kept = PermitRecord::Kept;
    check!(release_permits(name, owner(1), 2, kept), Ok(PermitRelease::Released));
    check!(abandon_permits(name, owner(1)), Ok(PermitRelease::NotHeld));
    check!(add_permits(name, 2, true), Ok(7));
    check!(drain_permits(name), Ok(7));
    check!(compare_and_set(&fresh_name(), None, Some("a".into())), Ok(true));
    sent
}

#[tokio::test]
async fn an_operation_is_one_command_also_if_the_server_has_forgotten_the_scripts() {
    let server = Server::start().await;
    let mut world = World::on(&server).await;
    let scripts = run_all_scripts(&mut world, true).await.len();
    assert_eq!(scripts, 20, "each script once");
    for sent in run_all_scripts(&mut world, true).await {
        assert_eq!(sent, ["EVALSHA", "EVAL"]);
    }
    run_all_scripts(&mut world, false).await;
    for sent in run_all_scripts(&mut world, false).await {
        assert_eq!(sent, ["EVALSHA"], "the text was kept");
    }
}

#[tokio::test]
async fn what_redis_has_a_command_for_is_that_command() {
    let world = World::new().await;
    let (backend, name) = (&world.backend, fresh_name());
    macro_rules! check {
        ($command:literal, $operation:ident($($arg:expr),*), $expected:pat) => {{
            let reply = backend.$operation($($arg),*).await;
            assert!(matches!(reply, Ok($expected)), "{reply:?}");
            assert_eq!(backend.connection().take_sent(), [$command]);
        }};
    }
    let always = Condition::Always;
    check!("SET", set(&name, "5".into(), always, Expiry::Never), true);
    check!("SET", replace(&name, "7".into(), Expiry::Never), Some(_));
    check!("GET", get(&name), Some(_));
    check!("GET", available_permits(&name), 7);
    check!("EXISTS", exists(&name), true);
    check!("STRLEN", size(&name), 1);
    check!("TOUCH", touch(&name), true);
    check!("PEXPIRE", expire(&name, Some(LEASE)), true);
    check!("PTTL", ttl(&name), Ttl::After(_));
    check!("PERSIST", expire(&name, None), true);
    check!("GETDEL", take(&name), Some(_));
    check!("DEL", delete(&name), false);
}

#[tokio::test]
async fn re_entry_of_a_plain_lock_is_refused_and_not_sent() {
    let world = World::new().await;
    let lock = fresh_lock(LockKind::Plain);
    let holds = world.backend.set_holds(&lock, owner(1), 2).await;
    assert_eq!(failure(holds), Failure::Refused(Refusal::Other));
    assert!(world.backend.connection().take_sent().is_empty());
}

#[tokio::test]
async fn a_release_wakes_those_who_subscribed_to_its_topic() {
    let world = World::new().await;
    let backend = &world.backend;
    for kind in KINDS {
        let lock = fresh_lock(kind);
        backend.acquire(&lock, owner(1), LEASE).await.unwrap();
        let wakeup = backend.subscribe(&Topic::Lock(lock.clone())).await.unwrap();
        backend.release(&lock, owner(1)).await.unwrap();
        tokio::time::timeout(PATIENCE, wakeup.notified()).await.unwrap();
    }
    let name = fresh_name();
    let wakeup = backend.subscribe(&Topic::Semaphore(name.clone())).await.unwrap();
    backend.add_permits(&name, 1, true).await.unwrap();
    tokio::time::timeout(PATIENCE, wakeup.notified()).await.unwrap();
    backend.close().await;
    assert!(!wakeup.is_live(), "closing reaches the connection");
}

#[tokio::test]
async fn every_name_works_in_a_cluster() {
    let cluster = Cluster::start().await;
    let world = World::on(&cluster.nodes()[0]).await;
    let backend = &world.backend;
    for name in ["plain", "{tag}x", "a{b", "a}b", "{}x", "}{", "{", "}{x}", "日本 {"] {
        for kind in KINDS {
            let lock = LockKey { kind, name: Name::new(format!("{name}:{kind:?}")) };
            let acquire = |number| backend.acquire(&lock, owner(number), LEASE);
            let acquired = Attempt::Acquired { token: None };
            assert_eq!(acquire(1).await.unwrap(), acquired, "{name}");
            assert_eq!(backend.abandon(&lock, owner(1)).await.unwrap(), Release::Released);
            assert_eq!(acquire(1).await.unwrap(), Attempt::Abandoned, "{name}");
            assert_eq!(acquire(2).await.unwrap(), acquired, "{name}");
            assert_eq!(backend.release(&lock, owner(2)).await.unwrap(), Release::Released);
        }
        let name = Name::new(name);
        assert_eq!(backend.add_permits(&name, 3, true).await.unwrap(), 3);
        let acquired = PermitAttempt::Acquired { available: 1 };
        assert_eq!(backend.acquire_permits(&name, owner(1), 2).await.unwrap(), acquired);
        let release = backend.abandon_permits(&name, owner(1)).await.unwrap();
        assert_eq!(release, PermitRelease::Released, "{name}");
        let attempt = backend.acquire_permits(&name, owner(1), 2).await.unwrap();
        assert_eq!(attempt, PermitAttempt::Abandoned, "{name}");
    }
}
