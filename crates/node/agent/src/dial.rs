//! Connects to the server. One per node, shared by its connections.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use muster_ids::Env;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::link::CallError;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Address, keys and the state of the (simulated) cable.
pub(crate) struct Dial {
    pub(crate) address: Address,
    pub(crate) env: Env,
    /// TLS configuration with an edition that rises with each certificate, so that connections under an old one are
    /// detected.
    config: Mutex<(u64, Arc<ClientConfig>)>,
    /// While true, all traffic is blocked: simulates a partition.
    pub(crate) cut: watch::Receiver<bool>,
}

pub(crate) type Stream = TokioIo<TlsStream<TcpStream>>;

impl Dial {
    pub(crate) fn new(
        address: Address,
        config: Arc<ClientConfig>,
        env: Env,
        cut: watch::Receiver<bool>,
    ) -> Arc<Self> {
        Arc::new(Self { address, env, config: Mutex::new((0, config)), cut })
    }

    /// Uses another certificate from now on.
    pub(crate) fn replace(&self, config: Arc<ClientConfig>) {
        let mut held = self.config.lock();
        *held = (held.0 + 1, config);
    }

    /// Returns the edition of the certificate in use.
    pub(crate) fn edition(&self) -> u64 {
        self.config.lock().0
    }

    /// Waits until the cable is cut; normally forever.
    pub(crate) async fn severed(&self) {
        // With the sender dropped, the cable can no longer be cut.
        if self.cut.clone().wait_for(|cut| *cut).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Connects, and returns the edition of the certificate used.
    pub(crate) async fn connect(&self) -> Result<(Stream, u64), CallError> {
        self.connect_to(&self.address).await
    }

    /// Connects to a replica other than the default one. It must present a certificate of the same authority.
    pub(crate) async fn connect_to(&self, address: &Address) -> Result<(Stream, u64), CallError> {
        let unreachable = |why: String| CallError::Unreachable(format!("{address}: {why}"));
        let (edition, config) = self.config.lock().clone();
        let name = address.server_name().map_err(|error| unreachable(error.to_string()))?;
        let connect = async {
            let stream = TcpStream::connect((address.host(), address.port())).await?;
            stream.set_nodelay(true)?;
            TlsConnector::from(config).connect(name, stream).await
        };
        match tokio::time::timeout(CONNECT_WITHIN, connect).await {
            Ok(Ok(stream)) => Ok((TokioIo::new(stream), edition)),
            Ok(Err(error)) => Err(unreachable(error.to_string())),
            Err(_) => Err(unreachable("no answer within ten seconds".to_owned())),
        }
    }
}
