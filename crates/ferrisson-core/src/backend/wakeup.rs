use std::{
    collections::HashMap,
    fmt::{self, Debug},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{BackendError, LockKey, LockKind};
use crate::name::Name;

/// Brings releases to waiters. Signals only make waiting faster: the engine stays correct when
/// every one of them is lost.
#[async_trait]
pub trait NotifyBackend: Debug + Send + Sync + 'static {
    /// Subscribes to the releases of an object. See the [contract](super).
    ///
    /// Dropping this future, or the [`Wakeup`], ends the subscription when nobody else needs it.
    async fn subscribe(&self, topic: &Topic) -> Result<Wakeup, BackendError>;
}

/// An object whose releases can be waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Topic {
    /// A lock.
    Lock(LockKey),
    /// A semaphore.
    Semaphore(Name),
}

impl Topic {
    /// The topic of a lock.
    #[must_use]
    pub fn lock(kind: LockKind, name: Name) -> Self {
        Self::Lock(LockKey { kind, name })
    }

    /// The name of the object.
    #[must_use]
    pub const fn name(&self) -> &Name {
        match self {
            Self::Lock(key) => &key.name,
            Self::Semaphore(name) => name,
        }
    }
}

/// One waiter's subscription. A signal that comes before [`notified`](Self::notified) is awaited
/// is kept; several are one.
pub struct Wakeup {
    waiter: Arc<Waiter>,
    hub: WakeupHub,
}

struct Waiter {
    channel: Arc<str>,
    id: u64,
    signal: Notify,
    live: AtomicBool,
}

impl Wakeup {
    /// Waits for the next signal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal is consumed only if this returns.
    pub async fn notified(&self) {
        self.waiter.signal.notified().await;
    }

    /// Whether signals are sure to arrive: the subscription is confirmed and not broken since.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.waiter.live.load(Ordering::Acquire)
    }
}

impl Debug for Wakeup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeup")
            .field("channel", &self.waiter.channel)
            .field("live", &self.is_live())
            .finish()
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        self.hub.remove(&self.waiter);
    }
}

/// The registry of waiters that a backend delivers its signals to: channel → waiters.
///
/// Cheap to clone; clones are the same hub. The set of channels with waiters is what a backend
/// has to be subscribed to ([`channels`](Self::channels)); [`changed`](Self::changed) tells when
/// it has grown or shrunk.
#[derive(Clone, Default)]
pub struct WakeupHub(Arc<Inner>);

#[derive(Default)]
struct Inner {
    channels: Mutex<HashMap<Arc<str>, Vec<Weak<Waiter>>>>,
    next_id: AtomicU64,
    changed: Notify,
}

impl WakeupHub {
    /// An empty hub.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a waiter. It is not live until [`set_live`](Self::set_live).
    #[must_use]
    pub fn register(&self, channel: &str) -> Wakeup {
        let mut channels = self.channels_locked();
        let (channel, waiters) = match channels.get_key_value(channel) {
            Some((channel, _)) => {
                let channel = Arc::clone(channel);
                let waiters = channels.get_mut(&channel).expect("the key was just found");
                (channel, waiters)
            }
            None => {
                self.0.changed.notify_one();
                let channel: Arc<str> = channel.into();
                (Arc::clone(&channel), channels.entry(channel).or_default())
            }
        };
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let waiter =
            Arc::new(Waiter { channel, id, signal: Notify::new(), live: AtomicBool::new(false) });
        waiters.push(Arc::downgrade(&waiter));
        Wakeup { waiter, hub: self.clone() }
    }

    /// Signals every waiter of a channel.
    pub fn wake(&self, channel: &str) {
        if let Some(waiters) = self.channels_locked().get(channel) {
            waiters.iter().filter_map(Weak::upgrade).for_each(|waiter| waiter.signal.notify_one());
        }
    }

    /// Signals every waiter: something may have been missed.
    pub fn wake_all(&self) {
        self.each(|waiter| waiter.signal.notify_one());
    }

    /// Says whether signals of this channel are sure to arrive from now on.
    pub fn set_live(&self, channel: &str, live: bool) {
        if let Some(waiters) = self.channels_locked().get(channel) {
            let waiters = waiters.iter().filter_map(Weak::upgrade);
            waiters.for_each(|waiter| waiter.live.store(live, Ordering::Release));
        }
    }

    /// The connection is gone: no channel is live.
    pub fn set_all_dead(&self) {
        self.each(|waiter| waiter.live.store(false, Ordering::Release));
    }

    /// The channels that have waiters.
    #[must_use]
    pub fn channels(&self) -> Vec<Arc<str>> {
        self.channels_locked().keys().cloned().collect()
    }

    /// Whether a channel has waiters.
    #[must_use]
    pub fn has_waiters(&self, channel: &str) -> bool {
        self.channels_locked().contains_key(channel)
    }

    /// Waits until a channel got its first or lost its last waiter. For one task; a change that
    /// happens while nobody waits is kept.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    fn each(&self, act: impl Fn(&Waiter)) {
        let channels = self.channels_locked();
        channels.values().flatten().filter_map(Weak::upgrade).for_each(|waiter| act(&waiter));
    }

    fn remove(&self, waiter: &Waiter) {
        let mut channels = self.channels_locked();
        let Some(waiters) = channels.get_mut(&waiter.channel) else { return };
        waiters.retain(|other| other.upgrade().is_some_and(|other| other.id != waiter.id));
        if waiters.is_empty() {
            channels.remove(&waiter.channel);
            self.0.changed.notify_one();
        }
    }

    fn channels_locked(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<Weak<Waiter>>>> {
        self.0.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for WakeupHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeupHub").field("channels", &self.channels().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use futures::FutureExt;

    use super::*;

    fn is_woken(wakeup: &Wakeup) -> bool {
        wakeup.notified().now_or_never().is_some()
    }

    #[test]
    fn a_signal_reaches_every_waiter_of_its_channel_once() {
        let hub = WakeupHub::new();
        let (a, b, other) = (hub.register("x"), hub.register("x"), hub.register("y"));
        hub.wake("x");
        hub.wake("x");
        assert!(is_woken(&a) && is_woken(&b) && !is_woken(&other));
        assert!(!is_woken(&a));
        hub.wake_all();
        assert!(is_woken(&a) && is_woken(&other));
    }

    #[test]
    fn the_last_waiter_takes_the_channel_with_it() {
        let hub = WakeupHub::new();
        let (a, b) = (hub.register("x"), hub.register("x"));
        drop(a);
        assert!(hub.has_waiters("x"));
        drop(b);
        assert!(hub.channels().is_empty());
        assert!(hub.changed().now_or_never().is_some());
    }

    #[test]
    fn live_is_said_for_those_who_are_there() {
        let hub = WakeupHub::new();
        let a = hub.register("x");
        hub.set_live("x", true);
        assert!(a.is_live());
        assert!(!hub.register("x").is_live());
        hub.set_all_dead();
        assert!(!a.is_live());
    }

    #[test]
    fn a_dropped_notified_keeps_the_signal() {
        let hub = WakeupHub::new();
        let a = hub.register("x");
        let mut pending = Box::pin(a.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(pending.as_mut().poll(&mut context).is_pending());
        hub.wake("x");
        drop(pending);
        assert!(is_woken(&a));
    }
}
