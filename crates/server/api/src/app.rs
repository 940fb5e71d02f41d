//! Apps of the catalog, and the releases of each.

use jiff::Timestamp;
use muster_ids::{AppId, AppVersionId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::artifact::ArtifactState;
use crate::capacity::AllocationShape;
use crate::shape::{Labels, Object, page};
use crate::tenant::Removed;
use crate::{Operation, shape};

/// Who finds an app in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// The project that publishes it.
    Project,
    /// Every project of that tenant.
    Tenant,
    /// Everybody.
    Everyone,
}

/// An entry of the catalog.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// The publisher's tenant.
    pub tenant_id: TenantId,
    /// The publisher's project.
    pub project_id: ProjectId,
    /// Its name in the catalog, of which there is one.
    pub slug: String,
    /// Its name for people.
    pub display_name: String,
    /// What it is.
    pub description: String,
    /// Who finds it.
    pub audience: Audience,
    /// Labels.
    pub labels: Labels,
    /// The release that starts if none is named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub active_version: Option<String>,
    /// The release that a part of the starts gets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary_version: Option<String>,
    /// Whether the project that asks may launch it.
    pub entitled: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// An app to be made.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppCreate {
    /// Its name in the catalog, of which there is one.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "notebook")]
    pub slug: String,
    /// Name for people; default: the slug.
    #[schema(min_length = 1, max_length = 100)]
    pub display_name: Option<String>,
    /// What it is.
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// Who finds it; the project alone, if this is not said.
    pub audience: Option<Audience>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// What of an app can change.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppUpdate {
    /// Its name for people.
    #[schema(min_length = 1, max_length = 100)]
    pub display_name: Option<String>,
    /// What it is.
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// Who finds it.
    pub audience: Option<Audience>,
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
}

/// Which apps to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those with these labels: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Only what the project itself publishes.
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
    /// How far it may be used.
    pub state: ArtifactState,
    /// To how many of a hundred starts a canary is offered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary_percent: Option<i64>,
    /// The release that took its place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub superseded_by: Option<AppVersionId>,
    /// How many instances run it or may roll back to it.
    pub instances: i64,
    /// What lint noticed when it was published, beside errors.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub warnings: Vec<Fault>,
    /// When it was published.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// Something that a manifest has wrong.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    /// Where, as a JSON pointer into the manifest.
    pub path: String,
    /// Which rule.
    pub rule: String,
    /// What is wrong, and what to do.
    pub says: String,
    /// Whether it keeps the release from being published.
    pub error: bool,
}

/// A release to be published.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppVersionPublish {
    /// The manifest; `app_schema` says what it looks like.
    pub manifest: Object,
    /// Only say what is wrong with it.
    pub dry_run: Option<bool>,
}

/// What came of a manifest.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Published {
    /// The release; absent after a dry run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub app_version: Option<AppVersion>,
    /// What lint found, all of it.
    pub faults: Vec<Fault>,
}

/// A step of a release through its states.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppVersionStep {
    /// To what.
    pub to: ArtifactState,
    /// To how many of a hundred starts a canary is offered.
    #[schema(minimum = 1, maximum = 100)]
    pub percent: Option<i64>,
    /// Why, for the record.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
}

page! {
    /// A page of releases.
    AppVersionPage of AppVersion
}

/// What to ask of an app's fit.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompatibilityQuery {
    /// Which release; the one that would start, if this is not said.
    #[schema(max_length = 100)]
    pub version: Option<String>,
    /// In which shape; both, if this is not said.
    pub shape: Option<AllocationShape>,
    /// How many members of a component: `worker=4,controller=1`; the manifest's own numbers, if this is not said.
    #[schema(max_length = 1000)]
    pub components: Option<String>,
    /// In how many allocations; as many as there are members, if this is not said.
    #[schema(minimum = 1, maximum = 10_000)]
    pub allocations: Option<i64>,
}

/// Where an app fits.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AppCompatibility {
    /// The release that was asked about.
    pub version: String,
    /// An answer for each shape.
    pub answers: Vec<Fit>,
}

/// Whether an app fits a shape.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Fit {
    /// The shape.
    pub shape: AllocationShape,
    /// Whether it fits.
    pub fits: bool,
    /// Why, or why not.
    pub reasons: Vec<String>,
    /// The smallest change that would make it fit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change: Option<String>,
}

/// What manifests look like.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ManifestSchema {
    /// A JSON Schema, draft 2020-12.
    pub schema: Object,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("app_create", "/v1/projects/{project}/apps", shape::<AppCreate>(), shape::<App>())
        .needs("app.create")
        .summary("Make an app that this project publishes"),
    Operation::read("app_list", "/v1/projects/{project}/apps", shape::<AppPage>())
        .needs("app.list")
        .query(shape::<AppListQuery>())
        .summary("List the apps that a project finds in the catalog"),
    Operation::read("app_get", "/v1/projects/{project}/apps/{app}", shape::<App>())
        .needs("app.get")
        .summary("Show an app"),
    Operation::update("app_update", "/v1/projects/{project}/apps/{app}", shape::<AppUpdate>(), shape::<App>())
        .needs("app.update")
        .summary("Change an app's description or audience"),
    Operation::delete("app_delete", "/v1/projects/{project}/apps/{app}", shape::<Removed>())
        .needs("app.delete")
        .summary("Remove an app that nobody uses, and its releases"),
    Operation::read("app_compatibility", "/v1/projects/{project}/apps/{app}/compatibility", shape::<AppCompatibility>())
        .needs("app.compatibility")
        .query(shape::<CompatibilityQuery>())
        .summary("Ask where an app fits, before anything is spent")
        .description("Each answer has its reasons and, where it is no, the smallest change that would make it fit."),
    Operation::read("app_schema", "/v1/manifest-schema", shape::<ManifestSchema>())
        .summary("Show the JSON schema of manifests"),
    Operation::create(
        "app_version_publish",
        "/v1/projects/{project}/apps/{app}/versions",
        shape::<AppVersionPublish>(),
        shape::<Published>(),
    )
    .needs("app_version.publish")
    .summary("Publish a release")
    .description("Every fault of the manifest is told at once. What is published never changes but for how far it may be used."),
    Operation::read("app_version_list", "/v1/projects/{project}/apps/{app}/versions", shape::<AppVersionPage>())
        .needs("app_version.list")
        .query(shape::<crate::PageQuery>())
        .summary("List the releases of an app"),
    Operation::read(
        "app_version_get",
        "/v1/projects/{project}/apps/{app}/versions/{app_version}",
        shape::<AppVersion>(),
    )
    .needs("app_version.get")
    .summary("Show a release with its manifest"),
    Operation::act(
        "app_version_promote",
        "/v1/projects/{project}/apps/{app}/versions/{app_version}/promote",
        shape::<AppVersionStep>(),
        shape::<AppVersion>(),
    )
    .needs("app_version.promote")
    .summary("Take a release a step forward")
    .description("A release is never ahead of what it is made of. A new active one makes the one before it deprecated."),
    Operation::act(
        "app_version_demote",
        "/v1/projects/{project}/apps/{app}/versions/{app_version}/demote",
        shape::<AppVersionStep>(),
        shape::<AppVersion>(),
    )
    .needs("app_version.demote")
    .summary("Take a release back or out of use")
    .description("What is retired has no instance that runs it or may roll back to it, and its grace is over."),
];
