//! Locks and semaphores in a cluster: one node in trouble, slots that move, odd names.

use std::time::Duration;

use ferrisson_core::{
    Client, HoldState, LossReason, Name, OwnerId,
    backend::{
        Attempt, LockBackend, LockKey,
        LockKind::{Plain, Reentrant},
        PermitAttempt, Release, SemaphoreBackend,
    },
};
use ferrisson_testkit::{Cluster, poll_until};
use ferrisson_tests::real::{LONG, PATIENCE, backend, is_held_by, soon};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(6);

// B041, B236, B238, B240, B241, B243, B246
#[tokio::test]
async fn a_cluster_with_odd_names_moving_slots_and_nodes_in_trouble() {
    let cluster = Cluster::start().await;
    // Each of these damages the cluster more than the one before.
    odd_names_are_names(&cluster).await;
    a_lock_moves_with_its_slot(&cluster).await;
    a_node_dies_is_replaced_and_comes_back(&cluster).await;
    a_frozen_node_costs_only_its_own_locks(&cluster).await;
}

async fn patient_client(cluster: &Cluster) -> Client {
    let builder = Client::builder(backend(&cluster.url()).await).patience(PATIENCE * 2);
    builder.watchdog_lease(LEASE).build().unwrap()
}

/// All keys of an object are in one slot, whatever braces its name has: also the helper keys,
/// which only trouble brings to light.
async fn odd_names_are_names(cluster: &Cluster) {
    let backend = backend(&cluster.url()).await;
    for (i, name) in
        ["{user}:1", "a{b}c", "x{y}{z}", "{{a}b}", "a{b", "a}b{", "{}x", "}{", "{", "日本 }"]
            .into_iter()
            .enumerate()
    {
        let name = Name::new(name);
        let owner = OwnerId::new(Uuid::new_v4(), i as u64);
        for kind in [Reentrant, Plain] {
            let lock = LockKey { kind, name: name.clone() };
            let other = OwnerId::new(Uuid::new_v4(), i as u64);
            let attempt = backend.acquire(&lock, other, LONG).await.unwrap();
            assert!(matches!(attempt, Attempt::Acquired { .. }), "{name}: {attempt:?}");
            assert_eq!(backend.abandon(&lock, other).await.unwrap(), Release::Released);
            let attempt = backend.acquire(&lock, other, LONG).await.unwrap();
            assert_eq!(attempt, Attempt::Abandoned, "{name}");
        }
        let semaphore = Name::new(format!("{name}s"));
        backend.init_permits(&semaphore, 2).await.unwrap();
        backend.acquire_permits(&semaphore, owner, 1).await.unwrap();
        backend.abandon_permits(&semaphore, owner).await.unwrap();
        let attempt = backend.acquire_permits(&semaphore, owner, 1).await.unwrap();
        assert_eq!(attempt, PermitAttempt::Abandoned, "{semaphore}");
    }
}

/// Held, waited for and renewed while its slot goes to another node.
async fn a_lock_moves_with_its_slot(cluster: &Cluster) {
    let (client, other) = (patient_client(cluster).await, patient_client(cluster).await);
    let guard = client.lock("moving").lock().await.unwrap();
    let lock = other.lock("moving");
    let waiting = tokio::spawn(async move { lock.lock().await });
    let old = cluster.owner_of("moving").await.port();
    let target = cluster.nodes()[..3].iter().find(|node| node.port() != old).unwrap();
    let moving = cluster.begin_move("moving", target).await;
    moving.move_keys().await;
    moving.finish().await;
    poll_until("it is renewed at its new place", PATIENCE, async || {
        assert!(guard.is_held(), "{:?}", guard.state());
        guard.renew(LEASE).await.is_ok()
    })
    .await;
    assert!(is_held_by(&mut target.raw().await, &guard).await);
    guard.unlock().await.unwrap();
    soon(waiting).await.unwrap().unwrap().unlock().await.unwrap();
}

/// A waiting call outlives the failover, and another one the way back.
async fn a_node_dies_is_replaced_and_comes_back(cluster: &Cluster) {
    let client = patient_client(cluster).await;
    let lock = client.lock("mortal");
    lock.lock().await.unwrap().unlock().await.unwrap();
    let mortal = cluster.owner_of("mortal").await;
    mortal.kill();
    // The default limits: a replica has to notice, and to be elected.
    soon(lock.lock()).await.unwrap().unlock().await.unwrap();
    assert_ne!(cluster.owner_of("mortal").await.port(), mortal.port());

    mortal.restart().await;
    poll_until("the old master has its place back", PATIENCE, async || {
        // Refused until it is in step with its successor.
        let _ = mortal.raw().await.command(&["CLUSTER", "FAILOVER"]).await;
        cluster.owner_of("mortal").await.port() == mortal.port()
    })
    .await;
    soon(lock.lock()).await.unwrap().unlock().await.unwrap();
    cluster.wait_until_ok().await;
}

/// A master stops, and its replica with it.
async fn a_frozen_node_costs_only_its_own_locks(cluster: &Cluster) {
    for node in cluster.nodes() {
        node.set_config("cluster-require-full-coverage", "no").await;
    }
    let client = patient_client(cluster).await;
    let frozen = cluster.owner_of("frozen").await;
    let mut healthy = None;
    for i in 0.. {
        let name = format!("healthy-{i}");
        if cluster.owner_of(&name).await.port() != frozen.port() {
            healthy = Some(name);
            break;
        }
    }
    let here = client.lock(healthy.unwrap()).lock().await.unwrap();
    let there = client.lock("frozen").lock().await.unwrap();
    frozen.stop();
    cluster.replica_of(frozen).await.stop();
    assert_eq!(soon(there.lost()).await, LossReason::Expired);
    // By now three renewals of the other have been due.
    assert_eq!(here.state(), HoldState::Held);
    here.unlock().await.unwrap();
}
