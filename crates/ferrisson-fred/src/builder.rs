use std::{fmt, time::Duration};

use fred::{
    error::{Error, ErrorKind},
    types::{RespVersion, config::Config},
};

use crate::{
    ConnectError, FredConnection,
    config::{self, Plan, Timeouts},
    connection::Settings,
    outcome,
    url::Address,
};

/// The version of the protocol that is spoken with the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// For proxies that do not know `HELLO`.
    Resp2,
    /// The newer one; all servers since Redis 6 have it.
    #[default]
    Resp3,
}

/// Settings of a [`FredConnection`].
///
/// # URLs
///
/// ```text
/// redis://[[user]:password@]host[:6379][/database]
/// redis-sentinel://[[user]:password@]host[:26379][,host…][/database]?master=name
///                  [&sentinelUsername=user][&sentinelPassword=password]
/// redis-cluster://[[user]:password@]host[:6379][,host…]
/// ```
///
/// - `rediss` in place of `redis` asks for TLS, also with `-sentinel` and `-cluster`; `valkey` and
///   `valkeys` mean the same as `redis` and `rediss`.
/// - User and password are for the servers; those of the sentinels are given apart.
/// - Special characters in user and password are written as `%40` and so on; IPv6 addresses in
///   brackets.
/// - All forms take `?protocol=resp2` or `resp3`.
/// - Further hosts may also be given as `?node=host:port`, and the master's name as
///   `?sentinelServiceName=name`, as fred has it. For a cluster one host is enough, more help when
///   it is down.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// use ferrisson_fred::FredConnection;
///
/// # async fn example() -> Result<(), ferrisson_fred::ConnectError> {
/// let connection = FredConnection::builder("redis://:secret@localhost")
///     .command_timeout(Duration::from_millis(500))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `connect` or `connect_lazy`"]
pub struct FredBuilder {
    server: Server,
    protocol: Option<Protocol>,
    #[cfg(feature = "rustls")]
    tls: Option<fred::types::config::TlsConfig>,
    command_timeout: Duration,
    connect_timeout: Duration,
    lanes: usize,
    max_in_flight: usize,
}

#[derive(Clone)]
enum Server {
    Url(String),
    Config(Box<Config>),
}

impl FredBuilder {
    /// The server, sentinels or cluster at a URL. What is wrong with it is told on connecting.
    pub fn new(url: impl Into<String>) -> Self {
        Self::of(Server::Url(url.into()))
    }

    /// What a configuration of fred is for.
    ///
    /// Its servers, credentials, database, protocol and TLS are used. The behaviour on failures is
    /// always ferrisson's own.
    pub fn from_fred_config(config: Config) -> Self {
        Self::of(Server::Config(Box::new(config)))
    }

    fn of(server: Server) -> Self {
        Self {
            server,
            protocol: None,
            #[cfg(feature = "rustls")]
            tls: None,
            command_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            lanes: 1,
            max_in_flight: 10_000,
        }
    }

    /// How long a command may take, default 1 s. A call that has no answer by then fails.
    pub const fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long the connection to one server may take, and then the greeting again, default 1 s.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The number of connections for commands, default 1. Each key has its own. One is enough for
    /// most; more help when single connections are the bottleneck.
    pub const fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes;
        self
    }

    /// How many commands may wait for an answer at the same time, default 10 000. Those above fail
    /// at once, not executed.
    pub const fn max_in_flight(mut self, commands: usize) -> Self {
        self.max_in_flight = commands;
        self
    }

    /// The version of the protocol, default RESP3. Takes precedence over the URL.
    pub const fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// TLS with this configuration: a `rustls::ClientConfig`, or what fred makes of one. TLS is
    /// then used whatever the URL says.
    ///
    /// Without it, `rediss://` trusts the certificates of the system.
    #[cfg(feature = "rustls")]
    pub fn tls(mut self, tls: impl Into<fred::types::config::TlsConfig>) -> Self {
        self.tls = Some(tls.into());
        self
    }

    /// Connects.
    ///
    /// Ends within about five times the [connect timeout](Self::connect_timeout), however many
    /// hosts there are.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future closes what was open.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] says whether the settings, the credentials or the network are to blame.
    pub async fn connect(self) -> Result<FredConnection, ConnectError> {
        let (plan, settings) = self.plan()?;
        FredConnection::connect(&plan, &settings).await.map_err(refusal)
    }

    /// Makes the connection at once and connects in the background, for a server that may be away.
    /// Until it is there, calls fail without being executed.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the settings can never work. A server that is away, or refuses the
    /// credentials, is no error here but of the calls.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn connect_lazy(self) -> Result<FredConnection, ConnectError> {
        let (plan, settings) = self.plan()?;
        Ok(FredConnection::connect_lazy(&plan, &settings))
    }

    fn plan(self) -> Result<(Plan, Settings), ConnectError> {
        let zero = |what, zero| match zero {
            true => Err(ConnectError::Setting { what, reason: "it is zero" }),
            false => Ok(()),
        };
        zero("command timeout", self.command_timeout.is_zero())?;
        zero("connect timeout", self.connect_timeout.is_zero())?;
        zero("number of lanes", self.lanes == 0)?;
        zero("number of commands in flight", self.max_in_flight == 0)?;
        let timeouts = Timeouts { command: self.command_timeout, connect: self.connect_timeout };
        let settings = Settings {
            lanes: self.lanes,
            max_in_flight: self.max_in_flight.min(tokio::sync::Semaphore::MAX_PERMITS),
        };
        Ok((Plan::new(self.config()?, timeouts), settings))
    }

    fn config(self) -> Result<Config, ConnectError> {
        let (mut config, tls) = match self.server {
            Server::Config(config) => (*config, false),
            Server::Url(url) => {
                let address = Address::parse(&url)?;
                let tls = address.tls;
                (config::config(address), tls)
            }
        };
        #[cfg(feature = "rustls")]
        if self.tls.is_some() {
            config.tls = self.tls;
        } else if tls {
            config.tls = Some(crate::tls::system()?);
        }
        #[cfg(not(feature = "rustls"))]
        if tls {
            let reason = "TLS needs the feature `rustls`";
            return Err(ConnectError::Setting { what: "scheme", reason });
        }
        match self.protocol {
            Some(Protocol::Resp2) => config.version = RespVersion::RESP2,
            Some(Protocol::Resp3) => config.version = RespVersion::RESP3,
            None => {}
        }
        Ok(config)
    }
}

impl fmt::Debug for FredBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the server: its URL or configuration has the password.
        f.debug_struct("FredBuilder")
            .field("protocol", &self.protocol)
            .field("command_timeout", &self.command_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("lanes", &self.lanes)
            .field("max_in_flight", &self.max_in_flight)
            .finish_non_exhaustive()
    }
}

fn refusal(error: Error) -> ConnectError {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
    if outcome::is_authentication(&error) {
        ConnectError::Authentication(error.into())
    } else if error.details().split(' ').next().is_some_and(is_word) {
        // An error reply starts with such a word.
        ConnectError::Refused(error.into())
    } else {
        match error.kind() {
            ErrorKind::Config | ErrorKind::Url => ConnectError::Refused(error.into()),
            #[cfg(feature = "rustls")]
            ErrorKind::Tls => ConnectError::Tls(error.into()),
            // The error of the handshake, as fred tells it.
            #[cfg(feature = "rustls")]
            ErrorKind::IO if error.details().contains("InvalidCertificate(") => {
                ConnectError::Tls(error.into())
            }
            _ => ConnectError::Unreachable(error.into()),
        }
    }
}
