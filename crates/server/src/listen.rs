//! Accepting connections: plain on loopback, TLS anywhere else; slow clients are timed out, and stopping is graceful.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::StartError;

/// The TLS side of a listener.
pub(crate) fn tls(cert_file: &Path, key_file: &Path) -> Result<TlsAcceptor, StartError> {
    let fail = |path: &Path, why: String| StartError::Tls(format!("{}: {why}", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect)
        .map_err(|error| fail(cert_file, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| fail(key_file, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Tls(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| StartError::Tls(format!("the certificate and the key do not fit: {error}")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until told to stop, then lets requests that are under way finish.
pub(crate) async fn serve(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    timeout: Duration,
    connections: usize,
    mut stop: watch::Receiver<bool>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(timeout).max_buf_size(64 * 1024);
    let builder = Arc::new(builder);
    let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
    let slots = Arc::new(Semaphore::new(connections));
    loop {
        let (stream, peer, slot) = tokio::select! {
            accepted = accept(&listener, &slots) => match accepted {
                Some(accepted) => accepted,
                None => continue,
            },
            _ = stop.changed() => break,
        };
        let connected = Connected(Arc::new((slot, alive.clone())));
        let mut named = Named { router: router.clone(), peer: Peer(peer.ip()), certificate: None, connected };
        let (builder, acceptor, stop) = (builder.clone(), acceptor.clone(), stop.clone());
        tokio::spawn(async move {
            match acceptor {
                None => connection(&builder, stream, named, stop).await,
                Some(acceptor) => match tokio::time::timeout(timeout, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let chain = stream.get_ref().1.peer_certificates();
                        named.certificate = chain
                            .and_then(|chain| chain.first())
                            .map(|certificate| PeerCertificate(certificate.as_ref().into()));
                        connection(&builder, stream, named, stop).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                },
            }
        });
    }
    drop((listener, alive));
    // Nothing is ever sent: this ends when the last connection has given its end up.
    if tokio::time::timeout(Duration::from_secs(10), all_gone.recv()).await.is_err() {
        tracing::warn!("some requests were still under way after ten seconds and were cut off");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, peer, slot))
        }
        Err(error) => {
            // Out of descriptors, most likely: accepting at once again would spin.
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

async fn connection<S>(builder: &http1::Builder, stream: S, named: Named, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(named));
    let mut connection = pin!(connection.with_upgrades());
    let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            // The request under way is finished, and no other is taken.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// A connection's place among those at once, and in what a server that stops waits for. Whoever makes something of the
/// connection that outlives its requests keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Connected(
    #[expect(dead_code, reason = "it is held, and given up by being dropped")]
    Arc<(OwnedSemaphorePermit, mpsc::Sender<Infallible>)>,
);

/// Where a request comes from: the share of callers without a credential is counted by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The client certificate that the handshake verified, as DER; only listeners that ask for one have it.
#[derive(Debug, Clone)]
pub(crate) struct PeerCertificate(pub(crate) Arc<[u8]>);

/// The router, with who is at the other end written into every request.
#[derive(Clone)]
struct Named {
    router: Router,
    peer: Peer,
    certificate: Option<PeerCertificate>,
    connected: Connected,
}

impl tower::Service<Request<Incoming>> for Named {
    type Response = <Router as tower::Service<Request<Incoming>>>::Response;
    type Error = <Router as tower::Service<Request<Incoming>>>::Error;
    type Future = <Router as tower::Service<Request<Incoming>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower::Service::<Request<Incoming>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(self.connected.clone());
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        self.router.call(request)
    }
}

/// Whether an address may be served without TLS.
pub(crate) fn may_be_plain(address: SocketAddr) -> bool {
    address.ip().is_loopback()
}
