//! The connection of ferrisson to Redis and Valkey, by the [fred](https://docs.rs/fred) client.
//!
//! It makes of fred what a lock library needs: every command is sent at most once and ends in
//! bounded time with an honest outcome, a subscription is confirmed, and whatever hangs is left.

mod builder;
mod checks;
mod cluster;
mod config;
mod connection;
mod error;
mod health;
mod lane;
mod link;
mod outcome;
mod sentinel;
mod subscriber;
mod supervisor;
#[cfg(feature = "rustls")]
mod tls;
mod url;

pub use self::{
    builder::{FredBuilder, Protocol},
    connection::FredConnection,
    error::ConnectError,
};

/// The backend: the shared format over a [`FredConnection`].
pub type FredBackend = ferrisson_protocol::RedisBackend<FredConnection>;
