//! Redis and Valkey, through the [fred](https://docs.rs/fred) client.
//!
//! [`connect`](crate::connect) is all that most applications need. What it does not set is on the
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

pub use ferrisson_fred::{ConnectError, FredBackend, FredBuilder, FredConnection, Protocol};
