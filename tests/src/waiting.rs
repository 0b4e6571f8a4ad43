//! Whoever waits is woken, waits as long as it was told, and leaves nothing when it goes. On the
//! in-process backend, with paused time. The ids are those of the table of fault cases in the book.

#[path = "waiting/budget.rs"]
mod budget;
#[path = "waiting/cancel.rs"]
mod cancel;
#[path = "waiting/crowds.rs"]
mod crowds;
#[path = "waiting/wakeups.rs"]
mod wakeups;
