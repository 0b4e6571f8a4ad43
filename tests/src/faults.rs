//! What must hold when messages, connections and servers fail: real servers, and a proxy in front
//! of them that breaks the network. The ids are those of the table of fault cases in the book.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "faults/cluster.rs"]
mod cluster;
#[path = "faults/failover.rs"]
mod failover;
#[path = "faults/hygiene.rs"]
mod hygiene;
#[path = "faults/messages.rs"]
mod messages;
#[path = "faults/outages.rs"]
mod outages;
#[path = "faults/permissions.rs"]
mod permissions;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/servers.rs"]
mod servers;
#[path = "faults/waiting.rs"]
mod waiting;
#[path = "faults/zombies.rs"]
mod zombies;
