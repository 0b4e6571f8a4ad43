//! The watchdog keeps what is held, lets go what is not, and tells in time what it could not keep.
//! On the in-process backend, with paused time. The ids are those of the table of fault cases in
//! the book.

#[path = "watchdog/endings.rs"]
mod endings;
#[path = "watchdog/keeping.rs"]
mod keeping;
#[path = "watchdog/loss.rs"]
mod loss;

use ferrisson_core::Client;
use ferrisson_tests::inproc::{World, ms};
use tokio::time::Duration;

/// The watchdog's lease in most of these tests.
const W: Duration = ms(300);

/// A client with that lease, whose network can fail.
fn watched_by(world: &World) -> Client {
    world.builder().watchdog_lease(W).build().expect("the lease is long enough")
}
