//! Verification keys.
//!
//! A key has exactly one form here, the canonical DER of its SubjectPublicKeyInfo: its fingerprint is computed over that, so
//! that one key cannot be added twice, or be revoked in one form and stay trusted in another. Other forms are rejected with
//! the command that rewrites them.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest as hash;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::{Digest, pem};

const LABEL: &str = "PUBLIC KEY";
/// Object identifier of elliptic curve keys in a SubjectPublicKeyInfo.
const EC_PUBLIC_KEY: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// Object identifier of RSA keys for any use, with the empty parameters that follow it.
const RSA_ENCRYPTION: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// Kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256: cosign's default.
    #[serde(rename = "ecdsa-p256")]
    EcdsaP256,
    /// ECDSA on P-384, with SHA-384 or SHA-256: signers differ, and both are sound.
    #[serde(rename = "ecdsa-p384")]
    EcdsaP384,
    /// Ed25519.
    #[serde(rename = "ed25519")]
    Ed25519,
    /// RSA of 2048 to 8192 bits with SHA-256, padded by PKCS#1 v1.5 or PSS.
    #[serde(rename = "rsa")]
    Rsa,
}

impl Algorithm {
    /// All values.
    pub const ALL: [Self; 4] = [Self::EcdsaP256, Self::EcdsaP384, Self::Ed25519, Self::Rsa];

    /// Returns its name in rows and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ecdsa-p256",
            Self::EcdsaP384 => "ecdsa-p384",
            Self::Ed25519 => "ed25519",
            Self::Rsa => "rsa",
        }
    }

    /// Returns the signature schemes of this kind of key.
    fn schemes(self) -> &'static [&'static dyn VerificationAlgorithm] {
        match self {
            Self::EcdsaP256 => &[&ECDSA_P256_SHA256_ASN1],
            Self::EcdsaP384 => &[&ECDSA_P384_SHA384_ASN1, &ECDSA_P384_SHA256_ASN1],
            Self::Ed25519 => &[&ED25519],
            Self::Rsa => &[&RSA_PKCS1_2048_8192_SHA256, &RSA_PSS_2048_8192_SHA256],
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a text is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyError {
    /// It is not PEM, or not a single block of it.
    #[error("this is not a public key: {0}")]
    Pem(String),
    /// It is a certificate.
    #[error(
        "this is a certificate, and only keys are trusted here: extract the key with `openssl x509 -pubkey -noout`"
    )]
    Certificate,
    /// It is a private key, which has now been disclosed.
    #[error(
        "this is a private key, which must stay with its owner: give the public one (`openssl pkey -pubout`), and consider a new pair"
    )]
    Private,
    /// It is another kind of block.
    #[error(
        "this is a PEM block named {0:?}, expected \"PUBLIC KEY\": `openssl pkey -pubin -pubout` writes it"
    )]
    Label(String),
    /// It is a key on an unsupported curve.
    #[error("this key is on another curve than P-256 and P-384: create one with `cosign generate-key-pair`")]
    Curve,
    /// It is an RSA key that is too short or too long.
    #[error("this RSA key has {0} bits, and 2048 to 8192 are accepted: create a longer one, or an ECDSA key")]
    RsaBits(usize),
    /// It is damaged, or an unsupported kind of key.
    #[error("this key is invalid, or not an ECDSA (P-256, P-384), Ed25519 or RSA key")]
    Unknown,
    /// It is a key in a non-canonical form.
    #[error(
        "this key is not in its canonical form: rewrite it with `openssl pkey -pubin -pubout -ec_conv_form uncompressed`"
    )]
    Form,
}

