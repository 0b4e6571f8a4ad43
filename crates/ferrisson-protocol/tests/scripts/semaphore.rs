//! Semaphores.

use ferrisson_core::{
    Name, Refusal,
    backend::{Failure, PermitAttempt, PermitRecord, PermitRelease, SemaphoreBackend},
};

use crate::support::{World, failure, fresh_name, owner};

const MEMORY: i64 = 16 * 60;

fn channel(name: &Name) -> String {
    format!("redisson_sc:{{{name}}}")
}

fn record(name: &Name, number: u64) -> String {
    format!("ferrisson_permit:{{{name}}}:{}", owner(number))
}

/// A semaphore with this count and time to live in seconds, as another client would write it.
async fn put(world: &mut World, count: &str, ttl: Option<&str>) -> Name {
    let name = fresh_name();
    world.command(&["SET", name.as_str(), count]).await;
    if let Some(ttl) = ttl {
        world.command(&["EXPIRE", name.as_str(), ttl]).await;
    }
    name
}

fn acquired(available: i64) -> PermitAttempt {
    PermitAttempt::Acquired { available }
}

#[tokio::test]
async fn an_absent_semaphore_is_set_once_and_tells() {
    let mut world = World::new().await;
    let name = fresh_name();
    let mut listener = world.listen(channel(&name)).await;
    assert!(world.backend.init_permits(&name, 5).await.unwrap());
    assert!(!world.backend.init_permits(&name, 7).await.unwrap());
    assert_eq!(world.get(name.as_str()).await.as_deref(), Some("5"));
    assert_eq!(world.ttl(name.as_str()).await, -1);
    assert_eq!(listener.heard().await, ["5"]);
    let empty = fresh_name();
    let mut listener = world.listen(channel(&empty)).await;
    assert!(world.backend.init_permits(&empty, 0).await.unwrap());
    assert!(!world.backend.init_permits(&empty, 7).await.unwrap(), "zero is a count");
    assert!(listener.heard().await.is_empty(), "nobody can go on");
}

#[tokio::test]
async fn permits_are_taken_with_a_record_all_or_none() {
    let mut world = World::new().await;
    let name = put(&mut world, "5", Some("500")).await;
    let mut listener = world.listen(channel(&name)).await;
    let attempt = world.backend.acquire_permits(&name, owner(1), 3).await.unwrap();
    assert_eq!(attempt, acquired(2));
    assert_eq!(world.get(name.as_str()).await.as_deref(), Some("2"));
    assert_eq!(world.ttl(name.as_str()).await, 500, "the time to live stays");
    assert_eq!(world.get(record(&name, 1)).await.as_deref(), Some("3"));
    assert_eq!(world.ttl(record(&name, 1)).await, MEMORY);

    let attempt = world.backend.acquire_permits(&name, owner(2), 3).await.unwrap();
    assert_eq!(attempt, PermitAttempt::Exhausted { available: 2 });
    assert_eq!(world.keys(&name).await, [record(&name, 1), name.to_string()]);
    assert_eq!(world.get(name.as_str()).await.as_deref(), Some("2"));
    assert!(listener.heard().await.is_empty());
}

#[tokio::test]
async fn the_last_permit_can_be_taken() {
    let mut world = World::new().await;
    let name = put(&mut world, "3", None).await;
    assert_eq!(world.backend.acquire_permits(&name, owner(1), 3).await.unwrap(), acquired(0));
    assert_eq!(world.get(name.as_str()).await.as_deref(), Some("0"));
}

#[tokio::test]
async fn an_owner_that_asks_again_takes_nothing_more() {
    let mut world = World::new().await;
    let name = put(&mut world, "5", None).await;
    world.backend.acquire_permits(&name, owner(1), 3).await.unwrap();
    for _ in 0..2 {
        let attempt = world.backend.acquire_permits(&name, owner(1), 3).await.unwrap();
        assert_eq!(attempt, acquired(2));
    }
    assert_eq!(world.get(name.as_str()).await.as_deref(), Some("2"));
}

#[tokio::test]
async fn an_absent_or_overdrawn_semaphore_has_nothing_to_take() {
    let mut world = World::new().await;
    let absent = fresh_name();
    let attempt = world.backend.acquire_permits(&absent, owner(1), 1).await.unwrap();
    assert_eq!(attempt, PermitAttempt::Exhausted { available: 0 });
    assert!(world.keys(&absent).await.is_empty());
    let overdrawn = put(&mut world, "-3", None).await;
    let attempt = world.backend.acquire_permits(&overdrawn, owner(1), 1).await.unwrap();
    assert_eq!(attempt, PermitAttempt::Exhausted { available: -3 });
}

