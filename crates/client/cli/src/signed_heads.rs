//! Audit chain heads that the platform signed, stored elsewhere. A chain that was rewritten or truncated later
//! contradicts them, even if it is consistent in itself.

use std::collections::BTreeMap;
use std::io::BufRead;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_trust::PublicKey;
use serde::Deserialize;

/// One line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    chain: String,
    sequence: i64,
    hash: String,
    signed_at: String,
    key_id: String,
    signature: String,
}

/// A head with a verified signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedHead {
    pub(crate) hash: String,
    pub(crate) signed_at: String,
}

/// Verified heads, by chain and row.
#[derive(Debug, Default)]
pub(crate) struct SignedHeads(BTreeMap<String, BTreeMap<i64, SignedHead>>);

impl SignedHeads {
    /// Reads a file of heads. Every line must be signed by one of the keys: a line added later is not.
    pub(crate) fn read(file: impl BufRead, keys: &[PublicKey]) -> Result<Self, String> {
        let mut heads = Self::default();
        for (index, line) in file.lines().enumerate() {
            let number = index + 1;
            let text = line.map_err(|error| format!("line {number} cannot be read: {error}"))?;
            let line: Line = serde_json::from_str(&text)
                .map_err(|error| format!("line {number} is not a signed head: {error}"))?;
            ensure_signed(&line, keys).map_err(|why| format!("line {number}: {why}"))?;
            let of_chain = heads.0.entry(line.chain.clone()).or_default();
            let head = SignedHead { hash: line.hash, signed_at: line.signed_at };
            if let Some(other) = of_chain.get(&line.sequence)
                && other.hash != head.hash
            {
                return Err(format!(
                    "row {} of the chain {} was signed twice with different hashes, at {} and {}: the chain was rewritten",
                    line.sequence, line.chain, other.signed_at, head.signed_at
                ));
            }
            of_chain.entry(line.sequence).or_insert(head);
        }
        Ok(heads)
    }

    /// Returns the head signed at this row.
    pub(crate) fn at(&self, chain: &str, sequence: i64) -> Option<&SignedHead> {
        self.0.get(chain)?.get(&sequence)
    }

    /// Returns the last signed row of a chain.
    pub(crate) fn last(&self, chain: &str) -> Option<(i64, &SignedHead)> {
        self.0.get(chain)?.last_key_value().map(|(sequence, head)| (*sequence, head))
    }
}

fn ensure_signed(line: &Line, keys: &[PublicKey]) -> Result<(), String> {
    let key = keys.iter().find(|key| key.fingerprint() == line.key_id);
    let key = key.ok_or_else(|| format!("it is signed by the key {}, which was not given", line.key_id))?;
    let signature =
        STANDARD.decode(&line.signature).map_err(|_| "its signature is not base 64".to_owned())?;
    let Line { chain, sequence, hash, signed_at, .. } = line;
    let statement = format!("muster-audit-head v1\n{chain}\n{sequence}\n{hash}\n{signed_at}\n");
    match key.verify(statement.as_bytes(), &signature) {
        true => Ok(()),
        false => Err("its signature is invalid".to_owned()),
    }
}
