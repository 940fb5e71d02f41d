//! Browser sessions.

use jiff::Timestamp;
use muster_ids::{TokenId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::tenant::Removed;
use crate::{Endpoint, shape};

/// Authentication method. Password is the only one today; single sign-on becomes a second variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoginMethod {
    /// E-mail address and password.
    Password,
}

/// A login.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCreate {
    /// Authentication method.
    pub method: LoginMethod,
    /// The person's tenant, by slug or id; absent for platform staff.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// E-mail address.
    #[schema(max_length = 254)]
    pub email: String,
    /// The password.
    #[schema(format = Password, max_length = 256, write_only)]
    pub password: String,
}

/// A session. The token itself is only in the `muster_session` cookie.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Its id.
    pub id: TokenId,
    /// The person.
    pub user_id: UserId,
    /// Expiry time.
    pub expires_at: Timestamp,
    /// Value for the `X-CSRF-Token` header of every request that is not a GET; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    /// True in a replayed response: the secret was only in the first one and is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("session_create", "/v1/sessions", shape::<SessionCreate>(), shape::<Session>())
        .anonymous()
        .summary("Log in with a browser")
        .description(
            "Sets the `muster_session` cookie. Programs use tokens instead. A repeat with the same \
             `Idempotency-Key` is another login: a stored response would have no cookie.",
        ),
    Endpoint::act(
        "session_delete",
        "/v1/sessions/current/end",
        shape::<crate::tenant::Nothing>(),
        shape::<Removed>(),
    )
    .summary("Log out: ends the session of this request"),
];
