//! Members: the realised units of an instance's components, each in a cell of its own.

use jiff::Timestamp;
use muster_ids::{
    AllocationId, AppVersionId, CellId, InstanceId, MemberId, OperationId, ProjectId, TenantId, WitnessId,
};
use serde_json::Value;

use crate::Scope;
use crate::assess::HealthReason;
use crate::instance::Health;
use crate::reason::reasons;
use crate::state::states;

states! {
    /// What a member is.
    MemberState {
        /// It was asked for.
        Requested = "requested" => [Provisioning, Removing, Removed, Failed];
        /// Its place is being made.
        Provisioning = "provisioning" => [Joining, Removing, Removed, Failed];
        /// Its adapter takes it in.
        Joining = "joining" => [Active, Provisioning, Removing, Failed];
        /// It works, witnessed.
        Active = "active" => [Draining, Provisioning, Joining, Removing, Failed];
        /// Its work goes elsewhere.
        Draining = "draining" => [Drained, Active, Joining, Removing, Failed];
        /// No work is on it and none comes, witnessed.
        Drained = "drained" => [Draining, Active, Joining, Provisioning, Removing, Failed];
        /// It is being removed.
        Removing = "removing" => [Removed];
        /// Nothing is left of it, witnessed or attested.
        Removed = "removed" => [];
        /// It did not come to work, or works no more. It can be recovered, replaced or removed.
        Failed = "failed" => [Provisioning, Removing, Removed];
    }
}

reasons! {
    /// Why a member failed: a closed list, each with what its owner can do.
    MemberFailure;
    NoCapacity = "no_capacity", "There is no room for it: ask for less, free something, or wait.";
    AllocationEnded = "allocation_ended", "Its allocation is not active any more: name another, or let the platform make one.";
    ArtifactPull = "artifact_pull", "The node could not get its image; the message says why.";
    Permission = "permission", "Its image or a secret was refused; the message says which.";
    ProvisionFailed = "provision_failed", "Its cell could not be made; the message says why.";
    BootstrapTimeout = "bootstrap_timeout", "It did not become ready in time: see its logs, then recover or remove it.";
    AdapterFailed = "adapter_failed", "Its adapter could not take it in; the message is the adapter's.";
    NotWitnessed = "not_witnessed", "Its adapter says that it works, and the platform could not see that; the evidence says what was found.";
    CellEnded = "cell_ended", "What runs in it ended: see its logs, then recover or replace it.";
    Unhealthy = "unhealthy", "It was broken when the repair budget of its instance was spent, and its instance failed: decommission the instance.";
    Cancelled = "cancelled", "It was cancelled on request; nothing of it is left.";
    DeadlinePassed = "deadline_passed", "It took longer than its deadline allows: see what its operation waited for.";
}

/// One realised unit of a component.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Of which instance.
    pub instance_id: InstanceId,
    /// Of which component.
    pub component_key: String,
    /// Its name, unique in the instance for ever; its cell has the same, and so its host name.
    pub name: String,
    /// What it is.
    pub state: MemberState,
    /// How well it does, as far as its adapter and the platform know.
    pub health: Health,
    /// Why that is so.
    pub health_message: Option<String>,
    /// Of which incarnation that was said. It means nothing for another.
    pub health_incarnation: i64,
    /// What that rests on, where it is not plainly healthy.
    pub health_reason: Option<HealthReason>,
    /// Since when it is so.
    pub health_since: Option<Timestamp>,
    /// When what it does now is expected to be over, as its adapter says of this incarnation; nothing where that is unknown.
    pub free_at: Option<Timestamp>,
    /// The allocation that it is in.
    pub allocation_id: Option<AllocationId>,
    /// Whether the platform made that allocation for it, and so releases it.
    pub allocation_made: bool,
    /// The shape of it.
    pub bound_capacity_shape: Option<String>,
    /// Its cell.
    pub cell_id: Option<CellId>,
    /// The incarnation of its cell; raised whenever it is made.
    pub incarnation: i64,
    /// The release that really runs in it: written with the evidence, not with the wish.
    pub app_version_id: Option<AppVersionId>,
    /// What its adapter says of it, for people.
    pub adapter_detail: Value,
    /// Why it failed.
    pub failure_reason: Option<MemberFailure>,
    /// The same in a sentence.
    pub message: Option<String>,
    /// Whether the rest of its network was told to forget it, because nobody hears from its node.
    pub fenced: bool,
    /// The evidence that it works, or worked.
    pub active_witness_id: Option<WitnessId>,
    /// The evidence that it is drained.
    pub drained_witness_id: Option<WitnessId>,
    /// The evidence that nothing is left of it.
    pub removed_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    pub operation_id: Option<OperationId>,
    /// Its thread.
    pub correlation_id: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Member {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }

    /// How well this incarnation of it does; what was said of another means nothing.
    pub fn known_health(&self) -> Health {
        if self.health_incarnation == self.incarnation { self.health } else { Health::Unknown }
    }

    /// Whether it failed before it ever worked: when its add did, it was taken back from what its component wants.
    pub fn never_worked(&self) -> bool {
        self.state == MemberState::Failed && self.active_witness_id.is_none()
    }

    /// Whether it counts as in work.
    pub fn works(&self) -> bool {
        self.state == MemberState::Active && self.known_health() != Health::Unhealthy
    }
}
