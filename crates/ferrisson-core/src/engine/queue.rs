use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    backend::{BackendError, Topic, Wakeup},
    name::Name,
};

/// The rows of waiting tasks, one for each object that somebody in this client waits for.
///
/// Only the head of a row talks to the backend, so an object has at most one attempt and one
/// subscription per client, however many tasks wait. A row lives as long as somebody is in it.
#[derive(Debug, Default)]
pub(crate) struct Queues(Arc<Mutex<HashMap<Topic, Arc<Queue>>>>);

#[derive(Debug)]
struct Queue {
    row: Mutex<Row>,
    /// Wakes the head after a release in this process.
    released: Notify,
}

#[derive(Debug)]
struct Row {
    places: VecDeque<Arc<Notify>>,
    outlook: Outlook,
    wakeup: Option<Arc<Wakeup>>,
    failure: Option<(Instant, BackendError)>,
}

/// What the last attempt told about the next one. Passed on from head to head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    /// Before this time only a signal, or enough permits, make an attempt worth while.
    pub(crate) not_before: Instant,
    /// Permits that were left.
    pub(crate) available: i64,
}

/// A place in the row. Dropping it leaves the row and lets the next one in.
#[derive(Debug)]
pub(crate) struct Ticket {
    queues: Arc<Mutex<HashMap<Topic, Arc<Queue>>>>,
    topic: Topic,
    queue: Arc<Queue>,
    place: Arc<Notify>,
}

impl Queues {
    /// Joins the row at its end.
    pub(crate) fn enter(&self, topic: Topic) -> Ticket {
        let place = Arc::new(Notify::new());
        let mut queues = lock(&self.0);
        let queue = match queues.entry(topic.clone()) {
            Entry::Occupied(entry) => Arc::clone(entry.get()),
            Entry::Vacant(entry) => Arc::clone(entry.insert(Arc::new(Queue::new()))),
        };
        // Joined under the lock of the map, so that the row cannot be removed in between.
        lock(&queue.row).places.push_back(Arc::clone(&place));
        drop(queues);
        Ticket { queues: Arc::clone(&self.0), topic, queue, place }
    }

    /// Something was released by this client: wakes the head of the row, unless a live
    /// subscription brings the same news anyway. So every release gives one signal.
    pub(crate) fn released(&self, topic: &Topic) {
        let Some(queue) = lock(&self.0).get(topic).cloned() else { return };
        let live = lock(&queue.row).wakeup.as_ref().is_some_and(|wakeup| wakeup.is_live());
        if !live {
            queue.released.notify_one();
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl Queue {
    fn new() -> Self {
        let outlook = Outlook { not_before: Instant::now(), available: 0 };
        let places = VecDeque::with_capacity(1);
        Self {
            row: Mutex::new(Row { places, outlook, wakeup: None, failure: None }),
            released: Notify::new(),
        }
    }
}

impl Ticket {
    /// Waits until this place is the head of the row. Cancel safe.
    pub(crate) async fn turn(&self) {
        while !self.is_head() {
            self.place.notified().await;
        }
    }

    pub(crate) fn name(&self) -> &Name {
        self.topic.name()
    }

    fn is_head(&self) -> bool {
        lock(&self.queue.row).places.front().is_some_and(|head| Arc::ptr_eq(head, &self.place))
    }

    pub(crate) fn outlook(&self) -> Outlook {
        lock(&self.queue.row).outlook
    }

    pub(crate) fn set_outlook(&self, outlook: Outlook) {
        lock(&self.queue.row).outlook = outlook;
    }

    pub(crate) fn wakeup(&self) -> Option<Arc<Wakeup>> {
        lock(&self.queue.row).wakeup.clone()
    }

    pub(crate) fn set_wakeup(&self, wakeup: Wakeup) {
        lock(&self.queue.row).wakeup = Some(Arc::new(wakeup));
    }

    /// Notes a failed attempt; answers since when attempts of this row have failed.
    pub(crate) fn failed(&self, error: BackendError) -> Instant {
        let mut row = lock(&self.queue.row);
        let since = row.failure.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        row.failure = Some((since, error));
        since
    }

    pub(crate) fn succeeded(&self) {
        lock(&self.queue.row).failure = None;
    }

    /// The failure of the last attempt of this row, if it failed.
    pub(crate) fn failure(&self) -> Option<BackendError> {
        lock(&self.queue.row).failure.as_ref().map(|(_, error)| error.clone())
    }

    /// Waits for a release within this process. Cancel safe.
    pub(crate) async fn released(&self) {
        self.queue.released.notified().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queues = lock(&self.queues);
        let mut row = lock(&self.queue.row);
        let was_head = row.places.front().is_some_and(|head| Arc::ptr_eq(head, &self.place));
        row.places.retain(|place| !Arc::ptr_eq(place, &self.place));
        match row.places.front() {
            Some(next) if was_head => next.notify_one(),
            Some(_) => {}
            None => {
                queues.remove(&self.topic);
                let wakeup = row.wakeup.take();
                drop((row, queues));
                // Ends the subscription: the backend's business, not under our locks.
                drop(wakeup);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::backend::{LockKind, WakeupHub};

    fn topic() -> Topic {
        Topic::lock(LockKind::Reentrant, "x".into())
    }

    #[test]
    fn the_row_is_first_in_first_out_and_leaves_nothing() {
        let queues = Queues::default();
        let (a, b, c) = (queues.enter(topic()), queues.enter(topic()), queues.enter(topic()));
        assert!(a.turn().now_or_never().is_some());
        assert!(b.turn().now_or_never().is_none());
        drop(b);
        assert!(c.turn().now_or_never().is_none());
        drop(a);
        assert!(c.turn().now_or_never().is_some());
        drop(c);
        assert_eq!(queues.len(), 0);
    }

    #[test]
    fn a_release_wakes_the_head_once_unless_a_message_will() {
        let hub = WakeupHub::new();
        let queues = Queues::default();
        let ticket = queues.enter(topic());
        queues.released(&topic());
        assert!(ticket.released().now_or_never().is_some());

        ticket.set_wakeup(hub.register("x"));
        hub.set_live("x", true);
        queues.released(&topic());
        assert!(ticket.released().now_or_never().is_none());

        hub.set_all_dead();
        queues.released(&topic());
        assert!(ticket.released().now_or_never().is_some());
    }

    #[test]
    fn the_last_one_out_ends_the_subscription() {
        let hub = WakeupHub::new();
        let queues = Queues::default();
        let (a, b) = (queues.enter(topic()), queues.enter(topic()));
        a.set_wakeup(hub.register("x"));
        drop(a);
        assert!(hub.has_waiters("x"));
        drop(b);
        assert!(!hub.has_waiters("x"));
    }
}
