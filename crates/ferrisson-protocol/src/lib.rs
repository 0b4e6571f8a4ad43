//! The Redis half of ferrisson that knows no client.
//!
//! [`RedisBackend`] implements the backend tier of `ferrisson-core` in the format of Java
//! Redisson: which keys and channels belong to an object, the Lua scripts that change them in one
//! step, and what the replies mean. It reaches the server through a [`Connection`]: one command,
//! one reply, at most once.
//!
//! Every operation is one command, a script by `EVALSHA` where Redis has no command for it. The
//! scripts run on Redis from 6.2 and on Valkey, alone or in a cluster.

mod backend;
mod bucket;
mod connection;
mod keys;
mod lock;
mod refusal;
mod reply;
mod script;
mod semaphore;
mod slot;

pub use self::{
    backend::RedisBackend,
    connection::{CallError, Command, Connection, Reply},
};
