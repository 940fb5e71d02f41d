//! Instances: apps that run in a project, and their components.

use jiff::Timestamp;
use muster_ids::{
    AllocationId, AppId, AppVersionId, InstanceId, NetworkId, OperationId, ProjectId, ServiceAccountId,
    TenantId, WitnessId,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::{AllocationShape, Capacity};
use crate::operation::Started;
use crate::shape::{Labels, Object, page};
use crate::{Endpoint, shape};

pub use muster_model::instance::{Health, InstanceState, RepairMode};

/// A component of an instance.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Component {
    /// Its key, meaningful to the app only.
    pub component_key: String,
    /// Desired number of members.
    pub desired: i64,
    /// Number of active members.
    pub current: i64,
    /// Total number of members, including those that are starting, leaving or failed.
    pub members: i64,
    /// Current health.
    pub health: Health,
    /// Capacity requested for each new member.
    pub capacity: Capacity,
    /// Allocation for new members, if the owner chose one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allocation_id: Option<AllocationId>,
}

/// Composition of an instance.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Topology {
    /// The adapter's name for it; opaque.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mode: Option<String>,
    /// Its components.
    pub components: Vec<Component>,
}

/// An instance of an app in a project.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Name, unique among the project's live ones.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// The app.
    pub app_id: AppId,
    /// The app's slug.
    pub app: String,
    /// Release that it should run.
    pub app_version_id: AppVersionId,
    /// Name of that release.
    pub app_version: String,
    /// Release that a rollback returns to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub previous_version_id: Option<AppVersionId>,
    /// Its configuration.
    pub config: Object,
    /// The only account that may lease its adapter steps.
    pub operator_service_account: ServiceAccountId,
    /// Network of its members.
    pub network_id: NetworkId,
    /// Shape of its allocations.
    pub bound_capacity_shape: AllocationShape,
    /// Current state.
    pub state: InstanceState,
    /// Current health.
    pub health: Health,
    /// Explanation, when not healthy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_message: Option<String>,
    /// Time of the last change of its health.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_since: Option<Timestamp>,
    /// Its composition.
    pub topology: Topology,
    /// Repair policy for failed members.
    pub repair: RepairMode,
    /// Whether it is protected from decommissioning.
    pub protected: bool,
    /// Time at which it is decommissioned automatically.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
    /// Failure reason, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Evidence that it ran.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub running_witness_id: Option<WitnessId>,
    /// Evidence that nothing of it is left.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped_witness_id: Option<WitnessId>,
    /// Operation that last worked on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// Time of its adapter's last reconciliation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reconciled_at: Option<Timestamp>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Requested properties of a component.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComponentAsk {
    /// Its key in the manifest.
    #[schema(max_length = 32)]
    pub component_key: String,
    /// Number of members; default: the manifest's number.
    #[schema(minimum = 0, maximum = 10_000)]
    pub count: Option<i64>,
    /// Capacity per member; default: the manifest's capacity.
    pub capacity: Option<Capacity>,
    /// Allocation for the members, by id or name; default: the platform creates one per member.
    #[schema(max_length = 100)]
    pub allocation: Option<String>,
}

/// An instance to create.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceCreate {
    /// Name, unique among the project's live ones.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$")]
    pub name: String,
    /// The app, by slug or id.
    #[schema(max_length = 100)]
    pub app: String,
    /// Release, by name or id; default: the active one or the canary.
    #[schema(max_length = 100)]
    pub app_version: Option<String>,
    /// Configuration, validated against the manifest's schema.
    pub config: Option<Object>,
    /// Components that differ from the manifest's defaults.
    #[schema(max_items = 32)]
    pub components: Option<Vec<ComponentAsk>>,
    /// Shape of the allocations that the platform creates; default: `gpu_slice` if it fits.
    pub shape: Option<AllocationShape>,
    /// Labels.
    pub labels: Option<Labels>,
    /// Whether it is protected from decommissioning.
    pub protected: Option<bool>,
    /// Time at which it is decommissioned automatically.
    pub expires_at: Option<Timestamp>,
    /// Repair policy for failed members; default: the manifest's policy.
    pub repair: Option<RepairMode>,
    /// Deadline for it to run; default: one hour from now.
    pub ready_until: Option<Timestamp>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// Properties of an instance that can change without changing its members.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceUpdate {
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
    /// Whether it is protected from decommissioning.
    pub protected: Option<bool>,
    /// Time at which it is decommissioned automatically; a time in the distant past removes the expiry.
    pub expires_at: Option<Timestamp>,
    /// Repair policy for failed members.
    pub repair: Option<RepairMode>,
}

