use std::{sync::Arc, time::Duration};

use ferrisson_protocol::{CallError, Command, Reply};
use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Resp3Frame, Value},
    util::redis_keyslot,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    config::{self, Plan},
    link::Link,
    outcome::{self, NotSent},
};

/// What a command may take beyond fred's own limit before it is given up.
const OUTER_SLACK: Duration = Duration::from_millis(100);
const FIRST_REDIRECT_PAUSE: Duration = Duration::from_millis(2);
const LAST_REDIRECT_PAUSE: Duration = Duration::from_millis(50);

/// One connection for commands. Commands of the same key go through the same lane, so they stay in
/// order.
pub(crate) struct Lane {
    link: Arc<Link>,
}

impl Lane {
    pub(crate) const fn new(link: Arc<Link>) -> Self {
        Self { link }
    }

    pub(crate) const fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Sends a command once. Only one that a cluster has redirected, and thus not executed, is
    /// sent again, until the time is over.
    pub(crate) async fn call(&self, command: &Command) -> Result<Reply, CallError> {
        let limit = self.link.plan().timeouts().command;
        let deadline = Instant::now() + limit;
        // With little time left the outcome of another try could become unknown.
        let last_start = deadline - limit / 4;
        let slot = redis_keyslot(&command.key);
        let mut pause = FIRST_REDIRECT_PAUSE;
        loop {
            let client = self.link.client().ok_or(CallError::Closed)?;
            let left = deadline.saturating_duration_since(Instant::now());
            match send(&client, command, slot, left).await {
                Ok(frame) => {
                    self.link.health().answered(|| config::slot_owner(&client, slot));
                    return self.answer(frame);
                }
                Err(error)
                    if outcome::is_redirection(&error) && Instant::now() + pause < last_start =>
                {
                    sleep(pause).await;
                    pause = (pause * 2).min(LAST_REDIRECT_PAUSE);
                }
                Err(error) => return Err(self.failure(error, &client, slot)),
            }
        }
    }

    fn answer(&self, frame: Resp3Frame) -> Result<Reply, CallError> {
        let reply = outcome::reply(frame);
        if let Err(CallError::Server { text }) = &reply
            && ["READONLY", "MASTERDOWN"].iter().any(|word| text.starts_with(word))
        {
            // No longer the primary: another is, at the same address or where sentinels say.
            self.link.order_reconnect();
        }
        reply
    }

    fn failure(&self, error: Error, client: &Client, slot: u16) -> CallError {
        if *error.kind() == ErrorKind::Timeout && client.is_connected() {
            self.link.unanswered(config::slot_owner(client, slot));
        }
        if !outcome::is_not_connected(&error) {
            return outcome::failure(error);
        }
        match self.link.trouble() {
            Some(trouble) if outcome::is_authentication(&trouble) => {
                CallError::Server { text: trouble.details().to_owned() }
            }
            trouble => {
                let reason = trouble.unwrap_or(error).to_string();
                CallError::NotExecuted(Box::new(NotSent::NotConnected(reason)))
            }
        }
    }
}

async fn send(
    client: &Client,
    command: &Command,
    slot: u16,
    limit: Duration,
) -> Result<Resp3Frame, Error> {
    let options = Plan::options(limit, true);
    let args = command.args.iter().cloned().map(Value::Bytes).collect();
    let command = CustomCommand::new_static(command.name, ClusterHash::Custom(slot), false);
    let client = client.with_options(&options);
    match timeout(limit + OUTER_SLACK, client.custom_raw::<Value>(command, args)).await {
        Ok(result) => result,
        Err(_) => Err(Error::new(ErrorKind::Timeout, "no answer of the client in time")),
    }
}
