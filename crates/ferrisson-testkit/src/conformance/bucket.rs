//! Buckets.
#![allow(missing_docs, reason = "the name of a case says what it is about")]
#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use ferrisson_core::{
    BucketHandle, Error, MAX_LEASE, Ttl,
    codec::{Json, Raw, Text},
};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::time;

use super::{LONG, SHORT, SOON, Store, bad_names, soon};

type TextBucket = BucketHandle<String, Text>;

impl Store {
    /// One bucket of text, seen by two clients.
    fn buckets(&self, label: &str) -> [TextBucket; 2] {
        let name = self.name(label);
        [0, 1].map(|client| self.clients[client].bucket_with(name.as_str(), Text))
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

async fn value(bucket: &TextBucket) -> Option<String> {
    bucket.get().await.unwrap()
}

/// Whether the time to live is `ttl`, but for the time that a case takes.
async fn assert_ttl(bucket: &TextBucket, ttl: Duration) {
    let Ttl::After(left) = bucket.ttl().await.unwrap() else { panic!("it has a time to live") };
    assert!(left <= ttl && left + SOON > ttl, "{left:?}");
}

async fn until_gone(bucket: &TextBucket) {
    soon(async {
        while bucket.exists().await.unwrap() {
            time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub async fn a_value_is_set_read_and_deleted(store: &Store) {
    let [bucket, other] = store.buckets("set");
    assert_eq!(value(&bucket).await, None);
    assert!(!bucket.exists().await.unwrap() && !bucket.delete().await.unwrap());
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Absent);
    bucket.set(&text("one")).await.unwrap();
    assert_eq!(value(&other).await.as_deref(), Some("one"));
    assert_eq!(other.ttl().await.unwrap(), Ttl::Persistent);
    other.set(&text("two")).await.unwrap();
    assert_eq!(value(&bucket).await.as_deref(), Some("two"));
    assert!(other.exists().await.unwrap() && other.delete().await.unwrap());
    assert!(!bucket.exists().await.unwrap() && !bucket.delete().await.unwrap());
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
    age: Option<u8>,
    tags: Vec<String>,
    scores: BTreeMap<String, f64>,
}

pub async fn every_codec_keeps_every_value(store: &Store) {
    let client = &store.clients[0];
    let person = Person {
        name: text("Jörg \"J\" \0 日本"),
        age: None,
        tags: vec![String::new(), text("b")],
        scores: BTreeMap::from([(text("x"), -1.5e-9)]),
    };
    let bucket = client.bucket::<Person>(store.name("json"));
    bucket.set(&person).await.unwrap();
    assert_eq!(bucket.get().await.unwrap(), Some(person));
    let bucket = client.bucket_with::<u64, _>(store.name("number"), Json);
    bucket.set(&u64::MAX).await.unwrap();
    assert_eq!(bucket.get().await.unwrap(), Some(u64::MAX));
    let bucket = client.bucket::<Option<u8>>(store.name("null"));
    bucket.set(&None).await.unwrap();
    assert_eq!(bucket.get().await.unwrap(), Some(None), "a null is a value");

    let [bucket, _] = store.buckets("text");
    for value in ["", "a", "日本", "a\0b\r\n", "12"] {
        bucket.set(&text(value)).await.unwrap();
        assert_eq!(bucket.get().await.unwrap().as_deref(), Some(value));
        assert!(bucket.exists().await.unwrap());
    }
    let every: Bytes = (0..=255).collect();
    let big = Bytes::from(vec![0xA5; 1 << 20]);
    for value in [Bytes::new(), every, big] {
        let bucket = client.bucket_with::<Bytes, _>(store.name("raw"), Raw);
        bucket.set(&value).await.unwrap();
        assert_eq!(bucket.get().await.unwrap(), Some(value.clone()));
        let bucket = client.bucket_with::<Vec<u8>, _>(store.name("raw"), Raw);
        assert_eq!(bucket.get().await.unwrap(), Some(value.to_vec()));
    }
}

pub async fn a_size_is_that_of_the_encoded_value(store: &Store) {
    let [bucket, _] = store.buckets("size");
    assert_eq!(bucket.size().await.unwrap(), 0);
    for (value, size) in [("", 0), ("1234", 4), ("é", 2)] {
        bucket.set(&text(value)).await.unwrap();
        assert_eq!(bucket.size().await.unwrap(), size);
    }
    let bucket = store.clients[0].bucket::<String>(store.name("size of json"));
    bucket.set(&text("1234")).await.unwrap();
    assert_eq!(bucket.size().await.unwrap(), 6);
}

pub async fn a_value_ends_with_its_time_to_live(store: &Store) {
    let [bucket, other] = store.buckets("end");
    let start = time::Instant::now();
    bucket.set_with_ttl(&text("one"), SHORT).await.unwrap();
    until_gone(&other).await;
    assert!(start.elapsed() >= SHORT);
    assert_eq!(value(&bucket).await, None);
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Absent);
    bucket.set_with_ttl(&text("one"), Duration::from_nanos(1)).await.unwrap();
    until_gone(&other).await;
}

pub async fn a_time_to_live_is_dropped_kept_or_replaced(store: &Store) {
    let [bucket, other] = store.buckets("keep");
    bucket.set_with_ttl(&text("one"), LONG).await.unwrap();
    assert_ttl(&other, LONG).await;
    bucket.set_keep_ttl(&text("two")).await.unwrap();
    assert_ttl(&other, LONG).await;
    bucket.set_with_ttl(&text("three"), LONG * 2).await.unwrap();
    assert_ttl(&other, LONG * 2).await;
    assert_eq!(value(&other).await.as_deref(), Some("three"));
    bucket.set(&text("four")).await.unwrap();
    assert_eq!(other.ttl().await.unwrap(), Ttl::Persistent);
    bucket.set_keep_ttl(&text("five")).await.unwrap();
    assert_eq!(other.ttl().await.unwrap(), Ttl::Persistent);
    assert!(bucket.delete().await.unwrap());
    bucket.set_keep_ttl(&text("six")).await.unwrap();
    assert_eq!(value(&other).await.as_deref(), Some("six"));
}

pub async fn a_time_to_live_can_be_set_and_cleared(store: &Store) {
    let [bucket, other] = store.buckets("expire");
    assert!(!bucket.expire(LONG).await.unwrap() && !bucket.clear_expiry().await.unwrap());
    bucket.set(&text("one")).await.unwrap();
    assert!(!bucket.clear_expiry().await.unwrap(), "it had no end");
    assert!(bucket.expire(LONG).await.unwrap());
    assert_ttl(&other, LONG).await;
    assert!(other.clear_expiry().await.unwrap());
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);
    assert!(bucket.expire(SHORT).await.unwrap());
    until_gone(&other).await;
}

pub async fn a_value_is_set_only_if_absent(store: &Store) {
    let [bucket, other] = store.buckets("absent");
    assert!(bucket.set_if_absent(&text("one")).await.unwrap());
    assert!(!other.set_if_absent(&text("two")).await.unwrap());
    assert!(!other.set_if_absent_with_ttl(&text("two"), LONG).await.unwrap());
    assert_eq!(value(&bucket).await.as_deref(), Some("one"));
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);
    assert!(bucket.delete().await.unwrap());
    assert!(other.set_if_absent_with_ttl(&text("three"), LONG).await.unwrap());
    assert_ttl(&bucket, LONG).await;
}

pub async fn a_value_is_set_only_if_it_exists(store: &Store) {
    let [bucket, other] = store.buckets("exists");
    assert!(!bucket.set_if_exists(&text("one")).await.unwrap());
    assert!(!bucket.set_if_exists_with_ttl(&text("one"), LONG).await.unwrap());
    assert!(!other.exists().await.unwrap());
    bucket.set(&text("two")).await.unwrap();
    assert!(other.set_if_exists_with_ttl(&text("three"), LONG).await.unwrap());
    assert_ttl(&bucket, LONG).await;
    assert!(other.set_if_exists(&text("four")).await.unwrap());
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);
    assert_eq!(value(&bucket).await.as_deref(), Some("four"));
}

pub async fn a_value_is_compared_and_set(store: &Store) {
    let [bucket, other] = store.buckets("compare");
    let (one, two) = (text("one"), text("two"));
    let cases = [
        (Some(&one), Some(&two), false, None),
        (Some(&one), None, false, None),
        (None, None, true, None),
        (None, Some(&one), true, Some("one")),
        (None, Some(&two), false, Some("one")),
        (None, None, false, Some("one")),
        (Some(&two), Some(&two), false, Some("one")),
        (Some(&one), Some(&two), true, Some("two")),
        (Some(&two), Some(&two), true, Some("two")),
        (Some(&two), None, true, None),
    ];
    for (number, (expected, new, done, after)) in cases.into_iter().enumerate() {
        assert_eq!(bucket.compare_and_set(expected, new).await.unwrap(), done, "{number}");
        assert_eq!(value(&other).await.as_deref(), after, "{number}");
    }
    let list = store.clients[0].bucket::<Vec<u8>>(store.name("list"));
    list.set(&vec![1, 2]).await.unwrap();
    assert!(!list.compare_and_set(Some(&vec![2, 1]), None).await.unwrap());
    assert!(list.compare_and_set(Some(&vec![1, 2]), Some(&vec![])).await.unwrap());
    assert!(list.compare_and_set(Some(&vec![]), None).await.unwrap(), "empty is not absent");
}

pub async fn a_comparison_drops_the_time_to_live(store: &Store) {
    let [bucket, other] = store.buckets("compare ttl");
    bucket.set_with_ttl(&text("one"), LONG).await.unwrap();
    assert!(!bucket.compare_and_set(Some(&text("two")), Some(&text("three"))).await.unwrap());
    assert_ttl(&other, LONG).await;
    assert!(bucket.compare_and_set(Some(&text("one")), Some(&text("two"))).await.unwrap());
    assert_eq!(other.ttl().await.unwrap(), Ttl::Persistent);
}

pub async fn a_value_is_replaced_and_answered(store: &Store) {
    let [bucket, other] = store.buckets("replace");
    assert_eq!(bucket.get_and_set(&text("one")).await.unwrap(), None);
    assert_eq!(other.get_and_set_with_ttl(&text("two"), LONG).await.unwrap(), Some(text("one")));
    assert_ttl(&bucket, LONG).await;
    assert_eq!(bucket.get_and_set(&text("three")).await.unwrap(), Some(text("two")));
    assert_eq!(other.ttl().await.unwrap(), Ttl::Persistent);
    assert_eq!(value(&other).await.as_deref(), Some("three"));
}

pub async fn a_value_is_taken(store: &Store) {
    let [bucket, other] = store.buckets("take");
    assert_eq!(bucket.take().await.unwrap(), None);
    bucket.set(&text("one")).await.unwrap();
    let taken = join_all((0..8).map(|number| [&bucket, &other][number % 2].take())).await;
    let taken: Vec<_> = taken.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(taken, ["one"], "by one of all who ask");
    assert!(!other.exists().await.unwrap());
}

pub async fn a_value_can_be_touched(store: &Store) {
    let [bucket, _] = store.buckets("touch");
    assert!(!bucket.touch().await.unwrap());
    bucket.set_with_ttl(&text("one"), LONG).await.unwrap();
    assert!(bucket.touch().await.unwrap());
    assert_ttl(&bucket, LONG).await;
}

pub async fn concurrent_comparisons_lose_no_update(store: &Store) {
    let name = store.name("count");
    let add = async |number: usize| {
        let bucket = store.clients[number % 3].bucket::<u64>(name.as_str());
        for _ in 0..5 {
            loop {
                let before = bucket.get().await.unwrap();
                let after = before.unwrap_or(0) + 1;
                if bucket.compare_and_set(before.as_ref(), Some(&after)).await.unwrap() {
                    break;
                }
            }
        }
    };
    soon(join_all((0..6).map(add))).await;
    assert_eq!(store.clients[0].bucket::<u64>(name).get().await.unwrap(), Some(30));
}

pub async fn times_that_cannot_work_are_refused(store: &Store) {
    let [bucket, _] = store.buckets("ttl");
    bucket.set(&text("one")).await.unwrap();
    let two = text("two");
    for ttl in [Duration::ZERO, MAX_LEASE + Duration::from_millis(1), Duration::MAX] {
        let errors = [
            bucket.set_with_ttl(&two, ttl).await.unwrap_err(),
            bucket.set_if_absent_with_ttl(&two, ttl).await.map(drop).unwrap_err(),
            bucket.set_if_exists_with_ttl(&two, ttl).await.map(drop).unwrap_err(),
            bucket.get_and_set_with_ttl(&two, ttl).await.map(drop).unwrap_err(),
            bucket.expire(ttl).await.map(drop).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| matches!(error, Error::InvalidArgument { .. })));
    }
    assert_eq!(value(&bucket).await.as_deref(), Some("one"));
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);
    bucket.set_with_ttl(&two, MAX_LEASE).await.unwrap();
    assert_ttl(&bucket, MAX_LEASE).await;
}

