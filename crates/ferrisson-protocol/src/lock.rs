mod kind;
mod renewal;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use ferrisson_core::{
    OwnerId,
    backend::{
        ABANDON_MEMORY, Attempt, BackendError, LockBackend, LockInfo, LockKey, Release, Renewal,
        RenewalRequest,
    },
};

use self::kind::Kind;
use crate::{
    backend::{RedisBackend, unsupported},
    connection::{Connection, Reply},
    keys,
    reply::{self, unexpected},
};

/// Where the release of a lock is told.
pub(crate) fn channel(lock: &LockKey) -> Result<String, BackendError> {
    Ok((Kind::of(lock.kind)?.channel)(&lock.name))
}

#[async_trait]
impl<C: Connection> LockBackend for RedisBackend<C> {
    async fn acquire(
        &self,
        lock: &LockKey,
        owner: OwnerId,
        lease: Duration,
    ) -> Result<Attempt, BackendError> {
        let keys = [keys::object(&lock.name), keys::tombstone(&lock.name, owner)];
        let args = [text(owner), reply::millis(lease)];
        attempt(&self.run(Kind::of(lock.kind)?.acquire, &keys, &args).await?)
    }

    async fn release(&self, lock: &LockKey, owner: OwnerId) -> Result<Release, BackendError> {
        let kind = Kind::of(lock.kind)?;
        let args = [text(owner), (kind.channel)(&lock.name).into()];
        release(&self.run(kind.release, &[keys::object(&lock.name)], &args).await?)
    }

    async fn abandon(&self, lock: &LockKey, owner: OwnerId) -> Result<Release, BackendError> {
        let kind = Kind::of(lock.kind)?;
        let keys = [keys::object(&lock.name), keys::tombstone(&lock.name, owner)];
        let channel = (kind.channel)(&lock.name).into();
        let args = [text(owner), channel, reply::millis(ABANDON_MEMORY)];
        release(&self.run(kind.abandon, &keys, &args).await?)
    }

    async fn renew(&self, requests: &[RenewalRequest]) -> Vec<Result<Renewal, BackendError>> {
        self.renew_all(requests).await
    }

    async fn set_holds(
        &self,
        lock: &LockKey,
        owner: OwnerId,
        holds: u32,
    ) -> Result<Renewal, BackendError> {
        let Some(script) = Kind::of(lock.kind)?.set_holds else {
            return Err(unsupported("re-entry of a plain lock"));
        };
        let args = [text(owner), holds.to_string().into()];
        renewal(&self.run(script, &[keys::object(&lock.name)], &args).await?)
    }

    async fn inspect(&self, lock: &LockKey) -> Result<Option<LockInfo>, BackendError> {
        let kind = Kind::of(lock.kind)?;
        let reply = self.run(kind.inspect, &[keys::object(&lock.name)], &[]).await?;
        let Reply::Array(items) = &reply else { return Err(unexpected(&reply)) };
        let [holder, remaining] = items.as_slice() else { return Err(unexpected(&reply)) };
        let Some((owner, holds)) = (kind.holder)(holder)? else { return Ok(None) };
        Ok(Some(LockInfo::new(owner, holds, reply::remaining(remaining)?)))
    }

    async fn force_release(&self, lock: &LockKey) -> Result<bool, BackendError> {
        let kind = Kind::of(lock.kind)?;
        let args = [(kind.channel)(&lock.name).into()];
        reply::flag(&self.run(kind.force_release, &[keys::object(&lock.name)], &args).await?)
    }
}

fn text(owner: OwnerId) -> Bytes {
    owner.to_string().into()
}

fn attempt(reply: &Reply) -> Result<Attempt, BackendError> {
    let Reply::Array(items) = reply else { return Err(unexpected(reply)) };
    match items.as_slice() {
        [Reply::Integer(1)] => Ok(Attempt::Acquired { token: None }),
        [Reply::Integer(0), ttl] => {
            Ok(Attempt::Contended { remaining: reply::remaining(ttl)? }) //
        }
        [Reply::Integer(-1)] => Ok(Attempt::Abandoned),
        _ => Err(unexpected(reply)),
    }
}

fn release(reply: &Reply) -> Result<Release, BackendError> {
    Ok(if reply::flag(reply)? { Release::Released } else { Release::NotHeld })
}

fn renewal(reply: &Reply) -> Result<Renewal, BackendError> {
    Ok(if reply::flag(reply)? { Renewal::Renewed } else { Renewal::NotHeld })
}

#[cfg(test)]
mod tests {
    use ferrisson_core::backend::Failure;

    use super::*;

    fn list(items: &[Reply]) -> Reply {
        Reply::Array(items.to_vec())
    }

    #[test]
    fn an_attempt_is_what_the_script_said_and_nothing_else() {
        let acquired = attempt(&list(&[Reply::Integer(1)])).unwrap();
        assert_eq!(acquired, Attempt::Acquired { token: None });
        let endless = attempt(&list(&[Reply::Integer(0), Reply::Integer(-1)])).unwrap();
        assert_eq!(endless, Attempt::Contended { remaining: None });
        for nonsense in [
            Reply::Nil,
            Reply::Integer(1),
            list(&[]),
            list(&[Reply::Integer(1), Reply::Integer(1)]),
            list(&[Reply::Integer(0)]),
            list(&[Reply::Integer(0), Reply::Integer(-2)]),
            list(&[Reply::Bytes("1".into())]),
        ] {
            let failure = attempt(&nonsense).unwrap_err().failure();
            assert_eq!(failure, Failure::Unexpected, "{nonsense:?}");
        }
    }
}
