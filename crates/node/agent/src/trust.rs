//! TLS trust of the agent: after joining, only the authority that signed its certificate; while joining, only the authority
//! with the fingerprint from the operator.

use std::sync::{Arc, LazyLock};

use muster_ids::Env;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sha2::{Digest as _, Sha256};

use crate::AgentError;
use crate::identity::{Identity, certificates};

/// Method by which a joining machine authenticates the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// SHA-256 of its authority's certificate.
    Fingerprint([u8; 32]),
    /// None: any server is accepted. For laboratories.
    FirstUse,
}

impl Trust {
    /// Parses 64 hexadecimal digits, with or without colons.
    pub fn fingerprint(text: &str) -> Result<Self, AgentError> {
        let digits: String = text.chars().filter(|letter| *letter != ':').collect();
        let wrong = || AgentError::Refused(format!("{text:?} is not a SHA-256: write 64 hexadecimal digits"));
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self::Fingerprint(bytes))
    }

    pub(crate) fn accepts(self, certificate: &CertificateDer<'_>) -> bool {
        match self {
            Self::Fingerprint(expected) => sha256(certificate) == expected,
            Self::FirstUse => true,
        }
    }
}

pub(crate) fn sha256(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

/// Shared: each provider holds its lists of algorithms, and a simulated fleet has a thousand configurations.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// The agent's clock for TLS, so that a test that moves the clock also expires certificates.
#[derive(Debug)]
struct WorldTime(Env);

impl rustls::time_provider::TimeProvider for WorldTime {
    fn current_time(&self) -> Option<UnixTime> {
        let since = std::time::Duration::try_from(self.0.now().as_duration()).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}

fn builder(env: &Env) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, AgentError> {
    ClientConfig::builder_with_details(PROVIDER.clone(), Arc::new(WorldTime(env.clone())))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| AgentError::Refused(format!("TLS cannot be set up: {error}")))
}

/// Disables resumption: connections are few and long-lived, so cached sessions would only take memory.
fn finish(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Returns the configuration of a joined node.
pub(crate) fn joined(identity: &Identity, env: &Env) -> Result<Arc<ClientConfig>, AgentError> {
    let config = builder(env)?
        .with_root_certificates(roots(&certificates(&identity.authority)?)?)
        .with_client_auth_cert(certificates(&identity.certificate)?, identity.private_key()?)
        .map_err(|error| {
            AgentError::Refused(format!("the node's certificate and key do not match: {error}"))
        })?;
    Ok(finish(config))
}

/// Returns the configuration of a joining machine.
pub(crate) fn joining(trust: Trust, env: &Env) -> Result<Arc<ClientConfig>, AgentError> {
    let config = builder(env)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Joining(trust)))
        .with_no_client_auth();
    Ok(finish(config))
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, AgentError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.map_err(|error| {
            AgentError::Refused(format!("the authority's certificate is invalid: {error}"))
        })?;
    }
    Ok(roots)
}

/// Takes the matching authority from the chain that the server presents, and verifies the rest against it by the usual
/// rules. Only the choice of the root differs.
#[derive(Debug)]
struct Joining(Trust);

impl ServerCertVerifier for Joining {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The authority is sent last; on first use only its position identifies it.
        let authority = intermediates.iter().rev().find(|certificate| self.0.accepts(certificate));
        let Some(authority) = authority else {
            return Err(Error::General(
                "the server's authority does not match the given fingerprint: do not join, and ask the operator"
                    .to_owned(),
            ));
        };
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), PROVIDER.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            dss,
            &PROVIDER.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            dss,
            &PROVIDER.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::Trust;

    #[test]
    fn a_fingerprint_is_sixty_four_digits_with_or_without_colons() {
        let plain = "ab".repeat(32);
        let colons = vec!["AB"; 32].join(":");
        assert_eq!(Trust::fingerprint(&plain).unwrap(), Trust::Fingerprint([0xab; 32]));
        assert_eq!(Trust::fingerprint(&colons).unwrap(), Trust::Fingerprint([0xab; 32]));
        for wrong in ["", "ab", &"zz".repeat(32), &"é".repeat(32)] {
            assert!(Trust::fingerprint(wrong).is_err(), "{wrong}");
        }
    }
}
