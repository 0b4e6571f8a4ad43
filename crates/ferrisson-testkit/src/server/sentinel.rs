//! A master with replicas, watched by sentinels.

use std::time::Duration;

use super::Server;
use crate::poll_until;

const SERVICE: &str = "ferrisson";
const PATIENCE: Duration = Duration::from_secs(30);

/// One master, two replicas and three sentinels that take a master for dead after 0.8 s.
#[derive(Debug)]
pub struct Sentinel {
    nodes: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinel {
    /// Starts all of them; returns when the replicas are in step and the sentinels know each other.
    ///
    /// # Panics
    /// They do not come up.
    pub async fn start() -> Self {
        let builder = || Server::builder().arg("--repl-diskless-sync-delay").arg("0");
        let master = builder().start().await;
        let port = master.port().to_string();
        let mut nodes = vec![master];
        for _ in 0..2 {
            let replica = builder().arg("--replicaof").arg("127.0.0.1").arg(&port).start().await;
            nodes.push(replica);
        }
        for replica in &nodes[1..] {
            poll_until("the replica is in step", PATIENCE, async || {
                let link = replica.raw().await.info("master_link_status").await;
                link.is_ok_and(|status| status == "up")
            })
            .await;
        }
        let config = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds {SERVICE} 800\n\
             sentinel failover-timeout {SERVICE} 4000\n\
             sentinel parallel-syncs {SERVICE} 2\n"
        );
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(Server::builder().sentinel(&config).start().await);
        }
        let all = Self { nodes, sentinels };
        all.wait_until_acquainted().await;
        all
    }

    /// The address for a client, with all three sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let ports: Vec<u16> = self.sentinels.iter().map(Server::port).collect();
        format!(
            "redis-sentinel://127.0.0.1:{}?node=127.0.0.1:{}&node=127.0.0.1:{}&sentinelServiceName={SERVICE}",
            ports[0], ports[1], ports[2]
        )
    }

    /// The name under which the sentinels know the master.
    #[must_use]
    pub fn service(&self) -> &'static str {
        SERVICE
    }

    /// The master and replicas, in no order that lasts.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The sentinels. To freeze one, [`Server::stop`] it.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The node that the sentinels take for the master now.
    ///
    /// # Panics
    /// No sentinel answers.
    pub async fn master(&self) -> &Server {
        let port = self.master_port().await;
        self.nodes.iter().find(|node| node.port() == port).expect("the master is one of the nodes")
    }

    /// Has the sentinels move the mastership without a crash; returns when the new one is known.
    ///
    /// # Panics
    /// It does not happen in time.
    pub async fn failover(&self) {
        let old = self.master_port().await;
        poll_until("the sentinels start a failover", PATIENCE, async || {
            let mut raw = self.sentinels[0].raw().await;
            let reply = raw.command(&["SENTINEL", "FAILOVER", SERVICE]).await;
            // Right after another failover the sentinel says `-INPROG` or `-NOGOODSLAVE`.
            reply.is_ok_and(|reply| matches!(reply, crate::raw::Value::Status(_)))
        })
        .await;
        self.wait_for_another_master(old).await;
    }

    /// Waits until the master is a node on another port than `old` and takes writes.
    ///
    /// # Panics
    /// It does not happen in time.
    pub async fn wait_for_another_master(&self, old: u16) {
        poll_until("another master is elected", PATIENCE, async || {
            if self.master_port().await == old {
                return false;
            }
            let role = self.master().await.raw().await.command(&["ROLE"]).await;
            role.is_ok_and(|role| role.list()[0].text() == "master")
        })
        .await;
    }

    async fn master_port(&self) -> u16 {
        for sentinel in &self.sentinels {
            let ask = async {
                let mut raw = sentinel.raw().await;
                raw.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).await
            };
            if let Ok(Ok(reply)) = tokio::time::timeout(Duration::from_millis(500), ask).await {
                return u16::try_from(reply.list()[1].int()).expect("a port");
            }
        }
        panic!("no sentinel answers");
    }

    async fn wait_until_acquainted(&self) {
        for sentinel in &self.sentinels {
            poll_until("the sentinels know each other and the replicas", PATIENCE, async || {
                let mut raw = sentinel.raw().await;
                let reply = raw.command(&["SENTINEL", "MASTER", SERVICE]).await;
                let fields = reply.expect("the sentinel answers").texts();
                let field = |name: &str| fields.iter().skip_while(|field| *field != name).nth(1);
                field("num-slaves").is_some_and(|n| n == "2")
                    && field("num-other-sentinels").is_some_and(|n| n == "2")
                    && field("flags").is_some_and(|flags| flags == "master")
            })
            .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_killed_master_is_replaced() {
        let sentinel = Sentinel::start().await;
        let master = sentinel.master().await;
        let old = master.port();
        master.kill();
        sentinel.wait_for_another_master(old).await;
        assert_ne!(sentinel.master().await.port(), old);
    }

    #[tokio::test]
    async fn a_graceful_failover_moves_the_mastership_with_a_sentinel_frozen() {
        let sentinel = Sentinel::start().await;
        let old = sentinel.master().await.port();
        sentinel.sentinels()[2].stop();
        sentinel.failover().await;
        assert_ne!(sentinel.master().await.port(), old);
    }
}
