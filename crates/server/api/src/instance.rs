//! Instances: apps that run in a project, and their components.

use jiff::Timestamp;
use muster_ids::{
    AllocationId, AppId, AppVersionId, InstanceId, NetworkId, OperationId, ProjectId, ServiceAccountId,
    TenantId, WitnessId,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::{AllocationShape, Capacity};
use crate::operations::Started;
use crate::shape::{Labels, Object, page};
use crate::{Operation, shape};

/// What an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    /// It was asked for.
    Created,
    /// Its members are being added.
    Starting,
    /// Every component has at least as many active members as it needs, witnessed.
    Running,
    /// Its members are being removed.
    Stopping,
    /// Nothing of it is left, witnessed or attested.
    Stopped,
    /// It did not come to run, or cannot go on; it is decommissioned like any other.
    Failed,
}

/// How well something does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Well.
    Healthy,
    /// It works, with something missing.
    Degraded,
    /// It does not work.
    Unhealthy,
    /// Nobody can say.
    Unknown,
}

/// Who decides when a member fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairMode {
    /// Nobody.
    Off,
    /// A replacement is proposed, and a person decides.
    Propose,
    /// A replacement is opened by itself, until the breaker opens.
    Automatic,
}

/// A component of an instance.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Component {
    /// Its key, which means something to the app alone.
    pub component_key: String,
    /// How many members its owner wants.
    pub desired: i64,
    /// How many are active.
    pub current: i64,
    /// How many there are in all, those that are coming, going and failed included.
    pub members: i64,
    /// How well it does.
    pub health: Health,
    /// What each new member asks for.
    pub capacity: Capacity,
    /// The allocation that new members go into, where its owner chose one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allocation_id: Option<AllocationId>,
}

/// What an instance is made of.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Topology {
    /// How its adapter calls it: opaque.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mode: Option<String>,
    /// Its components.
    pub components: Vec<Component>,
}

/// An app that runs in a project.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name, unique in the project among those that live.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// The app.
    pub app_id: AppId,
    /// The app's slug.
    pub app: String,
    /// The release that it should run.
    pub app_version_id: AppVersionId,
    /// The name of that release.
    pub app_version: String,
    /// The release that a rollback goes to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub previous_version_id: Option<AppVersionId>,
    /// What it was configured with.
    pub config: Object,
    /// The account that alone may lease its adapter steps.
    pub operator_service_account: ServiceAccountId,
    /// Its members' network.
    pub network_id: NetworkId,
    /// The shape of the allocations that it runs in.
    pub bound_capacity_shape: AllocationShape,
    /// What it is.
    pub state: InstanceState,
    /// How well it does.
    pub health: Health,
    /// Why, where it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_message: Option<String>,
    /// Since when its health is what it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_since: Option<Timestamp>,
    /// What it is made of.
    pub topology: Topology,
    /// Who decides when a member fails.
    pub repair: RepairMode,
    /// Whether it is kept from being decommissioned.
    pub protected: bool,
    /// When it is decommissioned by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
    /// Why it failed: a word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What to do about that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// What happened, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// The evidence that it came to run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub running_witness_id: Option<WitnessId>,
    /// The evidence that nothing of it is left.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// When its adapter last looked at it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reconciled_at: Option<Timestamp>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// What is asked of a component.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComponentAsk {
    /// Which, by its key in the manifest.
    #[schema(max_length = 32)]
    pub component_key: String,
    /// How many members; the manifest's own number, if this is not said.
    #[schema(minimum = 0, maximum = 10_000)]
    pub count: Option<i64>,
    /// What each asks for; what the manifest says, if this is not said.
    pub capacity: Option<Capacity>,
    /// The allocation that they go into, by id or name; the platform makes one for each, if this is not said.
    #[schema(max_length = 100)]
    pub allocation: Option<String>,
}

/// An instance to be made.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceCreate {
    /// Its name, unique in the project among those that live.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$")]
    pub name: String,
    /// The app, by slug or id.
    #[schema(max_length = 100)]
    pub app: String,
    /// The release, by name or id; the active one or the canary, if this is not said.
    #[schema(max_length = 100)]
    pub app_version: Option<String>,
    /// What it is configured with; the manifest's schema says what that may be.
    pub config: Option<Object>,
    /// The components that differ from what the manifest says.
    #[schema(max_items = 32)]
    pub components: Option<Vec<ComponentAsk>>,
    /// The shape of the allocations that the platform makes; a slice of a node if that fits, if this is not said.
    pub shape: Option<AllocationShape>,
    /// Labels.
    pub labels: Option<Labels>,
    /// Whether it is kept from being decommissioned.
    pub protected: Option<bool>,
    /// When it is decommissioned by itself.
    pub expires_at: Option<Timestamp>,
    /// Who decides when a member fails; what the manifest says, if this is not said.
    pub repair: Option<RepairMode>,
    /// Until when it must run; an hour from now if this is not said.
    pub ready_until: Option<Timestamp>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// What of an instance can change without any of its members changing.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceUpdate {
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
    /// Whether it is kept from being decommissioned.
    pub protected: Option<bool>,
    /// When it is decommissioned by itself; a time that is long past takes an expiry away.
    pub expires_at: Option<Timestamp>,
    /// Who decides when a member fails.
    pub repair: Option<RepairMode>,
}

