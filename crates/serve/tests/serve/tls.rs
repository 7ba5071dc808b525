//! Encrypted connections. The certificates were made for this test with openssl, and their authority's key is gone.

use crate::fixture::{config, server};
use flipcast_serve::{Log, ServeConfig, ServeError, Server, Subject, TlsFiles};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/tls_files").join(name)
}

#[tokio::test]
async fn requests_are_answered_over_encrypted_connections_alone() {
    let folder = tempfile::tempdir().unwrap();
    let tls = Some(TlsFiles { certificate: file("certificate.pem"), key: file("key.pem") });
    let server = server(ServeConfig { tls, ..config(folder.path()) });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(listener, async move { drop(stopped.await) }));
    // A client that says nothing does not keep others waiting.
    let silent = TcpStream::connect(address).await.unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = TlsConnector::from(Arc::new(client)).connect(name, connection).await.unwrap();
    connection.write_all(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("flipcast"), "{answer}");
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    drop((silent, stop));
    serving.await.unwrap().unwrap();
}

#[test]
fn files_that_are_no_certificate_or_key_are_refused_at_the_start() {
    let (model, calibration) = crate::fixture::network();
    for (certificate, key) in
        [("missing.pem", "key.pem"), ("key.pem", "key.pem"), ("certificate.pem", "ca.pem"), ("ca.pem", "key.pem")]
    {
        let folder = tempfile::tempdir().unwrap();
        let tls = Some(TlsFiles { certificate: file(certificate), key: file(key) });
        let subject = Subject::Network { model, calibration, device: flipcast_run::Device::cpu(1) };
        let refused = Server::new(subject, ServeConfig { tls, ..config(folder.path()) }, Log::new(std::io::sink()));
        assert!(matches!(refused.err(), Some(ServeError::Tls { .. })), "{certificate} {key}");
    }
}
