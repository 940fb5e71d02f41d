//! SSH keys of people, for the cells of a project that accept them.

use jiff::Timestamp;
pub use muster_model::cell::SshKey;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Removed;
use crate::{Endpoint, shape};

/// A public key for the cells of a project, or a grant for those of one allocation.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SshKeyCreate {
    /// Its name.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// The text of the `.pub` file.
    #[schema(max_length = 8192)]
    pub public_key: String,
    /// Accept it only in the cells of this allocation, by id or name.
    #[schema(max_length = 128)]
    pub allocation: Option<String>,
    /// Remove it at this time.
    pub expires_at: Option<Timestamp>,
    /// Grant another person of the tenant, by e-mail address or id, a login in the cells of `allocation` until `expires_at`.
    #[schema(max_length = 254)]
    pub user: Option<String>,
}

/// Filters for listing keys.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SshKeyListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of keys.
    SshKeyPage of SshKey
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("ssh_key_create", "/v1/projects/{project}/ssh-keys", shape::<SshKeyCreate>(), shape::<SshKey>())
        .needs("ssh_key.create")
        .summary("Add an SSH key to a project, or grant one access to an allocation")
        .description("The key is written to `/etc/muster/authorized_keys` of every cell of the project that requests people, or of one `allocation`, until `expires_at`. A key of your own is valid as long as you have access to the project. A grant for another `user` needs `allocation`, `expires_at` and the permission to bind roles; it gives that person a login there and nowhere else."),
    Endpoint::read("ssh_key_list", "/v1/projects/{project}/ssh-keys", shape::<SshKeyPage>())
        .needs("ssh_key.list")
        .query(shape::<SshKeyListQuery>())
        .summary("List a project's SSH keys"),
    Endpoint::read("ssh_key_get", "/v1/projects/{project}/ssh-keys/{ssh_key}", shape::<SshKey>())
        .needs("ssh_key.get")
        .summary("Show an SSH key"),
    Endpoint::delete("ssh_key_delete", "/v1/projects/{project}/ssh-keys/{ssh_key}", shape::<Removed>())
        .needs("ssh_key.delete")
        .summary("Remove an SSH key from a project and its cells"),
];
