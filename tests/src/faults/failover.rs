//! Sentinels move the mastership while locks are held and waited for.

use std::time::Duration;

use ferrisson_core::{Client, Error, HoldState, LossReason};
use ferrisson_testkit::{Sentinel, poll_until};
use ferrisson_tests::real::{PATIENCE, backend, holders, soon};

const NAME: &str = "x";

async fn patient_client(sentinel: &Sentinel) -> Client {
    let builder = Client::builder(backend(&sentinel.url()).await).patience(PATIENCE * 2);
    builder.watchdog_lease(Duration::from_secs(15)).build().unwrap()
}

/// Waits until the replicas have what the master has.
async fn replicated(sentinel: &Sentinel) {
    for node in sentinel.nodes() {
        poll_until("the lock is on every node", PATIENCE, async || {
            !holders(&mut node.raw().await, NAME).await.is_empty()
        })
        .await;
    }
}

// B234, B236, B249
#[tokio::test]
async fn a_failover_keeps_what_was_replicated_and_tells_the_holder_of_what_was_not() {
    let sentinel = Sentinel::start().await;
    let (client, other) = (patient_client(&sentinel).await, patient_client(&sentinel).await);
    let guard = client.lock(NAME).lock().await.unwrap();
    replicated(&sentinel).await;
    let lock = other.lock(NAME);
    let waiting = tokio::spawn(async move { lock.lock().await });

    // The master dies. Its successor has the lock, and no scripts.
    let old = sentinel.master().await;
    old.kill();
    sentinel.wait_for_another_master(old.port()).await;
    poll_until("the hold is renewed there", PATIENCE, async || {
        assert!(guard.is_held(), "{:?}", guard.state());
        guard.renew(Duration::from_secs(15)).await.is_ok()
    })
    .await;
    assert!(!waiting.is_finished());
    let master = sentinel.master().await;
    let holder = holders(&mut master.raw().await, NAME).await;
    assert_eq!(holder, [(guard.owner().to_string(), "1".to_owned())]);

    // What a failover loses looks like this to the holder: the key is not there.
    master.raw().await.command(&["DEL", NAME]).await.unwrap();
    assert_eq!(soon(guard.lost()).await, LossReason::Taken);
    let next = soon(waiting).await.unwrap().unwrap();
    assert_eq!(next.state(), HoldState::Held);
    let error = guard.unlock().await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost { .. }), "{error:?}");
    let holder = holders(&mut master.raw().await, NAME).await;
    assert_eq!(holder, [(next.owner().to_string(), "1".to_owned())]);
    next.unlock().await.unwrap();
}
