//! Follows a failover that sentinels announce. The old primary can go on answering for seconds
//! after it, and what is written there is lost.

use std::sync::Arc;

use fred::{
    clients::Client,
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{Message, config::Server},
};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    config::Plan,
    link::{Link, Running, Source},
    supervisor::supervise,
};

const SWITCH: &str = "+switch-master";

/// With sentinels: watches each of them, and has the links follow what they announce.
pub(crate) fn watch(
    plan: &Plan,
    links: &[Arc<Link>],
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let Some((service, sentinels)) = plan.sentinels() else { return };
    for sentinel in sentinels {
        let running = Running::start(&sentinel, 0);
        let link = Arc::new(Link::new(Source::Plan(sentinel), running.client.clone()));
        tasks.spawn(supervise(Arc::clone(&link), running, stop.clone()));
        tasks.spawn(watch_one(link, service.clone(), links.to_vec()));
    }
}

async fn watch_one(link: Arc<Link>, service: String, followers: Vec<Arc<Link>>) {
    let mut clients = link.clients();
    loop {
        let Some(client) = clients.borrow_and_update().clone() else { return };
        tokio::select! {
            () = listen(&client, link.plan(), &service, &followers) => return,
            _ = clients.changed() => {}
        }
    }
}

/// Until the client has ended.
async fn listen(client: &Client, plan: &Plan, service: &str, followers: &[Arc<Link>]) {
    let (mut messages, mut connections) = (client.message_rx(), client.reconnect_rx());
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Ok(message) => {
                    if let Some(primary) = new_primary(&message, service) {
                        tracing::info!(service, %primary, "the sentinels announce a new primary");
                        followers.iter().for_each(|link| link.order_follow(primary.clone()));
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            connection = connections.recv() => match connection {
                Ok(_) | Err(RecvError::Lagged(_)) => subscribe(client, plan).await,
                Err(RecvError::Closed) => return,
            },
        }
    }
}

async fn subscribe(client: &Client, plan: &Plan) {
    // fred tells of the connection a moment before it can be used, so this must be able to wait.
    let client = client.with_options(&Plan::options(plan.timeouts().command, false));
    #[expect(clippy::disallowed_methods, reason = "the client is for subscriptions only")]
    if let Err(error) = client.subscribe(SWITCH).await {
        tracing::debug!(%error, "no announcements from a sentinel until it is connected again");
    }
}

/// Reads `service old-host old-port new-host new-port`.
fn new_primary(message: &Message, service: &str) -> Option<Server> {
    let text = message.value.as_str()?;
    let mut words = text.split(' ');
    if message.channel != SWITCH || words.next()? != service {
        return None;
    }
    let (host, port) = (words.nth(2)?, words.next()?);
    Some(Server::new(host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use fred::types::{MessageKind, Value};

    use super::*;

    #[test]
    fn only_an_announcement_for_the_service_is_followed() {
        let primary = |channel: &'static str, text: &'static str| {
            let message = Message {
                channel: channel.into(),
                value: Value::String(text.into()),
                kind: MessageKind::Message,
                server: Server::new("sentinel", 26379),
            };
            new_primary(&message, "orders")
        };
        let expected = Some(Server::new("10.0.0.2", 6380));
        assert_eq!(primary(SWITCH, "orders 10.0.0.1 6379 10.0.0.2 6380"), expected);
        assert_eq!(primary(SWITCH, "users 10.0.0.1 6379 10.0.0.2 6380"), None);
        assert_eq!(primary("+sdown", "orders 10.0.0.1 6379 10.0.0.2 6380"), None);
        assert_eq!(primary(SWITCH, "orders 10.0.0.1 6379 10.0.0.2 port"), None);
        assert_eq!(primary(SWITCH, ""), None);
    }
}
