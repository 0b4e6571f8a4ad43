//! Subscriptions: confirmed, without gaps that nobody is told of, and gone when not needed.

mod common;

use std::time::Duration;

use ferrisson_core::{
    Outcome, Refusal,
    backend::{Failure, Wakeup},
};
use ferrisson_fred::{FredConnection, Protocol};
use ferrisson_protocol::Connection;
use ferrisson_testkit::{
    Proxy, Raw, Server, poll_until,
    proxy::{Action, Direction, Rule},
    shared,
};
use tokio::time::{Instant, timeout};

use crate::common::{BOUND, builder, incr};

const PATIENCE: Duration = Duration::from_secs(10);

async fn woken(wakeup: &Wakeup) -> bool {
    timeout(PATIENCE, wakeup.notified()).await.is_ok()
}

async fn publish(raw: &mut Raw, channel: &str) -> i64 {
    raw.command(&["PUBLISH", channel, "x"]).await.expect("the server answers").int()
}

#[tokio::test]
async fn a_message_wakes_the_waiters_of_its_channel_only() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let connection = builder(shared().url()).protocol(protocol).connect().await.unwrap();
        let [a, b] = ["only_a", "only_b"].map(|name| format!("{name}_{protocol:?}"));
        let first = connection.subscribe(&a).await.unwrap();
        let second = connection.subscribe(&a).await.unwrap();
        let other = connection.subscribe(&b).await.unwrap();
        assert!(first.is_live() && second.is_live() && other.is_live());
        assert_eq!(publish(&mut shared().raw().await, &a).await, 1);
        assert!(woken(&first).await && woken(&second).await);
        assert!(futures::poll!(Box::pin(other.notified())).is_pending());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_subscribed_no_message_is_missed() {
    let connection =
        builder(shared().url()).command_timeout(Duration::from_secs(5)).connect().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let connection = connection.clone();
        tasks.spawn(async move {
            let mut raw = shared().raw().await;
            for round in 0..500 {
                let channel = format!("once_subscribed:{task}:{round}");
                let wakeup = connection.subscribe(&channel).await.unwrap();
                assert_eq!(publish(&mut raw, &channel).await, 1, "nobody was subscribed");
                assert!(woken(&wakeup).await);
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
}

#[tokio::test]
async fn the_last_waiter_takes_the_subscription_with_it() {
    let connection = builder(shared().url()).connect().await.unwrap();
    let channel = "the_last_waiter";
    let (first, second) = (
        connection.subscribe(channel).await.unwrap(),
        connection.subscribe(channel).await.unwrap(),
    );
    drop(first);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut raw = shared().raw().await;
    assert_eq!(raw.subscribers(channel).await.unwrap(), 1);
    drop(second);
    nobody_is_subscribed(&mut raw, channel).await;
}

#[tokio::test]
async fn a_channel_whose_waiters_change_stays_subscribed() {
    let proxy = Proxy::to(shared()).await;
    let connection = builder(proxy.url()).connect().await.unwrap();
    for _ in 0..10 {
        connection.subscribe("whose_waiters_change").await.unwrap();
        // Others may run, but hardly any time passes.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((proxy.count("SUBSCRIBE"), proxy.count("UNSUBSCRIBE")), (1, 0));
    nobody_is_subscribed(&mut shared().raw().await, "whose_waiters_change").await;
    assert_eq!(proxy.count("UNSUBSCRIBE"), 1);
}

#[tokio::test]
async fn a_dropped_subscribe_leaves_nothing() {
    let proxy = Proxy::to(shared()).await;
    let connection = builder(proxy.url()).connect().await.unwrap();
    let channel = "a_dropped_subscribe";
    let held = proxy.add(Rule::on("SUBSCRIBE").containing(channel).then(Action::Hold));
    let subscribing = {
        let connection = connection.clone();
        tokio::spawn(async move { connection.subscribe(channel).await.map(drop) })
    };
    held.wait_matched(1).await;
    subscribing.abort();
    assert!(subscribing.await.unwrap_err().is_cancelled());
    held.remove();
    let mut raw = shared().raw().await;
    // It may arrive at the server, but does not stay.
    tokio::time::sleep(Duration::from_millis(50)).await;
    nobody_is_subscribed(&mut raw, channel).await;
    assert!(connection.subscribe("a_dropped_subscribe_other").await.unwrap().is_live());
}

#[tokio::test]
async fn a_subscribe_without_confirmation_ends_in_time() {
    let server = Server::start().await;
    let connection = builder(server.url()).connect().await.unwrap();
    server.stop();
    let start = Instant::now();
    let error = connection.subscribe("channel").await.unwrap_err();
    assert_eq!(error.failure(), Failure::Unavailable(Outcome::NotExecuted));
    assert!(start.elapsed() < BOUND);
    server.cont();
    nobody_is_subscribed(&mut server.raw().await, "channel").await;
}

/// Breaks the connection in some way, and expects that the waiter is told and then served again.
async fn every_gap_is_covered(connection: &FredConnection, channel: &str, gap: impl AsyncFnOnce()) {
    let wakeup = connection.subscribe(channel).await.expect("it is permitted");
    gap().await;
    let start = Instant::now();
    assert!(woken(&wakeup).await, "nobody told of the gap");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // Woken after the subscription, so from now on nothing is missed.
    assert!(wakeup.is_live());
    assert_eq!(publish(&mut shared().raw().await, channel).await, 1);
    assert!(woken(&wakeup).await);
}

#[tokio::test]
async fn a_cut_connection_wakes_everybody() {
    let proxy = Proxy::to(shared()).await;
    let connection = builder(proxy.url()).connect().await.unwrap();
    for _ in 0..5 {
        every_gap_is_covered(&connection, "a_cut_connection", async || proxy.cut_subscribers())
            .await;
    }
}

#[tokio::test]
async fn a_killed_client_wakes_everybody() {
    let server = Server::start().await;
    let connection = builder(server.url()).connect().await.unwrap();
    let wakeups = ["a", "b", "c"].map(|channel| connection.subscribe(channel));
    let wakeups = futures::future::try_join_all(wakeups).await.unwrap();
    server.raw().await.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    for wakeup in &wakeups {
        assert!(woken(wakeup).await && wakeup.is_live());
    }
    assert_eq!(server.raw().await.pubsub_channels().await.unwrap(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_silent_connection_wakes_everybody() {
    let proxy = Proxy::to(shared()).await;
    let connection = builder(proxy.url()).connect().await.unwrap();
    every_gap_is_covered(&connection, "a_silent_connection", async || {
        proxy.black_hole_all(Direction::Replies);
    })
    .await;
}

#[tokio::test]
async fn waiters_are_not_live_while_the_server_is_away() {
    let server = Server::start().await;
    let connection = builder(server.url()).connect().await.unwrap();
    let wakeup = connection.subscribe("channel").await.unwrap();
    server.kill();
    poll_until("the loss is noticed", PATIENCE, async || !wakeup.is_live()).await;
    server.restart().await;
    assert!(woken(&wakeup).await && wakeup.is_live());
    assert_eq!(server.raw().await.subscribers("channel").await.unwrap(), 1);
}

/// A server with a user who may use channels that begin with `ok:` only.
async fn with_a_limited_user() -> (Server, String) {
    let server = Server::start().await;
    let rules = ["ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "resetchannels", "&ok:*"];
    server.raw().await.command(&rules).await.expect("the server answers");
    let url = format!("redis://limited:pw@127.0.0.1:{}", server.port());
    (server, url)
}

#[tokio::test]
async fn a_channel_that_is_not_permitted_harms_no_other() {
    let (server, url) = with_a_limited_user().await;
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let connection = builder(&url)
            .protocol(protocol)
            .command_timeout(Duration::from_secs(5))
            .connect()
            .await
            .unwrap();
        let before = connection.subscribe("ok:before").await.unwrap();
        let names: Vec<_> = (0..10).map(|n| format!("ok:{n}")).collect();
        let allowed = futures::future::join_all(names.iter().map(|n| connection.subscribe(n)));
        let (denied, allowed) = tokio::join!(connection.subscribe("secret"), allowed);
        let error = denied.unwrap_err();
        assert_eq!(error.failure(), Failure::Refused(Refusal::NotPermitted), "{error:?}");
        let allowed: Vec<_> = allowed.into_iter().map(Result::unwrap).collect();
        assert!(allowed.iter().all(Wakeup::is_live));
        poll_until("the others are served", PATIENCE, async || before.is_live()).await;

        let mut raw = server.raw().await;
        assert_eq!(raw.subscribers("secret").await.unwrap(), 0);
        for (name, wakeup) in names.iter().zip(&allowed).chain([(&"ok:before".into(), &before)]) {
            // The signal of the gap, if it has not been taken yet, is not the message's.
            let _ = timeout(Duration::ZERO, wakeup.notified()).await;
            assert_eq!(publish(&mut raw, name).await, 1, "{name}");
            assert!(woken(wakeup).await, "{name}");
        }
        for n in 1..50 {
            assert_eq!(incr(&connection, &format!("key:{protocol:?}")).await.unwrap(), n);
        }
        // The refusal is remembered: no connection is spent on it.
        let start = Instant::now();
        assert!(connection.subscribe("secret").await.is_err());
        assert!(start.elapsed() < Duration::from_millis(500));
        poll_until("no connection is left over", PATIENCE, async || {
            // One for commands, one for subscriptions, and `raw`.
            server.raw().await.client_count().await.unwrap() == 3
        })
        .await;
        connection.close().await;
    }
}

async fn nobody_is_subscribed(raw: &mut Raw, channel: &str) {
    poll_until("the subscription ends", PATIENCE, async || {
        raw.subscribers(channel).await.expect("the server answers") == 0
    })
    .await;
}
