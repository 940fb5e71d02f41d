//! People.

use jiff::Timestamp;
use muster_ids::{TenantId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, page};
use crate::tenant::Removed;
use crate::{Operation, shape};

/// A person.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// The tenant that the person belongs to; platform people belong to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// The address, unique in the tenant.
    pub email: String,
    /// What the person is called inside of cells that have the project's people; made from the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// The person's number there, user and group alike: the same in every cell, and never given to another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i64>,
    /// What people read.
    pub display_name: String,
    /// A disabled person can neither log in nor use a token.
    pub disabled: bool,
    /// Whether a password was set.
    pub has_password: bool,
    /// Labels.
    pub labels: Labels,
    /// When the person was added.
    pub created_at: Timestamp,
    /// When the entry last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// A person to be added.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserCreate {
    /// The address, unique in the tenant.
    #[schema(
        pattern = "^[^@\\s]+@[^@\\s]+$",
        min_length = 3,
        max_length = 254,
        example = "sam@acme.example"
    )]
    pub email: String,
    /// What people read; the address if not given.
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// The tenant that the person belongs to, by slug or id; none for people who run the platform.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// A first password. Without one the person cannot log in until it is set.
    #[schema(format = Password, min_length = 12, max_length = 256, write_only)]
    pub password: Option<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// What of a person's entry can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserUpdate {
    /// What people read.
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// Whether the person is shut out: tokens and sessions end within seconds, and come back to life if lifted.
    pub disabled: Option<bool>,
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
}

/// A new password.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSetPassword {
    /// The new one.
    #[schema(format = Password, min_length = 12, max_length = 256, write_only)]
    pub password: String,
    /// The one until now; needed when people change their own and have one.
    #[schema(format = Password, max_length = 256, write_only)]
    pub current_password: Option<String>,
}

/// What a list of people takes.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those with these labels: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Whose people, by slug or id; your own tenant's if not given, everybody's for operators.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
}

page! {
    /// A page of people.
    UserPage of User
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("user_create", "/v1/users", shape::<UserCreate>(), shape::<User>())
        .needs("user.create")
        .summary("Add a person"),
    Operation::read("user_list", "/v1/users", shape::<UserPage>())
        .needs("user.list")
        .query(shape::<UserListQuery>())
        .summary("List people"),
    Operation::read("user_get", "/v1/users/{user}", shape::<User>())
        .needs("user.get")
        .summary("Show a person")
        .description("People can always see themselves."),
    Operation::update("user_update", "/v1/users/{user}", shape::<UserUpdate>(), shape::<User>())
        .needs("user.update")
        .summary("Change a person's entry, or shut the person out"),
    Operation::act(
        "user_set_password",
        "/v1/users/{user}/set-password",
        shape::<UserSetPassword>(),
        shape::<User>(),
    )
    .needs("user.set_password")
    .summary("Set a password")
    .description("Every token and session of the person ends. People can always set their own."),
    Operation::delete("user_delete", "/v1/users/{user}", shape::<Removed>())
        .needs("user.delete")
        .summary("Remove a person, with tokens, sessions and role bindings"),
];
