//! Buckets.

use std::time::Duration;

use bytes::Bytes;
use ferrisson_core::backend::{BucketBackend, Condition, Expiry, Failure, Ttl};

use crate::support::{World, failure, fresh_name};

const TTL: Duration = Duration::from_secs(100);

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[tokio::test]
async fn a_value_is_its_bytes_under_its_name() {
    let mut world = World::new().await;
    let name = fresh_name();
    assert_eq!(world.backend.get(&name).await.unwrap(), None);
    let value = Bytes::from_static(b"\0\r\n\xff{}");
    let never = Expiry::Never;
    assert!(world.backend.set(&name, value.clone(), Condition::Always, never).await.unwrap());
    assert_eq!(world.backend.get(&name).await.unwrap(), Some(value));
    assert_eq!(world.backend.size(&name).await.unwrap(), 6);
    assert_eq!(world.keys(&name).await, [name.as_str()]);
    assert!(world.backend.exists(&name).await.unwrap());
    assert!(world.backend.touch(&name).await.unwrap());
    assert!(world.backend.delete(&name).await.unwrap());
    assert!(!world.backend.delete(&name).await.unwrap());
    assert!(!world.backend.exists(&name).await.unwrap());
    assert!(!world.backend.touch(&name).await.unwrap());
    assert_eq!(world.backend.size(&name).await.unwrap(), 0);
}

#[tokio::test]
async fn conditions_and_expiries_go_together() {
    let mut world = World::new().await;
    for (condition, if_absent, if_exists) in [
        (Condition::Always, true, true),
        (Condition::IfAbsent, true, false),
        (Condition::IfExists, false, true),
    ] {
        for (expiry, fresh_ttl, ttl) in
            [(Expiry::Never, -1, -1), (Expiry::Keep, -1, 500), (Expiry::After(TTL), 100, 100)]
        {
            let name = fresh_name();
            let set = world.backend.set(&name, bytes("new"), condition, expiry).await.unwrap();
            assert_eq!(set, if_absent, "{condition:?} {expiry:?}");
            assert_eq!(world.ttl(name.as_str()).await, if set { fresh_ttl } else { -2 });

            world.command(&["SET", name.as_str(), "old", "EX", "500"]).await;
            let set = world.backend.set(&name, bytes("new"), condition, expiry).await.unwrap();
            assert_eq!(set, if_exists, "{condition:?} {expiry:?}");
            let (value, ttl) = if set { ("new", ttl) } else { ("old", 500) };
            assert_eq!(world.get(name.as_str()).await.as_deref(), Some(value));
            assert_eq!(world.ttl(name.as_str()).await, ttl, "{condition:?} {expiry:?}");
        }
    }
}

#[tokio::test]
async fn replace_and_take_answer_what_was_there() {
    let mut world = World::new().await;
    let name = fresh_name();
    let replace = |value, expiry| world.backend.replace(&name, bytes(value), expiry);
    assert_eq!(replace("a", Expiry::After(TTL)).await.unwrap(), None);
    assert_about(world.backend.ttl(&name).await.unwrap(), TTL);
    assert_eq!(replace("", Expiry::Never).await.unwrap(), Some(bytes("a")));
    assert_eq!(world.ttl(name.as_str()).await, -1);
    assert_eq!(world.backend.take(&name).await.unwrap(), Some(bytes("")));
    assert_eq!(world.backend.take(&name).await.unwrap(), None);
}

#[tokio::test]
async fn compare_and_set_knows_absence_from_emptiness() {
    let mut world = World::new().await;
    for (before, expected, new, done) in [
        (None, None, Some("n"), true),
        (None, None, None, true),
        (None, Some(""), Some("n"), false),
        (None, Some(""), None, false),
        (Some(""), None, Some("n"), false),
        (Some(""), None, None, false),
        (Some(""), Some(""), Some("n"), true),
        (Some("a"), Some("a"), Some(""), true),
        (Some("a"), Some("a"), None, true),
        (Some("a"), Some("b"), Some("n"), false),
        (Some("a"), Some("b"), None, false),
    ] {
        let name = fresh_name();
        if let Some(before) = before {
            world.command(&["SET", name.as_str(), before, "EX", "500"]).await;
        }
        let swap = world.backend.compare_and_set(&name, expected.map(bytes), new.map(bytes)).await;
        assert_eq!(swap.unwrap(), done, "{before:?} {expected:?} {new:?}");
        let after = if done { new } else { before };
        assert_eq!(world.get(name.as_str()).await.as_deref(), after);
        let ttl = match (done, after) {
            (_, None) => -2,
            (true, Some(_)) => -1,
            (false, Some(_)) => 500,
        };
        assert_eq!(world.ttl(name.as_str()).await, ttl, "{before:?} {expected:?} {new:?}");
    }
}

#[tokio::test]
async fn a_time_to_live_is_set_shown_and_removed() {
    let mut world = World::new().await;
    let name = fresh_name();
    assert_eq!(world.backend.ttl(&name).await.unwrap(), Ttl::Absent);
    assert!(!world.backend.expire(&name, Some(TTL)).await.unwrap());
    assert!(!world.backend.expire(&name, None).await.unwrap());
    world.command(&["SET", name.as_str(), "a"]).await;
    assert_eq!(world.backend.ttl(&name).await.unwrap(), Ttl::Persistent);
    assert!(!world.backend.expire(&name, None).await.unwrap());
    assert!(world.backend.expire(&name, Some(TTL)).await.unwrap());
    assert_about(world.backend.ttl(&name).await.unwrap(), TTL);
    assert!(world.backend.expire(&name, None).await.unwrap());
    assert_eq!(world.ttl(name.as_str()).await, -1);
}

#[tokio::test]
async fn a_key_of_another_type_is_left_alone() {
    let mut world = World::new().await;
    let name = fresh_name();
    world.put_list(&name).await;
    let backend = &world.backend;
    let wrong = Failure::WrongType;
    assert_eq!(failure(backend.get(&name).await), wrong);
    assert_eq!(failure(backend.size(&name).await), wrong);
    assert_eq!(failure(backend.take(&name).await), wrong);
    assert_eq!(failure(backend.replace(&name, bytes("a"), Expiry::Never).await), wrong);
    for expected in [None, Some(bytes("a"))] {
        let swap = backend.compare_and_set(&name, expected, Some(bytes("b"))).await;
        assert_eq!(failure(swap), wrong);
    }
    let if_absent = backend.set(&name, bytes("a"), Condition::IfAbsent, Expiry::Never).await;
    assert!(!if_absent.unwrap());
    world.assert_list(&name).await;
}

/// Asserts that the time that is left is this long, save for what a test takes.
#[track_caller]
fn assert_about(ttl: Ttl, expected: Duration) {
    let Ttl::After(left) = ttl else { panic!("{ttl:?}") };
    assert!(left <= expected && left > expected / 2, "{left:?}");
}
