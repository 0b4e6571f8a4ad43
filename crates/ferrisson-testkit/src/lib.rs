//! What the tests of ferrisson stand on: real servers, broken networks and checkers.

mod poll;
pub mod raw;
pub mod server;

pub use self::{
    poll::poll_until,
    raw::{Raw, Value},
    server::{Cluster, Sentinel, Server, shared},
};

pub mod differential;
