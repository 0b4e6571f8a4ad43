//! A request or its reply is lost, late or repeated.

use std::time::Duration;

use ferrisson_core::{Client, Error, HoldState, LockHandle, Outcome};
use ferrisson_testkit::{
    Proxy, Raw, poll_until,
    proxy::{Action, Direction, Rule, RuleHandle},
};
use ferrisson_tests::real::{
    COMMAND_TIMEOUT, LONG, PATIENCE, backend, client, is_held_by, permits, pttl, soon, until_gone,
    warm_server,
};
use futures::future::join_all;

/// Long enough for a connection that does not answer to be given up, which takes three timeouts.
const WATCHDOG: Duration = Duration::from_secs(15);

/// One client behind a proxy of its own, and a direct view of its server.
struct Scene {
    proxy: Proxy,
    client: Client,
    other: Client,
    raw: Raw,
    name: String,
    fault: Action,
}

impl Scene {
    /// From now on the next script for this name has the fault.
    fn break_next(&self) -> RuleHandle {
        let rule = Rule::on("EVALSHA").containing(&self.name).nth(1);
        self.proxy.add(rule.then(self.fault.clone()))
    }

    fn lock(&self) -> LockHandle {
        self.client.lock(self.name.as_str())
    }
}

/// Plays a scene once for every way in which a message can fail to come through.
async fn in_every_way(what: &str, play: impl AsyncFn(Scene)) {
    let play = &play;
    let server = warm_server().await;
    let ways = [
        ("cut-before", Action::CutBefore),
        ("cut-after", Action::CutAfter),
        ("cut-within", Action::CutWithin),
        ("late", Action::Delay(COMMAND_TIMEOUT * 3 / 2)),
        ("request-lost", Action::BlackHole(Direction::Requests)),
        ("reply-lost", Action::BlackHole(Direction::Replies)),
        ("half-open", Action::BlackHole(Direction::Both)),
    ];
    let scenes = ways.map(|(way, fault)| async move {
        let proxy = Proxy::to(server).await;
        let builder = Client::builder(backend(&proxy.url()).await).patience(PATIENCE);
        let client = builder.watchdog_lease(WATCHDOG).build().expect("it is valid");
        let (other, raw) = (self::client(&server.url()).await, server.raw().await);
        play(Scene { proxy, client, other, raw, name: format!("{what}:{way}"), fault }).await;
    });
    join_all(scenes).await;
}

// B066, B118
#[tokio::test]
async fn an_acquisition_is_one_hold_whatever_becomes_of_its_messages() {
    in_every_way("acquisition", async |mut scene| {
        let broken = scene.break_next();
        let guard = scene.lock().try_lock(PATIENCE, LONG).await.unwrap().expect("it is free");
        soon(broken.wait_fired(1)).await;
        assert!(is_held_by(&mut scene.raw, &guard).await, "{}", scene.name);
        guard.unlock().await.unwrap();
        assert_eq!(pttl(&mut scene.raw, &scene.name).await, -2, "{}", scene.name);
        // Arriving even later it wins nothing.
        assert_eq!(broken.replay().await.list()[0].int(), -1, "{}", scene.name);
        assert_eq!(pttl(&mut scene.raw, &scene.name).await, -2, "{}", scene.name);
    })
    .await;
}

// B120, B121, B293
#[tokio::test]
async fn a_release_is_confirmed_whatever_becomes_of_its_messages() {
    in_every_way("release", async |mut scene| {
        let guard = scene.lock().try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
        let broken = scene.break_next();
        guard.unlock().await.unwrap();
        let lock = scene.other.lock(scene.name.as_str());
        let other = lock.try_lock(Duration::ZERO, LONG).await.unwrap().expect("it was released");
        // Arriving once more it frees nobody else's lock.
        assert_eq!(broken.replay().await.int(), 0);
        assert!(is_held_by(&mut scene.raw, &other).await, "{}", scene.name);
        // And the next hold of the same handle is not taken for a re-entry.
        other.unlock().await.unwrap();
        let again = scene.lock().try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
        assert!(is_held_by(&mut scene.raw, &again).await, "{}", scene.name);
    })
    .await;
}

// B293
#[tokio::test]
async fn a_dropped_guard_is_released_whatever_becomes_of_its_messages() {
    in_every_way("drop", async |mut scene| {
        let guard = scene.lock().try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
        let broken = scene.break_next();
        drop(guard);
        until_gone(&mut scene.raw, &scene.name).await;
        soon(broken.wait_fired(1)).await;
    })
    .await;
}

#[tokio::test]
async fn a_renewal_of_unknown_outcome_is_neither_lost_nor_believed() {
    in_every_way("renewal", async |mut scene| {
        let guard = scene.lock().try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
        let _ = scene.break_next();
        let (shorter, longer) = (Duration::from_secs(60), Duration::from_secs(120));
        let error = guard.renew(shorter).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
        assert_eq!(guard.state(), HoldState::Suspended);
        assert!(guard.remaining() < shorter, "the shorter lease may be in force");
        poll_until("a renewal goes through", PATIENCE, async || guard.renew(longer).await.is_ok())
            .await;
        assert_eq!(guard.state(), HoldState::Held);
        let left = pttl(&mut scene.raw, &scene.name).await;
        assert!(left > 110_000, "{left} ms are left of {}", scene.name);
        // The late one can still shorten the lease.
        assert!(guard.remaining() < shorter);
        guard.unlock().await.unwrap();
    })
    .await;
}