/// Desired numbers of members.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceScale {
    /// Components to change.
    #[schema(min_items = 1, max_items = 32)]
    pub components: Vec<ComponentAsk>,
    /// Reason, for the audit log.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Deadline; default: one hour from now.
    pub ready_until: Option<Timestamp>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// An upgrade to another release.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceUpgrade {
    /// Release, by name or id; default: the active one or the canary.
    #[schema(max_length = 100)]
    pub app_version: Option<String>,
    /// New configuration; default: unchanged.
    pub config: Option<Object>,
    /// Reason, for the audit log.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Deadline; default: two hours from now.
    pub ready_until: Option<Timestamp>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// An action on an instance.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceAct {
    /// Reason, for the audit log.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Skip draining the members.
    pub force: Option<bool>,
    /// Deadline; default: two hours from now.
    pub ready_until: Option<Timestamp>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// Filters for listing instances.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Label selector: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Only those in this state.
    pub state: Option<InstanceState>,
}

page! {
    /// A page of instances.
    InstancePage of Instance
}

/// An endpoint of an instance.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InstanceEndpoint {
    /// Its name in the manifest.
    pub name: String,
    /// The member.
    pub member: String,
    /// Its component.
    pub component_key: String,
    /// Its address in the instance's network.
    pub address: String,
    /// The port there.
    pub port: i64,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Address of the node, if a node port forwards to the endpoint.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_address: Option<String>,
    /// Port of the node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_port: Option<i64>,
}

/// Endpoints of an instance.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InstanceEndpoints {
    /// Endpoints of its active members.
    pub endpoints: Vec<InstanceEndpoint>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::start(
        "instance_create",
        "/v1/projects/{project}/app-instances",
        shape::<InstanceCreate>(),
        shape::<Started>(),
    )
    .needs("instance.create")
    .summary("Launch an app")
    .description("It is running when every component has its minimum of active members, each of them witnessed. A failed launch is rolled back."),
    Endpoint::start(
        "instance_apply",
        "/v1/projects/{project}/app-instances/apply",
        shape::<InstanceCreate>(),
        shape::<Started>(),
    )
    .needs("instance.apply")
    .summary("Create or update an instance from a file")
    .description("Creates the instance, or upgrades and scales the one with this name. Parts that already match are left alone; the plan lists the differences."),
    Endpoint::read("instance_list", "/v1/projects/{project}/app-instances", shape::<InstancePage>())
        .needs("instance.list")
        .query(shape::<InstanceListQuery>())
        .summary("List a project's instances"),
    Endpoint::read("instance_get", "/v1/projects/{project}/app-instances/{instance}", shape::<Instance>())
        .needs("instance.get")
        .summary("Show an instance with its topology"),
    Endpoint::update(
        "instance_update",
        "/v1/projects/{project}/app-instances/{instance}",
        shape::<InstanceUpdate>(),
        shape::<Instance>(),
    )
    .needs("instance.update")
    .summary("Change an instance's labels, protection, expiry or repair mode"),
    Endpoint::start(
        "instance_scale",
        "/v1/projects/{project}/app-instances/{instance}/scale",
        shape::<InstanceScale>(),
        shape::<Started>(),
    )
    .needs("instance.scale")
    .summary("Set the number of members of an instance's components"),
    Endpoint::start(
        "instance_upgrade",
        "/v1/projects/{project}/app-instances/{instance}/upgrade",
        shape::<InstanceUpgrade>(),
        shape::<Started>(),
    )
    .needs("instance.upgrade")
    .summary("Upgrade an instance to another release")
    .description("Member by member, in the order and at the pace of the manifest; a failure blocks the operation, which can be rolled back."),
    Endpoint::start(
        "instance_rollback",
        "/v1/projects/{project}/app-instances/{instance}/rollback",
        shape::<InstanceAct>(),
        shape::<Started>(),
    )
    .needs("instance.rollback")
    .summary("Roll an instance back to its previous release"),
    Endpoint::start(
        "instance_decommission",
        "/v1/projects/{project}/app-instances/{instance}/decommission",
        shape::<InstanceAct>(),
        shape::<Started>(),
    )
    .needs("instance.decommission")
    .summary("Decommission an instance and verify that nothing of it is left"),
    Endpoint::read(
        "instance_endpoints",
        "/v1/projects/{project}/app-instances/{instance}/endpoints",
        shape::<InstanceEndpoints>(),
    )
    .needs("instance.endpoints")
    .summary("Show the endpoints of an instance"),
];
