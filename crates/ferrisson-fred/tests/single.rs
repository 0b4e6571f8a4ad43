//! One server.

mod common;

use std::time::Duration;

use ferrisson_protocol::{CallError, Connection, Reply};
use ferrisson_testkit::{Server, poll_until, shared};

use crate::common::{builder, command, eval, incr};

#[tokio::test]
async fn commands_are_answered() {
    let connection = builder(shared().url()).connect().await.unwrap();
    let key = "commands_are_answered";
    let ok = connection.call(command("SET", key, &["v"])).await.unwrap();
    assert_eq!(ok, Reply::Bytes("OK".into()));
    assert_eq!(connection.call(command("GET", key, &[])).await.unwrap(), Reply::Bytes("v".into()));
    assert_eq!(connection.call(command("GET", "absent", &[])).await.unwrap(), Reply::Nil);
    let list = connection.call(eval("return {1, {'x'}, false}", key, &[])).await.unwrap();
    let inner = Reply::Array(vec![Reply::Bytes("x".into())]);
    assert_eq!(list, Reply::Array(vec![Reply::Integer(1), inner, Reply::Nil]));
    let error = connection.call(command("INCR", key, &[])).await.unwrap_err();
    assert!(matches!(error, CallError::Server { text } if text.starts_with("ERR value is not")));
    assert!(!connection.is_cluster());
}

#[tokio::test]
async fn a_message_wakes_the_waiters_of_its_channel() {
    let connection = builder(shared().url()).connect().await.unwrap();
    let wakeup = connection.subscribe("a_message_wakes").await.unwrap();
    assert!(wakeup.is_live());
    let mut raw = shared().raw().await;
    let receivers = raw.command(&["PUBLISH", "a_message_wakes", "x"]).await.unwrap();
    assert_eq!(receivers.int(), 1);
    tokio::time::timeout(Duration::from_secs(5), wakeup.notified()).await.unwrap();
    drop(wakeup);
    poll_until("the subscription ends", Duration::from_secs(5), async || {
        shared().raw().await.subscribers("a_message_wakes").await.unwrap() == 0
    })
    .await;
}

#[tokio::test]
async fn close_leaves_no_connection() {
    let server = Server::start().await;
    let connection = builder(server.url()).lanes(3).connect().await.unwrap();
    let _wakeup = connection.subscribe("channel").await.unwrap();
    let mut raw = server.raw().await;
    assert_eq!(raw.client_count().await.unwrap(), 4);
    connection.close().await;
    assert!(matches!(incr(&connection, "key").await, Err(CallError::Closed)));
    poll_until("the server sees no connection", Duration::from_secs(5), async || {
        server.raw().await.client_count().await.unwrap() == 1
    })
    .await;
}
