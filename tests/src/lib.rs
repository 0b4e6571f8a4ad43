//! Shared pieces of the suites.
