//! Browser sessions.

use jiff::Timestamp;
use muster_ids::{TokenId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::tenant::Removed;
use crate::{Operation, shape};

/// How a person proves who they are. One method today; single sign-on becomes a second variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoginMethod {
    /// Address and password.
    Password,
}

/// A login.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCreate {
    /// How.
    pub method: LoginMethod,
    /// The tenant that the person belongs to, by slug or id; none for people who run the platform.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// The address.
    #[schema(max_length = 254)]
    pub email: String,
    /// The password.
    #[schema(format = Password, max_length = 256, write_only)]
    pub password: String,
}

/// A session. The token itself travels only in the `muster_session` cookie.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Its id.
    pub id: TokenId,
    /// Who logged in.
    pub user_id: UserId,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// What a page must send as `X-CSRF-Token` with every request that is not a GET; in the one answer that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    /// True in a replayed answer: the secret was in the first one and is kept nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("session_create", "/v1/sessions", shape::<SessionCreate>(), shape::<Session>())
        .anonymous()
        .summary("Log in with a browser")
        .description(
            "Sets the `muster_session` cookie. Programs use tokens instead. Repeated with the same `Idempotency-Key` it is \
             another login: a stored answer would have no cookie.",
        ),
    Operation::act(
        "session_delete",
        "/v1/sessions/current/end",
        shape::<crate::tenant::Nothing>(),
        shape::<Removed>(),
    )
    .summary("Log out: ends the session of this request"),
];
