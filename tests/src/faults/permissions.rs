//! Users who may not do everything.

use std::{fs, time::Duration};

use ferrisson_core::{Client, Refusal};
use ferrisson_testkit::{Server, Value, poll_until};
use ferrisson_tests::real::{LONG, PATIENCE, backend, client, permits, pttl, soon};

use crate::refusals::assert_refused;

const NAME: &str = "x";
const ZERO: Duration = Duration::ZERO;

/// A server with a further user; the address for that user.
async fn with_user(rules: &[&str]) -> (Server, String) {
    let server = Server::start().await;
    let command = [&["ACL", "SETUSER", "app", "on", ">secret"], rules].concat();
    let reply = server.raw().await.command(&command).await.unwrap();
    assert_eq!(reply, Value::Status("OK".into()));
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    (server, url)
}

/// What the book tells administrators to permit for names that begin with `app:`.
const DOCUMENTED: &[&str] = &[
    "resetkeys",
    "resetchannels",
    "~app:*",
    "~ferrisson_abandoned:{app:*",
    "~ferrisson_permit:{app:*",
    "&redisson_lock__channel:{app:*",
    "&redisson_sc:{app:*",
    "&ferrisson_lock__channel:{app:*",
    "+@read",
    "+@write",
    "+@scripting",
    "+@pubsub",
    "+@connection",
    "-@dangerous",
];

// B254, B257
#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let (server, url) = with_user(DOCUMENTED).await;
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/protocol.md"));
    let page = page.unwrap();
    assert!(DOCUMENTED.iter().all(|rule| page.contains(rule)), "the book says something else");
    let client = client(&url).await;
    let (lock, plain) = (client.lock("app:l"), client.plain_lock("app:p"));
    for lock in [lock, plain] {
        let guard = lock.lock().await.unwrap();
        guard.renew(LONG).await.unwrap();
        let waiting = tokio::spawn(async move { lock.lock().await });
        let mut raw = server.raw().await;
        poll_until("it is subscribed", PATIENCE, async || {
            raw.pubsub_channels().await.unwrap().len() == 1
        })
        .await;
        guard.unlock().await.unwrap();
        soon(waiting).await.unwrap().unwrap().unlock().await.unwrap();
        poll_until("it is not subscribed", PATIENCE, async || {
            raw.pubsub_channels().await.unwrap().is_empty()
        })
        .await;
    }
    let semaphore = client.semaphore("app:s");
    semaphore.try_set_permits(2).await.unwrap();
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    semaphore.drain_permits().await.unwrap();
    let bucket = client.bucket::<u8>("app:b");
    bucket.set_with_ttl(&1, LONG).await.unwrap();
    bucket.compare_and_set(Some(&1), Some(&2)).await.unwrap();
    assert_eq!(bucket.take().await.unwrap(), Some(2));
    // What is not permitted is said as such, before anything is changed.
    assert_refused(client.lock(NAME).lock().await, Refusal::NotPermitted);
    assert_refused(client.semaphore(NAME).try_acquire(1, ZERO).await, Refusal::NotPermitted);
    assert_refused(client.bucket::<u8>(NAME).set(&1).await, Refusal::NotPermitted);
}

// B254
#[tokio::test]
async fn a_missing_permission_is_told_at_the_acquisition_and_leaves_no_lock_behind() {
    let missing: [&[&str]; 5] = [
        &["+@all", "-hset", "~*", "&*"],
        &["+@all", "-pexpire", "~*", "&*"],
        &["+@all", "-evalsha", "~*", "&*"],
        &["+@all", "~y", "~ferrisson*", "&*"],
        // Not the helper key.
        &["+@all", "~x", "&*"],
    ];
    for rules in missing {
        let (server, url) = with_user(rules).await;
        let client = client(&url).await;
        assert_refused(client.lock(NAME).try_lock(PATIENCE, LONG).await, Refusal::NotPermitted);
        assert_eq!(server.raw().await.keys().await.unwrap(), [""; 0], "{rules:?}");
    }
}

// B255
#[tokio::test]
async fn without_channels_a_release_works_and_waiters_find_out_by_themselves() {
    let (server, url) = with_user(&["+@all", "~*", "resetchannels"]).await;
    let mute = client(&url).await;
    let poll = Duration::from_millis(300);
    let builder = Client::builder(backend(&url).await).poll_interval(poll);
    let deaf = builder.build().unwrap();
    let builder = Client::builder(backend(&server.url()).await).poll_interval(poll);
    let hearing = builder.build().unwrap();
    let mut raw = server.raw().await;
    for waiter in [hearing, deaf] {
        let guard = mute.lock(NAME).lock().await.unwrap();
        let permit = mute.semaphore("s");
        permit.try_set_permits(1).await.unwrap();
        let permit = permit.acquire(1).await.unwrap();
        let waiting = tokio::spawn(async move {
            let (lock, semaphore) = (waiter.lock(NAME), waiter.semaphore("s"));
            tokio::join!(lock.try_lock(PATIENCE, LONG), semaphore.try_acquire(1, PATIENCE))
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        guard.unlock().await.unwrap();
        permit.release().await.unwrap();
        let (guard, permit) = soon(waiting).await.unwrap();
        guard.unwrap().expect("it has asked again").unlock().await.unwrap();
        permit.unwrap().expect("it has asked again").release().await.unwrap();
        assert_eq!(pttl(&mut raw, NAME).await, -2);
        assert_eq!(permits(&mut raw, "s").await, 1);
    }
}
