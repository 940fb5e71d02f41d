//! Examines signatures one by one, until one of them makes the artifact trusted.
//!
//! A client with push permission can add any number of bad signatures. So they are not collected first: the caller reads
//! them one after the other, stops at the first good one, and holds no more of them than it reads at a time.

use std::collections::HashSet;

use crate::verdict::{Found, examine};
use crate::{Digest, MOST_SIGNATURE_BYTES, MOST_SIGNATURES, Reason, Signature, Subject, TrustedKey, Verdict};

/// An artifact with its signatures under examination.
#[derive(Debug)]
pub struct Examination {
    manifest_digest: Digest,
    files: Option<Vec<(String, Digest)>>,
    keys: Vec<TrustedKey>,
    trusted: Option<Verdict>,
    nearest: Option<Reason>,
    seen: HashSet<Digest>,
    simple: Budget,
    bundles: Budget,
}

/// Budget of one signing scheme. Each has its own, so that neither crowds the other out.
#[derive(Debug, Default)]
struct Budget {
    signatures: usize,
    bytes: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.signatures >= MOST_SIGNATURES || self.bytes > MOST_SIGNATURE_BYTES
    }
}

impl Examination {
    /// Starts an examination; without signatures the artifact is unsigned. `files` as in [`Subject`].
    pub fn new(manifest_digest: Digest, files: Option<Vec<(String, Digest)>>, keys: Vec<TrustedKey>) -> Self {
        let (simple, bundles) = (Budget::default(), Budget::default());
        let (trusted, nearest, seen) = (None, None, HashSet::new());
        Self { manifest_digest, files, keys, trusted, nearest, seen, simple, bundles }
    }

    /// Examines one more signature; a repeated one does not count.
    pub fn examine(&mut self, signature: &Signature) {
        let budget = match signature {
            Signature::Simple { .. } => &mut self.simple,
            Signature::Bundle { .. } => &mut self.bundles,
        };
        if self.trusted.is_some() || budget.is_spent() {
            return;
        }
        budget.bytes = budget.bytes.saturating_add(signature.blob().len());
        if !self.seen.insert(signature.identity()) {
            return;
        }
        budget.signatures += 1;
        let subject = Subject { manifest_digest: self.manifest_digest, files: self.files.as_deref() };
        match examine(&subject, signature, &self.keys) {
            Found::Trusted(key_id) => {
                let signature_digest = *signature.digest();
                self.trusted = Some(Verdict::Trusted { key_id, signature_digest });
            }
            Found::Attestation => {}
            Found::Wrong(reason) => {
                if self.nearest.as_ref().is_none_or(|before| reason.nearness() > before.nearness()) {
                    self.nearest = Some(reason);
                }
            }
        }
    }

    /// Reports whether another cosign simple signature can change the result.
    pub fn wants_simple(&self) -> bool {
        self.trusted.is_none() && !self.simple.is_spent()
    }

    /// Reports whether another bundle can change the result.
    pub fn wants_bundles(&self) -> bool {
        self.trusted.is_none() && !self.bundles.is_spent()
    }

    /// Returns the verdict on everything examined.
    pub fn verdict(self) -> Verdict {
        let otherwise = self.nearest.map_or(Verdict::Unsigned, |reason| Verdict::Untrusted { reason });
        self.trusted.unwrap_or(otherwise)
    }
}
