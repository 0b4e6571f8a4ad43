use ferrisson_core::{
    Name, OwnerId,
    backend::{
        Attempt, BucketBackend, Condition, Expiry, LockBackend, LockKey, LockKind, NotifyBackend,
        SemaphoreBackend, Topic,
    },
};
use ferrisson_memory::MemoryBackend;
use futures::FutureExt;
use time::Instant;
use uuid::Uuid;

use super::*;

const LEASE: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(1);

fn backends() -> (MemoryBackend, FaultyBackend, Faults) {
    let memory = MemoryBackend::new();
    let backend = FaultyBackend::new(memory.clone()).with_command_timeout(TIMEOUT);
    let faults = backend.faults();
    (memory, backend, faults)
}

fn lock() -> LockKey {
    LockKey { kind: LockKind::Reentrant, name: Name::new("x") }
}

fn owner(number: u64) -> OwnerId {
    OwnerId::new(Uuid::from_u128(1), number)
}

async fn acquire(backend: &impl LockBackend, number: u64) -> Result<Attempt, Failure> {
    backend.acquire(&lock(), owner(number), LEASE).await.map_err(|error| error.failure())
}

fn is_held(memory: &MemoryBackend) -> bool {
    memory.keys().contains(&String::from("x"))
}

const UNKNOWN: Failure = Failure::Unavailable(Outcome::Unknown);

