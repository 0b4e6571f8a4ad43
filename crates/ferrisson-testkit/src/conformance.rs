//! The promises of every primitive, as async functions over clients of any backend.
//!
//! Who brings a backend runs all of them:
//!
//! ```ignore
//! macro_rules! tests {
//!     ($($area:ident { $($case:ident)* })*) => { $( mod $area { $(
//!         #[tokio::test]
//!         async fn $case() {
//!             let store = Store::open(async || MyBackend::connect().await).await;
//!             ferrisson_testkit::conformance::$area::$case(&store).await;
//!             store.close().await;
//!         }
//!     )* } )* };
//! }
//! ferrisson_testkit::for_each_conformance_case!(tests!());
//! ```
//!
//! Every case has names of its own, so that all can run at once on one store. They run on a clock
//! that is paused as well as on one that is not.

pub mod bucket;
pub mod lock;
pub mod plain_lock;
pub mod semaphore;

use std::{future::Future, time::Duration};

use ferrisson_core::{
    Client, LockHandle, MAX_NAME_LEN, Result,
    backend::{Backend, LockKind},
};
use tokio::time;
use uuid::Uuid;

/// Calls a macro with all cases, as `area { case case … } …`, after its own arguments.
#[macro_export]
macro_rules! for_each_conformance_case {
    ($callback:ident ! ($($arguments:tt)*)) => {
        $callback! {
            $($arguments)*
            lock {
                a_lock_is_held_until_it_is_unlocked
                a_lock_can_be_used_as_a_trait_object
                every_hold_has_an_owner_of_its_own
                tasks_and_clients_exclude_each_other
                locks_of_different_names_are_independent
                many_locks_can_be_held_at_once
                a_try_without_wait_answers_at_once
                a_wait_ends_when_it_is_over
                waits_of_any_length_are_taken
                a_release_wakes_a_waiter
                a_forced_release_wakes_a_waiter_and_the_holder_learns_of_it
                a_dropped_guard_releases
                waiters_of_one_client_are_served_in_their_order
                waiters_of_several_clients_are_all_served
                a_cancelled_waiter_leaves_nothing
                a_cancelled_head_of_the_row_lets_the_next_one_in
                a_lease_ends_by_itself_and_its_holder_knows
                a_stale_unlock_does_not_free_the_next_holder
                the_watchdog_keeps_a_lock
                a_forgotten_lock_stays_until_its_lease_ends
                a_renewal_extends_and_shortens
                a_lost_lock_cannot_be_renewed
                leases_that_cannot_work_are_refused
                the_remaining_lease_is_told
                a_lock_that_a_stranger_deletes_is_found_by_polling
                the_holder_learns_at_its_next_renewal_that_a_stranger_deleted_the_lock
                work_is_stopped_when_the_lock_is_lost
                a_held_lock_can_be_entered_again
                holds_can_end_in_any_order
                a_lost_lock_cannot_be_entered_again
                a_re_entry_does_not_stop_the_watchdog
                odd_names_are_names
                names_that_cannot_work_are_refused
                a_key_of_another_type_is_not_touched
                a_closed_client_lets_go_and_does_nothing_more
            }
            plain_lock {
                a_lock_is_held_until_it_is_unlocked
                every_hold_has_an_owner_of_its_own
                tasks_and_clients_exclude_each_other
                a_try_without_wait_answers_at_once
                a_wait_ends_when_it_is_over
                waits_of_any_length_are_taken
                a_release_wakes_a_waiter
                a_forced_release_wakes_a_waiter_and_the_holder_learns_of_it
                a_dropped_guard_releases
                waiters_of_one_client_are_served_in_their_order
                waiters_of_several_clients_are_all_served
                a_cancelled_waiter_leaves_nothing
                a_cancelled_head_of_the_row_lets_the_next_one_in
                a_lease_ends_by_itself_and_its_holder_knows
                a_stale_unlock_does_not_free_the_next_holder
                the_watchdog_keeps_a_lock
                a_forgotten_lock_stays_until_its_lease_ends
                a_renewal_extends_and_shortens
                leases_that_cannot_work_are_refused
                the_remaining_lease_is_told
                a_lock_that_a_stranger_deletes_is_found_by_polling
                odd_names_are_names
                names_that_cannot_work_are_refused
                a_closed_client_lets_go_and_does_nothing_more
                a_plain_lock_cannot_be_entered_again
                any_text_holds_a_plain_lock
                a_lock_of_the_other_kind_is_not_touched
            }
            semaphore {
                an_absent_semaphore_has_no_permits
                permits_are_set_once
                permits_are_taken_and_given_back
                permits_are_taken_all_or_none
                no_permits_are_always_there
                more_permits_than_there_can_be_are_refused
                a_wait_for_permits_ends_when_it_is_over
                a_release_wakes_a_waiter
                many_permits_are_waited_for_through_several_releases
                added_permits_wake_a_waiter_and_can_be_negative
                permits_that_are_set_wake_a_waiter
                permits_can_be_drained
                a_release_without_permits_adds_them
                dropped_permits_are_given_back_and_forgotten_ones_are_not
                a_large_request_is_not_overtaken_by_a_small_one
                never_more_are_taken_than_there_are
                a_cancelled_wait_takes_nothing
                the_count_does_not_overflow
                a_key_of_another_type_is_not_touched
                odd_names_are_names
                names_that_cannot_work_are_refused
                a_closed_client_gives_back_what_was_dropped
            }
            bucket {
                a_value_is_set_read_and_deleted
                every_codec_keeps_every_value
                a_size_is_that_of_the_encoded_value
                a_value_ends_with_its_time_to_live
                a_time_to_live_is_dropped_kept_or_replaced
                a_time_to_live_can_be_set_and_cleared
                a_value_is_set_only_if_absent
                a_value_is_set_only_if_it_exists
                a_value_is_compared_and_set
                a_comparison_drops_the_time_to_live
                a_value_is_replaced_and_answered
                a_value_is_taken
                a_value_can_be_touched
                concurrent_comparisons_lose_no_update
                times_that_cannot_work_are_refused
                a_value_that_cannot_be_decoded_is_an_error
                a_value_that_cannot_be_encoded_changes_nothing
                a_key_of_another_type_is_replaced_only_by_a_set
                odd_names_are_names
                names_that_cannot_work_are_refused
                a_closed_client_does_nothing_more
            }
        }
    };
}

