//! Only who holds a lock can release or extend it, for as long as it holds it, and is told what
//! became of each call. On the in-process backend, with paused time. The ids are those of the
//! table of fault cases in the book.

#[path = "ownership/errors.rs"]
mod errors;
#[path = "ownership/leases.rs"]
mod leases;
#[path = "ownership/owners.rs"]
mod owners;
#[path = "ownership/repeats.rs"]
mod repeats;

use ferrisson_core::{Error, LossReason};

/// Whether this says that the lock was no longer held.
fn is_lost<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::LeaseLost { .. }))
}

/// Whether this says that the lock was no longer held for this reason.
fn is_lost_as<T>(reason: LossReason, result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::LeaseLost { reason: told, .. }) if *told == reason)
}
