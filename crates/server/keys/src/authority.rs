//! The platform's certificate authority: it authenticates nodes to the server and the server to nodes.
//!
//! It is created once per database, and its key is stored only sealed. Node certificates are short-lived instead of
//! revocable: every request checks in the store whether the node is still enrolled and the key is its current one, and a
//! stolen certificate soon expires.

use std::net::IpAddr;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use muster_db::{Authority as Row, KeyHash, Store};
use muster_ids::{Env, NodeId};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
    PublicKeyData as _, SanType, SerialNumber, SubjectPublicKeyInfo,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate, X509CertificationRequest};
use zeroize::Zeroizing;

use crate::envelope::{Envelope, PLATFORM, key_version};
use crate::error::{KeyError, Result};

const NAME: &str = "nodes";
/// Encryption context of the sealed key.
const CONTEXT: &str = "authority nodes";
const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 3652);
const SERVER_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Backdating of certificates: a machine with a slow clock would otherwise reject a new one.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Prefix of a node's id in its certificate.
const SPIFFE: &str = "spiffe://muster/node/";

/// The authority, loaded or created on first use.
#[derive(Default)]
pub struct Authority {
    unsealed: OnceCell<Unsealed>,
}

struct Unsealed {
    der: Vec<u8>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Where the authority is stored, and how it is sealed.
#[derive(Clone, Copy)]
pub struct Custody<'a> {
    /// The database.
    pub store: &'a Store,
    /// Seals its key.
    pub envelope: &'a Envelope,
    /// Time and randomness.
    pub env: &'a Env,
}

/// A certificate for a node.
#[derive(Debug, Clone)]
pub struct Issued {
    /// Certificate in PEM.
    pub certificate: String,
    /// The authority's certificate in PEM.
    pub authority: String,
    /// Expiry.
    pub until: Timestamp,
    /// Hash of its public key.
    pub key: KeyHash,
}

/// A certificate for the listener that nodes connect to.
pub struct ServerCertificate {
    /// Certificate and authority certificate in DER: a joining client knows only the authority's fingerprint, so it needs
    /// the whole chain.
    pub chain: Vec<Vec<u8>>,
    /// Private key in PKCS #8.
    pub key: Zeroizing<Vec<u8>>,
    /// Expiry.
    pub until: Timestamp,
}

/// Identity in a client certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// Expiry of the certificate.
    pub until: Timestamp,
    /// Hash of its public key.
    pub key: KeyHash,
}

fn broken(error: impl std::fmt::Display) -> KeyError {
    KeyError::Authority(error.to_string())
}

fn params(
    env: &Env,
    common_name: &str,
    from: Timestamp,
    lifetime: SignedDuration,
) -> (CertificateParams, Timestamp) {
    let until = from + lifetime;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = SystemTime::from(from - BACKDATE).into();
    params.not_after = SystemTime::from(until).into();
    let mut serial = env.bytes::<16>();
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.use_authority_key_identifier_extension = true;
    (params, until)
}

impl Authority {
    async fn unsealed(&self, custody: Custody<'_>) -> Result<&Unsealed> {
        self.unsealed.get_or_try_init(|| load(custody)).await
    }

    /// Returns the SHA-256 of the authority's certificate in hexadecimal, which a joining machine pins.
    pub async fn fingerprint(&self, custody: Custody<'_>) -> Result<String> {
        Ok(muster_model::hex::encode(&Sha256::digest(&self.unsealed(custody).await?.der)))
    }

    /// Returns the authority's certificate in PEM.
    pub async fn certificate(&self, custody: Custody<'_>) -> Result<String> {
        Ok(self.unsealed(custody).await?.pem.clone())
    }

