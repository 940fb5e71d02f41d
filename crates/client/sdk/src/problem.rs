//! Errors of calls to the platform.

use serde::{Deserialize, Serialize};

/// An error at one place of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// A JSON pointer into the body, or `query/NAME`, `header/NAME`, `path/NAME`.
    pub pointer: String,
    /// Description of the error.
    pub detail: String,
}

/// Error response of the platform (RFC 9457). The code is a text here, not a closed list: a client must be able to pass
/// on codes that are newer than itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Stable URI of the code.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Title of the code.
    #[serde(default)]
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Cause, and how to continue.
    #[serde(default)]
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// Correlation id, shared with audit, events and logs.
    #[serde(default)]
    pub correlation_id: String,
    /// Whether the identical request may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// Documentation of the code.
    #[serde(default)]
    pub docs: String,
    /// Errors by field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Seconds after which to retry, if the server sent them.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call could not be made: an address, a certificate or an argument is invalid.
    #[error("{0}")]
    Setup(String),
    /// No connection could be made: the request had no effect.
    #[error("{server} cannot be reached: {cause}")]
    Unreachable {
        /// Address of the server.
        server: String,
        /// The network error.
        cause: String,
    },
    /// The connection was lost before the response: the request may have taken effect.
    #[error("the connection to {server} was lost: {cause}")]
    Lost {
        /// Address of the server.
        server: String,
        /// The network error.
        cause: String,
    },
    /// Refused by the platform, with the reason.
    #[error("{}: {}", .0.code, .0.detail)]
    Problem(Box<Problem>),
    /// The response is not the platform's, or of an unsupported version.
    #[error("the response is not one of the platform's (status {status}): {why}")]
    Answer {
        /// Its status.
        status: u16,
        /// Description of the error.
        why: String,
    },
}

impl Error {
    /// Converts a network error. The innermost cause is the most specific: "connection refused" rather than "error
    /// sending request".
    pub(crate) fn network(server: &str, error: &reqwest::Error) -> Self {
        let mut deepest: &dyn std::error::Error = error;
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        let (server, cause) = (server.to_owned(), deepest.to_string());
        if error.is_connect() { Error::Unreachable { server, cause } } else { Error::Lost { server, cause } }
    }

    /// Returns the problem, if the platform sent one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}
