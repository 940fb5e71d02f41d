//! Instances: running apps in a project, and their components.

use jiff::Timestamp;
use muster_ids::{
    AppId, AppVersionId, InstanceId, NetworkId, OperationId, ProjectId, ServiceAccountId, TenantId, WitnessId,
};
use serde_json::Value;

use crate::allocation::AllocationShape;

pub use crate::health::{ComponentCounts, health_of};
use crate::node::Capacity;
use crate::reason::reasons;
use crate::state::states;
use crate::{Labels, Scope};

states! {
    /// State of an instance.
    InstanceState {
        /// It was requested.
        Created = "created" => [Starting, Stopping, Failed];
        /// Its members are being added.
        Starting = "starting" => [Running, Stopping, Failed];
        /// Every component has at least its minimum of active members, verified.
        Running = "running" => [Stopping, Failed];
        /// Its members are being removed.
        Stopping = "stopping" => [Stopped, Failed];
        /// Nothing of it is left, verified or attested.
        Stopped = "stopped" => [];
        /// Did not start, or cannot continue: it never runs again, and can be decommissioned like any other.
        Failed = "failed" => [Stopping];
    }
}

impl InstanceState {
    /// Reports whether an instance in this state has members whose health is assessed.
    pub fn has_health(self) -> bool {
        !matches!(self, Self::Created | Self::Stopped)
    }
}

states! {
    /// Health: a second axis besides the state.
    Health {
        /// Healthy.
        Healthy = "healthy" => [];
        /// Works, with something missing.
        Degraded = "degraded" => [];
        /// It does not work.
        Unhealthy = "unhealthy" => [];
        /// No recent information.
        Unknown = "unknown" => [];
    }
}

states! {
    /// Repair policy for failed members.
    RepairMode {
        /// None.
        Off = "off" => [];
        /// Propose a replacement for a person to decide on.
        Propose = "propose" => [];
        /// Open a replacement automatically, until the circuit breaker opens.
        Automatic = "automatic" => [];
    }
}

reasons! {
    /// Why an instance failed: a closed list, each with advice for its owner.
    InstanceFailure;
    BelowMinimum = "below_minimum", "A component did not get its minimum of members: the items of its operation give the reasons. Decommission it, fix the cause, and create it again.";
    RepairsExhausted = "repairs_exhausted", "A component has fewer members than it needs, and the repair budget is spent: decommission the instance, fix the cause, and create it again.";
    Cancelled = "cancelled", "Its cancellation was requested; nothing of it is left.";
    DeadlinePassed = "deadline_passed", "It exceeded its deadline: see what its operation waited for.";
}

/// A running app in a project.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// The app.
    pub app_id: AppId,
    /// The app's slug.
    pub app: String,
    /// Desired release.
    pub app_version_id: AppVersionId,
    /// Previous release: the target of a rollback.
    pub previous_version_id: Option<AppVersionId>,
    /// Name, unique among the project's living instances.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Its configuration, valid under the manifest's schema.
    pub config: Value,
    /// Configuration of the previous release.
    pub previous_config: Option<Value>,
    /// The only account that may lease its adapter steps.
    pub operator_account_id: ServiceAccountId,
    /// Its members' network.
    pub network_id: NetworkId,
    /// The adapter's name for its topology: opaque.
    pub topology_mode: Option<String>,
    /// Shape of its allocations.
    pub shape: String,
    /// Current state.
    pub state: InstanceState,
    /// Its health.
    pub health: Health,
    /// Why, unless it is simply healthy.
    pub health_message: Option<String>,
    /// Start of its current health.
    pub health_since: Option<Timestamp>,
    /// Its repair mode.
    pub repair: RepairMode,
    /// Times of automatic repairs, oldest first, for the circuit breaker.
    pub repairs: Vec<Timestamp>,
    /// Whether it is protected from decommissioning.
    pub protected: bool,
    /// Time of its automatic decommissioning.
    pub expires_at: Option<Timestamp>,
    /// Why it failed.
    pub reason: Option<InstanceFailure>,
    /// Message for users.
    pub message: Option<String>,
    /// Evidence that it started.
    pub running_witness_id: Option<WitnessId>,
    /// Evidence that nothing of it is left.
    pub stopped_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    pub operation_id: Option<OperationId>,
    /// Next reconciliation by its adapter.
    pub reconcile_due_at: Option<Timestamp>,
    /// Latest reconciliation by its adapter.
    pub reconciled_at: Option<Timestamp>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Parameters of a new instance; what they leave out is set by struct update.
pub struct NewInstance {
    /// Its id.
    pub id: InstanceId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// The app.
    pub app_id: AppId,
    /// Desired release.
    pub app_version_id: AppVersionId,
    /// The only account that may lease its adapter steps.
    pub operator_account_id: ServiceAccountId,
    /// Its members' network.
    pub network_id: NetworkId,
    /// Name, unique among the project's living instances.
    pub name: String,
    /// Time of the request.
    pub now: Timestamp,
}

impl Instance {
    /// Returns the row of a new instance.
    pub fn requested(new: NewInstance) -> Self {
        Self {
            id: new.id,
            tenant_id: new.tenant_id,
            project_id: new.project_id,
            app_id: new.app_id,
            app: String::new(),
            app_version_id: new.app_version_id,
            previous_version_id: None,
            name: new.name,
            labels: Labels::new(),
            config: Value::Object(serde_json::Map::new()),
            previous_config: None,
            operator_account_id: new.operator_account_id,
            network_id: new.network_id,
            topology_mode: None,
            shape: AllocationShape::GpuSlice.as_str().to_owned(),
            state: InstanceState::Created,
            health: Health::Unknown,
            health_message: None,
            health_since: None,
            repair: RepairMode::Propose,
            repairs: Vec::new(),
            protected: false,
            expires_at: None,
            reason: None,
            message: None,
            running_witness_id: None,
            stopped_witness_id: None,
            operation_id: None,
            reconcile_due_at: None,
            reconciled_at: None,
            created_at: new.now,
            updated_at: new.now,
            version: 1,
        }
    }

    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A component of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its instance.
    pub instance_id: InstanceId,
    /// Its key, meaningful only to the adapter.
    pub key: String,
    /// Desired number of members: raised when an add is accepted, and lowered again if that add had no effect; lowered when
    /// a removal is accepted. A replacement leaves it unchanged.
    pub desired: i64,
    /// Ordinal of the latest member; names are never reused within an instance.
    pub last_ordinal: i64,
    /// Capacity of each new member, if it differs from the manifest's.
    pub capacity: Option<Capacity>,
    /// Allocation for new members, if the owner chose one.
    pub allocation_id: Option<muster_ids::AllocationId>,
}