    /// Issues a certificate for a node's agent. Only the public key is taken from the request; the server sets identity and
    /// lifetime.
    pub async fn issue_node(
        &self,
        custody: Custody<'_>,
        request: &CertificateRequest,
        node: NodeId,
        (now, lifetime): (Timestamp, SignedDuration),
    ) -> Result<Issued> {
        let authority = self.unsealed(custody).await?;
        let (mut params, until) = params(custody.env, &node.to_string(), now, lifetime);
        let name = format!("{SPIFFE}{node}").try_into().map_err(broken)?;
        params.subject_alt_names = vec![SanType::URI(name)];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&request.key, &authority.issuer).map_err(broken)?;
        let (certificate, authority) = (certificate.pem(), authority.pem.clone());
        Ok(Issued { certificate, authority, until, key: request.key_hash() })
    }

    /// Issues a certificate for the listener that nodes connect to, for these names and addresses.
    pub async fn issue_server(
        &self,
        custody: Custody<'_>,
        names: &[String],
        now: Timestamp,
    ) -> Result<ServerCertificate> {
        let authority = self.unsealed(custody).await?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(broken)?;
        let (mut params, until) = params(custody.env, "Muster server", now, SERVER_LIFETIME);
        for name in names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into().map_err(broken)?),
            });
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &authority.issuer).map_err(broken)?;
        let chain = vec![certificate.der().to_vec(), authority.der.clone()];
        Ok(ServerCertificate { chain, key: Zeroizing::new(key.serialize_der()), until })
    }
}

/// Loads or creates the authority. Replicas that start concurrently may each create one; the first to commit wins, and all
/// use that one.
async fn load(custody: Custody<'_>) -> Result<Unsealed> {
    let Custody { store, envelope, .. } = custody;
    let row = match store.authority_lookup(NAME).await? {
        Some(row) => row,
        None => {
            let made = make(custody).await?;
            let mut tx = store.begin().await?;
            tx.authority_put(NAME, &made).await?;
            tx.commit().await?;
            store.authority_lookup(NAME).await?.ok_or_else(|| broken("it was not stored"))?
        }
    };
    let key = envelope.open(store, PLATFORM, CONTEXT, &row.sealed_key).await?;
    let key = KeyPair::try_from(key.as_slice()).map_err(broken)?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(row.certificate.as_bytes()).map_err(broken)?;
    let issuer = Issuer::from_ca_cert_pem(&row.certificate, key).map_err(broken)?;
    Ok(Unsealed { der: pem.contents, pem: row.certificate, issuer })
}

async fn make(custody: Custody<'_>) -> Result<Row> {
    let now = custody.env.now();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(broken)?;
    let (mut params, _) = params(custody.env, "Muster node authority", now, LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(broken)?.pem();
    let plain = Zeroizing::new(key.serialize_der());
    let sealed_key = custody.envelope.seal(custody.store, PLATFORM, CONTEXT, &plain).await?;
    let key_version = key_version(&sealed_key).unwrap_or(0);
    Ok(Row { certificate, sealed_key, key_version, created_at: now })
}

/// The public key of a certificate request, after verifying that the request is signed with it.
pub struct CertificateRequest {
    key: SubjectPublicKeyInfo,
}

impl CertificateRequest {
    /// Parses a request in PEM.
    pub fn parse(csr: &str) -> Result<Self> {
        let refused = KeyError::Request;
        let (_, pem) =
            x509_parser::pem::parse_x509_pem(csr.as_bytes()).map_err(|_| refused("it is not PEM"))?;
        let (_, request) = X509CertificationRequest::from_der(&pem.contents)
            .map_err(|_| refused("it is not a certificate request"))?;
        request.verify_signature().map_err(|_| refused("it is not signed with its own key"))?;
        let key = SubjectPublicKeyInfo::from_der(request.certification_request_info.subject_pki.raw);
        let ours = [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519];
        key.ok()
            .filter(|key| ours.contains(&key.algorithm()))
            .map(|key| Self { key })
            .ok_or(refused("its key must be ECDSA on P-256 or P-384, or Ed25519"))
    }

    /// Returns the SHA-256 of its key, equal to that of a certificate issued for it.
    pub fn key_hash(&self) -> KeyHash {
        Sha256::digest(self.key.subject_public_key_info()).into()
    }
}

/// Returns the identity in a certificate. The handshake has already verified the issuer; this only parses.
pub fn identity(certificate: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let names = certificate.subject_alternative_name().ok()??;
    let node = names.value.general_names.iter().find_map(|name| match name {
        GeneralName::URI(uri) => uri.strip_prefix(SPIFFE)?.parse().ok(),
        _ => None,
    })?;
    let until = Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?;
    Some(Identity { node, until, key: Sha256::digest(certificate.public_key().raw).into() })
}
