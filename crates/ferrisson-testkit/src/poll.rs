//! Waiting for what nobody announces.

use std::time::{Duration, Instant};

/// Asks every few milliseconds until the answer is yes. For states of servers, which tell nobody
/// when they change.
///
/// # Panics
/// The answer is still no after `patience`; the message names `what`.
pub async fn poll_until(what: &str, patience: Duration, mut ask: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !ask().await {
        assert!(start.elapsed() < patience, "waited {patience:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
