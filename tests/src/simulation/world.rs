//! The participants, their store and their network.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ferrisson_core::{
    Client, Error, Lease,
    backend::{LockKey, LockKind, SemaphoreBackend},
};
use ferrisson_memory::MemoryBackend;
use ferrisson_testkit::{
    Observed,
    check::Tally,
    faulty::{FaultyBackend, LinkProfile, SimLink},
    history::History,
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{self, Instant},
};
use uuid::Uuid;

use crate::{TICK, worker};

pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_millis(200);
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(250);
const WATCHDOG: Duration = Duration::from_millis(600);
/// How long the participants work.
const WORK: Duration = Duration::from_secs(8);
/// Longer than the slowest request, the longest lease and the longest pause of a clean-up.
const SETTLE: Duration = Duration::from_secs(6);

/// In milliseconds.
const LONGEST_PAUSE: u64 = 1200;

pub(crate) const SEMAPHORE: &str = "permits";
pub(crate) const PERMITS: u32 = 3;
pub(crate) const LOCKS: [(&str, LockKind); 2] =
    [("lock", LockKind::Reentrant), ("plain", LockKind::Plain)];

/// What a run, or several, came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(dead_code)] // Read by its `Debug`, which is printed.
pub(crate) struct Outcome {
    pub(crate) seeds: u64,
    pub(crate) grants: usize,
    pub(crate) faults: u64,
    pub(crate) losses: usize,
    pub(crate) virtual_time: Duration,
}

pub(crate) struct World {
    pub(crate) link: SimLink,
    pub(crate) history: History,
    pub(crate) store: Observed,
    memory: MemoryBackend,
    clients: Vec<Client>,
    tallies: BTreeMap<&'static str, Tally>,
    start: Instant,
    seed: u64,
    /// One of the clients is closed in the middle of its work.
    closes: bool,
    /// The machine stands still now and then. What ends meanwhile is noticed late, so only what a
    /// participant does after a look at the clock can be judged.
    pub(crate) pauses: bool,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Arc<Self> {
        let (memory, history) = (MemoryBackend::new(), History::new());
        let store = Observed::new(memory.clone(), &history);
        let link = SimLink::new(seed, LinkProfile::bad());
        memory.init_permits(&SEMAPHORE.into(), PERMITS).await.expect("memory works");
        let clients = (1..=3).map(|number| client(number, &store, &link)).collect();
        let tallies = LOCKS.map(|(name, _)| (name, Tally::default())).into();
        let (start, closes, pauses) = (Instant::now(), seed % 5 == 4, seed % 5 == 3);
        Self { link, history, store, memory, clients, tallies, start, seed, closes, pauses }.into()
    }

    /// Lets all clients work until the time is over.
    pub(crate) async fn run(self: &Arc<Self>) {
        let mut workers = JoinSet::new();
        for (number, client) in self.clients.iter().enumerate() {
            for task in 0..2 {
                let rng = self.rng(1 + 2 * number as u64 + task);
                workers.spawn(worker::work(
                    Arc::clone(self),
                    client.clone(),
                    rng,
                    self.start + WORK,
                ));
            }
        }
        if self.closes {
            time::sleep(WORK.mul_f64(self.rng(0).random_range(0.1..0.9))).await;
            let start = Instant::now();
            self.clients[0].close().await;
            // Its documentation: patience, and 2 s for the last command.
            assert!(start.elapsed() <= PATIENCE + Duration::from_secs(2) + TICK);
        }
        if self.pauses {
            let mut rng = self.rng(0);
            while self.elapsed() < WORK {
                time::sleep(Duration::from_millis(rng.random_range(100..1500))).await;
                time::advance(Duration::from_millis(rng.random_range(50..=LONGEST_PAUSE))).await;
            }
        }
        workers.join_all().await;
    }

