use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{self, Instant};

use super::{
    Context,
    completing::Completing,
    queue::{Outlook, Ticket},
};
use crate::{
    backend::{BackendError, Topic},
    error::{Error, LossReason, Result},
};

/// First pause after a failed attempt; doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(10);
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// What the wait loop asks of a primitive: one acquisition that is being tried.
pub(crate) trait Source: Send + 'static {
    /// What a successful attempt yields. Dropping it gives it back.
    type Grant: Send + 'static;

    /// Names the operation in errors.
    const OPERATION: &'static str;

    /// The object, and where its releases are signalled.
    fn topic(&self) -> Topic;

    /// How many permits make an attempt worth while. A lock has none to count.
    fn permits(&self) -> i64;

    /// Longest sleep without an attempt, given how many in a row were in vain.
    fn poll_interval(&self, idle: u32) -> Duration;

    /// Tries once.
    fn attempt(&mut self) -> impl Future<Output = Result<Tried<Self::Grant>, BackendError>> + Send;
}

/// The outcome of one attempt.
pub(crate) enum Tried<G> {
    /// It is ours.
    Granted {
        grant: G,
        /// How long the next one in the row has nothing to gain, unless a signal comes.
        busy_for: Duration,
        /// Permits that are left.
        available: i64,
    },
    /// Somebody else has it.
    Busy {
        /// When it ends by itself.
        busy_for: Option<Duration>,
        /// Permits that are there.
        available: i64,
    },
    /// The reply came so late that the lease had ended; it is being given back.
    Stale,
}

/// Tries to acquire, for at most `wait`; zero is one try. Cancel safe: see [`Completing`].
pub(crate) async fn acquire<S: Source>(
    context: &Arc<Context>,
    source: S,
    wait: Duration,
) -> Result<Option<S::Grant>> {
    let topic = source.topic();
    context.check(topic.name())?;
    if wait.is_zero() {
        return once(context, source).await;
    }
    // A wait beyond what the clock can count has no end.
    let deadline = Instant::now().checked_add(wait);
    let ticket = context.queues.enter(topic);
    let waiter = Waiter { context, deadline, idle: 0, backoff: MIN_BACKOFF, stale_since: None };
    tokio::select! {
        biased;
        () = ticket.turn() => waiter.run(source, ticket).await,
        () = context.closed.cancelled() => Err(Error::Closed),
        () = sleep_until(deadline) => waiter.give_up::<S>(&ticket),
    }
}

async fn once<S: Source>(context: &Arc<Context>, mut source: S) -> Result<Option<S::Grant>> {
    let name = source.topic().name().clone();
    let attempt = async move { (source.attempt().await, source) };
    match Completing::new(context, attempt).await.0 {
        Ok(Tried::Granted { grant, .. }) => Ok(Some(grant)),
        Ok(Tried::Busy { .. }) => Ok(None),
        Ok(Tried::Stale) => Err(Error::LeaseLost { name, reason: LossReason::Expired }),
        Err(error) => Err(Error::of(S::OPERATION, &name, error)),
    }
}

/// One call that waits.
struct Waiter<'a> {
    context: &'a Arc<Context>,
    deadline: Option<Instant>,
    idle: u32,
    backoff: Duration,
    /// Since when every grant came too late to be one.
    stale_since: Option<Instant>,
}

