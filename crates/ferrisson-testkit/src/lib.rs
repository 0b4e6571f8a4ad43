//! What the tests of ferrisson stand on: real servers, broken networks and checkers.

pub mod cancel;
pub mod check;
pub mod conformance;
pub mod faulty;
pub mod history;
mod observed;
mod poll;
pub mod proxy;
pub mod raw;
pub mod server;

pub use self::{
    observed::Observed,
    poll::poll_until,
    proxy::Proxy,
    raw::{Raw, Value},
    server::{Cluster, Sentinel, Server, shared},
};

pub mod differential;
