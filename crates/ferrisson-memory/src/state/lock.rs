use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use ferrisson_core::{
    OwnerId,
    backend::{
        ABANDON_MEMORY, Attempt, LockInfo, LockKey, LockKind, Release, Renewal, RenewalRequest,
    },
};

use super::{Entry, Rejection, State, Value, end_of};

impl State {
    pub(crate) fn acquire(
        &mut self,
        lock: &LockKey,
        owner: OwnerId,
        lease: Duration,
        now: u64,
    ) -> Result<Attempt, Rejection> {
        if self.abandoned.contains(&(lock.name.clone(), owner), now) {
            return Ok(Attempt::Abandoned);
        }
        let until = Some(end_of(lease, now));
        match self.hold(lock, now)? {
            None => self.objects.put(lock.name.clone(), held_by(lock.kind, owner)?, until, now),
            Some(hold) if hold.value.is_held_by(owner) => hold.until = until,
            Some(hold) => return Ok(Attempt::Contended { remaining: hold.remaining(now) }),
        }
        Ok(Attempt::Acquired { token: None })
    }

    pub(crate) fn release(
        &mut self,
        lock: &LockKey,
        owner: OwnerId,
        now: u64,
    ) -> Result<Release, Rejection> {
        if self.own_hold(lock, owner, now)?.is_none() {
            return Ok(Release::NotHeld);
        }
        self.objects.remove(&lock.name, now);
        Ok(Release::Released)
    }

    pub(crate) fn abandon(
        &mut self,
        lock: &LockKey,
        owner: OwnerId,
        now: u64,
    ) -> Result<Release, Rejection> {
        let release = self.release(lock, owner, now);
        let until = Some(end_of(ABANDON_MEMORY, now));
        self.abandoned.put((lock.name.clone(), owner), (), until, now);
        release
    }

    pub(crate) fn renew(
        &mut self,
        request: &RenewalRequest,
        now: u64,
    ) -> Result<Renewal, Rejection> {
        let Some(hold) = self.own_hold(&request.lock, request.owner, now)? else {
            return Ok(Renewal::NotHeld);
        };
        hold.until = Some(end_of(request.lease, now));
        Ok(Renewal::Renewed)
    }

    pub(crate) fn set_holds(
        &mut self,
        lock: &LockKey,
        owner: OwnerId,
        holds: u32,
        now: u64,
    ) -> Result<Renewal, Rejection> {
        let Some(hold) = self.own_hold(lock, owner, now)? else { return Ok(Renewal::NotHeld) };
        if let Value::Hash(fields) = &mut hold.value {
            fields.insert(owner.to_string(), holds.into());
        }
        Ok(Renewal::Renewed)
    }

    pub(crate) fn inspect(
        &mut self,
        lock: &LockKey,
        now: u64,
    ) -> Result<Option<LockInfo>, Rejection> {
        Ok(self.hold(lock, now)?.map(|hold| {
            let (owner, holds) = hold.value.holder();
            LockInfo::new(owner, holds, hold.remaining(now))
        }))
    }

    pub(crate) fn force_release(&mut self, lock: &LockKey, now: u64) -> Result<bool, Rejection> {
        let was_held = self.hold(lock, now)?.is_some();
        self.objects.remove(&lock.name, now);
        Ok(was_held)
    }

    /// The hold that makes the lock not free.
    fn hold(&mut self, lock: &LockKey, now: u64) -> Result<Option<&mut Entry<Value>>, Rejection> {
        let hold = self.objects.get_mut(&lock.name, now);
        match (lock.kind, hold.as_ref().map(|hold| &hold.value)) {
            (LockKind::Reentrant, None | Some(Value::Hash(_)))
            | (LockKind::Plain, None | Some(Value::String(_))) => Ok(hold),
            (LockKind::Reentrant | LockKind::Plain, Some(_)) => Err(Rejection::WrongType),
            _ => Err(Rejection::UnknownKind),
        }
    }

    /// The hold, if it is that of this owner.
    fn own_hold(
        &mut self,
        lock: &LockKey,
        owner: OwnerId,
        now: u64,
    ) -> Result<Option<&mut Entry<Value>>, Rejection> {
        Ok(self.hold(lock, now)?.filter(|hold| hold.value.is_held_by(owner)))
    }
}

