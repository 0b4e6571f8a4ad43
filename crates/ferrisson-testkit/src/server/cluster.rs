//! A cluster of three masters with one replica each.

use std::{ops::RangeInclusive, time::Duration};

use super::Server;
use crate::{
    poll_until,
    raw::{Raw, Value},
};

const SLOTS: u16 = 16_384;
const MASTERS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

/// Three masters and three replicas that take a node for dead after 1.5 s.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts the nodes and joins them; returns when all of them see a complete cluster.
    ///
    /// # Panics
    /// They do not come up.
    pub async fn start() -> Self {
        let mut nodes = Vec::new();
        for _ in 0..2 * MASTERS {
            let node = Server::builder().arg("--cluster-enabled").arg("yes");
            let node = node.arg("--cluster-node-timeout").arg("1500");
            nodes.push(node.arg("--repl-diskless-sync-delay").arg("0").start().await);
        }
        let cluster = Self { nodes };
        cluster.hand_out_slots().await;
        cluster.meet().await;
        cluster.replicate().await;
        cluster.wait_until_ok().await;
        cluster
    }

    /// The address for a client, with all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let (first, others) = self.nodes.split_first().expect("there are nodes");
        let others: Vec<_> =
            others.iter().map(|node| format!("node=127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://127.0.0.1:{}?{}", first.port(), others.join("&"))
    }

    /// All nodes. The first three start as masters; the node three places later is the replica.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The master that owns the slot of a key.
    ///
    /// # Panics
    /// No node knows it.
    pub async fn owner_of(&self, key: &str) -> &Server {
        self.find_owner(slot_of(key)).await.expect("the slot has an owner")
    }

    /// The replica of a master.
    ///
    /// # Panics
    /// It has none.
    pub async fn replica_of(&self, master: &Server) -> &Server {
        for node in self.nodes.iter().filter(|node| node.port() != master.port()) {
            let Ok(mut raw) = Raw::connect(node.port()).await else { continue };
            let role = raw.command(&["ROLE"]).await.expect("the node answers").list();
            if role[0].text() == "slave" && role[2].int() == i64::from(master.port()) {
                return node;
            }
        }
        panic!("the node on port {} has no replica", master.port());
    }

    /// Waits until the slot of a key is served by another node than the one on port `old`.
    ///
    /// # Panics
    /// It does not happen in time.
    pub async fn wait_for_another_owner(&self, key: &str, old: u16) {
        poll_until("another node owns the slot", PATIENCE, async || {
            self.find_owner(slot_of(key)).await.is_some_and(|owner| owner.port() != old)
        })
        .await;
    }

    /// Waits until every running node takes the cluster for complete.
    ///
    /// # Panics
    /// It does not happen in time.
    pub async fn wait_until_ok(&self) {
        for node in &self.nodes {
            poll_until("the cluster is complete", PATIENCE, async || {
                let Ok(mut raw) = Raw::connect(node.port()).await else { return true };
                let info = raw.command(&["CLUSTER", "INFO"]).await.expect("the node answers");
                let masters = format!("cluster_size:{MASTERS}");
                info.text().contains("cluster_state:ok") && info.text().contains(&masters)
            })
            .await;
        }
    }

    /// Moves the slot of a key, with all its keys, to another master. Until
    /// [`SlotMove::finish`] clients are redirected with `ASK` for keys that moved.
    ///
    /// # Panics
    /// A node refuses it.
    pub async fn begin_move(&self, key: &str, target: &Server) -> SlotMove<'_> {
        let slot = slot_of(key);
        let source = self.owner_of(key).await;
        let target = self.nodes.iter().find(|node| node.port() == target.port());
        let target = target.expect("the target is a node of this cluster");
        let (source_id, target_id) = (node_id(source).await, node_id(target).await);
        let slot_arg = slot.to_string();
        ok(target, &["CLUSTER", "SETSLOT", &slot_arg, "IMPORTING", &source_id]).await;
        ok(source, &["CLUSTER", "SETSLOT", &slot_arg, "MIGRATING", &target_id]).await;
        SlotMove { cluster: self, slot, source, target, target_id }
    }

    async fn find_owner(&self, slot: u16) -> Option<&Server> {
        // Every master answers for itself: a node that is cut off believes old things of others.
        for node in &self.nodes {
            let Ok(mut raw) = Raw::connect(node.port()).await else { continue };
            let ask = raw.command(&["CLUSTER", "NODES"]);
            let Ok(Ok(reply)) = tokio::time::timeout(Duration::from_millis(500), ask).await else {
                continue;
            };
            let text = reply.text();
            let own = text.lines().find(|line| line.contains("myself,master"));
            let mut ranges = own.into_iter().flat_map(|line| line.split(' ').skip(8));
            if ranges.any(|range| parse_range(range).is_some_and(|range| range.contains(&slot))) {
                return Some(node);
            }
        }
        None
    }

    async fn hand_out_slots(&self) {
        let share = SLOTS.div_ceil(3);
        for (index, node) in (0u16..).zip(&self.nodes[..MASTERS]) {
            let mut args = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            let slots = index * share..SLOTS.min((index + 1) * share);
            args.extend(slots.map(|slot| slot.to_string()));
            ok(node, &args).await;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await;
        }
    }

    async fn meet(&self) {
        let first = self.nodes[0].port().to_string();
        for node in &self.nodes[1..] {
            ok(node, &["CLUSTER", "MEET", "127.0.0.1", &first]).await;
        }
        for node in &self.nodes {
            poll_until("every node knows every other", PATIENCE, async || {
                let reply = node.raw().await.command(&["CLUSTER", "NODES"]).await;
                let text = reply.expect("the node answers").text();
                text.lines().count() == self.nodes.len() && !text.contains("handshake")
            })
            .await;
        }
    }

    async fn replicate(&self) {
        let (masters, replicas) = self.nodes.split_at(MASTERS);
        for (master, replica) in masters.iter().zip(replicas) {
            ok(replica, &["CLUSTER", "REPLICATE", &node_id(master).await]).await;
        }
        for replica in replicas {
            poll_until("the replica is in step", PATIENCE, async || {
                let status = replica.raw().await.info("master_link_status").await;
                status.is_ok_and(|status| status == "up")
            })
            .await;
        }
    }
}

