//! Instances: apps that run in a project, and the components they are made of.

use jiff::Timestamp;
use muster_ids::{
    AppId, AppVersionId, InstanceId, NetworkId, OperationId, ProjectId, ServiceAccountId, TenantId, WitnessId,
};
use serde_json::Value;

pub use crate::health::{Standing, health_of};
use crate::reason::reasons;
use crate::state::states;
use crate::{Labels, Scope};

states! {
    /// What an instance is.
    InstanceState {
        /// It was asked for.
        Created = "created" => [Starting, Stopping, Failed];
        /// Its members are being added.
        Starting = "starting" => [Running, Stopping, Failed];
        /// Every component has at least as many active members as it needs, witnessed.
        Running = "running" => [Stopping, Failed];
        /// Its members are being removed.
        Stopping = "stopping" => [Stopped, Failed];
        /// Nothing of it is left, witnessed or attested.
        Stopped = "stopped" => [];
        /// It did not come to run, or cannot go on. It never runs again, and is decommissioned like any other.
        Failed = "failed" => [Stopping];
    }
}

states! {
    /// How well something does: a second axis beside what it is.
    Health {
        /// Well.
        Healthy = "healthy" => [];
        /// It works, with something missing.
        Degraded = "degraded" => [];
        /// It does not work.
        Unhealthy = "unhealthy" => [];
        /// Nobody can say.
        Unknown = "unknown" => [];
    }
}

states! {
    /// Who decides when a member fails.
    RepairMode {
        /// Nobody.
        Off = "off" => [];
        /// A replacement is proposed.
        Propose = "propose" => [];
        /// A replacement is opened by itself, until the breaker opens.
        Automatic = "automatic" => [];
    }
}

reasons! {
    /// Why an instance failed: a closed list, each with what its owner can do.
    InstanceFailure;
    BelowMinimum = "below_minimum", "A component did not get as many members as it needs: the items of its operation say why. Decommission it, mend that, and create it again.";
    RepairsExhausted = "repairs_exhausted", "A component has fewer members than it needs, and the repair budget is spent: decommission the instance, fix the cause, and create it again.";
    Cancelled = "cancelled", "Its creation was cancelled on request; nothing of it is left.";
    DeadlinePassed = "deadline_passed", "It took longer than its deadline allows: see what its operation waited for.";
}

/// An app that runs in a project.
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
    /// The release that it should run.
    pub app_version_id: AppVersionId,
    /// The release that it ran before: where a rollback goes.
    pub previous_version_id: Option<AppVersionId>,
    /// Its name, unique in the project among those that live.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// What it was configured with; the manifest's schema holds it.
    pub config: Value,
    /// What it was configured with before, together with the release that it ran before.
    pub previous_config: Option<Value>,
    /// The account that alone may lease its adapter steps.
    pub operator_account_id: ServiceAccountId,
    /// Its members' network.
    pub network_id: NetworkId,
    /// How the adapter calls its topology: opaque.
    pub topology_mode: Option<String>,
    /// The shape of the allocations that it runs in.
    pub shape: String,
    /// What it is.
    pub state: InstanceState,
    /// How well it does.
    pub health: Health,
    /// Why, where it is not plainly healthy.
    pub health_message: Option<String>,
    /// Since when its health is what it is.
    pub health_since: Option<Timestamp>,
    /// Who decides about repairs.
    pub repair: RepairMode,
    /// When repairs were opened by themselves, oldest first: what the breaker counts.
    pub repairs: Vec<Timestamp>,
    /// Whether it is kept from being decommissioned.
    pub protected: bool,
    /// When it is decommissioned by itself.
    pub expires_at: Option<Timestamp>,
    /// Why it failed.
    pub reason: Option<InstanceFailure>,
    /// The same in a sentence.
    pub message: Option<String>,
    /// The evidence that it came to run.
    pub running_witness_id: Option<WitnessId>,
    /// The evidence that nothing of it is left.
    pub stopped_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    pub operation_id: Option<OperationId>,
    /// When its adapter is to look at it next.
    pub reconcile_due_at: Option<Timestamp>,
    /// When its adapter last did.
    pub reconciled_at: Option<Timestamp>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Instance {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A component of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Of which instance.
    pub instance_id: InstanceId,
    /// Its key, which means something to the adapter alone.
    pub key: String,
    /// How many members its owner wants: raised by an add when it is accepted, and lowered again if that add had no effect;
    /// lowered by a remove when it is accepted. A replace leaves it as it is.
    pub desired: i64,
    /// The number of the last member that was named; names are never used again within an instance.
    pub last_ordinal: i64,
    /// What each new member asks for, where that is not the manifest's.
    pub capacity: Option<Value>,
    /// The allocation that new members go into, where its owner chose one.
    pub allocation_id: Option<muster_ids::AllocationId>,
}
