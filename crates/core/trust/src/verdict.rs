//! Decides on the trust in an artifact from all of its signatures.
//!
//! A signature is verified before its content is trusted, and every key is tried regardless of a bundle's hint. One good
//! signature by a trusted key suffices, because any client with push permission can add bad ones. Of several bad ones the
//! reason closest to trust is reported, because the publisher can fix that one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bundle::{Bundle, Content};
use crate::public_key::Message;
use crate::statement::{self, Head, Kind, PAYLOAD_TYPE};
use crate::{Digest, Examination, MOST_PAYLOAD, PublicKey, files, simple};

/// Subject of the decision.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Digest of the manifest.
    pub manifest_digest: Digest,
    /// Titles and digests of its layers, if the artifact consists of files. A signature over files does not cover the
    /// manifest's other parts; pass the files only if nothing else in the manifest has a meaning.
    pub files: Option<&'a [(String, Digest)]>,
}

/// A signature as found. Its digest is that of its blob.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Signature {
    /// Cosign's simple signing.
    Simple {
        /// The document, which is the blob.
        payload: Vec<u8>,
        /// The signature from the annotation.
        signature: Vec<u8>,
        /// Digest of the document.
        digest: Digest,
    },
    /// A Sigstore bundle.
    Bundle {
        /// The bundle, which is the blob.
        json: Vec<u8>,
        /// Digest of the bundle.
        digest: Digest,
    },
}

/// A key that is, or was, trusted for this artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey {
    /// Its id on the platform.
    pub id: String,
    /// The key.
    pub key: PublicKey,
    /// Whether it was revoked. The same key under two ids is revoked if either is.
    pub revoked: bool,
}

/// Whether an artifact is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// A trusted key signed exactly this.
    Trusted {
        /// Id of the key.
        key_id: String,
        /// Digest of the signature.
        signature_digest: Digest,
    },
    /// There is no signature. Attestations do not count.
    Unsigned,
    /// There are signatures, but none by a trusted key over exactly this.
    Untrusted {
        /// The reason.
        reason: Reason,
    },
}

/// Why signatures do not make an artifact trusted. It displays as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum Reason {
    /// A revoked key signed exactly this.
    RevokedKey {
        /// Id of the key.
        key_id: String,
    },
    /// A trusted or revoked key signed something else.
    WrongDigest {
        /// The difference.
        difference: Difference,
    },
    /// The signature names a known key, which did not make it.
    BadSignature {
        /// Id of the key.
        key_id: String,
    },
    /// No known key made the signature.
    OtherKey {
        /// Number of keys tried.
        tried: usize,
    },
    /// The signature is malformed, or a known key signed contradictory content.
    Malformed {
        /// The error.
        why: String,
    },
}

/// Difference between the signed and the actual content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Difference {
    /// Another manifest was signed.
    OtherManifest {
        /// Its digest, if the signature names one.
        signed: Option<Digest>,
    },
    /// Files were signed, but the artifact does not consist of files.
    NotFiles,
    /// A file has different content.
    FileChanged {
        /// Its name.
        name: String,
    },
    /// A file has another name.
    FileRenamed {
        /// Signed name.
        from: String,
        /// Actual name.
        to: String,
    },
    /// A file is missing.
    FileMissing {
        /// Its name.
        name: String,
    },
    /// A file was not signed.
    FileExtra {
        /// Its name.
        name: String,
    },
    /// The artifact has two files of one name.
    FileTwice {
        /// Its name.
        name: String,
    },
}