#[tokio::test(start_paused = true)]
async fn without_a_script_nothing_fails_and_no_time_passes() {
    let (memory, backend, faults) = backends();
    let start = Instant::now();
    assert!(acquire(&backend, 1).now_or_never().unwrap().is_ok());
    assert!(is_held(&memory));
    assert_eq!((start.elapsed(), faults.calls(Op::Acquire)), (Duration::ZERO, 1));
    assert_eq!((faults.calls(Op::Release), faults.total_calls()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_or_not_executed_changes_nothing_and_is_told_at_once() {
    let (memory, backend, faults) = backends();
    faults.fail_next(Op::Acquire, 1, Fault::Refuse(Refusal::OutOfMemory));
    faults.fail_next(Op::Acquire, 1, Fault::NotExecuted);
    let start = Instant::now();
    assert_eq!(acquire(&backend, 1).await, Err(Failure::Refused(Refusal::OutOfMemory)));
    let failure = Failure::Unavailable(Outcome::NotExecuted);
    assert_eq!(acquire(&backend, 1).await, Err(failure));
    assert!(!is_held(&memory) && start.elapsed().is_zero());
    assert!(acquire(&backend, 1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_is_not_executed_and_a_lost_reply_belongs_to_one_that_is() {
    for (fault, is_executed) in [(Fault::LostRequest, false), (Fault::LostReply, true)] {
        let (memory, backend, faults) = backends();
        faults.fail_next(Op::Acquire, 1, fault);
        let start = Instant::now();
        assert_eq!(acquire(&backend, 1).await, Err(UNKNOWN));
        assert_eq!(start.elapsed(), TIMEOUT);
        time::sleep(LEASE / 2).await;
        assert_eq!(is_held(&memory), is_executed, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_is_executed_after_its_caller_has_given_up() {
    let (memory, backend, faults) = backends();
    faults.fail_next(Op::Acquire, 1, Fault::SlowRequest(TIMEOUT * 2));
    assert_eq!(acquire(&backend, 1).await, Err(UNKNOWN));
    assert!(!is_held(&memory));
    time::sleep(TIMEOUT * 2).await;
    assert!(is_held(&memory));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reply_in_time_is_a_reply() {
    let (_memory, backend, faults) = backends();
    faults.fail_next(Op::Acquire, 1, Fault::SlowReply(TIMEOUT / 2));
    let start = Instant::now();
    assert_eq!(acquire(&backend, 1).await, Ok(Attempt::Acquired { token: None }));
    assert_eq!(start.elapsed(), TIMEOUT / 2);
}

#[tokio::test(start_paused = true)]
async fn a_zombie_is_reported_at_once_and_executed_later() {
    let (memory, backend, faults) = backends();
    faults.fail_next(Op::Acquire, 1, Fault::Late(TIMEOUT * 5));
    assert_eq!(acquire(&backend, 1).now_or_never(), Some(Err(UNKNOWN)));
    time::sleep(TIMEOUT * 4).await;
    assert!(!is_held(&memory));
    time::sleep(TIMEOUT * 2).await;
    assert!(is_held(&memory));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_is_executed_twice() {
    let (_memory, backend, faults) = backends();
    let name = Name::new("count");
    faults.fail_next(Op::AddPermits, 1, Fault::Duplicate(TIMEOUT));
    assert_eq!(backend.add_permits(&name, 5, true).await.unwrap(), 5);
    time::sleep(TIMEOUT * 2).await;
    assert_eq!(backend.available_permits(&name).await.unwrap(), 10);
}

#[tokio::test(start_paused = true)]
async fn what_fails_always_fails_until_it_heals() {
    let (memory, backend, faults) = backends();
    faults.fail_all(Op::Acquire, Fault::NotExecuted);
    for _ in 0..3 {
        assert!(acquire(&backend, 1).await.is_err());
    }
    assert!(backend.release(&lock(), owner(1)).await.is_ok());
    faults.fail_everything(Fault::Refuse(Refusal::Loading));
    assert!(backend.release(&lock(), owner(1)).await.is_err());
    let name = Name::new("b");
    assert!(backend.set(&name, "v".into(), Condition::Always, Expiry::Never).await.is_err());
    faults.heal();
    assert!(acquire(&backend, 1).await.is_ok() && is_held(&memory));
}

#[tokio::test(start_paused = true)]
async fn a_held_operation_waits_for_its_release() {
    let (memory, backend, faults) = backends();
    let held = faults.hold(Op::Acquire);
    let waiting = tokio::spawn(async move { acquire(&backend, 1).await });
    held.arrived(1).await;
    assert!(!is_held(&memory));
    held.release();
    assert!(waiting.await.unwrap().is_ok() && is_held(&memory));
}

#[tokio::test(start_paused = true)]
async fn the_caller_of_a_held_operation_gives_up_in_time() {
    let (memory, backend, faults) = backends();
    let held = faults.hold(Op::Acquire);
    assert_eq!(acquire(&backend, 1).await, Err(UNKNOWN));
    drop(held);
    time::sleep(TIMEOUT).await;
    assert!(is_held(&memory));
}

#[tokio::test(start_paused = true)]
async fn signals_arrive_unless_they_are_lost_and_the_subscription_ends_with_its_waiter() {
    let (memory, backend, faults) = backends();
    let topic = Topic::Lock(lock());
    let wakeup = backend.subscribe(&topic).await.unwrap();
    assert!(wakeup.is_live());
    let release = async |number| {
        acquire(&memory, number).await.unwrap();
        memory.release(&lock(), owner(number)).await.unwrap();
    };
    release(1).await;
    assert!(time::timeout(TIMEOUT, wakeup.notified()).await.is_ok());
    faults.lose_signals();
    release(2).await;
    assert!(time::timeout(TIMEOUT, wakeup.notified()).await.is_err());
    faults.heal();
    release(3).await;
    assert!(time::timeout(TIMEOUT, wakeup.notified()).await.is_ok());
    assert_eq!(memory.subscriptions(), 1);
    drop(wakeup);
    time::sleep(TIMEOUT).await;
    assert_eq!(memory.subscriptions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_subscription_leaves_nothing() {
    let (memory, backend, faults) = backends();
    for fault in [Fault::LostRequest, Fault::LostReply, Fault::NotExecuted] {
        faults.fail_next(Op::Subscribe, 1, fault);
        assert!(backend.subscribe(&Topic::Lock(lock())).await.is_err());
        assert_eq!(memory.subscriptions(), 0);
    }
}

/// What 500 operations over a bad network come to, and how long they take.
async fn journey(seed: u64) -> (Vec<String>, Duration, u64) {
    let link = SimLink::new(seed, LinkProfile::bad());
    let backend = FaultyBackend::new(MemoryBackend::new()).with_link(link.clone());
    let start = Instant::now();
    let mut results = Vec::new();
    for number in 0..500 {
        results.push(format!("{:?}", acquire(&backend, number).await));
        let release = backend.release(&lock(), owner(number)).await;
        results.push(format!("{:?}", release.map_err(|error| error.failure())));
    }
    (results, start.elapsed(), link.faults())
}

#[tokio::test(start_paused = true)]
async fn a_seed_repeats_and_another_does_not() {
    let (results, took, faults) = journey(7).await;
    assert!(faults > 50, "a bad network has faults: {faults}");
    for kind in ["Acquired", "Contended", "Unknown", "NotExecuted", "Loading"] {
        assert!(results.iter().any(|result| result.contains(kind)), "{kind}");
    }
    assert_eq!(journey(7).await, (results.clone(), took, faults));
    assert_ne!(journey(8).await.0, results);
}

#[tokio::test(start_paused = true)]
async fn a_calm_network_has_no_faults() {
    let link = SimLink::new(1, LinkProfile { lost_request: 1000, ..LinkProfile::good() });
    let backend = FaultyBackend::new(MemoryBackend::new()).with_link(link.fork());
    assert_eq!(acquire(&backend, 1).await, Err(UNKNOWN));
    link.calm();
    assert!(acquire(&backend, 1).await.is_ok());
}
