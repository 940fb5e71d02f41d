//! How a refusal looks to a client of the distribution protocol: a code of a closed list, a sentence, a status.

use serde::Serialize;
use serde_json::Value;

/// Why a request is refused, in the words of the OCI distribution specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The repository has no such blob.
    BlobUnknown,
    /// What is uploaded does not fit what is there.
    BlobUploadInvalid,
    /// There is no such upload.
    BlobUploadUnknown,
    /// The content has another digest than was said, or it is no digest.
    DigestInvalid,
    /// A manifest needs content that the repository does not have.
    ManifestBlobUnknown,
    /// A manifest cannot be used.
    ManifestInvalid,
    /// The repository has no such manifest.
    ManifestUnknown,
    /// That is no name of a repository.
    NameInvalid,
    /// There is no such repository.
    NameUnknown,
    /// The content has another length than was said.
    SizeInvalid,
    /// Nobody knows who asks.
    Unauthorized,
    /// Whoever asks may not do this.
    Denied,
    /// The registry does not do this.
    Unsupported,
    /// Too much was asked for in too short a time.
    TooManyRequests,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::BlobUnknown,
        Self::BlobUploadInvalid,
        Self::BlobUploadUnknown,
        Self::DigestInvalid,
        Self::ManifestBlobUnknown,
        Self::ManifestInvalid,
        Self::ManifestUnknown,
        Self::NameInvalid,
        Self::NameUnknown,
        Self::SizeInvalid,
        Self::Unauthorized,
        Self::Denied,
        Self::Unsupported,
        Self::TooManyRequests,
    ];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        self.word_and_status().0
    }

    /// The HTTP status that usually goes with it.
    pub fn status(self) -> u16 {
        self.word_and_status().1
    }

    fn word_and_status(self) -> (&'static str, u16) {
        match self {
            Self::BlobUnknown => ("BLOB_UNKNOWN", 404),
            Self::BlobUploadInvalid => ("BLOB_UPLOAD_INVALID", 400),
            Self::BlobUploadUnknown => ("BLOB_UPLOAD_UNKNOWN", 404),
            Self::DigestInvalid => ("DIGEST_INVALID", 400),
            Self::ManifestBlobUnknown => ("MANIFEST_BLOB_UNKNOWN", 404),
            Self::ManifestInvalid => ("MANIFEST_INVALID", 400),
            Self::ManifestUnknown => ("MANIFEST_UNKNOWN", 404),
            Self::NameInvalid => ("NAME_INVALID", 400),
            Self::NameUnknown => ("NAME_UNKNOWN", 404),
            Self::SizeInvalid => ("SIZE_INVALID", 400),
            Self::Unauthorized => ("UNAUTHORIZED", 401),
            Self::Denied => ("DENIED", 403),
            Self::Unsupported => ("UNSUPPORTED", 405),
            Self::TooManyRequests => ("TOOMANYREQUESTS", 429),
        }
    }
}

/// A refusal, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Why, for programs.
    pub code: Code,
    /// The HTTP status; the code's own unless [`Refusal::with_status`] said another.
    pub status: u16,
    /// Why, for people, and what to do next.
    pub message: String,
    /// What else there is to know.
    pub detail: Option<Value>,
}

impl Refusal {
    /// A refusal with the code's usual status.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, status: code.status(), message: message.into(), detail: None }
    }

    /// The same with another status, where the protocol wants one: 413 for a manifest that is too large, 416 for a chunk
    /// that does not follow the last.
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// The same with something for programs to read.
    pub fn with_detail(self, detail: impl Into<Value>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// The JSON body.
    pub fn body(&self) -> Vec<u8> {
        body(std::slice::from_ref(self))
    }
}

/// The JSON body for several refusals at once, such as all the blobs that a manifest lacks.
pub fn body(refusals: &[Refusal]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        errors: Vec<Entry<'a>>,
    }
    #[derive(Serialize)]
    struct Entry<'a> {
        code: &'static str,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'a Value>,
    }
    let errors = refusals.iter().map(|refusal| Entry {
        code: refusal.code.word(),
        message: &refusal.message,
        detail: refusal.detail.as_ref(),
    });
    let errors = errors.collect();
    serde_json::to_vec(&Body { errors }).expect("codes, texts and JSON values are always JSON")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_code_has_a_word_of_its_own_and_a_status_of_refusal() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!((400..500).contains(&code.status()), "{code:?}");
            assert!(code.word().bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{code:?}");
        }
    }

    #[test]
    fn a_body_has_the_shape_of_the_specification() {
        let plain = Refusal::new(Code::NameUnknown, "there is no repository a/b: push to it first");
        let found: Value = serde_json::from_slice(&plain.body()).unwrap();
        let message = "there is no repository a/b: push to it first";
        assert_eq!(found, json!({"errors": [{"code": "NAME_UNKNOWN", "message": message}]}));
        let full =
            Refusal::new(Code::BlobUploadInvalid, "x").with_status(416).with_detail(json!({"length": 3}));
        assert_eq!(full.status, 416);
        let found: Value = serde_json::from_slice(&body(&[plain, full])).unwrap();
        assert_eq!(found["errors"].as_array().unwrap().len(), 2);
        assert_eq!(found["errors"][1]["detail"]["length"], 3);
    }
}
