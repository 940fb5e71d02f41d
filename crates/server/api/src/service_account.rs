//! Service accounts.

use jiff::Timestamp;
use muster_ids::{ProjectId, ServiceAccountId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, ListQuery, page};
use crate::tenant::Removed;
use crate::{Operation, shape};

/// Automation inside one project.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ServiceAccount {
    /// Its id.
    pub id: ServiceAccountId,
    /// Its project, outside of which it can do nothing.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it may do there: nothing is implied.
    pub permissions: Vec<String>,
    /// A disabled account's tokens are refused.
    pub disabled: bool,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// A service account to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountCreate {
    /// Its name, unique in the project.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "ci")]
    pub name: String,
    /// What it is for.
    #[schema(max_length = 500)]
    pub description: Option<String>,
    /// What it may do, as `noun.verb`. Some permissions can never be given, and none that you do not hold.
    #[schema(max_items = 200)]
    pub permissions: Vec<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// What of a service account can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountUpdate {
    /// What it is for.
    #[schema(max_length = 500)]
    pub description: Option<String>,
    /// The allow list; it replaces the old one.
    #[schema(max_items = 200)]
    pub permissions: Option<Vec<String>>,
    /// Whether its tokens are refused.
    pub disabled: Option<bool>,
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
}

page! {
    /// A page of service accounts.
    ServiceAccountPage of ServiceAccount
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create(
        "service_account_create",
        "/v1/projects/{project}/service-accounts",
        shape::<ServiceAccountCreate>(),
        shape::<ServiceAccount>(),
    )
    .needs("service_account.create")
    .summary("Make a service account"),
    Operation::read(
        "service_account_list",
        "/v1/projects/{project}/service-accounts",
        shape::<ServiceAccountPage>(),
    )
    .needs("service_account.list")
    .query(shape::<ListQuery>())
    .summary("List a project's service accounts"),
    Operation::read(
        "service_account_get",
        "/v1/projects/{project}/service-accounts/{service_account}",
        shape::<ServiceAccount>(),
    )
    .needs("service_account.get")
    .summary("Show a service account"),
    Operation::update(
        "service_account_update",
        "/v1/projects/{project}/service-accounts/{service_account}",
        shape::<ServiceAccountUpdate>(),
        shape::<ServiceAccount>(),
    )
    .needs("service_account.update")
    .summary("Change a service account's allow list or description"),
    Operation::delete(
        "service_account_delete",
        "/v1/projects/{project}/service-accounts/{service_account}",
        shape::<Removed>(),
    )
    .needs("service_account.delete")
    .summary("Remove a service account and its tokens"),
];
