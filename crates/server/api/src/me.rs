//! Identity and permissions of the caller.

use jiff::Timestamp;
use muster_ids::{ProjectId, TenantId, TokenId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::role_binding::Role;
use crate::{Endpoint, shape};

/// A role and its scope.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HeldRole {
    /// The role.
    pub role: Role,
    /// Tenant, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// Project, if any.
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
    /// E-mail address or name.
    pub name: String,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// The project of a service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The roles of a person.
    pub roles: Vec<HeldRole>,
    /// The allow list of a service account.
    pub permissions: Vec<String>,
    /// The credential in use.
    pub token_id: TokenId,
    /// Expiry of that credential.
    pub expires_at: Timestamp,
}

/// A permission query.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CanIQuery {
    /// The permission, as `noun.verb`.
    #[schema(max_length = 100, example = "project.create")]
    pub permission: String,
    /// Tenant, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Project, by name or id. With neither, the platform.
    #[schema(max_length = 128)]
    pub project: Option<String>,
}

/// The answer, with its reason.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CanI {
    /// The permission in question.
    pub permission: String,
    /// Whether it is granted.
    pub allowed: bool,
    /// Reason.
    pub reason: String,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("whoami", "/v1/whoami", shape::<WhoAmI>()).summary("Show your identity"),
    Endpoint::read("can_i", "/v1/can-i", shape::<CanI>())
        .query(shape::<CanIQuery>())
        .summary("Check whether you have a permission, and why"),
];
