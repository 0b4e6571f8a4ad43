//! What the public types can be used for, so that no change takes it away unseen: across threads,
//! behind `dyn`, as mocks.

use std::{marker::PhantomData, rc::Rc, sync::Arc};

use ferrisson_core::{
    Bucket, Client, Error, Lease, Lock, LockGuard, Name, Outcome, Result, Semaphore,
    SemaphorePermit,
    backend::{BackendError, Failure},
    codec::{Json, Text},
    mock::{MockBucket, MockLock, MockSemaphore},
};
use ferrisson_memory::MemoryBackend;
use ferrisson_tests::inproc::{ms, secs};

/// Answers, for a type that is named, whether it has an auto trait: an inherent constant is found
/// before one of a trait.
struct Probe<T: ?Sized>(PhantomData<T>);

trait No {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNPIN: bool = false;
}

impl<T: ?Sized> No for Probe<T> {}

impl<T: ?Sized + Send> Probe<T> {
    const SEND: bool = true;
}

impl<T: ?Sized + Sync> Probe<T> {
    const SYNC: bool = true;
}

impl<T: ?Sized + Unpin> Probe<T> {
    const UNPIN: bool = true;
}

macro_rules! shape {
    ($($type:ty),* $(,)?) => {
        [$((
            stringify!($type),
            [Probe::<$type>::SEND, Probe::<$type>::SYNC, Probe::<$type>::UNPIN],
        )),*]
    };
}

#[test]
fn the_probe_tells_apart() {
    let shapes = shape![u8, Rc<u8>, std::cell::Cell<u8>, std::marker::PhantomPinned];
    let expected =
        [[true, true, true], [false, false, true], [true, false, true], [true, true, false]];
    assert_eq!(shapes.map(|(_, shape)| shape), expected);
}

#[test]
fn every_public_type_goes_where_it_is_needed() {
    use ferrisson_core::{backend::*, *};
    let shapes = shape![
        Client,
        ClientBuilder,
        LockHandle,
        LockGuard,
        SemaphoreHandle,
        SemaphorePermit,
        BucketHandle<u8, Json>,
        // A handle has no value in it.
        BucketHandle<Rc<u8>, Text>,
        dyn Lock,
        dyn Semaphore,
        dyn Bucket<u8>,
        MockLock,
        MockSemaphore,
        MockBucket<u8>,
        Name,
        Lease,
        OwnerId,
        FencingToken,
        HoldState,
        LockInfo,
        Ttl,
        Error,
        Cause,
        LossReason,
        Outcome,
        Refusal,
        Json,
        Text,
        codec::Raw,
        dyn codec::Codec<u8>,
        MemoryBackend,
        dyn Backend,
        dyn LockBackend,
        dyn SemaphoreBackend,
        dyn BucketBackend,
        dyn NotifyBackend,
        dyn Lifecycle,
        BackendError,
        Failure,
        LockKey,
        LockKind,
        Attempt,
        Release,
        Renewal,
        RenewalRequest,
        PermitAttempt,
        PermitRecord,
        PermitRelease,
        Condition,
        Expiry,
        Topic,
        Wakeup,
        WakeupHub,
    ];
    for (name, [send, sync, unpin]) in shapes {
        // What is behind a pointer only does not have to be `Unpin`: its box is.
        assert!(send && sync && (unpin || name.starts_with("dyn")), "{name}");
    }
}

/// Compiles if all of these can be spawned on a runtime of several threads.
#[test]
fn every_call_can_be_spawned() {
    fn is_send<F: Future + Send>(_: impl FnOnce() -> F) {}
    let client = Client::new_for_test();
    let (lock, semaphore) = (client.lock("x"), client.semaphore("s"));
    let bucket = client.bucket::<u8>("b");
    let guard = || LockGuard::detached("x");
    let permit = || SemaphorePermit::detached("s", 1);
    is_send(|| lock.lock());
    is_send(|| lock.lock_with(secs(1)));
    is_send(|| lock.try_lock(secs(1), Lease::AutoRenew));
    is_send(|| lock.inspect());
    is_send(|| lock.force_unlock());
    is_send(|| async { guard().lost().await });
    is_send(|| async { guard().run(async {}).await });
    is_send(|| async { guard().renew(secs(1)).await });
    is_send(|| async { guard().reenter().await.map(drop) });
    is_send(|| guard().unlock());
    is_send(|| semaphore.acquire(1));
    is_send(|| semaphore.try_acquire(1, secs(1)));
    is_send(|| semaphore.release(1));
    is_send(|| permit().release());
    is_send(|| bucket.get());
    is_send(|| bucket.set(&1));
    is_send(|| bucket.compare_and_set(None, Some(&1)));
    is_send(|| client.close());
}

trait ForTest {
    fn new_for_test() -> Self;
}

