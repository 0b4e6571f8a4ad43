use std::time::Duration;

use ferrisson_core::{Result, SemaphoreHandle, SemaphorePermit};
use ferrisson_testkit::{
    cancel::{Cut, cancel_at},
    faulty::Op,
};
use tokio::time;

use crate::{Env, Network, SETTLE, is_untouched, leaves_nothing};

const PERMITS: u32 = 3;

/// The semaphore, of the client under test and of the stranger.
async fn semaphores(env: &Env) -> (SemaphoreHandle, SemaphoreHandle) {
    let stranger = env.stranger.semaphore("s");
    stranger.try_set_permits(PERMITS).await.unwrap();
    (env.client.semaphore("s"), stranger)
}

/// Cuts an acquisition. Whatever came of it, all permits are there again in the end.
async fn acquire(
    stranger: &SemaphoreHandle,
    call: impl Future<Output = Result<Option<SemaphorePermit>>>,
    cut: Cut,
) -> bool {
    let acquired = cancel_at(call, cut).await;
    let is_cancelled = acquired.is_none();
    drop(acquired);
    time::sleep(SETTLE).await;
    assert_eq!(stranger.available_permits().await.unwrap(), i64::from(PERMITS), "{cut:?}");
    is_cancelled
}

#[tokio::test(start_paused = true)]
async fn a_dropped_try_for_permits_that_are_there() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let (semaphore, stranger) = semaphores(env).await;
        env.plan(network, Op::AcquirePermits);
        acquire(&stranger, semaphore.try_acquire(2, Duration::ZERO), at).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_permits_that_are_there() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let (semaphore, stranger) = semaphores(env).await;
        env.plan(network, Op::AcquirePermits);
        acquire(&stranger, async { semaphore.acquire(2).await.map(Some) }, at).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_permits_that_are_released() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let (semaphore, stranger) = semaphores(env).await;
        let permit = stranger.acquire(2).await.unwrap();
        env.plan(network, Op::AcquirePermits);
        let release = async {
            time::sleep(Duration::from_millis(100)).await;
            permit.release().await.unwrap();
        };
        let waiting = semaphore.try_acquire(2, Duration::from_secs(2));
        let (is_cancelled, ()) = tokio::join!(acquire(&stranger, waiting, at), release);
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_release_gives_back_once() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let (semaphore, stranger) = semaphores(env).await;
        let permit = semaphore.acquire(2).await.unwrap();
        env.plan(network, Op::ReleasePermits);
        let released = cancel_at(permit.release(), at).await;
        time::sleep(SETTLE).await;
        assert_eq!(stranger.available_permits().await.unwrap(), i64::from(PERMITS), "{at:?}");
        released.is_none()
    })
    .await;
}

/// Calls without a permit to give back: done as a whole, or not at all if they were never polled.
#[tokio::test(start_paused = true)]
async fn a_dropped_change_of_the_number_is_done_once_or_not_at_all() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let (semaphore, stranger) = semaphores(env).await;
        let mut is_cancelled = false;
        let mut expected = i64::from(PERMITS);
        let settled = async |expected: i64| {
            time::sleep(Duration::from_secs(4)).await;
            assert_eq!(stranger.available_permits().await.unwrap(), expected, "{at:?}");
        };
        env.plan(network, Op::AddPermits);
        is_cancelled |= cancel_at(semaphore.release(2), at).await.is_none();
        expected += if is_untouched(at) { 0 } else { 2 };
        settled(expected).await;

        env.plan(network, Op::AddPermits);
        is_cancelled |= cancel_at(semaphore.add_permits(-1), at).await.is_none();
        expected -= if is_untouched(at) { 0 } else { 1 };
        settled(expected).await;

        env.plan(network, Op::DrainPermits);
        is_cancelled |= cancel_at(semaphore.drain_permits(), at).await.is_none();
        settled(if is_untouched(at) { expected } else { 0 }).await;

        env.memory.remove("s");
        env.plan(network, Op::InitPermits);
        is_cancelled |= cancel_at(semaphore.try_set_permits(5), at).await.is_none();
        settled(if is_untouched(at) { 0 } else { 5 }).await;

        env.plan(network, Op::AvailablePermits);
        is_cancelled |= cancel_at(semaphore.available_permits(), at).await.is_none();
        is_cancelled
    })
    .await;
}
