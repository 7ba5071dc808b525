//! Encrypted connections, with certificate and key from files.

use crate::connections::serve_connections;
use crate::{Limits, Log, ServeError, TlsFiles};
use axum::Router;
use axum::serve::Listener;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// How long a client may take until its connection is encrypted.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Clients that do so at the same time.
const MOST_HANDSHAKES: usize = 256;
/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Refuses files that cannot be used.
pub fn check_tls(files: Option<&TlsFiles>) -> Result<(), ServeError> {
    files.map_or(Ok(()), |files| read_config(files).map(drop))
}

/// Answers requests until `stop` says so.
pub fn spawn_serving(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
    files: Option<TlsFiles>,
    limits: Limits,
    log: &Log,
) -> Result<JoinHandle<()>, ServeError> {
    let Some(files) = files else {
        return Ok(tokio::spawn(serve_connections(listener, router, stop, limits)));
    };
    let identity = Identity::new(files, log.clone())?;
    let listener = TlsListener { listener, identity, handshakes: JoinSet::new() };
    Ok(tokio::spawn(serve_connections(listener, router, stop, limits)))
}

/// The certificate that clients see now.
struct Identity {
    files: TlsFiles,
    config: Arc<ServerConfig>,
    written: [Option<SystemTime>; 2],
    looked: Instant,
    log: Log,
}

impl Identity {
    fn new(files: TlsFiles, log: Log) -> Result<Self, ServeError> {
        let (written, config) = (written(&files), read_config(&files)?);
        Ok(Self { files, config, written, looked: Instant::now(), log })
    }

    /// Certificates are renewed while the server runs. One that cannot be used leaves the last in place.
    fn current(&mut self) -> Arc<ServerConfig> {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            let now = written(&self.files);
            if now != self.written {
                self.written = now;
                match read_config(&self.files) {
                    Ok(config) => {
                        self.config = config;
                        self.log.info("certificate_renewed", &[]);
                    }
                    Err(error) => {
                        self.log.error("certificate_not_renewed", &[("error", error.to_string().as_str().into())]);
                    }
                }
            }
        }
        self.config.clone()
    }
}

fn written(files: &TlsFiles) -> [Option<SystemTime>; 2] {
    [&files.certificate, &files.key].map(|path| path.metadata().and_then(|data| data.modified()).ok())
}

fn read_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, ServeError> {
    let cannot = |path: &Path, reason: String| ServeError::Tls { path: path.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| cannot(&files.certificate, error.to_string()))?;
    if certificates.is_empty() {
        return Err(cannot(&files.certificate, "it holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| cannot(&files.key, error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| cannot(&files.certificate, error.to_string()))?;
    let protocols: &[&str] = if cfg!(feature = "grpc") { &["h2", "http/1.1"] } else { &["http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

/// Connections once they are encrypted. A client that is slow with that keeps nobody else waiting.
struct TlsListener {
    listener: TcpListener,
    identity: Identity,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, address) = Listener::accept(&mut self.listener), if self.handshakes.len() < MOST_HANDSHAKES => {
                    let acceptor = TlsAcceptor::from(self.identity.current());
                    self.handshakes.spawn(async move {
                        // What a client does wrong here is its own affair.
                        let stream = timeout(HANDSHAKE, acceptor.accept(stream)).await.ok()?.ok()?;
                        Some((stream, address))
                    });
                }
                Some(done) = self.handshakes.join_next(), if !self.handshakes.is_empty() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
