//! The platform's own certificate authority: it tells nodes from strangers, and tells nodes that they reached us.
//!
//! It is made once for a database and never leaves it in clear. A node's certificate is short-lived instead of revocable:
//! whether the node is still ours, and whether the key is the one it has now, is asked of the store with every request, and
//! what is left to a thief ends by itself.

use std::net::IpAddr;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use muster_api::{Code, Problem};
use muster_db::{Authority as Row, KeyHash};
use muster_ids::{NodeId, World};
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
/// What the sealed key is bound to.
const CONTEXT: &str = "authority nodes";
const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 3652);
const SERVER_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 30);
/// A machine whose clock is a little behind would else refuse what is new.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Before a node's id in its certificate.
const SPIFFE: &str = "spiffe://muster/node/";

/// The authority, opened.
pub(crate) struct Authority {
    der: Vec<u8>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate for a node.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The certificate, as PEM.
    pub certificate: String,
    /// The authority's, as PEM.
    pub authority: String,
    /// When it ends.
    pub until: Timestamp,
    /// The key it is for.
    pub key: KeyHash,
}

/// A certificate for the listener that nodes dial.
pub struct ServerCertificate {
    /// It, and the authority's, as DER: whoever knows only the authority's fingerprint must be shown the authority.
    pub chain: Vec<Vec<u8>>,
    /// Its key, as PKCS #8.
    pub key: Zeroizing<Vec<u8>>,
    /// When it ends.
    pub until: Timestamp,
}

/// Whom a client certificate names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// When the certificate ends.
    pub until: Timestamp,
    /// The key it is for.
    pub key: KeyHash,
}

fn broken(error: impl std::fmt::Display) -> Problem {
    tracing::error!(%error, "the certificate authority failed");
    Problem::new(Code::Internal, "the server failed; give the correlation id to the operator")
}

fn params(
    world: &World,
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
    let mut serial = world.bytes::<16>();
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.use_authority_key_identifier_extension = true;
    (params, until)
}

async fn authority(platform: &Platform) -> Result<&Authority> {
    platform.fleet.authority.get_or_try_init(|| load(platform)).await
}

/// Replicas that start at once may each make one; the first to write it down wins, and all use that.
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
    let now = platform.world.now();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(broken)?;
    let (mut params, _) = params(&platform.world, "Muster node authority", now, LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(broken)?.pem();
    let plain = Zeroizing::new(key.serialize_der());
    let sealed_key = platform.envelope.seal(&platform.store, PLATFORM, CONTEXT, &plain).await?;
    let key_version = sealed_key.first_chunk::<4>().map_or(0, |version| u32::from_be_bytes(*version));
    Ok(Row { certificate, sealed_key, key_version: key_version.into(), created_at: now })
}

/// SHA-256 of the authority's certificate, in hexadecimal: what a machine that joins is told to expect.
pub async fn fingerprint(platform: &Platform) -> Result<String> {
    Ok(muster_model::hex::encode(&Sha256::digest(&authority(platform).await?.der)))
}

/// The authority's certificate, as PEM.
pub async fn certificate(platform: &Platform) -> Result<String> {
    Ok(authority(platform).await?.pem.clone())
}

/// A certificate for a node's agent. Of the request only the key counts; who the node is and for how long is ours to say.
pub async fn issue_node(platform: &Platform, csr: &str, node: NodeId, now: Timestamp) -> Result<Issued> {
    let key = requested_key(csr)?;
    let authority = authority(platform).await?;
    let lifetime = platform.options.node_certificate;
    let (mut params, until) = params(&platform.world, &node.to_string(), now, lifetime);
    let name = format!("{SPIFFE}{node}").try_into().map_err(broken)?;
    params.subject_alt_names = vec![SanType::URI(name)];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &authority.issuer).map_err(broken)?;
    let (certificate, authority) = (certificate.pem(), authority.pem.clone());
    Ok(Issued { certificate, authority, until, key: sha256(&key) })
}

/// The key of a certificate request, by its SHA-256: the same as of a certificate that was issued for it.
pub fn requested(csr: &str) -> Result<KeyHash> {
    requested_key(csr).map(|key| sha256(&key))
}

fn sha256(key: &SubjectPublicKeyInfo) -> KeyHash {
    Sha256::digest(key.subject_public_key_info()).into()
}

/// The key of a request, if the request is signed with it.
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

/// A certificate for the listener that nodes dial, under these names and addresses.
pub async fn server_certificate(
    platform: &Platform,
    names: &[String],
    now: Timestamp,
) -> Result<ServerCertificate> {
    let authority = authority(platform).await?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(broken)?;
    let (mut params, until) = params(&platform.world, "Muster server", now, SERVER_LIFETIME);
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

/// Whom a certificate names. The handshake has verified who signed it; this only reads.
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
