//! Repositories: targets for pushing a project's artifacts with the OCI distribution protocol under `/v2/`.

use jiff::Timestamp;
use muster_ids::{ProjectId, RepositoryId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Removed;
use crate::{Endpoint, shape};

/// A repository. The first push creates it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Repository {
    /// Its id.
    pub id: RepositoryId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name in the project; may have several segments: `train/base`.
    pub name: String,
    /// Its path after the server's name, as registry clients write it: `acme.ml/train/base`.
    pub path: String,
    /// Number of manifests.
    pub manifests: i64,
    /// Total size in bytes.
    pub size: i64,
    /// Creation time.
    pub created_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Filters for listing repositories.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepositoryListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of repositories.
    RepositoryPage of Repository
}

/// Filters for listing tags.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepositoryTagsQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of tags, sorted by name.
    TagPage of Tag
}

/// A tag. It is mutable; digests are not.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Tag {
    /// Its name.
    pub name: String,
    /// Digest that it points to.
    pub digest: String,
    /// Time it was last set.
    pub updated_at: Timestamp,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("repository_list", "/v1/projects/{project}/repositories", shape::<RepositoryPage>())
        .needs("repository.list")
        .query(shape::<RepositoryListQuery>())
        .summary("List a project's repositories"),
    Endpoint::read(
        "repository_get",
        "/v1/projects/{project}/repositories/{repository}",
        shape::<Repository>(),
    )
    .needs("repository.get")
    .summary("Show a repository"),
    Endpoint::read(
        "repository_tags",
        "/v1/projects/{project}/repositories/{repository}/tags",
        shape::<TagPage>(),
    )
    .needs("repository.tags")
    .query(shape::<RepositoryTagsQuery>())
    .summary("List the tags of a repository"),
    Endpoint::delete(
        "repository_delete",
        "/v1/projects/{project}/repositories/{repository}",
        shape::<Removed>(),
    )
    .needs("repository.delete")
    .summary("Remove a repository and everything in it")
    .description("Refused while an artifact in it is staged, canary, active or deprecated."),
];
