//! Traits, engine and vocabulary of ferrisson.
pub mod backend;
pub mod codec;
mod error;
mod lease;
mod name;
mod owner;

pub use self::{
    error::{Cause, Error, LossReason, Outcome, Refusal, Result},
    lease::{Lease, MAX_LEASE, MIN_LEASE},
    name::{MAX_NAME_LEN, Name},
    owner::{FencingToken, OwnerId},
};
