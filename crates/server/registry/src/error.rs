//! Errors as sent to clients of the distribution protocol: a code from a closed list, a message, a status.

use serde::Serialize;
use serde_json::Value;

/// Error codes of the OCI distribution specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The repository has no such blob.
    BlobUnknown,
    /// The uploaded bytes do not match the state of the upload.
    BlobUploadInvalid,
    /// There is no such upload.
    BlobUploadUnknown,
    /// The content does not match the declared digest, or the digest is malformed.
    DigestInvalid,
    /// A manifest refers to content that the repository does not have.
    ManifestBlobUnknown,
    /// The manifest is invalid.
    ManifestInvalid,
    /// The repository has no such manifest.
    ManifestUnknown,
    /// The name is not a valid repository name.
    NameInvalid,
    /// There is no such repository.
    NameUnknown,
    /// The content does not have the declared length.
    SizeInvalid,
    /// The client is not authenticated.
    Unauthorized,
    /// The client lacks the permission.
    Denied,
    /// The registry does not support this.
    Unsupported,
    /// The client exceeded a rate limit.
    TooManyRequests,
}

impl Code {
    /// All codes.
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

    /// Returns the code on the wire.
    pub fn word(self) -> &'static str {
        self.word_and_status().0
    }

    /// Returns its default HTTP status.
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

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The code, for programs.
    pub code: Code,
    /// The HTTP status; the code's default unless set by [`Refusal::with_status`].
    pub status: u16,
    /// The message, for people, with the next step.
    pub message: String,
    /// Further details.
    pub detail: Option<Value>,
}

impl Refusal {
    /// Creates an error with the code's default status.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, status: code.status(), message: message.into(), detail: None }
    }

    /// Sets another status where the protocol requires one: 413 for a manifest that is too large, 416 for a chunk that does
    /// not follow the last.
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Adds machine-readable details.
    pub fn with_detail(self, detail: impl Into<Value>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// Returns the JSON body.
    pub fn body(&self) -> Vec<u8> {
        body(std::slice::from_ref(self))
    }
}

/// Returns the JSON body for several errors, such as all the blobs that a manifest lacks.
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
