//! Accepts connections: plain on loopback, TLS anywhere else, with timeouts for slow clients and a graceful shutdown.

mod mismatch;
mod slots;
mod stall;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use http::{HeaderMap, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::StartError;
use mismatch::FirstByte;
pub(crate) use slots::Slot;
use slots::Slots;
pub(crate) use stall::PausesAllowed;
use stall::WriteTimeout;

/// Returns the TLS acceptor of a listener.
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
        .map_err(|error| StartError::Tls(format!("the certificate and the key do not match: {error}")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Connection limits of a listener.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    /// Timeout for a client's handshake and headers.
    pub(crate) timeout: Duration,
    /// Maximum number of connections.
    pub(crate) connections: usize,
    /// Additional connections, only for probes, operators and logins.
    pub(crate) reserve: usize,
    /// Maximum number of connections per address.
    pub(crate) per_address: u32,
    /// Limits of a listener whose clients have certificates.
    pub(crate) nodes: Option<NodeAdmission>,
    /// Trusted proxies: their `X-Forwarded-For` header is accepted.
    pub(crate) proxies: Arc<[IpAddr]>,
}

/// Limits of a listener whose clients have certificates. A client counts by its address until it has presented one, and by its
/// node afterwards: many nodes may share an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeAdmission {
    /// Timeout of a TLS handshake.
    pub(crate) timeout: Duration,
    /// Concurrent TLS handshakes.
    pub(crate) handshakes: usize,
    /// Concurrent TLS handshakes per address.
    pub(crate) handshakes_per_address: u32,
    /// Connections without a certificate, of machines that join.
    pub(crate) joining: usize,
    /// Connections without a certificate per address.
    pub(crate) joining_per_address: u32,
    /// Connections per node.
    pub(crate) per_node: u32,
}

/// Timeout for a client of the reserve.
pub(crate) const RESERVE_TIMEOUT: Duration = Duration::from_secs(2);
/// A client that reads nothing of its answer for so many timeouts loses its connection.
const STALLED_TIMEOUTS: u32 = 2;

/// Serves until stopped, then lets running requests finish.
pub(crate) async fn serve(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    admission: Admission,
    mut stop: watch::Receiver<bool>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(admission.timeout).max_buf_size(64 * 1024);
    let builder = Arc::new(builder);
    // Clients of scarce slots send one request each.
    let single = |timeout: Duration| {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(timeout)
            .max_buf_size(64 * 1024)
            .keep_alive(false);
        Arc::new(builder)
    };
    let reserve = single(RESERVE_TIMEOUT);
    let joining = admission.nodes.map(|nodes| single(nodes.timeout));
    let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
    let slots = Slots::new(&admission);
    let stalled = admission.timeout * STALLED_TIMEOUTS;
    loop {
        let (stream, peer, slot) = tokio::select! {
            accepted = slots.accept(&listener) => match accepted {
                Some(accepted) => accepted,
                None => continue,
            },
            _ = stop.changed() => break,
        };
        let (builder, timeout) = match slot.reserved {
            true => (reserve.clone(), RESERVE_TIMEOUT),
            false => (builder.clone(), admission.nodes.map_or(admission.timeout, |nodes| nodes.timeout)),
        };
        let mut named = Named {
            router: router.clone(),
            peer: Peer(peer.ip()),
            proxies: admission.proxies.clone(),
            certificate: None,
            reserved: slot.reserved,
            pauses: PausesAllowed::default(),
            connected: None,
        };
        let (acceptor, mut stop, slots, alive) =
            (acceptor.clone(), stop.clone(), slots.clone(), alive.clone());
        let joining = joining.clone();
        tokio::spawn(async move {
            // First byte and handshake have one timeout together. In the reserve nothing is awaited before the request.
            let deadline = Instant::now() + timeout;
            if !named.reserved {
                let first = tokio::select! {
                    first = mismatch::first_byte(&stream, acceptor.is_some(), timeout) => first,
                    _ = stop.wait_for(|stop| *stop) => return,
                };
                match first {
                    FirstByte::Fits => {}
                    FirstByte::Missing => return,
                    FirstByte::Mismatch(why) => {
                        tracing::debug!(address = %peer.ip(), why, "a connection with the wrong protocol");
                        return mismatch::answer(stream, why).await;
                    }
                }
            }
            let stream = WriteTimeout::new(stream, stalled);
            named.pauses = stream.lifted();
            let Some(acceptor) = acceptor else {
                named.connected = Some(Connected(Arc::new((slot, alive))));
                return connection(&builder, stream, named, stop).await;
            };
            let stream = match tokio::time::timeout_at(deadline, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => return tracing::debug!("a TLS handshake took too long"),
            };
            let chain = stream.get_ref().1.peer_certificates();
            named.certificate = chain
                .and_then(|chain| chain.first())
                .map(|certificate| PeerCertificate(certificate.as_ref().into()));
            let Some(slot) = slots.admit(slot, peer.ip(), named.certificate.as_ref()).await else {
                return tracing::debug!(address = %peer.ip(), "too many connections of this node or address");
            };
            let builder = joining.filter(|_| named.certificate.is_none()).unwrap_or(builder);
            named.connected = Some(Connected(Arc::new((slot, alive))));
            connection(&builder, stream, named, stop).await;
        });
    }
    drop((listener, alive));
    // No message is ever sent: this returns when the last connection has dropped its sender.
    if tokio::time::timeout(Duration::from_secs(10), all_gone.recv()).await.is_err() {
        tracing::warn!("some requests were still in progress after ten seconds and were cut off");
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
            // Finish the running request and accept no further one.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// A connection's slot, which a graceful shutdown also waits for. Code that keeps the connection beyond its requests must
/// hold it.
#[derive(Debug, Clone)]
pub(crate) struct Connected(
    #[expect(dead_code, reason = "it is held, and given up by being dropped")]
    Arc<(Slot, mpsc::Sender<Infallible>)>,
);

/// Marks a connection of the reserve: all regular slots, or those of its address, are in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserve;

/// Client address of a request; anonymous callers are rate-limited by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Client certificate verified in the handshake, as DER; only set by listeners that request one.
#[derive(Debug, Clone)]
pub(crate) struct PeerCertificate(pub(crate) Arc<[u8]>);

/// The router, with the peer added to every request.
#[derive(Clone)]
struct Named {
    router: Router,
    peer: Peer,
    proxies: Arc<[IpAddr]>,
    certificate: Option<PeerCertificate>,
    reserved: bool,
    pauses: PausesAllowed,
    /// Set once the connection is admitted.
    connected: Option<Connected>,
}

impl Named {
    /// Returns the client address. A proxy appends the address of its client, so only the last entry is its own.
    fn peer(&self, headers: &HeaderMap) -> Peer {
        if !self.proxies.contains(&self.peer.0) {
            return self.peer;
        }
        let forwarded = headers.get_all("x-forwarded-for").into_iter().next_back();
        let last = forwarded.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
        last.map_or(self.peer, Peer)
    }
}

impl tower::Service<Request<Incoming>> for Named {
    type Response = <Router as tower::Service<Request<Incoming>>>::Response;
    type Error = <Router as tower::Service<Request<Incoming>>>::Error;
    type Future = <Router as tower::Service<Request<Incoming>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower::Service::<Request<Incoming>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        let peer = self.peer(request.headers());
        request.extensions_mut().insert(peer);
        if self.reserved {
            request.extensions_mut().insert(Reserve);
        }
        request.extensions_mut().insert(self.pauses.clone());
        if let Some(connected) = &self.connected {
            request.extensions_mut().insert(connected.clone());
        }
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        self.router.call(request)
    }
}

/// Reports whether an address may be served without TLS.
pub(crate) fn may_be_plain(address: SocketAddr) -> bool {
    address.ip().is_loopback()
}
