//! How much each operation costs the server: counted, not measured.
//!
//! Counted is what clients send, in a proxy. What a connection sends to greet the server, and its
//! signs of life while it waits for messages, are left out: they depend on time, not on operations.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ferrisson_core::{Client, LockHandle, SemaphoreHandle};
use ferrisson_testkit::{Raw, poll_until};
use ferrisson_tests::{
    real::{LONG, PATIENCE, Testbed, backend, until_subscribed},
    worker::{Job, Object, Orders, Worker},
};
use futures::future::join_all;
use tokio::task::JoinSet;

/// A client behind the proxy that never looks without a reason.
async fn quiet_client(bed: &Testbed) -> Client {
    let builder = Client::builder(backend(&bed.proxy.url()).await).poll_interval(LONG);
    builder.build().expect("the settings are valid")
}

/// What clients have sent, without greetings and signs of life.
fn sent(bed: &Testbed) -> BTreeMap<String, u64> {
    let mut counts = bed.proxy.counts();
    counts.retain(|name, _| !["HELLO", "CLIENT", "INFO", "PING"].contains(&name.as_str()));
    counts
}

fn evalsha(bed: &Testbed) -> u64 {
    bed.proxy.count("EVALSHA")
}

fn scripts(n: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("EVALSHA".to_owned(), n)])
}

fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

async fn lock_and_unlock(lock: &LockHandle) {
    let guard = lock.try_lock(Duration::from_secs(1), LONG).await.unwrap().expect("it is free");
    guard.unlock().await.unwrap();
}

async fn acquire_and_release(semaphore: &SemaphoreHandle) {
    semaphore.acquire(2).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn an_uncontended_lock_is_two_commands() {
    let bed = Testbed::start().await;
    let client = quiet_client(&bed).await;
    for lock in [client.lock("reentrant"), client.plain_lock("plain")] {
        bed.proxy.reset_counts();
        lock_and_unlock(&lock).await;
        assert_eq!(sent(&bed), scripts(2), "{lock:?}");
        drop(lock.lock().await.unwrap());
        poll_until("the drop has released", PATIENCE, async || !lock.is_locked().await.unwrap())
            .await;
        assert!(sent(&bed).keys().eq(["EVALSHA"]), "{:?}", sent(&bed));
    }
}

#[tokio::test]
async fn an_uncontended_permit_is_two_commands() {
    let bed = Testbed::start().await;
    let semaphore = quiet_client(&bed).await.semaphore("s");
    semaphore.try_set_permits(2).await.unwrap();
    bed.proxy.reset_counts();
    acquire_and_release(&semaphore).await;
    assert_eq!(sent(&bed), scripts(2));
}

#[tokio::test]
async fn one_call_of_a_bucket_is_one_command() {
    let bed = Testbed::start().await;
    let bucket = quiet_client(&bed).await.bucket::<u32>("b");
    // The script of the comparison is loaded by its first use.
    bucket.compare_and_set(None, Some(&1)).await.unwrap();
    bucket.compare_and_set(Some(&1), Some(&2)).await.unwrap();
    bed.proxy.reset_counts();
    bucket.set(&1).await.unwrap();
    bucket.set_with_ttl(&1, LONG).await.unwrap();
    bucket.set_keep_ttl(&2).await.unwrap();
    bucket.get().await.unwrap();
    bucket.get_and_set(&3).await.unwrap();
    bucket.compare_and_set(Some(&3), Some(&4)).await.unwrap();
    bucket.expire(LONG).await.unwrap();
    bucket.ttl().await.unwrap();
    bucket.take().await.unwrap();
    bucket.set_if_absent(&1).await.unwrap();
    bucket.delete().await.unwrap();
    assert_eq!(sent(&bed).values().sum::<u64>(), 11, "{:?}", sent(&bed));
}

#[tokio::test]
async fn a_waiter_tries_subscribes_tries_again_and_then_keeps_still() {
    let bed = Testbed::start().await;
    let (client, holder) = (quiet_client(&bed).await, bed.near().await);
    let guard = holder.lock("x").try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
    bed.proxy.reset_counts();
    let waiter = tokio::spawn(async move { client.lock("x").lock().await });
    let expected = BTreeMap::from([("EVALSHA".to_owned(), 2), ("SUBSCRIBE".to_owned(), 1)]);
    poll_until("the waiter sleeps", PATIENCE, async || sent(&bed) == expected).await;
    // That nothing happens takes time to see.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sent(&bed), expected);
    guard.unlock().await.unwrap();
    waiter.await.unwrap().unwrap().unlock().await.unwrap();
    assert_eq!(evalsha(&bed), 4, "one attempt after the release, and the waiter's own");
}

// B076
#[tokio::test]
async fn a_try_without_waiting_is_one_command_and_no_subscription() {
    let bed = Testbed::start().await;
    let (client, holder) = (quiet_client(&bed).await, bed.near().await);
    let _guard = holder.lock("x").try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
    bed.proxy.set_latency(Duration::from_millis(100), Duration::from_millis(100));
    bed.proxy.reset_counts();
    let lock = client.lock("x");
    let start = Instant::now();
    let tries = join_all((0..50).map(|_| lock.try_lock(Duration::ZERO, LONG))).await;
    assert!(tries.into_iter().all(|tried| tried.unwrap().is_none()));
    assert!(start.elapsed() < Duration::from_secs(2), "they do not wait for each other");
    assert_eq!(sent(&bed), scripts(50));
}

// B306
#[tokio::test]
async fn tasks_of_one_client_make_one_attempt_for_each_release() {
    const TASKS: u64 = 64;
    let bed = Testbed::start().await;
    let (client, holder) = (quiet_client(&bed).await, bed.near().await);
    let guard = holder.lock("x").try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
    bed.proxy.reset_counts();
    let lock = client.lock("x");
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let lock = lock.clone();
        tasks.spawn(async move {
            let guard = lock.lock().await.unwrap();
            // So long that a try by somebody else would be in vain.
            tokio::time::sleep(Duration::from_millis(5)).await;
            guard.unlock().await.unwrap();
        });
    }
    until_subscribed(&mut bed.server.raw().await, &channel("x"), 1).await;
    poll_until("the first sleeps", PATIENCE, async || evalsha(&bed) == 2).await;
    guard.unlock().await.unwrap();
    tasks.join_all().await;
    // Two attempts before the first release: at once, and when the subscription was there. Then
    // one for each release that somebody waits for: the holder's and those of all but the last.
    let (attempts, releases) = (2 + TASKS, TASKS);
    let expected =
        BTreeMap::from([("EVALSHA".to_owned(), attempts + releases), ("SUBSCRIBE".to_owned(), 1)]);
    let mut sent = sent(&bed);
    sent.remove("UNSUBSCRIBE");
    assert_eq!(sent, expected);
}

