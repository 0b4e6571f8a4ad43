//! Clients that are cut off: what holders are told, and that no call hangs.

use std::time::{Duration, Instant};

use ferrisson_core::{Client, Error, HoldState, LossReason, Outcome};
use ferrisson_testkit::{Server, poll_until, proxy::Accepting};
use ferrisson_tests::real::{
    COMMAND_TIMEOUT, LONG, PATIENCE, Testbed, backend, client, is_held_by, load_scripts, permits,
    pttl, server_with_log, soon, until_gone,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

const NAME: &str = "x";
const ZERO: Duration = Duration::ZERO;

// B030, B033, B049, B295
#[tokio::test]
async fn a_holder_that_is_cut_off_is_told_before_another_can_have_the_lock() {
    let bed = Testbed::start().await;
    let builder = Client::builder(backend(&bed.proxy.url()).await).patience(PATIENCE);
    let client = builder.watchdog_lease(Duration::from_millis(900)).build().unwrap();
    let other = bed.near().await;
    let guard = client.lock(NAME).lock().await.unwrap();
    bed.proxy.set_accepting(Accepting::Refuse).await;
    bed.proxy.cut_all();
    let lock = other.lock(NAME);
    let (told, taken) = tokio::join!(
        async {
            assert_eq!(soon(guard.lost()).await, LossReason::Expired);
            Instant::now()
        },
        async {
            let taken = lock.try_lock(PATIENCE, LONG).await.unwrap().expect("the lease has ended");
            (taken, Instant::now())
        },
    );
    assert!(told < taken.1, "told {:?} late", told - taken.1);
    // The link comes back: what was called lost is not renewed, and not released from the other.
    bed.proxy.set_accepting(Accepting::Yes).await;
    let error = guard.unlock().await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost { reason: LossReason::Expired, .. }), "{error:?}");
    let mut raw = bed.server.raw().await;
    assert!(is_held_by(&mut raw, &taken.0).await);
    taken.0.unlock().await.unwrap();
    // The same handle works as if nothing had been, and its hold is renewed.
    let again = client.lock(NAME).lock().await.unwrap();
    let start = Instant::now();
    poll_until("two leases are over", PATIENCE, async || {
        assert_eq!(again.state(), HoldState::Held);
        start.elapsed() > Duration::from_millis(1800)
    })
    .await;
    assert!(pttl(&mut raw, NAME).await > 0);
}

#[tokio::test]
async fn protected_work_is_stopped_when_the_holder_is_cut_off() {
    let bed = Testbed::start().await;
    let client = bed.far().await;
    let lease = Duration::from_millis(600);
    let guard = client.lock(NAME).try_lock(ZERO, lease).await.unwrap().expect("it is free");
    bed.proxy.cut_all();
    let start = Instant::now();
    let error = guard.run(std::future::pending::<()>()).await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost { reason: LossReason::Expired, .. }), "{error:?}");
    assert!(start.elapsed() < lease, "before the server can give it away");
}

// B023
#[tokio::test]
async fn a_release_that_failed_is_followed_by_another_and_by_no_renewal() {
    let bed = Testbed::start().await;
    let builder = Client::builder(backend(&bed.proxy.url()).await).patience(ZERO);
    let client = builder.watchdog_lease(Duration::from_secs(9)).build().unwrap();
    let guard = client.lock(NAME).lock().await.unwrap();
    bed.proxy.set_accepting(Accepting::Refuse).await;
    bed.proxy.cut_all();
    let error = guard.unlock().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    let left = pttl(&mut bed.server.raw().await, NAME).await;
    assert!(left > 1000, "the lease has not ended: {left} ms");
    bed.proxy.set_accepting(Accepting::Yes).await;
    until_gone(&mut bed.server.raw().await, NAME).await;
}

// B052
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the fault is that the runtime is blocked")]
async fn a_blocked_runtime_knows_of_its_loss_at_once() {
    let server = Server::start().await;
    let builder = Client::builder(backend(&server.url()).await);
    let client = builder.watchdog_lease(Duration::from_millis(300)).build().unwrap();
    let guard = client.lock(NAME).lock().await.unwrap();
    let url = server.url();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let client = self::client(&url).await;
            client.lock(NAME).lock_with(LONG).await.unwrap().forget();
        });
    });
    // The runtime of this test has one thread. No task runs until the other has the lock.
    other.join().unwrap();
    assert!(!guard.is_held(), "by the clock, before any task has run");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(guard.unlock().await.is_err());
    assert!(pttl(&mut server.raw().await, NAME).await > 0, "the other still has it");
}

// B220, B221
#[tokio::test]
async fn every_kind_of_call_ends_by_its_limit_when_answers_are_late() {
    let bed = Testbed::start().await;
    let builder = Client::builder(backend(&bed.proxy.url()).await).patience(ZERO);
    let client = builder.build().unwrap();
    let (lock, plain) = (client.lock(NAME), client.plain_lock("p"));
    let (semaphore, bucket) = (client.semaphore("s"), client.bucket::<u8>("b"));
    semaphore.try_set_permits(5).await.unwrap();
    let guard = lock.lock().await.unwrap();
    bed.proxy.set_latency(ZERO, COMMAND_TIMEOUT * 4);
    let start = Instant::now();
    let results = tokio::join!(
        async { plain.try_lock(ZERO, LONG).await.is_err() },
        async { plain.try_lock(LONG, LONG).await.is_err() },
        async { lock.inspect().await.is_err() },
        async { guard.renew(LONG).await.is_err() },
        async { guard.reenter().await.is_err() },
        async { semaphore.try_acquire(1, LONG).await.is_err() },
        async { semaphore.release(1).await.is_err() },
        async { semaphore.available_permits().await.is_err() },
        async { bucket.get().await.is_err() },
        async { bucket.set(&1).await.is_err() },
        async { bucket.compare_and_set(Some(&1), None).await.is_err() },
    );
    let (a, b, c, d, e, f, g, h, i, j, k) = results;
    assert_eq!([a, b, c, d, e, f, g, h, i, j, k], [true; 11]);
    let took = start.elapsed();
    assert!(took < COMMAND_TIMEOUT * 2, "{took:?}");
    assert!(guard.unlock().await.is_err());
}

