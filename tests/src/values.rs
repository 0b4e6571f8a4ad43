//! A bucket has one value of one type, a name is one object, and what is not ours stays as it is.
//! On the in-process backend, with paused time. The ids are those of the table of fault cases in
//! the book.

#[path = "values/names.rs"]
mod names;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use ferrisson_core::{
    Error, Outcome, Ttl,
    codec::{Raw, Text},
};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs};
use serde::{Deserialize, Serialize};
use tokio::{
    task::JoinSet,
    time::{self, Duration},
};

// B275
#[tokio::test(start_paused = true)]
async fn of_many_who_compare_and_set_one_wins() {
    let world = World::new();
    let clients = [world.client(), world.client(), world.client()];
    for round in 0..100 {
        let name = format!("round {round}");
        // Every other round starts without a value.
        let start = (round % 2 == 0).then_some(0);
        if let Some(start) = &start {
            clients[0].bucket(name.as_str()).set(start).await.unwrap();
        }
        let mut crowd = JoinSet::new();
        for number in 1..=300_usize {
            let bucket = clients[number % 3].bucket::<usize>(name.as_str());
            crowd.spawn(async move {
                let wins = bucket.compare_and_set(start.as_ref(), Some(&number)).await.unwrap();
                wins.then_some(number)
            });
        }
        let winners = Vec::from_iter(crowd.join_all().await.into_iter().flatten());
        let value = clients[0].bucket::<usize>(name.as_str()).get().await.unwrap();
        assert_eq!(winners, Vec::from_iter(value));
    }
}

// B281
#[tokio::test(start_paused = true)]
async fn each_way_to_set_says_what_becomes_of_the_time_to_live() {
    let world = World::new();
    let bucket = world.client().bucket::<u8>("b");
    let (ten, left) = (Ttl::After(secs(10)), Ttl::After(secs(57)));
    let fresh = async || {
        bucket.set_with_ttl(&1, secs(60)).await.unwrap();
        time::sleep(secs(3)).await;
        assert_eq!(bucket.ttl().await.unwrap(), left);
    };
    fresh().await;
    bucket.set_keep_ttl(&2).await.unwrap();
    assert_eq!(bucket.ttl().await.unwrap(), left);
    bucket.set(&3).await.unwrap();
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);
    bucket.set_keep_ttl(&4).await.unwrap();
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);

    fresh().await;
    assert!(!bucket.compare_and_set(Some(&9), Some(&2)).await.unwrap());
    assert!(!bucket.set_if_absent(&2).await.unwrap());
    assert!(!bucket.set_if_absent_with_ttl(&2, secs(10)).await.unwrap());
    assert_eq!((bucket.ttl().await.unwrap(), bucket.get().await.unwrap()), (left, Some(1)));
    assert!(bucket.compare_and_set(Some(&1), Some(&2)).await.unwrap());
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);

    fresh().await;
    assert!(bucket.set_if_exists(&2).await.unwrap());
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);
    assert!(bucket.set_if_exists_with_ttl(&3, secs(10)).await.unwrap());
    assert_eq!(bucket.ttl().await.unwrap(), ten);
    assert_eq!(bucket.get_and_set(&4).await.unwrap(), Some(3));
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent);
    assert_eq!(bucket.get_and_set_with_ttl(&5, secs(10)).await.unwrap(), Some(4));
    assert_eq!(bucket.ttl().await.unwrap(), ten);

    assert!(bucket.expire(secs(60)).await.unwrap() && bucket.clear_expiry().await.unwrap());
    assert!(!bucket.clear_expiry().await.unwrap(), "it has no end");
    assert!(bucket.expire(secs(1)).await.unwrap());
    time::sleep(ms(1002)).await;
    assert!(!bucket.expire(secs(1)).await.unwrap() && !bucket.touch().await.unwrap());
    assert_eq!((bucket.get().await.unwrap(), bucket.ttl().await.unwrap()), (None, Ttl::Absent));
    bucket.set_keep_ttl(&6).await.unwrap();
    assert_eq!(bucket.ttl().await.unwrap(), Ttl::Persistent, "the value before had ended");
}

