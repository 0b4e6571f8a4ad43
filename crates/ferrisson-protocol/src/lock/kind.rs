use ferrisson_core::{
    Name,
    backend::{BackendError, LockKind},
};

use crate::{
    backend::unsupported,
    connection::Reply,
    keys,
    reply::unexpected,
    script::{self, Script},
};

/// What differs between the kinds of locks. Their scripts take and answer the same.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) channel: fn(&Name) -> String,
    pub(super) holder: fn(&Reply) -> Result<Option<Holder>, BackendError>,
    pub(super) acquire: &'static Script,
    pub(super) release: &'static Script,
    pub(super) abandon: &'static Script,
    pub(super) renew: &'static Script,
    pub(super) set_holds: Option<&'static Script>,
    pub(super) inspect: &'static Script,
    pub(super) force_release: &'static Script,
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

/// An owner and how often it has entered.
pub(super) type Holder = (String, u32);

impl Kind {
    pub(super) fn of(kind: LockKind) -> Result<&'static Self, BackendError> {
        match kind {
            LockKind::Reentrant => Ok(&REENTRANT),
            LockKind::Plain => Ok(&PLAIN),
            _ => Err(unsupported("this kind of lock")),
        }
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
    use bytes::Bytes;

    use super::*;

    fn bytes(text: &'static str) -> Reply {
        Reply::Bytes(Bytes::from_static(text.as_bytes()))
    }

    fn list(items: &[Reply]) -> Reply {
        Reply::Array(items.to_vec())
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
}
