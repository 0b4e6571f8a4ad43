//! The backend traits: every operation goes through [`FaultyBackend::call`].
#![deny(clippy::missing_trait_methods)]

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

use super::{FaultyBackend, Op};

type Result<T, E = BackendError> = std::result::Result<T, E>;

/// Sends one operation on its way. What it borrows (`&`) is cloned into the request, which may be
/// executed later than the call ends, and twice.
macro_rules! send {
    ($self:ident, $op:ident, $method:ident(& $borrowed:ident $(, $owned:ident)*)) => {{
        let $borrowed = $borrowed.to_owned();
        $self
            .call(Op::$op, move |inner| {
                let $borrowed = $borrowed.clone();
                $(let $owned = $owned.clone();)*
                async move { inner.$method(&$borrowed $(, $owned)*).await }
            })
            .await
    }};
}

#[async_trait]
impl LockBackend for FaultyBackend {
    async fn acquire(&self, lock: &LockKey, owner: OwnerId, lease: Duration) -> Result<Attempt> {
        send!(self, Acquire, acquire(&lock, owner, lease))
    }

    async fn release(&self, lock: &LockKey, owner: OwnerId) -> Result<Release> {
        send!(self, Release, release(&lock, owner))
    }

    async fn abandon(&self, lock: &LockKey, owner: OwnerId) -> Result<Release> {
        send!(self, Abandon, abandon(&lock, owner))
    }

    async fn renew(&self, requests: &[RenewalRequest]) -> Vec<Result<Renewal>> {
        let requests = requests.to_vec();
        let n = requests.len();
        let renewals = self
            .call(Op::Renew, move |inner| {
                let requests = requests.clone();
                async move { Ok(inner.renew(&requests).await) }
            })
            .await;
        renewals.unwrap_or_else(|error| vec![Err(error); n])
    }

    async fn set_holds(&self, lock: &LockKey, owner: OwnerId, holds: u32) -> Result<Renewal> {
        send!(self, SetHolds, set_holds(&lock, owner, holds))
    }

    async fn inspect(&self, lock: &LockKey) -> Result<Option<LockInfo>> {
        send!(self, Inspect, inspect(&lock))
    }

    async fn force_release(&self, lock: &LockKey) -> Result<bool> {
        send!(self, ForceRelease, force_release(&lock))
    }
}

#[async_trait]
impl SemaphoreBackend for FaultyBackend {
    async fn acquire_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
    ) -> Result<PermitAttempt> {
        send!(self, AcquirePermits, acquire_permits(&name, owner, permits))
    }

    async fn release_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
        record: PermitRecord,
    ) -> Result<PermitRelease> {
        send!(self, ReleasePermits, release_permits(&name, owner, permits, record))
    }

    async fn abandon_permits(&self, name: &Name, owner: OwnerId) -> Result<PermitRelease> {
        send!(self, AbandonPermits, abandon_permits(&name, owner))
    }

    async fn add_permits(&self, name: &Name, permits: i64, keep_ttl: bool) -> Result<i64> {
        send!(self, AddPermits, add_permits(&name, permits, keep_ttl))
    }

    async fn init_permits(&self, name: &Name, permits: u32) -> Result<bool> {
        send!(self, InitPermits, init_permits(&name, permits))
    }

    async fn drain_permits(&self, name: &Name) -> Result<i64> {
        send!(self, DrainPermits, drain_permits(&name))
    }

    async fn available_permits(&self, name: &Name) -> Result<i64> {
        send!(self, AvailablePermits, available_permits(&name))
    }
}

#[async_trait]
impl BucketBackend for FaultyBackend {
    async fn get(&self, name: &Name) -> Result<Option<Bytes>> {
        send!(self, Get, get(&name))
    }

    async fn set(
        &self,
        name: &Name,
        value: Bytes,
        condition: Condition,
        expiry: Expiry,
    ) -> Result<bool> {
        send!(self, Set, set(&name, value, condition, expiry))
    }

    async fn replace(&self, name: &Name, value: Bytes, expiry: Expiry) -> Result<Option<Bytes>> {
        send!(self, Replace, replace(&name, value, expiry))
    }

    async fn compare_and_set(
        &self,
        name: &Name,
        expected: Option<Bytes>,
        new: Option<Bytes>,
    ) -> Result<bool> {
        send!(self, CompareAndSet, compare_and_set(&name, expected, new))
    }

    async fn take(&self, name: &Name) -> Result<Option<Bytes>> {
        send!(self, Take, take(&name))
    }

    async fn delete(&self, name: &Name) -> Result<bool> {
        send!(self, Delete, delete(&name))
    }

    async fn exists(&self, name: &Name) -> Result<bool> {
        send!(self, Exists, exists(&name))
    }

    async fn size(&self, name: &Name) -> Result<u64> {
        send!(self, Size, size(&name))
    }

    async fn expire(&self, name: &Name, ttl: Option<Duration>) -> Result<bool> {
        send!(self, Expire, expire(&name, ttl))
    }

    async fn ttl(&self, name: &Name) -> Result<Ttl> {
        send!(self, Ttl, ttl(&name))
    }

    async fn touch(&self, name: &Name) -> Result<bool> {
        send!(self, Touch, touch(&name))
    }
}

#[async_trait]
impl NotifyBackend for FaultyBackend {
    async fn subscribe(&self, topic: &Topic) -> Result<Wakeup> {
        self.subscribe_faultily(topic).await
    }
}

#[async_trait]
impl Lifecycle for FaultyBackend {
    async fn close(&self) {
        self.inner.close().await;
    }
}
