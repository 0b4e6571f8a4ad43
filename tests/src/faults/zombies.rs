//! Requests that arrive after their caller has gone.

use std::time::Duration;

use ferrisson_core::{Client, Error, Outcome};
use ferrisson_testkit::{
    Raw, poll_until,
    proxy::{Action, Direction, Rule, RuleHandle},
};
use ferrisson_tests::real::{LONG, PATIENCE, Testbed, backend, permits, pttl, soon, until_gone};
use tokio::time::timeout;

const NAME: &str = "x";

/// A client behind the proxy that reports a failure at once.
async fn impatient_client(bed: &Testbed) -> Client {
    let builder = Client::builder(backend(&bed.proxy.url()).await).patience(Duration::ZERO);
    builder.build().unwrap()
}

/// Holds the next request back. What its connection sends after it, to clean up, is lost, so that
/// it cannot be what saves us.
fn hold_next(bed: &Testbed) -> RuleHandle {
    let of_name = || Rule::on("EVALSHA").containing(NAME);
    let _ = bed.proxy.add(of_name().nth(2).then(Action::BlackHole(Direction::Requests)));
    bed.proxy.add(of_name().nth(1).then(Action::Hold))
}

async fn executed(raw: &mut Raw) -> u64 {
    raw.commandstats().await.unwrap().get("evalsha").copied().unwrap_or_default()
}

/// Lets the held request go to the server, and waits until that has executed it.
async fn arrives(held: &RuleHandle, raw: &mut Raw) {
    let before = executed(raw).await;
    held.release();
    poll_until("it arrives", PATIENCE, async || executed(raw).await > before).await;
}

fn assert_unknown(error: &Error) {
    assert!(matches!(error, Error::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
}

#[tokio::test]
async fn an_acquisition_that_arrives_after_its_caller_gave_up_wins_nothing() {
    for plain in [false, true] {
        let bed = Testbed::start().await;
        let (client, mut raw) = (impatient_client(&bed).await, bed.server.raw().await);
        let lock = if plain { client.plain_lock(NAME) } else { client.lock(NAME) };
        let held = hold_next(&bed);
        assert_unknown(&lock.try_lock(Duration::ZERO, LONG).await.unwrap_err());
        // The request is stuck with its connection; what cleans up after it takes another one.
        poll_until("the attempt is abandoned", PATIENCE, async || {
            raw.keys_like("ferrisson_abandoned:{x}:*").await.unwrap().len() == 1
        })
        .await;
        arrives(&held, &mut raw).await;
        assert_eq!(pttl(&mut raw, NAME).await, -2);
        let guard = lock.try_lock(Duration::ZERO, LONG).await.unwrap().expect("it is free");
        guard.unlock().await.unwrap();
    }
}

// B064
#[tokio::test]
async fn an_acquisition_that_arrives_after_its_caller_was_dropped_wins_nothing() {
    let bed = Testbed::start().await;
    let (client, mut raw) = (bed.far().await, bed.server.raw().await);
    let lock = client.lock(NAME);
    let held = hold_next(&bed);
    timeout(Duration::from_millis(50), lock.lock()).await.unwrap_err();
    poll_until("the attempt is abandoned", PATIENCE, async || {
        raw.keys_like("ferrisson_abandoned:{x}:*").await.unwrap().len() == 1
    })
    .await;
    arrives(&held, &mut raw).await;
    assert_eq!(pttl(&mut raw, NAME).await, -2);
}

// B064
#[tokio::test]
async fn a_grant_that_nobody_waits_for_any_more_is_given_back() {
    let bed = Testbed::start().await;
    let (client, mut raw) = (bed.far().await, bed.server.raw().await);
    client.semaphore("s").try_set_permits(3).await.unwrap();
    bed.proxy.set_latency(Duration::ZERO, Duration::from_millis(300));
    let (lock, semaphore) = (client.lock(NAME), client.semaphore("s"));
    let call = async { tokio::join!(lock.lock(), semaphore.acquire(2)) };
    tokio::select! {
        _ = call => panic!("the replies are late"),
        () = async {
            poll_until("both are granted", PATIENCE, async || {
                pttl(&mut raw, NAME).await > 0 && permits(&mut raw, "s").await == 1
            })
            .await;
        } => {}
    }
    until_gone(&mut raw, NAME).await;
    poll_until("the permits are back", PATIENCE, async || permits(&mut raw, "s").await == 3).await;
    assert_eq!(raw.keys().await.unwrap(), ["s"], "neither lock nor record nor tombstone");
}

#[tokio::test]
async fn permits_that_are_taken_after_their_caller_gave_up_are_not_missing() {
    let bed = Testbed::start().await;
    let (client, mut raw) = (impatient_client(&bed).await, bed.server.raw().await);
    let semaphore = client.semaphore(NAME);
    semaphore.try_set_permits(3).await.unwrap();
    let held = hold_next(&bed);
    assert_unknown(&semaphore.try_acquire(2, Duration::ZERO).await.unwrap_err());
    poll_until("the attempt is abandoned", PATIENCE, async || {
        raw.keys_like("ferrisson_permit:{x}:*").await.unwrap().len() == 1
    })
    .await;
    arrives(&held, &mut raw).await;
    assert_eq!(permits(&mut raw, NAME).await, 3);
}

#[tokio::test]
async fn an_acquisition_in_a_stopped_server_leaves_nothing_when_that_goes_on() {
    let bed = Testbed::start().await;
    let client = impatient_client(&bed).await;
    client.semaphore("s").try_set_permits(3).await.unwrap();
    let lock = client.lock(NAME);
    bed.server.stop();
    let semaphore = client.semaphore("s");
    let (locked, taken) = tokio::join!(
        lock.try_lock(Duration::ZERO, LONG),
        semaphore.try_acquire(2, Duration::ZERO),
    );
    assert_unknown(&locked.unwrap_err());
    assert_unknown(&taken.unwrap_err());
    bed.server.cont();
    let mut raw = bed.server.raw().await;
    // The stopped server has the requests already; both are executed, and both undone.
    poll_until("both are abandoned", PATIENCE, async || {
        raw.keys_like("ferrisson_*").await.unwrap().len() == 2
    })
    .await;
    assert_eq!(pttl(&mut raw, NAME).await, -2);
    assert_eq!(permits(&mut raw, "s").await, 3);
}

// B031
#[tokio::test]
async fn the_late_answer_to_a_renewal_arms_nothing() {
    let bed = Testbed::start().await;
    let builder = Client::builder(backend(&bed.proxy.url()).await);
    let client = builder.watchdog_lease(Duration::from_millis(900)).build().unwrap();
    let mut raw = bed.server.raw().await;
    let guard = client.lock(NAME).lock().await.unwrap();
    let late = Action::Delay(Duration::from_millis(200));
    let renewal = bed.proxy.add(Rule::on("EVALSHA").containing(NAME).nth(1).then(late));
    soon(renewal.wait_fired(1)).await;
    guard.unlock().await.unwrap();
    let released = renewal.matched();
    assert_eq!(pttl(&mut raw, NAME).await, -2);
    // Two thirds of the lease: another renewal would be due.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(renewal.matched(), released);
}
