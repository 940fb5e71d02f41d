//! Entitlements: a project's right to launch an app, and its consent to who operates it there. And the adapters that do.

use jiff::Timestamp;
use muster_ids::{AdapterId, AppId, EntitlementId, ProjectId, ServiceAccountId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::token::Token;
use crate::{Operation, shape};

/// How an entitlement is revoked.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntitlementRevoke {
    /// Shut the app's adapter out at once, although instances live that it operates: its account is disabled, its tokens end
    /// within seconds, and what needs the adapter waits, and is blocked in the end. Also of an entitlement that was revoked before.
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
    /// The account in the consumer's project under which the app's adapter works.
    pub operator_account_id: ServiceAccountId,
    /// What that account may do there: exactly what was consented to.
    pub permissions: Vec<String>,
    /// Since when it starts nothing new; what runs stays operable until it is decommissioned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_at: Option<Timestamp>,
    /// When it was granted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// An app to be entitled to.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntitlementGrant {
    /// The app, by slug or id.
    #[schema(max_length = 100)]
    pub app: String,
    /// The permissions that you consent to give the app's adapter here; they must be what its release asks for, which a dry
    /// run shows.
    #[schema(max_items = 200)]
    pub consent: Option<Vec<String>>,
    /// Only show what the app asks for.
    pub dry_run: Option<bool>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Granted {
    /// The entitlement; absent after a dry run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub entitlement: Option<Entitlement>,
    /// What the app's adapter may do in the project.
    pub permissions: Vec<String>,
}

/// Which entitlements to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntitlementListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Those of others to the apps that this project publishes, instead of its own to others' apps.
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
    /// How long it lives; 15 minutes at most, and if not given.
    #[schema(minimum = 1, maximum = 900)]
    pub expires_in_seconds: Option<u32>,
}

/// An adapter: what it said of itself when it last asked for work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Adapter {
    /// Its id.
    pub id: AdapterId,
    /// The project it works in.
    pub project_id: ProjectId,
    /// The account it works under.
    pub service_account_id: ServiceAccountId,
    /// Its own name.
    pub name: String,
    /// Its version.
    pub adapter_version: String,
    /// The version of the contract that it speaks.
    pub contract_version: i64,
    /// When it first asked.
    pub created_at: Timestamp,
    /// When it last asked.
    pub seen_at: Timestamp,
    /// How many steps it holds.
    pub leases: i64,
}

page! {
    /// A page of adapters.
    AdapterPage of Adapter
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create(
        "entitlement_grant",
        "/v1/projects/{project}/entitlements",
        shape::<EntitlementGrant>(),
        shape::<Granted>(),
    )
    .needs("entitlement.grant")
    .summary("Let a project launch an app, and consent to who operates it there")
    .description("An account is made in the project, with exactly the permissions consented to; the publisher's adapter may have short-lived tokens for it."),
    Operation::read("entitlement_list", "/v1/projects/{project}/entitlements", shape::<EntitlementPage>())
        .needs("entitlement.list")
        .query(shape::<EntitlementListQuery>())
        .summary("List what a project may launch, or who may launch what it publishes"),
    Operation::read(
        "entitlement_get",
        "/v1/projects/{project}/entitlements/{entitlement}",
        shape::<Entitlement>(),
    )
    .needs("entitlement.get")
    .summary("Show an entitlement"),
    Operation::act(
        "entitlement_revoke",
        "/v1/projects/{project}/entitlements/{entitlement}/revoke",
        shape::<EntitlementRevoke>(),
        shape::<Entitlement>(),
    )
    .needs("entitlement.revoke")
    .summary("Let nothing new be launched; what runs stays operable until it is decommissioned, or is cut off"),
    Operation::create(
        "operator_token_mint",
        "/v1/projects/{project}/operator-tokens",
        shape::<OperatorTokenMint>(),
        shape::<Token>(),
    )
    .needs("operator_token.mint")
    .summary("Get a short-lived token for an app's operator account in a consumer's project")
    .description("For the publisher's adapter. It lives for 15 minutes at most, and is audited in both projects."),
    Operation::read("adapter_list", "/v1/projects/{project}/adapters", shape::<AdapterPage>())
        .needs("adapter.list")
        .query(shape::<crate::PageQuery>())
        .summary("List the adapters that work in a project, with when they were last seen"),
];
