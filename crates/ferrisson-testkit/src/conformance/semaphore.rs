//! Semaphores.
#![allow(missing_docs, reason = "the name of a case says what it is about")]
#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

use std::{
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use ferrisson_core::{Error, MAX_PERMITS, Refusal, SemaphoreHandle, codec::Text};
use futures::future::join_all;
use tokio::time::{self, Instant};

use super::{LONG, SHORT, SOON, Store, bad_names, begin, soon};

impl Store {
    /// One semaphore, seen by each of the three clients, with so many permits.
    async fn semaphores(&self, label: &str, permits: u32) -> [SemaphoreHandle; 3] {
        let name = self.name(label);
        let semaphores = self.clients.each_ref().map(|client| client.semaphore(name.as_str()));
        assert!(semaphores[0].try_set_permits(permits).await.unwrap());
        semaphores
    }
}

async fn available(semaphore: &SemaphoreHandle) -> i64 {
    semaphore.available_permits().await.unwrap()
}

/// Waits for what happens in the background.
async fn until_available(semaphore: &SemaphoreHandle, permits: i64) {
    soon(async {
        while available(semaphore).await != permits {
            time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub async fn an_absent_semaphore_has_no_permits(store: &Store) {
    let semaphore = store.clients[0].semaphore(store.name("absent"));
    assert_eq!(available(&semaphore).await, 0);
    assert!(semaphore.try_acquire(1, Duration::ZERO).await.unwrap().is_none());
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
    assert!(semaphore.try_set_permits(1).await.unwrap(), "asking has not created it");
}

pub async fn permits_are_set_once(store: &Store) {
    let [semaphore, other, _] = store.semaphores("set", 10).await;
    assert!(!other.try_set_permits(20).await.unwrap());
    assert_eq!(available(&semaphore).await, 10);
    let [none, other, _] = store.semaphores("set none", 0).await;
    assert!(!other.try_set_permits(5).await.unwrap(), "one without permits exists");
    assert_eq!(available(&none).await, 0);
}

pub async fn permits_are_taken_and_given_back(store: &Store) {
    let [semaphore, other, _] = store.semaphores("take", 10).await;
    let three = soon(semaphore.acquire(3)).await.unwrap();
    assert_eq!((three.permits(), three.name()), (3, semaphore.name()));
    let five = other.try_acquire(5, SHORT).await.unwrap().expect("they are there");
    assert_eq!(available(&semaphore).await, 2);
    three.release().await.unwrap();
    assert_eq!(available(&other).await, 5);
    five.release().await.unwrap();
    assert_eq!(available(&other).await, 10);
}

pub async fn permits_are_taken_all_or_none(store: &Store) {
    let [semaphore, other, _] = store.semaphores("all", 3).await;
    assert!(semaphore.try_acquire(4, Duration::ZERO).await.unwrap().is_none());
    assert_eq!(available(&semaphore).await, 3);
    let all = other.try_acquire(3, Duration::ZERO).await.unwrap().expect("they are there");
    assert!(semaphore.try_acquire(1, Duration::ZERO).await.unwrap().is_none());
    all.release().await.unwrap();
}

pub async fn no_permits_are_always_there(store: &Store) {
    let [semaphore, ..] = store.semaphores("zero", 0).await;
    let none = soon(semaphore.acquire(0)).await.unwrap();
    assert_eq!(none.permits(), 0);
    none.release().await.unwrap();
    assert!(semaphore.try_acquire(0, Duration::ZERO).await.unwrap().is_some());
    semaphore.release(0).await.unwrap();
    semaphore.add_permits(0).await.unwrap();
    assert_eq!(available(&semaphore).await, 0);
}

pub async fn more_permits_than_there_can_be_are_refused(store: &Store) {
    let [semaphore, ..] = store.semaphores("huge", MAX_PERMITS).await;
    for permits in [MAX_PERMITS + 1, u32::MAX] {
        let errors = [
            semaphore.acquire(permits).await.map(drop).unwrap_err(),
            semaphore.release(permits).await.unwrap_err(),
            semaphore.try_set_permits(permits).await.map(drop).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| matches!(error, Error::InvalidArgument { .. })));
    }
    let all = semaphore.try_acquire(MAX_PERMITS, Duration::ZERO).await.unwrap();
    let all = all.expect("they are there");
    assert_eq!(available(&semaphore).await, 0);
    all.release().await.unwrap();
    assert_eq!(available(&semaphore).await, i64::from(MAX_PERMITS));
}

pub async fn a_wait_for_permits_ends_when_it_is_over(store: &Store) {
    let [semaphore, ..] = store.semaphores("wait", 1).await;
    let start = Instant::now();
    assert!(semaphore.try_acquire(2, SHORT).await.unwrap().is_none());
    let waited = start.elapsed();
    assert!(waited >= SHORT && waited < SOON, "{waited:?}");
    for wait in [Duration::from_nanos(1), LONG, Duration::MAX] {
        let permit = soon(semaphore.try_acquire(1, wait)).await.unwrap().expect("it is there");
        permit.release().await.unwrap();
    }
}

pub async fn a_release_wakes_a_waiter(store: &Store) {
    let [semaphore, other, _] = store.semaphores("wake", 1).await;
    let permit = semaphore.acquire(1).await.unwrap();
    let wait = |semaphore: &SemaphoreHandle| {
        let semaphore = semaphore.clone();
        async move { semaphore.acquire(1).await?.release().await }
    };
    let waiting = [begin(wait(&semaphore)).await, begin(wait(&other)).await];
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    permit.release().await.unwrap();
    for waiting in waiting {
        soon(waiting).await.unwrap().unwrap();
    }
}

pub async fn many_permits_are_waited_for_through_several_releases(store: &Store) {
    let [semaphore, other, third] = store.semaphores("several", 0).await;
    let waiting = begin(async move { other.acquire(4).await }).await;
    for _ in 0..3 {
        semaphore.release(1).await.unwrap();
        time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
    }
    semaphore.release(1).await.unwrap();
    let permit = soon(waiting).await.unwrap().unwrap();
    assert_eq!(available(&third).await, 0);
    permit.release().await.unwrap();
    assert_eq!(available(&third).await, 4);
}

pub async fn added_permits_wake_a_waiter_and_can_be_negative(store: &Store) {
    let [semaphore, other, _] = store.semaphores("add", 1).await;
    semaphore.add_permits(-6).await.unwrap();
    assert_eq!(available(&semaphore).await, -5);
    let waiting = begin(async move { other.acquire(2).await }).await;
    assert!(semaphore.try_acquire(1, Duration::ZERO).await.unwrap().is_none());
    semaphore.add_permits(7).await.unwrap();
    let permit = soon(waiting).await.unwrap().unwrap();
    assert_eq!(available(&semaphore).await, 0);
    permit.release().await.unwrap();
}

pub async fn permits_that_are_set_wake_a_waiter(store: &Store) {
    let name = store.name("set wakes");
    let other = store.clients[1].semaphore(name.as_str());
    let waiting = begin(async move { other.acquire(2).await }).await;
    assert!(store.clients[0].semaphore(name).try_set_permits(2).await.unwrap());
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
}

pub async fn permits_can_be_drained(store: &Store) {
    let [semaphore, other, _] = store.semaphores("drain", 10).await;
    let permit = semaphore.acquire(3).await.unwrap();
    assert_eq!(other.drain_permits().await.unwrap(), 7);
    assert_eq!(other.drain_permits().await.unwrap(), 0);
    permit.release().await.unwrap();
    assert_eq!(available(&other).await, 3);
}

pub async fn a_release_without_permits_adds_them(store: &Store) {
    let (semaphore, other) = {
        let name = store.name("release");
        (store.clients[0].semaphore(name.as_str()), store.clients[1].semaphore(name.as_str()))
    };
    semaphore.release(2).await.unwrap();
    assert_eq!(available(&other).await, 2);
    let permit = other.acquire(1).await.unwrap();
    semaphore.release(1).await.unwrap();
    permit.release().await.unwrap();
    assert_eq!(available(&other).await, 3);
}

pub async fn dropped_permits_are_given_back_and_forgotten_ones_are_not(store: &Store) {
    let [semaphore, other, _] = store.semaphores("drop", 5).await;
    drop(semaphore.acquire(5).await.unwrap());
    let permit = soon(other.acquire(5)).await.unwrap();
    permit.release().await.unwrap();
    semaphore.acquire(2).await.unwrap().forget();
    drop(semaphore.acquire(1).await.unwrap());
    until_available(&other, 3).await;
    time::sleep(SHORT).await;
    assert_eq!(available(&other).await, 3);
}

pub async fn a_large_request_is_not_overtaken_by_a_small_one(store: &Store) {
    let [semaphore, other, _] = store.semaphores("row", 0).await;
    let order = Mutex::new(Vec::new());
    let take = async |permits| {
        let permit = soon(semaphore.acquire(permits)).await.unwrap();
        order.lock().unwrap().push(permits);
        permit.forget();
    };
    let give = async {
        for _ in 0..9 {
            time::sleep(Duration::from_millis(20)).await;
            other.release(1).await.unwrap();
        }
    };
    // Polled for the first time in this order.
    tokio::join!(join_all([3, 1, 4, 1].map(take)), give);
    assert_eq!(order.into_inner().unwrap(), [3, 1, 4, 1]);
}

pub async fn never_more_are_taken_than_there_are(store: &Store) {
    const PERMITS: i64 = 3;
    let semaphores = store.semaphores("limit", 3).await;
    let (taken, most) = (AtomicI64::new(0), AtomicI64::new(0));
    let work = async |number: usize| {
        let permits = if number.is_multiple_of(4) { 2 } else { 1 };
        for _ in 0..5 {
            let permit = soon(semaphores[number % 3].acquire(permits)).await.unwrap();
            let now = taken.fetch_add(permits.into(), Ordering::SeqCst) + i64::from(permits);
            most.fetch_max(now, Ordering::SeqCst);
            time::sleep(Duration::from_millis(2)).await;
            taken.fetch_sub(permits.into(), Ordering::SeqCst);
            permit.release().await.unwrap();
        }
    };
    join_all((0..9).map(work)).await;
    assert_eq!(available(&semaphores[0]).await, PERMITS);
    let most = most.into_inner();
    assert!(most <= PERMITS && most > 1, "{most} at once");
}

pub async fn a_cancelled_wait_takes_nothing(store: &Store) {
    let [semaphore, other, _] = store.semaphores("cancel", 1).await;
    let permit = semaphore.acquire(1).await.unwrap();
    for patience in [Duration::from_millis(1), SHORT] {
        for semaphore in [&semaphore, &other] {
            assert!(time::timeout(patience, semaphore.acquire(MAX_PERMITS)).await.is_err());
            assert!(time::timeout(patience, semaphore.acquire(1)).await.is_err());
        }
    }
    permit.release().await.unwrap();
    time::sleep(SHORT).await;
    assert_eq!(available(&other).await, 1);
    soon(other.acquire(1)).await.unwrap().release().await.unwrap();
}

pub async fn the_count_does_not_overflow(store: &Store) {
    let name = store.name("overflow");
    let semaphore = store.clients[0].semaphore(name.as_str());
    let raw = store.clients[1].bucket_with::<String, _>(name, Text);
    for (count, change) in [(i64::MAX, 1), (i64::MIN, -1)] {
        raw.set(&count.to_string()).await.unwrap();
        let error = semaphore.add_permits(change).await.unwrap_err();
        let Error::Refused { refusal: Refusal::Overflow, .. } = error else { panic!("{error:?}") };
        assert_eq!(available(&semaphore).await, count);
    }
}

pub async fn a_key_of_another_type_is_not_touched(store: &Store) {
    let name = store.name("type");
    let semaphore = store.clients[0].semaphore(name.as_str());
    let guard = store.clients[1].lock(name.as_str()).lock_with(LONG).await.unwrap();
    let errors = [
        semaphore.try_acquire(1, Duration::ZERO).await.map(drop).unwrap_err(),
        semaphore.release(1).await.unwrap_err(),
        semaphore.available_permits().await.map(drop).unwrap_err(),
        semaphore.drain_permits().await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::WrongType { .. }), "{error:?}");
    }
    assert!(!semaphore.try_set_permits(1).await.unwrap());
    guard.unlock().await.unwrap();
    let bucket = store.clients[1].bucket_with::<String, _>(name, Text);
    bucket.set(&"text".into()).await.unwrap();
    let error = semaphore.try_acquire(1, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    assert_eq!(bucket.get().await.unwrap().as_deref(), Some("text"));
}

pub async fn odd_names_are_names(store: &Store) {
    for name in store.odd_names() {
        let semaphore = store.clients[0].semaphore(name.as_str());
        let other = store.clients[1].semaphore(name.as_str());
        assert!(semaphore.try_set_permits(1).await.unwrap(), "{name:?}");
        let permit = soon(semaphore.acquire(1)).await.unwrap();
        let waiting = tokio::spawn(async move { other.acquire(1).await });
        permit.release().await.unwrap();
        soon(waiting).await.unwrap().unwrap().release().await.unwrap();
        assert_eq!(available(&semaphore).await, 1, "{name:?}");
    }
}

pub async fn names_that_cannot_work_are_refused(store: &Store) {
    for name in bad_names() {
        let semaphore = store.clients[0].semaphore(name);
        let errors = [
            semaphore.acquire(0).await.map(drop).unwrap_err(),
            semaphore.acquire(1).await.map(drop).unwrap_err(),
            semaphore.release(0).await.unwrap_err(),
            semaphore.try_set_permits(1).await.map(drop).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| matches!(error, Error::InvalidArgument { .. })));
    }
}

pub async fn a_closed_client_gives_back_what_was_dropped(store: &Store) {
    let [other, ..] = store.semaphores("closed", 3).await;
    let semaphore = store.mortal.semaphore(other.name().clone());
    drop(semaphore.acquire(1).await.unwrap());
    let kept = semaphore.acquire(1).await.unwrap();
    let waiting = {
        let semaphore = semaphore.clone();
        begin(async move { semaphore.acquire(3).await }).await
    };
    soon(store.mortal.close()).await;
    assert!(matches!(soon(waiting).await.unwrap(), Err(Error::Closed)));
    assert_eq!(available(&other).await, 2);
    assert!(matches!(semaphore.available_permits().await, Err(Error::Closed)));
    assert!(matches!(semaphore.acquire(0).await, Err(Error::Closed)));
    kept.forget();
}
