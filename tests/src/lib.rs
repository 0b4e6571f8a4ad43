//! Shared pieces of the suites.

pub mod real;
pub mod worker;
