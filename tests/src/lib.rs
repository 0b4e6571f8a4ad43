//! Shared pieces of the suites.

#[cfg(doctest)]
pub mod book;
pub mod inproc;
pub mod real;
pub mod worker;
