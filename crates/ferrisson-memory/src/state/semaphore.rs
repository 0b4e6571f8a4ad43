use bytes::Bytes;
use ferrisson_core::{
    Name, OwnerId,
    backend::{ABANDON_MEMORY, Expiry, PermitAttempt, PermitRecord, PermitRelease},
};

use super::{Grant, Rejection, State, end_of};

impl State {
    pub(crate) fn acquire_permits(
        &mut self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
        now: u64,
    ) -> Result<PermitAttempt, Rejection> {
        let grant = self.grant(name, owner, now);
        if let Some(Grant::Abandoned) = grant {
            return Ok(PermitAttempt::Abandoned);
        }
        let available = self.available_permits(name, now)?;
        if grant.is_some() {
            return Ok(PermitAttempt::Acquired { available });
        }
        if available < permits.into() {
            return Ok(PermitAttempt::Exhausted { available });
        }
        let available = self.add_permits(name, -i64::from(permits), true, now)?;
        self.remember(name, owner, Grant::Permits(permits), now);
        Ok(PermitAttempt::Acquired { available })
    }

    pub(crate) fn release_permits(
        &mut self,
        name: &Name,
        owner: OwnerId,
        permits: u32,
        record: PermitRecord,
        now: u64,
    ) -> Result<PermitRelease, Rejection> {
        let granted = match self.grant(name, owner, now) {
            Some(Grant::Permits(granted)) => Some(granted),
            Some(Grant::Abandoned) | None => None,
        };
        let returned = match record {
            PermitRecord::Kept => granted,
            PermitRecord::Expired => Some(permits),
        };
        let Some(returned) = returned else { return Ok(PermitRelease::NotHeld) };
        self.add_permits(name, returned.into(), true, now)?;
        if granted.is_some() {
            self.grants.remove(&(name.clone(), owner), now);
        }
        Ok(PermitRelease::Released)
    }

    pub(crate) fn abandon_permits(
        &mut self,
        name: &Name,
        owner: OwnerId,
        now: u64,
    ) -> Result<PermitRelease, Rejection> {
        let release = self.release_permits(name, owner, 0, PermitRecord::Kept, now)?;
        self.remember(name, owner, Grant::Abandoned, now);
        Ok(release)
    }

    pub(crate) fn add_permits(
        &mut self,
        name: &Name,
        permits: i64,
        keep_ttl: bool,
        now: u64,
    ) -> Result<i64, Rejection> {
        let count = self.available_permits(name, now)?;
        let count = count.checked_add(permits).ok_or(Rejection::Overflow)?;
        let expiry = if keep_ttl { Expiry::Keep } else { Expiry::Never };
        self.put_count(name, count, expiry, now);
        Ok(count)
    }

    pub(crate) fn init_permits(&mut self, name: &Name, permits: u32, now: u64) -> bool {
        let absent = !self.objects.contains(name, now);
        if absent {
            self.put_count(name, permits.into(), Expiry::Never, now);
        }
        absent
    }

    pub(crate) fn drain_permits(&mut self, name: &Name, now: u64) -> Result<i64, Rejection> {
        let count = self.available_permits(name, now)?;
        if self.objects.contains(name, now) {
            self.put_count(name, 0, Expiry::Never, now);
        }
        Ok(count)
    }

    /// The count; an absent semaphore has none left.
    pub(crate) fn available_permits(&self, name: &Name, now: u64) -> Result<i64, Rejection> {
        self.string(name, now)?.map_or(Ok(0), |text| count_of(text))
    }

    fn put_count(&mut self, name: &Name, count: i64, expiry: Expiry, now: u64) {
        self.put(name, Bytes::from(count.to_string()), expiry, now);
    }

    fn grant(&self, name: &Name, owner: OwnerId, now: u64) -> Option<Grant> {
        self.grants.get(&(name.clone(), owner), now).map(|entry| entry.value)
    }

    fn remember(&mut self, name: &Name, owner: OwnerId, grant: Grant, now: u64) {
        let until = Some(end_of(ABANDON_MEMORY, now));
        self.grants.put((name.clone(), owner), grant, until, now);
    }
}

/// Reads a number as Redis does: decimal, without a plus sign, blanks or leading zeros.
fn count_of(text: &[u8]) -> Result<i64, Rejection> {
    let number: Option<i64> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.filter(|number| number.to_string().as_bytes() == text).ok_or(Rejection::NotAnInteger)
}

