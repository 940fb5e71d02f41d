//! Service accounts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, ListQuery, page};
use crate::tenant::Removed;
use crate::{Endpoint, shape};

pub use muster_model::ServiceAccount;

/// A service account to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountCreate {
    /// Its name, unique in the project.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "ci")]
    pub name: String,
    /// Description.
    #[schema(max_length = 500)]
    pub description: Option<String>,
    /// Permissions, as `noun.verb`. Some can never be granted, and none of a role that you do not hold; those of service accounts alone can be.
    #[schema(max_items = 200)]
    pub permissions: Vec<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// Properties of a service account that can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountUpdate {
    /// Description.
    #[schema(max_length = 500)]
    pub description: Option<String>,
    /// Permissions; replace the existing ones.
    #[schema(max_items = 200)]
    pub permissions: Option<Vec<String>>,
    /// Whether its tokens are refused.
    pub disabled: Option<bool>,
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
}

page! {
    /// A page of service accounts.
    ServiceAccountPage of ServiceAccount
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create(
        "service_account_create",
        "/v1/projects/{project}/service-accounts",
        shape::<ServiceAccountCreate>(),
        shape::<ServiceAccount>(),
    )
    .needs("service_account.create")
    .summary("Create a service account"),
    Endpoint::read(
        "service_account_list",
        "/v1/projects/{project}/service-accounts",
        shape::<ServiceAccountPage>(),
    )
    .needs("service_account.list")
    .query(shape::<ListQuery>())
    .summary("List a project's service accounts"),
    Endpoint::read(
        "service_account_get",
        "/v1/projects/{project}/service-accounts/{service_account}",
        shape::<ServiceAccount>(),
    )
    .needs("service_account.get")
    .summary("Show a service account"),
    Endpoint::update(
        "service_account_update",
        "/v1/projects/{project}/service-accounts/{service_account}",
        shape::<ServiceAccountUpdate>(),
        shape::<ServiceAccount>(),
    )
    .needs("service_account.update")
    .summary("Change a service account's allow list or description"),
    Endpoint::delete(
        "service_account_delete",
        "/v1/projects/{project}/service-accounts/{service_account}",
        shape::<Removed>(),
    )
    .needs("service_account.delete")
    .summary("Remove a service account and its tokens"),
];
