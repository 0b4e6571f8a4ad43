//! Permits are taken once and given back once, whatever becomes of the messages.

use ferrisson_core::{Error, backend::ABANDON_MEMORY};
use ferrisson_testkit::faulty::{Fault, Op};
use ferrisson_tests::inproc::{World, ms, secs};
use tokio::time::{self, Duration};

use super::{available, semaphore};

#[tokio::test(start_paused = true)]
async fn permits_that_are_taken_or_given_back_over_a_bad_network_count_once() {
    let faults = [
        Fault::LostReply,
        Fault::LostRequest,
        Fault::Late(ms(30)),
        Fault::Late(secs(5)),
        Fault::Duplicate(ms(30)),
        Fault::SlowReply(ms(1500)),
        Fault::SlowRequest(ms(1500)),
    ];
    for op in [Op::AcquirePermits, Op::ReleasePermits, Op::AbandonPermits] {
        for fault in faults {
            for is_released in [true, false] {
                let world = World::new();
                let semaphore = semaphore(&world, 5).await;
                world.faults.fail_next(op, 1, fault);
                if op == Op::AbandonPermits {
                    world.faults.fail_next(Op::AcquirePermits, 1, Fault::LostReply);
                }
                let permit = semaphore.acquire(2).await.unwrap();
                // A request that arrives twice does so while its permits are held.
                time::sleep(ms(50)).await;
                assert_eq!(available(&semaphore).await, 3, "{op:?}, {fault:?}");
                if is_released {
                    permit.release().await.unwrap();
                } else {
                    drop(permit);
                }
                time::sleep(secs(10)).await;
                assert_eq!(available(&semaphore).await, 5, "{op:?}, {fault:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_outlives_the_memory_of_the_store_counts_once_too() {
    // Half of what the store remembers: from then on a release is sent once.
    let half = ABANDON_MEMORY / 2;
    for before in [secs(60), ms(3000), ms(25), ms(15), ms(5), ms(1)] {
        let world = World::new();
        let semaphore = semaphore(&world, 5).await;
        let permit = semaphore.acquire(2).await.unwrap();
        time::sleep(half - before).await;
        // Executed, and nobody knows; the next try is on the other side of the line.
        world.faults.fail_next(Op::ReleasePermits, 1, Fault::Late(Duration::ZERO));
        drop(permit);
        time::sleep(secs(10)).await;
        assert_eq!(available(&semaphore).await, 5, "{before:?} before");
    }
    let world = World::new();
    let semaphore = semaphore(&world, 5).await;
    let permit = semaphore.acquire(2).await.unwrap();
    time::sleep(half * 3).await;
    permit.release().await.unwrap();
    assert_eq!(available(&semaphore).await, 5, "by number, the record is gone");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_lost_its_data_is_not_given_permits_that_it_does_not_know() {
    let world = World::new();
    let semaphore = semaphore(&world, 5).await;
    let permit = semaphore.acquire(2).await.unwrap();
    world.store.clear();
    assert!(semaphore.try_set_permits(5).await.unwrap());
    assert!(matches!(permit.release().await, Err(Error::LeaseLost { .. })));
    assert_eq!(available(&semaphore).await, 5);
}
