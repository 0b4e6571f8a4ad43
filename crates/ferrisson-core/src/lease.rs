//! How long a hold lasts.

use std::time::Duration;

use crate::{
    error::{Error, Result},
    name::Name,
};

/// Shortest lease that can be asked for. Below it the safety margin would leave nothing.
pub const MIN_LEASE: Duration = Duration::from_millis(10);

/// Longest lease or time to live that can be asked for: a hundred years.
pub const MAX_LEASE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How long a hold lasts when nobody releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lease {
    /// Lives as long as its guard: the watchdog extends it at a third of the client's watchdog
    /// lease (30 s unless configured). When the process dies it ends within that lease.
    AutoRenew,
    /// Ends after this time, measured from before the request was sent; nothing extends it.
    Fixed(Duration),
}

impl From<Duration> for Lease {
    fn from(lease: Duration) -> Self {
        Self::Fixed(lease)
    }
}

impl Lease {
    /// The time that a backend is asked for, in whole milliseconds, rounded up.
    pub(crate) fn duration(self, watchdog: Duration, name: &Name) -> Result<Duration> {
        match self {
            Self::AutoRenew => Ok(watchdog),
            Self::Fixed(lease) => check_lease(lease, name),
        }
    }
}

/// Rounds a lease up to whole milliseconds and refuses what no server can keep.
pub(crate) fn check_lease(lease: Duration, name: &Name) -> Result<Duration> {
    if lease < MIN_LEASE {
        return Err(Error::invalid(name, "lease", "it is shorter than 10 ms"));
    }
    if lease > MAX_LEASE {
        return Err(Error::invalid(name, "lease", "it is longer than 100 years"));
    }
    Ok(round_up(lease))
}

/// Rounds a time to live up to whole milliseconds; zero has no meaning.
pub(crate) fn check_ttl(ttl: Duration, name: &Name) -> Result<Duration> {
    if ttl.is_zero() {
        return Err(Error::invalid(name, "time to live", "it is zero"));
    }
    if ttl > MAX_LEASE {
        return Err(Error::invalid(name, "time to live", "it is longer than 100 years"));
    }
    Ok(round_up(ttl))
}

fn round_up(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_rounded_up_and_bounded() {
        let name = Name::new("x");
        let of = |lease: Duration| Lease::from(lease).duration(Duration::from_secs(30), &name);
        assert_eq!(of(Duration::from_micros(10_001)).unwrap(), Duration::from_millis(11));
        assert_eq!(of(MAX_LEASE).unwrap(), MAX_LEASE);
        for bad in [Duration::ZERO, Duration::from_micros(9_999), Duration::MAX] {
            assert!(matches!(of(bad), Err(Error::InvalidArgument { .. })), "{bad:?}");
        }
        let auto = Lease::AutoRenew.duration(Duration::from_secs(30), &name);
        assert_eq!(auto.unwrap(), Duration::from_secs(30));
    }

    #[test]
    fn a_ttl_of_nothing_is_refused_and_a_tiny_one_rounded_up() {
        let name = Name::new("x");
        assert!(check_ttl(Duration::ZERO, &name).is_err());
        assert!(check_ttl(Duration::MAX, &name).is_err());
        assert_eq!(check_ttl(Duration::from_nanos(1), &name).unwrap(), Duration::from_millis(1));
    }
}
