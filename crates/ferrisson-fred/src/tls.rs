use std::sync::Arc;

use fred::types::config::{TlsConfig, TlsConnector};
use rustls::{ClientConfig, RootCertStore, crypto};

use crate::ConnectError;

/// TLS that trusts the certificates of the system.
///
/// Unlike fred's own default, one certificate that cannot be read does not spoil all, and it works
/// also where the process has several providers of cryptography.
pub(crate) fn system() -> Result<TlsConfig, ConnectError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let reason = found.errors.first().map_or_else(
            || "the system has no trusted certificates".to_owned(),
            ToString::to_string,
        );
        return Err(ConnectError::Tls(reason.into()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::Tls(Box::new(error)))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(config).into())
}
