//! Every public async fn, dropped at every point at which it can be: it leaves nothing behind.
//!
//! Each call is polled so many times and then dropped, at once or just before it would have seen
//! the news that it was woken for, on a slow network and on one that loses, over and over until a
//! cut comes too late. After each cut the store, the subscriptions and the tasks are looked at.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cancellation/buckets.rs"]
mod buckets;
#[path = "cancellation/locks.rs"]
mod locks;
#[path = "cancellation/semaphores.rs"]
mod semaphores;

use std::time::Duration;

use ferrisson_core::{Client, Lease, LockGuard};
use ferrisson_memory::MemoryBackend;
use ferrisson_testkit::{
    cancel::{Cut, at_every_cut},
    faulty::{Fault, Faults, FaultyBackend, LinkProfile, Op, SimLink},
};
use tokio::{runtime::Handle, time};

/// One way through the network.
const LATENCY: Duration = Duration::from_millis(5);
const ROUND_TRIP: Duration = Duration::from_millis(10);
/// Longer than anything that is still under way after a cut.
const SETTLE: Duration = Duration::from_secs(8);
const LEASE: Duration = Duration::from_secs(60);
/// Nothing takes that long.
const HANG: Duration = Duration::from_secs(3600);

/// What happens to the first request of the call that is cut.
#[derive(Clone, Copy, Debug)]
enum Network {
    Slow,
    /// The reply of the first of these operations is lost.
    LosesReply,
    /// The first of these operations is executed three seconds late.
    Late,
}

const NETWORKS: [Network; 3] = [Network::Slow, Network::LosesReply, Network::Late];

/// A client whose calls are cut, and a stranger that looks and is in the way.
struct Env {
    memory: MemoryBackend,
    faults: Faults,
    client: Client,
    stranger: Client,
}

impl Env {
    fn new() -> Self {
        let memory = MemoryBackend::new();
        let millis = u64::try_from(LATENCY.as_millis()).unwrap();
        let profile = LinkProfile { latency: millis..=millis, ..LinkProfile::good() };
        let backend = FaultyBackend::new(memory.clone())
            .with_link(SimLink::new(1, profile))
            .with_command_timeout(Duration::from_millis(200));
        let faults = backend.faults();
        let stranger = Client::new(memory.clone());
        Self { memory, faults, client: Client::new(backend), stranger }
    }

    /// Plans what the network does to the first operation of this kind.
    fn plan(&self, network: Network, op: Op) {
        match network {
            Network::Slow => {}
            Network::LosesReply => self.faults.fail_next(op, 1, Fault::LostReply),
            Network::Late => self.faults.fail_next(op, 1, Fault::Late(Duration::from_secs(3))),
        }
    }

    /// The lock, held by the client under test.
    async fn held(&self) -> LockGuard {
        self.client.lock("x").lock_with(LEASE).await.unwrap()
    }

    /// The lock, held by the stranger.
    async fn held_by_stranger(&self) -> LockGuard {
        self.stranger.lock("x").lock_with(LEASE).await.unwrap()
    }

    /// What the store has, apart from what it remembers of owners.
    fn objects(&self) -> Vec<String> {
        let is_record = |key: &String| key.starts_with("abandoned:") || key.starts_with("permits:");
        self.memory.keys().into_iter().filter(|key| !is_record(key)).collect()
    }

    /// No subscription, no task, and anybody gets the lock at once.
    async fn assert_nothing_is_left(&self) {
        assert_eq!(self.memory.subscriptions(), 0, "subscriptions");
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "tasks");
        for client in [&self.stranger, &self.client] {
            if client.is_closed() {
                continue;
            }
            let guard = client.lock("x").try_lock(Duration::ZERO, LEASE).await.unwrap();
            guard.expect("the lock is free").unlock().await.unwrap();
        }
        // The place in the row is gone too: a waiter does not stand behind a ghost.
        if !self.client.is_closed() {
            let lock = self.client.lock("x");
            let guard =
                time::timeout(ROUND_TRIP * 3, lock.lock_with(LEASE)).await.expect("at once");
            guard.unwrap().unlock().await.unwrap();
        }
    }
}

/// Runs the scenario in a fresh world for each network and cut, and looks what it leaves.
async fn leaves_nothing(scenario: impl AsyncFn(&Env, Network, Cut) -> bool) {
    let mut cuts = 0;
    for network in NETWORKS {
        cuts += at_every_cut(async |cut| {
            let env = Env::new();
            let scenario = time::timeout(HANG, scenario(&env, network, cut));
            let is_cancelled = scenario.await.expect("everybody waits for somebody");
            // What is not sent any more does not fail any more.
            env.faults.heal();
            time::sleep(SETTLE).await;
            env.assert_nothing_is_left().await;
            is_cancelled
        })
        .await;
    }
    assert!(cuts >= 9, "a call over a network has points at which it can be cut: {cuts}");
}

/// Nothing was polled, so nothing was sent.
fn is_untouched(cut: Cut) -> bool {
    matches!(cut, Cut::After(0) | Cut::Before(0))
}

#[tokio::test(start_paused = true)]
async fn a_dropped_close_closes() {
    for network in NETWORKS {
        at_every_cut(async |cut| {
            let env = Env::new();
            let guard = env.client.lock("x").lock_with(Lease::AutoRenew).await.unwrap();
            env.plan(network, Op::Release);
            let cancelled = ferrisson_testkit::cancel::cancel_at(env.client.close(), cut).await;
            time::sleep(SETTLE).await;
            if is_untouched(cut) {
                assert!(guard.is_held() && !env.client.is_closed());
                guard.unlock().await.unwrap();
                time::sleep(SETTLE).await;
            } else {
                assert!(!guard.is_held() && env.client.is_closed());
                drop(guard);
            }
            if env.client.is_closed() && !matches!(network, Network::Slow) {
                // Not repeated after the end, so perhaps only the lease ends it.
                time::sleep(Duration::from_secs(31)).await;
            }
            assert_eq!(env.objects(), [""; 0]);
            env.assert_nothing_is_left().await;
            cancelled.is_none()
        })
        .await;
    }
}
