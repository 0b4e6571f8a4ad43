//! TLS, ended by a small proxy in front of a plain server.
#![cfg(feature = "rustls")]

mod common;

use std::{sync::Arc, time::Duration};

use ferrisson_fred::ConnectError;
use ferrisson_protocol::Connection;
use ferrisson_testkit::shared;
use rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::common::{builder, incr};

/// Starts the proxy; answers its port and the certificate to trust.
async fn tls_server() -> (u16, rustls::pki_types::CertificateDer<'static>) {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = key.cert.der().clone();
    let private = PrivateKeyDer::Pkcs8(key.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the defaults fit")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private)
        .expect("key and certificate fit");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config))));
    (port, certificate)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor) {
    while let Ok((client, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // A client that does not trust the certificate goes away.
            let Ok(mut client) = acceptor.accept(client).await else { return };
            let server = TcpStream::connect(("127.0.0.1", shared().port())).await;
            let mut server = server.expect("the server accepts");
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

#[tokio::test]
async fn a_trusted_server_is_used() {
    let (port, certificate) = tls_server().await;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = builder(format!("rediss://localhost:{port}"))
        .connect_timeout(Duration::from_secs(2))
        .tls(config)
        .connect()
        .await
        .unwrap();
    assert_eq!(incr(&connection, "a_trusted_server_is_used").await.unwrap(), 1);
    assert!(connection.subscribe("a_trusted_server_is_used").await.unwrap().is_live());
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_told_as_such() {
    let (port, _) = tls_server().await;
    let error = builder(format!("rediss://localhost:{port}")).connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::Tls(_)), "{error:?}");
}