// B023, B030, B033
#[tokio::test]
async fn the_watchdog_rides_out_a_lost_renewal() {
    in_every_way("watchdog", async |mut scene| {
        let guard = scene.lock().lock().await.unwrap();
        let broken = scene.break_next();
        soon(broken.wait_matched(2)).await;
        poll_until("the renewal is confirmed", PATIENCE, async || {
            guard.state() == HoldState::Held && pttl(&mut scene.raw, &scene.name).await > 11_000
        })
        .await;
        let renewals = broken.matched();
        guard.unlock().await.unwrap();
        assert_eq!(pttl(&mut scene.raw, &scene.name).await, -2);
        assert!(renewals <= 6, "{renewals} renewals of {}", scene.name);
    })
    .await;
}

#[tokio::test]
async fn a_re_entry_counts_once_whatever_becomes_of_its_messages() {
    in_every_way("re-entry", async |mut scene| {
        let guard = scene.lock().try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
        let _ = scene.break_next();
        guard.reenter().await.unwrap_err();
        assert_eq!(guard.hold_count(), 1);
        let mut second = None;
        poll_until("a re-entry goes through", PATIENCE, async || {
            second = guard.reenter().await.ok();
            second.is_some()
        })
        .await;
        assert_eq!(guard.hold_count(), 2);
        second.unwrap().unlock().await.unwrap();
        poll_until("one hold is left", PATIENCE, async || is_held_by(&mut scene.raw, &guard).await)
            .await;
        guard.unlock().await.unwrap();
        assert_eq!(pttl(&mut scene.raw, &scene.name).await, -2);
    })
    .await;
}

#[tokio::test]
async fn permits_are_taken_once_whatever_becomes_of_their_messages() {
    in_every_way("permits", async |mut scene| {
        let semaphore = scene.client.semaphore(scene.name.as_str());
        assert!(semaphore.try_set_permits(5).await.unwrap());
        let broken = scene.break_next();
        let permit = semaphore.try_acquire(2, PATIENCE).await.unwrap().expect("there are five");
        soon(broken.wait_fired(1)).await;
        assert_eq!(permits(&mut scene.raw, &scene.name).await, 3, "{}", scene.name);
        permit.release().await.unwrap();
        assert_eq!(permits(&mut scene.raw, &scene.name).await, 5, "{}", scene.name);
        assert_eq!(broken.replay().await.list()[0].int(), -1, "{}", scene.name);
        assert_eq!(permits(&mut scene.raw, &scene.name).await, 5, "{}", scene.name);
    })
    .await;
}

#[tokio::test]
async fn permits_are_given_back_once_whatever_becomes_of_their_messages() {
    in_every_way("return", async |mut scene| {
        let semaphore = scene.client.semaphore(scene.name.as_str());
        assert!(semaphore.try_set_permits(5).await.unwrap());
        let permit = semaphore.try_acquire(2, Duration::ZERO).await.unwrap().expect("five");
        let broken = scene.break_next();
        permit.release().await.unwrap();
        assert_eq!(permits(&mut scene.raw, &scene.name).await, 5, "{}", scene.name);
        assert_eq!(broken.replay().await.int(), 0, "{}", scene.name);
        assert_eq!(permits(&mut scene.raw, &scene.name).await, 5, "{}", scene.name);
    })
    .await;
}

// B122
#[tokio::test]
async fn what_cannot_be_repeated_is_sent_once_and_called_unknown() {
    in_every_way("once", async |scene| {
        let semaphore = scene.client.semaphore(scene.name.as_str());
        semaphore.try_set_permits(5).await.unwrap();
        let broken = scene.break_next();
        let error = semaphore.drain_permits().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
        poll_until("there is a connection", PATIENCE, async || {
            scene.client.bucket::<u8>("other").exists().await.is_ok()
        })
        .await;
        assert_eq!(broken.matched(), 1, "{}", scene.name);
    })
    .await;
}

#[tokio::test]
async fn a_bucket_is_written_once_and_the_outcome_called_unknown() {
    in_every_way("bucket", async |scene| {
        let bucket = scene.client.bucket::<u32>(scene.name.as_str());
        bucket.set(&1).await.unwrap();
        let broken = scene.break_next();
        let error = bucket.compare_and_set(Some(&1), Some(&2)).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
        let mut value = None;
        poll_until("there is a connection", PATIENCE, async || {
            value = bucket.get().await.ok().flatten();
            value.is_some()
        })
        .await;
        assert!(value == Some(1) || value == Some(2), "{value:?}");
        assert_eq!(broken.matched(), 1, "{}", scene.name);
    })
    .await;
}
