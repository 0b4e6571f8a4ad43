use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ferrisson_core::backend::WakeupHub;
use tokio::{sync::watch, time::Instant};

/// How long a refusal of a channel is remembered. Each new try to find out costs a connection.
const DENIAL_MEMORY: Duration = Duration::from_secs(5);

/// What is known of each channel, shared by the task that keeps the subscriptions and by those who
/// wait for them.
pub(super) struct Channels {
    hub: WakeupHub,
    known: Mutex<Known>,
    /// Counts the changes of `known`.
    changes: watch::Sender<u64>,
}

/// What has become of a wish to be subscribed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The server has confirmed it, and nothing was lost since.
    Live,
    /// The server has refused it, in these words.
    Denied(String),
    /// There will be no subscriptions any more.
    Closed,
}

#[derive(Default)]
struct Known {
    live: HashMap<Arc<str>, ()>,
    denied: HashMap<Arc<str>, (String, Instant)>,
    closed: bool,
}

impl Channels {
    pub(super) fn new(hub: WakeupHub) -> Self {
        Self { hub, known: Mutex::default(), changes: watch::Sender::new(0) }
    }

    pub(super) const fn hub(&self) -> &WakeupHub {
        &self.hub
    }

    /// Waits until it is known how a channel stands. If it is live, its waiters are.
    pub(super) async fn decided(&self, channel: &str) -> Standing {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(standing) = self.standing(channel) {
                return standing;
            }
            // Never fails, for `self` has the sender.
            let _ = changes.changed().await;
        }
    }

    fn standing(&self, channel: &str) -> Option<Standing> {
        let known = self.known();
        if known.closed {
            return Some(Standing::Closed);
        }
        if known.live.contains_key(channel) {
            // Under the lock, so that it cannot come after a loss.
            self.hub.set_live(channel, true);
            return Some(Standing::Live);
        }
        known.denial(channel).map(Standing::Denied)
    }

    /// The channels that have waiters, are not live and may be asked for.
    pub(super) fn missing(&self) -> Vec<Arc<str>> {
        let wanted = self.hub.channels();
        let known = self.known();
        let is_missing = |c: &Arc<str>| !known.live.contains_key(c) && known.denial(c).is_none();
        wanted.into_iter().filter(is_missing).collect()
    }

    /// The live channels without waiters.
    pub(super) fn idle(&self) -> Vec<Arc<str>> {
        let known = self.known();
        known.live.keys().filter(|channel| !self.hub.has_waiters(channel)).cloned().collect()
    }

    pub(super) fn has_live(&self) -> bool {
        !self.known().live.is_empty()
    }

    /// The server has confirmed these.
    pub(super) fn set_live(&self, channels: &[Arc<str>]) {
        self.change(|known| {
            for channel in channels {
                known.live.insert(Arc::clone(channel), ());
                self.hub.set_live(channel, true);
            }
        });
    }

    /// The server has refused this one.
    pub(super) fn set_denied(&self, channel: &Arc<str>, text: String) {
        self.change(|known| {
            known.denied.retain(|_, (_, until)| Instant::now() < *until);
            known.denied.insert(Arc::clone(channel), (text, Instant::now() + DENIAL_MEMORY));
        });
    }

    /// Forgets a channel that still has no waiters. `false` if it has some again.
    pub(super) fn remove_idle(&self, channel: &str) -> bool {
        let mut known = self.known();
        !self.hub.has_waiters(channel) && known.live.remove(channel).is_some()
    }

    /// The connection is gone, and all subscriptions with it.
    pub(super) fn set_all_dead(&self) {
        let mut known = self.known();
        known.live.clear();
        self.hub.set_all_dead();
    }

    /// There will be no messages any more.
    pub(super) fn close(&self) {
        self.set_all_dead();
        self.change(|known| known.closed = true);
        self.hub.wake_all();
    }

    fn change(&self, act: impl FnOnce(&mut Known)) {
        act(&mut self.known());
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn denial(&self, channel: &str) -> Option<String> {
        let (text, until) = self.denied.get(channel)?;
        (Instant::now() < *until).then(|| text.clone())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn channels() -> (Channels, Arc<str>) {
        (Channels::new(WakeupHub::new()), Arc::from("x"))
    }

    #[test]
    fn a_waiter_that_joins_a_live_channel_is_live_at_once() {
        let (channels, x) = channels();
        let first = channels.hub().register(&x);
        assert_eq!(channels.missing(), [Arc::clone(&x)]);
        assert_eq!(channels.decided(&x).now_or_never(), None);
        channels.set_live(&[Arc::clone(&x)]);
        let second = channels.hub().register(&x);
        assert!(first.is_live() && !second.is_live());
        assert_eq!(channels.decided(&x).now_or_never(), Some(Standing::Live));
        assert!(second.is_live() && channels.missing().is_empty());
    }

    #[test]
    fn after_a_loss_nothing_is_live_and_all_is_missing() {
        let (channels, x) = channels();
        let waiter = channels.hub().register(&x);
        channels.set_live(&[Arc::clone(&x)]);
        channels.set_all_dead();
        assert!(!waiter.is_live());
        assert_eq!(channels.decided(&x).now_or_never(), None);
        assert_eq!(channels.missing(), [x]);
    }

    #[test]
    fn only_a_channel_without_waiters_is_removed() {
        let (channels, x) = channels();
        let waiter = channels.hub().register(&x);
        channels.set_live(&[Arc::clone(&x)]);
        assert!(channels.idle().is_empty() && !channels.remove_idle(&x));
        drop(waiter);
        assert_eq!(channels.idle(), [Arc::clone(&x)]);
        assert!(channels.remove_idle(&x) && !channels.has_live());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_remembered_for_a_while() {
        let (channels, x) = channels();
        let _waiter = channels.hub().register(&x);
        channels.set_denied(&x, "NOPERM".to_owned());
        assert_eq!(channels.decided(&x).await, Standing::Denied("NOPERM".to_owned()));
        assert!(channels.missing().is_empty());
        tokio::time::advance(DENIAL_MEMORY).await;
        assert_eq!(channels.decided(&x).now_or_never(), None);
        assert_eq!(channels.missing(), [x]);
    }

    #[test]
    fn the_end_wakes_everybody() {
        let (channels, x) = channels();
        let waiter = channels.hub().register(&x);
        channels.close();
        assert!(waiter.notified().now_or_never().is_some());
        assert_eq!(channels.decided(&x).now_or_never(), Some(Standing::Closed));
    }
}
