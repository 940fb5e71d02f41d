//! The platform's certificate authority: it authenticates nodes to the server and the server to nodes.
//!
//! It is created once per database, and its key is stored only sealed. Node certificates are short-lived instead of
//! revocable: every request checks in the store whether the node is still enrolled and the key is its current one, and a
//! stolen certificate soon expires.

use std::net::IpAddr;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use muster_api::{Code, Problem};
use muster_db::{Authority as Row, KeyHash};
use muster_ids::{Env, NodeId};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
    PublicKeyData as _, SanType, SerialNumber, SubjectPublicKeyInfo,
};
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate, X509CertificationRequest};
use zeroize::Zeroizing;

use crate::Platform;
use crate::envelope::PLATFORM;
use crate::refuse::{Result, refuse};

const NAME: &str = "nodes";
/// Encryption context of the sealed key.
const CONTEXT: &str = "authority nodes";
const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 3652);
const SERVER_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Backdating of certificates: a machine with a slow clock would otherwise reject a new one.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Prefix of a node's id in its certificate.
const SPIFFE: &str = "spiffe://muster/node/";

/// The unsealed authority.
pub(crate) struct Authority {
    der: Vec<u8>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
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

fn broken(error: impl std::fmt::Display) -> Problem {
    tracing::error!(%error, "the certificate authority failed");
    Problem::new(Code::Internal, "the server failed; give the correlation id to the operator")
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

async fn authority(platform: &Platform) -> Result<&Authority> {
    platform.fleet.authority.get_or_try_init(|| load(platform)).await
}

/// Loads or creates the authority. Replicas that start concurrently may each create one; the first to commit wins, and all
/// use that one.
async fn load(platform: &Platform) -> Result<Authority> {
    let store = &platform.store;
    let row = match store.authority_lookup(NAME).await.map_err(refuse)? {
        Some(row) => row,
        None => {
            let made = make(platform).await?;
            let mut tx = store.begin().await.map_err(refuse)?;
            tx.authority_put(NAME, &made).await.map_err(refuse)?;
            tx.commit().await.map_err(refuse)?;
            store.authority_lookup(NAME).await.map_err(refuse)?.ok_or_else(|| broken("it was not kept"))?
        }
    };
    let key = platform.envelope.open(store, PLATFORM, CONTEXT, &row.sealed_key).await?;
    let key = KeyPair::try_from(key.as_slice()).map_err(broken)?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(row.certificate.as_bytes()).map_err(broken)?;
    let issuer = Issuer::from_ca_cert_pem(&row.certificate, key).map_err(broken)?;
    Ok(Authority { der: pem.contents, pem: row.certificate, issuer })
}

async fn make(platform: &Platform) -> Result<Row> {
    let now = platform.env.now();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(broken)?;
    let (mut params, _) = params(&platform.env, "Muster node authority", now, LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(broken)?.pem();
    let plain = Zeroizing::new(key.serialize_der());
    let sealed_key = platform.envelope.seal(&platform.store, PLATFORM, CONTEXT, &plain).await?;
    let key_version = sealed_key.first_chunk::<4>().map_or(0, |version| u32::from_be_bytes(*version));
    Ok(Row { certificate, sealed_key, key_version: key_version.into(), created_at: now })
}

/// Returns the SHA-256 of the authority's certificate in hexadecimal, which a joining machine pins.
pub async fn fingerprint(platform: &Platform) -> Result<String> {
    Ok(muster_model::hex::encode(&Sha256::digest(&authority(platform).await?.der)))
}

/// Returns the authority's certificate in PEM.
pub async fn certificate(platform: &Platform) -> Result<String> {
    Ok(authority(platform).await?.pem.clone())
}

/// Issues a certificate for a node's agent. Only the public key is taken from the request; the server sets identity and
/// lifetime.
pub async fn issue_node(platform: &Platform, csr: &str, node: NodeId, now: Timestamp) -> Result<Issued> {
    let key = requested_key(csr)?;
    let authority = authority(platform).await?;
    let lifetime = platform.options.node_certificate;
    let (mut params, until) = params(&platform.env, &node.to_string(), now, lifetime);
    let name = format!("{SPIFFE}{node}").try_into().map_err(broken)?;
    params.subject_alt_names = vec![SanType::URI(name)];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &authority.issuer).map_err(broken)?;
    let (certificate, authority) = (certificate.pem(), authority.pem.clone());
    Ok(Issued { certificate, authority, until, key: sha256(&key) })
}

/// Returns the SHA-256 of the key in a certificate request, equal to that of a certificate issued for it.
pub fn requested(csr: &str) -> Result<KeyHash> {
    requested_key(csr).map(|key| sha256(&key))
}

fn sha256(key: &SubjectPublicKeyInfo) -> KeyHash {
    Sha256::digest(key.subject_public_key_info()).into()
}

/// Returns the public key of a request, after verifying that the request is signed with it.
fn requested_key(csr: &str) -> Result<SubjectPublicKeyInfo> {
    let refused = |why: &str| Problem::field("/csr", why);
    let (_, pem) = x509_parser::pem::parse_x509_pem(csr.as_bytes()).map_err(|_| refused("it is not PEM"))?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents)
        .map_err(|_| refused("it is not a certificate request"))?;
    request.verify_signature().map_err(|_| refused("it is not signed with the key that it names"))?;
    let key = SubjectPublicKeyInfo::from_der(request.certification_request_info.subject_pki.raw);
    let ours = [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519];
    key.ok()
        .filter(|key| ours.contains(&key.algorithm()))
        .ok_or_else(|| refused("its key should be ECDSA on P-256 or P-384, or Ed25519"))
}

/// Issues a certificate for the listener that nodes connect to, for these names and addresses.
pub async fn server_certificate(
    platform: &Platform,
    names: &[String],
    now: Timestamp,
) -> Result<ServerCertificate> {
    let authority = authority(platform).await?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(broken)?;
    let (mut params, until) = params(&platform.env, "Muster server", now, SERVER_LIFETIME);
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
