//! A cluster of three primaries with one replica each. One set-up for all, one fault after the
//! other.

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use ferrisson_core::Outcome;
use ferrisson_fred::FredConnection;
use ferrisson_protocol::{CallError, Connection, Reply};
use ferrisson_testkit::{Cluster, Proxy, Server, poll_until, proxy::Direction};
use tokio::{
    process::Command,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::common::{BOUND, builder, command, incr, until_ok};

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moves_and_failovers_give_no_wrong_reply_and_are_followed() {
    let cluster = Cluster::start().await;
    for node in cluster.nodes() {
        node.set_config("cluster-require-full-coverage", "no").await;
    }
    let connection = builder(cluster.url()).lanes(2).connect().await.unwrap();
    assert!(connection.is_cluster());

    messages_come_from_every_node(&cluster, &connection).await;
    a_slot_that_moves(&cluster, &connection).await;
    a_reshard(&cluster, &connection).await;
    a_frozen_primary(&cluster, &connection).await;
    a_killed_primary(&cluster, &connection).await;
    messages_come_from_every_node(&cluster, &connection).await;

    a_silent_connection(&cluster).await;

    connection.close().await;
    for node in cluster.nodes() {
        nobody_of_ours(node).await;
    }
}

async fn messages_come_from_every_node(cluster: &Cluster, connection: &FredConnection) {
    let wakeup = connection.subscribe("channel").await.expect("it is permitted");
    for node in cluster.nodes() {
        node.raw().await.command(&["PUBLISH", "channel", "x"]).await.expect("it answers");
        assert!(timeout(PATIENCE, wakeup.notified()).await.is_ok(), "from port {}", node.port());
    }
}

/// Tasks that write and read values of their own, on all nodes.
struct Bystanders {
    tasks: JoinSet<()>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    ok: AtomicU64,
    failed: AtomicU64,
    wrong: AtomicU64,
}

impl Bystanders {
    fn start(connection: &FredConnection) -> Self {
        let seen = Arc::new(Seen::default());
        let mut tasks = JoinSet::new();
        for task in 0..16 {
            let (connection, seen) = (connection.clone(), Arc::clone(&seen));
            tasks.spawn(async move {
                for round in 0.. {
                    if seen.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    seen.look(&connection, &format!("bystander:{task}:{}", round % 8), round).await;
                }
            });
        }
        Self { tasks, seen }
    }

    async fn stop(mut self) -> Arc<Seen> {
        self.seen.stop.store(true, Ordering::Relaxed);
        while let Some(result) = self.tasks.join_next().await {
            result.expect("no task panics");
        }
        let [ok, failed, wrong] = [&self.seen.ok, &self.seen.failed, &self.seen.wrong]
            .map(|count| count.load(Ordering::Relaxed));
        println!("bystanders: {ok} right, {failed} failed, {wrong} wrong");
        assert!(ok > 100);
        assert_eq!(wrong, 0, "replies of other calls");
        self.seen
    }
}

impl Seen {
    async fn look(&self, connection: &FredConnection, key: &str, round: u64) {
        let value = format!("{key}={round}");
        let set = connection.call(command("SET", key, &[&value])).await;
        let get = connection.call(command("GET", key, &[])).await;
        let (Ok(set), Ok(get)) = (set, get) else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let right = set == Reply::Bytes("OK".into()) && get == Reply::Bytes(value.into());
        let count = if right { &self.ok } else { &self.wrong };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// ASK is not executed, and answered when the move is over; MOVED is followed.
async fn a_slot_that_moves(cluster: &Cluster, connection: &FredConnection) {
    let key = "moving";
    assert_eq!(incr(connection, key).await.expect("it is served"), 1);
    let bystanders = Bystanders::start(connection);
    let source = cluster.owner_of(key).await.port();
    let primaries = &cluster.nodes()[..3];
    let target = primaries.iter().find(|node| node.port() != source).expect("there are three");
    let moving = cluster.begin_move(key, target).await;
    moving.move_keys().await;
    let calls = (0..20).map(|_| incr(connection, key));
    for result in futures::future::join_all(calls).await {
        let error = result.expect_err("the key is at the other node");
        assert_eq!(error.outcome(), Outcome::NotExecuted, "{error:?}");
    }
    let start = Instant::now();
    let (waiting, ()) = tokio::join!(incr(connection, key), moving.finish());
    let executed = 1 + i64::from(waiting.is_ok());
    assert!(start.elapsed() < PATIENCE);
    let late = until_ok(connection, key).await;
    println!("moved: served after {late:?}");
    assert!(late < Duration::from_secs(2), "{late:?}");
    bystanders.stop().await;
    // Not executed means not executed.
    assert_eq!(incr(connection, key).await.expect("it is served"), executed + 2);
}

/// Many slots move under load; what is acknowledged is executed, once.
async fn a_reshard(cluster: &Cluster, connection: &FredConnection) {
    let bystanders = Bystanders::start(connection);
    let ids = futures::future::join_all(cluster.nodes()[..2].iter().map(|node| async {
        let reply = node.raw().await.command(&["CLUSTER", "MYID"]).await;
        reply.expect("it answers").text()
    }));
    let ids = ids.await;
    let mut reshard = Command::new("redis-cli")
        .args(["--cluster", "reshard", &format!("127.0.0.1:{}", cluster.nodes()[0].port())])
        .args(["--cluster-from", &ids[0], "--cluster-to", &ids[1]])
        .args(["--cluster-slots", "300", "--cluster-yes"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("redis-cli is there");
    let (mut acknowledged, mut unknown) = (0, 0);
    while reshard.try_wait().expect("it can be waited for").is_none() {
        let calls = (0..50).map(|n| incr(connection, if n % 2 == 0 { "{a}n" } else { "{b}n" }));
        for result in futures::future::join_all(calls).await {
            match result {
                Ok(_) => acknowledged += 1,
                Err(CallError::Unknown(_)) => unknown += 1,
                Err(CallError::NotExecuted(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    bystanders.stop().await;
    let mut executed = 0;
    for key in ["{a}n", "{b}n"] {
        until_ok(connection, key).await;
        executed += incr(connection, key).await.expect("it is served") - 2;
    }
    println!("reshard: {acknowledged} acknowledged, {executed} executed, {unknown} unknown");
    assert!(acknowledged > 0);
    assert!(acknowledged <= executed && executed <= acknowledged + unknown);
}

/// One node hangs; the keys of the others are served all the time.
async fn a_frozen_primary(cluster: &Cluster, connection: &FredConnection) {
    let (key, healthy) = ("frozen", key_elsewhere(cluster, "frozen").await);
    let old = cluster.owner_of(key).await;
    cluster.wait_until_ok().await;
    until_ok(connection, key).await;
    until_ok(connection, &healthy).await;
    old.stop();
    let promoted = async {
        cluster.wait_for_another_owner(key, old.port()).await;
        Instant::now()
    };
    let served = async {
        let (mut ok, mut failed) = (0, 0);
        let load = async {
            loop {
                match incr(connection, &healthy).await {
                    Ok(_) => ok += 1,
                    Err(_) => failed += 1,
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let calls = async {
            loop {
                let start = Instant::now();
                let result = incr(connection, key).await;
                assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
                if result.is_ok() {
                    return Instant::now();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let served = tokio::select! {
            served = calls => served,
            () = load => unreachable!("it goes on for ever"),
        };
        println!("keys of the other nodes: {ok} ok, {failed} failed");
        assert!(failed * 10 <= ok, "{ok} ok, {failed} failed");
        served
    };
    let (promoted, served) = tokio::join!(promoted, served);
    let late = served.saturating_duration_since(promoted);
    println!("frozen primary: served {late:?} after the promotion");
    assert!(late < Duration::from_secs(4), "{late:?}");
    old.cont();
    cluster.wait_until_ok().await;
}

async fn a_killed_primary(cluster: &Cluster, connection: &FredConnection) {
    let old = cluster.owner_of("killed").await;
    in_step(cluster, old).await;
    until_ok(connection, "killed").await;
    old.kill();
    let watch = async {
        cluster.wait_for_another_owner("killed", old.port()).await;
        Instant::now()
    };
    let calls = async {
        loop {
            let start = Instant::now();
            let result = incr(connection, "killed").await;
            assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
            if result.is_ok() {
                return Instant::now();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (promoted, served) = tokio::join!(watch, calls);
    let late = served.saturating_duration_since(promoted);
    println!("killed primary: served {late:?} after the promotion");
    assert!(late < Duration::from_secs(4), "{late:?}");
    old.restart().await;
    cluster.wait_until_ok().await;
}

/// A node that answers others: the connection to it is broken.
async fn a_silent_connection(cluster: &Cluster) {
    let node = cluster.owner_of("silent").await;
    let proxy = Proxy::to(node).await;
    let port = proxy.port().to_string();
    node.set_config("cluster-announce-port", &port).await;
    for other in cluster.nodes() {
        poll_until("every node sends clients to the proxy", PATIENCE, async || {
            let reply = other.raw().await.command(&["CLUSTER", "NODES"]).await;
            reply.expect("it answers").text().contains(&format!(":{port}@"))
        })
        .await;
    }
    let connection = builder(cluster.url()).connect().await.expect("all nodes are there");
    until_ok(&connection, "silent").await;
    proxy.black_hole_all(Direction::Both);
    let start = Instant::now();
    until_ok(&connection, "silent").await;
    println!("silent connection: served after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    connection.close().await;
}

/// A key that another node than that of `key` owns.
async fn key_elsewhere(cluster: &Cluster, key: &str) -> String {
    let owner = cluster.owner_of(key).await.port();
    for n in 0.. {
        let other = format!("elsewhere:{n}");
        if cluster.owner_of(&other).await.port() != owner {
            return other;
        }
    }
    unreachable!("there are three nodes")
}

/// Until the primary has a replica that can take over.
async fn in_step(cluster: &Cluster, primary: &Server) {
    poll_until("a replica is in step", PATIENCE, async || {
        let info = primary.raw().await.info("slave0").await;
        info.is_ok_and(|info| info.contains("state=online"))
    })
    .await;
    cluster.wait_until_ok().await;
}

/// Only other nodes are connected.
async fn nobody_of_ours(node: &Server) {
    poll_until("no connection of ours is left", PATIENCE, async || {
        let mut raw = node.raw().await;
        let list = raw.command(&["CLIENT", "LIST"]).await.expect("it answers").text();
        // Nodes and `raw` speak RESP2.
        !list.lines().any(|line| line.contains("resp=3"))
    })
    .await;
}
