//! Servers that stall, crash, forget, and throw clients out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ferrisson_core::{Client, Error, HoldState, LockHandle, LossReason};
use ferrisson_testkit::{Server, poll_until};
use ferrisson_tests::real::{
    COMMAND_TIMEOUT, LONG, PATIENCE, Testbed, backend, client, is_held_by, load_scripts, permits,
    pttl, server_with_log, soon, until_gone, until_subscribed,
};
use futures::future::join_all;
use tokio::task::JoinSet;

const NAME: &str = "x";
const CHANNEL: &str = "redisson_lock__channel:{x}";

/// A client with this watchdog lease that does not give up while the server is away.
async fn patient_client(server: &Server, watchdog: Duration) -> Client {
    let builder = Client::builder(backend(&server.url()).await).patience(PATIENCE);
    builder.watchdog_lease(watchdog).build().unwrap()
}

/// A client that never looks without a reason.
async fn quiet_client(server: &Server) -> Client {
    let builder = Client::builder(backend(&server.url()).await);
    builder.poll_interval(LONG).patience(PATIENCE).build().unwrap()
}

async fn take(lock: &LockHandle) -> ferrisson_core::LockGuard {
    lock.try_lock(Duration::ZERO, LONG).await.unwrap().expect("it is free")
}

// B223
#[tokio::test]
async fn calls_to_a_stopped_server_end_in_time_and_work_when_it_goes_on() {
    let server = Server::start().await;
    load_scripts(&server).await;
    let client = Client::builder(backend(&server.url()).await).patience(Duration::ZERO);
    let client = client.build().unwrap();
    server.stop();
    let start = Instant::now();
    let calls = (0..50).map(|i| {
        let (lock, bucket) = (client.lock(format!("x{i}")), client.bucket::<u8>(format!("b{i}")));
        async move { tokio::join!(lock.try_lock(Duration::ZERO, LONG), bucket.get()) }
    });
    for (locked, got) in join_all(calls).await {
        assert!(matches!(locked, Err(Error::Unavailable { .. })), "{locked:?}");
        assert!(matches!(got, Err(Error::Unavailable { .. })), "{got:?}");
    }
    let took = start.elapsed();
    assert!(took < COMMAND_TIMEOUT + Duration::from_secs(2), "{took:?}");
    server.cont();
    let lock = client.lock(NAME);
    poll_until("it works again", PATIENCE, async || {
        lock.try_lock(Duration::ZERO, LONG).await.is_ok_and(|guard| guard.is_some())
    })
    .await;
}

#[tokio::test]
async fn a_grant_that_is_told_after_its_lease_is_no_grant() {
    let bed = Testbed::start().await;
    let (client, mut raw) = (bed.far().await, bed.server.raw().await);
    let lock = client.lock(NAME);
    bed.proxy.set_latency(Duration::ZERO, Duration::from_millis(300));
    let short = Duration::from_millis(200);
    for wait in [Duration::ZERO, Duration::from_millis(400)] {
        let error = lock.try_lock(wait, short).await.unwrap_err();
        let expired = matches!(error, Error::LeaseLost { reason: LossReason::Expired, .. });
        assert!(expired, "{error:?}");
    }
    until_gone(&mut raw, NAME).await;
}

#[tokio::test]
async fn a_lock_survives_the_crash_of_a_server_that_keeps_a_log() {
    let server = server_with_log().start().await;
    load_scripts(&server).await;
    let client = patient_client(&server, Duration::from_secs(9)).await;
    client.semaphore("s").try_set_permits(3).await.unwrap();
    let permit = client.semaphore("s").acquire(2).await.unwrap();
    let guard = client.lock(NAME).lock().await.unwrap();
    server.kill();
    server.restart().await;
    assert!(is_held_by(&mut server.raw().await, &guard).await);
    let other = self::client(&server.url()).await.lock(NAME);
    assert!(other.try_lock(Duration::ZERO, LONG).await.unwrap().is_none());
    // Renewed, too, over the connection that had to be made anew.
    guard.renew(Duration::from_secs(30)).await.unwrap_or_else(|error| {
        // The first call can be the one that notices.
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    });
    assert!(guard.is_held());
    guard.unlock().await.unwrap();
    permit.release().await.unwrap();
    assert_eq!(permits(&mut server.raw().await, "s").await, 3);
    assert!(other.try_lock(Duration::ZERO, LONG).await.unwrap().is_some());
}

