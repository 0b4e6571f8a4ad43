//! Checkers of histories: each answers with every violation that it finds.

mod intervals;
mod resource;
mod tokens;

use std::time::Duration;

pub use self::{
    intervals::{late_notices, min_notice, overbooked, overlaps, uncovered},
    resource::{Fenced, Stale, Tally},
    tokens::token_regressions,
};
use crate::history::{Claim, Interval};

/// What must never happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what each is.
pub enum Violation {
    #[error("two have it at one time: {0:?} and {1:?}")]
    Overlap(Interval, Interval),
    #[error("the store did not have {0:?}, only {1:?}")]
    Uncovered(Interval, Vec<Interval>),
    #[error("{permits} of {limit} permits of {name:?} are taken at {at:?}")]
    Overbooked { name: String, at: Duration, permits: u64, limit: u64 },
    #[error("the loss of {0:?} was told only after the grant {1:?}")]
    LateNotice(Interval, Interval),
    #[error("the token of {1:?} is not greater than that of {0:?}")]
    TokenRegression(Claim, Claim),
}