#[cfg(test)]
mod tests {
    use ferrisson_core::backend::{LockKind, Ttl};

    use super::{
        super::tests::{TTL, lock, owner, set},
        *,
    };

    fn semaphore(permits: u32) -> (State, Name) {
        let (mut state, name) = (State::default(), Name::new("x"));
        assert!(state.init_permits(&name, permits, 0));
        (state, name)
    }

    #[test]
    fn permits_are_taken_all_or_none() {
        let (mut state, name) = semaphore(3);
        let acquired = Ok(PermitAttempt::Acquired { available: 1 });
        assert_eq!(state.acquire_permits(&name, owner(1), 2, 0), acquired);
        let exhausted = Ok(PermitAttempt::Exhausted { available: 1 });
        assert_eq!(state.acquire_permits(&name, owner(2), 2, 0), exhausted);
        assert_eq!(state.available_permits(&name, 0), Ok(1));
        assert_eq!(state.acquire_permits(&name, owner(1), 2, 0), acquired, "a repeated request");
        assert_eq!(state.available_permits(&name, 0), Ok(1));
    }

    #[test]
    fn permits_come_back_once_and_as_many_as_were_taken() {
        let (mut state, name) = semaphore(3);
        state.acquire_permits(&name, owner(1), 2, 0).unwrap();
        let kept = PermitRecord::Kept;
        let release = state.release_permits(&name, owner(1), 9, kept, 0);
        assert_eq!(release, Ok(PermitRelease::Released));
        assert_eq!(state.available_permits(&name, 0), Ok(3));
        let again = state.release_permits(&name, owner(1), 2, kept, 0);
        assert_eq!(again, Ok(PermitRelease::NotHeld));
        assert_eq!(state.available_permits(&name, 0), Ok(3));
        assert_eq!(state.keys(0), ["x"]);
    }

    #[test]
    fn a_grant_older_than_its_record_is_given_back_by_number() {
        let (mut state, name) = semaphore(3);
        state.acquire_permits(&name, owner(1), 2, 0).unwrap();
        let later = end_of(ABANDON_MEMORY, 0) + 1;
        let kept = state.release_permits(&name, owner(1), 2, PermitRecord::Kept, later);
        assert_eq!(kept, Ok(PermitRelease::NotHeld));
        let expired = state.release_permits(&name, owner(1), 2, PermitRecord::Expired, later);
        assert_eq!(expired, Ok(PermitRelease::Released));
        assert_eq!(state.available_permits(&name, later), Ok(3));
    }

    #[test]
    fn an_abandoned_owner_has_given_back_and_gets_nothing() {
        let (mut state, name) = semaphore(3);
        state.acquire_permits(&name, owner(1), 2, 0).unwrap();
        assert_eq!(state.abandon_permits(&name, owner(1), 0), Ok(PermitRelease::Released));
        assert_eq!(state.abandon_permits(&name, owner(1), 0), Ok(PermitRelease::NotHeld));
        assert_eq!(state.abandon_permits(&name, owner(2), 0), Ok(PermitRelease::NotHeld));
        assert_eq!(state.available_permits(&name, 0), Ok(3));
        let memory = end_of(ABANDON_MEMORY, 0);
        for number in [1, 2] {
            let attempt = state.acquire_permits(&name, owner(number), 1, memory);
            assert_eq!(attempt, Ok(PermitAttempt::Abandoned));
            let late = state.acquire_permits(&name, owner(number), 1, memory + 1);
            assert!(matches!(late, Ok(PermitAttempt::Acquired { .. })));
        }
    }

    #[test]
    fn an_absent_semaphore_counts_as_zero_and_a_release_creates_it() {
        let (mut state, name) = (State::default(), Name::new("x"));
        assert_eq!(state.available_permits(&name, 0), Ok(0));
        assert_eq!(state.drain_permits(&name, 0), Ok(0));
        let attempt = state.acquire_permits(&name, owner(1), 1, 0);
        assert_eq!(attempt, Ok(PermitAttempt::Exhausted { available: 0 }));
        assert!(state.keys(0).is_empty());
        assert_eq!(state.add_permits(&name, -2, false, 0), Ok(-2));
        assert!(!state.init_permits(&name, 5, 0));
        assert_eq!(state.add_permits(&name, 2, true, 0), Ok(0));
        assert!(!state.init_permits(&name, 5, 0), "a count of zero exists");
    }