#[tokio::test]
async fn permits_come_back_once_by_their_record() {
    let mut world = World::new().await;
    let name = put(&mut world, "5", Some("500")).await;
    let mut listener = world.listen(channel(&name)).await;
    world.backend.acquire_permits(&name, owner(1), 3).await.unwrap();
    let release = || world.backend.release_permits(&name, owner(1), 99, PermitRecord::Kept);
    assert_eq!(release().await.unwrap(), PermitRelease::Released);
    assert_eq!(release().await.unwrap(), PermitRelease::NotHeld);
    assert_eq!(world.get(name.as_str()).await.as_deref(), Some("5"));
    assert_eq!(world.ttl(name.as_str()).await, 500);
    assert_eq!(world.keys(&name).await, [name.as_str()]);
    assert_eq!(listener.heard().await, ["5"]);
}

#[tokio::test]
async fn permits_whose_record_may_be_gone_come_back_by_number() {
    let mut world = World::new().await;
    let name = put(&mut world, "5", None).await;
    let mut listener = world.listen(channel(&name)).await;
    world.backend.acquire_permits(&name, owner(1), 3).await.unwrap();
    for expected in ["5", "8"] {
        let release = world.backend.release_permits(&name, owner(1), 3, PermitRecord::Expired);
        assert_eq!(release.await.unwrap(), PermitRelease::Released);
        assert_eq!(world.get(name.as_str()).await.as_deref(), Some(expected));
    }
    assert_eq!(world.keys(&name).await, [name.as_str()]);
    assert_eq!(listener.heard().await, ["5", "8"]);
}

#[tokio::test]
async fn an_abandoned_owner_gives_back_and_never_takes_again() {
    let mut world = World::new().await;
    let name = put(&mut world, "5", None).await;
    let mut listener = world.listen(channel(&name)).await;
    world.backend.acquire_permits(&name, owner(1), 3).await.unwrap();
    let abandon = |number| world.backend.abandon_permits(&name, owner(number));
    assert_eq!(abandon(1).await.unwrap(), PermitRelease::Released);
    assert_eq!(abandon(1).await.unwrap(), PermitRelease::NotHeld);
    assert_eq!(abandon(2).await.unwrap(), PermitRelease::NotHeld);
    assert_eq!(listener.heard().await, ["5"]);
    for number in [1, 2] {
        assert_eq!(world.get(record(&name, number)).await.as_deref(), Some("void"));
        assert_eq!(world.ttl(record(&name, number)).await, MEMORY);
        let attempt = world.backend.acquire_permits(&name, owner(number), 1).await.unwrap();
        assert_eq!(attempt, PermitAttempt::Abandoned);
        let kept = PermitRecord::Kept;
        let release = world.backend.release_permits(&name, owner(number), 1, kept).await.unwrap();
        assert_eq!(release, PermitRelease::NotHeld);
    }
    assert_eq!(world.get(name.as_str()).await.as_deref(), Some("5"));
}

