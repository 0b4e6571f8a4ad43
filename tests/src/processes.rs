//! What must hold between processes that die and stall: workers that are killed and stopped, and
//! write down what they believe to hold.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use ferrisson_testkit::{Server, check, poll_until};
use ferrisson_tests::{
    real::{LONG, PATIENCE, client, is_held_by, permits, pttl, until_gone, until_subscribed},
    worker::{Job, Object, Orders, Record, Worker, now},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

const PROGRAM: &str = env!("CARGO_BIN_EXE_worker");
const WATCHDOG: Duration = Duration::from_millis(600);
const NAME: &str = "x";

/// A server, and a directory for what workers write.
struct Scene {
    server: Server,
    dir: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        Self { server: Server::start().await, dir: tempfile::tempdir().unwrap() }
    }

    fn claims(&self) -> PathBuf {
        self.dir.path().join("claims")
    }

    fn counter(&self) -> PathBuf {
        self.dir.path().join("counter")
    }

    fn record(&self) -> Record {
        Record::read(&self.claims(), NAME)
    }

    fn job(&self, object: Object, orders: Orders) -> Job {
        let watchdog_ms = WATCHDOG.as_millis().try_into().unwrap();
        let (url, name, claims) = (self.server.url(), NAME.to_owned(), self.claims());
        Job { url, name, object, watchdog_ms, poll_ms: 1000, claims, orders }
    }

    /// A worker that takes and gives on order.
    fn listener(&self) -> Worker {
        Worker::start(PROGRAM, &self.job(Object::Lock, Orders::Listen))
    }

    /// A worker that takes all it can get.
    fn competitor(&self, object: Object, rounds: u64, seed: u64) -> Worker {
        let counter = Some(self.counter()).filter(|counter| counter.exists());
        let orders = Orders::Compete { tasks: 2, rounds, hold_ms: 3, seed, counter };
        Worker::start(PROGRAM, &self.job(object, orders))
    }

    /// How often anybody has taken anything.
    fn begun(&self) -> usize {
        let claims = fs::read_to_string(self.claims()).unwrap_or_default();
        claims.lines().filter(|line| line.starts_with('B')).count()
    }

    fn counted(&self) -> u64 {
        fs::read_to_string(self.counter()).unwrap().trim().parse().unwrap()
    }
}

#[tokio::test]
async fn workers_exclude_each_other_and_lose_no_update() {
    for object in [Object::Lock, Object::Plain] {
        let scene = Scene::new().await;
        fs::write(scene.counter(), "0").unwrap();
        let mut workers: Vec<_> = (0..4).map(|seed| scene.competitor(object, 25, seed)).collect();
        for worker in &mut workers {
            worker.answer("done").await;
        }
        let record = scene.record();
        assert_eq!(record.claims.len(), 200);
        assert_eq!(check::overlaps(&record.claims), []);
        assert_eq!(scene.counted(), record.writes, "no update is lost");
        let mut raw = scene.server.raw().await;
        assert_eq!(pttl(&mut raw, NAME).await, -2);
        assert_eq!(raw.client_count().await.unwrap(), 0, "all have closed");
    }
}

#[tokio::test]
async fn workers_never_have_more_permits_than_there_are() {
    const PERMITS: u32 = 3;
    let scene = Scene::new().await;
    let client = client(&scene.server.url()).await;
    client.semaphore(NAME).try_set_permits(PERMITS).await.unwrap();
    let mut workers: Vec<_> =
        (0..4).map(|seed| scene.competitor(Object::Permits, 25, seed)).collect();
    for worker in &mut workers {
        worker.answer("done").await;
    }
    let record = scene.record();
    assert_eq!(record.claims.len(), 200);
    assert_eq!(check::overbooked(&record.claims, PERMITS.into()), []);
    assert!(!check::overbooked(&record.claims, 1).is_empty(), "they have shared the permits");
    let mut raw = scene.server.raw().await;
    assert_eq!(permits(&mut raw, NAME).await, i64::from(PERMITS));
    assert_eq!(raw.keys_like("ferrisson_permit*").await.unwrap(), [""; 0]);
}

// B047
#[tokio::test]
async fn killed_and_stopped_workers_never_overlap() {
    let scene = Scene::new().await;
    fs::write(scene.counter(), "0").unwrap();
    let mut random = StdRng::seed_from_u64(7);
    let start = |seed| scene.competitor(Object::Lock, u64::MAX, seed);
    let mut workers: Vec<_> = (0..3).map(start).collect();
    let (mut kills, mut seeds) = (0, 100..160);
    while kills < 8 || scene.begun() == 0 || scene.record().losses < 3 {
        let seed = seeds.next().expect("by now a stopped process has lost its lock three times");
        let victim = random.random_range(0..workers.len());
        if random.random_bool(0.4) {
            let old = std::mem::replace(&mut workers[victim], start(seed));
            old.kill().await;
            kills += 1;
        } else {
            workers[victim].stop();
            tokio::time::sleep(WATCHDOG * random.random_range(5..25) / 10).await;
            workers[victim].cont();
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(20..200))).await;
    }
    for worker in workers {
        worker.end().await;
    }
    let record = scene.record();
    assert_eq!(check::overlaps(&record.claims), []);
    let (claims, losses) = (record.claims.len(), record.losses);
    assert!(claims > 50, "{claims} claims are too few");
    // Without a check at the resource nobody promises this while processes are stopped. Those that
    // are killed can have written without a mark, or marked without a write.
    let lost = record.writes.saturating_sub(scene.counted());
    println!("{claims} claims, {kills} kills, {losses} losses, {lost} updates lost or not made");
    until_gone(&mut scene.server.raw().await, NAME).await;
}