// B306
#[tokio::test]
async fn processes_make_at_most_one_attempt_for_each_release_however_many_tasks_they_have() {
    const PROCESSES: u64 = 8;
    const TASKS: u64 = 8;
    let bed = Testbed::start().await;
    let holder = bed.near().await;
    let guard = holder.lock("x").try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
    let dir = tempfile::tempdir().unwrap();
    let mut workers: Vec<_> = (0..PROCESSES).map(|seed| competitor(&bed, &dir, seed)).collect();
    let subscribed = &mut bed.server.raw().await;
    until_subscribed(subscribed, &channel("x"), PROCESSES).await;
    // Each has tried twice: at once, and when its subscription was there.
    let before = 2 * PROCESSES;
    poll_until("all sleep", PATIENCE, async || evalsha(&bed) == before).await;
    guard.unlock().await.unwrap();
    for worker in &mut workers {
        worker.answer("done").await;
    }
    let releases = PROCESSES * TASKS;
    let attempts = evalsha(&bed) - releases;
    let signals = 1 + releases;
    println!("{attempts} attempts after {signals} releases that {PROCESSES} processes hear of");
    assert!(attempts >= releases && attempts <= before + PROCESSES * signals, "{attempts}");
}

/// A process whose tasks take the lock once each, and that never looks without a reason.
fn competitor(bed: &Testbed, dir: &tempfile::TempDir, seed: u64) -> Worker {
    let ms = LONG.as_millis().try_into().unwrap();
    let job = Job {
        url: bed.proxy.url(),
        name: "x".to_owned(),
        object: Object::Lock,
        watchdog_ms: ms,
        poll_ms: ms,
        claims: dir.path().join("claims"),
        orders: Orders::Compete { tasks: 8, rounds: 1, hold_ms: 1, seed, counter: None },
    };
    Worker::start(env!("CARGO_BIN_EXE_worker"), &job)
}

#[tokio::test]
async fn a_thousand_holds_are_renewed_in_ten_calls() {
    const HOLDS: usize = 1000;
    const LEASE: Duration = Duration::from_secs(9);
    let bed = Testbed::start().await;
    let builder = Client::builder(backend(&bed.proxy.url()).await).watchdog_lease(LEASE);
    let client = builder.build().unwrap();
    let start = Instant::now();
    let locks = (0..HOLDS).map(|i| client.lock(format!("x{i}")));
    let guards = join_all(locks.map(|lock| async move { lock.lock().await.unwrap() })).await;
    let span = start.elapsed();
    assert!(span < LEASE / 3, "the machine is too slow for this test: {span:?}");
    bed.proxy.reset_counts();

    let mut raw = bed.server.raw().await;
    poll_until("all are renewed", PATIENCE, async || {
        let left = shortest_lease(&mut raw, HOLDS).await;
        evalsha(&bed) >= 10 && left > LEASE * 2 / 3 + Duration::from_millis(200)
    })
    .await;
    // A hundred holds in each call. Holds that were taken at different times are due at different
    // times; those due within a sixtieth of the lease go together, and each such group can leave
    // one call that is not full.
    let groups = span.as_millis() / (LEASE.as_millis() / 60) + 1;
    let renewals = evalsha(&bed);
    assert!(renewals >= 10 && u128::from(renewals) < 10 + groups, "{renewals} in {groups} groups");
    assert!(guards.iter().all(|guard| guard.is_held()));
}

async fn shortest_lease(raw: &mut Raw, holds: usize) -> Duration {
    let script = "local min = math.huge
        for i = 0, ARGV[1] - 1 do min = math.min(min, redis.call('pttl', 'x' .. i)) end
        return min";
    let reply = raw.command(&["EVAL", script, "0", &holds.to_string()]).await.unwrap();
    Duration::from_millis(reply.int().try_into().unwrap())
}