/// The watchdog lease of all clients here.
const WATCHDOG: Duration = Duration::from_millis(1500);
/// No client but the impatient one finds anything by polling while a case runs.
const NO_POLLING: Duration = Duration::from_secs(600);
/// The poll interval of the impatient client.
const POLLING: Duration = Duration::from_millis(100);
/// By then what has to happen soon has happened, also on a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// A short lease or wait, whose end is awaited.
const SHORT: Duration = Duration::from_millis(250);
/// A lease that no case sees the end of.
const LONG: Duration = Duration::from_secs(3600);

/// Clients of one store, and names that nobody else uses.
#[derive(Debug)]
pub struct Store {
    clients: [Client; 3],
    impatient: Client,
    /// Closed by the cases that need one.
    mortal: Client,
    id: Uuid,
    kind: LockKind,
}

impl Store {
    /// Connects several times to one store: backends that see the same keys.
    ///
    /// # Panics
    ///
    /// If the settings of a client are refused.
    pub async fn open<B: Backend>(connect: impl AsyncFn() -> B) -> Self {
        let build = async |poll_interval| {
            let builder = Client::builder(connect().await).watchdog_lease(WATCHDOG);
            builder.poll_interval(poll_interval).build().expect("valid settings")
        };
        Self {
            clients: [build(NO_POLLING).await, build(NO_POLLING).await, build(NO_POLLING).await],
            impatient: build(POLLING).await,
            mortal: build(NO_POLLING).await,
            id: Uuid::new_v4(),
            kind: LockKind::Reentrant,
        }
    }

    /// Ends all clients.
    pub async fn close(self) {
        for client in self.clients.iter().chain([&self.impatient, &self.mortal]) {
            client.close().await;
        }
    }

    /// The same, with plain locks.
    fn plain(&self) -> Self {
        Self {
            clients: self.clients.clone(),
            impatient: self.impatient.clone(),
            mortal: self.mortal.clone(),
            id: self.id,
            kind: LockKind::Plain,
        }
    }

    fn name(&self, label: &str) -> String {
        format!("{label}:{}", self.id)
    }

    /// The lock of a client.
    fn lock_of(&self, client: &Client, name: impl AsRef<str>) -> LockHandle {
        match self.kind {
            LockKind::Plain => client.plain_lock(name.as_ref()),
            _ => client.lock(name.as_ref()),
        }
    }

    /// One lock, seen by each of the three clients.
    fn locks(&self, label: &str) -> [LockHandle; 3] {
        let name = self.name(label);
        self.clients.each_ref().map(|client| self.lock_of(client, &name))
    }

    /// Names with all that a protocol could stumble over.
    fn odd_names(&self) -> Vec<String> {
        let odd = [
            "{",
            "}",
            "{}",
            "{a}",
            "{a}b}",
            "}{",
            "a b",
            " ",
            "日本",
            "é",
            "a\0b",
            "a\r\nb",
            "\"",
            "%41",
            "a:b:c",
            "*",
            "h[ae]llo?",
            "\\",
            "redisson_lock__channel:{x}",
        ];
        let mut names: Vec<_> = odd.map(|odd| format!("{odd}{}", self.id)).into();
        names.extend(["{}", "日"].map(|odd| self.name(odd)));
        let mut huge = self.name("huge");
        huge.push_str(&"x".repeat(MAX_NAME_LEN - huge.len()));
        names.push(huge);
        names
    }
}

/// Names that are refused.
fn bad_names() -> [String; 2] {
    [String::new(), "x".repeat(MAX_NAME_LEN + 1)]
}

/// What has to happen soon, without anybody's polling.
async fn soon<F: Future>(call: F) -> F::Output {
    time::timeout(SOON, call).await.expect("this takes much too long")
}

/// Starts to wait and lets that settle: nobody tells when a waiter has begun to sleep.
async fn begin<T: Send + 'static>(
    call: impl Future<Output = Result<T>> + Send + 'static,
) -> tokio::task::JoinHandle<Result<T>> {
    let waiting = tokio::spawn(call);
    time::sleep(Duration::from_millis(100)).await;
    waiting
}

#[cfg(test)]
mod tests {
    macro_rules! count {
        ($($area:ident { $($case:ident)* })*) => {
            [$((stringify!($area), [$(stringify!($case)),*].len())),*]
        };
    }

    #[test]
    fn every_case_is_listed() {
        let listed = for_each_conformance_case!(count!());
        let sources = [
            concat!(
                include_str!("conformance/lock.rs"),
                include_str!("conformance/lock/holding.rs"),
                include_str!("conformance/lock/waiting.rs"),
            ),
            include_str!("conformance/plain_lock.rs"),
            include_str!("conformance/semaphore.rs"),
            include_str!("conformance/bucket.rs"),
        ];
        for ((area, cases), source) in listed.into_iter().zip(sources) {
            let defined = source.matches("\npub async fn ").count();
            let reused = source.matches("// as of any lock").count();
            assert_eq!(cases, defined + reused, "{area}");
        }
    }
}
