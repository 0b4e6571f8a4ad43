use std::time::Duration;

use ferrisson_core::{Lease, Result};
use ferrisson_testkit::{
    cancel::{Cut, cancel_at},
    faulty::Op,
};
use tokio::time::{self, Instant};

use crate::{Env, LEASE, Network, ROUND_TRIP, is_untouched, leaves_nothing};

/// Cuts a call; a grant that came before the cut is dropped.
async fn cut<T>(call: impl Future<Output = Result<T>>, cut: Cut) -> bool {
    match cancel_at(call, cut).await {
        Some(result) => {
            drop(result);
            false
        }
        None => true,
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_try_of_a_free_lock() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        env.plan(network, Op::Acquire);
        let lock = env.client.lock("x");
        cut(lock.try_lock(Duration::ZERO, LEASE), at).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_a_free_lock() {
    for lease in [Lease::AutoRenew, Lease::Fixed(LEASE)] {
        leaves_nothing(async |env: &Env, network: Network, at: Cut| {
            env.plan(network, Op::Acquire);
            cut(env.client.lock("x").lock_with(lease), at).await
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_a_plain_lock() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.stranger.plain_lock("x").lock_with(LEASE).await.unwrap();
        let lock = env.client.plain_lock("x");
        env.plan(network, Op::Acquire);
        let release = async {
            time::sleep(Duration::from_millis(100)).await;
            guard.unlock().await
        };
        let (is_cancelled, unlocked) = tokio::join!(cut(lock.lock(), at), release);
        unlocked.unwrap();
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_a_lock_that_is_released() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held_by_stranger().await;
        let lock = env.client.lock("x");
        env.plan(network, Op::Acquire);
        let release = async {
            time::sleep(Duration::from_millis(100)).await;
            guard.unlock().await
        };
        let (is_cancelled, unlocked) = tokio::join!(cut(lock.lock(), at), release);
        unlocked.unwrap();
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_that_cannot_subscribe() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held_by_stranger().await;
        env.plan(network, Op::Subscribe);
        let lock = env.client.lock("x");
        let is_cancelled = cut(lock.try_lock(Duration::from_millis(500), LEASE), at).await;
        guard.unlock().await.unwrap();
        is_cancelled
    })
    .await;
}

/// The head of the row is cut in the middle of whatever it does; the next one takes its place and
/// misses nothing.
#[tokio::test(start_paused = true)]
async fn a_dropped_head_of_the_row_lets_the_next_one_in() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held_by_stranger().await;
        env.plan(network, Op::Acquire);
        let (lock, next) = (env.client.lock("x"), env.client.lock("x"));
        let head = cut(lock.lock_with(LEASE), at);
        let next = async {
            time::sleep(Duration::from_millis(1)).await;
            let guard = next.lock_with(LEASE).await.unwrap();
            let at = Instant::now();
            guard.unlock().await.unwrap();
            at
        };
        let release = async {
            time::sleep(Duration::from_millis(100)).await;
            guard.unlock().await.unwrap();
            Instant::now()
        };
        let (is_cancelled, granted, released) = tokio::join!(head, next, release);
        // The signal, a grant to the head that gives it back, and the grant to the next; a lost
        // reply costs the command timeout and a late request the pause before the next.
        let limit = match network {
            Network::Slow => ROUND_TRIP * 5,
            Network::LosesReply | Network::Late => Duration::from_millis(400),
        };
        let waited = granted.saturating_duration_since(released);
        assert!(waited <= limit, "{at:?}: the next one waited {waited:?}");
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_second_in_the_row_is_not_in_the_way() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held().await;
        env.plan(network, Op::Acquire);
        let lock = env.client.lock("x");
        let first = async {
            let guard = lock.lock_with(LEASE).await.unwrap();
            time::sleep(Duration::from_millis(50)).await;
            guard.unlock().await.unwrap();
        };
        let second = cut(lock.lock_with(LEASE), at);
        let third = async {
            time::sleep(Duration::from_millis(1)).await;
            lock.lock_with(LEASE).await.unwrap().unlock().await.unwrap();
        };
        let ((), is_cancelled, (), unlocked) =
            tokio::join!(biased; first, second, third, guard.unlock());
        unlocked.unwrap();
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_unlock_unlocks() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held().await;
        env.plan(network, Op::Release);
        cut(guard.unlock(), at).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_unlock_of_an_inner_hold_keeps_the_outer_one() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held().await;
        let inner = guard.reenter().await.unwrap();
        env.plan(network, Op::SetHolds);
        let is_cancelled = cut(inner.unlock(), at).await;
        time::sleep(Duration::from_secs(4)).await;
        assert!(guard.is_held());
        assert_eq!((guard.hold_count(), holds(env).await), (1, 1), "{at:?}");
        guard.unlock().await.unwrap();
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_renewal_keeps_the_hold() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held().await;
        env.plan(network, Op::Renew);
        let is_cancelled = cut(guard.renew(LEASE * 2), at).await;
        time::sleep(Duration::from_secs(4)).await;
        assert!(guard.is_held());
        assert!(env.client.lock("x").is_locked().await.unwrap());
        // Nothing of the dropped one is in the way of another.
        env.faults.heal();
        guard.renew(LEASE).await.unwrap();
        guard.unlock().await.unwrap();
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_re_entry_is_not_counted() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held().await;
        env.plan(network, Op::SetHolds);
        let is_cancelled = cut(guard.reenter(), at).await;
        time::sleep(Duration::from_secs(1)).await;
        assert_eq!(guard.hold_count(), 1, "{at:?}");
        if !matches!(network, Network::Late) {
            assert_eq!(holds(env).await, 1, "{at:?}");
        }
        guard.unlock().await.unwrap();
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_drops_the_work_and_keeps_the_lock() {
    leaves_nothing(async |env: &Env, _: Network, at: Cut| {
        let guard = env.held().await;
        let work = async {
            for _ in 0..3 {
                time::sleep(ROUND_TRIP).await;
            }
        };
        let is_cancelled = cut(guard.run(work), at).await;
        assert!(guard.is_held());
        guard.unlock().await.unwrap();
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_the_loss_misses_nothing() {
    leaves_nothing(async |env: &Env, _: Network, at: Cut| {
        let guard = env.client.lock("x").lock_with(LEASE).await.unwrap();
        let lost = async { Ok(guard.lost().await) };
        let renewals = async {
            for _ in 0..3 {
                time::sleep(ROUND_TRIP).await;
                guard.renew(LEASE).await.unwrap();
            }
        };
        let (is_cancelled, ()) = tokio::join!(cut(lost, at), renewals);
        time::timeout(LEASE * 2, guard.lost()).await.expect("the lease ends");
        drop(guard);
        is_cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_look_changes_nothing() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held().await;
        let lock = env.client.lock("x");
        let mut cancelled = [false; 3];
        env.plan(network, Op::Inspect);
        cancelled[0] = cut(lock.is_locked(), at).await;
        env.plan(network, Op::Inspect);
        cancelled[1] = cut(lock.remaining_lease(), at).await;
        env.plan(network, Op::Inspect);
        cancelled[2] = cut(lock.inspect(), at).await;
        assert!(guard.is_held());
        guard.unlock().await.unwrap();
        cancelled.contains(&true)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_forced_release_that_was_sent_is_completed() {
    leaves_nothing(async |env: &Env, network: Network, at: Cut| {
        let guard = env.held().await;
        env.plan(network, Op::ForceRelease);
        let is_cancelled = cut(env.client.lock("x").force_unlock(), at).await;
        time::sleep(Duration::from_secs(4)).await;
        let is_free = env.objects().is_empty();
        assert_eq!(is_free, !is_untouched(at), "{at:?}");
        assert_eq!(guard.unlock().await.is_err(), is_free);
        is_cancelled
    })
    .await;
}

/// How often the store says that the lock is held.
async fn holds(env: &Env) -> u32 {
    env.stranger.lock("x").inspect().await.unwrap().expect("it is held").holds
}
