//! Entitlements: a project's right to launch an app, and its consent to the adapter that operates the app there.

use jiff::Timestamp;
use muster_ids::{AdapterId, AppId, EntitlementId, ProjectId, ServiceAccountId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::token::Token;
use crate::{Endpoint, shape};

/// Options for revoking an entitlement.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntitlementRevoke {
    /// Shut the app's adapter out at once, although it still operates live instances: its account is disabled, its tokens
    /// expire within seconds, and operations that need the adapter wait and are eventually blocked. Also accepted for an
    /// entitlement that is already revoked.
    pub cut_off: Option<bool>,
}

/// A project's right to launch an app.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Entitlement {
    /// Its id.
    pub id: EntitlementId,
    /// The consumer's tenant.
    pub tenant_id: TenantId,
    /// The consumer's project.
    pub project_id: ProjectId,
    /// The app.
    pub app_id: AppId,
    /// The app's slug.
    pub app: String,
    /// Account in the consumer's project that the app's adapter uses.
    pub operator_account_id: ServiceAccountId,
    /// Permissions of that account: exactly those consented to.
    pub permissions: Vec<String>,
    /// Time of revocation. No new instance starts after it; existing ones stay operable until they are decommissioned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_at: Option<Timestamp>,
    /// Time of the grant.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// An entitlement to grant.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntitlementGrant {
    /// The app, by slug or id.
    #[schema(max_length = 100)]
    pub app: String,
    /// Permissions granted to the app's adapter here; must match those its release requests, which a dry run shows.
    #[schema(max_items = 200)]
    pub consent: Option<Vec<String>>,
    /// Only return the permissions the app requests.
    pub dry_run: Option<bool>,
}

/// Result of a grant.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Granted {
    /// The entitlement; absent after a dry run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub entitlement: Option<Entitlement>,
    /// Permissions of the app's adapter in the project.
    pub permissions: Vec<String>,
}

/// Filters for listing entitlements.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntitlementListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Other projects' entitlements to the apps this project publishes, instead of its own.
    pub published: Option<bool>,
}

page! {
    /// A page of entitlements.
    EntitlementPage of Entitlement
}

/// A token for an adapter in a consumer's project.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorTokenMint {
    /// The entitlement, by id.
    #[schema(max_length = 64)]
    pub entitlement: String,
    /// Lifetime; at most, and by default, 15 minutes.
    #[schema(minimum = 1, maximum = 900)]
    pub expires_in_seconds: Option<u32>,
}

/// An adapter, as it identified itself in its last request for work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Adapter {
    /// Its id.
    pub id: AdapterId,
    /// The project it works in.
    pub project_id: ProjectId,
    /// The account it uses.
    pub service_account_id: ServiceAccountId,
    /// Its own name.
    pub name: String,
    /// Its version.
    pub adapter_version: String,
    /// Contract version that it implements.
    pub contract_version: i64,
    /// Time of its first request for work.
    pub created_at: Timestamp,
    /// Time of its last request for work.
    pub seen_at: Timestamp,
    /// Number of steps it holds a lease on.
    pub leases: i64,
}

page! {
    /// A page of adapters.
    AdapterPage of Adapter
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create(
        "entitlement_grant",
        "/v1/projects/{project}/entitlements",
        shape::<EntitlementGrant>(),
        shape::<Granted>(),
    )
    .needs("entitlement.grant")
    .summary("Entitle a project to launch an app, and consent to its operator account")
    .description("Creates an account in the project with exactly the permissions consented to; the publisher's adapter can mint short-lived tokens for it."),
    Endpoint::read("entitlement_list", "/v1/projects/{project}/entitlements", shape::<EntitlementPage>())
        .needs("entitlement.list")
        .query(shape::<EntitlementListQuery>())
        .summary("List a project's entitlements, or the consumers of its apps"),
    Endpoint::read(
        "entitlement_get",
        "/v1/projects/{project}/entitlements/{entitlement}",
        shape::<Entitlement>(),
    )
    .needs("entitlement.get")
    .summary("Show an entitlement"),
    Endpoint::act(
        "entitlement_revoke",
        "/v1/projects/{project}/entitlements/{entitlement}/revoke",
        shape::<EntitlementRevoke>(),
        shape::<Entitlement>(),
    )
    .needs("entitlement.revoke")
    .summary("Revoke an entitlement; running instances stay operable until decommissioned, or are cut off"),
    Endpoint::create(
        "operator_token_mint",
        "/v1/projects/{project}/operator-tokens",
        shape::<OperatorTokenMint>(),
        shape::<Token>(),
    )
    .needs("operator_token.mint")
    .summary("Mint a short-lived token for an app's operator account in a consumer's project")
    .description("For the publisher's adapter. It lives for at most 15 minutes and is audited in both projects."),
    Endpoint::read("adapter_list", "/v1/projects/{project}/adapters", shape::<AdapterPage>())
        .needs("adapter.list")
        .query(shape::<crate::PageQuery>())
        .summary("List the adapters of a project and when they last asked for work"),
];
