//! What holds and waits cost in memory, and that they leave none behind. The ids are those of the
//! table of fault cases in the book.

use std::{
    alloc::System,
    sync::{Mutex, PoisonError},
};

use cap::Cap;
use ferrisson_core::{
    LockGuard, Name, OwnerId,
    backend::{LockBackend, LockKey, LockKind},
};
use ferrisson_testkit::faulty::Op;
use ferrisson_tests::inproc::{World, ms, secs, settle, tasks};
use tokio::{runtime::Builder, time};
use uuid::Uuid;

/// Counts what the whole process has allocated.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// What the test harness itself may do meanwhile.
const NOISE: usize = 64 * 1024;

/// Runs a test with paused time, and no other test at the same time.
fn alone(test: impl Future<Output = ()>) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(test);
}

fn name(number: u64) -> Name {
    Name::new(format!("lock {number:06}"))
}

// B040
#[test]
fn a_hundred_thousand_renewed_holds_cost_little_and_leave_nothing() {
    const HOLDS: u64 = 100_000;
    alone(async {
        // The store is in this process, too: its part is measured alone first.
        let world = World::new();
        let before = HEAP.allocated();
        for number in 0..HOLDS {
            let lock = LockKey { kind: LockKind::Reentrant, name: name(number) };
            let owner = OwnerId::new(Uuid::nil(), number);
            world.store.acquire(&lock, owner, secs(30)).await.unwrap();
        }
        let store = HEAP.allocated() - before;
        drop(world);

        let world = World::new();
        let client = world.client();
        let before = HEAP.allocated();
        let mut guards = Vec::with_capacity(HOLDS as usize);
        for number in 0..HOLDS {
            guards.push(client.lock(name(number)).lock().await.unwrap());
        }
        let hold = (HEAP.allocated() - before).saturating_sub(store) / HOLDS as usize;
        assert!(hold < 1024, "{hold} bytes for each hold");
        assert!(hold > size_of::<LockGuard>(), "{hold} bytes cannot be");
        assert_eq!(tasks(), 1);

        for third in 1..=3 {
            time::sleep(secs(10)).await;
            settle().await;
            assert_eq!(world.faults.calls(Op::Renew), third * HOLDS / 100);
        }
        assert!(guards.iter().all(LockGuard::is_held));
        drop(guards);
        time::sleep(secs(1)).await;
        assert_eq!((tasks(), world.store.keys().len()), (0, 0));
    });
}

// B216
#[test]
fn names_that_were_used_leave_nothing() {
    alone(async {
        let world = World::new();
        let (client, stranger) = (world.client(), world.stranger());
        let turn = async |number| {
            let guard = stranger.lock(name(number)).lock().await.unwrap();
            let lock = client.lock(name(number));
            match number % 3 {
                0 => assert!(lock.try_lock(ms(1), secs(1)).await.unwrap().is_none()),
                1 => drop(time::timeout(ms(1), lock.lock()).await),
                _ => {}
            }
            drop(guard);
            client.lock(name(number)).lock().await.unwrap().unlock().await.unwrap();
            let semaphore = client.semaphore(format!("semaphore {number}"));
            assert!(semaphore.try_acquire(1, ms(1)).await.unwrap().is_none());
        };
        for number in 0..1_000 {
            turn(number).await;
        }
        time::sleep(secs(1)).await;
        let before = HEAP.allocated();
        for number in 1_000..6_000 {
            turn(number).await;
        }
        time::sleep(secs(1)).await;
        let grown = HEAP.allocated().saturating_sub(before);
        assert!(grown < NOISE, "{grown} bytes more after five thousand names");
        assert_eq!((tasks(), world.store.subscriptions()), (0, 0));
    });
}

// B217
#[test]
fn calls_that_timed_out_leave_nothing() {
    alone(async {
        let world = World::new();
        let _guard = world.stranger().lock("x").lock_with(secs(1_000_000)).await.unwrap();
        let client = world.client();
        let turn = async || {
            assert!(client.lock("x").try_lock(ms(1), secs(1)).await.unwrap().is_none());
            assert!(client.semaphore("s").try_acquire(1, ms(1)).await.unwrap().is_none());
        };
        for _ in 0..1_000 {
            turn().await;
        }
        let before = HEAP.allocated();
        for _ in 0..5_000 {
            turn().await;
        }
        settle().await;
        let grown = HEAP.allocated().saturating_sub(before);
        assert!(grown < NOISE, "{grown} bytes more after five thousand calls");
        assert_eq!((tasks(), world.store.subscriptions()), (0, 0));
    });
}
