//! Who am I, and what may I do.

use jiff::Timestamp;
use muster_ids::{ProjectId, TenantId, TokenId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::role_binding::Role;
use crate::{Operation, shape};

/// A role and where it counts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HeldRole {
    /// Which role.
    pub role: Role,
    /// In which tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// In which project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
}

/// The actor of a request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// `user` or `service_account`.
    pub kind: String,
    /// The actor's id.
    pub id: String,
    /// An address or a name.
    pub name: String,
    /// The tenant it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// The project of a service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The roles of a person.
    pub roles: Vec<HeldRole>,
    /// The allow list of a service account.
    pub permissions: Vec<String>,
    /// The credential that was used.
    pub token_id: TokenId,
    /// When that credential ends by itself.
    pub expires_at: Timestamp,
}

/// A question about rights.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CanIQuery {
    /// The permission, as `noun.verb`.
    #[schema(max_length = 100, example = "project.create")]
    pub permission: String,
    /// In which tenant, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// In which project, by name or id. With neither, on the platform.
    #[schema(max_length = 128)]
    pub project: Option<String>,
}

/// The answer, with its reason.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CanI {
    /// What was asked.
    pub permission: String,
    /// Yes or no.
    pub allowed: bool,
    /// Why.
    pub reason: String,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::read("whoami", "/v1/whoami", shape::<WhoAmI>()).summary("Show who you are to the platform"),
    Operation::read("can_i", "/v1/can-i", shape::<CanI>())
        .query(shape::<CanIQuery>())
        .summary("Ask whether you may do something, and why"),
];