impl Reason {
    /// Returns its stable identifier.
    pub fn word(&self) -> &'static str {
        match self {
            Self::RevokedKey { .. } => "revoked_key",
            Self::WrongDigest { .. } => "wrong_digest",
            Self::BadSignature { .. } => "bad_signature",
            Self::OtherKey { .. } => "other_key",
            Self::Malformed { .. } => "malformed",
        }
    }

    /// Returns how close it came to trust; the closest is reported.
    pub(crate) fn nearness(&self) -> u8 {
        match self {
            Self::RevokedKey { .. } => 4,
            Self::WrongDigest { .. } => 3,
            Self::BadSignature { .. } => 2,
            Self::OtherKey { .. } => 1,
            Self::Malformed { .. } => 0,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RevokedKey { key_id } => {
                write!(
                    f,
                    "it is signed by the key {key_id}, which was revoked: sign it again with a trusted key"
                )
            }
            Self::WrongDigest { difference } => {
                write!(
                    f,
                    "a known key signed different content: {difference}; sign this content, or push the signed content"
                )
            }
            Self::BadSignature { key_id } => write!(
                f,
                "its signature names the key {key_id} but was not made by it: the signature or its content was changed; sign it again"
            ),
            Self::OtherKey { tried: 0 } => {
                write!(f, "it is signed, and no key is trusted here yet: add the publisher's public key")
            }
            Self::OtherKey { tried } => write!(
                f,
                "it is signed, but by none of the {tried} known keys, or was changed since: sign it with a trusted key, or add the signer's public key"
            ),
            Self::Malformed { why } => write!(f, "its signature is invalid: {why}; sign it again"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherManifest { signed: Some(signed) } => write!(f, "the manifest {signed}"),
            Self::OtherManifest { signed: None } => write!(f, "another manifest"),
            Self::NotFiles => write!(f, "a folder of files, and this artifact is none"),
            Self::FileChanged { name } => write!(f, "the file {name:?} has different content"),
            Self::FileRenamed { from, to } => write!(f, "the file {to:?} was named {from:?}"),
            Self::FileMissing { name } => write!(f, "the file {name:?} is missing"),
            Self::FileExtra { name } => write!(f, "the file {name:?} was not signed"),
            Self::FileTwice { name } => write!(f, "the file {name:?} occurs twice"),
        }
    }
}

impl Signature {
    /// Returns the digest of its blob.
    pub fn digest(&self) -> &Digest {
        match self {
            Self::Simple { digest, .. } | Self::Bundle { digest, .. } => digest,
        }
    }

    /// Returns its blob.
    pub(crate) fn blob(&self) -> &[u8] {
        match self {
            Self::Simple { payload, .. } => payload,
            Self::Bundle { json, .. } => json,
        }
    }

    /// Returns the size of its blob.
    #[expect(clippy::len_without_is_empty, reason = "an empty one is a signature that cannot be read")]
    pub fn len(&self) -> usize {
        self.blob().len()
    }

    /// Returns an identity that only equal signatures share. The blob's own digest would not do: a malformed copy must not
    /// keep the intact one from being examined.
    pub(crate) fn identity(&self) -> Digest {
        let (kind, signature): (u8, &[u8]) = match self {
            Self::Simple { signature, .. } => (0, signature),
            Self::Bundle { .. } => (1, &[]),
        };
        let parts = [Digest::of(self.blob()).to_string(), Digest::of(signature).to_string()];
        Digest::of(format!("{kind} {} {} {}", self.digest(), parts[0], parts[1]).as_bytes())
    }
}

/// Decides whether an artifact is trusted. The first good signature in the given order decides, so that the result is
/// deterministic.
///
/// At most [`crate::MOST_SIGNATURES`] distinct signatures are examined; repeated ones do not count.
pub fn decide(subject: &Subject<'_>, signatures: &[Signature], keys: &[TrustedKey]) -> Verdict {
    let files = subject.files.map(<[_]>::to_vec);
    let mut examination = Examination::new(subject.manifest_digest, files, keys.to_vec());
    for signature in signatures {
        examination.examine(signature);
    }
    examination.verdict()
}

pub(crate) enum Found {
    Trusted(String),
    Attestation,
    Wrong(Reason),
}

/// Content that a signature is over.
enum Claim<'a> {
    Simple(&'a [u8]),
    Statement { head: Head, payload: Vec<u8> },
    Message(Digest),
}

