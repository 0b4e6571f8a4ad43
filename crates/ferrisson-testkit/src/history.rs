//! What happened: who believed to hold what when, and who did.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A time in which somebody had something. Half open: `to` is no longer in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Interval {
    /// What.
    pub name: String,
    /// Who.
    pub owner: String,
    /// How many permits; 1 of a lock.
    pub permits: u32,
    /// Since the start of the history.
    pub from: Duration,
    /// Since the start of the history.
    pub to: Duration,
}

/// A time in which a participant believed to have something, and acted on it.
///
/// It begins when the grant is known and ends when the release is asked for, or the loss is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The time, and of what.
    pub interval: Interval,
    /// The fencing token of the grant, if it had one.
    pub token: Option<u64>,
    /// Why it ended.
    pub ending: Ending,
}

/// Why a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The participant gave it back.
    Released,
    /// The participant was told that it had lost it.
    Lost,
}

/// A growing record. Cheap to clone; clones are the same history.
#[derive(Clone, Debug)]
pub struct History(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    claims: Vec<Claim>,
    truths: Vec<Interval>,
}

impl History {
    /// An empty history that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared { start: Instant::now(), record: Mutex::default() }))
    }

    /// A moment, as the history counts it.
    #[must_use]
    pub fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.0.start)
    }

    /// A participant begins to believe that it has something.
    #[must_use = "the claim ends when this is dropped"]
    pub fn claim(&self, name: &str, owner: &impl ToString, permits: u32) -> OpenClaim {
        let now = self.at(Instant::now());
        let (name, owner) = (name.to_owned(), owner.to_string());
        let interval = Interval { name, owner, permits, from: now, to: now };
        let claim = Claim { interval, token: None, ending: Ending::Released };
        OpenClaim { history: self.clone(), claim }
    }

    /// The store had something for somebody.
    pub fn truth(&self, interval: Interval) {
        self.locked().truths.push(interval);
    }

    /// All claims that have ended.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        self.locked().claims.clone()
    }

    /// All that the store had.
    #[must_use]
    pub fn truths(&self) -> Vec<Interval> {
        self.locked().truths.clone()
    }

    fn locked(&self) -> MutexGuard<'_, Record> {
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

/// A claim that goes on. Dropping it ends it, as a release does.
#[derive(Debug)]
pub struct OpenClaim {
    history: History,
    claim: Claim,
}

impl OpenClaim {
    /// Adds the fencing token.
    pub fn set_token(&mut self, token: u64) {
        self.claim.token = Some(token);
    }

    /// Ends the claim.
    pub fn end(mut self, ending: Ending) {
        self.claim.ending = ending;
    }
}

impl Drop for OpenClaim {
    fn drop(&mut self) {
        self.claim.interval.to = self.history.at(Instant::now());
        self.history.locked().claims.push(self.claim.clone());
    }
}

impl Interval {
    /// Whether they share a moment.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.from.max(other.from) < self.to.min(other.to)
    }

    /// Whether it has every moment of the other one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, owner, permits, from, to } = self;
        write!(f, "{name:?}×{permits} by {owner} in {from:?}..{to:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_claim_lasts_from_its_start_to_its_end() {
        let history = History::new();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut claim = history.claim("x", &7, 1);
        claim.set_token(3);
        tokio::time::sleep(Duration::from_secs(2)).await;
        claim.end(Ending::Lost);
        let claims = history.claims();
        let [Claim { interval, token: Some(3), ending: Ending::Lost }] = &claims[..] else {
            panic!("{claims:?}")
        };
        assert_eq!((interval.from.as_secs(), interval.to.as_secs()), (1, 3));
        drop(history.claim("x", &8, 1));
        assert_eq!(history.claims()[1].ending, Ending::Released);
    }

    #[test]
    fn intervals_that_touch_do_not_intersect() {
        let interval = |from, to| Interval {
            name: "x".into(),
            owner: "a".into(),
            permits: 1,
            from: Duration::from_secs(from),
            to: Duration::from_secs(to),
        };
        assert!(!interval(0, 2).intersects(&interval(2, 3)));
        assert!(!interval(0, 2).intersects(&interval(1, 1)));
        assert!(interval(0, 2).intersects(&interval(1, 3)));
        assert!(interval(0, 2).covers(&interval(0, 2)));
        assert!(!interval(0, 2).covers(&interval(1, 3)));
    }
}
