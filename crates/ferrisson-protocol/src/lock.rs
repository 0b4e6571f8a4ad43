use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use ferrisson_core::{
    Name, OwnerId,
    backend::{
        ABANDON_MEMORY, Attempt, BackendError, LockBackend, LockInfo, LockKey, LockKind, Release,
        Renewal, RenewalRequest,
    },
};
use futures::future;

use crate::{
    backend::{RedisBackend, unsupported},
    connection::{Connection, Reply},
    keys, refusal,
    reply::{self, unexpected},
    script::{self, Script},
    slot,
};

/// What differs between the kinds of locks. Their scripts take and answer the same.
#[derive(Debug)]
struct Kind {
    channel: fn(&Name) -> String,
    holder: fn(&Reply) -> Result<Option<Holder>, BackendError>,
    acquire: &'static Script,
    release: &'static Script,
    abandon: &'static Script,
    renew: &'static Script,
    set_holds: Option<&'static Script>,
    inspect: &'static Script,
    force_release: &'static Script,
}

static REENTRANT: Kind = Kind {
    channel: keys::lock_channel,
    holder: first_field,
    acquire: &script::LOCK_ACQUIRE,
    release: &script::LOCK_RELEASE,
    abandon: &script::LOCK_ABANDON,
    renew: &script::LOCK_RENEW,
    set_holds: Some(&script::LOCK_SET_HOLDS),
    inspect: &script::LOCK_INSPECT,
    force_release: &script::LOCK_FORCE_RELEASE,
};

static PLAIN: Kind = Kind {
    channel: keys::plain_channel,
    holder: whole_value,
    acquire: &script::PLAIN_ACQUIRE,
    release: &script::PLAIN_RELEASE,
    abandon: &script::PLAIN_ABANDON,
    renew: &script::PLAIN_RENEW,
    set_holds: None,
    inspect: &script::PLAIN_INSPECT,
    force_release: &script::PLAIN_FORCE_RELEASE,
};

/// Where the release of a lock is told.
pub(crate) fn channel(lock: &LockKey) -> Result<String, BackendError> {
    Ok((kind(lock.kind)?.channel)(&lock.name))
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
        attempt(&self.run(kind(lock.kind)?.acquire, &keys, &args).await?)
    }

    async fn release(&self, lock: &LockKey, owner: OwnerId) -> Result<Release, BackendError> {
        let kind = kind(lock.kind)?;
        let args = [text(owner), (kind.channel)(&lock.name).into()];
        release(&self.run(kind.release, &[keys::object(&lock.name)], &args).await?)
    }

    async fn abandon(&self, lock: &LockKey, owner: OwnerId) -> Result<Release, BackendError> {
        let kind = kind(lock.kind)?;
        let keys = [keys::object(&lock.name), keys::tombstone(&lock.name, owner)];
        let channel = (kind.channel)(&lock.name).into();
        let args = [text(owner), channel, reply::millis(ABANDON_MEMORY)];
        release(&self.run(kind.abandon, &keys, &args).await?)
    }

    async fn renew(&self, requests: &[RenewalRequest]) -> Vec<Result<Renewal, BackendError>> {
        let batches = batches(requests, self.connection().is_cluster());
        let results = batches.into_values().map(|batch| self.renew_batch(batch));
        let mut results = future::join_all(results).await.concat();
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }

    async fn set_holds(
        &self,
        lock: &LockKey,
        owner: OwnerId,
        holds: u32,
    ) -> Result<Renewal, BackendError> {
        let Some(script) = kind(lock.kind)?.set_holds else {
            return Err(unsupported("re-entry of a plain lock"));
        };
        let args = [text(owner), holds.to_string().into()];
        renewal(&self.run(script, &[keys::object(&lock.name)], &args).await?)
    }

    async fn inspect(&self, lock: &LockKey) -> Result<Option<LockInfo>, BackendError> {
        let kind = kind(lock.kind)?;
        let reply = self.run(kind.inspect, &[keys::object(&lock.name)], &[]).await?;
        let Reply::Array(items) = &reply else { return Err(unexpected(&reply)) };
        let [holder, remaining] = items.as_slice() else { return Err(unexpected(&reply)) };
        let Some((owner, holds)) = (kind.holder)(holder)? else { return Ok(None) };
        Ok(Some(LockInfo::new(owner, holds, reply::remaining(remaining)?)))
    }

    async fn force_release(&self, lock: &LockKey) -> Result<bool, BackendError> {
        let kind = kind(lock.kind)?;
        let args = [(kind.channel)(&lock.name).into()];
        reply::flag(&self.run(kind.force_release, &[keys::object(&lock.name)], &args).await?)
    }
}

/// An owner and how often it has entered.
type Holder = (String, u32);

/// A renewal and its place among the requests.
type Numbered<T> = (usize, T);

impl<C: Connection> RedisBackend<C> {
    /// Renews locks of one kind and, in a cluster, one slot. They share what happens to the call.
    async fn renew_batch(
        &self,
        batch: Vec<Numbered<&RenewalRequest>>,
    ) -> Vec<Numbered<Result<Renewal, BackendError>>> {
        let results = match self.send_renewals(&batch).await {
            Ok(replies) => replies.iter().map(renewal_of_one).collect(),
            Err(error) => vec![Err(error); batch.len()],
        };
        batch.into_iter().map(|(index, _)| index).zip(results).collect()
    }

    async fn send_renewals(
        &self,
        batch: &[Numbered<&RenewalRequest>],
    ) -> Result<Vec<Reply>, BackendError> {
        let kind = kind(batch[0].1.lock.kind)?;
        let keys: Vec<_> =
            batch.iter().map(|(_, request)| keys::object(&request.lock.name)).collect();
        let args: Vec<_> = batch
            .iter()
            .flat_map(|(_, request)| [text(request.owner), reply::millis(request.lease)])
            .collect();
        match self.run(kind.renew, &keys, &args).await? {
            Reply::Array(replies) if replies.len() == batch.len() => Ok(replies),
            reply => Err(unexpected(&reply)),
        }
    }
}