pub async fn a_value_that_cannot_be_decoded_is_an_error(store: &Store) {
    let name = store.name("decode");
    let raw = store.clients[1].bucket_with::<Bytes, _>(name.as_str(), Raw);
    let bucket = store.clients[0].bucket::<u8>(name.as_str());
    let bad = Bytes::from_static(b"\xFF{");
    raw.set(&bad).await.unwrap();
    let Error::Codec { direction, .. } = bucket.get().await.unwrap_err() else { panic!() };
    assert_eq!(direction, "decoded");
    assert_eq!(raw.get().await.unwrap(), Some(bad.clone()));
    // What was asked for is done; only the answer cannot be read.
    assert!(matches!(bucket.get_and_set(&7).await, Err(Error::Codec { .. })));
    assert_eq!(bucket.get().await.unwrap(), Some(7));
    raw.set(&bad).await.unwrap();
    assert!(matches!(bucket.take().await, Err(Error::Codec { .. })));
    assert!(!raw.exists().await.unwrap());
    let text = store.clients[0].bucket_with::<String, _>(name, Text);
    raw.set(&bad).await.unwrap();
    assert!(matches!(text.get().await, Err(Error::Codec { .. })));
}

pub async fn a_value_that_cannot_be_encoded_changes_nothing(store: &Store) {
    let bucket = store.clients[0].bucket::<BTreeMap<Vec<u8>, u8>>(store.name("encode"));
    let bad = BTreeMap::from([(vec![1], 1)]);
    let Error::Codec { direction, .. } = bucket.set(&bad).await.unwrap_err() else { panic!() };
    assert_eq!(direction, "encoded");
    assert!(bucket.compare_and_set(None, Some(&bad)).await.is_err());
    assert!(!bucket.exists().await.unwrap());
}

