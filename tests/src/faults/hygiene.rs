//! What stays on the server: keys, channels and connections.

use std::time::Duration;

use ferrisson_core::Client;
use ferrisson_testkit::{Server, poll_until};
use ferrisson_tests::real::{LONG, PATIENCE, backend, client, pttl, soon};
use futures::future::join_all;

const ZERO: Duration = Duration::ZERO;

async fn of_application(server: &Server, namespace: &str) -> Client {
    let builder = Client::builder(backend(&server.url()).await).poll_interval(LONG);
    builder.namespace(namespace).build().unwrap()
}

// B244, B263
#[tokio::test]
async fn a_namespace_is_in_every_key_and_channel_once_and_two_never_meet() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let (app, other) =
        (of_application(&server, "app1").await, of_application(&server, "app2").await);
    let (lock, plain) = (app.lock("l"), app.plain_lock("p"));
    let guards = [lock.lock().await.unwrap(), plain.lock().await.unwrap()];
    app.semaphore("s").try_set_permits(1).await.unwrap();
    let permit = app.semaphore("s").acquire(1).await.unwrap();
    app.bucket::<u8>("b").set(&1).await.unwrap();
    let waiting = tokio::spawn({
        let app = app.clone();
        async move {
            let (l, p, s) = (app.lock("l"), app.plain_lock("p"), app.semaphore("s"));
            tokio::join!(
                async { l.lock().await.unwrap().unlock().await.unwrap() },
                async { p.lock().await.unwrap().unlock().await.unwrap() },
                async { s.acquire(1).await.unwrap().release().await.unwrap() },
            )
        }
    });
    poll_until("they wait", PATIENCE, async || raw.pubsub_channels().await.unwrap().len() == 3)
        .await;
    let names = [raw.keys().await.unwrap(), raw.pubsub_channels().await.unwrap()].concat();
    assert_eq!(names.len(), 8, "{names:?}");
    for name in names {
        assert_eq!(name.matches("app1:").count(), 1, "{name}");
    }

    // The other application sees nothing of it.
    assert!(!other.lock("l").is_locked().await.unwrap());
    let theirs = other.lock("l").try_lock(ZERO, LONG).await.unwrap().expect("it is free");
    assert!(other.semaphore("s").try_set_permits(1).await.unwrap());
    assert_eq!(other.bucket::<u8>("b").get().await.unwrap(), None);
    theirs.unlock().await.unwrap();
    assert!(lock.is_locked().await.unwrap());
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    permit.release().await.unwrap();
    soon(waiting).await.unwrap();
}

// B265, B267
#[tokio::test]
async fn names_that_are_no_longer_used_leave_nothing() {
    const NAMES: usize = 500;
    let server = Server::start().await;
    let client = client(&server.url()).await;
    let uses = (0..NAMES).map(|i| {
        let client = client.clone();
        async move {
            let name = format!("x{i}");
            let lock = client.lock(name.as_str());
            let guard = lock.lock().await.unwrap();
            if i % 3 == 0 {
                let waiting = tokio::spawn(async move { lock.lock().await });
                guard.unlock().await.unwrap();
                soon(waiting).await.unwrap().unwrap().unlock().await.unwrap();
            } else {
                guard.reenter().await.unwrap().unlock().await.unwrap();
                guard.unlock().await.unwrap();
            }
            let semaphore = client.semaphore(format!("s{i}"));
            semaphore.try_set_permits(1).await.unwrap();
            semaphore.acquire(1).await.unwrap().release().await.unwrap();
            client.bucket::<u8>(format!("s{i}")).delete().await.unwrap();
        }
    });
    join_all(uses).await;
    let mut raw = server.raw().await;
    assert_eq!(raw.keys().await.unwrap(), [""; 0]);
    poll_until("no channel is left", PATIENCE, async || {
        raw.pubsub_channels().await.unwrap().is_empty()
    })
    .await;
    client.close().await;
    poll_until("no connection is left", PATIENCE, async || raw.client_count().await.unwrap() == 0)
        .await;
}

// B265
#[tokio::test]
async fn whatever_is_left_over_ends_by_itself() {
    let server = Server::start().await;
    let client = client(&server.url()).await;
    client.semaphore("s").try_set_permits(3).await.unwrap();
    client.lock("l").lock_with(LONG).await.unwrap().forget();
    client.plain_lock("p").lock().await.unwrap().forget();
    client.semaphore("s").acquire(2).await.unwrap().forget();
    let mut raw = server.raw().await;
    let keys = raw.keys().await.unwrap();
    assert_eq!(keys.len(), 4, "{keys:?}");
    for key in keys.iter().filter(|key| *key != "s") {
        let left = pttl(&mut raw, key).await;
        assert!(left > 0 && left <= 16 * 60 * 1000, "{key} ends in {left} ms");
    }
}