impl Value {
    fn is_held_by(&self, owner: OwnerId) -> bool {
        match self {
            Self::Hash(fields) => fields.contains_key(&owner.to_string()),
            Self::String(text) => *text == owner.to_string(),
        }
    }

    /// Who holds the lock, and how often.
    fn holder(&self) -> (String, u32) {
        match self {
            Self::String(text) => (String::from_utf8_lossy(text).into_owned(), 1),
            Self::Hash(fields) => {
                let (owner, holds) = fields.first_key_value().expect("a hash is never empty");
                (owner.clone(), u32::try_from(*holds).unwrap_or(u32::MAX))
            }
        }
    }
}

/// The value of a lock that was just taken.
fn held_by(kind: LockKind, owner: OwnerId) -> Result<Value, Rejection> {
    match kind {
        LockKind::Reentrant => Ok(Value::Hash(BTreeMap::from([(owner.to_string(), 1)]))),
        LockKind::Plain => Ok(Value::String(Bytes::from(owner.to_string()))),
        _ => Err(Rejection::UnknownKind),
    }
}

#[cfg(test)]
mod tests {
    use ferrisson_core::backend::Expiry;

    use super::{
        super::tests::{TTL, lock, owner, set},
        *,
    };

    const ACQUIRED: Result<Attempt, Rejection> = Ok(Attempt::Acquired { token: None });
    const KINDS: [LockKind; 2] = [LockKind::Reentrant, LockKind::Plain];

    fn contended(millis: u64) -> Result<Attempt, Rejection> {
        Ok(Attempt::Contended { remaining: Some(Duration::from_millis(millis)) })
    }

    fn renew(
        state: &mut State,
        kind: LockKind,
        number: u64,
        now: u64,
    ) -> Result<Renewal, Rejection> {
        let request = RenewalRequest { lock: lock(kind), owner: owner(number), lease: TTL };
        state.renew(&request, now)
    }

    #[test]
    fn a_held_lock_is_not_given_to_another_until_its_lease_has_passed() {
        for kind in KINDS {
            let (mut state, lock) = (State::default(), lock(kind));
            assert_eq!(state.acquire(&lock, owner(1), TTL, 5), ACQUIRED);
            assert_eq!(state.acquire(&lock, owner(2), TTL, 5), contended(100));
            assert_eq!(state.acquire(&lock, owner(2), TTL, 105), contended(0));
            assert_eq!(state.acquire(&lock, owner(2), TTL, 106), ACQUIRED);
            assert_eq!(state.release(&lock, owner(1), 106), Ok(Release::NotHeld));
            assert_eq!(renew(&mut state, kind, 1, 106), Ok(Renewal::NotHeld));
        }
    }

    #[test]
    fn a_repeated_acquire_starts_the_lease_anew_and_is_no_second_hold() {
        for kind in KINDS {
            let (mut state, lock) = (State::default(), lock(kind));
            assert_eq!(state.acquire(&lock, owner(1), TTL, 0), ACQUIRED);
            assert_eq!(state.acquire(&lock, owner(1), TTL, 60), ACQUIRED);
            let info = state.inspect(&lock, 60).unwrap().unwrap();
            assert_eq!(info, LockInfo::new(owner(1).to_string(), 1, Some(TTL)));
        }
    }

    #[test]
    fn a_release_frees_every_hold_once() {
        let (mut state, lock) = (State::default(), lock(LockKind::Reentrant));
        state.acquire(&lock, owner(1), TTL, 0).unwrap();
        assert_eq!(state.set_holds(&lock, owner(1), 3, 10), Ok(Renewal::Renewed));
        let info = state.inspect(&lock, 10).unwrap().unwrap();
        assert_eq!((info.holds, info.remaining), (3, Some(Duration::from_millis(90))));
        assert_eq!(state.release(&lock, owner(2), 10), Ok(Release::NotHeld));
        assert_eq!(state.release(&lock, owner(1), 10), Ok(Release::Released));
        assert_eq!(state.release(&lock, owner(1), 10), Ok(Release::NotHeld));
        assert_eq!(state.inspect(&lock, 10), Ok(None));
        assert_eq!(state.set_holds(&lock, owner(1), 3, 10), Ok(Renewal::NotHeld));
    }

