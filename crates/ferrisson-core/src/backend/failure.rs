use std::fmt;

use crate::error::{Cause, Outcome, Refusal};

/// Why an operation of a backend failed. The engine adds the operation and the name of the object.
#[derive(Clone, Debug)]
pub struct BackendError {
    failure: Failure,
    source: Cause,
}

/// The kinds of failure that a caller can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// Not reached, or no answer in time.
    Unavailable(Outcome),
    /// The store answered that it will not do it. Nothing was changed.
    Refused(Refusal),
    /// The key holds a value of another type. Nothing was changed.
    WrongType,
    /// The store answered something that is not understood. What it did is unknown.
    Unexpected,
    /// The backend was closed. Nothing was changed.
    Closed,
}

impl BackendError {
    /// A failure and its cause.
    pub fn new(
        failure: Failure,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { failure, source: Cause::from(source.into()) }
    }

    /// The kind of failure.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        self.failure
    }

    /// Whether the operation can have had, or can still have, an effect.
    #[must_use]
    pub const fn is_ambiguous(&self) -> bool {
        matches!(self.failure, Failure::Unavailable(Outcome::Unknown) | Failure::Unexpected)
    }

    /// Whether a waiting call should try again by itself.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self.failure {
            Failure::Unavailable(_) => true,
            Failure::Refused(refusal) => refusal.is_transient(),
            Failure::WrongType | Failure::Unexpected | Failure::Closed => false,
        }
    }

    pub(crate) fn into_parts(self) -> (Failure, Cause) {
        (self.failure, self.source)
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failure {
            Failure::Unavailable(outcome) => write!(f, "backend unavailable ({outcome})"),
            Failure::Refused(refusal) => write!(f, "refused: {refusal}"),
            Failure::WrongType => f.write_str("the key holds a value of another type"),
            Failure::Unexpected => f.write_str("unexpected answer"),
            Failure::Closed => f.write_str("the backend is closed"),
        }
    }
}

impl std::error::Error for BackendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}
