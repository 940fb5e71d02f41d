//! People.

use jiff::Timestamp;
use muster_ids::{TenantId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, page};
use crate::tenant::Removed;
use crate::{Endpoint, shape};

/// A person.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// The person's tenant; absent for platform staff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// E-mail address, unique in the tenant.
    pub email: String,
    /// Login name inside cells that include the project's people; derived from the e-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// User and group id there: the same in every cell, and never reused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i64>,
    /// Display name.
    pub display_name: String,
    /// Whether login and tokens are refused.
    pub disabled: bool,
    /// Whether a password is set.
    pub has_password: bool,
    /// Labels.
    pub labels: Labels,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// A person to add.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserCreate {
    /// E-mail address, unique in the tenant.
    #[schema(
        pattern = "^[^@\\s]+@[^@\\s]+$",
        min_length = 3,
        max_length = 254,
        example = "sam@acme.example"
    )]
    pub email: String,
    /// Display name; default: the e-mail address.
    #[schema(max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub display_name: Option<String>,
    /// The person's tenant, by slug or id; absent for platform staff.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Initial password. Without one, the person cannot log in until it is set.
    #[schema(format = Password, min_length = 12, max_length = 256, write_only)]
    pub password: Option<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// Properties of a person that can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserUpdate {
    /// Display name.
    #[schema(max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub display_name: Option<String>,
    /// Disable the person: tokens and sessions are refused within seconds, and work again once this is lifted.
    pub disabled: Option<bool>,
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
}

/// A new password.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSetPassword {
    /// The new password.
    #[schema(format = Password, min_length = 12, max_length = 256, write_only)]
    pub password: String,
    /// The current password; required when people change their own and have one.
    #[schema(format = Password, max_length = 256, write_only)]
    pub current_password: Option<String>,
}

/// Filters for listing people.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Label selector: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Tenant, by slug or id; default: your own, or all tenants for operators.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
}

page! {
    /// A page of people.
    UserPage of User
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("user_create", "/v1/users", shape::<UserCreate>(), shape::<User>())
        .needs("user.create")
        .summary("Add a person"),
    Endpoint::read("user_list", "/v1/users", shape::<UserPage>())
        .needs("user.list")
        .query(shape::<UserListQuery>())
        .summary("List people"),
    Endpoint::read("user_get", "/v1/users/{user}", shape::<User>())
        .needs("user.get")
        .summary("Show a person")
        .description("People can always see their own entry."),
    Endpoint::update("user_update", "/v1/users/{user}", shape::<UserUpdate>(), shape::<User>())
        .needs("user.update")
        .summary("Change a person's entry, or disable or enable the person"),
    Endpoint::act(
        "user_set_password",
        "/v1/users/{user}/set-password",
        shape::<UserSetPassword>(),
        shape::<User>(),
    )
    .needs("user.set_password")
    .summary("Set a password")
    .description("Every token and session of the person ends. People can always set their own."),
    Endpoint::delete("user_delete", "/v1/users/{user}", shape::<Removed>())
        .needs("user.delete")
        .summary("Remove a person, with tokens, sessions and role bindings"),
];
