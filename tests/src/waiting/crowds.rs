//! Many waiters: none is forgotten, none is woken for nothing, and all can be sent home.

use std::{sync::Arc, time::Duration};

use ferrisson_core::{Client, Error};
use ferrisson_testkit::faulty::Op;
use ferrisson_tests::inproc::{Watched, World, ms, secs, settle, tasks};
use rand::{Rng, SeedableRng, rngs::SmallRng, seq::index};
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};

/// Locks of one store, by name.
fn watched(names: usize) -> Arc<Vec<Watched>> {
    Arc::new(std::iter::repeat_with(Watched::default).take(names).collect())
}

/// Takes and frees names chosen at random, some at a time, so many times.
async fn wander(client: Client, locks: Arc<Vec<Watched>>, seed: u64, at_a_time: usize, turns: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for _ in 0..turns {
        let mut names = index::sample(&mut rng, locks.len(), at_a_time).into_vec();
        names.sort_unstable();
        let mut guards = Vec::new();
        for &name in &names {
            let lock = client.lock(format!("lock {name}"));
            guards.push((name, locks[name].take(&lock).await));
        }
        time::sleep(ms(rng.random_range(0..=3))).await;
        for (name, guard) in guards {
            locks[name].give(guard).await;
        }
    }
}

// B009
#[tokio::test(start_paused = true)]
async fn a_crowd_of_one_client_is_served_without_a_pause_and_leaves_no_subscription() {
    let world = World::new();
    let (client, locks) = (world.client(), watched(20));
    let mut crowd = JoinSet::new();
    for seed in 0..200 {
        crowd.spawn(wander(client.clone(), Arc::clone(&locks), seed, 1, 50));
    }
    crowd.join_all().await;
    settle().await;
    assert_eq!((world.store.subscriptions(), world.store.keys()), (0, vec![]));
}

// B010
#[tokio::test(start_paused = true)]
async fn two_clients_that_take_turns_in_a_loop_never_sleep_while_the_lock_is_free() {
    let (world, locks) = (World::new(), watched(1));
    let mut both = JoinSet::new();
    for seed in 0..2 {
        both.spawn(wander(world.client(), Arc::clone(&locks), seed, 1, 2000));
    }
    both.join_all().await;
}

// B016
#[tokio::test(start_paused = true)]
async fn nobody_starves_among_hundreds_of_locks() {
    let (world, locks) = (World::new(), watched(300));
    let clients: [Client; 8] = std::array::from_fn(|_| world.client());
    let mut crowd = JoinSet::new();
    for seed in 0..64 {
        let client = clients[seed as usize % clients.len()].clone();
        crowd.spawn(wander(client, Arc::clone(&locks), seed, 5, 50));
    }
    crowd.join_all().await;
    assert_eq!(world.store.keys(), Vec::<String>::new());
}

// B306
#[tokio::test(start_paused = true)]
async fn a_release_makes_one_waiter_of_each_client_try() {
    const CLIENTS: u64 = 10;
    const WAITERS: u64 = 500;
    let world = World::new();
    let guard = world.stranger().lock("x").lock().await.unwrap();
    let mut crowd = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = world.client();
        for _ in 0..WAITERS / CLIENTS {
            let lock = client.lock("x");
            crowd.spawn(async move {
                let guard = lock.lock().await.unwrap();
                time::sleep(ms(1)).await;
                guard.unlock().await.unwrap();
            });
        }
    }
    time::sleep(ms(10)).await;
    let first = world.faults.calls(Op::Acquire);
    assert!(first <= 2 * CLIENTS, "{first} tries before anything was released");
    guard.unlock().await.unwrap();
    crowd.join_all().await;
    let tries = world.faults.calls(Op::Acquire) - first;
    // The clients run out of waiters at about the same time, so each release finds all of them.
    assert!(tries <= WAITERS * (CLIENTS + 1), "{tries} tries");
    assert!(world.faults.calls(Op::Subscribe) <= 2 * CLIENTS);
}

// B304
#[tokio::test(start_paused = true)]
async fn closing_sends_all_waiters_home_in_time() {
    let world = World::new();
    let client = world.client();
    let guard = world.stranger().lock("x").lock().await.unwrap();
    let mut crowd = JoinSet::new();
    for number in 0..20_u64 {
        let client = client.clone();
        crowd.spawn(async move {
            match number % 4 {
                0 => client.lock("x").lock().await.map(drop),
                1 => client.lock("x").try_lock(secs(3600), secs(1)).await.map(drop),
                2 => client.plain_lock("never").lock().await.map(drop),
                _ => client.semaphore("empty").acquire(1).await.map(drop),
            }
        });
    }
    world.store.put_raw("never", "somebody else's");
    time::sleep(secs(5)).await;
    let start = Instant::now();
    client.close().await;
    while let Some(result) = crowd.join_next().await {
        assert!(matches!(result.unwrap(), Err(Error::Closed)));
    }
    assert!(start.elapsed() < ms(10), "{:?}", start.elapsed());
    assert!(matches!(client.lock("y").lock().await, Err(Error::Closed)));
    assert!(matches!(client.semaphore("y").try_acquire(1, secs(1)).await, Err(Error::Closed)));
    assert!(matches!(client.bucket::<u8>("y").get().await, Err(Error::Closed)));
    client.close().await;
    settle().await;
    assert_eq!((tasks(), world.store.subscriptions()), (1, 0), "but for the stranger's watchdog");
    drop(guard);
}

// B304
#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_long_for_a_backend_that_is_gone() {
    use ferrisson_testkit::faulty::Fault;
    let world = World::new();
    let client = world.client();
    let guard = client.lock("x").lock().await.unwrap();
    let lock = client.lock("x");
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    settle().await;
    world.faults.fail_everything(Fault::LostRequest);
    let start = Instant::now();
    client.close().await;
    // The client's patience and the backend's limit on a command, twice at most.
    assert!(start.elapsed() <= secs(4), "{:?}", start.elapsed());
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    assert!(!guard.is_held());
    time::sleep(secs(5)).await;
    assert_eq!(tasks(), 0);
}

// B214
#[tokio::test(start_paused = true)]
async fn waits_that_end_or_are_dropped_leave_no_subscription() {
    let world = World::new();
    let (holder, client) = (world.stranger(), world.client());
    let mut guards = Vec::new();
    let mut crowd = JoinSet::new();
    for number in 0..1000 {
        let name = format!("lock {number}");
        guards.push(holder.lock(name.as_str()).lock_with(secs(60)).await.unwrap());
        let lock = client.lock(name.as_str());
        crowd.spawn(async move {
            if number % 2 == 0 {
                assert!(lock.try_lock(ms(20), secs(1)).await.unwrap().is_none());
            } else {
                let wait = lock.try_lock(secs(20), secs(1));
                assert!(time::timeout(ms(number % 20), wait).await.is_err());
            }
        });
    }
    time::sleep(Duration::from_micros(1)).await;
    assert!(world.store.subscriptions() > 500);
    crowd.join_all().await;
    settle().await;
    assert_eq!(world.store.subscriptions(), 0);
    assert_eq!(tasks(), 0);
}
