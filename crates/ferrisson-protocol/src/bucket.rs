use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use ferrisson_core::{
    Name,
    backend::{BackendError, BucketBackend, Condition, Expiry, Ttl},
};

use crate::{
    backend::RedisBackend,
    connection::{Connection, Reply},
    keys, reply, script,
};

#[async_trait]
impl<C: Connection> BucketBackend for RedisBackend<C> {
    async fn get(&self, name: &Name) -> Result<Option<Bytes>, BackendError> {
        reply::value(self.call("GET", keys::object(name), []).await?)
    }

    async fn set(
        &self,
        name: &Name,
        value: Bytes,
        condition: Condition,
        expiry: Expiry,
    ) -> Result<bool, BackendError> {
        let mut args = vec![value];
        push_expiry(&mut args, expiry);
        match condition {
            Condition::Always => {}
            Condition::IfAbsent => args.push(Bytes::from_static(b"NX")),
            Condition::IfExists => args.push(Bytes::from_static(b"XX")),
        }
        reply::is_set(&self.call("SET", keys::object(name), args).await?)
    }

    async fn replace(
        &self,
        name: &Name,
        value: Bytes,
        expiry: Expiry,
    ) -> Result<Option<Bytes>, BackendError> {
        let mut args = vec![value];
        push_expiry(&mut args, expiry);
        args.push(Bytes::from_static(b"GET"));
        reply::value(self.call("SET", keys::object(name), args).await?)
    }

    async fn compare_and_set(
        &self,
        name: &Name,
        expected: Option<Bytes>,
        new: Option<Bytes>,
    ) -> Result<bool, BackendError> {
        let mut args = match expected {
            Some(expected) => vec![Bytes::from_static(b"1"), expected],
            None => vec![Bytes::from_static(b"0"), Bytes::new()],
        };
        args.extend(new);
        let keys = [keys::object(name)];
        reply::flag(&self.run(&script::BUCKET_COMPARE_AND_SET, &keys, &args).await?)
    }

    async fn take(&self, name: &Name) -> Result<Option<Bytes>, BackendError> {
        reply::value(self.call("GETDEL", keys::object(name), []).await?)
    }

    async fn delete(&self, name: &Name) -> Result<bool, BackendError> {
        reply::flag(&self.call("DEL", keys::object(name), []).await?)
    }

    async fn exists(&self, name: &Name) -> Result<bool, BackendError> {
        reply::flag(&self.call("EXISTS", keys::object(name), []).await?)
    }

    async fn size(&self, name: &Name) -> Result<u64, BackendError> {
        reply::length(&self.call("STRLEN", keys::object(name), []).await?)
    }

    async fn expire(&self, name: &Name, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let key = keys::object(name);
        let reply = match ttl {
            Some(ttl) => self.call("PEXPIRE", key, [reply::millis(ttl)]).await?,
            None => self.call("PERSIST", key, []).await?,
        };
        reply::flag(&reply)
    }

    async fn ttl(&self, name: &Name) -> Result<Ttl, BackendError> {
        match self.call("PTTL", keys::object(name), []).await? {
            Reply::Integer(-2) => Ok(Ttl::Absent),
            reply => Ok(reply::remaining(&reply)?.map_or(Ttl::Persistent, Ttl::After)),
        }
    }

    async fn touch(&self, name: &Name) -> Result<bool, BackendError> {
        reply::flag(&self.call("TOUCH", keys::object(name), []).await?)
    }
}

fn push_expiry(args: &mut Vec<Bytes>, expiry: Expiry) {
    match expiry {
        Expiry::Never => {}
        Expiry::Keep => args.push(Bytes::from_static(b"KEEPTTL")),
        Expiry::After(ttl) => args.extend([Bytes::from_static(b"PX"), reply::millis(ttl)]),
    }
}
