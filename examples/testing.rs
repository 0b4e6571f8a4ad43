//! One function of an application, and three ways to test it.
//!
//! ```text
//! cargo test -p ferrisson-examples --example testing      runs the tests at the end
//! cargo run --example testing                             tells what they show
//! ```

use std::time::Duration;

use ferrisson::{Client, Error, Lock, LockGuard, MemoryBackend, Result, mock::MockLock};
use ferrisson_testkit::faulty::{Fault, FaultyBackend, Op};
use tokio::time::sleep;

/// The application: sends the invoices of the month, unless somebody else is at it.
async fn send_invoices(lock: &dyn Lock) -> Result<Invoices> {
    let Some(guard) = lock.try_lock(Duration::ZERO, Duration::from_secs(60).into()).await? else {
        return Ok(Invoices::SentByAnother);
    };
    // The work takes ten seconds, and stops should the lock be lost.
    guard.run(sleep(Duration::from_secs(10))).await?;
    guard.unlock().await?;
    Ok(Invoices::Sent)
}

/// What became of them.
#[derive(Debug, PartialEq, Eq)]
enum Invoices {
    /// This process has sent them.
    Sent,
    /// Another process does.
    SentByAnother,
}

/// First way: the in-process backend. Two clients on one backend are two processes on one server,
/// and a minute of paused time passes at once.
async fn after_the_death_of_another() -> Result<(Invoices, Invoices)> {
    let backend = MemoryBackend::new();
    let (this, other) = (Client::new(backend.clone()), Client::new(backend));
    // Takes the lock for a minute and is never heard of again.
    other.lock("invoices").lock_with(Duration::from_secs(60)).await?.forget();

    let at_once = send_invoices(&this.lock("invoices")).await?;
    sleep(Duration::from_secs(61)).await;
    Ok((at_once, send_invoices(&this.lock("invoices")).await?))
}

/// Second way: a network that loses what we tell it to lose. Here the server grants the lock, and
/// the reply never arrives.
async fn after_a_lost_reply() -> Result<(Result<Invoices>, Invoices)> {
    let backend = FaultyBackend::new(MemoryBackend::new());
    let faults = backend.faults();
    let lock = Client::new(backend).lock("invoices");
    faults.fail_next(Op::Acquire, 1, Fault::LostReply);

    let first = send_invoices(&lock).await;
    // Nobody knows who has the lock. It is cleaned up in the background, so the next one can.
    sleep(Duration::from_secs(1)).await;
    Ok((first, send_invoices(&lock).await?))
}

/// Third way: a mock, when only the answer matters. Its guards hold nothing.
async fn with_answers_of_our_own() -> Result<(Invoices, Invoices)> {
    let mut lock = MockLock::new();
    lock.expect_try_lock().times(1).returning(|_, _| Ok(Some(LockGuard::detached("invoices"))));
    lock.expect_try_lock().times(1).returning(|_, _| Ok(None));
    Ok((send_invoices(&lock).await?, send_invoices(&lock).await?))
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<()> {
    let (at_once, a_minute_later) = after_the_death_of_another().await?;
    println!("in-process backend: while a dead process has the lock: {at_once:?}");
    println!("in-process backend: a minute later: {a_minute_later:?}");

    let (lost, next) = after_a_lost_reply().await?;
    match lost {
        Err(error @ Error::Unavailable { .. }) => println!("faults: a reply is lost: {error}"),
        other => println!("faults: not what we expected: {other:?}"),
    }
    println!("faults: the next try: {next:?}");

    let (granted, refused) = with_answers_of_our_own().await?;
    println!("mock: the lock is granted: {granted:?}");
    println!("mock: somebody else has it: {refused:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use ferrisson::Outcome;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_dead_process_stops_the_invoices_for_a_minute_only() {
        let outcomes = after_the_death_of_another().await.unwrap();
        assert_eq!(outcomes, (Invoices::SentByAnother, Invoices::Sent));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_reply_is_reported_and_blocks_nobody() {
        let (first, next) = after_a_lost_reply().await.unwrap();
        assert!(matches!(first, Err(Error::Unavailable { outcome: Outcome::Unknown, .. })));
        assert_eq!(next, Invoices::Sent);
    }

    #[tokio::test(start_paused = true)]
    async fn invoices_are_sent_by_whoever_has_the_lock() {
        let outcomes = with_answers_of_our_own().await.unwrap();
        assert_eq!(outcomes, (Invoices::Sent, Invoices::SentByAnother));
    }
}