/// A signed message, for verification.
#[derive(Clone, Copy)]
pub(crate) enum Message<'a> {
    /// The bytes themselves.
    Bytes(&'a [u8]),
    /// Only their SHA-256. Ed25519 and signatures with another hash cannot be verified by it.
    Sha256(&'a Digest),
}

/// A public key.
#[derive(Clone)]
pub struct PublicKey {
    algorithm: Algorithm,
    der: Arc<[u8]>,
    schemes: Arc<[ParsedPublicKey]>,
}

impl PublicKey {
    /// Parses a key in PEM form (`-----BEGIN PUBLIC KEY-----`).
    pub fn from_pem(text: &str) -> Result<Self, PublicKeyError> {
        match pem::label(text) {
            Some("CERTIFICATE" | "TRUSTED CERTIFICATE" | "X509 CERTIFICATE") => {
                return Err(PublicKeyError::Certificate);
            }
            Some(label) if label.ends_with("PRIVATE KEY") => return Err(PublicKeyError::Private),
            Some("EC PARAMETERS") if text.contains("PRIVATE KEY-----") => {
                return Err(PublicKeyError::Private);
            }
            Some(label) if label != LABEL => return Err(PublicKeyError::Label(crate::shown(label))),
            _ => {}
        }
        let der = pem::read(text).map_err(|why| PublicKeyError::Pem(why.to_string()))?;
        Self::from_der(&der)
    }

    /// Parses a key in DER form (a SubjectPublicKeyInfo).
    pub fn from_der(der: &[u8]) -> Result<Self, PublicKeyError> {
        for algorithm in Algorithm::ALL {
            let parsed = algorithm.schemes().iter().map(|scheme| ParsedPublicKey::new(*scheme, der));
            let Ok(schemes) = parsed.collect::<Result<Vec<_>, _>>() else { continue };
            let canonical = schemes[0].as_der().map_err(|_| PublicKeyError::Unknown)?;
            if algorithm == Algorithm::Rsa {
                rsa_fits(canonical.as_ref())?;
            }
            if canonical.as_ref() != der {
                return Err(PublicKeyError::Form);
            }
            return Ok(Self { algorithm, der: der.into(), schemes: schemes.into() });
        }
        let head = &der[..der.len().min(32)];
        if head.windows(EC_PUBLIC_KEY.len()).any(|window| window == EC_PUBLIC_KEY) {
            return Err(PublicKeyError::Curve);
        }
        Err(PublicKeyError::Unknown)
    }

    /// Returns the kind of key.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the canonical DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the key as PEM, always the same text for the same key.
    pub fn to_pem(&self) -> String {
        pem::write(LABEL, &self.der).to_string()
    }

    /// Returns `SHA256:` and the SHA-256 over the DER in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", Digest::of(&self.der).hex())
    }

    /// Reports whether this key signed these bytes.
    pub fn verify(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.verifies(Message::Bytes(bytes), signature)
    }

    pub(crate) fn verifies(&self, message: Message<'_>, signature: &[u8]) -> bool {
        self.schemes.iter().any(|scheme| match message {
            Message::Bytes(bytes) => scheme.verify_sig(bytes, signature).is_ok(),
            Message::Sha256(digest) => hash::Digest::import_less_safe(digest.bytes(), &hash::SHA256)
                .and_then(|digest| scheme.verify_digest_sig(&digest, signature))
                .is_ok(),
        })
    }

    /// Returns the key hint of cosign and the Sigstore libraries: base64 of the SHA-256 over the DER.
    pub(crate) fn sigstore_hint(&self) -> String {
        STANDARD.encode(Digest::of(&self.der).bytes())
    }

    /// Returns the key hint of `model_signing`: the hexadecimal SHA-256 over the PEM. It rejects a bundle with any other
    /// hint.
    pub(crate) fn model_signing_hint(&self) -> String {
        Digest::of(self.to_pem().as_bytes()).hex()
    }
}

/// Checks the length of an RSA key. AWS-LC checks it only on verification; a key that can never verify anything is better
/// rejected when it is added.
fn rsa_fits(der: &[u8]) -> Result<(), PublicKeyError> {
    // After the outer header of four bytes. A key restricted to PSS differs here, and is too rare to support.
    if !der.get(4..).is_some_and(|rest| rest.starts_with(RSA_ENCRYPTION)) {
        return Err(rsa_bits(der).map_or(PublicKeyError::Unknown, PublicKeyError::RsaBits));
    }
    match (PublicEncryptingKey::from_der(der), rsa_bits(der)) {
        (Ok(_), _) => Ok(()),
        (Err(_), Some(bits)) => Err(PublicKeyError::RsaBits(bits)),
        (Err(_), None) => Err(PublicKeyError::Unknown),
    }
}

/// Returns the length of the modulus if the outer structure is unambiguous. For the message only.
fn rsa_bits(der: &[u8]) -> Option<usize> {
    let at = der.windows(RSA_ENCRYPTION.len()).position(|window| window == RSA_ENCRYPTION)?;
    let bit_string = value(der.get(at + RSA_ENCRYPTION.len()..)?, 0x03)?;
    let key = value(bit_string.get(1..)?, 0x30)?;
    let modulus = value(key, 0x02)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let first = modulus.get(zeros)?;
    Some((modulus.len() - zeros) * 8 - first.leading_zeros() as usize)
}

/// Returns the content of the first DER element, if it has this tag.
fn value(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (&found, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81 | 0x82 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.get(..length)).flatten()
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({} {})", self.algorithm, self.fingerprint())
    }
}
