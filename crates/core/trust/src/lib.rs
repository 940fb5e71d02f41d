//! Signatures over artifacts: who signed exactly this content, and is that key trusted here.
//!
//! Read are the three ways in which publishers sign with a key pair today: cosign's simple signing (the tag
//! `sha256-….sig`), Sigstore bundles v0.3 attached as referrers (cosign 3), and the bundles of `model_signing` over the
//! files of a folder. [`decide`] turns what was found beside an artifact into one [`Verdict`]; the server asks it when
//! something is published, and the node asks it again before it runs anything.
//!
//! Nothing here reads a file, a clock or the network, so the same question has the same answer everywhere. Two ways were
//! rejected: the Sigstore libraries, because they refuse key pair bundles that no public log has seen, and certificates
//! of a public authority, because a site without a way out could then trust nobody.

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

/// How many different signatures of one artifact are examined, and how many bytes of them. The registry takes fewer of them for
/// one artifact, so whoever may push cannot crowd a good signature out with bad ones.
pub const MOST_SIGNATURES: usize = 4096;

/// How many bytes all signatures of one artifact have that are examined.
pub const MOST_SIGNATURE_BYTES: usize = 64 * 1024 * 1024;

/// How long may be what was signed.
pub const MOST_PAYLOAD: usize = 1024 * 1024;

/// How long may be a bundle: its payload in base64, and as much again as its other parts ever need.
pub const MOST_BUNDLE: usize = 2 * MOST_PAYLOAD;

/// What a stranger wrote, made fit for a message: not too long, on one line.
fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let mut shown: String =
        text.chars().take(MOST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
