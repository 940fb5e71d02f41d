//! One answer from everything that was found beside an artifact.
//!
//! A signature is checked before what it says is believed, and every key is tried whatever a bundle hints at. One good
//! signature by a trusted key suffices, since anybody who may push can add bad ones. Of several bad ones the reason is
//! given that came nearest to trust, because that is the one a publisher can mend.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bundle::{Bundle, Content};
use crate::public_key::Message;
use crate::statement::{self, Head, Kind, PAYLOAD_TYPE};
use crate::{Digest, Examination, MOST_PAYLOAD, PublicKey, files, simple};

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The manifest by its digest.
    pub manifest_digest: Digest,
    /// The titles and digests of its layers, where the artifact is made of files. A signature over files says nothing of
    /// the manifest's other parts; give the files only where nothing else in the manifest has a meaning.
    pub files: Option<&'a [(String, Digest)]>,
}

/// A signature as it was found. Its digest is that of the blob that held it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Signature {
    /// Cosign's simple signing.
    Simple {
        /// The document, which is the blob.
        payload: Vec<u8>,
        /// The signature from the annotation.
        signature: Vec<u8>,
        /// The document's digest.
        digest: Digest,
    },
    /// A Sigstore bundle.
    Bundle {
        /// The bundle, which is the blob.
        json: Vec<u8>,
        /// The bundle's digest.
        digest: Digest,
    },
}

/// A key that is, or was, trusted for this artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey {
    /// How the platform calls it.
    pub id: String,
    /// The key.
    pub key: PublicKey,
    /// Whether its trust was taken back. The same key under two ids is revoked if either is.
    pub revoked: bool,
}

/// Whether an artifact is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// A trusted key signed exactly this.
    Trusted {
        /// Which key.
        key_id: String,
        /// By which signature.
        signature_digest: Digest,
    },
    /// There is no signature. Attestations alone are none.
    Unsigned,
    /// There are signatures, and none of them is one by a trusted key over exactly this.
    Untrusted {
        /// Why.
        reason: Reason,
    },
}

/// Why signatures do not make an artifact trusted. Displayed, it is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum Reason {
    /// A key that was revoked signed exactly this.
    RevokedKey {
        /// Which key.
        key_id: String,
    },
    /// A trusted or revoked key signed something else.
    WrongDigest {
        /// What differs.
        difference: Difference,
    },
    /// The signature names a known key, which did not make it.
    BadSignature {
        /// Which key.
        key_id: String,
    },
    /// No known key made the signature.
    OtherKey {
        /// How many keys were tried.
        tried: usize,
    },
    /// The signature cannot be read, or a known key signed something that contradicts itself.
    Malformed {
        /// What is wrong.
        why: String,
    },
}

/// How what was signed differs from what is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Difference {
    /// Another manifest was signed.
    OtherManifest {
        /// Which one, where the signature names one.
        signed: Option<Digest>,
    },
    /// Files were signed, and the artifact is not made of files.
    NotFiles,
    /// A file has another content.
    FileChanged {
        /// Which one.
        name: String,
    },
    /// A file has another name.
    FileRenamed {
        /// How it was called when it was signed.
        from: String,
        /// How it is called now.
        to: String,
    },
    /// A file is missing.
    FileMissing {
        /// Which one.
        name: String,
    },
    /// A file was not signed.
    FileExtra {
        /// Which one.
        name: String,
    },
    /// The artifact has two files of one name.
    FileTwice {
        /// Which one.
        name: String,
    },
}

impl Reason {
    /// The stable word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::RevokedKey { .. } => "revoked_key",
            Self::WrongDigest { .. } => "wrong_digest",
            Self::BadSignature { .. } => "bad_signature",
            Self::OtherKey { .. } => "other_key",
            Self::Malformed { .. } => "malformed",
        }
    }

    /// How near it came to trust; the nearest is told.
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
                    "a known key signed something else: {difference}; sign what is there, or push what was signed"
                )
            }
            Self::BadSignature { key_id } => write!(
                f,
                "its signature names the key {key_id} and was not made by it: the signature or what it signs was changed; sign it again"
            ),
            Self::OtherKey { tried: 0 } => {
                write!(f, "it is signed, and no key is trusted here yet: add the publisher's public key")
            }
            Self::OtherKey { tried } => write!(
                f,
                "it is signed, but by none of the {tried} known keys, or was changed since: sign it with a trusted key, or add the signer's public key"
            ),
            Self::Malformed { why } => write!(f, "its signature cannot be used: {why}; sign it again"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherManifest { signed: Some(signed) } => write!(f, "the manifest {signed}"),
            Self::OtherManifest { signed: None } => write!(f, "another manifest"),
            Self::NotFiles => write!(f, "a folder of files, and this artifact is none"),
            Self::FileChanged { name } => write!(f, "the file {name:?} has another content"),
            Self::FileRenamed { from, to } => write!(f, "the file {to:?} was called {from:?}"),
            Self::FileMissing { name } => write!(f, "the file {name:?} is missing"),
            Self::FileExtra { name } => write!(f, "the file {name:?} was not signed"),
            Self::FileTwice { name } => write!(f, "the file {name:?} is there twice"),
        }
    }
}

impl Signature {
    /// The digest of the blob that held it.
    pub fn digest(&self) -> &Digest {
        match self {
            Self::Simple { digest, .. } | Self::Bundle { digest, .. } => digest,
        }
    }

    /// The blob that held it.
    pub(crate) fn blob(&self) -> &[u8] {
        match self {
            Self::Simple { payload, .. } => payload,
            Self::Bundle { json, .. } => json,
        }
    }

    /// How long the blob is.
    #[expect(clippy::len_without_is_empty, reason = "an empty one is a signature that cannot be read")]
    pub fn len(&self) -> usize {
        self.blob().len()
    }

    /// The same for equal signatures alone. The blob's own digest would not do: a copy of it that cannot be read must not keep
    /// the one that can from being examined.
    pub(crate) fn identity(&self) -> Digest {
        let (kind, signature): (u8, &[u8]) = match self {
            Self::Simple { signature, .. } => (0, signature),
            Self::Bundle { .. } => (1, &[]),
        };
        let parts = [Digest::of(self.blob()).to_string(), Digest::of(signature).to_string()];
        Digest::of(format!("{kind} {} {} {}", self.digest(), parts[0], parts[1]).as_bytes())
    }
}

/// Is this artifact trusted? The first good signature in the given order decides, so the same question has one answer.
///
/// At most [`crate::MOST_SIGNATURES`] different signatures are looked at; repeated ones do not count.
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

/// What one signature is over.
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
    // The verdict names the blob, so it must be the blob that was examined. It is asked after the size was.
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

/// What the signature claims, its bytes, and the key that it hints at. Nothing of it is true yet.
fn read(signature: &Signature) -> Result<(Claim<'_>, Vec<u8>, Option<String>), String> {
    let (claim, bytes, hint) = match signature {
        Signature::Simple { payload, .. } if payload.len() > MOST_PAYLOAD => {
            return Err(format!("what was signed is longer than {MOST_PAYLOAD} bytes"));
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
        return Err("it has no signature in it, or one that is no base64".into());
    }
    Ok((claim, bytes, hint))
}

/// The key that made the signature, revoked or not.
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

/// How what was signed differs from what is there. An error is a sentence about what was signed.
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
