//! The scripts on a real server: state before, reply, state after, as any other client sees them.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as a test does")]

mod bucket;
mod lock;
mod memory;
mod refusals;
mod semaphore;
mod support;
mod transport;