// B290, B291
#[tokio::test]
async fn a_server_that_is_away_is_not_taken_for_a_lock_that_is_busy() {
    let server = Server::start().await;
    let client = client(&server.url()).await;
    server.kill();
    for wait in [ZERO, Duration::from_millis(300), Duration::from_secs(60)] {
        let start = Instant::now();
        let error = client.lock(NAME).try_lock(wait, LONG).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(error.is_retryable());
        let cause = std::error::Error::source(&error).expect("the error tells why");
        assert!(!cause.to_string().is_empty());
        // The client's patience is two seconds.
        let limit = wait.min(Duration::from_secs(2)) + COMMAND_TIMEOUT + Duration::from_secs(2);
        assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    }
    let error = client.bucket::<u8>("b").set(&1).await.unwrap_err();
    let certain = matches!(error, Error::Unavailable { outcome: Outcome::NotExecuted, .. });
    assert!(certain, "{error:?}");
}

// B222
#[tokio::test]
async fn a_client_finds_its_server_again() {
    let server = Server::start().await;
    let builder = Client::builder(backend(&server.url()).await).patience(PATIENCE);
    let client = builder.build().unwrap();
    server.kill();
    let lock = client.lock(NAME);
    let waiting = tokio::spawn(async move { lock.lock().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    server.restart().await;
    let guard = soon(waiting).await.unwrap().unwrap();
    assert!(is_held_by(&mut server.raw().await, &guard).await);
}

/// What came of one call.
enum Came {
    Held,
    Busy,
    Failed,
}

// B184, B223
#[tokio::test]
async fn when_the_server_is_killed_every_call_ends_with_an_error_or_something_really_held() {
    const CALLS: u64 = 200;
    let wait = Duration::from_secs(3);
    let server = server_with_log().start().await;
    load_scripts(&server).await;
    let clients = [client(&server.url()).await, client(&server.url()).await];
    clients[0].semaphore("s").try_set_permits(20).await.unwrap();
    let mut random = StdRng::seed_from_u64(11);
    for round in 0..3 {
        let mut calls = JoinSet::new();
        for call in 0..CALLS {
            let client = clients[usize::try_from(call % 2).unwrap()].clone();
            let start = Duration::from_millis(random.random_range(0..300));
            calls.spawn(async move {
                tokio::time::sleep(start).await;
                // The patience of two seconds, and a busy machine.
                let limit = wait + Duration::from_secs(2) + COMMAND_TIMEOUT + PATIENCE;
                let came = tokio::time::timeout(limit, one_call(&client, call, wait)).await;
                came.unwrap_or_else(|_| panic!("call {call} hangs"))
            });
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(50..250))).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.restart().await;
        let (mut held, mut busy, mut failed) = (0, 0, 0);
        while let Some(came) = calls.join_next().await {
            match came.unwrap() {
                Came::Held => held += 1,
                Came::Busy => busy += 1,
                Came::Failed => failed += 1,
            }
        }
        println!("round {round}: {held} held, {busy} busy, {failed} failed");
        assert!(held > 0, "some came before the crash or after it");
    }
    // With its log the server has forgotten nothing, and nothing is left over.
    let mut raw = server.raw().await;
    poll_until("all permits are back", PATIENCE, async || permits(&mut raw, "s").await == 20).await;
    poll_until("all locks are free", PATIENCE, async || {
        raw.keys_like("x*").await.unwrap().is_empty()
    })
    .await;
}

/// A lock, a semaphore or a bucket: what is said to be held is looked at.
async fn one_call(client: &Client, call: u64, wait: Duration) -> Came {
    match call % 3 {
        0 => {
            let lock = client.lock(format!("x{}", call % 12));
            let guard = match lock.try_lock(wait, LONG).await {
                Ok(Some(guard)) => guard,
                Ok(None) => return Came::Busy,
                Err(error) => return failed(&error),
            };
            // While the guard is held nobody else can be seen in its place.
            if let Ok(info) = lock.inspect().await {
                let info = info.expect("the lock is held");
                assert_eq!(guard.owner(), *info.owner.as_str());
            }
            assert!(guard.is_held());
            guard.unlock().await.map_or_else(|error| failed(&error), |()| Came::Held)
        }
        1 => match client.semaphore("s").try_acquire(2, wait).await {
            Ok(Some(permit)) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                permit.release().await.map_or_else(|error| failed(&error), |()| Came::Held)
            }
            Ok(None) => Came::Busy,
            Err(error) => failed(&error),
        },
        _ => {
            let bucket = client.bucket::<u64>(format!("b{call}"));
            match bucket.set(&call).await {
                Ok(()) => Came::Held,
                Err(error) => failed(&error),
            }
        }
    }
}

#[track_caller]
fn failed(error: &Error) -> Came {
    let typed = matches!(error, Error::Unavailable { .. } | Error::Refused { .. });
    assert!(typed, "{error:?}");
    Came::Failed
}
