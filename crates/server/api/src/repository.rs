//! Repositories: where a project's artifacts are pushed to, by the OCI distribution protocol under `/v2/`.

use jiff::Timestamp;
use muster_ids::{ProjectId, RepositoryId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Removed;
use crate::{Operation, shape};

/// A repository. It is made by the first push to it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Repository {
    /// Its id.
    pub id: RepositoryId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name in the project; it may have parts: `train/base`.
    pub name: String,
    /// How clients of registries write it after the server's name: `acme.ml/train/base`.
    pub path: String,
    /// How many manifests it holds.
    pub manifests: i64,
    /// Bytes of everything it holds.
    pub size: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// Which repositories to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepositoryListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of repositories.
    RepositoryPage of Repository
}

/// Which tags to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepositoryTagsQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of tags, in the order of their names.
    TagPage of Tag
}

/// A tag. It can move; digests cannot.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Tag {
    /// Its name.
    pub name: String,
    /// The digest that it names now.
    pub digest: String,
    /// When it was last set.
    pub updated_at: Timestamp,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::read("repository_list", "/v1/projects/{project}/repositories", shape::<RepositoryPage>())
        .needs("repository.list")
        .query(shape::<RepositoryListQuery>())
        .summary("List a project's repositories"),
    Operation::read(
        "repository_get",
        "/v1/projects/{project}/repositories/{repository}",
        shape::<Repository>(),
    )
    .needs("repository.get")
    .summary("Show a repository"),
    Operation::read(
        "repository_tags",
        "/v1/projects/{project}/repositories/{repository}/tags",
        shape::<TagPage>(),
    )
    .needs("repository.tags")
    .query(shape::<RepositoryTagsQuery>())
    .summary("List the tags of a repository"),
    Operation::delete(
        "repository_delete",
        "/v1/projects/{project}/repositories/{repository}",
        shape::<Removed>(),
    )
    .needs("repository.delete")
    .summary("Remove a repository and everything in it")
    .description("Refused while an artifact in it is staged, canary, active or deprecated."),
];