    #[test]
    fn a_count_out_of_range_changes_nothing() {
        let (mut state, name) = semaphore(3);
        state.acquire_permits(&name, owner(1), 3, 0).unwrap();
        state.add_permits(&name, i64::MAX, false, 0).unwrap();
        assert_eq!(state.add_permits(&name, 1, true, 0), Err(Rejection::Overflow));
        let release = state.release_permits(&name, owner(1), 3, PermitRecord::Kept, 0);
        assert_eq!(release, Err(Rejection::Overflow));
        assert_eq!(state.abandon_permits(&name, owner(1), 0), Err(Rejection::Overflow));
        assert_eq!(state.drain_permits(&name, 0), Ok(i64::MAX));
        let release = state.release_permits(&name, owner(1), 3, PermitRecord::Kept, 0);
        assert_eq!(release, Ok(PermitRelease::Released), "the record was kept");
    }

    #[test]
    fn only_what_redis_takes_for_an_integer_is_a_count() {
        let odd = ["", "a", "+1", "01", "-0", " 1", "1 ", "1.0", "1e3", "0x1"];
        for text in odd.into_iter().chain(["9223372036854775808"]) {
            let (mut state, name) = (State::default(), Name::new("x"));
            set(&mut state, text, Expiry::Never);
            let rejected = Err(Rejection::NotAnInteger);
            assert_eq!(state.available_permits(&name, 0), rejected, "{text:?}");
            assert_eq!(state.add_permits(&name, 1, true, 0), rejected);
            assert_eq!(state.drain_permits(&name, 0), rejected);
            let attempt = state.acquire_permits(&name, owner(1), 1, 0);
            assert_eq!(attempt, Err(Rejection::NotAnInteger));
            assert_eq!(state.get(&name, 0), Ok(Some(Bytes::from(text))));
        }
    }

    #[test]
    fn a_ttl_is_kept_or_dropped_as_redisson_does() {
        type Step = fn(&mut State, &Name) -> bool;
        let keep: [Step; 3] = [
            |state, name| state.add_permits(name, 1, true, 0).is_ok(),
            |state, name| state.acquire_permits(name, owner(1), 1, 0).is_ok(),
            |state, name| {
                state.release_permits(name, owner(1), 1, PermitRecord::Expired, 0).is_ok()
            },
        ];
        let lose: [Step; 2] = [
            |state, name| state.add_permits(name, 1, false, 0).is_ok(),
            |state, name| state.drain_permits(name, 0).is_ok(),
        ];
        let kept = keep.map(|step| (step, Ttl::After(TTL)));
        let lost = lose.map(|step| (step, Ttl::Persistent));
        for (step, ttl) in kept.into_iter().chain(lost) {
            let (mut state, name) = (State::default(), Name::new("x"));
            set(&mut state, "5", Expiry::After(TTL));
            assert!(step(&mut state, &name));
            assert_eq!(state.ttl(&name, 0), ttl);
        }
    }

    #[test]
    fn a_lock_of_the_same_name_is_a_wrong_type() {
        let (mut state, name, wrong) = semaphore_under_a_lock();
        assert_eq!(state.acquire_permits(&name, owner(2), 1, 0), Err(wrong));
        for record in [PermitRecord::Kept, PermitRecord::Expired] {
            assert_eq!(state.release_permits(&name, owner(1), 1, record, 0), Err(wrong));
        }
        assert_eq!(state.abandon_permits(&name, owner(1), 0), Err(wrong));
        assert_eq!(state.add_permits(&name, 1, false, 0), Err(wrong));
        assert_eq!(state.drain_permits(&name, 0), Err(wrong));
        assert_eq!(state.available_permits(&name, 0), Err(wrong));
        assert!(!state.init_permits(&name, 1, 0));
    }

    /// Owner 1 has a permit of a semaphore whose key was replaced by a lock.
    fn semaphore_under_a_lock() -> (State, Name, Rejection) {
        let (mut state, name) = semaphore(1);
        state.acquire_permits(&name, owner(1), 1, 0).unwrap();
        assert!(state.delete(&name, 0));
        state.acquire(&lock(LockKind::Reentrant), owner(9), TTL, 0).unwrap();
        (state, name, Rejection::WrongType)
    }
}
