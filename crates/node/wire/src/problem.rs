//! Every answer that is not a success (RFC 9457), as far as an agent reads it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was not carried out. An agent decides by `status` and `retryable`, and shows `detail` to people.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A stable reference for the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, and what to do next.
    pub detail: String,
    /// The code, out of the public API's closed list.
    #[schema(example = "unauthenticated")]
    pub code: String,
    /// The thread through the server's logs.
    pub correlation_id: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}
