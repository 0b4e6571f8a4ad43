//! The backend traits over the state: clock, locking and signals.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use ferrisson_core::{
    Name, OwnerId,
    backend::{
        Attempt, BackendError, BucketBackend, Condition, Expiry, Lifecycle, LockBackend, LockInfo,
        LockKey, NotifyBackend, PermitAttempt, PermitRecord, PermitRelease, Release, Renewal,
        RenewalRequest, SemaphoreBackend, Topic, Ttl, Wakeup,
    },
};

use crate::{
    MemoryBackend,
    state::{Rejection, State},
};

type Result<T, E = BackendError> = std::result::Result<T, E>;

#[async_trait]
impl LockBackend for MemoryBackend {
    async fn acquire(&self, lock: &LockKey, owner: OwnerId, lease: Duration) -> Result<Attempt> {
        self.fallible(|state, now| state.acquire(lock, owner, lease, now)).await
    }

    async fn release(&self, lock: &LockKey, owner: OwnerId) -> Result<Release> {
        let release = self.fallible(|state, now| state.release(lock, owner, now)).await?;
        self.wake_if(release == Release::Released, || lock_channel(lock));
        Ok(release)
    }

    async fn abandon(&self, lock: &LockKey, owner: OwnerId) -> Result<Release> {
        let release = self.fallible(|state, now| state.abandon(lock, owner, now)).await?;
        self.wake_if(release == Release::Released, || lock_channel(lock));
        Ok(release)
    }

    async fn renew(&self, requests: &[RenewalRequest]) -> Vec<Result<Renewal>> {
        let renew = |state: &mut State, now| {
            requests.iter().map(|request| Ok(state.renew(request, now)?)).collect()
        };
        self.infallible(renew).await
    }

    async fn set_holds(&self, lock: &LockKey, owner: OwnerId, holds: u32) -> Result<Renewal> {
        self.fallible(|state, now| state.set_holds(lock, owner, holds, now)).await
    }

    async fn inspect(&self, lock: &LockKey) -> Result<Option<LockInfo>> {
        self.fallible(|state, now| state.inspect(lock, now)).await
    }

    async fn force_release(&self, lock: &LockKey) -> Result<bool> {
        let was_held = self.fallible(|state, now| state.force_release(lock, now)).await?;
        self.wake_if(was_held, || lock_channel(lock));
        Ok(was_held)
    }
}

#[async_trait]
impl SemaphoreBackend for MemoryBackend {
    async fn acquire_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
    ) -> Result<PermitAttempt> {
        self.fallible(|state, now| state.acquire_permits(name, owner, permits, now)).await
    }

    async fn release_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
        record: PermitRecord,
    ) -> Result<PermitRelease> {
        let release = |state: &mut State, now| {
            state.release_permits(name, owner, permits, record, now) //
        };
        let release = self.fallible(release).await?;
        self.wake_if(release == PermitRelease::Released, || semaphore_channel(name));
        Ok(release)
    }

    async fn abandon_permits(&self, name: &Name, owner: OwnerId) -> Result<PermitRelease> {
        let release = self.fallible(|state, now| state.abandon_permits(name, owner, now)).await?;
        self.wake_if(release == PermitRelease::Released, || semaphore_channel(name));
        Ok(release)
    }

    async fn add_permits(&self, name: &Name, permits: i64, keep_ttl: bool) -> Result<i64> {
        let count =
            self.fallible(|state, now| state.add_permits(name, permits, keep_ttl, now)).await?;
        self.wake_if(true, || semaphore_channel(name));
        Ok(count)
    }

    async fn init_permits(&self, name: &Name, permits: u32) -> Result<bool> {
        let is_set = self.infallible(|state, now| state.init_permits(name, permits, now)).await;
        self.wake_if(is_set, || semaphore_channel(name));
        Ok(is_set)
    }

    async fn drain_permits(&self, name: &Name) -> Result<i64> {
        self.fallible(|state, now| state.drain_permits(name, now)).await
    }

    async fn available_permits(&self, name: &Name) -> Result<i64> {
        self.fallible(|state, now| state.available_permits(name, now)).await
    }
}

#[async_trait]
impl BucketBackend for MemoryBackend {
    async fn get(&self, name: &Name) -> Result<Option<Bytes>> {
        self.fallible(|state, now| state.get(name, now)).await
    }

    async fn set(
        &self,
        name: &Name,
        value: Bytes,
        condition: Condition,
        expiry: Expiry,
    ) -> Result<bool> {
        Ok(self.infallible(|state, now| state.set(name, value, condition, expiry, now)).await)
    }

    async fn replace(&self, name: &Name, value: Bytes, expiry: Expiry) -> Result<Option<Bytes>> {
        self.fallible(|state, now| state.replace(name, value, expiry, now)).await
    }

    async fn compare_and_set(
        &self,
        name: &Name,
        expected: Option<Bytes>,
        new: Option<Bytes>,
    ) -> Result<bool> {
        self.fallible(|state, now| state.compare_and_set(name, expected.as_ref(), new, now)).await
    }

    async fn take(&self, name: &Name) -> Result<Option<Bytes>> {
        self.fallible(|state, now| state.take(name, now)).await
    }

    async fn delete(&self, name: &Name) -> Result<bool> {
        Ok(self.infallible(|state, now| state.delete(name, now)).await)
    }

    async fn exists(&self, name: &Name) -> Result<bool> {
        Ok(self.infallible(|state, now| state.exists(name, now)).await)
    }

    async fn size(&self, name: &Name) -> Result<u64> {
        self.fallible(|state, now| state.size(name, now)).await
    }

    async fn expire(&self, name: &Name, ttl: Option<Duration>) -> Result<bool> {
        Ok(self.infallible(|state, now| state.expire(name, ttl, now)).await)
    }

    async fn ttl(&self, name: &Name) -> Result<Ttl> {
        Ok(self.infallible(|state, now| state.ttl(name, now)).await)
    }

    /// Nothing is evicted here, so there is nothing to mark.
    async fn touch(&self, name: &Name) -> Result<bool> {
        self.exists(name).await
    }
}

#[async_trait]
impl NotifyBackend for MemoryBackend {
    async fn subscribe(&self, topic: &Topic) -> Result<Wakeup> {
        let channel = match topic {
            Topic::Lock(lock) => lock_channel(lock),
            Topic::Semaphore(name) => semaphore_channel(name),
            _ => return Err(Rejection::UnknownKind.into()),
        };
        let wakeup = self.0.hub.register(&channel);
        self.0.hub.set_live(&channel, true);
        Ok(wakeup)
    }
}

#[async_trait]
impl Lifecycle for MemoryBackend {
    /// Nothing: there is nothing to end, and clones go on using the store.
    async fn close(&self) {}
}

impl MemoryBackend {
    async fn fallible<T>(
        &self,
        step: impl FnOnce(&mut State, u64) -> Result<T, Rejection> + Send,
    ) -> Result<T> {
        Ok(self.infallible(step).await?)
    }

    async fn infallible<T>(&self, step: impl FnOnce(&mut State, u64) -> T + Send) -> T {
        // A loop over operations that are always ready would keep its thread from every other task.
        tokio::task::coop::consume_budget().await;
        self.step(step)
    }

    fn wake_if(&self, has_changed: bool, channel: impl FnOnce() -> String) {
        if has_changed {
            self.0.hub.wake(&channel());
        }
    }
}

fn lock_channel(lock: &LockKey) -> String {
    format!("lock:{:?}:{}", lock.kind, lock.name)
}

fn semaphore_channel(name: &Name) -> String {
    format!("semaphore:{name}")
}

#[cfg(test)]
mod tests;
