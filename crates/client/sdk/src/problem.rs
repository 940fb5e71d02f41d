//! What goes wrong between here and the platform.

use serde::{Deserialize, Serialize};

/// One fault of a request, by the place where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// A JSON pointer into the body, or `query/NAME`, `header/NAME`, `path/NAME`.
    pub pointer: String,
    /// What is wrong there.
    pub detail: String,
}

/// Why the platform did not do what it was asked (RFC 9457). The code is a text here, not a closed list: a client must
/// be able to pass on a code that is younger than itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A stable reference for the code.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The code in words.
    #[serde(default)]
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, and what to do next.
    #[serde(default)]
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// The thread through audit, events and logs.
    #[serde(default)]
    pub correlation_id: String,
    /// Whether the same request may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// Where the code is explained.
    #[serde(default)]
    pub docs: String,
    /// The faults one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// After how many seconds to try again, where the server said so.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call could not even be made: an address, a certificate or an argument is wrong.
    #[error("{0}")]
    Setup(String),
    /// No connection could be made: surely nothing happened.
    #[error("{server} cannot be reached: {cause}")]
    Unreachable {
        /// Where it should be.
        server: String,
        /// What the network said.
        cause: String,
    },
    /// The connection was lost before the answer was there: perhaps it happened.
    #[error("the connection to {server} was lost: {cause}")]
    Lost {
        /// Where it was.
        server: String,
        /// What the network said.
        cause: String,
    },
    /// The platform refused, and says why.
    #[error("{}: {}", .0.code, .0.detail)]
    Problem(Box<Problem>),
    /// Something answered that is not the platform, or not a version that we understand.
    #[error("the answer is not one of the platform's (status {status}): {why}")]
    Answer {
        /// Its status.
        status: u16,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// From the network's own errors. A reason that stands deepest says most: "connection refused" rather than
    /// "error sending request".
    pub(crate) fn network(server: &str, error: &reqwest::Error) -> Self {
        let mut deepest: &dyn std::error::Error = error;
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        let (server, cause) = (server.to_owned(), deepest.to_string());
        if error.is_connect() { Error::Unreachable { server, cause } } else { Error::Lost { server, cause } }
    }

    /// The problem, where the platform gave one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}