impl Waiter<'_> {
    /// The loop of the head of a row.
    async fn run<S: Source>(
        mut self,
        mut source: S,
        mut ticket: Ticket,
    ) -> Result<Option<S::Grant>> {
        loop {
            let outlook = ticket.outlook();
            if outlook.available >= source.permits() || outlook.not_before <= Instant::now() {
                let tried;
                (tried, source, ticket) = self.attempt(source, ticket).await;
                match tried {
                    Ok(Some(grant)) => return Ok(Some(grant)),
                    Ok(None) => {}
                    Err(error) => return Err(error),
                }
                if ticket.failure().is_some() {
                    if self.past_deadline() {
                        return self.give_up::<S>(&ticket);
                    }
                    continue;
                }
            }
            if self.past_deadline() {
                return self.give_up::<S>(&ticket);
            }
            if ticket.wakeup().is_none() && self.subscribe(&source, &ticket).await? {
                continue;
            }
            self.sleep(&ticket).await?;
        }
    }

    /// One attempt and what follows from it for the row. `Ok(None)`: not now, or failed in a way
    /// that the row rides out.
    async fn attempt<S: Source>(
        &mut self,
        source: S,
        ticket: Ticket,
    ) -> (Result<Option<S::Grant>>, S, Ticket) {
        // Should this call be dropped, the next head has to try: a signal was used up for this.
        ticket.set_outlook(Outlook { not_before: Instant::now(), available: 0 });
        let request = async move {
            let mut source = source;
            (source.attempt().await, source, ticket)
        };
        let (tried, source, ticket) = Completing::new(self.context, request).await;
        let now = Instant::now();
        let result = match tried {
            Ok(Tried::Granted { grant, busy_for, available }) => {
                ticket.succeeded();
                let busy_for =
                    busy_for.min(self.context.jittered(self.context.config.poll_interval));
                ticket.set_outlook(Outlook { not_before: now + busy_for, available });
                Ok(Some(grant))
            }
            Ok(Tried::Busy { busy_for, available }) => {
                ticket.succeeded();
                self.stale_since = None;
                self.backoff = MIN_BACKOFF;
                let poll = self.context.jittered(source.poll_interval(self.idle));
                // A lease is over a millisecond after its last one.
                let busy_for =
                    busy_for.map_or(poll, |left| poll.min(left + Duration::from_millis(1)));
                ticket.set_outlook(Outlook { not_before: now + busy_for, available });
                Ok(None)
            }
            Ok(Tried::Stale) => {
                let since = *self.stale_since.get_or_insert(now);
                // A lease shorter than the way to the backend never works.
                if self.past_deadline() || since + self.context.config.patience <= now {
                    let name = source.topic().name().clone();
                    Err(Error::LeaseLost { name, reason: LossReason::Expired })
                } else {
                    Ok(None)
                }
            }
            Err(error) => self.ride_out::<S>(error, &ticket).await.map(|()| None),
        };
        (result, source, ticket)
    }

    /// After a failed attempt: pauses, unless this has to be reported.
    async fn ride_out<S: Source>(&mut self, error: BackendError, ticket: &Ticket) -> Result<()> {
        let since = ticket.failed(error.clone());
        let patient = since + self.context.config.patience > Instant::now();
        if !error.is_transient() || !patient {
            return Err(Error::of(S::OPERATION, ticket.name(), error));
        }
        let pause = self.context.jittered(self.backoff);
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        tokio::select! {
            biased;
            () = self.context.closed.cancelled() => Err(Error::Closed),
            () = sleep_until(self.deadline) => Ok(()),
            () = time::sleep(pause) => Ok(()),
        }
    }

    /// Subscribes; `true` if an attempt has to follow, since a release may have come in between.
    /// When it fails the row polls.
    async fn subscribe<S: Source>(&self, source: &S, ticket: &Ticket) -> Result<bool> {
        let topic = source.topic();
        let subscribed = tokio::select! {
            biased;
            () = self.context.closed.cancelled() => return Err(Error::Closed),
            subscribed = self.context.backend.subscribe(&topic) => subscribed,
            () = sleep_until(self.deadline) => return Ok(false),
        };
        match subscribed {
            Ok(wakeup) => {
                ticket.set_wakeup(wakeup);
                ticket.set_outlook(Outlook { not_before: Instant::now(), available: 0 });
                Ok(true)
            }
            Err(error) => {
                tracing::debug!(name = ?topic.name(), %error, "no subscription; polling");
                Ok(false)
            }
        }
    }

    /// Sleeps until an attempt is worth while, or the wait is over.
    async fn sleep(&mut self, ticket: &Ticket) -> Result<()> {
        let outlook = ticket.outlook();
        let wakeup = ticket.wakeup();
        let signalled = async {
            match &wakeup {
                Some(wakeup) => wakeup.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.context.closed.cancelled() => return Err(Error::Closed),
            () = signalled => self.idle = 0,
            () = ticket.released() => self.idle = 0,
            () = sleep_until(self.deadline) => return Ok(()),
            () = time::sleep_until(outlook.not_before) => self.idle = self.idle.saturating_add(1),
        }
        ticket.set_outlook(Outlook { not_before: Instant::now(), available: 0 });
        Ok(())
    }

    fn past_deadline(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The wait is over: "not now", or why nobody in this row could find out.
    fn give_up<S: Source>(&self, ticket: &Ticket) -> Result<Option<S::Grant>> {
        match ticket.failure() {
            Some(error) => Err(Error::of(S::OPERATION, ticket.name(), error)),
            None => Ok(None),
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
