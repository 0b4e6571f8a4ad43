//! Waiting calls when subscriptions and messages fail. Nobody polls here unless a test says so:
//! without the message, or the news that it may be lost, these tests do not end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ferrisson_core::{Client, LockGuard, LockHandle};
use ferrisson_fred::FredConnection;
use ferrisson_protocol::RedisBackend;
use ferrisson_testkit::{
    Raw, Server, poll_until,
    proxy::{Accepting, Action, Direction, Rule},
};
use ferrisson_tests::real::{
    LONG, PATIENCE, Testbed, backend, client, load_scripts, permits, soon, until_subscribed,
};
use futures::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::{JoinHandle, JoinSet};

const NAME: &str = "x";
const CHANNEL: &str = "redisson_lock__channel:{x}";
const ZERO: Duration = Duration::ZERO;

async fn quiet_client(url: &str) -> Client {
    let builder = Client::builder(backend(url).await);
    builder.poll_interval(LONG).patience(PATIENCE).build().unwrap()
}

async fn take(client: &Client) -> LockGuard {
    let lock = client.lock(NAME);
    lock.try_lock(ZERO, LONG).await.unwrap().expect("it is free")
}

/// A task that waits for the lock and gives it back.
fn wait_for(lock: LockHandle) -> JoinHandle<()> {
    tokio::spawn(async move {
        let guard = lock.try_lock(PATIENCE, LONG).await.unwrap().expect("it was woken");
        guard.unlock().await.unwrap();
    })
}

// B001, B205
#[tokio::test]
async fn a_release_before_the_subscription_is_live_is_not_missed() {
    let bed = Testbed::start().await;
    let holder = bed.near().await;
    // The connection must not lose its patience with the subscription.
    let builder = FredConnection::builder(bed.proxy.url()).command_timeout(PATIENCE);
    let builder = Client::builder(RedisBackend::new(builder.connect().await.unwrap()));
    let client = builder.poll_interval(LONG).build().unwrap();
    let guard = take(&holder).await;
    let held_back = bed.proxy.add(Rule::on("SUBSCRIBE").nth(1).then(Action::Hold));
    let attempts = bed.proxy.add(Rule::on("EVALSHA"));
    let waiting = wait_for(client.lock(NAME));
    soon(held_back.wait_fired(1)).await;
    // Time to make a mistake.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(attempts.matched(), 1, "the next try is for when the subscription is live");
    guard.unlock().await.unwrap();
    held_back.release();
    soon(waiting).await.unwrap();
}

// B204
#[tokio::test]
async fn a_subscription_that_failed_during_an_outage_is_made_after_it() {
    let bed = Testbed::start().await;
    let (holder, client) = (bed.near().await, quiet_client(&bed.proxy.url()).await);
    let mut raw = bed.server.raw().await;
    for name in ["first", NAME] {
        let guard = holder.lock(name).try_lock(ZERO, LONG).await.unwrap().expect("it is free");
        let cut = bed.proxy.add(Rule::on("SUBSCRIBE").then(Action::CutBefore));
        let waiting = wait_for(client.lock(name));
        soon(cut.wait_fired(2)).await;
        cut.remove();
        until_subscribed(&mut raw, &format!("redisson_lock__channel:{{{name}}}"), 1).await;
        guard.unlock().await.unwrap();
        soon(waiting).await.unwrap();
    }
}

#[tokio::test]
async fn a_subscription_that_went_silent_is_replaced_and_everybody_asks_again() {
    let bed = Testbed::start().await;
    let (holder, client) = (bed.near().await, quiet_client(&bed.proxy.url()).await);
    let guard = take(&holder).await;
    let waiting = wait_for(client.lock(NAME));
    until_subscribed(&mut bed.server.raw().await, CHANNEL, 1).await;
    // The next sign of life gets no answer, and nor does anything after it.
    let lost = Action::BlackHole(Direction::Replies);
    let silent = bed.proxy.add(Rule::on("PING").nth(1).then(lost));
    soon(silent.wait_fired(1)).await;
    guard.unlock().await.unwrap();
    soon(waiting).await.unwrap();
}

#[tokio::test]
async fn without_any_message_a_free_lock_is_found_within_the_poll_interval() {
    let bed = Testbed::start().await;
    let holder = bed.near().await;
    let builder = Client::builder(backend(&bed.proxy.url()).await);
    let client = builder.poll_interval(Duration::from_millis(400)).build().unwrap();
    let _ = bed.proxy.add(Rule::on("SUBSCRIBE").then(Action::CutBefore));
    let guard = take(&holder).await;
    let attempts = bed.proxy.add(Rule::on("EVALSHA"));
    let waiting = wait_for(client.lock(NAME));
    soon(attempts.wait_matched(2)).await;
    let start = Instant::now();
    guard.unlock().await.unwrap();
    soon(waiting).await.unwrap();
    // The interval, its jitter of a tenth, a try to subscribe, and a busy machine.
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

// B010
#[tokio::test]
async fn no_release_is_missed_between_a_failed_try_and_the_subscription() {
    const ROUNDS: u64 = 150;
    let server = Server::start().await;
    let rounds = [1, 2].map(|seed| {
        let url = server.url();
        async move {
            let (lock, mut random) =
                (quiet_client(&url).await.lock(NAME), StdRng::seed_from_u64(seed));
            let mut longest = ZERO;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                let guard = lock.try_lock(PATIENCE, LONG).await.unwrap().expect("it was woken");
                longest = longest.max(start.elapsed());
                let hold = Duration::from_micros(random.random_range(0..2000));
                tokio::time::sleep(hold).await;
                guard.unlock().await.unwrap();
            }
            longest
        }
    });
    let longest = join_all(rounds).await;
    assert!(longest.iter().all(|longest| *longest < Duration::from_secs(2)), "{longest:?}");
}

