//! Apps of the catalog, and the releases of each.

use jiff::Timestamp;
use muster_ids::{AppId, AppVersionId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::artifact::ArtifactState;
use crate::capacity::AllocationShape;
use crate::shape::{Labels, Object, page};
use crate::tenant::Removed;
use crate::{Endpoint, shape};

pub use muster_model::app::Audience;

/// An entry of the catalog.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// The publisher's tenant.
    pub tenant_id: TenantId,
    /// The publisher's project.
    pub project_id: ProjectId,
    /// Its name in the catalog, unique on the platform.
    pub slug: String,
    /// Display name.
    pub display_name: String,
    /// Description.
    pub description: String,
    /// Visibility.
    pub audience: Audience,
    /// Labels.
    pub labels: Labels,
    /// Release started by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub active_version: Option<String>,
    /// Release given to a percentage of starts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary_version: Option<String>,
    /// Whether the requesting project may launch it.
    pub entitled: bool,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// An app to create.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppCreate {
    /// Its name in the catalog, unique on the platform.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "notebook")]
    pub slug: String,
    /// Name for people; default: the slug.
    #[schema(min_length = 1, max_length = 100, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub display_name: Option<String>,
    /// Description.
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// Visibility; default: `project`.
    pub audience: Option<Audience>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// Properties of an app that can change.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppUpdate {
    /// Display name.
    #[schema(min_length = 1, max_length = 100, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub display_name: Option<String>,
    /// Description.
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// Visibility.
    pub audience: Option<Audience>,
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
}

/// Filters for listing apps.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Label selector: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Only apps that the project publishes itself.
    pub own: Option<bool>,
}

page! {
    /// A page of apps.
    AppPage of App
}

/// A release of an app.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AppVersion {
    /// Its id.
    pub id: AppVersionId,
    /// The app.
    pub app_id: AppId,
    /// The app's slug.
    pub app: String,
    /// Its name, unique within the app.
    pub name: String,
    /// The manifest, as it was published.
    pub manifest: Object,
    /// The digest of the manifest.
    pub digest: String,
    /// Lifecycle state.
    pub state: ArtifactState,
    /// Percentage of starts that get the canary.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary_percent: Option<i64>,
    /// The release that superseded it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub superseded_by: Option<AppVersionId>,
    /// Number of instances that run it or may roll back to it.
    pub instances: i64,
    /// Lint warnings from its publication.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub warnings: Vec<Fault>,
    /// Publication time.
    pub created_at: Timestamp,
    /// Time of the last state change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// A lint finding in a manifest.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    /// Location, as a JSON pointer into the manifest.
    pub path: String,
    /// The rule.
    pub rule: String,
    /// The finding, and how to fix it.
    pub message: String,
    /// Whether it prevents publication.
    pub error: bool,
}

/// A release to publish.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppVersionPublish {
    /// The manifest; `app_schema` returns its schema.
    pub manifest: Object,
    /// Validate only.
    pub dry_run: Option<bool>,
}

/// Result of publishing a manifest.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Published {
    /// The release; absent after a dry run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub app_version: Option<AppVersion>,
    /// All lint findings.
    pub faults: Vec<Fault>,
}

/// A lifecycle transition of a release.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppVersionStep {
    /// Target state.
    pub to: ArtifactState,
    /// Percentage of starts that get the canary.
    #[schema(minimum = 1, maximum = 100)]
    pub percent: Option<i64>,
    /// Reason, for the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
}

page! {
    /// A page of releases.
    AppVersionPage of AppVersion
}

/// A compatibility query.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompatibilityQuery {
    /// Release; default: the one that would start.
    #[schema(max_length = 100)]
    pub version: Option<String>,
    /// Shape; default: both.
    pub shape: Option<AllocationShape>,
    /// Members per component: `worker=4,controller=1`; default: the manifest's numbers.
    #[schema(max_length = 1000)]
    pub components: Option<String>,
    /// Number of allocations; default: one per member.
    #[schema(minimum = 1, maximum = 10_000)]
    pub allocations: Option<i64>,
}

/// Shapes that an app fits.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AppCompatibility {
    /// The release in question.
    pub version: String,
    /// One answer per shape.
    pub answers: Vec<Fit>,
}

/// Whether an app fits a shape.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Fit {
    /// The shape.
    pub shape: AllocationShape,
    /// Whether it fits.
    pub fits: bool,
    /// Reasons for the answer.
    pub reasons: Vec<String>,
    /// The smallest change that would make it fit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change: Option<String>,
}

/// Schema of manifests.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ManifestSchema {
    /// A JSON Schema, draft 2020-12.
    pub schema: Object,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("app_create", "/v1/projects/{project}/apps", shape::<AppCreate>(), shape::<App>())
        .needs("app.create")
        .summary("Create an app that this project publishes"),
    Endpoint::read("app_list", "/v1/projects/{project}/apps", shape::<AppPage>())
        .needs("app.list")
        .query(shape::<AppListQuery>())
        .summary("List the apps in a project's catalog"),
    Endpoint::read("app_get", "/v1/projects/{project}/apps/{app}", shape::<App>())
        .needs("app.get")
        .summary("Show an app"),
    Endpoint::update("app_update", "/v1/projects/{project}/apps/{app}", shape::<AppUpdate>(), shape::<App>())
        .needs("app.update")
        .summary("Change an app's description or audience"),
    Endpoint::delete("app_delete", "/v1/projects/{project}/apps/{app}", shape::<Removed>())
        .needs("app.delete")
        .summary("Remove an unused app and its releases"),
    Endpoint::read("app_compatibility", "/v1/projects/{project}/apps/{app}/compatibility", shape::<AppCompatibility>())
        .needs("app.compatibility")
        .query(shape::<CompatibilityQuery>())
        .summary("Check where an app fits, before anything is spent")
        .description("Each answer has its reasons and, if the app does not fit, the smallest change that would make it fit."),
    Endpoint::read("app_schema", "/v1/manifest-schema", shape::<ManifestSchema>())
        .summary("Show the JSON schema of manifests"),
    Endpoint::create(
        "app_version_publish",
        "/v1/projects/{project}/apps/{app}/versions",
        shape::<AppVersionPublish>(),
        shape::<Published>(),
    )
    .needs("app_version.publish")
    .summary("Publish a release")
    .description("Reports all faults of the manifest at once. A published release never changes, except for its state."),
    Endpoint::read("app_version_list", "/v1/projects/{project}/apps/{app}/versions", shape::<AppVersionPage>())
        .needs("app_version.list")
        .query(shape::<crate::PageQuery>())
        .summary("List the releases of an app"),
    Endpoint::read(
        "app_version_get",
        "/v1/projects/{project}/apps/{app}/versions/{app_version}",
        shape::<AppVersion>(),
    )
    .needs("app_version.get")
    .summary("Show a release with its manifest"),
    Endpoint::act(
        "app_version_promote",
        "/v1/projects/{project}/apps/{app}/versions/{app_version}/promote",
        shape::<AppVersionStep>(),
        shape::<AppVersion>(),
    )
    .needs("app_version.promote")
    .summary("Promote a release")
    .description("A release is never ahead of its artifacts. A new active release makes the previous one deprecated."),
    Endpoint::act(
        "app_version_demote",
        "/v1/projects/{project}/apps/{app}/versions/{app_version}/demote",
        shape::<AppVersionStep>(),
        shape::<AppVersion>(),
    )
    .needs("app_version.demote")
    .summary("Demote or retire a release")
    .description("A release can be retired when no instance runs it or may roll back to it, and its grace period is over."),
];
