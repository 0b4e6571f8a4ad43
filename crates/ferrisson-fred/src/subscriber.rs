//! Subscriptions, on a client of their own: a SUBSCRIBE that the server rejects shifts all later
//! replies of its connection by one.

mod channel;
mod session;
mod task;

use std::{fmt, sync::Arc, time::Duration};

use ferrisson_core::{
    Outcome, Refusal,
    backend::{BackendError, Failure, Wakeup, WakeupHub},
};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use self::{
    channel::{Channels, Standing},
    task::Task,
};
use crate::{link::Link, outcome};

/// Brings messages of channels to their waiters.
pub(crate) struct Subscriber {
    link: Arc<Link>,
    channels: Arc<Channels>,
    limit: Duration,
}

impl Subscriber {
    /// Starts the task that keeps the subscriptions. It ends with the link.
    pub(crate) fn start(link: Arc<Link>, tasks: &TaskTracker) -> Self {
        let channels = Arc::new(Channels::new(WakeupHub::new()));
        tasks.spawn(Task::run(Arc::clone(&link), Arc::clone(&channels)));
        let limit = link.plan().timeouts().command;
        Self { link, channels, limit }
    }

    pub(crate) const fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Registers a waiter, and waits until the server has confirmed its channel.
    ///
    /// Dropping the future drops the waiter, and with the last one the subscription.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<Wakeup, BackendError> {
        let wakeup = self.channels.hub().register(channel);
        match timeout(self.limit, self.channels.decided(channel)).await {
            Ok(Standing::Live) => Ok(wakeup),
            Ok(Standing::Denied(text)) => Err(denied(text)),
            Ok(Standing::Closed) => Err(BackendError::new(Failure::Closed, "closed")),
            Err(_) => Err(self.unconfirmed()),
        }
    }

    fn unconfirmed(&self) -> BackendError {
        let failure = Failure::Unavailable(Outcome::NotExecuted);
        match self.link.trouble() {
            None => BackendError::new(failure, NotSubscribed("no confirmation in time".into())),
            Some(trouble) if outcome::is_authentication(&trouble) => {
                let text = trouble.details().to_owned();
                BackendError::new(Failure::Refused(Refusal::Authentication), NotSubscribed(text))
            }
            Some(trouble) => BackendError::new(failure, NotSubscribed(trouble.to_string())),
        }
    }
}

fn denied(text: String) -> BackendError {
    let refusal = if text.starts_with("NOPERM") { Refusal::NotPermitted } else { Refusal::Other };
    BackendError::new(Failure::Refused(refusal), NotSubscribed(text))
}

#[derive(Debug)]
struct NotSubscribed(String);

impl fmt::Display for NotSubscribed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not subscribed: {}", self.0)
    }
}

impl std::error::Error for NotSubscribed {}