/// A slot on its way from one master to another.
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: u16,
    source: &'a Server,
    target: &'a Server,
    target_id: String,
}

impl SlotMove<'_> {
    /// Moves the keys that are in the slot now.
    ///
    /// # Panics
    /// A node refuses it.
    pub async fn move_keys(&self) {
        let slot = self.slot.to_string();
        let mut raw = self.source.raw().await;
        let keys = raw.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]).await;
        let keys = keys.expect("the source answers").texts();
        let port = self.target.port().to_string();
        for key in &keys {
            let args = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
            let reply = raw.command(&args).await.expect("the source answers");
            assert!(matches!(reply, Value::Status(_)), "{reply:?}");
        }
    }

    /// Moves what is left and gives the slot to the target; returns when every node knows it.
    ///
    /// # Panics
    /// A node refuses it.
    pub async fn finish(self) {
        self.move_keys().await;
        let slot = self.slot.to_string();
        for node in [self.target, self.source] {
            ok(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &self.target_id]).await;
        }
        poll_until("the target owns the slot", PATIENCE, async || {
            let owner = self.cluster.find_owner(self.slot).await;
            owner.is_some_and(|owner| owner.port() == self.target.port())
        })
        .await;
    }
}

/// The slot of a key: of its hash tag where it has one.
#[must_use]
pub fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    crc16(hashed.as_bytes()) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    Some(from.parse().ok()?..=to.parse().ok()?)
}

async fn node_id(node: &Server) -> String {
    let reply = node.raw().await.command(&["CLUSTER", "MYID"]).await;
    reply.expect("the node answers").text()
}

async fn ok<A: AsRef<[u8]>>(node: &Server, args: &[A]) {
    let reply = node.raw().await.command(args).await.expect("the node answers");
    assert_eq!(reply, Value::Status("OK".to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_that_of_the_hash_tag() {
        assert_eq!(slot_of("123456789"), 0x31c3);
        assert_eq!(slot_of("redisson_lock__channel:{a}"), slot_of("a"));
        assert_ne!(slot_of("{}a"), slot_of(""));
    }

    #[tokio::test]
    async fn a_killed_master_is_replaced_by_its_replica() {
        let cluster = Cluster::start().await;
        let owner = cluster.owner_of("key").await;
        let replica = cluster.replica_of(owner).await;
        owner.kill();
        cluster.wait_for_another_owner("key", owner.port()).await;
        assert_eq!(cluster.owner_of("key").await.port(), replica.port());
    }

    #[tokio::test]
    async fn a_slot_moves_with_its_keys() {
        let cluster = Cluster::start().await;
        let source = cluster.owner_of("key").await;
        source.raw().await.command(&["SET", "key", "1"]).await.unwrap();
        let target = cluster.nodes()[..3].iter().find(|n| n.port() != source.port()).unwrap();
        let moving = cluster.begin_move("key", target).await;
        moving.move_keys().await;
        let reply = source.raw().await.command(&["GET", "key"]).await.unwrap();
        assert!(matches!(&reply, Value::Error(text) if text.starts_with("ASK ")), "{reply:?}");
        moving.finish().await;
        assert_eq!(cluster.owner_of("key").await.port(), target.port());
        assert_eq!(target.raw().await.command(&["GET", "key"]).await.unwrap().text(), "1");
    }
}
