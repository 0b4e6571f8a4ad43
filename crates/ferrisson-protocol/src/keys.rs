//! Names of keys and channels.
//!
//! The key of an object is its name. What is derived from it follows Redisson where Java has to
//! find it, which are the channels. The two keys that only ferrisson knows are in the slot of the
//! name, whatever the name is.

use bytes::Bytes;
use ferrisson_core::{Name, OwnerId};

use crate::slot;

/// The key of the object itself.
pub(crate) fn object(name: &Name) -> Bytes {
    Bytes::copy_from_slice(name.as_str().as_bytes())
}

/// Where the release of a reentrant lock is told.
pub(crate) fn lock_channel(name: &Name) -> String {
    prefixed("redisson_lock__channel", name)
}

/// Where the release of a plain lock is told. Ours: the other libraries with plain locks only poll.
pub(crate) fn plain_channel(name: &Name) -> String {
    prefixed("ferrisson_lock__channel", name)
}

/// Where permits that come free are told.
pub(crate) fn semaphore_channel(name: &Name) -> String {
    prefixed("redisson_sc", name)
}

/// Exists when this owner must not be granted this lock any more.
pub(crate) fn tombstone(name: &Name, owner: OwnerId) -> Bytes {
    beside("ferrisson_abandoned", name, &owner.to_string())
}

/// Has the number of permits that this owner was granted, or `void` when it must not be granted
/// any.
pub(crate) fn permit_record(name: &Name, owner: OwnerId) -> Bytes {
    beside("ferrisson_permit", name, &owner.to_string())
}

/// A key in the slot of the name that never exists.
pub(crate) fn nothing(name: &Name) -> Bytes {
    beside("ferrisson_permit", name, "none")
}

/// Redisson's rule, to the letter: a name with a `{` anywhere is taken as having a hash tag.
fn prefixed(prefix: &str, name: &Name) -> String {
    if name.as_str().contains('{') {
        format!("{prefix}:{name}")
    } else {
        format!("{prefix}:{{{name}}}")
    }
}

/// A key of ours in the slot of the name.
fn beside(prefix: &str, name: &Name, suffix: &str) -> Bytes {
    let bytes = name.as_str().as_bytes();
    let key = if slot::hash_tag(bytes).is_some() {
        format!("{prefix}:{name}:{suffix}")
    } else if !bytes.iter().any(|byte| matches!(byte, b'{' | b'}')) {
        format!("{prefix}:{{{name}}}:{suffix}")
    } else {
        // Braces that are no tag: one of another text that leads to the same slot.
        format!("{prefix}@{{{}}}:{name}:{suffix}", tag_for(slot::of(bytes)))
    };
    key.into()
}

/// A number whose text is in this slot.
fn tag_for(slot: u16) -> u32 {
    (0..=u32::MAX)
        .find(|number| slot::of(number.to_string().as_bytes()) == slot)
        .expect("the decimal numbers reach every slot")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const OWNER: OwnerId = OwnerId::new(Uuid::from_u128(7), 3);
    const OWNER_TEXT: &str = "00000000-0000-0000-0000-000000000007:3";

    #[test]
    fn channels_follow_the_rule_of_redisson() {
        for (name, part) in [
            ("orders", "{orders}"),
            ("a}b", "{a}b}"),
            ("x{tag}y", "x{tag}y"),
            ("a{b", "a{b"),
            ("{}x", "{}x"),
        ] {
            let name = Name::new(name);
            assert_eq!(lock_channel(&name), format!("redisson_lock__channel:{part}"));
            assert_eq!(plain_channel(&name), format!("ferrisson_lock__channel:{part}"));
            assert_eq!(semaphore_channel(&name), format!("redisson_sc:{part}"));
        }
    }

    #[test]
    fn our_own_keys_are_readable_for_ordinary_names() {
        let name = Name::new("orders");
        let key = format!("ferrisson_abandoned:{{orders}}:{OWNER_TEXT}");
        assert_eq!(tombstone(&name, OWNER), key);
        let name = Name::new("orders:{42}");
        let key = format!("ferrisson_permit:orders:{{42}}:{OWNER_TEXT}");
        assert_eq!(permit_record(&name, OWNER), key);
        assert_eq!(nothing(&name), "ferrisson_permit:orders:{42}:none");
    }

    #[test]
    fn every_slot_has_a_short_tag() {
        let mut seen = HashSet::new();
        let last = (0_u32..).find(|number| {
            seen.insert(slot::of(number.to_string().as_bytes()));
            seen.len() == usize::from(slot::SLOTS)
        });
        assert!(last.is_some_and(|number| number < 1_000_000), "{last:?}");
    }

    fn assert_beside(name: &str) {
        let slot = slot::of(name.as_bytes());
        let name = Name::new(name);
        for key in [tombstone(&name, OWNER), permit_record(&name, OWNER), nothing(&name)] {
            assert_eq!(slot::of(&key), slot, "{name:?} has {key:?}");
        }
    }

    #[test]
    fn our_own_keys_share_the_slot_of_an_odd_name() {
        for name in [
            "a{b", "a}b", "{}x", "}{", "{", "}", "{}", "}{x}", "{}{x}", "{{a}", "a b", "日本",
            "a\0",
        ] {
            assert_beside(name);
        }
    }

    proptest! {
        // Each case searches three tags.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn our_own_keys_share_the_slot_of_any_name(name in "[{}ab:@é0]{1,8}|.{1,40}") {
            assert_beside(&name);
        }
    }
}
