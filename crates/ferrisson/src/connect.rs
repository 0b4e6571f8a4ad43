use ferrisson_core::Client;
use ferrisson_fred::{ConnectError, FredBackend, FredConnection};

/// Connects to the server, sentinels or cluster at `url`, with the default settings.
///
/// `redis://user:password@host:port/database`, with TLS `rediss://`; [`FredBuilder`] has the other
/// forms and the settings of the connection, [`Client::builder`] those of the client:
///
/// ```no_run
/// # use std::time::Duration;
/// use ferrisson::{Client, fred::{FredBackend, FredConnection}};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let connection = FredConnection::builder("redis://127.0.0.1:6379")
///     .command_timeout(Duration::from_millis(500))
///     .connect()
///     .await?;
/// let client = Client::builder(FredBackend::new(connection))
///     .watchdog_lease(Duration::from_secs(10))
///     .build()?;
/// # Ok(())
/// # }
/// ```
///
/// [`FredBuilder`]: ferrisson_fred::FredBuilder
///
/// # Cancel safety
///
/// Cancel safe: a dropped call leaves no connection.
///
/// # Errors
///
/// [`ConnectError`]: a URL that cannot be understood, a server that is not reached in time or does
/// not accept the credentials.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = ferrisson::connect("redis://:123@127.0.0.1:6379").await?;
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<Client, ConnectError> {
    let connection = FredConnection::builder(url).connect().await?;
    Ok(Client::new(FredBackend::new(connection)))
}

/// As [`connect`], without waiting for the server, which may be away for now: connects in the
/// background, and again after every outage. Until it is there, calls fail with
/// [`Error::Unavailable`](ferrisson_core::Error::Unavailable) within their time. Has to be called
/// within a tokio runtime.
///
/// # Errors
///
/// [`ConnectError`] for a URL that cannot be understood.
pub fn connect_lazy(url: &str) -> Result<Client, ConnectError> {
    let connection = FredConnection::builder(url).connect_lazy()?;
    Ok(Client::new(FredBackend::new(connection)))
}
