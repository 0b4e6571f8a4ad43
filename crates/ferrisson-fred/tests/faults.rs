//! What happens to calls when the network or the server breaks.

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use ferrisson_core::Outcome;
use ferrisson_fred::FredConnection;
use ferrisson_protocol::{CallError, Connection};
use ferrisson_testkit::{
    Proxy, Server,
    proxy::{Action, Direction, Rule},
    shared,
};
use tokio::{task::JoinSet, time::Instant};

use crate::common::{BOUND, builder, eval, incr, until_ok};

const INCR: &str = "return redis.call('INCR', KEYS[1])";

async fn value(server: &Server, key: &str) -> i64 {
    let reply = server.raw().await.command(&["GET", key]).await.expect("the server answers");
    if reply.is_nil() { 0 } else { reply.int() }
}

#[tokio::test]
async fn a_command_whose_reply_is_lost_is_executed_once() {
    let proxy = Proxy::to(shared()).await;
    let connection = builder(proxy.url()).connect().await.unwrap();
    for (key, action, executions) in [
        ("lost_after", Action::CutAfter, 1),
        ("lost_within", Action::CutWithin, 1),
        ("lost_before", Action::CutBefore, 0),
        ("lost_in_a_hole", Action::BlackHole(Direction::Replies), 1),
    ] {
        until_ok(&connection, "a_command_whose_reply_is_lost").await;
        let lost = proxy.add(Rule::on("EVAL").containing(key).then(action));
        let start = Instant::now();
        let error = connection.call(eval(INCR, key, &[])).await.unwrap_err();
        assert!(start.elapsed() < BOUND, "{key}");
        assert_eq!(error.outcome(), Outcome::Unknown, "{key}: {error:?}");
        // What fred would send again, it sends on the next connection.
        proxy.cut_all();
        until_ok(&connection, "a_command_whose_reply_is_lost").await;
        assert_eq!(lost.matched(), 1, "{key}");
        assert_eq!(value(shared(), key).await, executions, "{key}");
    }
}

#[tokio::test]
async fn a_forced_reconnection_sends_nothing_again() {
    let proxy = Proxy::to(shared()).await;
    let connection = builder(proxy.url()).connect().await.unwrap();
    // Replies stop, so that the supervisor leaves the connection, with commands in flight.
    proxy.black_hole_all(Direction::Replies);
    let mut calls = JoinSet::new();
    for n in 0..40 {
        let connection = connection.clone();
        calls.spawn(async move {
            let key = format!("a_forced_reconnection:{n}");
            (connection.call(eval(INCR, &key, &[])).await, key)
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (mut ok, mut unknown) = (0, 0);
    while let Some(call) = calls.join_next().await {
        let (result, key) = call.unwrap();
        let executed = value(shared(), &key).await;
        match result.map_err(|error| error.outcome()) {
            Ok(_) => ok += i64::from(executed == 1),
            Err(Outcome::Unknown) => unknown += i64::from(executed == 1),
            Err(Outcome::NotExecuted) => assert_eq!(executed, 0, "{key}"),
        }
        assert!(executed <= 1, "{key} was executed {executed} times");
    }
    assert!(ok > 0 && unknown > 0, "{ok} ok, {unknown} unknown: the fault was not felt");
}

/// Calls from many tasks until told to stop, and what became of them.
struct Load {
    tasks: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    stop: std::sync::atomic::AtomicBool,
    ok: AtomicI64,
    unknown: AtomicI64,
    not_executed: AtomicI64,
    slowest_ms: AtomicU64,
}

impl Load {
    fn start(connection: &FredConnection, key: &'static str) -> Self {
        let counts = Arc::new(Counts::default());
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let (connection, counts) = (connection.clone(), Arc::clone(&counts));
            tasks.spawn(async move {
                while !counts.stop.load(Ordering::Relaxed) {
                    counts.call(&connection, key).await;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
        }
        Self { tasks, counts }
    }

    async fn stop(mut self) -> Arc<Counts> {
        self.counts.stop.store(true, Ordering::Relaxed);
        while let Some(result) = self.tasks.join_next().await {
            result.expect("no call panics");
        }
        self.counts
    }
}

impl Counts {
    async fn call(&self, connection: &FredConnection, key: &'static str) {
        let start = Instant::now();
        let count = match connection.call(eval(INCR, key, &[])).await {
            Ok(_) => &self.ok,
            Err(CallError::Unknown(_)) => &self.unknown,
            Err(CallError::NotExecuted(_)) => &self.not_executed,
            Err(error) => panic!("{error:?}"),
        };
        count.fetch_add(1, Ordering::Relaxed);
        let took = u64::try_from(start.elapsed().as_millis()).expect("it is short");
        self.slowest_ms.fetch_max(took, Ordering::Relaxed);
    }

    /// `ok <= executed <= ok + unknown`, and no call was longer than it may be.
    fn check(&self, executed: i64) {
        let [ok, unknown, not_executed] =
            [&self.ok, &self.unknown, &self.not_executed].map(|n| n.load(Ordering::Relaxed));
        let slowest = Duration::from_millis(self.slowest_ms.load(Ordering::Relaxed));
        println!("ok {ok}, unknown {unknown}, not executed {not_executed}, slowest {slowest:?}");
        assert!(ok > 0 && unknown + not_executed > 0, "the fault was not felt");
        assert!(ok <= executed && executed <= ok + unknown, "{executed} executed");
        assert!(slowest < BOUND, "a call took {slowest:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_and_a_restart_lose_no_acknowledged_command_and_no_call_hangs() {
    let server = Server::builder().appendonly(true).start().await;
    let connection = builder(server.url()).connect().await.unwrap();
    let load = Load::start(&connection, "key");
    until_ok(&connection, "other").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.kill();
    // Longer than a call may wait for a connection.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    server.restart().await;
    assert!(until_ok(&connection, "other").await < Duration::from_secs(2));
    tokio::time::sleep(Duration::from_millis(200)).await;
    load.stop().await.check(value(&server, "key").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_makes_no_call_hang_and_service_returns_with_it() {
    let server = Server::start().await;
    let connection = builder(server.url()).connect().await.unwrap();
    let load = Load::start(&connection, "key");
    until_ok(&connection, "other").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.stop();
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.cont();
    assert!(until_ok(&connection, "other").await < Duration::from_secs(2));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let counts = load.stop().await;
    // What was sent to the frozen server is executed before this is.
    counts.check(value(&server, "key").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_connection_under_load_is_left() {
    let proxy = Proxy::to(shared()).await;
    let connection = builder(proxy.url()).connect().await.unwrap();
    let load = Load::start(&connection, "a_dead_connection");
    until_ok(&connection, "a_dead_connection_other").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.black_hole_all(Direction::Both);
    assert!(until_ok(&connection, "a_dead_connection_other").await < Duration::from_secs(2));
    load.stop().await.check(value(shared(), "a_dead_connection").await);
}

#[tokio::test]
async fn a_demoted_server_is_left_and_its_refusal_is_exact() {
    let server = Server::start().await;
    let proxy = Proxy::to(&server).await;
    let connection = builder(proxy.url()).connect().await.unwrap();
    server.raw().await.command(&["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
    let calls = (0..10).map(|_| incr(&connection, "key"));
    for result in futures::future::join_all(calls).await {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, CallError::Server { text } if text.starts_with("READONLY")),
            "{error:?}"
        );
    }
    server.raw().await.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    until_ok(&connection, "key").await;
    assert_eq!(value(&server, "key").await, 1);
}
