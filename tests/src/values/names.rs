//! A name means one object to all, and nobody touches what is not of its kind.

use bytes::Bytes;
use ferrisson_core::{
    Client, Error, MAX_NAME_LEN, Name, Result,
    backend::{NotifyBackend, Topic},
    codec::Raw,
};
use ferrisson_tests::inproc::{World, secs, settle};
use futures::{FutureExt, future::BoxFuture};
use tokio::time::Duration;

/// Every operation of every kind of object that looks at the type of a value, by its name.
fn operations(
    client: &Client,
    name: &'static str,
) -> Vec<(&'static str, BoxFuture<'static, Result<()>>)> {
    let (lock, plain) = (client.lock(name), client.plain_lock(name));
    let (semaphore, bucket) = (client.semaphore(name), client.bucket_with::<Bytes, _>(name, Raw));
    macro_rules! operations {
        ($($kind:literal $object:ident: $call:expr;)*) => {
            vec![$(($kind, {
                let $object = $object.clone();
                async move { $call.await.map(drop) }.boxed()
            })),*]
        };
    }
    operations! {
        "lock" lock: lock.try_lock(Duration::ZERO, secs(60));
        "lock" lock: lock.lock();
        "lock" lock: lock.inspect();
        "lock" lock: lock.force_unlock();
        "plain lock" plain: plain.try_lock(Duration::ZERO, secs(60));
        "plain lock" plain: plain.lock();
        "plain lock" plain: plain.inspect();
        "plain lock" plain: plain.force_unlock();
        "semaphore" semaphore: semaphore.acquire(1);
        "semaphore" semaphore: semaphore.release(1);
        "semaphore" semaphore: semaphore.add_permits(-1);
        "semaphore" semaphore: semaphore.drain_permits();
        "semaphore" semaphore: semaphore.available_permits();
        "bucket" bucket: bucket.get();
        "bucket" bucket: bucket.size();
        "bucket" bucket: bucket.take();
        "bucket" bucket: bucket.get_and_set(&Bytes::new());
        "bucket" bucket: bucket.compare_and_set(None, Some(&Bytes::new()));
    }
}

// B259
#[tokio::test(start_paused = true)]
async fn a_name_of_another_kind_is_refused_with_its_name_and_not_touched() {
    let world = World::new();
    let client = world.client();
    let guard = client.lock("hash").lock_with(secs(60)).await.unwrap();
    for (kind, operation) in operations(&client, "hash").into_iter().filter(|(k, _)| *k != "lock") {
        let result = operation.await;
        let Err(Error::WrongType { name, .. }) = &result else { panic!("{kind}: {result:?}") };
        assert_eq!(name.as_str(), "hash");
        assert!(!result.unwrap_err().is_retryable());
    }
    let info = client.lock("hash").inspect().await.unwrap().unwrap();
    assert_eq!((info.remaining, guard.owner() == *info.owner.as_str()), (Some(secs(60)), true));

    // A string is a bucket, a plain lock, and a semaphore if it is a number: not a lock.
    client.bucket_with::<Bytes, _>("string", Raw).set(&"text".into()).await.unwrap();
    for (kind, operation) in operations(&client, "string").into_iter().filter(|(k, _)| *k == "lock")
    {
        let result = operation.await;
        assert!(matches!(result, Err(Error::WrongType { .. })), "{kind}: {result:?}");
    }
    let value = client.bucket_with::<Bytes, _>("string", Raw).get().await.unwrap();
    assert_eq!(value.as_deref(), Some(&b"text"[..]));
}

// B259
#[tokio::test(start_paused = true)]
async fn a_bucket_can_be_set_and_deleted_over_anything() {
    let world = World::new();
    let client = world.client();
    let bucket = client.bucket::<u8>("x");
    client.lock("x").lock_with(secs(60)).await.unwrap().forget();
    assert!(!bucket.set_if_absent(&1).await.unwrap());
    bucket.set(&1).await.unwrap();
    assert_eq!(bucket.get().await.unwrap(), Some(1));
    assert!(bucket.delete().await.unwrap());
    client.lock("x").lock_with(secs(60)).await.unwrap().forget();
    assert!(bucket.exists().await.unwrap() && bucket.delete().await.unwrap());
    assert!(!bucket.exists().await.unwrap());
}

