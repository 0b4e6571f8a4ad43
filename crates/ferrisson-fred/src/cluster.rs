//! What to do about a node of a cluster that does not answer.
//!
//! A new client would cut off the healthy nodes as well, until the whole cluster can be reached
//! again. So first it is found out what helps.

use std::time::Duration;

use ferrisson_protocol::Reply;
use fred::{
    clients::Client,
    error::Error,
    interfaces::{ClientLike, ClusterInterface},
    types::{
        ClusterHash, CustomCommand,
        config::{Options, Server},
    },
};
use tokio::time::timeout;

use crate::{
    config::{self, Plan},
    link::Running,
    outcome,
};

const QUESTION_LIMIT: Duration = Duration::from_millis(400);

/// What helps against nodes that do not answer.
pub(crate) enum Cure {
    /// They are no longer primaries, and left.
    Left,
    /// They answer others. fred would keep the broken connection, so it takes a new client.
    NewClient,
    /// Nothing: they hang, and the cluster will replace them.
    Patience,
}

/// Finds out what helps, and leaves nodes that are no longer primaries.
pub(crate) async fn cure(
    plan: &Plan,
    client: &Client,
    suspects: &[Option<Server>],
) -> Result<Cure, Error> {
    for suspect in suspects {
        let Some(node) = suspect else { return Ok(Cure::NewClient) };
        if is_replaced(client, node, suspects).await {
            tracing::debug!(%node, "the primary does not answer and was replaced");
            client.sync_cluster().await?;
            return Ok(Cure::Left);
        }
        if is_reachable(plan, node).await {
            tracing::debug!(%node, "the connection does not answer, the node does");
            return Ok(Cure::NewClient);
        }
    }
    Ok(Cure::Patience)
}

/// Whether another node says that `node` is no primary any more.
async fn is_replaced(client: &Client, node: &Server, suspects: &[Option<Server>]) -> bool {
    let others = config::primaries(client);
    let other = others.into_iter().find(|other| !suspects.contains(&Some(other.clone())));
    let Some(other) = other else { return false };
    let options = Options { cluster_node: Some(other), ..Plan::options(QUESTION_LIMIT, true) };
    let command = CustomCommand::new_static("CLUSTER", ClusterHash::Random, false);
    let frame = client.with_options(&options).custom_raw(command, vec!["SLOTS"]).await;
    match frame.map(outcome::reply) {
        Ok(Ok(Reply::Array(ranges))) => !ranges.iter().any(|range| is_primary_of(node, range)),
        _ => false,
    }
}

/// Reads one element of the reply to CLUSTER SLOTS: first slot, last slot, primary, replicas…
fn is_primary_of(node: &Server, range: &Reply) -> bool {
    let Reply::Array(range) = range else { return false };
    let Some(Reply::Array(primary)) = range.get(2) else { return false };
    match (primary.first(), primary.get(1)) {
        (Some(Reply::Bytes(host)), Some(Reply::Integer(port))) => {
            **host == *node.host.as_bytes() && *port == i64::from(node.port)
        }
        _ => false,
    }
}

async fn is_reachable(plan: &Plan, node: &Server) -> bool {
    let plan = plan.of_node(node.clone());
    match timeout(QUESTION_LIMIT, Running::connect(&plan)).await {
        Ok(Ok(running)) => {
            running.end().await;
            true
        }
        Ok(Err(_)) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_of_a_range_is_recognised() {
        let node = |host: &'static str, port| {
            Reply::Array(vec![Reply::Bytes(host.as_bytes().into()), Reply::Integer(port)])
        };
        let range = Reply::Array(vec![
            Reply::Integer(0),
            Reply::Integer(99),
            node("10.0.0.1", 7000),
            node("10.0.0.2", 7000),
        ]);
        assert!(is_primary_of(&Server::new("10.0.0.1", 7000), &range));
        assert!(!is_primary_of(&Server::new("10.0.0.2", 7000), &range));
        assert!(!is_primary_of(&Server::new("10.0.0.1", 7001), &range));
        assert!(!is_primary_of(&Server::new("10.0.0.1", 7000), &Reply::Nil));
    }
}
