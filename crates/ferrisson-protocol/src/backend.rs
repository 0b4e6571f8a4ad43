use std::iter;

use async_trait::async_trait;
use bytes::Bytes;
use ferrisson_core::{
    Refusal,
    backend::{BackendError, Failure, Lifecycle, NotifyBackend, Topic, Wakeup},
};

use crate::{
    connection::{CallError, Command, Connection, Reply},
    keys, lock, refusal,
    script::Script,
};

/// The backend tier on Redis or Valkey, in the format of Java Redisson.
///
/// Every operation sends one command, which goes to the slot of the object's name; a script that
/// the server does not have yet is sent once more with its text.
#[derive(Debug)]
pub struct RedisBackend<C> {
    connection: C,
}

impl<C: Connection> RedisBackend<C> {
    /// A backend over this connection.
    pub const fn new(connection: C) -> Self {
        Self { connection }
    }

    /// The connection.
    pub const fn connection(&self) -> &C {
        &self.connection
    }

    /// Runs a script; the first key decides where.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> Result<Reply, BackendError> {
        script.run(&self.connection, keys, args).await.map_err(failed)
    }

    /// Sends a command on one key, which is its first argument.
    pub(crate) async fn call(
        &self,
        name: &'static str,
        key: Bytes,
        args: impl IntoIterator<Item = Bytes> + Send,
    ) -> Result<Reply, BackendError> {
        let args = iter::once(key.clone()).chain(args).collect();
        self.connection.call(Command { name, key, args }).await.map_err(failed)
    }
}

#[async_trait]
impl<C: Connection> NotifyBackend for RedisBackend<C> {
    async fn subscribe(&self, topic: &Topic) -> Result<Wakeup, BackendError> {
        let channel = match topic {
            Topic::Lock(lock) => lock::channel(lock)?,
            Topic::Semaphore(name) => keys::semaphore_channel(name),
            _ => return Err(unsupported("this kind of object")),
        };
        self.connection.subscribe(&channel).await
    }
}

#[async_trait]
impl<C: Connection> Lifecycle for RedisBackend<C> {
    async fn close(&self) {
        self.connection.close().await;
    }
}

/// Nothing was sent, because this backend has nothing to send for it.
pub(crate) fn unsupported(what: &str) -> BackendError {
    let text = format!("{what} is not supported on Redis");
    BackendError::new(Failure::Refused(Refusal::Other), text)
}

fn failed(error: CallError) -> BackendError {
    let failure = match &error {
        CallError::Server { text } => refusal::classify(text),
        CallError::NotExecuted(_) | CallError::Unknown(_) => Failure::Unavailable(error.outcome()),
        CallError::Closed => Failure::Closed,
    };
    BackendError::new(failure, error)
}

#[cfg(test)]
mod tests {
    use ferrisson_core::Outcome;

    use super::*;

    #[test]
    fn a_failed_call_keeps_its_outcome_and_its_cause() {
        let of = |error| failed(error).failure();
        assert_eq!(of(CallError::Closed), Failure::Closed);
        assert_eq!(
            of(CallError::NotExecuted("down".into())),
            Failure::Unavailable(Outcome::NotExecuted)
        );
        let error = failed(CallError::Unknown("timeout".into()));
        assert_eq!(error.failure(), Failure::Unavailable(Outcome::Unknown));
        let cause = std::error::Error::source(&error).and_then(|cause| cause.source());
        assert_eq!(cause.map(ToString::to_string).as_deref(), Some("timeout"));
    }
}
