//! What is worth knowing of a server once there is a connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ferrisson_protocol::Reply;
use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand},
};
use tokio::time::sleep;

use crate::{config::Plan, link::Link, outcome};

const PAUSE: Duration = Duration::from_millis(200);

/// Waits for the first connection, then [looks](look).
pub(crate) async fn look_later(link: Arc<Link>, cluster: Arc<AtomicBool>) {
    while let Some(client) = link.client() {
        if client.is_connected() {
            return look(&client, link.plan(), &cluster).await;
        }
        sleep(PAUSE).await;
    }
}

/// Notes whether the server belongs to a cluster, and warns when it may evict locks. Says nothing
/// when it may not ask.
pub(crate) async fn look(client: &Client, plan: &Plan, cluster: &AtomicBool) {
    let (server, memory) =
        futures::join!(info(client, plan, "server"), info(client, plan, "memory"));
    if field(&server, "redis_mode") == Some("cluster") && !cluster.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "the server is a node of a cluster: use redis-cluster:// to reach all of its nodes"
        );
    }
    if let Some(policy) = evicting(&memory) {
        tracing::warn!(
            policy,
            "the server may evict locks when its memory is full; use maxmemory-policy noeviction"
        );
    }
}

async fn info(client: &Client, plan: &Plan, section: &'static str) -> String {
    let options = Plan::options(plan.timeouts().command, true);
    let command = CustomCommand::new_static("INFO", ClusterHash::Random, false);
    let frame = client.with_options(&options).custom_raw(command, vec![section]).await;
    match frame.map(outcome::reply) {
        Ok(Ok(Reply::Bytes(text))) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    }
}

/// The eviction policy, if there is a memory limit and the policy takes keys with a time to live.
fn evicting(memory: &str) -> Option<&str> {
    let policy = field(memory, "maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    field(memory, "maxmemory").filter(|limit| *limit != "0").map(|_| policy)
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limit_with_an_evicting_policy_is_worth_a_warning() {
        let info = |limit: &str, policy: &str| {
            format!(
                "# Memory\r\nmaxmemory:{limit}\r\nmaxmemory_human:x\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        assert_eq!(evicting(&info("1048576", "volatile-lru")), Some("volatile-lru"));
        assert_eq!(evicting(&info("1048576", "allkeys-lfu")), Some("allkeys-lfu"));
        assert_eq!(evicting(&info("1048576", "noeviction")), None);
        assert_eq!(evicting(&info("0", "volatile-lru")), None);
        assert_eq!(evicting(""), None);
    }
}