// B033, B034, B295
#[tokio::test]
async fn a_server_without_a_log_forgets_and_the_holder_is_told_at_the_next_renewal() {
    let server = Server::start().await;
    let client = patient_client(&server, Duration::from_secs(3)).await;
    let lock = client.lock(NAME);
    let guard = lock.lock().await.unwrap();
    server.restart().await;
    let lost = soon(guard.lost()).await;
    assert_eq!(lost, LossReason::Taken);
    // The same handle takes it again, and this hold is renewed like any other.
    let again = lock.lock().await.unwrap();
    let error = guard.unlock().await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost { reason: LossReason::Taken, .. }), "{error:?}");
    let mut raw = server.raw().await;
    poll_until("a renewal is due", PATIENCE, async || pttl(&mut raw, NAME).await < 2100).await;
    poll_until("it is renewed", PATIENCE, async || pttl(&mut raw, NAME).await > 2500).await;
    assert_eq!(again.state(), HoldState::Held);
}

#[tokio::test]
async fn clients_that_are_thrown_out_all_the_time_go_on() {
    const TASKS: usize = 8;
    const ROUNDS: usize = 10;
    let server = Server::start().await;
    let clients = [patient_client(&server, LONG).await, patient_client(&server, LONG).await];
    let occupied = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (client, occupied) = (clients[task % 2].clone(), Arc::clone(&occupied));
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = client.lock(NAME).lock().await.unwrap();
                assert!(!occupied.swap(true, Ordering::SeqCst), "two are inside");
                tokio::time::sleep(Duration::from_millis(5)).await;
                occupied.store(false, Ordering::SeqCst);
                guard.unlock().await.unwrap();
            }
        });
    }
    let mut raw = server.raw().await;
    let kinds = ["normal", "pubsub"].iter().cycle();
    let mut kicks = 0;
    for kind in kinds {
        let kick = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
        raw.command(&kick).await.unwrap();
        kicks += 1;
        let pause = tokio::time::sleep(Duration::from_millis(60));
        tokio::select! {
            () = pause => {}
            () = async { while let Some(done) = tasks.join_next().await { done.unwrap() } } => break,
        }
        assert!(kicks < 500, "they make no progress");
    }
    assert!(kicks > 5, "they were not disturbed");
    assert_eq!(pttl(&mut raw, NAME).await, -2);
}

// B118: a lock that was taken while the server paused is held once.
#[tokio::test]
async fn an_acquisition_that_waits_for_a_pause_of_the_server_counts_once() {
    let server = Server::start().await;
    load_scripts(&server).await;
    let client = patient_client(&server, LONG).await;
    client.semaphore("s").try_set_permits(3).await.unwrap();
    let mut raw = server.raw().await;
    let pause = (COMMAND_TIMEOUT * 2).as_millis().to_string();
    raw.command(&["CLIENT", "PAUSE", &pause, "ALL"]).await.unwrap();
    let (lock, semaphore) = (client.lock(NAME), client.semaphore("s"));
    let (guard, permit) = tokio::join!(lock.lock(), semaphore.acquire(2));
    let (guard, permit) = (guard.unwrap(), permit.unwrap());
    assert!(is_held_by(&mut raw, &guard).await);
    assert_eq!(permits(&mut raw, "s").await, 1);
    guard.unlock().await.unwrap();
    permit.release().await.unwrap();
    assert_eq!(pttl(&mut raw, NAME).await, -2);
    assert_eq!(permits(&mut raw, "s").await, 3);
}

