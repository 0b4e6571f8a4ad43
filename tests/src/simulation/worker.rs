//! One task of a participant.

use std::{future::Future, sync::Arc, time::Duration};

use ferrisson_core::{
    Client, Error, Lease, LockGuard, LockHandle, LossReason, Refusal,
    backend::{LockKey, LockKind},
};
use ferrisson_testkit::history::Ending;
use rand::{Rng, rngs::SmallRng};
use tokio::time::{self, Instant};

use crate::world::{COMMAND_TIMEOUT, LOCKS, PATIENCE, PERMITS, SEMAPHORE, World};

/// What is left of such a lease is still there in the end.
const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn work(world: Arc<World>, client: Client, rng: SmallRng, until: Instant) {
    let mut worker = Worker { world: &world, client, rng };
    while Instant::now() < until && !worker.client.is_closed() {
        match worker.rng.random_range(0..10) {
            0..6 => worker.lock().await,
            6..9 => worker.permits().await,
            _ => time::sleep(worker.millis(0, 300)).await,
        }
    }
}

pub(crate) fn handle(client: &Client, name: &str, kind: LockKind) -> LockHandle {
    match kind {
        LockKind::Plain => client.plain_lock(name),
        _ => client.lock(name),
    }
}

struct Worker<'a> {
    world: &'a World,
    client: Client,
    rng: SmallRng,
}

