//! Errors of the registry and of the connection to it.

use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::failure::{Failure, exit_of};

/// Error of a request.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The network failed: the request may have taken effect.
    Network(String),
    /// The registry refused.
    Refused(Box<Refusal>),
}

/// A refusal of the registry.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: String,
    message: String,
    /// Length of an upload so far, if given.
    pub(super) length: Option<u64>,
    /// Seconds after which to retry, if given.
    pub(super) retry_after: Option<u64>,
    correlation_id: Option<String>,
}

impl Refusal {
    /// Converts to a failure for the user, with the next step.
    pub(super) fn failure(self) -> Failure {
        // Refusals of HEAD requests have no body.
        let message = match (self.message.as_str(), self.status) {
            ("", 401) => "unknown token".to_owned(),
            ("", 403) => "your roles do not allow this".to_owned(),
            ("", status) => format!("status {status}"),
            (message, _) => message.to_owned(),
        };
        let next = match (self.status, self.code.as_str()) {
            (401, _) => Some("log in with `muster login`, or name a token with --token-file or MUSTER_TOKEN"),
            (403, _) => Some(
                "`muster can-i repository.push` and `muster can-i repository.pull` with --project show why",
            ),
            (404, "NAME_UNKNOWN") => Some("`muster repository list` lists the repositories"),
            (404, _) => {
                Some("`muster repository tags REPOSITORY` and `muster artifact list` show what exists")
            }
            (429, _) => Some("wait and repeat the same command: it continues where it stopped"),
            (507, _) => Some("ask the platform's operators to free disk space of the registry"),
            (500.., _) => {
                Some("repeat the same command; if it keeps failing, report it to the platform's operators")
            }
            _ => None,
        };
        let mut failure = Failure::new(
            exit_of(self.status),
            &if self.code.is_empty() { "registry".to_owned() } else { self.code.to_lowercase() },
            format!("the registry refused: {message}"),
        );
        failure.lines.extend(self.correlation_id.map(|id| format!("correlation id: {id}")));
        failure.next = next.map(str::to_owned);
        failure
    }
}

impl Trouble {
    /// Reads an error response.
    pub(super) async fn of(answer: Response) -> Self {
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.bytes().await.unwrap_or_default();
        let document: Value = serde_json::from_slice(&body).unwrap_or_default();
        let first = &document["errors"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Trouble::Refused(Box::new(Refusal {
            status,
            code: text(&first["code"]),
            message: text(&first["message"]),
            length: first["detail"]["length"].as_u64(),
            retry_after: header(&headers, RETRY_AFTER.as_str()).and_then(|text| text.parse().ok()),
            correlation_id: header(&headers, "x-correlation-id"),
        }))
    }

    /// Reports whether a retry may succeed. 409 is an upload that another request still writes to, such as one with a
    /// lost connection.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Network(_) => true,
            Self::Refused(refusal) => matches!(refusal.status, 408 | 409 | 429 | 500..=506 | 508..),
        }
    }
}

/// Returns the innermost cause, which is the most specific: "connection refused" rather than "error sending request".
pub(super) fn deepest(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// Returns a header as text.
pub(super) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
