//! TLS of the node listener: version 1.3, a server certificate that is replaced at run time, and client certificates
//! signed by the platform's own authority.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_control::Platform;
use muster_ids::Env;
use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use tokio_rustls::TlsAcceptor;

use crate::StartError;

/// Time before expiry at which the server's certificate is replaced.
const AHEAD: SignedDuration = SignedDuration::from_hours(24 * 10);
const LOOK: Duration = Duration::from_secs(3600);

/// Returns the names and addresses under which agents may dial the server.
pub(super) fn names(address: SocketAddr, hosts: &str, advertised: Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    let advertised = advertised.and_then(|advertised| advertised.rsplit_once(':'));
    names.extend(advertised.map(|(host, _)| host.trim_matches(['[', ']']).to_owned()));
    names.extend(hosts.split(',').map(|host| host.trim().to_owned()).filter(|host| !host.is_empty()));
    names.sort();
    names.dedup();
    names
}

/// The current server certificate.
#[derive(Debug)]
pub(super) struct Certificate {
    names: Vec<String>,
    current: RwLock<(Arc<CertifiedKey>, Timestamp)>,
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().0.clone())
    }
}

impl Certificate {
    /// Replaces the certificate before it expires, until dropped.
    pub(super) async fn run(self: Arc<Self>, platform: Arc<Platform>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let until = self.current.read().1;
            if until - AHEAD > platform.env.now() {
                continue;
            }
            match issue(&platform, &self.names).await {
                Ok(fresh) => *self.current.write() = fresh,
                Err(error) => {
                    tracing::warn!(%error, "the certificate for nodes could not be replaced; retrying")
                }
            }
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

async fn issue(platform: &Platform, names: &[String]) -> Result<(Arc<CertifiedKey>, Timestamp), StartError> {
    let made = platform
        .authority
        .issue_server(platform.custody(), names, platform.env.now())
        .await
        .map_err(|error| StartError::Tls(format!("the certificate for nodes: {error}")))?;
    let chain = made.chain.into_iter().map(CertificateDer::from).collect();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.key.to_vec()));
    let certified = CertifiedKey::from_der(chain, key, &provider())
        .map_err(|error| StartError::Tls(format!("the certificate for nodes: {error}")))?;
    Ok((Arc::new(certified), made.until))
}

/// The platform's clock, so that certificates expire by the same clock as everything else.
#[derive(Debug)]
struct Time(Env);

impl rustls::time_provider::TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        let since_epoch = Duration::try_from(self.0.now().as_duration()).ok()?;
        Some(UnixTime::since_unix_epoch(since_epoch))
    }
}

pub(super) async fn acceptor(
    platform: &Arc<Platform>,
    names: Vec<String>,
) -> Result<(TlsAcceptor, Arc<Certificate>), StartError> {
    let fail = |error: &dyn std::fmt::Display| StartError::Tls(format!("the listener for nodes: {error}"));
    let current = RwLock::new(issue(platform, &names).await?);
    let certificate = Arc::new(Certificate { names, current });
    let pem = platform.authority.certificate(platform.custody()).await.map_err(|error| fail(&error))?;
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| fail(&error))?)
        .map_err(|error| fail(&error))?;
    // A machine that joins has no certificate yet; the request handler decides which endpoints it may use without one.
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| fail(&error))?;
    let mut config =
        rustls::ServerConfig::builder_with_details(provider(), Arc::new(Time(platform.env.clone())))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| fail(&error))?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(certificate.clone());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session would restore the client's certificate without verifying its expiry again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok((TlsAcceptor::from(Arc::new(config)), certificate))
}
