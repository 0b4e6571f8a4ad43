//! What the protocol needs of a Redis client.

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use ferrisson_core::{
    Outcome,
    backend::{BackendError, Wakeup},
};

/// A connection to Redis or Valkey that sends each command at most once.
///
/// The rules for an implementation:
///
/// - **One attempt.** No command is ever sent again on the connection's own account, unless the
///   server certainly did not execute it (a cluster redirection).
/// - **Bounded.** A call ends within the command timeout, also while the server is away: then it
///   fails at once or by the timeout.
/// - **Honest.** A failed call tells whether the command certainly was not executed
///   ([`CallError::NotExecuted`]) or may have been ([`CallError::Unknown`]).
/// - **Order.** Calls with the same [`Command::key`] that are made one after the other are
///   executed in that order while the connection lasts.
#[async_trait]
pub trait Connection: Debug + Send + Sync + 'static {
    /// Sends one command and waits for its reply.
    async fn call(&self, command: Command) -> Result<Reply, CallError>;

    /// Subscribes to a channel. Returns when the server has confirmed the subscription, so that
    /// every later message is signalled; after a gap every waiter is signalled.
    async fn subscribe(&self, channel: &str) -> Result<Wakeup, BackendError>;

    /// Whether keys are spread over slots, so that the keys of one call must share one.
    fn is_cluster(&self) -> bool;

    /// Ends connections and tasks. Later calls fail.
    async fn close(&self);
}

/// One command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name, such as `GET` or `EVALSHA`.
    pub name: &'static str,
    /// The key that decides which node of a cluster, and which lane, the command goes to.
    pub key: Bytes,
    /// All arguments after the name, including the key where the command has it.
    pub args: Vec<Bytes>,
}

/// What a server answered, other than an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Integer(i64),
    /// Bytes: a bulk string, or the text of a status reply such as `OK`.
    Bytes(Bytes),
    /// A list.
    Array(Vec<Self>),
}

/// Why a call has no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered with this error; it starts with a word such as `WRONGTYPE`.
    #[error("{text}")]
    Server {
        /// The text of the error reply.
        text: String,
    },
    /// There is no answer, and the command certainly was not executed.
    #[error("not executed")]
    NotExecuted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no answer; the command may have been, or may still be, executed.
    #[error("outcome unknown")]
    Unknown(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection was closed.
    #[error("the connection is closed")]
    Closed,
}

impl CallError {
    /// Whether the command can have had an effect, for failures without an answer.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Unknown(_) => Outcome::Unknown,
            Self::Server { .. } | Self::NotExecuted(_) | Self::Closed => Outcome::NotExecuted,
        }
    }
}
