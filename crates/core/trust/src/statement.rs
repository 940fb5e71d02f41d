//! In-toto statements (v1) in DSSE envelopes: the signed content of a Sigstore bundle.
//!
//! Attestations (a bill of materials, a provenance) come in the same envelopes, by the same keys. They describe an artifact
//! without vouching for it, so a statement counts as a signature only by its type.

use serde::{Deserialize, Serialize};

use crate::{Digest, oci, shown};

pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
pub(crate) const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// Predicate type of a signature over an image: cosign 3.
pub(crate) const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
/// Predicate type of a signature over files: `model_signing`.
pub(crate) const FILES: &str = "https://model_signing/signature/v1.0";

/// Purpose of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sign,
    Files,
    /// An attestation, which is no signature.
    Other,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Subject {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) digest: Digests,
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Digests {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
}

impl Subject {
    pub(crate) fn new(name: Option<&str>, digest: &Digest) -> Self {
        Self { name: name.map(str::to_owned), digest: Digests { sha256: Some(digest.hex()) } }
    }

    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digest.sha256.as_deref().and_then(|hex| Digest::from_hex(hex).ok())
    }
}

/// A statement without its predicate, which is parsed separately once its expected type is known.
#[derive(Deserialize)]
pub(crate) struct Head {
    #[serde(rename = "_type")]
    statement: String,
    pub(crate) subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
}

impl Head {
    pub(crate) fn read(payload: &[u8]) -> Result<Self, String> {
        let head: Self = serde_json::from_slice(payload)
            .map_err(|why| format!("the signed content is not an in-toto statement ({why})"))?;
        if head.statement != STATEMENT {
            let found = shown(&head.statement);
            return Err(format!("the signed statement has the type {found:?}, expected {STATEMENT}"));
        }
        Ok(head)
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.predicate_type.as_str() {
            SIGN => Kind::Sign,
            FILES => Kind::Files,
            _ => Kind::Other,
        }
    }

    pub(crate) fn predicate_type(&self) -> &str {
        &self.predicate_type
    }
}

/// A statement, as written.
#[derive(Serialize)]
pub(crate) struct Statement<P: Serialize> {
    #[serde(rename = "_type")]
    pub(crate) statement: &'static str,
    pub(crate) subject: [Subject; 1],
    #[serde(rename = "predicateType")]
    pub(crate) predicate_type: &'static str,
    pub(crate) predicate: P,
}

/// Builds a statement that signs a manifest.
pub(crate) fn sign(manifest: &Digest) -> Vec<u8> {
    #[derive(Serialize)]
    struct Nothing {}
    oci::json(&Statement {
        statement: STATEMENT,
        subject: [Subject::new(None, manifest)],
        predicate_type: SIGN,
        predicate: Nothing {},
    })
}

/// Returns the signed bytes of a DSSE envelope: type and payload with their lengths, so that neither can be confused with
/// the other.
pub(crate) fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_is_encoded_as_its_specification_shows() {
        let encoded = pae("http://example.com/HelloWorld", b"hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn a_statement_says_what_it_is_for() {
        let digest = Digest::of(b"manifest");
        let text = String::from_utf8(sign(&digest)).unwrap();
        let head = Head::read(text.as_bytes()).unwrap();
        assert_eq!((head.kind(), head.subject[0].digest()), (Kind::Sign, Some(digest)));
        for (instead, kind) in
            [(FILES, Kind::Files), ("https://slsa.dev/provenance/v1", Kind::Other), ("", Kind::Other)]
        {
            assert_eq!(Head::read(text.replace(SIGN, instead).as_bytes()).unwrap().kind(), kind);
        }
        for wrong in
            [text.replace("Statement/v1", "Statement/v0.1"), text.replace("subject", "object"), "[]".into()]
        {
            assert!(Head::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
