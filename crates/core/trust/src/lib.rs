//! Signatures over artifacts: which key signed exactly this content, and whether that key is trusted here.
//!
//! The three current ways to sign with a key pair are supported: cosign's simple signing (the tag `sha256-….sig`), Sigstore
//! bundles v0.3 attached as referrers (cosign 3), and the bundles of `model_signing` over the files of a folder. [`decide`]
//! turns the signatures of an artifact into one [`Verdict`]; the server calls it when an artifact is published, and the node
//! calls it again before it runs anything.
//!
//! Nothing here reads a file, a clock or the network, so that the result is the same everywhere. Two alternatives were
//! rejected: the Sigstore libraries, because they reject key pair bundles without an entry in a public log, and certificates
//! of a public authority, because an air-gapped site could then trust no publisher.

pub mod bundle;
mod examination;
mod files;
mod oci;
mod pem;
mod private_key;
mod public_key;
pub mod simple;
mod statement;
mod verdict;

pub use examination::Examination;
pub use files::{FilesError, plain_name};
pub use muster_ids::{Digest, DigestError};
pub use oci::{Attachment, Blob, Descriptor, ManifestError};
pub use private_key::{PrivateKey, PrivateKeyError};
pub use public_key::{Algorithm, PublicKey, PublicKeyError};
pub use verdict::{Difference, Reason, Signature, Subject, TrustedKey, Verdict, decide};

/// Maximum number of distinct signatures examined for one artifact. The registry accepts fewer for one artifact, so that a
/// client with push permission cannot crowd a good signature out with bad ones.
pub const MOST_SIGNATURES: usize = 4096;

/// Maximum total size of the signatures examined for one artifact.
pub const MOST_SIGNATURE_BYTES: usize = 64 * 1024 * 1024;

/// Maximum size of a signed payload.
pub const MOST_PAYLOAD: usize = 1024 * 1024;

/// Maximum size of a bundle: its payload in base64, and as much again for its other parts.
pub const MOST_BUNDLE: usize = 2 * MOST_PAYLOAD;

/// Sanitizes untrusted text for a message: bounded, on one line.
fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let mut shown: String =
        text.chars().take(MOST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
