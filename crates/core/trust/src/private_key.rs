//! Signing keys. The command line creates and uses them for artifacts; a server holds only its own for audit heads.
//!
//! Only unencrypted PKCS#8 is supported: cosign's encrypted files would need its password scheme (scrypt and NaCl), and
//! users of cosign can sign with it.

use std::fmt;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use zeroize::Zeroizing;

use crate::{PublicKey, pem};

const LABEL: &str = "PRIVATE KEY";

/// Why a text is no usable private key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrivateKeyError {
    /// It is not PEM, or not a single block of it.
    #[error("this is not a private key: {0}")]
    Pem(String),
    /// It is in a legacy format.
    #[error("this key has the legacy format {0:?}: rewrite it with `openssl pkcs8 -topk8 -nocrypt`")]
    OldForm(String),
    /// It is encrypted by OpenSSL.
    #[error(
        "this key is encrypted: decrypt it with `openssl pkcs8 -topk8 -nocrypt` into a file that only you can read"
    )]
    Encrypted,
    /// It is encrypted by cosign.
    #[error(
        "this key is encrypted by cosign: sign with `cosign sign --key`, or create an unencrypted key with `openssl genpkey`"
    )]
    Cosign,
    /// It is a public key.
    #[error("this is a public key, and signing needs the private one")]
    Public,
    /// It is another kind of block.
    #[error("this is a PEM block named {0:?}, expected \"PRIVATE KEY\"")]
    Label(String),
    /// It is damaged, or an unsupported kind of key.
    #[error(
        "this key is invalid, or not an ECDSA (P-256, P-384) or Ed25519 key: create one with `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`"
    )]
    Unknown,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A private key. It is exposed only as PEM, on request.
pub struct PrivateKey {
    pair: Pair,
    public: PublicKey,
}

impl PrivateKey {
    /// Generates an ECDSA key on P-256, like cosign, from the system's randomness.
    pub fn generate() -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
            .expect("AWS-LC ends the process where the system has no randomness, and fails for nothing else");
        Self::of(Pair::Ecdsa(pair)).expect("a key that was just made has a public part")
    }

    /// Generates an Ed25519 key from the system's randomness.
    pub fn generate_ed25519() -> Self {
        let pair = Ed25519KeyPair::generate()
            .expect("AWS-LC ends the process where the system has no randomness, and fails for nothing else");
        Self::of(Pair::Ed25519(pair)).expect("a key that was just made has a public part")
    }

    /// Parses a key as written by `openssl genpkey` and [`Self::to_pem`].
    pub fn from_pem(text: &str) -> Result<Self, PrivateKeyError> {
        match pem::label(text) {
            // `openssl ecparam -genkey` writes the curve first, in a block of its own.
            Some("EC PARAMETERS") => return Err(PrivateKeyError::OldForm("EC PRIVATE KEY".into())),
            Some(label @ ("EC PRIVATE KEY" | "RSA PRIVATE KEY" | "DSA PRIVATE KEY")) => {
                return Err(PrivateKeyError::OldForm(label.into()));
            }
            Some("ENCRYPTED PRIVATE KEY") => return Err(PrivateKeyError::Encrypted),
            Some("ENCRYPTED COSIGN PRIVATE KEY" | "ENCRYPTED SIGSTORE PRIVATE KEY") => {
                return Err(PrivateKeyError::Cosign);
            }
            Some("PUBLIC KEY") => return Err(PrivateKeyError::Public),
            Some(label) if label != LABEL => return Err(PrivateKeyError::Label(crate::shown(label))),
            _ => {}
        }
        let der = pem::read(text).map_err(|why| PrivateKeyError::Pem(why.to_string()))?;
        for curve in [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING] {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(curve, &der) {
                return Self::of(Pair::Ecdsa(pair)).ok_or(PrivateKeyError::Unknown);
            }
        }
        let pair = Ed25519KeyPair::from_pkcs8(&der).map_err(|_| PrivateKeyError::Unknown)?;
        Self::of(Pair::Ed25519(pair)).ok_or(PrivateKeyError::Unknown)
    }

    fn of(pair: Pair) -> Option<Self> {
        let der = match &pair {
            Pair::Ecdsa(pair) => pair.public_key().as_der(),
            Pair::Ed25519(pair) => pair.public_key().as_der(),
        };
        let public = PublicKey::from_der(der.ok()?.as_ref()).ok()?;
        Some(Self { pair, public })
    }

    /// Returns the key as PKCS#8 in PEM form. The text is wiped when it is dropped.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let document = match &self.pair {
            Pair::Ecdsa(pair) => pair.to_pkcs8v1(),
            Pair::Ed25519(pair) => pair.to_pkcs8v1(),
        };
        pem::write(LABEL, document.expect("a key that is in memory can be written down").as_ref())
    }

    /// Returns the public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs these bytes: ECDSA with the hash of its curve's size, in ASN.1; or Ed25519.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let signature = match &self.pair {
            Pair::Ecdsa(pair) => pair.sign(&SystemRandom::new(), bytes),
            Pair::Ed25519(pair) => pair.try_sign(bytes),
        };
        signature.expect("a key that was read can sign: its parts were checked then").as_ref().to_vec()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey of {:?}", self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;

    #[test]
    fn a_new_key_signs_and_comes_back_from_its_pem() {
        let key = PrivateKey::generate();
        assert_eq!(key.public().algorithm(), Algorithm::EcdsaP256);
        let again = PrivateKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(again.public(), key.public());
        let signature = again.sign(b"content");
        assert!(key.public().verify(b"content", &signature));
        assert!(!key.public().verify(b"Content", &signature));
        assert!(!PrivateKey::generate().public().verify(b"content", &signature));
    }

    #[test]
    fn a_private_key_is_not_shown_by_accident() {
        let key = PrivateKey::generate();
        let pem = key.to_pem();
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.public().fingerprint()));
        let secret: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        assert!(secret.len() > 100 && !shown.contains(&secret[..16]));
    }

    #[test]
    fn unusable_private_key_is_refused_with_the_next_step() {
        let block = |label: &str| pem::write(label, b"whatever").to_string();
        for (text, says) in [
            (block("EC PRIVATE KEY"), "openssl pkcs8 -topk8 -nocrypt"),
            (block("EC PARAMETERS") + &block("EC PRIVATE KEY"), "openssl pkcs8 -topk8 -nocrypt"),
            (block("RSA PRIVATE KEY"), "openssl pkcs8 -topk8 -nocrypt"),
            (block("ENCRYPTED PRIVATE KEY"), "decrypt it"),
            (block("ENCRYPTED SIGSTORE PRIVATE KEY"), "cosign sign --key"),
            (PrivateKey::generate().public().to_pem(), "needs the private one"),
            (block("CERTIFICATE"), "CERTIFICATE"),
            (block("PRIVATE KEY"), "openssl genpkey"),
            ("words".into(), "-----BEGIN"),
        ] {
            let why = PrivateKey::from_pem(&text).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        }
    }
}
