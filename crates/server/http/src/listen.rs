//! Accepts connections: plain on loopback, TLS anywhere else, with timeouts for slow clients and a graceful shutdown.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use http::{HeaderMap, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use muster_control::Share;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::StartError;

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
        .map_err(|error| StartError::Tls(format!("the certificate and the key do not fit: {error}")))?;
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
    /// Maximum number of connections without a client certificate, if the listener requests one.
    pub(crate) without_certificate: Option<usize>,
    /// Trusted proxies: their `X-Forwarded-For` header is accepted.
    pub(crate) proxies: Arc<[IpAddr]>,
}

/// Timeout for a client of the reserve.
pub(crate) const RESERVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Reserve connections per address: a flood from one address must not fill the reserve.
const RESERVE_PER_ADDRESS: u32 = 4;

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
    let mut reserve = http1::Builder::new();
    reserve.timer(TokioTimer::new()).header_read_timeout(RESERVE_TIMEOUT).max_buf_size(64 * 1024);
    reserve.keep_alive(false);
    let reserve = Arc::new(reserve);
    let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
    let rooms = Rooms::new(&admission);
    let strangers = admission.without_certificate.map(|most| Arc::new(Semaphore::new(most)));
    loop {
        let (stream, peer, place) = tokio::select! {
            accepted = rooms.accept(&listener) => match accepted {
                Some(accepted) => accepted,
                None => continue,
            },
            _ = stop.changed() => break,
        };
        let reserved = place.reserved;
        let (builder, timeout) = match reserved {
            true => (reserve.clone(), RESERVE_TIMEOUT),
            false => (builder.clone(), admission.timeout),
        };
        let connected = Connected(Arc::new((place, alive.clone())));
        let mut named = Named {
            router: router.clone(),
            peer: Peer(peer.ip()),
            proxies: admission.proxies.clone(),
            certificate: None,
            reserved,
            connected,
        };
        let (acceptor, stop, strangers) = (acceptor.clone(), stop.clone(), strangers.clone());
        tokio::spawn(async move {
            match acceptor {
                None => connection(&builder, stream, named, stop).await,
                Some(acceptor) => match tokio::time::timeout(timeout, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let chain = stream.get_ref().1.peer_certificates();
                        named.certificate = chain
                            .and_then(|chain| chain.first())
                            .map(|certificate| PeerCertificate(certificate.as_ref().into()));
                        // Clients without a certificate have few slots of their own, so they cannot block those with one.
                        let _stranger = match (&named.certificate, strangers) {
                            (None, Some(strangers)) => match strangers.try_acquire_owned() {
                                Ok(place) => Some(place),
                                Err(_) => {
                                    return tracing::debug!("too many connections without a certificate");
                                }
                            },
                            _ => None,
                        };
                        connection(&builder, stream, named, stop).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                },
            }
        });
    }
    drop((listener, alive));
    // No message is ever sent: this returns when the last connection has dropped its sender.
    if tokio::time::timeout(Duration::from_secs(10), all_gone.recv()).await.is_err() {
        tracing::warn!("some requests were still under way after ten seconds and were cut off");
    }
}

/// Connection slots, in total and by address.
struct Rooms {
    slots: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    per_address: u32,
    proxies: Arc<[IpAddr]>,
    addresses: Addresses,
}

type Addresses = Arc<Mutex<HashMap<(Share, bool), u32>>>;

/// Slot of a connection.
#[derive(Debug)]
pub(crate) struct Place {
    _slot: OwnedSemaphorePermit,
    _address: Option<AddressPlace>,
    /// Whether it belongs to the reserve.
    reserved: bool,
}

/// Slot of a connection in its address's limit.
#[derive(Debug)]
struct AddressPlace {
    addresses: Addresses,
    key: (Share, bool),
}

impl AddressPlace {
    fn take(addresses: &Addresses, key: (Share, bool), most: u32) -> Option<Self> {
        let mut counts = addresses.lock().expect("no holder of this lock can panic");
        let count = counts.entry(key.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Self { addresses: addresses.clone(), key })
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut counts = self.addresses.lock().expect("no holder of this lock can panic");
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

impl Rooms {
    fn new(admission: &Admission) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(admission.connections)),
            reserve: Arc::new(Semaphore::new(admission.reserve)),
            per_address: admission.per_address,
            proxies: admission.proxies.clone(),
            addresses: Addresses::default(),
        }
    }

    /// Returns the next connection once a slot is free; `None` if it was turned away.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, Place)> {
        let (slot, reserved) = tokio::select! {
            biased;
            slot = self.slots.clone().acquire_owned() => (slot.ok()?, false),
            slot = self.reserve.clone().acquire_owned() => (slot.ok()?, true),
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely out of file descriptors: accepting again immediately would spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                return None;
            }
        };
        let _ = stream.set_nodelay(true);
        match self.place(peer.ip(), slot, reserved) {
            Some(place) => Some((stream, peer, place)),
            None => {
                tracing::debug!(address = %peer.ip(), "too many connections from this address");
                None
            }
        }
    }

    fn place(&self, address: IpAddr, slot: OwnedSemaphorePermit, reserved: bool) -> Option<Place> {
        // A regular slot may have been freed while this reserved one waited for a connection.
        let (slot, reserved) = match reserved.then(|| self.slots.clone().try_acquire_owned()) {
            Some(Ok(free)) => (free, false),
            _ => (slot, reserved),
        };
        let key = |reserved| (Share::of_address(Some(address)), reserved);
        if !reserved {
            if self.proxies.contains(&address) {
                return Some(Place { _slot: slot, _address: None, reserved });
            }
            if let Some(counted) = AddressPlace::take(&self.addresses, key(false), self.per_address) {
                return Some(Place { _slot: slot, _address: Some(counted), reserved });
            }
        }
        let slot = if reserved { slot } else { self.reserve.clone().try_acquire_owned().ok()? };
        let counted = AddressPlace::take(&self.addresses, key(true), RESERVE_PER_ADDRESS)?;
        Some(Place { _slot: slot, _address: Some(counted), reserved: true })
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
    Arc<(Place, mpsc::Sender<Infallible>)>,
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
    connected: Connected,
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
        request.extensions_mut().insert(self.connected.clone());
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
