use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ferrisson_core::{Outcome, Refusal, backend::Failure};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::{self, Instant};

use super::Fate;

/// How bad a network is. Chances are in thousandths of all operations, times in milliseconds.
#[derive(Clone, Debug)]
pub struct LinkProfile {
    /// One way, of an operation that nothing happens to.
    pub latency: RangeInclusive<u64>,
    /// Request or reply are slow.
    pub slow: u32,
    /// How slow.
    pub slow_for: RangeInclusive<u64>,
    /// The request is never executed.
    pub lost_request: u32,
    /// The reply never comes.
    pub lost_reply: u32,
    /// The connection breaks, and the request is executed all the same, much later.
    pub zombie: u32,
    /// How much later.
    pub zombie_after: RangeInclusive<u64>,
    /// The connection is known to be down.
    pub not_executed: u32,
    /// The store refuses, since it loads its data.
    pub refused: u32,
    /// The store stops working for a while. Requests that arrive wait.
    pub stall: u32,
    /// For how long.
    pub stall_for: RangeInclusive<u64>,
    /// All that this participant sends is lost for a while, on the way there or on the way back.
    pub outage: u32,
    /// For how long.
    pub outage_for: RangeInclusive<u64>,
    /// A signal of a release is lost.
    pub lost_signal: u32,
    /// A signal of a release is slow.
    pub slow_signal: u32,
}

impl LinkProfile {
    /// A network without faults.
    #[must_use]
    pub const fn good() -> Self {
        Self {
            latency: 0..=3,
            slow: 0,
            slow_for: 0..=0,
            lost_request: 0,
            lost_reply: 0,
            zombie: 0,
            zombie_after: 0..=0,
            not_executed: 0,
            refused: 0,
            stall: 0,
            stall_for: 0..=0,
            outage: 0,
            outage_for: 0..=0,
            lost_signal: 0,
            slow_signal: 0,
        }
    }

    /// A network in which about one operation in seven goes wrong, for leases of about 600 ms.
    #[must_use]
    pub const fn bad() -> Self {
        Self {
            slow: 40,
            slow_for: 5..=1500,
            lost_request: 20,
            lost_reply: 20,
            zombie: 20,
            zombie_after: 5..=3000,
            not_executed: 15,
            refused: 10,
            stall: 4,
            stall_for: 20..=900,
            outage: 4,
            outage_for: 100..=1500,
            lost_signal: 200,
            slow_signal: 200,
            ..Self::good()
        }
    }
}

/// A network that fails at random, in the same way each time it is made of the same seed.
///
/// Clones are the same link. [`fork`](Self::fork) makes the link of another participant to the
/// same store, with outages of its own.
#[derive(Clone, Debug)]
pub struct SimLink {
    profile: Arc<LinkProfile>,
    shared: Arc<Mutex<Shared>>,
    /// Until when all is lost.
    outage: Arc<Mutex<Instant>>,
}

#[derive(Debug)]
struct Shared {
    rng: SmallRng,
    stalled_until: Instant,
    is_calm: bool,
    faults: u64,
}

impl SimLink {
    /// A link with its own store at the other end.
    #[must_use]
    pub fn new(seed: u64, profile: LinkProfile) -> Self {
        let now = Instant::now();
        let rng = SmallRng::seed_from_u64(seed);
        Self {
            profile: Arc::new(profile),
            shared: Arc::new(Mutex::new(Shared {
                rng,
                stalled_until: now,
                is_calm: false,
                faults: 0,
            })),
            outage: Arc::new(Mutex::new(now)),
        }
    }

    /// The link of another participant.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { outage: Arc::new(Mutex::new(Instant::now())), ..self.clone() }
    }

    /// No more faults, for all participants. What is lost or late stays so.
    pub fn calm(&self) {
        let mut shared = lock(&self.shared);
        (shared.is_calm, shared.stalled_until) = (true, Instant::now());
    }

    /// How many faults have happened.
    #[must_use]
    pub fn faults(&self) -> u64 {
        lock(&self.shared).faults
    }

    /// Decides what happens to an operation.
    pub(super) fn fate(&self) -> Fate {
        let profile = &*self.profile;
        let mut shared = lock(&self.shared);
        let mut fate = Fate {
            request_takes: shared.pick(&profile.latency),
            reply_takes: shared.pick(&profile.latency),
            ..Fate::default()
        };
        let roll = shared.roll();
        if shared.is_calm {
            return fate;
        }
        if Instant::now() < *lock(&self.outage) {
            shared.faults += 1;
            (fate.request_lost, fate.reply_lost) = (roll < 700, true);
            fate.is_cut = roll.is_multiple_of(2);
            return fate;
        }
        shared.decide(profile, &self.outage, roll, &mut fate);
        shared.faults += u64::from(fate.is_faulty());
        fate
    }

    /// Decides what happens to a signal: `None` if it is lost, or how long it takes.
    pub(super) fn signal(&self) -> Option<Duration> {
        let profile = &*self.profile;
        let mut shared = lock(&self.shared);
        let (roll, latency) = (shared.roll(), shared.pick(&profile.latency));
        if shared.is_calm {
            return Some(latency);
        }
        let is_cut = Instant::now() < *lock(&self.outage);
        if roll < profile.lost_signal || is_cut {
            return None;
        }
        let is_slow = roll < profile.lost_signal + profile.slow_signal;
        Some(if is_slow { shared.pick(&profile.slow_for) } else { latency })
    }

    /// Waits until the store works.
    pub(super) async fn served(&self) {
        loop {
            let until = lock(&self.shared).stalled_until;
            if until <= Instant::now() {
                return;
            }
            time::sleep_until(until).await;
        }
    }
}

impl Shared {
    fn decide(
        &mut self,
        profile: &LinkProfile,
        outage: &Mutex<Instant>,
        roll: u32,
        fate: &mut Fate,
    ) {
        let mut below = 0;
        let mut is = |chance: u32| {
            below += chance;
            (below - chance..below).contains(&roll)
        };
        if is(profile.slow) {
            let slow = self.pick(&profile.slow_for);
            let way = if self.toss() { &mut fate.request_takes } else { &mut fate.reply_takes };
            *way = slow;
        } else if is(profile.lost_request) {
            (fate.request_lost, fate.is_cut) = (true, self.toss());
        } else if is(profile.lost_reply) {
            (fate.reply_lost, fate.is_cut) = (true, self.toss());
        } else if is(profile.zombie) {
            (fate.request_takes, fate.is_cut) = (self.pick(&profile.zombie_after), self.toss());
        } else if is(profile.not_executed) {
            fate.failure = Some(Failure::Unavailable(Outcome::NotExecuted));
        } else if is(profile.refused) {
            fate.failure = Some(Failure::Refused(Refusal::Loading));
        } else if is(profile.stall) {
            self.stalled_until = Instant::now() + self.pick(&profile.stall_for);
        } else if is(profile.outage) {
            *lock(outage) = Instant::now() + self.pick(&profile.outage_for);
        }
    }

    fn roll(&mut self) -> u32 {
        self.rng.random_range(0..1000)
    }

    fn toss(&mut self) -> bool {
        self.rng.random()
    }

    fn pick(&mut self, millis: &RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(millis.clone()))
    }
}

impl Fate {
    fn is_faulty(&self) -> bool {
        let takes = self.request_takes.max(self.reply_takes);
        let is_slow = takes > Duration::from_millis(20);
        self.failure.is_some() || self.request_lost || self.reply_lost || self.is_cut || is_slow
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
