//! Resources that a lock protects, and that notice when it did not.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A counter that is read and written in two steps. Without mutual exclusion updates get lost.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    value: u64,
    writes: u64,
    highest_token: u64,
}

impl Tally {
    /// The value.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.locked().value
    }

    /// Writes what was read, and one more.
    pub fn write_next(&self, read: u64) {
        let mut counts = self.locked();
        counts.value = read + 1;
        counts.writes += 1;
    }

    /// How many writes have overwritten another that they had not seen.
    #[must_use]
    pub fn lost_updates(&self) -> u64 {
        let counts = self.locked();
        counts.writes - counts.value.min(counts.writes)
    }

    fn locked(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`Tally`] that compares fencing tokens. No update gets lost, whatever the lock does.
#[derive(Debug, Default)]
pub struct Fenced(Tally);

/// The token is older than one that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token {token} is older than {highest}")]
pub struct Stale {
    /// The token that was shown.
    pub token: u64,
    /// The highest that was seen.
    pub highest: u64,
}

impl Fenced {
    /// The value, for a holder that will write it. From here on older holders are refused.
    ///
    /// # Errors
    ///
    /// When there is a newer holder.
    pub fn read(&self, token: u64) -> Result<u64, Stale> {
        Ok(self.admit(token)?.value)
    }

    /// Writes what was read, and one more.
    ///
    /// # Errors
    ///
    /// When there is a newer holder; nothing is written.
    pub fn write_next(&self, token: u64, read: u64) -> Result<(), Stale> {
        let mut counts = self.admit(token)?;
        counts.value = read + 1;
        counts.writes += 1;
        Ok(())
    }

    /// How many writes have overwritten another that they had not seen.
    #[must_use]
    pub fn lost_updates(&self) -> u64 {
        self.0.lost_updates()
    }

    fn admit(&self, token: u64) -> Result<MutexGuard<'_, Counts>, Stale> {
        let mut counts = self.0.locked();
        let highest = counts.highest_token;
        if token < highest {
            return Err(Stale { token, highest });
        }
        counts.highest_token = token;
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_update_is_counted() {
        let tally = Tally::default();
        let (a, b) = (tally.read(), tally.read());
        tally.write_next(a);
        assert_eq!(tally.lost_updates(), 0);
        tally.write_next(b);
        assert_eq!((tally.read(), tally.lost_updates()), (1, 1));
        tally.write_next(tally.read());
        assert_eq!(tally.lost_updates(), 1);
    }

    #[test]
    fn a_fence_keeps_the_stale_writer_out() {
        let fenced = Fenced::default();
        let a = fenced.read(1).unwrap();
        let b = fenced.read(2).unwrap();
        assert_eq!(fenced.write_next(1, a), Err(Stale { token: 1, highest: 2 }));
        fenced.write_next(2, b).unwrap();
        assert_eq!((fenced.read(2), fenced.lost_updates()), (Ok(1), 0));
    }
}