/// The requests that can go into one call, never empty.
fn batches(
    requests: &[RenewalRequest],
    by_slot: bool,
) -> BTreeMap<(LockKind, u16), Vec<Numbered<&RenewalRequest>>> {
    let mut batches = BTreeMap::<_, Vec<_>>::new();
    for (index, request) in requests.iter().enumerate() {
        let lock = &request.lock;
        let slot = if by_slot { slot::of(lock.name.as_str().as_bytes()) } else { 0 };
        batches.entry((lock.kind, slot)).or_default().push((index, request));
    }
    batches
}

fn kind(kind: LockKind) -> Result<&'static Kind, BackendError> {
    match kind {
        LockKind::Reentrant => Ok(&REENTRANT),
        LockKind::Plain => Ok(&PLAIN),
        _ => Err(unsupported("this kind of lock")),
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

/// The reply to one of several, in which an error is a text.
fn renewal_of_one(reply: &Reply) -> Result<Renewal, BackendError> {
    match reply {
        Reply::Bytes(text) => {
            let text = String::from_utf8_lossy(text).into_owned();
            Err(BackendError::new(refusal::classify(&text), text))
        }
        reply => renewal(reply),
    }
}

/// The holder of a hash: its first field with a number. A read/write lock of Redisson has a field
/// `mode` beside those of its holders, and no field of a foreign hash need have a number.
fn first_field(reply: &Reply) -> Result<Option<Holder>, BackendError> {
    let Reply::Array(items) = reply else { return Err(unexpected(reply)) };
    let mut fields = Vec::with_capacity(items.len() / 2);
    for pair in items.chunks(2) {
        let [Reply::Bytes(owner), Reply::Bytes(holds)] = pair else {
            return Err(unexpected(reply));
        };
        let holds = std::str::from_utf8(holds).ok().and_then(|holds| holds.parse::<u32>().ok());
        fields.push((String::from_utf8_lossy(owner).into_owned(), holds));
    }
    let holder = fields.iter().find(|(_, holds)| holds.is_some()).or(fields.first());
    Ok(holder.map(|(owner, holds)| (owner.clone(), holds.unwrap_or(1))))
}

/// The holder of a string, who cannot have entered more than once.
fn whole_value(reply: &Reply) -> Result<Option<Holder>, BackendError> {
    match reply {
        Reply::Bytes(owner) => Ok(Some((String::from_utf8_lossy(owner).into_owned(), 1))),
        Reply::Nil => Ok(None),
        _ => Err(unexpected(reply)),
    }
}

#[cfg(test)]
mod tests {
    use ferrisson_core::{Refusal, backend::Failure};
    use uuid::Uuid;

    use super::*;

    fn bytes(text: &'static str) -> Reply {
        Reply::Bytes(Bytes::from_static(text.as_bytes()))
    }

    fn list(items: &[Reply]) -> Reply {
        Reply::Array(items.to_vec())
    }

    fn request(kind: LockKind, name: &str) -> RenewalRequest {
        let lock = LockKey { kind, name: Name::new(name) };
        let owner = OwnerId::new(Uuid::from_u128(1), 1);
        RenewalRequest { lock, owner, lease: Duration::from_secs(30) }
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
            list(&[bytes("1")]),
        ] {
            let failure = attempt(&nonsense).unwrap_err().failure();
            assert_eq!(failure, Failure::Unexpected, "{nonsense:?}");
        }
    }

    #[test]
    fn an_error_of_one_renewal_keeps_its_kind() {
        let error = renewal_of_one(&bytes("WRONGTYPE Operation against a key")).unwrap_err();
        assert_eq!(error.failure(), Failure::WrongType);
        let error = renewal_of_one(&bytes("OOM command not allowed")).unwrap_err();
        assert_eq!(error.failure(), Failure::Refused(Refusal::OutOfMemory));
        assert_eq!(renewal_of_one(&Reply::Integer(1)).unwrap(), Renewal::Renewed);
    }

    #[test]
    fn the_holder_is_the_first_field_with_a_number() {
        let of = |fields: &[&'static str]| {
            let fields: Vec<_> = fields.iter().map(|field| bytes(field)).collect();
            first_field(&list(&fields)).unwrap()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["a", "2"]), Some(("a".into(), 2)));
        assert_eq!(of(&["mode", "read", "a", "2", "b", "1"]), Some(("a".into(), 2)));
        assert_eq!(of(&["name", "x"]), Some(("name".into(), 1)));
        assert!(first_field(&list(&[bytes("a")])).is_err());
        assert!(first_field(&Reply::Nil).is_err());
    }

    #[test]
    fn renewals_share_a_call_by_kind_and_in_a_cluster_by_slot() {
        use LockKind::{Plain, Reentrant};
        let requests = [
            request(Reentrant, "{a}1"),
            request(Plain, "{a}2"),
            request(Reentrant, "b"),
            request(Reentrant, "{a}3"),
        ];
        let indices = |by_slot| -> Vec<Vec<usize>> {
            let batches = batches(&requests, by_slot);
            let numbers =
                |batch: &Vec<Numbered<_>>| batch.iter().map(|(index, _)| *index).collect();
            batches.values().map(numbers).collect()
        };
        assert_eq!(indices(false), [vec![0, 2, 3], vec![1]]);
        let mut by_slot = indices(true);
        by_slot.sort();
        assert_eq!(by_slot, [vec![0, 3], vec![1], vec![2]]);
    }
}