// B102, B103
#[tokio::test(start_paused = true)]
async fn a_time_to_live_is_kept_or_refused() {
    let world = World::new();
    let bucket = world.client().bucket::<u8>("b");
    for ttl in [Duration::ZERO, Duration::MAX, ms(u64::MAX), ferrisson_core::MAX_LEASE + ms(1)] {
        let results = [
            bucket.set_with_ttl(&1, ttl).await,
            bucket.set_if_absent_with_ttl(&1, ttl).await.map(drop),
            bucket.set_if_exists_with_ttl(&1, ttl).await.map(drop),
            bucket.get_and_set_with_ttl(&1, ttl).await.map(drop),
            bucket.expire(ttl).await.map(drop),
        ];
        for result in results {
            assert!(matches!(result, Err(Error::InvalidArgument { .. })), "{ttl:?}: {result:?}");
        }
    }
    assert_eq!(world.faults.total_calls(), 0);
    for (ttl, kept) in [
        (Duration::from_nanos(1), ms(1)),
        (Duration::from_micros(1001), ms(2)),
        (ferrisson_core::MAX_LEASE, ferrisson_core::MAX_LEASE),
    ] {
        bucket.set_with_ttl(&1, ttl).await.unwrap();
        assert_eq!(bucket.ttl().await.unwrap(), Ttl::After(kept));
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    note: Option<String>,
}

#[tokio::test(start_paused = true)]
async fn a_value_comes_back_as_it_was() {
    let world = World::new();
    let client = world.client();
    let orders = client.bucket::<Order>("order");
    for note in [None, Some(String::new()), Some("ä\0\n\"日本".into())] {
        let order = Order { id: u64::MAX, note };
        orders.set(&order).await.unwrap();
        assert_eq!(orders.get().await.unwrap(), Some(order));
    }
    let raw = client.bucket_with::<Bytes, _>("raw", Raw);
    for bytes in [vec![], vec![0, 0xFF, 0xFE, b'\r', b'\n'], vec![7; 1 << 20]] {
        raw.set(&Bytes::from(bytes.clone())).await.unwrap();
        assert_eq!(raw.get().await.unwrap().as_deref(), Some(&*bytes));
        assert_eq!(raw.size().await.unwrap(), bytes.len() as u64);
    }
    // An empty value is a value, and `null` is one too.
    raw.set(&Bytes::new()).await.unwrap();
    assert!(raw.exists().await.unwrap() && !raw.set_if_absent(&Bytes::new()).await.unwrap());
    let option = client.bucket::<Option<u8>>("option");
    option.set(&None).await.unwrap();
    assert_eq!((option.get().await.unwrap(), option.size().await.unwrap()), (Some(None), 4));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_is_an_error_that_changes_nothing_it_need_not() {
    let world = World::new();
    let client = world.client();
    let (text, number) = (client.bucket_with::<String, _>("b", Text), client.bucket::<u32>("b"));
    let is_codec = |result: &Result<Option<u32>, Error>, direction: &str| {
        let Err(error @ Error::Codec { direction: told, .. }) = result else { return false };
        *told == direction && error.to_string().contains("\"b\"") && !error.is_retryable()
    };
    let secret = "no number: secret";
    text.set(&secret.into()).await.unwrap();
    let result = number.get().await;
    assert!(is_codec(&result, "decoded"));
    assert!(!result.unwrap_err().to_string().contains("secret"), "values are not for logs");
    assert_eq!(text.get().await.unwrap().as_deref(), Some(secret));
    // Compares bytes, and decodes nothing.
    assert!(!number.compare_and_set(Some(&1), Some(&2)).await.unwrap());
    // Done before the old value is looked at, as their documentation says.
    assert!(is_codec(&number.get_and_set(&7).await, "decoded"));
    assert_eq!(number.get().await.unwrap(), Some(7));
    text.set(&secret.into()).await.unwrap();
    assert!(is_codec(&number.take().await, "decoded"));
    assert!(!number.exists().await.unwrap());

    world.store.put_raw("b", Bytes::from_static(&[0xFF, 0xFE]));
    assert!(matches!(text.get().await, Err(Error::Codec { direction: "decoded", .. })));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_encoded_is_an_error_before_anything_is_sent() {
    let world = World::new();
    // A key of JSON is a text.
    let bucket = world.client().bucket::<HashMap<Vec<u8>, u8>>("b");
    let value = HashMap::from([(vec![1], 1)]);
    let results = [
        bucket.set(&value).await,
        bucket.set_if_absent(&value).await.map(drop),
        bucket.get_and_set(&value).await.map(drop),
        bucket.compare_and_set(None, Some(&value)).await.map(drop),
    ];
    for result in results {
        assert!(matches!(result, Err(Error::Codec { direction: "encoded", .. })), "{result:?}");
    }
    assert_eq!(world.faults.total_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn equal_values_of_a_canonical_codec_are_equal_to_compare_and_set() {
    let world = World::new();
    let bucket = world.client().bucket::<BTreeMap<u8, u8>>("b");
    let one = BTreeMap::from([(1, 1), (2, 2), (3, 3)]);
    let same = BTreeMap::from([(3, 3), (2, 2), (1, 1)]);
    bucket.set(&one).await.unwrap();
    assert!(bucket.compare_and_set(Some(&same), None).await.unwrap());
    assert!(!bucket.exists().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_outcome_is_unknown_is_told_and_never_repeated() {
    for (fault, value) in [(Fault::LostReply, Some(2)), (Fault::LostRequest, Some(1))] {
        let world = World::new();
        let bucket = world.client().bucket::<u8>("b");
        bucket.set(&1).await.unwrap();
        world.faults.fail_all(Op::CompareAndSet, fault);
        let result = bucket.compare_and_set(Some(&1), Some(&2)).await;
        let Err(Error::Unavailable { outcome: Outcome::Unknown, .. }) = result else {
            panic!("{result:?}")
        };
        time::sleep(secs(60)).await;
        assert_eq!(bucket.get().await.unwrap(), value);
        assert_eq!(world.faults.calls(Op::CompareAndSet), 1);
    }
}