    #[test]
    fn a_renewal_extends_and_creates_nothing() {
        for kind in KINDS {
            let (mut state, lock) = (State::default(), lock(kind));
            assert_eq!(renew(&mut state, kind, 1, 0), Ok(Renewal::NotHeld));
            assert!(state.keys(0).is_empty());
            state.acquire(&lock, owner(1), TTL, 0).unwrap();
            assert_eq!(renew(&mut state, kind, 1, 100), Ok(Renewal::Renewed));
            assert_eq!(renew(&mut state, kind, 2, 100), Ok(Renewal::NotHeld));
            assert_eq!(state.acquire(&lock, owner(2), TTL, 200), contended(0));
        }
    }

    #[test]
    fn an_abandoned_owner_is_granted_nothing_while_it_is_remembered() {
        for kind in KINDS {
            let (mut state, lock) = (State::default(), lock(kind));
            state.acquire(&lock, owner(1), TTL, 0).unwrap();
            assert_eq!(state.abandon(&lock, owner(1), 0), Ok(Release::Released));
            assert_eq!(state.abandon(&lock, owner(1), 0), Ok(Release::NotHeld));
            let memory = end_of(ABANDON_MEMORY, 0);
            assert_eq!(state.acquire(&lock, owner(1), TTL, memory), Ok(Attempt::Abandoned));
            assert_eq!(state.inspect(&lock, memory), Ok(None));
            assert_eq!(state.acquire(&lock, owner(2), TTL, memory), ACQUIRED);
            assert_eq!(state.force_release(&lock, memory), Ok(true));
            assert_eq!(state.acquire(&lock, owner(1), TTL, memory + 1), ACQUIRED);
        }
    }

    #[test]
    fn a_lock_can_be_forced_once() {
        for kind in KINDS {
            let (mut state, lock) = (State::default(), lock(kind));
            assert_eq!(state.force_release(&lock, 0), Ok(false));
            state.acquire(&lock, owner(1), TTL, 0).unwrap();
            assert_eq!(state.force_release(&lock, 0), Ok(true));
            assert_eq!(state.force_release(&lock, 0), Ok(false));
            assert_eq!(state.release(&lock, owner(1), 0), Ok(Release::NotHeld));
        }
    }

    #[test]
    fn a_lock_of_the_other_kind_is_a_wrong_type() {
        for (held, asked) in [(KINDS[0], KINDS[1]), (KINDS[1], KINDS[0])] {
            let mut state = State::default();
            state.acquire(&lock(held), owner(1), TTL, 0).unwrap();
            let (asked, wrong) = (lock(asked), Rejection::WrongType);
            assert_eq!(state.acquire(&asked, owner(2), TTL, 0), Err(wrong));
            assert_eq!(state.release(&asked, owner(1), 0), Err(wrong));
            assert_eq!(renew(&mut state, asked.kind, 1, 0), Err(wrong));
            assert_eq!(state.set_holds(&asked, owner(1), 2, 0), Err(wrong));
            assert_eq!(state.inspect(&asked, 0), Err(wrong));
            assert_eq!(state.force_release(&asked, 0), Err(wrong));
            assert_eq!(state.keys(0), ["x"], "nothing is changed");
            assert_eq!(state.abandon(&asked, owner(1), 0), Err(wrong));
            assert_eq!(state.acquire(&asked, owner(1), TTL, 0), Ok(Attempt::Abandoned));
            assert_eq!(state.release(&lock(held), owner(1), 0), Ok(Release::Released));
        }
    }

    #[test]
    fn any_string_holds_a_plain_lock() {
        let (mut state, lock) = (State::default(), lock(LockKind::Plain));
        set(&mut state, "", Expiry::Never);
        let attempt = state.acquire(&lock, owner(1), TTL, 0);
        assert_eq!(attempt, Ok(Attempt::Contended { remaining: None }));
        let info = state.inspect(&lock, 0).unwrap().unwrap();
        assert_eq!(info, LockInfo::new(String::new(), 1, None));
    }
}
