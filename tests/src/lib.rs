//! Shared pieces of the suites.

#[cfg(doctest)]
pub mod book;
pub mod inproc;
pub mod real;
#[cfg(doctest)]
pub mod unused;
pub mod worker;