// B249, B250
#[tokio::test]
async fn scripts_that_are_flushed_all_the_time_are_loaded_again() {
    let server = Server::start().await;
    let client = patient_client(&server, Duration::from_millis(900)).await;
    client.semaphore("s").try_set_permits(50).await.unwrap();
    let mut raw = server.raw().await;
    let flushing = async {
        loop {
            raw.command(&["SCRIPT", "FLUSH"]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let watched = client.lock("watched").lock().await.unwrap();
    let rounds = (0..50).map(|i| {
        let client = client.clone();
        async move {
            for round in 0..5 {
                let guard = client.lock(format!("x{i}")).lock().await.unwrap();
                guard.renew(LONG).await.unwrap();
                guard.reenter().await.unwrap().unlock().await.unwrap();
                guard.unlock().await.unwrap();
                let guard = client.plain_lock(format!("p{i}")).lock().await.unwrap();
                guard.unlock().await.unwrap();
                client.semaphore("s").acquire(1).await.unwrap().release().await.unwrap();
                let bucket = client.bucket::<u32>(format!("b{i}"));
                let expected = (round > 0).then_some(round);
                let swapped = bucket.compare_and_set(expected.as_ref(), Some(&(round + 1))).await;
                assert!(swapped.unwrap(), "it was done exactly once");
            }
        }
    });
    let work = async {
        join_all(rounds).await;
        tokio::time::sleep(Duration::from_millis(1800)).await;
    };
    tokio::select! {
        () = flushing => unreachable!("it has no end"),
        () = work => {}
    }
    assert_eq!(watched.state(), HoldState::Held, "after two leases");
    watched.unlock().await.unwrap();
    assert_eq!(permits(&mut server.raw().await, "s").await, 50);
}

// B302
#[tokio::test]
async fn waiters_find_out_when_everything_is_deleted() {
    let server = Server::start().await;
    let holder = patient_client(&server, Duration::from_millis(900)).await;
    let builder = Client::builder(backend(&server.url()).await);
    let client = builder.poll_interval(Duration::from_millis(300)).build().unwrap();
    let semaphore = client.semaphore("s");
    semaphore.try_set_permits(0).await.unwrap();
    let guard = holder.lock(NAME).lock().await.unwrap();
    let lock = client.lock(NAME);
    let waiter = tokio::spawn(async move { lock.try_lock(PATIENCE, LONG).await });
    let permit = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.try_acquire(1, PATIENCE).await }
    });
    let mut raw = server.raw().await;
    until_subscribed(&mut raw, CHANNEL, 1).await;
    until_subscribed(&mut raw, "redisson_sc:{s}", 1).await;
    raw.command(&["FLUSHALL"]).await.unwrap();
    let next = waiter.await.unwrap().unwrap().expect("the lock is free");
    assert_eq!(soon(guard.lost()).await, LossReason::Taken);
    // The old holder's renewals do not bring its lock back.
    assert!(is_held_by(&mut raw, &next).await);
    assert!(semaphore.try_set_permits(1).await.unwrap());
    permit.await.unwrap().unwrap().expect("it was woken").release().await.unwrap();
}

// B302
#[tokio::test]
async fn a_waiter_is_woken_through_a_subscription_that_was_broken() {
    let server = Server::start().await;
    let (holder, client) = (client(&server.url()).await, quiet_client(&server).await);
    let mut raw = server.raw().await;
    for at_once in [false, true] {
        let guard = take(&holder.lock(NAME)).await;
        let lock = client.lock(NAME);
        let waiter = tokio::spawn(async move { lock.try_lock(PATIENCE, LONG).await });
        until_subscribed(&mut raw, CHANNEL, 1).await;
        let start = Instant::now();
        raw.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
        if !at_once {
            until_subscribed(&mut raw, CHANNEL, 1).await;
        }
        // At once: the message of the release goes to nobody.
        guard.unlock().await.unwrap();
        let guard = waiter.await.unwrap().unwrap().expect("it was woken");
        assert!(start.elapsed() < PATIENCE / 2);
        guard.unlock().await.unwrap();
        until_subscribed(&mut raw, CHANNEL, 0).await;
    }
}

// B029, B304
#[tokio::test]
async fn closing_releases_and_ends_in_time_also_without_a_server() {
    for reachable in [true, false] {
        let server = Server::start().await;
        let (holder, client) = (client(&server.url()).await, quiet_client(&server).await);
        client.semaphore("s").try_set_permits(0).await.unwrap();
        let held = take(&client.lock("held")).await;
        let _busy = take(&holder.lock(NAME)).await;
        let mut waiters = JoinSet::new();
        for i in 0..20 {
            let client = client.clone();
            waiters.spawn(async move {
                match i % 2 {
                    0 => client.lock(NAME).lock().await.map(drop),
                    _ => client.semaphore("s").acquire(1).await.map(drop),
                }
            });
        }
        let mut raw = server.raw().await;
        until_subscribed(&mut raw, CHANNEL, 1).await;
        until_subscribed(&mut raw, "redisson_sc:{s}", 1).await;
        if !reachable {
            server.stop();
        }
        tokio::time::timeout(PATIENCE + Duration::from_secs(5), client.close()).await.unwrap();
        while let Some(ended) = waiters.join_next().await {
            assert!(matches!(ended.unwrap(), Err(Error::Closed)));
        }
        assert_eq!(held.state(), HoldState::Lost(LossReason::Closed));
        assert!(matches!(client.lock(NAME).lock().await, Err(Error::Closed)));
        server.cont();
        let gone = async || raw.client_count().await.unwrap() == 2;
        poll_until("only the holder is connected", PATIENCE, gone).await;
        if reachable {
            assert_eq!(pttl(&mut raw, "held").await, -2);
        }
    }
}