pub async fn a_key_of_another_type_is_replaced_only_by_a_set(store: &Store) {
    let [bucket, _] = store.buckets("type");
    let lock = store.clients[1].lock(bucket.name().clone());
    let guard = lock.lock_with(LONG).await.unwrap();
    let one = text("one");
    let errors = [
        bucket.get().await.map(drop).unwrap_err(),
        bucket.compare_and_set(Some(&one), None).await.map(drop).unwrap_err(),
        bucket.get_and_set(&one).await.map(drop).unwrap_err(),
        bucket.take().await.map(drop).unwrap_err(),
        bucket.size().await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::WrongType { .. }), "{error:?}");
    }
    assert!(!bucket.set_if_absent(&one).await.unwrap());
    assert!(bucket.exists().await.unwrap() && lock.is_locked().await.unwrap());
    bucket.set(&one).await.unwrap();
    assert_eq!(value(&bucket).await.as_deref(), Some("one"));
    assert!(guard.unlock().await.is_err());
    assert!(bucket.delete().await.unwrap());
    let guard = lock.lock_with(LONG).await.unwrap();
    assert!(bucket.delete().await.unwrap(), "whatever it holds");
    assert!(guard.unlock().await.is_err());
}

pub async fn odd_names_are_names(store: &Store) {
    for name in store.odd_names() {
        let bucket = store.clients[0].bucket_with::<String, _>(name.as_str(), Text);
        bucket.set(&name).await.unwrap();
        assert_eq!(value(&bucket).await.as_deref(), Some(name.as_str()));
        assert!(bucket.compare_and_set(Some(&name), Some(&text("x"))).await.unwrap());
        assert_eq!(bucket.take().await.unwrap().as_deref(), Some("x"));
    }
}

pub async fn names_that_cannot_work_are_refused(store: &Store) {
    for name in bad_names() {
        let bucket = store.clients[0].bucket_with::<String, _>(name, Text);
        let errors = [
            bucket.get().await.map(drop).unwrap_err(),
            bucket.set(&text("x")).await.unwrap_err(),
            bucket.compare_and_set(None, None).await.map(drop).unwrap_err(),
            bucket.delete().await.map(drop).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| matches!(error, Error::InvalidArgument { .. })));
    }
}

pub async fn a_closed_client_does_nothing_more(store: &Store) {
    let [other, _] = store.buckets("closed");
    let bucket = store.mortal.bucket_with::<String, _>(other.name().clone(), Text);
    bucket.set(&text("one")).await.unwrap();
    soon(store.mortal.close()).await;
    assert!(matches!(bucket.get().await, Err(Error::Closed)));
    assert!(matches!(bucket.set(&text("two")).await, Err(Error::Closed)));
    assert_eq!(value(&other).await.as_deref(), Some("one"));
}
