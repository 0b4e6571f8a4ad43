//! Servers that are away, refuse, or must be told apart from those that do.

mod common;

use std::time::Duration;

use ferrisson_core::{
    Outcome, Refusal,
    backend::{BackendError, Failure},
};
use ferrisson_fred::{ConnectError, FredConnection, Protocol};
use ferrisson_protocol::{CallError, Connection};
use ferrisson_testkit::{Proxy, Server, proxy::Accepting};
use tokio::time::Instant;

use crate::common::{BOUND, builder, incr, until_ok};

const SECRET: &str = "hunter2";

fn error_text(error: &dyn std::error::Error) -> String {
    let source = error.source().map(error_text).unwrap_or_default();
    format!("{error} {error:?} {source}")
}

#[tokio::test]
async fn a_wrong_password_is_told_as_such() {
    let server = Server::builder().password("right").start().await;
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        for user in ["", "nobody"] {
            let url = format!("redis://{user}:{SECRET}@127.0.0.1:{}", server.port());
            let error = builder(&url).protocol(protocol).connect().await.unwrap_err();
            assert!(matches!(error, ConnectError::Authentication(_)), "{error:?}");
            assert!(!error.is_retryable() && !error_text(&error).contains(SECRET));

            let lazy = builder(&url).protocol(protocol).connect_lazy().unwrap();
            let error = refused(&lazy).await;
            assert!(error.contains("WRONGPASS"), "{error}");
            assert!(!error.contains(SECRET) && !format!("{lazy:?}").contains(SECRET));
            let error = lazy.subscribe("channel").await.unwrap_err();
            assert_eq!(error.failure(), Failure::Refused(Refusal::Authentication), "{error:?}");
        }
        let none = format!("redis://127.0.0.1:{}", server.port());
        let error = builder(none).protocol(protocol).connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::Authentication(_)), "{error:?}");
    }
}

/// Calls until the server's refusal is known.
async fn refused(connection: &FredConnection) -> String {
    let start = Instant::now();
    loop {
        match incr(connection, "key").await.expect_err("the server refuses") {
            CallError::Server { text } => return text,
            error => assert!(matches!(error, CallError::NotExecuted(_)), "{error:?}"),
        }
        assert!(start.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_builder_does_not_show_the_password() {
    let url = format!("redis-sentinel://u:{SECRET}@h?master=m&sentinelPassword={SECRET}");
    assert!(!format!("{:?}", builder(url)).contains(SECRET));
    let config = fred::types::config::Config {
        password: Some(SECRET.to_owned()),
        ..fred::types::config::Config::default()
    };
    let builder = ferrisson_fred::FredBuilder::from_fred_config(config);
    assert!(!format!("{builder:?}").contains(SECRET));
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let lanes = builder("redis://localhost").lanes(0).connect_lazy().unwrap_err();
    assert!(matches!(lanes, ConnectError::Setting { .. }), "{lanes:?}");
    let url = builder("localhost").connect_lazy().unwrap_err();
    assert!(matches!(url, ConnectError::Url { .. }), "{url:?}");
    let zero = builder("redis://localhost").command_timeout(Duration::ZERO);
    let zero = zero.connect().await.unwrap_err();
    assert!(matches!(zero, ConnectError::Setting { .. }), "{zero:?}");
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_a_refusal() {
    let server = Server::builder().arg("--databases").arg("1").start().await;
    let error = builder(format!("{}/5", server.url())).connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)), "{error:?}");
}

#[tokio::test]
async fn a_cluster_url_of_a_single_server_is_a_refusal() {
    let server = Server::start().await;
    let url = server.url().replace("redis://", "redis-cluster://");
    let error = builder(url).connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)), "{error:?}");
}

#[tokio::test]
async fn connecting_to_nobody_ends_in_time() {
    let server = Server::start().await;
    let proxy = Proxy::to(&server).await;
    for accepting in [Accepting::Refuse, Accepting::Close, Accepting::Silent] {
        proxy.set_accepting(accepting).await;
        let start = Instant::now();
        let error = builder(proxy.url()).connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable(_)), "{accepting:?}: {error:?}");
        assert!(error.is_retryable());
        assert!(start.elapsed() < Duration::from_secs(6), "{accepting:?}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_lazy_connection_serves_once_the_server_is_there() {
    let server = Server::start().await;
    server.kill();
    let connection = builder(server.url()).connect_lazy().unwrap();
    for _ in 0..5 {
        let start = Instant::now();
        let error = incr(&connection, "key").await.unwrap_err();
        assert!(matches!(error, CallError::NotExecuted(_)), "{error:?}");
        assert!(start.elapsed() < Duration::from_millis(500));
    }
    let unavailable = Failure::Unavailable(Outcome::NotExecuted);
    let start = Instant::now();
    let error: BackendError = connection.subscribe("channel").await.unwrap_err();
    assert_eq!(error.failure(), unavailable);
    assert!(start.elapsed() < BOUND);

    server.restart().await;
    assert!(until_ok(&connection, "key").await < Duration::from_secs(2));
    assert!(connection.subscribe("channel").await.unwrap().is_live());
}