#[tokio::test]
async fn permits_are_added_with_or_without_the_time_to_live() {
    let mut world = World::new().await;
    for (keep_ttl, ttl) in [(true, 500), (false, -1)] {
        let name = put(&mut world, "5", Some("500")).await;
        let mut listener = world.listen(channel(&name)).await;
        assert_eq!(world.backend.add_permits(&name, 2, keep_ttl).await.unwrap(), 7);
        assert_eq!(world.get(name.as_str()).await.as_deref(), Some("7"));
        assert_eq!(world.ttl(name.as_str()).await, ttl);
        assert_eq!(world.keys(&name).await, [name.as_str()]);
        assert_eq!(listener.heard().await, ["7"]);
    }
    let absent = fresh_name();
    assert_eq!(world.backend.add_permits(&absent, 2, true).await.unwrap(), 2);
    assert_eq!(world.get(absent.as_str()).await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_count_that_is_not_positive_is_not_told() {
    let mut world = World::new().await;
    let name = put(&mut world, "5", None).await;
    let mut listener = world.listen(channel(&name)).await;
    for (permits, count) in [(-5, 0), (-3, -3), (1, -2), (2, 0), (1, 1)] {
        assert_eq!(world.backend.add_permits(&name, permits, true).await.unwrap(), count);
    }
    assert_eq!(listener.heard().await, ["1"]);
    for count in [-1_i64, 0] {
        for number in [1, 2] {
            world.command(&["SET", name.as_str(), &(count - 1).to_string()]).await;
            world.command(&["SET", &record(&name, number), "1"]).await;
            let release = match number {
                1 => world.backend.release_permits(&name, owner(1), 1, PermitRecord::Kept).await,
                _ => world.backend.abandon_permits(&name, owner(2)).await,
            };
            assert_eq!(release.unwrap(), PermitRelease::Released);
            assert_eq!(world.get(name.as_str()).await, Some(count.to_string()));
        }
    }
    assert!(listener.heard().await.is_empty());
}

#[tokio::test]
async fn counts_are_exact_beyond_the_precision_of_a_double() {
    let mut world = World::new().await;
    for large in [(1_i64 << 60) + 1, i64::MAX - 2] {
        let name = put(&mut world, &large.to_string(), None).await;
        let mut listener = world.listen(channel(&name)).await;
        for (number, left) in [(1, large - 3), (2, large - 6)] {
            let attempt = world.backend.acquire_permits(&name, owner(number), 3).await.unwrap();
            assert_eq!(attempt, acquired(left));
        }
        world.backend.release_permits(&name, owner(1), 3, PermitRecord::Kept).await.unwrap();
        world.backend.abandon_permits(&name, owner(2)).await.unwrap();
        assert_eq!(world.backend.available_permits(&name).await.unwrap(), large);
        assert_eq!(world.backend.add_permits(&name, 2, false).await.unwrap(), large + 2);
        let heard = listener.heard().await;
        assert_eq!(heard.len(), 3);
        assert!(heard.iter().all(|told| told.parse::<i64>().is_ok_and(|told| told >= 1 << 53)));
        assert_eq!(world.backend.drain_permits(&name).await.unwrap(), large + 2);
    }
}

#[tokio::test]
async fn a_count_out_of_range_is_refused_and_nothing_is_changed() {
    let mut world = World::new().await;
    let most = i64::MAX.to_string();
    let name = put(&mut world, &most, Some("500")).await;
    world.backend.acquire_permits(&name, owner(1), 3).await.unwrap();
    world.command(&["SET", name.as_str(), &most, "KEEPTTL"]).await;
    let overflow = Failure::Refused(Refusal::Overflow);
    let backend = &world.backend;
    for keep_ttl in [true, false] {
        assert_eq!(failure(backend.add_permits(&name, 1, keep_ttl).await), overflow);
    }
    for record in [PermitRecord::Kept, PermitRecord::Expired] {
        let release = backend.release_permits(&name, owner(1), 3, record).await;
        assert_eq!(failure(release), overflow);
    }
    assert_eq!(failure(backend.abandon_permits(&name, owner(1)).await), overflow);
    assert_eq!(world.get(name.as_str()).await, Some(most));
    assert_eq!(world.ttl(name.as_str()).await, 500);
    assert_eq!(world.get(record(&name, 1)).await.as_deref(), Some("3"), "it can be tried again");
}

#[tokio::test]
async fn drain_takes_all_and_creates_nothing() {
    let mut world = World::new().await;
    for count in ["5", "-3", "0"] {
        let name = put(&mut world, count, Some("500")).await;
        let mut listener = world.listen(channel(&name)).await;
        let drained = world.backend.drain_permits(&name).await.unwrap();
        assert_eq!(drained.to_string(), count);
        assert_eq!(world.get(name.as_str()).await.as_deref(), Some("0"));
        assert_eq!(world.ttl(name.as_str()).await, -1);
        assert!(listener.heard().await.is_empty());
    }
    let absent = fresh_name();
    assert_eq!(world.backend.drain_permits(&absent).await.unwrap(), 0);
    assert_eq!(world.backend.available_permits(&absent).await.unwrap(), 0);
    assert!(world.keys(&absent).await.is_empty());
}

/// Everything that would change the semaphore fails alike.
async fn assert_all_fail(world: &World, name: &Name, expected: Failure) {
    let backend = &world.backend;
    assert_eq!(failure(backend.acquire_permits(name, owner(1), 1).await), expected);
    assert_eq!(failure(backend.acquire_permits(name, owner(2), 1).await), expected);
    for record in [PermitRecord::Kept, PermitRecord::Expired] {
        let release = backend.release_permits(name, owner(2), 1, record).await;
        assert_eq!(failure(release), expected);
    }
    assert_eq!(failure(backend.abandon_permits(name, owner(2)).await), expected);
    assert_eq!(failure(backend.add_permits(name, 1, true).await), expected);
    assert_eq!(failure(backend.add_permits(name, 1, false).await), expected);
    assert_eq!(failure(backend.drain_permits(name).await), expected);
    assert_eq!(failure(backend.available_permits(name).await), expected);
    assert!(!backend.init_permits(name, 1).await.unwrap());
}

#[tokio::test]
async fn what_is_no_count_is_left_alone() {
    let mut world = World::new().await;
    let list = fresh_name();
    world.put_list(&list).await;
    world.command(&["SET", &record(&list, 2), "1"]).await;
    assert_all_fail(&world, &list, Failure::WrongType).await;
    world.assert_list(&list).await;
    assert_eq!(world.get(record(&list, 2)).await.as_deref(), Some("1"));

    for text in ["", "text", "007", " 1", "1.5", "9223372036854775808"] {
        let name = put(&mut world, text, Some("500")).await;
        world.command(&["SET", &record(&name, 2), "1"]).await;
        assert_all_fail(&world, &name, Failure::Refused(Refusal::Other)).await;
        assert_eq!(world.get(name.as_str()).await.as_deref(), Some(text));
        assert_eq!(world.ttl(name.as_str()).await, 500);
        assert_eq!(world.get(record(&name, 2)).await.as_deref(), Some("1"));
    }
}
