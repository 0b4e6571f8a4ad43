use ferrisson_core::Client;

use crate::fred::{ConnectError, FredBackend, FredConnection};

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
