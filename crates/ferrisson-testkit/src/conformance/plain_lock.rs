//! Plain locks: what holds for any lock holds for them.
#![allow(missing_docs, reason = "the name of a case says what it is about")]
#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

use std::time::Duration;

use ferrisson_core::{Error, codec::Text};

use super::{LONG, Store, lock, soon};

macro_rules! as_of_any_lock {
    ($($case:ident,)*) => {
        $(pub async fn $case(store: &Store) {
            lock::$case(&store.plain()).await;
        })*
    };
}

as_of_any_lock! {
    a_lock_is_held_until_it_is_unlocked, // as of any lock
    every_hold_has_an_owner_of_its_own, // as of any lock
    tasks_and_clients_exclude_each_other, // as of any lock
    a_try_without_wait_answers_at_once, // as of any lock
    a_wait_ends_when_it_is_over, // as of any lock
    waits_of_any_length_are_taken, // as of any lock
    a_release_wakes_a_waiter, // as of any lock
    a_forced_release_wakes_a_waiter_and_the_holder_learns_of_it, // as of any lock
    a_dropped_guard_releases, // as of any lock
    waiters_of_one_client_are_served_in_their_order, // as of any lock
    waiters_of_several_clients_are_all_served, // as of any lock
    a_cancelled_waiter_leaves_nothing, // as of any lock
    a_cancelled_head_of_the_row_lets_the_next_one_in, // as of any lock
    a_lease_ends_by_itself_and_its_holder_knows, // as of any lock
    a_stale_unlock_does_not_free_the_next_holder, // as of any lock
    the_watchdog_keeps_a_lock, // as of any lock
    a_forgotten_lock_stays_until_its_lease_ends, // as of any lock
    a_renewal_extends_and_shortens, // as of any lock
    leases_that_cannot_work_are_refused, // as of any lock
    the_remaining_lease_is_told, // as of any lock
    a_lock_that_a_stranger_deletes_is_found_by_polling, // as of any lock
    odd_names_are_names, // as of any lock
    names_that_cannot_work_are_refused, // as of any lock
    a_closed_client_lets_go_and_does_nothing_more, // as of any lock
}

pub async fn a_plain_lock_cannot_be_entered_again(store: &Store) {
    let [lock, ..] = store.plain().locks("plain reenter");
    let guard = lock.lock_with(LONG).await.unwrap();
    let error = guard.reenter().await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    assert!(guard.is_held());
    guard.unlock().await.unwrap();
}

pub async fn any_text_holds_a_plain_lock(store: &Store) {
    let name = store.name("foreign");
    let lock = store.impatient.plain_lock(name.as_str());
    let foreign = store.clients[0].bucket_with::<String, _>(name, Text);
    for (value, ttl) in [("", None), ("somebody", None), ("else", Some(super::SHORT))] {
        foreign.set(&value.into()).await.unwrap();
        assert!(lock.try_lock(Duration::ZERO, LONG).await.unwrap().is_none());
        let info = lock.inspect().await.unwrap().expect("it is held");
        assert_eq!((info.owner.as_str(), info.holds, info.remaining), (value, 1, None));
        assert_eq!(lock.remaining_lease().await.unwrap(), Some(Duration::MAX));
        match ttl {
            Some(ttl) => assert!(foreign.expire(ttl).await.unwrap()),
            None => assert!(foreign.delete().await.unwrap()),
        }
        soon(lock.lock_with(LONG)).await.unwrap().unlock().await.unwrap();
    }
}

pub async fn a_lock_of_the_other_kind_is_not_touched(store: &Store) {
    let name = store.name("kinds");
    let (reentrant, plain) =
        (store.clients[0].lock(name.as_str()), store.clients[1].plain_lock(name.as_str()));
    for (held, asked) in [(&reentrant, &plain), (&plain, &reentrant)] {
        let guard = held.lock_with(LONG).await.unwrap();
        let error = asked.try_lock(Duration::ZERO, LONG).await.unwrap_err();
        assert!(matches!(error, Error::WrongType { .. }), "{error}");
        assert!(matches!(asked.inspect().await, Err(Error::WrongType { .. })));
        guard.unlock().await.unwrap();
    }
}