    /// By how much a call may be late.
    pub(crate) fn slack(&self) -> Duration {
        if self.pauses { TICK + Duration::from_millis(2 * LONGEST_PAUSE) } else { TICK }
    }

    /// Lets everything that is under way come to its end.
    pub(crate) async fn settle(&self) {
        self.link.calm();
        time::sleep(SETTLE).await;
        self.store.finish();
    }

    pub(crate) async fn assert_nothing_is_left(&self) {
        let objects: Vec<_> =
            self.memory.keys().into_iter().filter(|key| !is_record(key)).collect();
        assert_eq!(objects, [SEMAPHORE], "locks");
        assert_eq!(self.memory.subscriptions(), 0, "subscriptions");
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "tasks");
        let available = self.memory.available_permits(&SEMAPHORE.into()).await;
        match available.expect("memory works") {
            // A closed client asks once to get rid of its permits.
            0..=2 if self.closes => {}
            available => assert_eq!(available, i64::from(PERMITS), "permits"),
        }
        for client in &self.clients[usize::from(self.closes)..] {
            for (name, kind) in LOCKS {
                let lock = worker::handle(client, name, kind);
                let guard = lock.try_lock(Duration::ZERO, WATCHDOG).await.expect("a good network");
                guard.expect("a free lock").unlock().await.expect("held");
            }
        }
        if self.closes {
            let closed = self.clients[0].lock("lock").try_lock(PATIENCE, Lease::AutoRenew).await;
            assert!(matches!(closed, Err(Error::Closed)));
        }
    }

    /// Whether nobody leaves anything that only the end of its lease removes.
    pub(crate) fn cleans_up(&self) -> bool {
        !self.closes
    }

    /// What the lock protects.
    pub(crate) fn tally(&self, name: &str) -> &Tally {
        &self.tallies[name]
    }

    pub(crate) fn lost_updates(&self) -> u64 {
        self.tallies.values().map(Tally::lost_updates).sum()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn rng(&self, stream: u64) -> SmallRng {
        SmallRng::seed_from_u64(self.seed.wrapping_mul(1_000_003).wrapping_add(stream))
    }
}

fn client(number: u128, store: &Observed, link: &SimLink) -> Client {
    let backend = FaultyBackend::new(store.clone())
        .with_link(link.fork())
        .with_command_timeout(COMMAND_TIMEOUT);
    let builder = Client::builder(backend).id(Uuid::from_u128(number)).watchdog_lease(WATCHDOG);
    builder.poll_interval(POLL).patience(PATIENCE).build().expect("valid settings")
}

fn is_record(key: &str) -> bool {
    key.starts_with("abandoned:") || key.starts_with("permits:")
}

/// Two clients hand a lock to and fro; nobody is ever told of a release.
pub(crate) async fn without_signals(seed: u64) {
    let (memory, history) = (MemoryBackend::new(), History::new());
    let store = Observed::new(memory, &history);
    let link = SimLink::new(seed, LinkProfile { lost_signal: 1000, ..LinkProfile::good() });
    let clients = [client(1, &store, &link), client(2, &store, &link)];
    let mut rng = SmallRng::seed_from_u64(seed);
    let key = LockKey { kind: LockKind::Reentrant, name: "lock".into() };
    let mut guard = clients[0].lock("lock").lock().await.expect("a good network");
    for turn in 1..20 {
        let next = clients[turn % 2].lock("lock");
        let waiting = tokio::spawn(async move { next.lock().await });
        time::sleep(Duration::from_millis(rng.random_range(0..600))).await;
        assert_eq!(store.holder(&key).map(|(owner, _)| owner), Some(guard.owner()));
        guard.unlock().await.expect("held");
        let free = Instant::now();
        guard = waiting.await.expect("no panic").expect("a good network");
        // The poll interval is spread by a tenth; then there and back.
        assert!(free.elapsed() <= POLL.mul_f64(1.1) + Duration::from_millis(6) + TICK);
    }
}
