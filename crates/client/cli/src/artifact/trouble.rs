//! What the registry, or the way to it, answers instead of what was asked for.

use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::failure::{Failure, exit_of};

/// Why a request was not answered as it should be.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The network failed: perhaps it happened.
    Network(String),
    /// The registry said no.
    Refused(Box<Refusal>),
}

/// What the registry said.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: String,
    message: String,
    /// How much of an upload is there, where it says so.
    pub(super) length: Option<u64>,
    /// After how many seconds to ask again, where it says so.
    pub(super) retry_after: Option<u64>,
    correlation_id: Option<String>,
}

impl Refusal {
    /// As a person reads it, with what to do next.
    pub(super) fn failure(self) -> Failure {
        // Questions without a body are refused without a word.
        let message = match (self.message.as_str(), self.status) {
            ("", 401) => "it does not know the token".to_owned(),
            ("", 403) => "your roles do not allow this".to_owned(),
            ("", status) => format!("status {status}"),
            (message, _) => message.to_owned(),
        };
        let next = match (self.status, self.code.as_str()) {
            (401, _) => Some("log in with `muster login`, or name a token with --token-file or MUSTER_TOKEN"),
            (403, _) => Some(
                "`muster can-i repository.push` and `muster can-i repository.pull` with --project say why",
            ),
            (404, "NAME_UNKNOWN") => Some("`muster repository list` shows what there is"),
            (404, _) => {
                Some("`muster repository tags REPOSITORY` and `muster artifact list` show what there is")
            }
            (429, _) => Some("wait a little and repeat the same command: it goes on where it stopped"),
            (507, _) => Some("tell whoever runs the platform that the registry's disk is full"),
            (500.., _) => Some("repeat the same command; if it stays so, tell whoever runs the platform"),
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
    /// From an answer that is no success.
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

    /// Whether the same may succeed a moment later. 409 is an upload that another request still writes to, such as one whose
    /// connection was lost.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Network(_) => true,
            Self::Refused(refusal) => matches!(refusal.status, 408 | 409 | 429 | 500..=506 | 508..),
        }
    }
}

/// The deepest reason says most: "connection refused" rather than "error sending request".
pub(super) fn deepest(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// A header that is a text.
pub(super) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
