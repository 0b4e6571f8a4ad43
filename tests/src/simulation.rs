//! The engine on the in-process store, behind a network that loses, delays and repeats at random.
//!
//! Each seed is a run of some seconds of virtual time: several clients take locks and permits,
//! renew, re-enter, give up, are cancelled, drop or forget their guards. What they believed is
//! compared with what the store had. `FERRISSON_SEEDS` says how many seeds are tried;
//! `FERRISSON_SEED` repeats one.

#[path = "simulation/worker.rs"]
mod worker;
#[path = "simulation/world.rs"]
mod world;

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
    time::Duration,
};

use ferrisson_testkit::{check, history::Ending};
use tokio::time;

use self::world::{Outcome, World};

/// The seeds are spread over this many tests, which run in parallel.
const PARTS: u64 = 4;
const SEEDS: u64 = 2000;
/// No run takes that long.
const HANG: Duration = Duration::from_secs(3600);
/// Virtual time is in milliseconds; a limit that is met exactly may be seen one later.
const TICK: Duration = Duration::from_millis(2);

#[test]
fn a_bad_network_breaks_no_promise_1() {
    run_part(0);
}

#[test]
fn a_bad_network_breaks_no_promise_2() {
    run_part(1);
}

#[test]
fn a_bad_network_breaks_no_promise_3() {
    run_part(2);
}

#[test]
fn a_bad_network_breaks_no_promise_4() {
    run_part(3);
}

#[test]
fn a_seed_repeats_exactly() {
    for seed in 0..10 {
        let runs = [guarded(seed, simulate), guarded(seed, simulate)];
        assert!(runs[0].grants > 0);
        assert_eq!(runs[0], runs[1]);
    }
}

#[test]
fn a_free_lock_is_found_by_polling_when_every_signal_is_lost() {
    for seed in 0..50 {
        guarded(seed, world::without_signals);
    }
}

/// Runs the seeds of one part and says what that came to.
fn run_part(part: u64) {
    let number = |name| std::env::var(name).ok().map(|value| value.parse().expect("a number"));
    let seeds = match number("FERRISSON_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FERRISSON_SEEDS").unwrap_or(SEEDS),
    };
    let mut total = Outcome::default();
    for seed in seeds.filter(|seed| seed % PARTS == part) {
        total += guarded(seed, simulate);
    }
    println!("{total:?}");
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Runs one seed in a runtime of its own, and names the seed if it fails: also by a panic in a
/// background task, which nobody awaits.
fn guarded<T, F: Future<Output = T>>(seed: u64, run: impl FnOnce(u64) -> F) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            report(info);
        }));
    });
    PANICS.set(0);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    let run = async { time::timeout(HANG, run(seed)).await.expect("everybody waits for somebody") };
    let result = panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(run)));
    drop(runtime);
    match result {
        Ok(output) if PANICS.get() == 0 => output,
        result => {
            eprintln!(
                "failed: FERRISSON_SEED={seed} cargo test -p ferrisson-tests --test simulation"
            );
            result.map_or_else(|payload| panic::resume_unwind(payload), |_| panic!("in background"))
        }
    }
}

async fn simulate(seed: u64) -> Outcome {
    let world = World::new(seed).await;
    world.run().await;
    world.settle().await;
    world.assert_nothing_is_left().await;

    let (claims, truths) = (world.history.claims(), world.history.truths());
    let (permits, locks): (Vec<_>, Vec<_>) =
        claims.into_iter().partition(|claim| claim.interval.name == world::SEMAPHORE);
    let (permit_truths, lock_truths): (Vec<_>, Vec<_>) =
        truths.into_iter().partition(|truth| truth.name == world::SEMAPHORE);
    assert_eq!(check::overlaps(&lock_truths), [], "mutual exclusion in the store");
    assert_eq!(
        check::overbooked(&permit_truths, world::PERMITS.into()),
        [],
        "permits in the store"
    );
    if !world.pauses {
        let intervals = locks.iter().map(|claim| &claim.interval);
        assert_eq!(check::overlaps(intervals), [], "mutual exclusion");
        assert_eq!(check::uncovered(&locks, &lock_truths), [], "claims without a hold");
        assert_eq!(check::late_notices(&locks, &lock_truths), [], "a loss is told in time");
        let intervals = permits.iter().map(|claim| &claim.interval);
        assert_eq!(check::overbooked(intervals, world::PERMITS.into()), [], "permits");
    }
    assert_eq!(world.lost_updates(), 0, "updates of what a lock protects");
    Outcome {
        seeds: 1,
        grants: locks.len() + permits.len(),
        faults: world.link.faults(),
        losses: locks.iter().filter(|claim| claim.ending == Ending::Lost).count(),
        virtual_time: world.elapsed(),
    }
}

impl std::ops::AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.grants += other.grants;
        self.faults += other.faults;
        self.losses += other.losses;
        self.virtual_time += other.virtual_time;
    }
}
