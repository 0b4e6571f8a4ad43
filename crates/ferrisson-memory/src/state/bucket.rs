use std::time::Duration;

use bytes::Bytes;
use ferrisson_core::{
    Name,
    backend::{Condition, Expiry, Ttl},
};

use super::{Rejection, State, end_of};

impl State {
    pub(crate) fn get(&self, name: &Name, now: u64) -> Result<Option<Bytes>, Rejection> {
        Ok(self.string(name, now)?.cloned())
    }

    pub(crate) fn set(
        &mut self,
        name: &Name,
        value: Bytes,
        condition: Condition,
        expiry: Expiry,
        now: u64,
    ) -> bool {
        let holds = match condition {
            Condition::Always => true,
            Condition::IfAbsent => !self.exists(name, now),
            Condition::IfExists => self.exists(name, now),
        };
        if holds {
            self.put(name, value, expiry, now);
        }
        holds
    }

    pub(crate) fn replace(
        &mut self,
        name: &Name,
        value: Bytes,
        expiry: Expiry,
        now: u64,
    ) -> Result<Option<Bytes>, Rejection> {
        let before = self.get(name, now)?;
        self.put(name, value, expiry, now);
        Ok(before)
    }

    pub(crate) fn compare_and_set(
        &mut self,
        name: &Name,
        expected: Option<&Bytes>,
        new: Option<Bytes>,
        now: u64,
    ) -> Result<bool, Rejection> {
        if self.string(name, now)? != expected {
            return Ok(false);
        }
        match new {
            Some(value) => self.put(name, value, Expiry::Never, now),
            None => drop(self.objects.remove(name, now)),
        }
        Ok(true)
    }

    pub(crate) fn take(&mut self, name: &Name, now: u64) -> Result<Option<Bytes>, Rejection> {
        let value = self.get(name, now)?;
        self.objects.remove(name, now);
        Ok(value)
    }

    pub(crate) fn delete(&mut self, name: &Name, now: u64) -> bool {
        self.objects.remove(name, now).is_some()
    }

    pub(crate) fn exists(&self, name: &Name, now: u64) -> bool {
        self.objects.contains(name, now)
    }

    pub(crate) fn size(&self, name: &Name, now: u64) -> Result<u64, Rejection> {
        Ok(self.string(name, now)?.map_or(0, |value| value.len() as u64))
    }

    pub(crate) fn expire(&mut self, name: &Name, ttl: Option<Duration>, now: u64) -> bool {
        let Some(entry) = self.objects.get_mut(name, now) else { return false };
        let had_end = entry.until.is_some();
        entry.until = ttl.map(|ttl| end_of(ttl, now));
        ttl.is_some() || had_end
    }

