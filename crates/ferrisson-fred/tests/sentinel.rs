//! A primary with replicas, watched by sentinels. One set-up for all, one fault after the other.

mod common;

use std::time::Duration;

use ferrisson_core::backend::Wakeup;
use ferrisson_fred::FredConnection;
use ferrisson_protocol::{CallError, Connection};
use ferrisson_testkit::{Sentinel, Server, poll_until};
use tokio::time::{Instant, timeout};

use crate::common::{BOUND, builder, command, incr, until_ok};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_any_kind_is_followed() {
    let sentinel = Sentinel::start().await;
    let service = sentinel.service();
    for watcher in sentinel.sentinels() {
        // So that one failover may follow another.
        let args = ["SENTINEL", "SET", service, "failover-timeout", "1000"];
        watcher.raw().await.command(&args).await.unwrap();
    }
    let connection = builder(sentinel.url()).connect().await.unwrap();
    let wakeup = connection.subscribe("channel").await.unwrap();
    incr(&connection, "key").await.unwrap();

    a_graceful_failover(&sentinel, &connection).await;
    serves(&sentinel, &connection, &wakeup).await;
    a_frozen_primary(&sentinel, &connection).await;
    serves(&sentinel, &connection, &wakeup).await;
    a_frozen_first_sentinel(&sentinel, &connection).await;
    serves(&sentinel, &connection, &wakeup).await;
    a_script_that_was_flushed_is_told(&sentinel, &connection).await;

    connection.close().await;
    for server in sentinel.nodes().iter().chain(sentinel.sentinels()) {
        nobody_of_ours(server).await;
    }
}

/// The old primary goes on answering, so only the announcement tells.
async fn a_graceful_failover(sentinel: &Sentinel, connection: &FredConnection) {
    let old = sentinel.master().await;
    sentinel.failover().await;
    let start = Instant::now();
    poll_until("the new primary is used", PATIENCE, async || {
        incr(connection, "graceful").await.is_ok() && has(sentinel, "graceful").await
    })
    .await;
    let late = start.elapsed();
    println!("left the old primary on port {} after {late:?}", old.port());
    assert!(late < Duration::from_secs(3), "{late:?}");
}

/// Nothing fails, nothing is answered.
async fn a_frozen_primary(sentinel: &Sentinel, connection: &FredConnection) {
    let old = sentinel.master().await;
    in_step(old).await;
    old.stop();
    let watch = async {
        sentinel.wait_for_another_master(old.port()).await;
        Instant::now()
    };
    let calls = async {
        // Steadily, with no call longer than it may be.
        loop {
            let start = Instant::now();
            let result = incr(connection, "frozen").await;
            assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
            if result.is_ok() {
                return Instant::now();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (promoted, served) = tokio::join!(watch, calls);
    let late = served.saturating_duration_since(promoted);
    println!("frozen primary: served {late:?} after the promotion");
    assert!(late < Duration::from_secs(3), "{late:?}");
    assert!(has(sentinel, "frozen").await);
    old.cont();
}

/// fred asks the first sentinel only, and waits for it.
async fn a_frozen_first_sentinel(sentinel: &Sentinel, connection: &FredConnection) {
    let old = sentinel.master().await;
    in_step(old).await;
    let first = &sentinel.sentinels()[0];
    first.stop();
    let start = Instant::now();
    let another = builder(sentinel.url()).connect().await.expect("the others answer");
    incr(&another, "another").await.expect("it is connected");
    another.close().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());

    old.kill();
    sentinel.wait_for_another_master(old.port()).await;
    let late = until_ok(connection, "key").await;
    println!("frozen sentinel, killed primary: served {late:?} after the promotion");
    assert!(late < Duration::from_secs(4), "{late:?}");
    first.cont();
    old.restart().await;
}

async fn a_script_that_was_flushed_is_told(sentinel: &Sentinel, connection: &FredConnection) {
    let mut raw = sentinel.master().await.raw().await;
    let sha = raw.command(&["SCRIPT", "LOAD", "return 1"]).await.expect("it answers").text();
    let call = || {
        let mut call = command("EVALSHA", "key", &[]);
        call.args = vec![sha.clone().into(), "1".into(), "key".into()];
        connection.call(call)
    };
    call().await.expect("the script is there");
    raw.command(&["SCRIPT", "FLUSH"]).await.expect("it answers");
    let error = call().await.expect_err("the script is gone");
    assert!(matches!(&error, CallError::Server { text } if text.starts_with("NOSCRIPT ")));
}

/// Commands and subscriptions are at the primary.
async fn serves(sentinel: &Sentinel, connection: &FredConnection, wakeup: &Wakeup) {
    until_ok(connection, "serves").await;
    let mut raw = sentinel.master().await.raw().await;
    poll_until("the subscription is at the primary", PATIENCE, async || {
        raw.subscribers("channel").await.expect("it answers") == 1
    })
    .await;
    poll_until("the waiter knows", PATIENCE, async || wakeup.is_live()).await;
    // The signal of the gap, which the waiter must have got.
    assert!(timeout(PATIENCE, wakeup.notified()).await.is_ok());
    raw.command(&["PUBLISH", "channel", "x"]).await.expect("it answers");
    assert!(timeout(PATIENCE, wakeup.notified()).await.is_ok());
}

async fn has(sentinel: &Sentinel, key: &str) -> bool {
    let mut raw = sentinel.master().await.raw().await;
    raw.command(&["EXISTS", key]).await.expect("it answers").int() == 1
}

/// Until there is a replica that can take over.
async fn in_step(primary: &Server) {
    poll_until("a replica is in step", PATIENCE, async || {
        let info = primary.raw().await.info("slave0").await;
        info.is_ok_and(|info| info.contains("state=online"))
    })
    .await;
}

/// Only other nodes and sentinels are connected.
async fn nobody_of_ours(server: &Server) {
    poll_until("no connection of ours is left", PATIENCE, async || {
        let mut raw = server.raw().await;
        let list = raw.command(&["CLIENT", "LIST"]).await.expect("it answers").text();
        // We speak RESP3 to nodes, and only subscribe to sentinels, which name themselves.
        let ours = |line: &str| {
            line.contains("resp=3") || (line.contains("cmd=subscribe") && line.contains("name= "))
        };
        !list.lines().any(ours)
    })
    .await;
}
