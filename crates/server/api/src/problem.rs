//! Problems (RFC 9457): every error response.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:literal, $retryable:literal, $title:literal;)*) => {
        /// The closed list of codes. A code is stable; its text may improve.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Code { $(#[doc = $title] $variant,)* }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// Returns the code's name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $word,)* }
            }

            /// Returns the HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)* }
            }

            /// Reports whether the identical request may succeed later.
            pub fn retryable(self) -> bool {
                match self { $(Code::$variant => $retryable,)* }
            }

            /// Returns the title.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }
        }
    };
}

codes! {
    MalformedRequest = "malformed_request", 400, false, "The request cannot be read";
    InvalidRequest = "invalid_request", 400, false, "The request does not match the schema";
    BadCursor = "bad_cursor", 400, false, "The page token is not valid for this list";
    IdempotencyKeyRequired = "idempotency_key_required", 400, false, "The command needs an Idempotency-Key";
    Unauthenticated = "unauthenticated", 401, false, "No valid credential was given";
    PermissionDenied = "permission_denied", 403, false, "The actor lacks the permission";
    CsrfRequired = "csrf_required", 403, false, "The session's CSRF token is missing or wrong";
    OriginNotAllowed = "origin_not_allowed", 403, false, "The request comes from another site";
    NotFound = "not_found", 404, false, "The resource does not exist, or the actor has no access";
    MethodNotAllowed = "method_not_allowed", 405, false, "The path does not support this method";
    RequestTimeout = "request_timeout", 408, true, "The request did not arrive in time";
    NameTaken = "name_taken", 409, false, "The name is already in use";
    AmbiguousName = "ambiguous_name", 409, false, "The name is ambiguous";
    NotEmpty = "not_empty", 409, false, "The resource is not empty";
    InvalidState = "invalid_state", 409, false, "Its state does not allow this";
    QuotaExceeded = "quota_exceeded", 409, false, "The request exceeds the project's quota";
    Fenced = "fenced", 409, false, "The lease is over";
    MemberStepRunning = "member_step_running", 409, true, "A step of a member is open";
    TooManyTasks = "too_many_tasks", 409, false, "The lease has created too many tasks";
    Incompatible = "incompatible", 409, false, "The app does not fit";
    LastOperator = "last_operator", 409, false, "The platform would be left without an operator";
    VersionMismatch = "version_mismatch", 412, false, "It has changed since you read it";
    BodyTooLarge = "body_too_large", 413, false, "The body is too large";
    UnsupportedMediaType = "unsupported_media_type", 415, false, "The body is not JSON";
    HostNotAllowed = "host_not_allowed", 421, false, "The server does not serve this host name";
    IdempotencyKeyReused = "idempotency_key_reused", 422, false, "The key was used for another request";
    Untrusted = "untrusted", 409, false, "The artifact has no valid signature";
    LintFailed = "lint_failed", 409, false, "The artifact has lint errors";
    UrlNotAllowed = "url_not_allowed", 422, false, "The platform does not call this address";
    VersionRequired = "version_required", 428, false, "The command needs If-Match";
    RateLimited = "rate_limited", 429, true, "Too many requests";
    ExternalRegistry = "external_registry", 502, true, "Another registry answered with an error";
    Internal = "internal", 500, true, "The server failed";
    Unavailable = "unavailable", 503, true, "The server cannot answer now";
    StorageFull = "storage_full", 507, true, "The server's disk is full";
}

/// An error at one place of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// A JSON pointer into the body, or `query/NAME`, `header/NAME`, `path/NAME`.
    pub pointer: String,
    /// Description of the error.
    pub detail: String,
}

/// An error response.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Stable URI of the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// Title of the code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Cause, and how to continue.
    pub detail: String,
    /// The code.
    pub code: Code,
    /// Correlation id; quote it when you ask for help.
    pub correlation_id: String,
    /// Whether the identical request may succeed later.
    pub retryable: bool,
    /// Documentation of the code.
    pub docs: String,
    /// Errors by field, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub errors: Vec<FieldError>,
}

impl Problem {
    /// Returns a problem with this code and detail; the response sets the correlation id.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:muster:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code,
            correlation_id: String::new(),
            retryable: code.retryable(),
            docs: format!("docs/reference/errors.md#{}", code.as_str()),
            errors: Vec::new(),
        }
    }
}
