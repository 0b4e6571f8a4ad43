//! What the tests of this crate share.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::time::Duration;

use bytes::Bytes;
use ferrisson_fred::{FredBuilder, FredConnection};
use ferrisson_protocol::{CallError, Command, Connection, Reply};

/// A command that fails takes no longer than its time limit, with room for a busy machine.
pub(crate) const BOUND: Duration = Duration::from_millis(2500);

pub(crate) fn builder(url: impl Into<String>) -> FredBuilder {
    FredConnection::builder(url)
}

pub(crate) fn command(name: &'static str, key: &str, args: &[&str]) -> Command {
    let key = Bytes::copy_from_slice(key.as_bytes());
    let rest = args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes()));
    Command { name, key: key.clone(), args: [key].into_iter().chain(rest).collect() }
}

/// A script with one key.
pub(crate) fn eval(script: &'static str, key: &str, args: &[&str]) -> Command {
    let rest = args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes()));
    let key = Bytes::copy_from_slice(key.as_bytes());
    let head = [Bytes::from_static(script.as_bytes()), Bytes::from_static(b"1"), key.clone()];
    Command { name: "EVAL", key, args: head.into_iter().chain(rest).collect() }
}

pub(crate) async fn incr(connection: &FredConnection, key: &str) -> Result<i64, CallError> {
    match connection.call(command("INCR", key, &[])).await? {
        Reply::Integer(number) => Ok(number),
        other => panic!("not a number: {other:?}"),
    }
}

/// Calls until one succeeds, and answers how long that took.
pub(crate) async fn until_ok(connection: &FredConnection, key: &str) -> Duration {
    let start = tokio::time::Instant::now();
    while incr(connection, key).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "no recovery");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}
