//! Members: the running units of an instance's components, each in a cell of its own.

use jiff::Timestamp;
use muster_ids::{
    AllocationId, AppVersionId, CellId, InstanceId, MemberId, OperationId, ProjectId, TenantId, WitnessId,
};
use serde_json::Value;

use crate::Scope;
use crate::assess::HealthReason;
use crate::instance::{Health, Instance};
use crate::reason::reasons;
use crate::state::states;

states! {
    /// State of a member.
    MemberState {
        /// It was requested.
        Requested = "requested" => [Provisioning, Removing, Removed, Failed];
        /// Its allocation and cell are being provisioned.
        Provisioning = "provisioning" => [Joining, Removing, Removed, Failed];
        /// Its adapter is joining it.
        Joining = "joining" => [Active, Provisioning, Removing, Failed];
        /// It works, verified.
        Active = "active" => [Draining, Provisioning, Joining, Removing, Failed];
        /// Its work is moving elsewhere.
        Draining = "draining" => [Drained, Active, Joining, Removing, Failed];
        /// It has no work and receives none, verified.
        Drained = "drained" => [Draining, Active, Joining, Provisioning, Removing, Failed];
        /// It is being removed.
        Removing = "removing" => [Removed];
        /// Nothing is left of it, verified or attested.
        Removed = "removed" => [];
        /// It did not start working, or stopped working. It can be recovered, replaced or removed.
        Failed = "failed" => [Provisioning, Removing, Removed];
    }
}

reasons! {
    /// Why a member failed: a closed list, each with advice for its owner.
    MemberFailure;
    NoCapacity = "no_capacity", "There is no capacity for it: request less, free some, or wait.";
    AllocationEnded = "allocation_ended", "Its allocation is no longer active: name another, or let the platform create one.";
    ArtifactPull = "artifact_pull", "The node could not pull its image; the message gives the reason.";
    Permission = "permission", "Its image or a secret was refused; the message names it.";
    ProvisionFailed = "provision_failed", "Its cell could not be created; the message gives the reason.";
    BootstrapTimeout = "bootstrap_timeout", "It did not become ready in time: see its logs, then recover or remove it.";
    AdapterFailed = "adapter_failed", "Its adapter could not join it; the message is the adapter's.";
    NotWitnessed = "not_witnessed", "Its adapter reported it as active, but the platform could not verify that; the evidence lists the findings.";
    CellEnded = "cell_ended", "Its processes ended: see its logs, then recover or replace it.";
    Unhealthy = "unhealthy", "It was broken when the repair budget of its instance was spent, and its instance failed: decommission the instance.";
    Cancelled = "cancelled", "Its cancellation was requested; nothing of it is left.";
    DeadlinePassed = "deadline_passed", "It exceeded its deadline: see what its operation waited for.";
}

impl MemberFailure {
    /// Reports whether the member itself failed. A lack of room, a deadline that passed in silence and a cancellation prove
    /// nothing about it.
    pub fn is_its_own(self) -> bool {
        !matches!(self, Self::NoCapacity | Self::DeadlinePassed | Self::Cancelled)
    }
}

/// One running unit of a component.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its instance.
    pub instance_id: InstanceId,
    /// Its component.
    pub component_key: String,
    /// Name, unique in the instance forever; also the name and host name of its cell.
    pub name: String,
    /// Current state.
    pub state: MemberState,
    /// Its health, as far as its adapter and the platform know.
    pub health: Health,
    /// Reason for that.
    pub health_message: Option<String>,
    /// Incarnation that it refers to. It is meaningless for any other.
    pub health_incarnation: i64,
    /// Cause, unless it is simply healthy.
    pub health_reason: Option<HealthReason>,
    /// Start of its current health.
    pub health_since: Option<Timestamp>,
    /// When its current work is expected to end, as reported by its adapter for this incarnation; none if unknown.
    pub free_at: Option<Timestamp>,
    /// Its allocation.
    pub allocation_id: Option<AllocationId>,
    /// Whether the platform created that allocation for it, and so releases it.
    pub allocation_made: bool,
    /// Shape of that allocation.
    pub bound_capacity_shape: Option<String>,
    /// Its cell.
    pub cell_id: Option<CellId>,
    /// Incarnation of its cell, incremented whenever that is created.
    pub incarnation: i64,
    /// Release that actually runs in it: written with the evidence, not with the request.
    pub app_version_id: Option<AppVersionId>,
    /// The adapter's details about it, for users.
    pub adapter_detail: Value,
    /// Why it failed.
    pub failure_reason: Option<MemberFailure>,
    /// Message for users.
    pub message: Option<String>,
    /// Whether the rest of its network was instructed to drop it, because its node is unreachable.
    pub fenced: bool,
    /// Evidence that it works, or worked.
    pub active_witness_id: Option<WitnessId>,
    /// Evidence that it is drained.
    pub drained_witness_id: Option<WitnessId>,
    /// Evidence that nothing is left of it.
    pub removed_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    pub operation_id: Option<OperationId>,
    /// Correlation id.
    pub correlation_id: String,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Parameters of a new member; what they leave out is set by struct update.
pub struct NewMember<'a> {
    /// Its id.
    pub id: MemberId,
    /// Its instance.
    pub instance: &'a Instance,
    /// Its component.
    pub component_key: &'a str,
    /// Number in its name.
    pub ordinal: i64,
    /// Allocation named by its owner.
    pub allocation_id: Option<AllocationId>,
    /// The operation that requests it.
    pub operation_id: OperationId,
    /// Correlation id.
    pub correlation_id: &'a str,
    /// Time of the request.
    pub now: Timestamp,
}

impl Member {
    /// Returns the row of a requested member.
    pub fn requested(new: NewMember<'_>) -> Self {
        let instance = new.instance;
        Self {
            id: new.id,
            tenant_id: instance.tenant_id,
            project_id: instance.project_id,
            instance_id: instance.id,
            component_key: new.component_key.to_owned(),
            name: format!("{}-{}-{}", instance.name, new.component_key, new.ordinal),
            state: MemberState::Requested,
            health: Health::Unknown,
            health_message: None,
            health_incarnation: 0,
            health_reason: None,
            health_since: None,
            free_at: None,
            allocation_id: new.allocation_id,
            allocation_made: false,
            bound_capacity_shape: None,
            cell_id: None,
            incarnation: 0,
            app_version_id: None,
            adapter_detail: Value::Object(serde_json::Map::new()),
            failure_reason: None,
            message: None,
            fenced: false,
            active_witness_id: None,
            drained_witness_id: None,
            removed_witness_id: None,
            operation_id: Some(new.operation_id),
            correlation_id: new.correlation_id.to_owned(),
            created_at: new.now,
            updated_at: new.now,
            version: 1,
        }
    }

    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }

    /// Returns the health of this incarnation; a report about another one does not count.
    pub fn known_health(&self) -> Health {
        if self.health_incarnation == self.incarnation { self.health } else { Health::Unknown }
    }

    /// Reports whether it failed before it ever worked: the failed add then lowered the component's desired count.
    pub fn never_worked(&self) -> bool {
        self.state == MemberState::Failed && self.active_witness_id.is_none()
    }

    /// Reports whether it counts as working.
    pub fn works(&self) -> bool {
        self.state == MemberState::Active && self.known_health() != Health::Unhealthy
    }
}