#[tokio::test]
async fn another_process_sees_the_lock() {
    let scene = Scene::new().await;
    let lock = client(&scene.server.url()).await.lock(NAME);
    let mut worker = scene.listener();
    worker.order("take").await;
    worker.answer("asking").await;
    let held = worker.answer("held").await;
    assert!(lock.is_locked().await.unwrap());
    let info = lock.inspect().await.unwrap().expect("it is held");
    assert_eq!((info.owner, info.holds), (held[1].clone(), 1));
    assert!(lock.try_lock(Duration::ZERO, LONG).await.unwrap().is_none());
    worker.order("give").await;
    worker.answer("given").await;
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test]
async fn a_lock_of_a_killed_process_is_free_when_its_lease_has_ended() {
    let scene = Scene::new().await;
    let client = client(&scene.server.url()).await;
    let mut raw = scene.server.raw().await;
    let mut worker = scene.listener();
    worker.order("take").await;
    worker.answer("asking").await;
    worker.answer("held").await;
    worker.kill().await;
    let (killed, left) = (Instant::now(), pttl(&mut raw, NAME).await);
    assert!(left <= WATCHDOG.as_millis().try_into().unwrap(), "{left} ms");
    let guard = client.lock(NAME).try_lock(PATIENCE, LONG).await.unwrap().expect("in the end");
    let took = killed.elapsed();
    assert!(took < WATCHDOG + Duration::from_secs(2), "{took:?}");
    assert!(is_held_by(&mut raw, &guard).await);
}

// B169
#[tokio::test]
async fn permits_of_a_killed_process_stay_away_until_somebody_adds_them() {
    let scene = Scene::new().await;
    let semaphore = client(&scene.server.url()).await.semaphore(NAME);
    semaphore.try_set_permits(1).await.unwrap();
    let mut worker = Worker::start(PROGRAM, &scene.job(Object::Permits, Orders::Listen));
    worker.order("take").await;
    worker.answer("asking").await;
    worker.answer("held").await;
    worker.kill().await;
    let waiter = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.try_acquire(1, PATIENCE).await }
    });
    let mut raw = scene.server.raw().await;
    until_subscribed(&mut raw, "redisson_sc:{x}", 1).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    semaphore.release(1).await.unwrap();
    waiter.await.unwrap().unwrap().expect("it was woken").release().await.unwrap();
    assert_eq!(permits(&mut raw, NAME).await, 1);
}

// B026, B046, B047
#[tokio::test]
async fn a_stopped_process_knows_of_its_loss_before_its_next_write() {
    let scene = Scene::new().await;
    let (client, mut raw) = (client(&scene.server.url()).await, scene.server.raw().await);
    let mut worker = scene.listener();
    worker.order("take").await;
    worker.answer("asking").await;
    let held = worker.answer("held").await;
    worker.stop();
    let guard = client.lock(NAME).try_lock(PATIENCE, LONG).await.unwrap().expect("in the end");
    let taken = Duration::from_micros(now());
    worker.cont();
    assert_eq!(worker.answer("lost").await[1], "Expired");
    let record = scene.record();
    let [claim] = &record.claims[..] else { panic!("{record:?}") };
    assert_eq!(claim.owner, held[1]);
    assert!(claim.to < taken, "the last mark is older than the next grant");
    // Nor does what it sends now change anything.
    worker.order("give").await;
    worker.answer("error").await;
    assert!(is_held_by(&mut raw, &guard).await);
    assert!(pttl(&mut raw, NAME).await > 500_000);
    // Not even after it is free again is it taken by a late renewal.
    guard.unlock().await.unwrap();
    tokio::time::sleep(WATCHDOG).await;
    assert_eq!(pttl(&mut raw, NAME).await, -2);
}

#[tokio::test]
async fn a_waiting_process_is_woken_by_the_release() {
    let scene = Scene::new().await;
    let client = client(&scene.server.url()).await;
    let guard = client.lock(NAME).try_lock(Duration::ZERO, LONG).await.unwrap().expect("free");
    let mut job = scene.job(Object::Lock, Orders::Listen);
    job.poll_ms = LONG.as_millis().try_into().unwrap();
    let mut worker = Worker::start(PROGRAM, &job);
    worker.order("take").await;
    worker.answer("asking").await;
    let mut raw = scene.server.raw().await;
    until_subscribed(&mut raw, "redisson_lock__channel:{x}", 1).await;
    let released = now();
    guard.unlock().await.unwrap();
    let held = worker.answer("held").await;
    let took = Duration::from_micros(held[2].parse::<u64>().unwrap() - released);
    // Neither the lease nor the poll interval has ended: both are minutes.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

// B020
#[tokio::test]
async fn many_processes_die_and_leave_nothing_but_their_last_lease() {
    let scene = Scene::new().await;
    let mut raw = scene.server.raw().await;
    for seed in 0..6 {
        let (worker, before) = (scene.competitor(Object::Lock, u64::MAX, seed), scene.begun());
        poll_until("it has taken the lock", PATIENCE, async || scene.begun() > before).await;
        worker.kill().await;
    }
    until_gone(&mut raw, NAME).await;
    poll_until("their connections are gone", PATIENCE, async || {
        raw.client_count().await.unwrap() == 0
    })
    .await;
    assert_eq!(raw.pubsub_channels().await.unwrap(), [""; 0]);
    for key in raw.keys().await.unwrap() {
        assert!(pttl(&mut raw, &key).await > 0, "{key} has no end");
    }
}
