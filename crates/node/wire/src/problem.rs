//! Error responses (RFC 9457), reduced to the members that an agent reads.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Reason for a failed request. An agent acts on `status` and `retryable`, and shows `detail` to operators.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Stable URI of the error code.
    #[serde(rename = "type")]
    pub kind: String,
    /// Title of the error code.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Error description and remedy.
    pub detail: String,
    /// Error code, from the public API's closed list.
    #[schema(example = "unauthenticated")]
    pub code: String,
    /// Correlation id in the server's logs.
    pub correlation_id: String,
    /// Whether a retry of the same request may succeed.
    pub retryable: bool,
}