/// How many members an instance should have.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceScale {
    /// The components that change.
    #[schema(min_items = 1, max_items = 32)]
    pub components: Vec<ComponentAsk>,
    /// Why, for the record.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Until when it must be done; an hour from now if this is not said.
    pub ready_until: Option<Timestamp>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// Another release for an instance.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceUpgrade {
    /// The release, by name or id; the active one or the canary, if this is not said.
    #[schema(max_length = 100)]
    pub app_version: Option<String>,
    /// What it is configured with from then on; as before, if this is not said.
    pub config: Option<Object>,
    /// Why, for the record.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Until when it must be done; two hours from now if this is not said.
    pub ready_until: Option<Timestamp>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// An order about an instance.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceAct {
    /// Why, for the record.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Without waiting for members to be drained.
    pub force: Option<bool>,
    /// Until when it must be done; two hours from now if this is not said.
    pub ready_until: Option<Timestamp>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// Which instances to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those with these labels: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// In this state only.
    pub state: Option<InstanceState>,
}

page! {
    /// A page of instances.
    InstancePage of Instance
}

/// Where an instance can be reached.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// What it is for, as the manifest calls it.
    pub name: String,
    /// Which member.
    pub member: String,
    /// Its component.
    pub component_key: String,
    /// Its address in the instance's network.
    pub address: String,
    /// The port there.
    pub port: i64,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The node's address, where a port of the node leads there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_address: Option<String>,
    /// The node's port.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_port: Option<i64>,
}

/// Where an instance can be reached.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Endpoints {
    /// Of its active members.
    pub endpoints: Vec<Endpoint>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::start(
        "instance_create",
        "/v1/projects/{project}/app-instances",
        shape::<InstanceCreate>(),
        shape::<Started>(),
    )
    .needs("instance.create")
    .summary("Launch an app")
    .description("It is running when every component has as many active members as it needs, each of them witnessed. What does not come to be is taken down again."),
    Operation::start(
        "instance_apply",
        "/v1/projects/{project}/app-instances/apply",
        shape::<InstanceCreate>(),
        shape::<Started>(),
    )
    .needs("instance.apply")
    .summary("Have an instance be as this says: launch it, or upgrade and scale the one with this name")
    .description("What is as it should be is left alone; the plan says what differs."),
    Operation::read("instance_list", "/v1/projects/{project}/app-instances", shape::<InstancePage>())
        .needs("instance.list")
        .query(shape::<InstanceListQuery>())
        .summary("List a project's instances"),
    Operation::read("instance_get", "/v1/projects/{project}/app-instances/{instance}", shape::<Instance>())
        .needs("instance.get")
        .summary("Show an instance with its topology"),
    Operation::update(
        "instance_update",
        "/v1/projects/{project}/app-instances/{instance}",
        shape::<InstanceUpdate>(),
        shape::<Instance>(),
    )
    .needs("instance.update")
    .summary("Change an instance's labels, protection, expiry or repair mode"),
    Operation::start(
        "instance_scale",
        "/v1/projects/{project}/app-instances/{instance}/scale",
        shape::<InstanceScale>(),
        shape::<Started>(),
    )
    .needs("instance.scale")
    .summary("Say how many members the components of an instance should have"),
    Operation::start(
        "instance_upgrade",
        "/v1/projects/{project}/app-instances/{instance}/upgrade",
        shape::<InstanceUpgrade>(),
        shape::<Started>(),
    )
    .needs("instance.upgrade")
    .summary("Have an instance run another release")
    .description("Member by member, in the order and at the pace that the manifest says; what fails is parked, and can be rolled back."),
    Operation::start(
        "instance_rollback",
        "/v1/projects/{project}/app-instances/{instance}/rollback",
        shape::<InstanceAct>(),
        shape::<Started>(),
    )
    .needs("instance.rollback")
    .summary("Have an instance run the release that it ran before"),
    Operation::start(
        "instance_decommission",
        "/v1/projects/{project}/app-instances/{instance}/decommission",
        shape::<InstanceAct>(),
        shape::<Started>(),
    )
    .needs("instance.decommission")
    .summary("Take an instance down, and see that nothing of it is left"),
    Operation::read(
        "instance_endpoints",
        "/v1/projects/{project}/app-instances/{instance}/endpoints",
        shape::<Endpoints>(),
    )
    .needs("instance.endpoints")
    .summary("Show where an instance can be reached"),
];