pub(crate) fn examine(subject: &Subject<'_>, signature: &Signature, keys: &[TrustedKey]) -> Found {
    let malformed = |why: String| Found::Wrong(Reason::Malformed { why });
    let (claim, bytes, hint) = match read(signature) {
        Ok(read) => read,
        Err(why) => return malformed(why),
    };
    if let Claim::Statement { head, .. } = &claim
        && head.kind() == Kind::Other
    {
        return Found::Attestation;
    }
    // The verdict names the blob, so its digest must match. Checked after the size.
    if Digest::of(signature.blob()) != *signature.digest() {
        return malformed(format!("its content is not that of {}", signature.digest()));
    }
    let Some(signer) = signer(&claim, &bytes, keys) else {
        let named = keys.iter().find(|known| hint.as_deref().is_some_and(|hint| hints_at(hint, &known.key)));
        return Found::Wrong(match named {
            Some(named) => Reason::BadSignature { key_id: named.id.clone() },
            None => Reason::OtherKey { tried: keys.len() },
        });
    };
    match differs(subject, &claim) {
        Err(why) => return malformed(why),
        Ok(Some(difference)) => return Found::Wrong(Reason::WrongDigest { difference }),
        Ok(None) => {}
    }
    match keys.iter().find(|known| known.revoked && known.key == signer.key) {
        Some(revoked) => Found::Wrong(Reason::RevokedKey { key_id: revoked.id.clone() }),
        None => Found::Trusted(signer.id.clone()),
    }
}

/// Returns the claim of a signature, its bytes, and the key hint. None of it is verified yet.
fn read(signature: &Signature) -> Result<(Claim<'_>, Vec<u8>, Option<String>), String> {
    let (claim, bytes, hint) = match signature {
        Signature::Simple { payload, .. } if payload.len() > MOST_PAYLOAD => {
            return Err(format!("the signed content is longer than {MOST_PAYLOAD} bytes"));
        }
        Signature::Simple { payload, signature, .. } => (Claim::Simple(payload), signature.clone(), None),
        Signature::Bundle { json, .. } => {
            let Bundle { hint, content } = Bundle::read(json)?;
            match content {
                Content::Statement { head, payload, signature } => {
                    (Claim::Statement { head, payload }, signature, hint)
                }
                Content::Message { digest, signature } => (Claim::Message(digest), signature, hint),
            }
        }
    };
    if bytes.is_empty() {
        return Err("it contains no signature, or one that is not base64".into());
    }
    Ok((claim, bytes, hint))
}

/// Returns the key that made the signature, revoked or not.
fn signer<'k>(claim: &Claim<'_>, signature: &[u8], keys: &'k [TrustedKey]) -> Option<&'k TrustedKey> {
    let encoded;
    let message = match claim {
        Claim::Simple(payload) => Message::Bytes(payload),
        Claim::Statement { payload, .. } => {
            encoded = statement::pae(PAYLOAD_TYPE, payload);
            Message::Bytes(&encoded)
        }
        Claim::Message(digest) => Message::Sha256(digest),
    };
    keys.iter().find(|known| known.key.verifies(message, signature))
}

/// Returns how the signed content differs from the actual. The error describes the signed content.
fn differs(subject: &Subject<'_>, claim: &Claim<'_>) -> Result<Option<Difference>, String> {
    let manifest = &subject.manifest_digest;
    let other = |signed: Option<Digest>| Difference::OtherManifest { signed };
    Ok(match claim {
        Claim::Simple(payload) => {
            Some(simple::signed(payload)?).filter(|signed| signed != manifest).map(|s| other(Some(s)))
        }
        Claim::Message(signed) => (signed != manifest).then(|| other(Some(*signed))),
        Claim::Statement { head, payload } if head.kind() == Kind::Files => {
            let signed = files::listed(head, payload)?;
            match subject.files {
                Some(files) => files::compare(&signed, files),
                None => Some(Difference::NotFiles),
            }
        }
        Claim::Statement { head, .. } => {
            let mut signed = head.subject.iter().filter_map(statement::Subject::digest);
            let here = signed.clone().any(|digest| digest == *manifest);
            (!here).then(|| other(signed.next()))
        }
    })
}

fn hints_at(hint: &str, key: &PublicKey) -> bool {
    hint == key.sigstore_hint() || hint == key.model_signing_hint()
}
