//! What is logged, by this crate and by fred. The log of a process is one, so this is one test.

mod common;

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use ferrisson_protocol::Connection;
use ferrisson_testkit::{Server, poll_until};
use tracing_subscriber::filter::LevelFilter;

use crate::common::{builder, incr, until_ok};

const SECRET: &str = "hunter2";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics in between")).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics in between").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn evictions_are_warned_of_and_passwords_are_not_shown() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();

    let server = Server::builder()
        .password(SECRET)
        .arg("--maxmemory")
        .arg("64mb")
        .arg("--maxmemory-policy")
        .arg("volatile-lru")
        .start()
        .await;
    let connection = builder(server.url()).connect().await.unwrap();
    incr(&connection, "key").await.unwrap();
    let wakeup = connection.subscribe("channel").await.unwrap();
    server.kill();
    incr(&connection, "key").await.unwrap_err();
    poll_until("the loss is noticed", Duration::from_secs(5), async || !wakeup.is_live()).await;
    server.restart().await;
    until_ok(&connection, "key").await;
    connection.close().await;
    let warnings = || log.text().matches("may evict locks").count();
    assert_eq!(warnings(), 1);

    let lazy = builder(server.url()).connect_lazy().unwrap();
    poll_until("it is warned", Duration::from_secs(5), async || warnings() == 2).await;
    lazy.close().await;

    server.set_config("maxmemory-policy", "noeviction").await;
    builder(server.url()).connect().await.unwrap().close().await;
    assert_eq!(warnings(), 2);

    let wrong = server.url().replace(SECRET, "hunter22");
    builder(wrong).connect().await.unwrap_err();
    builder(format!("redis://:{SECRET}@host:port")).connect().await.unwrap_err();

    let text = log.text();
    assert!(text.contains("fred"), "fred is silent, so this would prove nothing");
    let line = text.lines().find(|line| line.contains(SECRET));
    assert_eq!(line, None);
}
