//! Redis and Valkey, through the [fred](https://docs.rs/fred) client.
//!
//! [`connect`] is all that most applications need. What it does not set is on the
//! [builder](FredConnection::builder), which also describes the URLs:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use ferrisson::{
//!     Client,
//!     fred::{FredBackend, FredConnection},
//! };
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let connection = FredConnection::builder("redis://localhost")
//!     .command_timeout(Duration::from_millis(500))
//!     .connect()
//!     .await?;
//! let client = Client::builder(FredBackend::new(connection)).namespace("billing").build()?;
//! # Ok(())
//! # }
//! ```

pub use ferrisson_fred::{ConnectError, FredBuilder, FredConnection, Protocol};

use crate::Client;

/// The backend that a client on Redis or Valkey has.
pub type FredBackend = ferrisson_protocol::RedisBackend<FredConnection>;

/// Connects to the server at a URL, such as `redis://:password@host:6379`. One client is enough for
/// a process.
///
/// # Cancel safety
///
/// Cancel safe: dropping the future closes what was open.
///
/// # Errors
///
/// [`ConnectError`] says whether the URL, the credentials or the network are to blame.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = ferrisson::connect("redis://:123@127.0.0.1:6379").await?;
/// let guard = client.lock("orders:42").lock().await?;
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<Client, ConnectError> {
    let connection = FredConnection::builder(url).connect().await?;
    Ok(Client::new(FredBackend::new(connection)))
}

/// As [`connect`], but without waiting for the server, which may be away: it is connected to in the
/// background, and until then calls ride it out for the client's patience or fail without being
/// executed.
///
/// # Errors
///
/// [`ConnectError`] for a URL that can never work.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn connect_lazy(url: &str) -> Result<Client, ConnectError> {
    let connection = FredConnection::builder(url).connect_lazy()?;
    Ok(Client::new(FredBackend::new(connection)))
}
