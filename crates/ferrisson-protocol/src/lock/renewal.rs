use std::collections::BTreeMap;

use ferrisson_core::backend::{BackendError, LockKind, Renewal, RenewalRequest};
use futures::future;

use super::{kind::Kind, renewal, text};
use crate::{
    backend::RedisBackend,
    connection::{Connection, Reply},
    keys, refusal,
    reply::{self, unexpected},
    slot,
};

/// A renewal and its place among the requests.
type Numbered<T> = (usize, T);

impl<C: Connection> RedisBackend<C> {
    /// Renews locks of all kinds, the batches at the same time.
    pub(super) async fn renew_all(
        &self,
        requests: &[RenewalRequest],
    ) -> Vec<Result<Renewal, BackendError>> {
        let batches = batches(requests, self.connection().is_cluster());
        let results = batches.into_values().map(|batch| self.renew_batch(batch));
        let mut results = future::join_all(results).await.concat();
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }

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
        let kind = Kind::of(batch[0].1.lock.kind)?;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use bytes::Bytes;
    use ferrisson_core::{
        Name, Outcome, OwnerId, Refusal,
        backend::{Failure, LockBackend, LockKey, Wakeup},
    };
    use tokio::sync::Barrier;
    use uuid::Uuid;

    use super::*;
    use crate::connection::{CallError, Command};

    /// A cluster in which the node of one key does not answer. Waits until every node was asked.
    #[derive(Debug)]
    struct Nodes {
        silent: &'static str,
        asked: Barrier,
    }

    #[async_trait]
    impl Connection for Nodes {
        async fn call(&self, command: Command) -> Result<Reply, CallError> {
            self.asked.wait().await;
            if command.key == self.silent {
                return Err(CallError::Unknown("timeout".into()));
            }
            let keys = std::str::from_utf8(&command.args[1]).unwrap().parse().unwrap();
            Ok(Reply::Array(vec![Reply::Integer(1); keys]))
        }

        async fn subscribe(&self, channel: &str) -> Result<Wakeup, BackendError> {
            panic!("nobody listens to {channel}");
        }

        fn is_cluster(&self) -> bool {
            true
        }

        async fn close(&self) {}
    }

    fn bytes(text: &'static str) -> Reply {
        Reply::Bytes(Bytes::from_static(text.as_bytes()))
    }

    fn request(kind: LockKind, name: &str) -> RenewalRequest {
        let lock = LockKey { kind, name: Name::new(name) };
        let owner = OwnerId::new(Uuid::from_u128(1), 1);
        RenewalRequest { lock, owner, lease: Duration::from_secs(30) }
    }

    #[tokio::test]
    async fn slots_are_renewed_at_the_same_time_and_fail_independently() {
        let asked = Barrier::new(3);
        let backend = RedisBackend::new(Nodes { silent: "b", asked });
        let requests =
            ["{a}1", "b", "{a}2", "c", "{a}3"].map(|name| request(LockKind::Reentrant, name));
        let renewals = backend.renew(&requests).await;
        let renewals: Vec<_> =
            renewals.iter().map(|r| r.as_ref().map_err(BackendError::failure).copied()).collect();
        let renewed = Ok(Renewal::Renewed);
        let unknown = Err(Failure::Unavailable(Outcome::Unknown));
        assert_eq!(renewals, [renewed, unknown, renewed, renewed, renewed]);
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