    pub(crate) fn ttl(&self, name: &Name, now: u64) -> Ttl {
        match self.objects.get(name, now).map(|entry| entry.remaining(now)) {
            None => Ttl::Absent,
            Some(None) => Ttl::Persistent,
            Some(Some(remaining)) => Ttl::After(remaining),
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrisson_core::backend::LockKind;

    use super::{
        super::tests::{TTL, lock, owner},
        *,
    };

    fn text(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn bucket(value: &'static str, expiry: Expiry) -> (State, Name) {
        let (mut state, name) = (State::default(), Name::new("x"));
        assert!(state.set(&name, text(value), Condition::Always, expiry, 0));
        (state, name)
    }

    #[test]
    fn a_value_is_there_through_its_time_to_live() {
        let (mut state, name) = bucket("a", Expiry::After(TTL));
        assert_eq!(state.ttl(&name, 0), Ttl::After(TTL));
        assert_eq!(state.ttl(&name, 100), Ttl::After(Duration::ZERO));
        assert_eq!(state.get(&name, 100), Ok(Some(text("a"))));
        assert_eq!(state.get(&name, 101), Ok(None));
        assert_eq!(state.ttl(&name, 101), Ttl::Absent);
        assert_eq!(state.size(&name, 101), Ok(0));
        assert_eq!(state.take(&name, 101), Ok(None));
        assert!(!state.delete(&name, 101) && !state.exists(&name, 101));
        assert!(!state.expire(&name, Some(TTL), 101));
    }

    #[test]
    fn conditions_look_at_existence() {
        let (mut state, name) = (State::default(), Name::new("x"));
        let mut set = |value, condition| state.set(&name, text(value), condition, Expiry::Never, 0);
        assert!(!set("a", Condition::IfExists));
        assert!(set("b", Condition::IfAbsent));
        assert!(!set("c", Condition::IfAbsent));
        assert!(set("", Condition::IfExists));
        assert_eq!(state.get(&name, 0), Ok(Some(text(""))));
        assert!(state.exists(&name, 0), "an empty value is a value");
    }

    #[test]
    fn a_write_drops_the_ttl_unless_it_is_to_keep_it() {
        for (expiry, ttl) in [
            (Expiry::Never, Ttl::Persistent),
            (Expiry::Keep, Ttl::After(Duration::from_millis(60))),
            (Expiry::After(TTL), Ttl::After(TTL)),
        ] {
            let (mut state, name) = bucket("a", Expiry::After(TTL));
            assert!(state.set(&name, text("b"), Condition::IfExists, expiry, 40));
            assert_eq!(state.ttl(&name, 40), ttl);
        }
        let (mut state, name) = bucket("a", Expiry::After(TTL));
        assert!(state.set(&name, text("b"), Condition::Always, Expiry::Keep, 101));
        assert_eq!(state.ttl(&name, 101), Ttl::Persistent, "the old value had ended");
    }

    #[test]
    fn replace_and_take_answer_the_value_before() {
        let (mut state, name) = bucket("a", Expiry::After(TTL));
        assert_eq!(state.replace(&name, text("b"), Expiry::Never, 0), Ok(Some(text("a"))));
        assert_eq!(state.ttl(&name, 0), Ttl::Persistent);
        assert_eq!(state.take(&name, 0), Ok(Some(text("b"))));
        assert_eq!(state.take(&name, 0), Ok(None));
        assert_eq!(state.replace(&name, text("c"), Expiry::After(TTL), 0), Ok(None));
        assert_eq!(state.ttl(&name, 0), Ttl::After(TTL));
    }

    #[test]
    fn compare_and_set_knows_absence_from_emptiness() {
        let (mut state, name) = (State::default(), Name::new("x"));
        let mut swap = |expected: Option<&'static str>, new: Option<&'static str>| {
            state.compare_and_set(&name, expected.map(text).as_ref(), new.map(text), 0)
        };
        assert_eq!(swap(Some(""), Some("a")), Ok(false));
        assert_eq!(swap(None, None), Ok(true));
        assert_eq!(swap(None, Some("")), Ok(true));
        assert_eq!(swap(None, Some("a")), Ok(false));
        assert_eq!(swap(Some(""), Some("b")), Ok(true));
        assert_eq!(swap(Some("a"), None), Ok(false));
        assert_eq!(swap(Some("b"), None), Ok(true));
        assert!(state.keys(0).is_empty());
    }

    #[test]
    fn compare_and_set_drops_the_ttl_only_if_it_sets() {
        let (mut state, name) = bucket("a", Expiry::After(TTL));
        assert_eq!(state.compare_and_set(&name, Some(&text("b")), Some(text("c")), 0), Ok(false));
        assert_eq!(state.ttl(&name, 0), Ttl::After(TTL));
        assert_eq!(state.compare_and_set(&name, Some(&text("a")), Some(text("a")), 0), Ok(true));
        assert_eq!(state.ttl(&name, 0), Ttl::Persistent);
    }

    #[test]
    fn expiry_is_set_and_removed() {
        let (mut state, name) = bucket("a", Expiry::Never);
        assert!(!state.expire(&name, None, 0), "it has none");
        assert!(state.expire(&name, Some(TTL), 0));
        assert!(state.expire(&name, Some(2 * TTL), 0));
        assert_eq!(state.ttl(&name, 0), Ttl::After(2 * TTL));
        assert!(state.expire(&name, None, 0));
        assert_eq!(state.ttl(&name, u64::MAX), Ttl::Persistent);
    }

    #[test]
    fn a_lock_is_no_value_but_can_be_overwritten_and_deleted() {
        let (mut state, name) = (State::default(), Name::new("x"));
        state.acquire(&lock(LockKind::Reentrant), owner(1), TTL, 0).unwrap();
        let wrong = Rejection::WrongType;
        assert_eq!(state.get(&name, 0), Err(wrong));
        assert_eq!(state.size(&name, 0), Err(wrong));
        assert_eq!(state.take(&name, 0), Err(wrong));
        assert_eq!(state.replace(&name, text("a"), Expiry::Never, 0), Err(wrong));
        assert_eq!(state.compare_and_set(&name, None, Some(text("a")), 0), Err(wrong));
        assert_eq!(state.ttl(&name, 0), Ttl::After(TTL));
        assert!(!state.set(&name, text("a"), Condition::IfAbsent, Expiry::Never, 0));
        assert!(state.set(&name, text("a"), Condition::IfExists, Expiry::Keep, 0));
        assert_eq!(state.get(&name, 0), Ok(Some(text("a"))));
        assert_eq!(state.ttl(&name, 0), Ttl::After(TTL));
        assert!(state.delete(&name, 0) && !state.delete(&name, 0));
    }
}
