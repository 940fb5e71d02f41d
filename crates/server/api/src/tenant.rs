//! Tenants.

use jiff::Timestamp;
use muster_ids::TenantId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, ListQuery, page};
use crate::{Operation, shape};

/// A tenant: the outer wall of isolation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Its name, unique on the platform.
    pub slug: String,
    /// What people read.
    pub display_name: String,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// A tenant to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantCreate {
    /// Its name, unique on the platform.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "acme")]
    pub slug: String,
    /// What people read; the slug if not given.
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// What of a tenant can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantUpdate {
    /// What people read.
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
}

/// How far a removal goes.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteQuery {
    /// Whether what it holds is removed with it; refused as `not_empty` otherwise.
    pub cascade: Option<bool>,
}

/// What a removal took with it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// The id of what was asked for.
    pub id: String,
    /// How many of each other noun went with it.
    pub removed: std::collections::BTreeMap<String, i64>,
}

/// An empty body, for acts that need no words.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

page! {
    /// A page of tenants.
    TenantPage of Tenant
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("tenant_create", "/v1/tenants", shape::<TenantCreate>(), shape::<Tenant>())
        .needs("tenant.create")
        .summary("Make a tenant"),
    Operation::read("tenant_list", "/v1/tenants", shape::<TenantPage>())
        .needs("tenant.list")
        .query(shape::<ListQuery>())
        .summary("List the tenants you may see"),
    Operation::read("tenant_get", "/v1/tenants/{tenant}", shape::<Tenant>())
        .needs("tenant.get")
        .summary("Show a tenant"),
    Operation::update("tenant_update", "/v1/tenants/{tenant}", shape::<TenantUpdate>(), shape::<Tenant>())
        .needs("tenant.update")
        .summary("Change a tenant's description"),
    Operation::delete("tenant_delete", "/v1/tenants/{tenant}", shape::<Removed>())
        .needs("tenant.delete")
        .query(shape::<DeleteQuery>())
        .summary("Remove a tenant")
        .description(
            "Removes the tenant; with `cascade` also its projects, people, service accounts, tokens, webhooks and what is \
             known of allocations that ended. While an allocation lives the tenant stays: release it first. Its \
             encryption keys are destroyed. Its audit chain stays.",
        ),
    Operation::act("tenant_rotate_key", "/v1/tenants/{tenant}/rotate-key", shape::<Nothing>(), shape::<Tenant>())
        .needs("tenant.rotate_key")
        .summary("Give a tenant a new encryption key")
        .description("What was sealed under the old key is sealed anew in the background; nothing stops meanwhile."),
];
