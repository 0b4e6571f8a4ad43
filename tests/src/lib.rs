//! Shared pieces of the suites.

pub mod inproc;
pub mod real;
pub mod worker;
