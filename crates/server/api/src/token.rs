//! Tokens.

use jiff::Timestamp;
use muster_ids::{ServiceAccountId, TokenId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Nothing;
use crate::{Operation, shape};

/// Whose token it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// A person's.
    Personal,
    /// A service account's.
    ServiceAccount,
    /// A browser session.
    Session,
}

/// A token. Its secret is shown once, when it is issued.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// Whose it is.
    pub kind: TokenKind,
    /// The person it speaks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The service account it speaks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_id: Option<ServiceAccountId>,
    /// What it is for.
    pub name: String,
    /// Its first letters.
    pub hint: String,
    /// When it was issued.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// When it was last seen, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// For `If-Match`.
    pub version: i64,
    /// The token that issued it, if a token did: it ends when that one is revoked, and no later than that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<TokenId>,
    /// The token itself, in the one answer that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// True in a replayed answer: the secret was in the first one and is kept nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
}

/// A token to be issued.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenIssue {
    /// The service account's id; yourself if not given. Nobody issues a token for another person.
    #[schema(max_length = 128)]
    pub service_account: Option<String>,
    /// What it is for.
    #[schema(min_length = 1, max_length = 100, example = "ci")]
    pub name: String,
    /// How long it lives; 90 days if not given. What a token issues ends with it at the latest; a browser session may issue
    /// what lasts longer.
    #[schema(minimum = 1, maximum = 31536000)]
    pub expires_in_seconds: Option<u32>,
}

/// A token to be replaced.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRotate {
    /// How long the old one still works beside the new one; an hour if not given.
    #[schema(minimum = 0, maximum = 604800)]
    pub overlap_seconds: Option<u32>,
    /// How long the new one lives; 90 days if not given.
    #[schema(minimum = 1, maximum = 31536000)]
    pub expires_in_seconds: Option<u32>,
}

/// Whose tokens to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// A service account's, by id.
    #[schema(max_length = 128)]
    pub service_account: Option<String>,
    /// Another person's, by address or id. With neither, your own.
    #[schema(max_length = 254)]
    pub user: Option<String>,
}

page! {
    /// A page of tokens.
    TokenPage of Token
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("token_issue", "/v1/tokens", shape::<TokenIssue>(), shape::<Token>())
        .needs("token.issue")
        .summary("Issue a token for yourself or for a service account"),
    Operation::read("token_list", "/v1/tokens", shape::<TokenPage>())
        .needs("token.list")
        .query(shape::<TokenListQuery>())
        .summary("List tokens"),
    Operation::read("token_get", "/v1/tokens/{token}", shape::<Token>())
        .needs("token.get")
        .summary("Show a token"),
    Operation::act("token_rotate", "/v1/tokens/{token}/rotate", shape::<TokenRotate>(), shape::<Token>())
        .needs("token.rotate")
        .summary("Replace a token by a new one, with an overlap"),
    Operation::act("token_revoke", "/v1/tokens/{token}/revoke", shape::<Nothing>(), shape::<Token>())
        .needs("token.revoke")
        .summary("Revoke a token: it and every stream opened with it end within seconds"),
];