impl ForTest for Client {
    /// Outside of a runtime: making a client and its handles needs none.
    fn new_for_test() -> Self {
        Self::new(MemoryBackend::new())
    }
}

/// What an application passes around.
struct Shop {
    lock: Arc<dyn Lock>,
    permits: Box<dyn Semaphore>,
    total: Arc<dyn Bucket<u32>>,
}

#[derive(Debug, PartialEq)]
enum Sale {
    Done(u32),
    Crowded,
    Closed,
}

impl Shop {
    async fn sell(&self) -> Result<Sale> {
        let Some(_permit) = self.permits.try_acquire(1, ms(10)).await? else {
            return Ok(Sale::Crowded);
        };
        let Some(guard) = self.lock.try_lock(ms(10), Lease::AutoRenew).await? else {
            return Ok(Sale::Closed);
        };
        let total = guard.run(self.total.get()).await??.unwrap_or(0) + 1;
        self.total.set(&total).await?;
        guard.unlock().await?;
        Ok(Sale::Done(total))
    }
}

/// Mocks that let everything pass.
fn mocks() -> (MockLock, MockSemaphore, MockBucket<u32>) {
    let (mut lock, mut permits, mut total) =
        (MockLock::new(), MockSemaphore::new(), MockBucket::new());
    lock.expect_try_lock().returning(|_, _| Ok(Some(LockGuard::detached("shop"))));
    permits.expect_try_acquire().returning(|n, _| Ok(Some(SemaphorePermit::detached("shop", n))));
    total.expect_get().returning(|| Ok(Some(41)));
    total.expect_set().withf(|total| *total == 42).returning(|_| Ok(()));
    (lock, permits, total)
}

fn shop((lock, permits, total): (MockLock, MockSemaphore, MockBucket<u32>)) -> Shop {
    Shop { lock: Arc::new(lock), permits: Box::new(permits), total: Arc::new(total) }
}

fn unavailable() -> Error {
    let name = Name::new("shop");
    let source = Arc::new(BackendError::new(Failure::Unavailable(Outcome::NotExecuted), "mocked"));
    Error::Unavailable { operation: "acquisition", name, outcome: Outcome::NotExecuted, source }
}

#[tokio::test]
async fn the_same_code_runs_on_handles_and_on_mocks() {
    let client = Client::new_for_test();
    client.semaphore("s").try_set_permits(1).await.unwrap();
    let real = Shop {
        lock: Arc::new(client.lock("x")),
        permits: Box::new(client.semaphore("s")),
        total: Arc::new(client.bucket::<u32>("b")),
    };
    assert_eq!(real.sell().await.unwrap(), Sale::Done(1));
    assert_eq!(real.sell().await.unwrap(), Sale::Done(2));
    assert_eq!(shop(mocks()).sell().await.unwrap(), Sale::Done(42));
}

#[tokio::test]
async fn mocks_force_the_branches_that_are_hard_to_reach() {
    let (mut lock, permits, total) = mocks();
    lock.checkpoint();
    lock.expect_try_lock().times(1).returning(|_, _| Ok(None));
    assert_eq!(shop((lock, permits, total)).sell().await.unwrap(), Sale::Closed);

    let (lock, mut permits, total) = mocks();
    permits.checkpoint();
    permits.expect_try_acquire().times(1).returning(|_, _| Ok(None));
    assert_eq!(shop((lock, permits, total)).sell().await.unwrap(), Sale::Crowded);

    let (mut lock, permits, total) = mocks();
    lock.checkpoint();
    lock.expect_try_lock().times(1).returning(|_, _| Err(unavailable()));
    let result = shop((lock, permits, total)).sell().await;
    assert!(matches!(result, Err(error) if error.is_retryable()));

    let (lock, permits, mut total) = mocks();
    total.checkpoint();
    total.expect_get().returning(|| Err(unavailable()));
    assert!(shop((lock, permits, total)).sell().await.is_err());
}

#[tokio::test]
async fn detached_guards_and_permits_hold_nothing_and_fail_at_nothing() {
    let guard = LockGuard::detached("x");
    assert!(guard.is_held() && guard.fencing_token().is_none());
    assert_eq!((guard.hold_count(), guard.remaining()), (1, std::time::Duration::MAX));
    assert_eq!(guard.run(async { 7 }).await.unwrap(), 7);
    guard.renew(secs(1)).await.unwrap();
    assert!(guard.renew(ms(1)).await.is_err(), "what is wrong is wrong here, too");
    guard.reenter().await.unwrap().unlock().await.unwrap();
    guard.forget();
    let permit = SemaphorePermit::detached("s", 3);
    assert_eq!((permit.permits(), permit.name().as_str()), (3, "s"));
    permit.release().await.unwrap();
}
