use std::error::Error as StdError;

/// Why a connection could not be made.
///
/// Neither the messages nor the causes contain a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be understood. Fix it.
    #[error("invalid connection URL: {reason}")]
    Url {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A setting that can never work. Fix it.
    #[error("invalid {what}: {reason}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// TLS cannot be set up on this machine, or the certificate of the server is not trusted.
    #[error("TLS failed")]
    Tls(#[source] Box<dyn StdError + Send + Sync>),
    /// The server does not accept the credentials.
    #[error("the server does not accept the credentials")]
    Authentication(#[source] Box<dyn StdError + Send + Sync>),
    /// The server answered, and will not serve this client: the database does not exist, it is no
    /// cluster, a command is not permitted.
    #[error("refused by the server")]
    Refused(#[source] Box<dyn StdError + Send + Sync>),
    /// The server was not reached, or did not answer in time. A retry may succeed.
    #[error("the server cannot be reached")]
    Unreachable(#[source] Box<dyn StdError + Send + Sync>),
}

impl ConnectError {
    /// Whether the same attempt may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}
