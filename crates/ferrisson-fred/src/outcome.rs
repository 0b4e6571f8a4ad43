//! What an answer of fred means.
//!
//! Commands are sent raw, so that an error reply of the server comes as a frame, and every `Err`
//! was made by fred itself. That is the only way to tell the two apart for sure.

use std::fmt;

use bytes::Bytes;
use ferrisson_protocol::{CallError, Reply};
use fred::{
    error::{Error, ErrorKind},
    types::Resp3Frame as Frame,
};

/// A connection's own reason for not sending a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSent {
    #[error("backpressure: {limit} commands are already in flight")]
    Backpressure { limit: usize },
    #[error("not connected: {0}")]
    NotConnected(String),
}

/// The meaning of a reply.
pub(crate) fn reply(frame: Frame) -> Result<Reply, CallError> {
    match frame {
        Frame::SimpleError { data, .. } => Err(CallError::Server { text: data.to_string() }),
        Frame::BlobError { data, .. } => {
            Err(CallError::Server { text: String::from_utf8_lossy(&data).into_owned() })
        }
        frame => value(frame),
    }
}

/// The meaning of an error that fred made.
pub(crate) fn failure(error: Error) -> CallError {
    if is_surely_not_executed(&error) {
        CallError::NotExecuted(error.into())
    } else {
        CallError::Unknown(error.into())
    }
}

/// A cluster has answered MOVED or ASK: not executed, and fred now knows the new owner of a slot
/// that has moved.
pub(crate) fn is_redirection(error: &Error) -> bool {
    *error.kind() == ErrorKind::Routing && error.details() == "Too many redirections."
}

/// The command was stopped before it was sent, because there is no connection.
pub(crate) fn is_not_connected(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Canceled => error.details() == "Connection closed unexpectedly.",
        ErrorKind::Unknown => matches!(
            error.details(),
            "Failed to route command."
                | "Client is not initialized."
                | "Failed to send command to router."
        ),
        _ => false,
    }
}

/// The server does not know these credentials. fred changes the kind of errors on the way to a
/// sentinel's primary, so only the words count.
pub(crate) fn is_authentication(error: &Error) -> bool {
    *error.kind() == ErrorKind::Auth
        || ["WRONGPASS", "NOAUTH", "ERR invalid password", "ERR AUTH", "ERR Client sent AUTH"]
            .iter()
            .any(|prefix| error.details().starts_with(prefix))
}

fn is_surely_not_executed(error: &Error) -> bool {
    is_redirection(error) || is_not_connected(error)
}

fn value(frame: Frame) -> Result<Reply, CallError> {
    match frame {
        Frame::Null => Ok(Reply::Nil),
        Frame::Number { data, .. } => Ok(Reply::Integer(data)),
        Frame::Boolean { data, .. } => Ok(Reply::Integer(data.into())),
        Frame::BlobString { data, .. }
        | Frame::SimpleString { data, .. }
        | Frame::BigNumber { data, .. }
        | Frame::VerbatimString { data, .. } => Ok(Reply::Bytes(data)),
        Frame::Double { data, .. } => Ok(Reply::Bytes(Bytes::from(data.to_string()))),
        Frame::Array { data, .. } | Frame::Push { data, .. } => list(data),
        Frame::Set { data, .. } => list(data),
        Frame::Map { data, .. } => list(data.into_iter().flat_map(|(key, value)| [key, value])),
        Frame::SimpleError { .. }
        | Frame::BlobError { .. }
        | Frame::ChunkedString(_)
        | Frame::Hello { .. } => Err(CallError::Unknown(Box::new(UnexpectedFrame))),
    }
}

fn list(frames: impl IntoIterator<Item = Frame>) -> Result<Reply, CallError> {
    frames.into_iter().map(value).collect::<Result<_, _>>().map(Reply::Array)
}

/// The server has executed something, but what it says cannot be understood.
#[derive(Debug)]
struct UnexpectedFrame;

impl fmt::Display for UnexpectedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kind of reply that no command should have")
    }
}

impl std::error::Error for UnexpectedFrame {}

#[cfg(test)]
mod tests {
    use ferrisson_core::Outcome;

    use super::*;

    fn blob(data: &'static str) -> Frame {
        Frame::BlobString { data: Bytes::from_static(data.as_bytes()), attributes: None }
    }

    #[test]
    fn an_error_reply_is_the_servers_and_keeps_its_words() {
        let frame = Frame::SimpleError { data: "WRONGTYPE no".into(), attributes: None };
        assert!(matches!(reply(frame), Err(CallError::Server { text }) if text == "WRONGTYPE no"));
        let frame = Frame::BlobError { data: Bytes::from_static(b"OOM"), attributes: None };
        assert!(matches!(reply(frame), Err(CallError::Server { text }) if text == "OOM"));
    }

    #[test]
    fn an_error_within_a_list_is_not_taken_for_a_refusal() {
        let error = Frame::SimpleError { data: "ERR".into(), attributes: None };
        let frame = Frame::Array { data: vec![blob("x"), error], attributes: None };
        assert!(matches!(reply(frame), Err(CallError::Unknown(_))));
    }

    #[test]
    fn lists_and_maps_are_arrays() {
        let frame = Frame::Map { data: [(blob("k"), Frame::Null)].into(), attributes: None };
        let expected = Reply::Array(vec![Reply::Bytes(Bytes::from_static(b"k")), Reply::Nil]);
        assert_eq!(reply(frame).unwrap(), expected);
    }

    #[test]
    fn only_what_certainly_was_not_executed_is_said_to_be_so() {
        let outcome = |kind, details: &'static str| failure(Error::new(kind, details)).outcome();
        for (kind, details) in [
            (ErrorKind::Canceled, "Connection closed unexpectedly."),
            (ErrorKind::Routing, "Too many redirections."),
            (ErrorKind::Unknown, "Failed to route command."),
        ] {
            assert_eq!(outcome(kind, details), Outcome::NotExecuted, "{details}");
        }
        for (kind, details) in [
            (ErrorKind::Timeout, "Request timed out."),
            (ErrorKind::IO, "Connection closed."),
            (ErrorKind::Canceled, "Canceled."),
            (ErrorKind::Unknown, "channel closed"),
            (ErrorKind::Unknown, "Too many failed write attempts."),
            (ErrorKind::Routing, "Max attempts reached."),
            // Said to all that are in flight when one of them was refused.
            (ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"),
        ] {
            assert_eq!(outcome(kind, details), Outcome::Unknown, "{details}");
        }
    }
}
