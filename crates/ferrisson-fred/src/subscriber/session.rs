use std::{sync::Arc, time::Duration};

use ferrisson_core::backend::WakeupHub;
use ferrisson_protocol::{CallError, Reply};
use fred::{
    clients::Client,
    error::Error,
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{ClusterHash, CustomCommand, Message, config::Server},
};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::task::AbortOnDropHandle;

use crate::{config::Plan, outcome};

/// The life of one client that is used for subscriptions only, by one task.
pub(super) struct Session {
    client: Client,
    reconnects: Receiver<Server>,
    errors: Receiver<(Error, Option<Server>)>,
    fences: u64,
    _pump: AbortOnDropHandle<()>,
}

/// How an attempt to subscribe, or to reach the server at all, ended.
pub(super) enum Fence {
    /// The server has done all that was asked before.
    Passed,
    /// The server has refused something. The replies of this client are shifted from now on.
    Refused(String),
    /// No answer, or one that belongs to something else.
    Failed,
}

impl Session {
    pub(super) fn new(client: Client, hub: WakeupHub) -> Self {
        let pump = tokio::spawn(pump(client.message_rx(), hub));
        Self {
            reconnects: client.reconnect_rx(),
            errors: client.error_rx(),
            client,
            fences: 0,
            _pump: AbortOnDropHandle::new(pump),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Waits for the end or the beginning of a connection. `false`: there will be none.
    pub(super) async fn disturbed(&mut self) -> bool {
        let result = tokio::select! {
            result = self.reconnects.recv() => result.map(drop),
            result = self.errors.recv() => result.map(drop),
        };
        // One loss can be told in several ways; it is the same loss.
        self.reconnects = self.reconnects.resubscribe();
        self.errors = self.errors.resubscribe();
        !matches!(result, Err(RecvError::Closed))
    }

    /// Subscribes to channels, at least one: an empty list is refused. Passed: the server has
    /// confirmed all of them, and the connection is still the same.
    pub(super) async fn subscribe(&mut self, channels: &[Arc<str>], limit: Duration) -> Fence {
        let names: Vec<String> = channels.iter().map(ToString::to_string).collect();
        let client = self.client.with_options(&Plan::options(limit, true));
        #[expect(clippy::disallowed_methods, reason = "the client is for subscriptions only")]
        if client.subscribe(names).await.is_err() {
            return Fence::Failed;
        }
        match self.fence(limit).await {
            // The fence may have gone through another connection than the subscription. fred tells
            // of a new connection before it sends anything through it.
            Fence::Passed if !self.reconnects.is_empty() => Fence::Failed,
            fence => fence,
        }
    }

    /// Whether it was sent.
    pub(super) async fn unsubscribe(&self, channels: &[Arc<str>], limit: Duration) -> bool {
        let names: Vec<String> = channels.iter().map(ToString::to_string).collect();
        let client = self.client.with_options(&Plan::options(limit, true));
        client.unsubscribe(names).await.is_ok()
    }

    /// Waits until the server has done all that was sent before: fred says that a subscription is
    /// done when it is only written.
    pub(super) async fn fence(&mut self, limit: Duration) -> Fence {
        self.fences += 1;
        let token = format!("ferrisson-{}", self.fences);
        let client = self.client.with_options(&Plan::options(limit, true));
        let ping = CustomCommand::new_static("PING", ClusterHash::Random, false);
        let frame = client.custom_raw(ping, vec![token.as_str()]).await;
        match frame.map(outcome::reply) {
            Ok(Ok(reply)) if is_pong(&reply, &token) => Fence::Passed,
            Ok(Err(CallError::Server { text })) => Fence::Refused(text),
            Ok(_) | Err(_) => Fence::Failed,
        }
    }
}

/// With RESP2 and a subscription the answer to PING is a list.
fn is_pong(reply: &Reply, token: &str) -> bool {
    match reply {
        Reply::Bytes(bytes) => *bytes == token,
        Reply::Array(items) => items.last().is_some_and(|last| is_pong(last, token)),
        Reply::Nil | Reply::Integer(_) => false,
    }
}

/// Signals messages until the client is gone. Those that were lost may have been for anybody.
async fn pump(mut messages: Receiver<Message>, hub: WakeupHub) {
    loop {
        match messages.recv().await {
            Ok(message) => hub.wake(&message.channel),
            Err(RecvError::Lagged(_)) => hub.wake_all(),
            Err(RecvError::Closed) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use fred::types::{MessageKind, Value};
    use futures::FutureExt;
    use tokio::sync::broadcast;

    use super::*;

    fn message(channel: &str) -> Message {
        Message {
            channel: channel.into(),
            value: Value::Null,
            kind: MessageKind::Message,
            server: Server::new("server", 6379),
        }
    }

    fn is_woken(signal: impl Future<Output = ()>) -> bool {
        signal.now_or_never().is_some()
    }

    #[tokio::test]
    async fn lost_messages_wake_everybody() {
        let hub = WakeupHub::new();
        let (a, b) = (hub.register("a"), hub.register("b"));
        let (sender, receiver) = broadcast::channel(2);
        sender.send(message("a")).unwrap();
        let pump = tokio::spawn(pump(receiver, hub));
        a.notified().await;
        assert!(!is_woken(b.notified()));
        // More than there is room for, before the receiver runs again.
        for _ in 0..3 {
            sender.send(message("a")).unwrap();
        }
        b.notified().await;
        assert!(is_woken(a.notified()));
        drop(sender);
        pump.await.unwrap();
    }

    #[test]
    fn only_the_own_token_is_a_pong() {
        let bytes = |text: &'static str| Reply::Bytes(text.into());
        assert!(is_pong(&bytes("t-1"), "t-1"));
        assert!(is_pong(&Reply::Array(vec![bytes("pong"), bytes("t-1")]), "t-1"));
        assert!(!is_pong(&bytes("t-2"), "t-1"));
        assert!(!is_pong(&Reply::Array(vec![]), "t-1"));
        assert!(!is_pong(&Reply::Nil, "t-1"));
    }
}