// B004, B016
#[tokio::test]
async fn no_permit_that_comes_free_is_missed() {
    const TASKS: usize = 40;
    const ROUNDS: usize = 20;
    let server = Server::start().await;
    let clients = [quiet_client(&server.url()).await, quiet_client(&server.url()).await];
    clients[0].semaphore("s").try_set_permits(2).await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let semaphore = clients[task % 2].semaphore("s");
        tasks.spawn(async move {
            let n = 1 + u32::try_from(task % 2).unwrap();
            for _ in 0..ROUNDS {
                let permit = semaphore.try_acquire(n, PATIENCE).await.unwrap();
                permit.expect("it was woken").release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(permits(&mut server.raw().await, "s").await, 2);
}

// B009, B213
#[tokio::test]
async fn one_connection_carries_all_subscriptions() {
    const NAMES: usize = 300;
    let server = Server::start().await;
    let (holder, client) = (client(&server.url()).await, quiet_client(&server.url()).await);
    let names: Vec<_> = (0..NAMES).map(|i| format!("x{i}")).collect();
    let guards = join_all(names.iter().map(|name| async {
        holder.lock(name.as_str()).try_lock(ZERO, LONG).await.unwrap().expect("it is free")
    }))
    .await;
    let waiting: Vec<_> = names.iter().map(|name| wait_for(client.lock(name.as_str()))).collect();
    let mut raw = server.raw().await;
    until_channels(&mut raw, NAMES).await;
    // Two clients with a connection each for commands and for messages.
    assert_eq!(raw.client_count().await.unwrap(), 4);
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    for waiting in waiting {
        soon(waiting).await.unwrap();
    }
    until_channels(&mut raw, 0).await;
}

async fn until_channels(raw: &mut Raw, n: usize) {
    let what = format!("there are {n} channels");
    poll_until(&what, PATIENCE, async || raw.pubsub_channels().await.unwrap().len() == n).await;
}

// B214
#[tokio::test]
async fn waits_that_end_in_vain_or_are_dropped_leave_no_subscription() {
    const NAMES: usize = 300;
    let server = Server::start().await;
    load_scripts(&server).await;
    let client = client(&server.url()).await;
    let mut raw = server.raw().await;
    let hold = "for i = 0, ARGV[1] - 1 do redis.call('hset', 'x' .. i, 'somebody', 1) end";
    raw.command(&["EVAL", hold, "0", &NAMES.to_string()]).await.unwrap();
    let mut waits = JoinSet::new();
    for i in 0..NAMES {
        let lock = client.lock(format!("x{i}"));
        waits.spawn(async move {
            let (given_up, endless) = (i % 2 == 0, PATIENCE * 2);
            let wait = if given_up { Duration::from_secs(3) } else { endless };
            assert!(lock.try_lock(wait, LONG).await.unwrap().is_none());
            assert!(given_up, "the others are dropped");
        });
    }
    until_channels(&mut raw, NAMES).await;
    for _ in 0..NAMES / 2 {
        waits.join_next().await.expect("half of them end").unwrap();
    }
    waits.shutdown().await;
    until_channels(&mut raw, 0).await;
    let keys = raw.command(&["DBSIZE"]).await.unwrap().int();
    assert_eq!(keys, i64::try_from(NAMES).unwrap(), "and no tombstone either");
}

// B201, B219
#[tokio::test]
async fn waiters_of_many_names_survive_subscriptions_that_are_killed_all_the_time() {
    const NAMES: usize = 20;
    let server = Server::start().await;
    let clients = [quiet_client(&server.url()).await, quiet_client(&server.url()).await];
    let turns = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..NAMES * 2 {
        let lock = clients[task % 2].lock(format!("x{}", task / 2));
        let turns = Arc::clone(&turns);
        tasks.spawn(async move {
            loop {
                let guard = lock.try_lock(PATIENCE, LONG).await.unwrap().expect("it was woken");
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
                guard.unlock().await.unwrap();
            }
        });
    }
    let mut raw = server.raw().await;
    for _ in 0..40 {
        raw.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
        let pause = tokio::time::sleep(Duration::from_millis(50));
        tokio::select! {
            () = pause => {}
            Some(ended) = tasks.join_next() => panic!("a waiter was not woken: {ended:?}"),
        }
    }
    let before = turns.load(Ordering::Relaxed);
    poll_until("they go on", PATIENCE, async || {
        turns.load(Ordering::Relaxed) > before + 10 * NAMES as u64
    })
    .await;
    tasks.shutdown().await;
    until_channels(&mut raw, 0).await;
}

// B228
#[tokio::test]
async fn links_that_are_cut_at_any_moment_come_back() {
    let bed = Testbed::start().await;
    let (holder, client) = (bed.near().await, quiet_client(&bed.proxy.url()).await);
    let mut random = StdRng::seed_from_u64(3);
    for round in 0..40 {
        bed.proxy.cut_all();
        // In a part of the rounds also while they are made anew.
        let moment = random.random_range(0..20);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        if round % 4 == 0 {
            bed.proxy.set_accepting(Accepting::Close).await;
            tokio::time::sleep(Duration::from_millis(moment)).await;
            bed.proxy.set_accepting(Accepting::Yes).await;
        }
    }
    let guard = take(&holder).await;
    let waiting = wait_for(client.lock(NAME));
    until_subscribed(&mut bed.server.raw().await, CHANNEL, 1).await;
    guard.unlock().await.unwrap();
    soon(waiting).await.unwrap();
}
