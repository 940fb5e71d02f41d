//! Tenants.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, ListQuery, page};
use crate::{Endpoint, shape};

pub use muster_model::Tenant;

/// A tenant to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantCreate {
    /// Name, unique on the platform.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "acme")]
    pub slug: String,
    /// Display name; default: the slug.
    #[schema(max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub display_name: Option<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// Properties of a tenant that can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantUpdate {
    /// Display name.
    #[schema(max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub display_name: Option<String>,
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
}

/// Options for a removal.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteQuery {
    /// Whether its contents are removed too; otherwise the request is refused as `not_empty`.
    pub cascade: Option<bool>,
}

/// Result of a removal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// Id of the removed resource.
    pub id: String,
    /// Number of resources removed with it, by noun.
    pub removed: std::collections::BTreeMap<String, i64>,
}

/// An empty request body.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

page! {
    /// A page of tenants.
    TenantPage of Tenant
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("tenant_create", "/v1/tenants", shape::<TenantCreate>(), shape::<Tenant>())
        .needs("tenant.create")
        .summary("Create a tenant"),
    Endpoint::read("tenant_list", "/v1/tenants", shape::<TenantPage>())
        .needs("tenant.list")
        .query(shape::<ListQuery>())
        .summary("List the tenants you have access to"),
    Endpoint::read("tenant_get", "/v1/tenants/{tenant}", shape::<Tenant>())
        .needs("tenant.get")
        .summary("Show a tenant"),
    Endpoint::update("tenant_update", "/v1/tenants/{tenant}", shape::<TenantUpdate>(), shape::<Tenant>())
        .needs("tenant.update")
        .summary("Change a tenant's description"),
    Endpoint::delete("tenant_delete", "/v1/tenants/{tenant}", shape::<Removed>())
        .needs("tenant.delete")
        .query(shape::<DeleteQuery>())
        .summary("Remove a tenant")
        .description(
            "Removes the tenant; with `cascade` also its projects, people, service accounts, tokens, \
             webhooks and the records of ended allocations. A tenant with a live allocation cannot be \
             removed: release it first. Its encryption keys are destroyed. Its audit chain stays.",
        ),
    Endpoint::act(
        "tenant_rotate_key",
        "/v1/tenants/{tenant}/rotate-key",
        shape::<Nothing>(),
        shape::<Tenant>(),
    )
    .needs("tenant.rotate_key")
    .summary("Rotate a tenant's encryption key")
    .description("Content sealed under the old key is sealed again in the background, without interruption."),
];
