//! A backend that records what the store really had.
#![deny(clippy::missing_trait_methods)]

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use ferrisson_core::{
    Name, OwnerId,
    backend::{
        Attempt, Backend, BackendError, BucketBackend, Condition, Expiry, Lifecycle, LockBackend,
        LockInfo, LockKey, NotifyBackend, PermitAttempt, PermitRecord, PermitRelease, Release,
        Renewal, RenewalRequest, SemaphoreBackend, Topic, Ttl, Wakeup,
    },
};
use tokio::time::Instant;

use crate::history::{History, Interval};

type Result<T, E = BackendError> = std::result::Result<T, E>;

/// Passes everything on, and writes to a [`History`] who had which lock, and which permits, from
/// when to when. Cheap to clone; clones share the record.
///
/// It stands next to the store: below a [`FaultyBackend`](crate::faulty::FaultyBackend). What it
/// records is exact if the store takes no time: the in-process one, on one thread.
#[derive(Clone)]
pub struct Observed {
    inner: Arc<dyn Backend>,
    history: History,
    held: Arc<Mutex<Record>>,
}

#[derive(Debug, Default)]
struct Record {
    locks: BTreeMap<LockKey, Hold>,
    permits: BTreeMap<(Name, OwnerId), (u32, Instant)>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    owner: OwnerId,
    from: Instant,
    until: Instant,
}

impl Observed {
    /// Records what this backend does.
    pub fn new(inner: impl Backend, history: &History) -> Self {
        Self { inner: Arc::new(inner), history: history.clone(), held: Arc::default() }
    }

    /// Who has the lock at this moment, and until when if nothing else happens.
    #[must_use]
    pub fn holder(&self, lock: &LockKey) -> Option<(OwnerId, Instant)> {
        let record = self.locked();
        let hold = record.locks.get(lock).filter(|hold| Instant::now() < hold.until)?;
        Some((hold.owner, hold.until))
    }

    /// Writes what is still held to the history, as if it went on as long as it can.
    pub fn finish(&self) {
        let record = std::mem::take(&mut *self.locked());
        for (lock, hold) in record.locks {
            self.write(&lock.name, hold.owner, 1, hold.from, hold.until);
        }
        for ((name, owner), (permits, from)) in record.permits {
            self.write(&name, owner, permits, from, Instant::now());
        }
    }

    fn granted(&self, lock: &LockKey, owner: OwnerId, lease: Duration) {
        let (now, mut record) = (Instant::now(), self.locked());
        let until = now + lease;
        match record.locks.get_mut(lock) {
            Some(hold) if hold.owner == owner && now <= hold.until => hold.until = until,
            _ => {
                let before = record.locks.insert(lock.clone(), Hold { owner, from: now, until });
                if let Some(hold) = before {
                    self.write(&lock.name, hold.owner, 1, hold.from, hold.until);
                }
            }
        }
    }

    fn freed(&self, lock: &LockKey) {
        if let Some(hold) = self.locked().locks.remove(lock) {
            let until = hold.until.min(Instant::now());
            self.write(&lock.name, hold.owner, 1, hold.from, until);
        }
    }

    fn returned(&self, name: &Name, owner: OwnerId) {
        if let Some((permits, from)) = self.locked().permits.remove(&(name.clone(), owner)) {
            self.write(name, owner, permits, from, Instant::now());
        }
    }

    fn write(&self, name: &Name, owner: OwnerId, permits: u32, from: Instant, to: Instant) {
        let (from, to) = (self.history.at(from), self.history.at(to));
        let (name, owner) = (name.to_string(), owner.to_string());
        self.history.truth(Interval { name, owner, permits, from, to });
    }

    fn locked(&self) -> MutexGuard<'_, Record> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl LockBackend for Observed {
    async fn acquire(&self, lock: &LockKey, owner: OwnerId, lease: Duration) -> Result<Attempt> {
        let attempt = self.inner.acquire(lock, owner, lease).await?;
        if let Attempt::Acquired { .. } = attempt {
            self.granted(lock, owner, lease);
        }
        Ok(attempt)
    }

    async fn release(&self, lock: &LockKey, owner: OwnerId) -> Result<Release> {
        let release = self.inner.release(lock, owner).await?;
        if release == Release::Released {
            self.freed(lock);
        }
        Ok(release)
    }

    async fn abandon(&self, lock: &LockKey, owner: OwnerId) -> Result<Release> {
        let release = self.inner.abandon(lock, owner).await?;
        if release == Release::Released {
            self.freed(lock);
        }
        Ok(release)
    }

    async fn renew(&self, requests: &[RenewalRequest]) -> Vec<Result<Renewal>> {
        let renewals = self.inner.renew(requests).await;
        for (request, renewal) in requests.iter().zip(&renewals) {
            if let Ok(Renewal::Renewed) = renewal {
                self.granted(&request.lock, request.owner, request.lease);
            }
        }
        renewals
    }

    async fn set_holds(&self, lock: &LockKey, owner: OwnerId, holds: u32) -> Result<Renewal> {
        self.inner.set_holds(lock, owner, holds).await
    }

    async fn inspect(&self, lock: &LockKey) -> Result<Option<LockInfo>> {
        self.inner.inspect(lock).await
    }

    async fn force_release(&self, lock: &LockKey) -> Result<bool> {
        let was_held = self.inner.force_release(lock).await?;
        self.freed(lock);
        Ok(was_held)
    }
}

