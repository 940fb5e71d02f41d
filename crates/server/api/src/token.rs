//! Tokens.

use jiff::Timestamp;
use muster_ids::{ServiceAccountId, TokenId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Nothing;
use crate::{Endpoint, shape};

/// Kind of token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// A person's token.
    Personal,
    /// A service account's token.
    ServiceAccount,
    /// A browser session.
    Session,
}

/// A token. Its secret is shown once, when it is issued.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// Its kind.
    pub kind: TokenKind,
    /// The person it authenticates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The service account it authenticates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_id: Option<ServiceAccountId>,
    /// Its name.
    pub name: String,
    /// Its first characters.
    pub hint: String,
    /// Time of issue.
    pub created_at: Timestamp,
    /// Expiry time.
    pub expires_at: Timestamp,
    /// Time of revocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// Time of last use, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// Version for `If-Match`.
    pub version: i64,
    /// The token that issued it, if any: it is revoked with that token, and expires no later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<TokenId>,
    /// The token itself; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// True in a replayed response: the secret was only in the first one and is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
}

/// A token to issue.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenIssue {
    /// Service account, by id; default: yourself. A token for another person cannot be issued.
    #[schema(max_length = 128)]
    pub service_account: Option<String>,
    /// Its name.
    #[schema(min_length = 1, max_length = 100, example = "ci")]
    pub name: String,
    /// Lifetime; default: 90 days. A token issued by a token expires no later than its issuer; a browser session may
    /// issue longer-lived ones.
    #[schema(minimum = 1, maximum = 31536000)]
    pub expires_in_seconds: Option<u32>,
}

/// A token rotation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRotate {
    /// Seconds the old token keeps working beside the new one; default: one hour.
    #[schema(minimum = 0, maximum = 604800)]
    pub overlap_seconds: Option<u32>,
    /// Lifetime of the new token; default: 90 days.
    #[schema(minimum = 1, maximum = 31536000)]
    pub expires_in_seconds: Option<u32>,
}

/// Filters for listing tokens.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Of this service account, by id.
    #[schema(max_length = 128)]
    pub service_account: Option<String>,
    /// Of another person, by e-mail address or id. With neither, your own.
    #[schema(max_length = 254)]
    pub user: Option<String>,
}

page! {
    /// A page of tokens.
    TokenPage of Token
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("token_issue", "/v1/tokens", shape::<TokenIssue>(), shape::<Token>())
        .needs("token.issue")
        .summary("Issue a token for yourself or for a service account"),
    Endpoint::read("token_list", "/v1/tokens", shape::<TokenPage>())
        .needs("token.list")
        .query(shape::<TokenListQuery>())
        .summary("List tokens"),
    Endpoint::read("token_get", "/v1/tokens/{token}", shape::<Token>())
        .needs("token.get")
        .summary("Show a token"),
    Endpoint::act("token_rotate", "/v1/tokens/{token}/rotate", shape::<TokenRotate>(), shape::<Token>())
        .needs("token.rotate")
        .summary("Replace a token by a new one, with an overlap"),
    Endpoint::act("token_revoke", "/v1/tokens/{token}/revoke", shape::<Nothing>(), shape::<Token>())
        .needs("token.revoke")
        .summary("Revoke a token: it and every stream opened with it end within seconds"),
];