// B262
#[tokio::test(start_paused = true)]
async fn an_empty_or_huge_name_is_refused_before_anything_is_sent() {
    let world = World::new();
    let clients = [world.client(), world.builder().namespace("app").build().unwrap()];
    let huge: &'static str = "x".repeat(1 << 20).leak();
    for client in clients {
        for name in ["", huge] {
            for (kind, operation) in operations(&client, name) {
                let result = operation.await;
                let Err(error @ Error::InvalidArgument { what: "name", .. }) = &result else {
                    panic!("{kind}: {result:?}")
                };
                assert!(error.to_string().len() < 300, "it does not flood the log");
            }
            let semaphore = client.semaphore(name);
            assert!(semaphore.acquire(0).await.is_err() && semaphore.release(0).await.is_err());
        }
    }
    assert_eq!((world.faults.total_calls(), world.store.keys()), (0, vec![]));
}

// B262
#[tokio::test(start_paused = true)]
async fn any_other_text_is_a_name_and_means_itself() {
    let world = World::new();
    let client = world.client();
    let long = "ö".repeat(MAX_NAME_LEN / 2);
    let names =
        ["{", "}", "{}", "{{a}b}", "a{b", " ", "a b", "日本", "a\0b", "A", "a", "a*", &long];
    let mut guards = Vec::new();
    for name in names {
        let guard = client.lock(name).try_lock(Duration::ZERO, secs(60)).await.unwrap();
        guards.push(guard.expect("no other name is this one"));
        assert_eq!(client.lock(name).name(), &Name::new(name));
    }
    assert_eq!(world.store.keys().len(), names.len());
    for (name, guard) in names.into_iter().zip(guards) {
        assert!(world.store.keys().contains(&name.to_owned()));
        guard.unlock().await.unwrap();
    }
    assert_eq!(world.store.keys(), Vec::<String>::new());
}

// B244, B263
#[tokio::test(start_paused = true)]
async fn a_namespace_is_put_before_every_name_once() {
    let world = World::new();
    let client = world.builder().namespace("app1").build().unwrap();
    let guard = client.lock("lock").lock().await.unwrap();
    let plain = client.plain_lock("plain").lock().await.unwrap();
    client.semaphore("semaphore").try_set_permits(1).await.unwrap();
    client.bucket("bucket").set(&1).await.unwrap();
    let expected = ["app1:bucket", "app1:lock", "app1:plain", "app1:semaphore"];
    assert_eq!(world.store.keys(), expected);
    assert_eq!((guard.name().as_str(), plain.name().as_str()), ("app1:lock", "app1:plain"));

    // Every operation means the same key; a client without a namespace sees it by its full name.
    let bare = world.client();
    assert!(client.lock("lock").is_locked().await.unwrap());
    assert!(bare.lock("app1:lock").is_locked().await.unwrap());
    assert!(!bare.lock("lock").is_locked().await.unwrap());
    assert_eq!(bare.bucket::<u8>("app1:bucket").get().await.unwrap(), Some(1));
    assert_eq!(client.bucket::<u8>("bucket").take().await.unwrap(), Some(1));
    assert!(client.lock("lock").force_unlock().await.unwrap());
    drop((guard, plain));
    settle().await;
    assert_eq!(world.store.keys(), ["app1:semaphore"]);
}

// B244
#[tokio::test(start_paused = true)]
async fn two_namespaces_never_meet_and_a_signal_stays_in_its_own() {
    let world = World::new();
    let [one, two] = ["one", "two"].map(|space| world.builder().namespace(space).build().unwrap());
    let a = one.lock("x").try_lock(Duration::ZERO, secs(60)).await.unwrap().unwrap();
    let _b = two.lock("x").try_lock(Duration::ZERO, secs(60)).await.unwrap().unwrap();
    let topic =
        |name: &'static str| Topic::lock(ferrisson_core::backend::LockKind::Reentrant, name.into());
    let ours = world.store.subscribe(&topic("one:x")).await.unwrap();
    let others = world.store.subscribe(&topic("two:x")).await.unwrap();
    let bare = world.store.subscribe(&topic("x")).await.unwrap();
    a.unlock().await.unwrap();
    assert!(ours.notified().now_or_never().is_some());
    assert!(others.notified().now_or_never().is_none() && bare.notified().now_or_never().is_none());
}

// B265, B267
#[tokio::test(start_paused = true)]
async fn names_that_are_used_once_leave_no_keys() {
    let world = World::new();
    let client = world.client();
    for number in 0..5_000 {
        let name = format!("lock {number}");
        let lock = if number % 2 == 0 { client.lock(name) } else { client.plain_lock(name) };
        let guard = lock.lock_with(secs(1)).await.unwrap();
        match number % 3 {
            0 => guard.unlock().await.unwrap(),
            1 => drop(guard),
            _ => guard.forget(),
        }
    }
    tokio::time::sleep(secs(2)).await;
    assert_eq!(world.store.keys(), Vec::<String>::new());
}
