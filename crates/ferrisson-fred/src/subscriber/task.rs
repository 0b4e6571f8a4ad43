use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use fred::clients::Client;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    channel::Channels,
    session::{Fence, Session},
};
use crate::link::{Link, Running};

/// How long a channel without waiters stays subscribed. A contended lock loses its last waiter and
/// gets a new one all the time.
const LINGER: Duration = Duration::from_millis(100);
/// A connection that was quiet for so long is asked whether it is alive.
const QUIET: Duration = Duration::from_millis(500);
const PING_LIMIT: Duration = Duration::from_millis(400);
/// Between tries while there is no connection or no answer.
const RETRY: Duration = Duration::from_millis(20);
/// Unanswered fences in a row after which the connection is left.
const MISSES: u32 = 2;

/// Keeps what is subscribed in line with what is waited for.
pub(super) struct Task {
    link: Arc<Link>,
    clients: watch::Receiver<Option<Client>>,
    channels: Arc<Channels>,
    session: Session,
    /// When channels without waiters are to be left.
    lingering: HashMap<Arc<str>, Instant>,
    /// Channels of a batch that was refused: one of them at least is not permitted.
    suspects: HashSet<Arc<str>>,
    /// Messages may have been missed since the waiters were last woken.
    gap: bool,
    misses: u32,
    heard: Instant,
    /// The channels of the last try are still missing.
    retry: bool,
}

impl Task {
    /// Runs until the link ends.
    pub(super) async fn run(link: Arc<Link>, channels: Arc<Channels>) {
        let mut clients = link.clients();
        let client = clients.borrow_and_update().clone();
        if let Some(client) = client {
            let mut task = Self {
                session: Session::new(client, channels.hub().clone()),
                link,
                clients,
                channels: Arc::clone(&channels),
                lingering: HashMap::new(),
                suspects: HashSet::new(),
                gap: false,
                misses: 0,
                heard: Instant::now(),
                retry: false,
            };
            while task.step().await {}
        }
        channels.close();
    }

    /// Puts things in line, then waits for the next change. `false` at the end.
    async fn step(&mut self) -> bool {
        let mut clients = self.clients.clone();
        let work = async {
            self.reconcile().await;
            let due = self.due();
            let hub = self.channels.hub().clone();
            tokio::select! {
                () = hub.changed() => false,
                open = self.session.disturbed() => open,
                () = sleep_until(due) => false,
            }
        };
        tokio::select! {
            disturbed = work => {
                if disturbed {
                    self.lose_all();
                }
                true
            }
            changed = clients.changed() => changed.is_ok() && self.take_client(),
        }
    }

    /// Goes on with the new client of the link.
    fn take_client(&mut self) -> bool {
        let Some(client) = self.clients.borrow_and_update().clone() else { return false };
        self.lose_all();
        self.session = Session::new(client, self.channels.hub().clone());
        self.misses = 0;
        true
    }

    fn lose_all(&mut self) {
        // Those who are not live yet look again anyway once they are.
        self.gap |= self.channels.has_live();
        self.channels.set_all_dead();
        self.lingering.clear();
    }

    async fn reconcile(&mut self) {
        self.retry = false;
        self.leave_idle().await;
        let missing = self.channels.missing();
        if !self.session.is_connected() {
            self.retry = !missing.is_empty();
            return;
        }
        self.try_suspects(&missing).await;
        let missing: Vec<_> =
            missing.into_iter().filter(|channel| !self.suspects.contains(channel)).collect();
        if !missing.is_empty() {
            self.subscribe(&missing).await;
        } else if self.channels.has_live() && self.heard.elapsed() >= QUIET {
            let fence = self.session.fence(PING_LIMIT).await;
            self.judge(&fence);
        }
        if self.gap && !self.retry {
            self.gap = false;
            self.channels.hub().wake_all();
        }
    }

    async fn subscribe(&mut self, missing: &[Arc<str>]) {
        let limit = self.link.plan().timeouts().command / 2;
        let fence = self.session.subscribe(missing, limit).await;
        match &fence {
            Fence::Passed => self.channels.set_live(missing),
            Fence::Refused(text) => {
                tracing::debug!(%text, "a subscription was refused");
                self.suspects.extend(missing.iter().cloned());
                self.retry = true;
            }
            Fence::Failed => self.retry = true,
        }
        self.judge(&fence);
    }

    /// Finds out which of the suspects are refused, each on a connection that nobody else uses.
    async fn try_suspects(&mut self, missing: &[Arc<str>]) {
        self.suspects.retain(|channel| missing.contains(channel));
        for channel in self.suspects.clone() {
            match self.try_alone(&channel).await {
                Fence::Passed => {
                    self.suspects.remove(&channel);
                }
                Fence::Refused(text) => {
                    self.suspects.remove(&channel);
                    tracing::warn!(%channel, %text, "the server refuses a subscription");
                    self.channels.set_denied(&channel, text);
                }
                Fence::Failed => self.retry = true,
            }
        }
    }

    async fn try_alone(&self, channel: &Arc<str>) -> Fence {
        let timeouts = self.link.plan().timeouts();
        let Ok(running) = Running::connect(&self.link.next_plan(0)).await else {
            return Fence::Failed;
        };
        let mut session = Session::new(running.client.clone(), self.channels.hub().clone());
        let fence = session.subscribe(std::slice::from_ref(channel), timeouts.command / 2).await;
        running.end().await;
        fence
    }

    /// What a fence says of the connection.
    fn judge(&mut self, fence: &Fence) {
        match fence {
            Fence::Passed => {
                self.misses = 0;
                self.heard = Instant::now();
            }
            Fence::Refused(_) => {
                self.lose_all();
                self.link.order_rebuild();
            }
            Fence::Failed => {
                self.misses += 1;
                if self.misses >= MISSES {
                    self.misses = 0;
                    self.link.order_reconnect();
                }
            }
        }
    }

    /// Ends the subscriptions that nobody has waited for long enough.
    async fn leave_idle(&mut self) {
        let idle = self.channels.idle();
        self.lingering.retain(|channel, _| idle.contains(channel));
        let now = Instant::now();
        for channel in idle {
            self.lingering.entry(channel).or_insert(now + LINGER);
        }
        let due = self.lingering.iter().filter(|(_, due)| **due <= now);
        let due: Vec<_> = due.map(|(channel, _)| Arc::clone(channel)).collect();
        let left: Vec<_> =
            due.into_iter().filter(|channel| self.channels.remove_idle(channel)).collect();
        self.lingering.retain(|_, due| *due > now);
        if left.is_empty() {
            return;
        }
        let limit = self.link.plan().timeouts().command;
        if !self.session.unsubscribe(&left, limit).await && self.session.is_connected() {
            // A connection without subscriptions is the sure way to end them.
            self.link.order_reconnect();
        }
    }

    /// When to look again without a reason from outside.
    fn due(&self) -> Instant {
        let retry = self.retry.then(|| Instant::now() + RETRY);
        let quiet = self.channels.has_live().then(|| self.heard + QUIET);
        let linger = self.lingering.values().min().copied();
        let far = Instant::now() + Duration::from_secs(3600);
        [retry, quiet, linger].into_iter().flatten().min().unwrap_or(far)
    }
}
