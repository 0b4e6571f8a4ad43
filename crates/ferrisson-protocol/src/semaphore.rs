use async_trait::async_trait;
use bytes::Bytes;
use ferrisson_core::{
    Name, OwnerId,
    backend::{
        ABANDON_MEMORY, BackendError, PermitAttempt, PermitRecord, PermitRelease, SemaphoreBackend,
    },
};

use crate::{
    backend::RedisBackend,
    connection::{Connection, Reply},
    keys,
    reply::{self, unexpected},
    script,
};

#[async_trait]
impl<C: Connection> SemaphoreBackend for RedisBackend<C> {
    async fn acquire_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
    ) -> Result<PermitAttempt, BackendError> {
        let keys = [keys::object(name), keys::permit_record(name, owner)];
        let args = [decimal(permits), reply::millis(ABANDON_MEMORY)];
        attempt(&self.run(&script::SEMAPHORE_ACQUIRE, &keys, &args).await?)
    }

    async fn release_permits(
        &self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
        record: PermitRecord,
    ) -> Result<PermitRelease, BackendError> {
        let keys = [keys::object(name), keys::permit_record(name, owner)];
        let args = [channel(name), reply::millis(ABANDON_MEMORY), decimal(permits)];
        let args = match record {
            PermitRecord::Kept => &args[..2],
            PermitRecord::Expired => &args,
        };
        release(&self.run(&script::SEMAPHORE_RELEASE, &keys, args).await?)
    }

    async fn abandon_permits(
        &self,
        name: &Name,
        owner: OwnerId,
    ) -> Result<PermitRelease, BackendError> {
        let keys = [keys::object(name), keys::permit_record(name, owner)];
        let args = [channel(name), reply::millis(ABANDON_MEMORY)];
        release(&self.run(&script::SEMAPHORE_ABANDON, &keys, &args).await?)
    }

    async fn add_permits(
        &self,
        name: &Name,
        permits: i64,
        keep_ttl: bool,
    ) -> Result<i64, BackendError> {
        let keys = [keys::object(name), keys::nothing(name)];
        let args = [decimal(permits), decimal(u8::from(keep_ttl)), channel(name)];
        let reply = self.run(&script::SEMAPHORE_ADD, &keys, &args).await?;
        reply::count(&reply)
    }

    async fn init_permits(&self, name: &Name, permits: u32) -> Result<bool, BackendError> {
        let args = [decimal(permits), channel(name)];
        reply::flag(&self.run(&script::SEMAPHORE_INIT, &[keys::object(name)], &args).await?)
    }

    async fn drain_permits(&self, name: &Name) -> Result<i64, BackendError> {
        reply::count(&self.run(&script::SEMAPHORE_DRAIN, &[keys::object(name)], &[]).await?)
    }

    async fn available_permits(&self, name: &Name) -> Result<i64, BackendError> {
        reply::count(&self.call("GET", keys::object(name), []).await?)
    }
}

fn channel(name: &Name) -> Bytes {
    keys::semaphore_channel(name).into()
}

fn decimal(number: impl Into<i64>) -> Bytes {
    number.into().to_string().into()
}

fn attempt(reply: &Reply) -> Result<PermitAttempt, BackendError> {
    let Reply::Array(items) = reply else { return Err(unexpected(reply)) };
    match items.as_slice() {
        [Reply::Integer(1), before, Reply::Integer(taken)] => {
            let available = reply::count(before)?;
            let available = available.checked_sub(*taken).ok_or_else(|| unexpected(reply))?;
            Ok(PermitAttempt::Acquired { available })
        }
        [Reply::Integer(0), before] => {
            Ok(PermitAttempt::Exhausted { available: reply::count(before)? }) //
        }
        [Reply::Integer(-1)] => Ok(PermitAttempt::Abandoned),
        _ => Err(unexpected(reply)),
    }
}

fn release(reply: &Reply) -> Result<PermitRelease, BackendError> {
    Ok(if reply::flag(reply)? { PermitRelease::Released } else { PermitRelease::NotHeld })
}

#[cfg(test)]
mod tests {
    use ferrisson_core::backend::Failure;

    use super::*;

    fn bytes(text: &'static str) -> Reply {
        Reply::Bytes(Bytes::from_static(text.as_bytes()))
    }

    fn of(items: &[Reply]) -> Result<PermitAttempt, Failure> {
        attempt(&Reply::Array(items.to_vec())).map_err(|error| error.failure())
    }

    #[test]
    fn the_count_that_is_left_is_exact_beyond_the_precision_of_lua() {
        let most = bytes("9223372036854775807");
        let available = i64::MAX - 3;
        let acquired = of(&[Reply::Integer(1), most, Reply::Integer(3)]);
        assert_eq!(acquired, Ok(PermitAttempt::Acquired { available }));
    }

    #[test]
    fn nonsense_is_unexpected() {
        let min = bytes("-9223372036854775808");
        for items in [
            &[] as &[Reply],
            &[Reply::Integer(1)],
            &[Reply::Integer(1), bytes("1")],
            &[Reply::Integer(1), Reply::Integer(1), Reply::Integer(1)],
            &[Reply::Integer(1), min, Reply::Integer(1)],
            &[Reply::Integer(0)],
            &[Reply::Integer(-1), Reply::Nil],
        ] {
            assert_eq!(of(items), Err(Failure::Unexpected), "{items:?}");
        }
        assert!(attempt(&Reply::Nil).is_err());
    }
}
