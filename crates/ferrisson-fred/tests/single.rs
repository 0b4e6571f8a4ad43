//! One server that does what it should.

mod common;

use std::time::Duration;

use ferrisson_fred::Protocol;
use ferrisson_protocol::{CallError, Connection, Reply};
use ferrisson_testkit::{Server, poll_until, shared};

use crate::common::{builder, command, eval, incr};

const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn commands_are_answered() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let connection = builder(shared().url()).protocol(protocol).connect().await.unwrap();
        let key = "commands_are_answered";
        let ok = connection.call(command("SET", key, &["v"])).await.unwrap();
        assert_eq!(ok, Reply::Bytes("OK".into()));
        let value = connection.call(command("GET", key, &[])).await.unwrap();
        assert_eq!(value, Reply::Bytes("v".into()));
        assert_eq!(connection.call(command("GET", "absent", &[])).await.unwrap(), Reply::Nil);
        let list = connection.call(eval("return {1, {'x'}, false}", key, &[])).await.unwrap();
        let inner = Reply::Array(vec![Reply::Bytes("x".into())]);
        assert_eq!(list, Reply::Array(vec![Reply::Integer(1), inner, Reply::Nil]));
        assert!(!connection.is_cluster());
    }
}

#[tokio::test]
async fn an_error_reply_keeps_its_words() {
    let connection = builder(shared().url()).connect().await.unwrap();
    let key = "an_error_reply_keeps_its_words";
    connection.call(command("LPUSH", key, &["x"])).await.unwrap();
    for (call, words) in [
        (command("INCR", key, &[]), "WRONGTYPE "),
        (command("EVALSHA", &"0".repeat(40), &["0"]), "NOSCRIPT "),
        (eval("return redis.error_reply('MINE own words')", key, &[]), "MINE own words"),
        (command("NONSENSE", key, &[]), "ERR unknown command"),
    ] {
        let error = connection.call(call).await.unwrap_err();
        assert!(matches!(&error, CallError::Server { text } if text.starts_with(words)), "{error}");
    }
}

#[tokio::test]
async fn calls_of_one_key_stay_in_order_on_many_lanes() {
    let connection = builder(shared().url()).lanes(4).connect().await.unwrap();
    let key = "calls_of_one_key_stay_in_order";
    let calls = (0..500).map(|n| {
        let call = command("RPUSH", key, &[&n.to_string()]);
        connection.call(call)
    });
    for (n, result) in (1..).zip(futures::future::join_all(calls).await) {
        assert_eq!(result.unwrap(), Reply::Integer(n));
    }
    let all = connection.call(command("LRANGE", key, &["0", "-1"])).await.unwrap();
    let expected = (0..500).map(|n| Reply::Bytes(n.to_string().into())).collect();
    assert_eq!(all, Reply::Array(expected));
}

#[tokio::test]
async fn a_database_of_the_url_is_used() {
    let url = format!("{}/3", shared().url());
    let connection = builder(url).connect().await.unwrap();
    incr(&connection, "a_database_of_the_url").await.unwrap();
    let mut raw = shared().raw().await;
    assert!(raw.keys_like("a_database_of_the_url").await.unwrap().is_empty());
    raw.command(&["SELECT", "3"]).await.unwrap();
    assert_eq!(raw.keys_like("a_database_of_the_url").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_node_of_a_cluster_is_recognised_whatever_the_url_says() {
    let server = Server::builder().arg("--cluster-enabled").arg("yes").start().await;
    assert!(builder(server.url()).connect().await.unwrap().is_cluster());
    let lazy = builder(server.url()).connect_lazy().unwrap();
    poll_until("it is recognised", PATIENCE, async || lazy.is_cluster()).await;
}

#[tokio::test]
async fn a_fred_configuration_is_understood() {
    let config = fred::types::config::Config {
        server: fred::types::config::ServerConfig::new_centralized("127.0.0.1", shared().port()),
        ..Default::default()
    };
    let builder = ferrisson_fred::FredBuilder::from_fred_config(config);
    let connection = builder.connect().await.unwrap();
    assert_eq!(incr(&connection, "a_fred_configuration_is_understood").await.unwrap(), 1);
}

#[tokio::test]
async fn above_the_limit_calls_fail_at_once_and_service_goes_on() {
    let connection = builder(shared().url()).max_in_flight(10).connect().await.unwrap();
    let key = "above_the_limit";
    let calls = (0..100).map(|_| incr(&connection, key));
    let results = futures::future::join_all(calls).await;
    let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert_eq!(refused.len(), 90);
    for error in refused {
        let CallError::NotExecuted(cause) = error else { panic!("{error:?}") };
        assert_eq!(cause.to_string(), "backpressure: 10 commands are already in flight");
    }
    assert_eq!(incr(&connection, key).await.unwrap(), 11);
}

#[tokio::test]
async fn a_dropped_call_gives_its_place_back() {
    let connection = builder(shared().url()).max_in_flight(1).connect().await.unwrap();
    let key = "a_dropped_call";
    for _ in 0..10 {
        let mut call = Box::pin(incr(&connection, key));
        assert!(futures::poll!(call.as_mut()).is_pending());
        assert!(incr(&connection, key).await.is_err());
    }
    assert!(incr(&connection, key).await.is_ok());
}

#[tokio::test]
async fn close_leaves_no_connection() {
    let server = Server::start().await;
    let connection = builder(server.url()).lanes(3).connect().await.unwrap();
    let wakeup = connection.subscribe("channel").await.unwrap();
    assert_eq!(server.raw().await.client_count().await.unwrap(), 4);

    connection.close().await;
    let error = incr(&connection, "key").await.unwrap_err();
    assert!(matches!(error, CallError::Closed), "{error:?}");
    let error = connection.subscribe("other").await.unwrap_err();
    assert_eq!(error.failure(), ferrisson_core::backend::Failure::Closed);
    wakeup.notified().await;
    assert!(!wakeup.is_live());
    nobody_is_connected(&server).await;
    connection.close().await;
}

#[tokio::test]
async fn the_last_clone_takes_all_connections_with_it() {
    let server = Server::start().await;
    let connection = builder(server.url()).connect().await.unwrap();
    let _wakeup = connection.subscribe("channel").await.unwrap();
    let clone = connection.clone();
    drop(connection);
    assert_eq!(incr(&clone, "key").await.unwrap(), 1);
    drop(clone);
    nobody_is_connected(&server).await;
}

#[tokio::test]
async fn a_dropped_connect_leaves_no_connection() {
    let server = Server::start().await;
    for polls in 1..20 {
        let mut connect = Box::pin(builder(server.url()).lanes(2).connect());
        for _ in 0..polls {
            if futures::poll!(connect.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    nobody_is_connected(&server).await;
}

async fn nobody_is_connected(server: &Server) {
    poll_until("the server sees no connection", PATIENCE, async || {
        server.raw().await.client_count().await.expect("the server answers") == 0
    })
    .await;
}
