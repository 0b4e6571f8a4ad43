//! Cancels futures at each point at which they can be cancelled.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

/// Where a future is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// At once after so many polls.
    After(usize),
    /// After so many polls, when it is woken for the next one: with news that it does not see.
    Before(usize),
}

/// Polls a future as far as `cut` says and drops it; its output if it completes before.
///
/// With zero polls it is dropped untouched.
pub async fn cancel_at<F: Future>(future: F, cut: Cut) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|context| {
        let is_over = match cut {
            Cut::After(0) => true,
            Cut::After(_) => false,
            Cut::Before(limit) => polls == limit,
        };
        if is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        polls += 1;
        if cut == Cut::After(polls) { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// Drops a future after its `polls`th poll; its output if it completes before.
pub async fn cancel_at_poll<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    cancel_at(future, Cut::After(polls)).await
}

/// Runs a scenario with each cut in turn, up to the first that comes too late: the scenario says
/// whether its future was cancelled. Answers how many cuts there were.
///
/// # Panics
///
/// If there is no end to it.
pub async fn at_every_cut(mut is_cancelled: impl AsyncFnMut(Cut) -> bool) -> usize {
    const ENDLESS: usize = 10_000;
    for polls in 0..ENDLESS {
        if !is_cancelled(Cut::After(polls)).await {
            return 2 * polls;
        }
        if !is_cancelled(Cut::Before(polls)).await {
            return 2 * polls + 1;
        }
    }
    panic!("it does not complete within {ENDLESS} polls");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{sync::oneshot, task::yield_now, time};

    use super::*;

    async fn three_steps(steps: &mut usize) -> &'static str {
        for _ in 0..3 {
            *steps += 1;
            yield_now().await;
        }
        "done"
    }

    #[tokio::test]
    async fn a_future_gets_as_many_polls_as_it_is_told() {
        for polls in 0..=3 {
            let mut steps = 0;
            assert_eq!(cancel_at_poll(three_steps(&mut steps), polls).await, None);
            assert_eq!(steps, polls);
        }
        assert_eq!(cancel_at_poll(three_steps(&mut 0), 4).await, Some("done"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_before_a_poll_waits_for_the_news_that_is_not_seen() {
        let start = time::Instant::now();
        let sleep = || time::sleep(Duration::from_secs(1));
        assert!(cancel_at(sleep(), Cut::After(1)).await.is_none());
        assert!(start.elapsed().is_zero());
        assert!(cancel_at(sleep(), Cut::Before(1)).await.is_none());
        assert_eq!(start.elapsed(), Duration::from_secs(1));

        let (sender, receiver) = oneshot::channel();
        assert!(cancel_at(receiver, Cut::Before(0)).await.is_none());
        assert!(sender.send(()).is_err(), "dropped without a poll");
    }

    #[tokio::test]
    async fn every_cut_is_tried_once() {
        let mut cuts = Vec::new();
        let n = at_every_cut(async |cut| {
            cuts.push(cut);
            cancel_at(three_steps(&mut 0), cut).await.is_none()
        })
        .await;
        // 0, 1, 2 and 3 polls, each on both sides of the wake; after the fourth it is done.
        assert_eq!((n, cuts.len()), (8, 9));
        assert_eq!(cuts[6..], [Cut::After(3), Cut::Before(3), Cut::After(4)]);
    }
}
