//! What replies mean. What cannot be a reply to what was sent is [`Failure::Unexpected`].

use std::time::Duration;

use bytes::Bytes;
use ferrisson_core::{
    Refusal,
    backend::{BackendError, Failure},
};

use crate::connection::Reply;

/// Whether it was done: 1 or 0.
pub(crate) fn flag(reply: &Reply) -> Result<bool, BackendError> {
    match reply {
        Reply::Integer(1) => Ok(true),
        Reply::Integer(0) => Ok(false),
        _ => Err(unexpected(reply)),
    }
}

/// Whether `SET` with a condition did it.
pub(crate) fn is_set(reply: &Reply) -> Result<bool, BackendError> {
    match reply {
        Reply::Bytes(text) if text == "OK" => Ok(true),
        Reply::Nil => Ok(false),
        _ => Err(unexpected(reply)),
    }
}

/// A length.
pub(crate) fn length(reply: &Reply) -> Result<u64, BackendError> {
    match reply {
        Reply::Integer(number) => u64::try_from(*number).map_err(|_| unexpected(reply)),
        _ => Err(unexpected(reply)),
    }
}

/// A value, if there is one.
pub(crate) fn value(reply: Reply) -> Result<Option<Bytes>, BackendError> {
    match reply {
        Reply::Bytes(bytes) => Ok(Some(bytes)),
        Reply::Nil => Ok(None),
        _ => Err(unexpected(&reply)),
    }
}

/// The count of a semaphore in decimal; an absent one has none.
///
/// As strict as Redis: what `INCRBY` would not take is not a count.
pub(crate) fn count(reply: &Reply) -> Result<i64, BackendError> {
    let text = match reply {
        Reply::Nil => return Ok(0),
        Reply::Bytes(text) => text,
        _ => return Err(unexpected(reply)),
    };
    let number: Option<i64> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.filter(|number| number.to_string().as_bytes() == text).ok_or_else(|| {
        BackendError::new(Failure::Refused(Refusal::Other), "the value is not an integer")
    })
}

/// What `PTTL` says of a key that exists: a time, or no end.
pub(crate) fn remaining(reply: &Reply) -> Result<Option<Duration>, BackendError> {
    match reply {
        Reply::Integer(-1) => Ok(None),
        Reply::Integer(millis) => {
            let millis = u64::try_from(*millis).map_err(|_| unexpected(reply))?;
            Ok(Some(Duration::from_millis(millis)))
        }
        _ => Err(unexpected(reply)),
    }
}

/// Whole milliseconds, as an argument.
pub(crate) fn millis(time: Duration) -> Bytes {
    time.as_millis().to_string().into()
}

/// Tells the shape of the reply, never its content.
pub(crate) fn unexpected(reply: &Reply) -> BackendError {
    let shape = match reply {
        Reply::Nil => "nothing".to_owned(),
        Reply::Integer(number) => format!("the number {number}"),
        Reply::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Reply::Array(items) => format!("a list of {}", items.len()),
    };
    BackendError::new(Failure::Unexpected, format!("the server answered {shape}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Reply {
        Reply::Bytes(Bytes::from_static(text.as_bytes()))
    }

    fn is_unexpected<T>(result: Result<T, BackendError>) -> bool {
        result.is_err_and(|error| error.failure() == Failure::Unexpected)
    }

    #[test]
    fn nonsense_is_unexpected() {
        let list = Reply::Array(vec![]);
        for reply in [&Reply::Nil, &Reply::Integer(2), &Reply::Integer(-1), &text("1"), &list] {
            assert!(is_unexpected(flag(reply)), "{reply:?}");
        }
        for reply in [&Reply::Integer(1), &text("QUEUED"), &list] {
            assert!(is_unexpected(is_set(reply)), "{reply:?}");
        }
        for reply in [&Reply::Integer(-1), &Reply::Nil, &text("1"), &list] {
            assert!(is_unexpected(length(reply)), "{reply:?}");
        }
        for reply in [&Reply::Integer(1), &list] {
            assert!(is_unexpected(value(reply.clone())), "{reply:?}");
            assert!(is_unexpected(count(reply)), "{reply:?}");
        }
        for reply in [&Reply::Integer(-2), &Reply::Nil, &text("1"), &list] {
            assert!(is_unexpected(remaining(reply)), "{reply:?}");
        }
    }

    #[test]
    fn an_unexpected_value_is_not_shown() {
        let error = unexpected(&text("secret"));
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "the server answered 6 bytes");
    }

    #[test]
    fn counts_are_as_strict_as_the_server() {
        assert_eq!(count(&Reply::Nil).unwrap(), 0);
        assert_eq!(count(&text("-9223372036854775808")).unwrap(), i64::MIN);
        for not_a_count in ["", "+1", " 1", "007", "-0", "1.0", "9223372036854775808", "x"] {
            let error = count(&text(not_a_count)).unwrap_err();
            assert_eq!(error.failure(), Failure::Refused(Refusal::Other), "{not_a_count}");
        }
    }
}
