//! The Redis half of ferrisson that knows no client.
mod connection;

pub use self::connection::{CallError, Command, Connection, Reply};