impl Worker<'_> {
    /// One acquisition and what follows.
    async fn lock(&mut self) {
        let (name, kind) = LOCKS[usize::from(self.chance(25))];
        let lock = handle(&self.client, name, kind);
        let lease = match self.rng.random_range(0..10) {
            0..3 => Lease::AutoRenew,
            3..6 => Lease::Fixed(Duration::from_millis(600)),
            6 if self.world.cleans_up() => Lease::Fixed(LONG),
            _ => Lease::Fixed(self.millis(20, 900)),
        };
        let wait = if self.chance(20) { Duration::ZERO } else { self.millis(1, 1500) };
        let give_up = self.sometimes(25, 0, 1000);
        let limit = wait + COMMAND_TIMEOUT;
        let locked = self.within(limit, cancelled_after(give_up, lock.try_lock(wait, lease))).await;
        match locked {
            Some(Ok(Some(guard))) => {
                self.hold(guard, LockKey { kind, name: name.into() }, lease).await
            }
            Some(Ok(None)) | None => {}
            Some(Err(error)) => assert_expected(&error),
        }
    }

    /// Works under a lock, for a while or until it is lost.
    async fn hold(&mut self, guard: LockGuard, key: LockKey, lease: Lease) {
        let claim = self.world.history.claim(key.name.as_str(), &guard.owner(), 1);
        let tally = self.world.tally(key.name.as_str());
        let read = tally.read();
        let mut inner = Vec::new();
        for _ in 0..self.rng.random_range(0..5) {
            self.assert_covered(&guard, &key);
            let step = self.step(&guard, &mut inner);
            if let Err(error) = guard.run(step).await {
                let Error::LeaseLost { reason, .. } = error else { panic!("{error}") };
                assert_ne!(reason, LossReason::Taken, "nobody takes locks away here");
                claim.end(Ending::Lost);
                time::sleep(self.millis(0, 300)).await;
                assert!(!guard.is_held(), "what was lost is not held again");
                return self.release(guard, lease).await;
            }
        }
        if guard.is_held() {
            self.assert_covered(&guard, &key);
            tally.write_next(read);
            claim.end(Ending::Released);
        } else {
            claim.end(Ending::Lost);
        }
        drop(inner);
        self.release(guard, lease).await;
    }

    async fn step(&mut self, guard: &LockGuard, inner: &mut Vec<LockGuard>) {
        match self.rng.random_range(0..10) {
            0 => {
                let lease = self.millis(20, 900);
                // One renewal that is under way comes first.
                let renewed = self.within(COMMAND_TIMEOUT * 2, guard.renew(lease)).await;
                renewed.unwrap_or_else(|error| assert_expected(&error));
            }
            1 if inner.len() < 2 => match self.within(COMMAND_TIMEOUT, guard.reenter()).await {
                Ok(again) => inner.push(again),
                Err(Error::InvalidArgument { .. }) => {}
                Err(error) => assert_expected(&error),
            },
            2 => {
                let Some(again) = inner.pop() else { return };
                let unlocked = self.within(COMMAND_TIMEOUT, again.unlock()).await;
                unlocked.unwrap_or_else(|error| assert_expected(&error));
            }
            _ => time::sleep(self.millis(0, 300)).await,
        }
    }

    async fn release(&mut self, guard: LockGuard, lease: Lease) {
        match self.rng.random_range(0..10) {
            0..2 => drop(guard),
            2 if lease != Lease::Fixed(LONG) => guard.forget(),
            3 => {
                let after = Some(self.millis(0, 50));
                drop(cancelled_after(after, guard.unlock()).await);
            }
            _ => {
                let unlocked = self.within(PATIENCE + COMMAND_TIMEOUT, guard.unlock()).await;
                unlocked.unwrap_or_else(|error| assert_expected(&error));
            }
        }
    }

    /// What a guard says of itself at this moment is true in the store.
    fn assert_covered(&self, guard: &LockGuard, key: &LockKey) {
        if guard.is_held() {
            let (owner, until) = self.world.store.holder(key).expect("the store has the lock");
            assert_eq!(owner, guard.owner());
            assert!(Instant::now() + guard.remaining() <= until, "the guard counts on too much");
        }
    }

    async fn permits(&mut self) {
        let semaphore = self.client.semaphore(SEMAPHORE);
        let permits = self.rng.random_range(1..=PERMITS);
        let wait = if self.chance(20) { Duration::ZERO } else { self.millis(1, 1500) };
        let give_up = self.sometimes(25, 0, 1000);
        let acquire = cancelled_after(give_up, semaphore.try_acquire(permits, wait));
        let permit = match self.within(wait + COMMAND_TIMEOUT, acquire).await {
            Some(Ok(Some(permit))) => permit,
            Some(Ok(None)) | None => return,
            Some(Err(error)) => return assert_expected(&error),
        };
        let claim = self.world.history.claim(SEMAPHORE, &"anybody", permits);
        time::sleep(self.millis(0, 300)).await;
        claim.end(Ending::Released);
        match self.rng.random_range(0..10) {
            0..2 => drop(permit),
            2 => {
                let after = Some(self.millis(0, 50));
                drop(cancelled_after(after, permit.release()).await);
            }
            _ => {
                let released = self.within(PATIENCE + COMMAND_TIMEOUT, permit.release()).await;
                released.unwrap_or_else(|error| assert_expected(&error));
            }
        }
    }

    /// Every call ends in its time.
    async fn within<F: Future>(&self, limit: Duration, call: F) -> F::Output {
        let output = time::timeout(limit + self.world.slack(), call).await;
        output.unwrap_or_else(|_| panic!("a call that has to end within {limit:?} did not"))
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.rng.random_range(from..=to))
    }

    fn sometimes(&mut self, percent: u32, from: u64, to: u64) -> Option<Duration> {
        let time = self.millis(from, to);
        self.chance(percent).then_some(time)
    }
}

/// Drops a call after a time; its output if it ends before.
async fn cancelled_after<F: Future>(time: Option<Duration>, call: F) -> Option<F::Output> {
    match time {
        Some(time) => time::timeout(time, call).await.ok(),
        None => Some(call.await),
    }
}

/// What a network without anybody who takes locks away can do to a call.
fn assert_expected(error: &Error) {
    let is_expected = match error {
        Error::LeaseLost { reason, .. } => *reason != LossReason::Taken,
        Error::Refused { refusal, .. } => *refusal == Refusal::Loading,
        Error::Unavailable { .. } | Error::Closed => true,
        _ => false,
    };
    assert!(is_expected, "{error:?}");
}
