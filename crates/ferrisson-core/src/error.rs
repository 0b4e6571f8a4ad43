//! What can go wrong, grouped by what the caller can do about it.

use std::{fmt, sync::Arc};

use crate::{backend::BackendError, backend::Failure, name::Name};

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause below an [`Error`]. Shared, so that one failure can be reported to several callers.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why an operation failed. "Not now" is never an error: it is `Ok(None)` or `Ok(false)`.
///
/// Messages name the operation and the object and never contain values or credentials. The cause
/// (with the `fred` backend a `fred::error::Error`) is reached through
/// [`source`](std::error::Error::source).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hold ended before this operation. Stop the protected work.
    #[error("lost {name:?}: {reason}")]
    LeaseLost {
        /// The object that is no longer held.
        name: Name,
        /// How it was lost.
        reason: LossReason,
    },
    /// The backend could not be reached or did not answer in time. A retry may succeed.
    #[error("{operation} of {name:?}: backend unavailable ({outcome})")]
    Unavailable {
        /// What was tried.
        operation: &'static str,
        /// On which object.
        name: Name,
        /// Whether it can have had an effect.
        outcome: Outcome,
        /// What the connection reported.
        source: Cause,
    },
    /// The server answered that it will not do it; nothing was changed.
    #[error("{operation} of {name:?}: refused by the server: {refusal}")]
    Refused {
        /// What was tried.
        operation: &'static str,
        /// On which object.
        name: Name,
        /// Why the server refused.
        refusal: Refusal,
        /// The server's own words.
        source: Cause,
    },
    /// The key of this object holds a value of another type; nothing was changed.
    #[error("{operation} of {name:?}: the key holds a value of another type")]
    WrongType {
        /// What was tried.
        operation: &'static str,
        /// On which object.
        name: Name,
        /// The server's own words.
        source: Cause,
    },
    /// The backend answered something that this version does not understand.
    #[error("{operation} of {name:?}: unexpected answer of the backend")]
    Unexpected {
        /// What was tried.
        operation: &'static str,
        /// On which object.
        name: Name,
        /// What was wrong with the answer.
        source: Cause,
    },
    /// A value could not be encoded or decoded.
    #[error("value of {name:?} cannot be {direction}")]
    Codec {
        /// The bucket.
        name: Name,
        /// `encoded` or `decoded`.
        direction: &'static str,
        /// What the codec reported.
        source: Cause,
    },
    /// An argument or setting that can never work. Fix the call.
    #[error("invalid {what} for {name:?}: {reason}")]
    InvalidArgument {
        /// The object, or the part of the configuration, that the argument was for.
        name: Name,
        /// Which argument.
        what: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// An argument that can never work.
    pub fn invalid(name: &Name, what: &'static str, reason: &'static str) -> Self {
        Self::InvalidArgument { name: name.clone(), what, reason }
    }

    /// Adds to a backend's failure what was tried on which object.
    pub(crate) fn of(operation: &'static str, name: &Name, error: BackendError) -> Self {
        let name = name.clone();
        let (failure, source) = error.into_parts();
        match failure {
            Failure::Unavailable(outcome) => Self::Unavailable { operation, name, outcome, source },
            Failure::Refused(refusal) => Self::Refused { operation, name, refusal, source },
            Failure::WrongType => Self::WrongType { operation, name, source },
            Failure::Unexpected => Self::Unexpected { operation, name, source },
            Failure::Closed => Self::Closed,
        }
    }

    /// Whether the same call may succeed later without a change on the caller's side.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Refused { refusal, .. } => refusal.is_transient(),
            _ => false,
        }
    }

    /// The object that the operation was for.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        match self {
            Self::LeaseLost { name, .. }
            | Self::Unavailable { name, .. }
            | Self::Refused { name, .. }
            | Self::WrongType { name, .. }
            | Self::Unexpected { name, .. }
            | Self::Codec { name, .. }
            | Self::InvalidArgument { name, .. } => Some(name),
            Self::Closed => None,
        }
    }
}

/// Whether a failed operation can have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The server certainly did not execute it.
    NotExecuted,
    /// The request may have been, or may still be, executed.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotExecuted => "not executed",
            Self::Unknown => "outcome unknown",
        })
    }
}

/// Why a server refused a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Wrong or missing credentials (`WRONGPASS`, `NOAUTH`).
    Authentication,
    /// A script of somebody else keeps the server busy (`BUSY`).
    Busy,
    /// The cluster does not serve this key at the moment (`CLUSTERDOWN`, `TRYAGAIN`).
    ClusterDown,
    /// The keys of one call live in different slots (`CROSSSLOT`).
    CrossSlot,
    /// The server loads its data (`LOADING`).
    Loading,
    /// The replica has lost its primary (`MASTERDOWN`).
    PrimaryDown,
    /// The server cannot persist and stops writes (`MISCONF`).
    Misconfigured,
    /// The user may not run the command or touch the key (`NOPERM`).
    NotPermitted,
    /// The count would leave the range of the type.
    Overflow,
    /// The memory limit is reached (`OOM`).
    OutOfMemory,
    /// The server is a replica (`READONLY`).
    ReadOnly,
    /// Too few replicas are connected (`NOREPLICAS`).
    TooFewReplicas,
    /// Anything else; the cause has the server's words.
    Other,
}

impl Refusal {
    /// Whether the refusal passes by itself, so that a waiting call tries again.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Busy | Self::ClusterDown | Self::Loading | Self::PrimaryDown | Self::ReadOnly
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authentication => "authentication failed",
            Self::Busy => "busy with a script",
            Self::ClusterDown => "the cluster does not serve this key",
            Self::CrossSlot => "keys of different slots",
            Self::Loading => "loading its data",
            Self::PrimaryDown => "a replica without its primary",
            Self::Misconfigured => "it cannot persist",
            Self::NotPermitted => "no permission",
            Self::Overflow => "out of range",
            Self::OutOfMemory => "out of memory",
            Self::ReadOnly => "a read-only replica",
            Self::TooFewReplicas => "too few replicas",
            Self::Other => "see the cause",
        })
    }
}

/// How a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease ran out, as far as this process can be sure that it has not.
    Expired,
    /// The server no longer has this owner: the lock was deleted, forced, or taken by another.
    Taken,
    /// The client was closed.
    Closed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lease ran out",
            Self::Taken => "the server no longer has this owner",
            Self::Closed => "the client was closed",
        })
    }
}