#[async_trait]
impl SemaphoreBackend for Observed {
    async fn acquire_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
    ) -> Result<PermitAttempt> {
        let attempt = self.inner.acquire_permits(name, owner, permits).await?;
        if let PermitAttempt::Acquired { .. } = attempt {
            let now = Instant::now();
            self.locked().permits.entry((name.clone(), owner)).or_insert((permits, now));
        }
        Ok(attempt)
    }

    async fn release_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
        record: PermitRecord,
    ) -> Result<PermitRelease> {
        let release = self.inner.release_permits(name, owner, permits, record).await?;
        if release == PermitRelease::Released {
            self.returned(name, owner);
        }
        Ok(release)
    }

    async fn abandon_permits(&self, name: &Name, owner: OwnerId) -> Result<PermitRelease> {
        let release = self.inner.abandon_permits(name, owner).await?;
        if release == PermitRelease::Released {
            self.returned(name, owner);
        }
        Ok(release)
    }

    async fn add_permits(&self, name: &Name, permits: i64, keep_ttl: bool) -> Result<i64> {
        self.inner.add_permits(name, permits, keep_ttl).await
    }

    async fn init_permits(&self, name: &Name, permits: u32) -> Result<bool> {
        self.inner.init_permits(name, permits).await
    }

    async fn drain_permits(&self, name: &Name) -> Result<i64> {
        self.inner.drain_permits(name).await
    }

    async fn available_permits(&self, name: &Name) -> Result<i64> {
        self.inner.available_permits(name).await
    }
}

#[async_trait]
impl BucketBackend for Observed {
    async fn get(&self, name: &Name) -> Result<Option<Bytes>> {
        self.inner.get(name).await
    }

    async fn set(
        &self,
        name: &Name,
        value: Bytes,
        condition: Condition,
        expiry: Expiry,
    ) -> Result<bool> {
        self.inner.set(name, value, condition, expiry).await
    }

    async fn replace(&self, name: &Name, value: Bytes, expiry: Expiry) -> Result<Option<Bytes>> {
        self.inner.replace(name, value, expiry).await
    }

    async fn compare_and_set(
        &self,
        name: &Name,
        expected: Option<Bytes>,
        new: Option<Bytes>,
    ) -> Result<bool> {
        self.inner.compare_and_set(name, expected, new).await
    }

    async fn take(&self, name: &Name) -> Result<Option<Bytes>> {
        self.inner.take(name).await
    }

    async fn delete(&self, name: &Name) -> Result<bool> {
        self.inner.delete(name).await
    }

    async fn exists(&self, name: &Name) -> Result<bool> {
        self.inner.exists(name).await
    }

    async fn size(&self, name: &Name) -> Result<u64> {
        self.inner.size(name).await
    }

    async fn expire(&self, name: &Name, ttl: Option<Duration>) -> Result<bool> {
        self.inner.expire(name, ttl).await
    }

    async fn ttl(&self, name: &Name) -> Result<Ttl> {
        self.inner.ttl(name).await
    }

    async fn touch(&self, name: &Name) -> Result<bool> {
        self.inner.touch(name).await
    }
}

#[async_trait]
impl NotifyBackend for Observed {
    async fn subscribe(&self, topic: &Topic) -> Result<Wakeup> {
        self.inner.subscribe(topic).await
    }
}

#[async_trait]
impl Lifecycle for Observed {
    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
    use ferrisson_core::backend::LockKind;
    use ferrisson_memory::MemoryBackend;
    use tokio::time;
    use uuid::Uuid;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn owner(number: u64) -> OwnerId {
        OwnerId::new(Uuid::from_u128(1), number)
    }

    /// Who had what, in seconds.
    fn truths(history: &History) -> Vec<(String, u64, u64)> {
        let seconds = |interval: Interval| {
            let number = interval.owner.rsplit(':').next().unwrap().to_owned();
            (number, interval.from.as_secs(), interval.to.as_secs())
        };
        history.truths().into_iter().map(seconds).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn grants_renewals_releases_and_ends_of_leases_are_recorded() {
        let history = History::new();
        let backend = Observed::new(MemoryBackend::new(), &history);
        let lock = LockKey { kind: LockKind::Reentrant, name: Name::new("x") };
        backend.acquire(&lock, owner(1), SECOND * 5).await.unwrap();
        backend.acquire(&lock, owner(2), SECOND * 5).await.unwrap();
        time::sleep(SECOND * 3).await;
        let request = RenewalRequest { lock: lock.clone(), owner: owner(1), lease: SECOND * 4 };
        backend.renew(std::slice::from_ref(&request)).await;
        assert_eq!(backend.holder(&lock), Some((owner(1), Instant::now() + SECOND * 4)));
        time::sleep(SECOND * 10).await;
        assert_eq!(backend.holder(&lock), None);
        backend.renew(&[request]).await;
        backend.acquire(&lock, owner(3), SECOND * 5).await.unwrap();
        time::sleep(SECOND).await;
        backend.release(&lock, owner(2)).await.unwrap();
        backend.release(&lock, owner(3)).await.unwrap();
        backend.acquire(&lock, owner(4), SECOND * 5).await.unwrap();
        backend.finish();
        let expected = [("1".into(), 0, 7), ("3".into(), 13, 14), ("4".into(), 14, 19)];
        assert_eq!(truths(&history), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn permits_are_recorded_once() {
        let history = History::new();
        let backend = Observed::new(MemoryBackend::new(), &history);
        let name = Name::new("s");
        backend.init_permits(&name, 3).await.unwrap();
        for _ in 0..2 {
            backend.acquire_permits(&name, owner(1), 2).await.unwrap();
        }
        backend.acquire_permits(&name, owner(2), 2).await.unwrap();
        time::sleep(SECOND).await;
        for _ in 0..2 {
            backend.abandon_permits(&name, owner(1)).await.unwrap();
        }
        assert_eq!(truths(&history), [("1".into(), 0, 1)]);
        assert_eq!(history.truths()[0].permits, 2);
    }
}
