//! Allocations: a project's right to capacity on exactly one node.

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, OperationId, ProjectId, TenantId, WitnessId};

use crate::node::Capacity;
use crate::placement::Strategy;
use crate::reason::reasons;
use crate::state::states;
use crate::{Labels, Scope};

states! {
    /// State of an allocation.
    AllocationState {
        /// It was requested.
        Requested = "requested" => [Placing, Released, Failed];
        /// It waits for a node, possibly in the queue.
        Placing = "placing" => [Provisioning, Released, Failed];
        /// Its sandbox is being provisioned on the node.
        Provisioning = "provisioning" => [Active, Releasing, Wiping, Failed];
        /// It exists, verified.
        Active = "active" => [Provisioning, Releasing];
        /// Its sandbox is being destroyed.
        Releasing = "releasing" => [Wiping, Released, Failed];
        /// Its sandbox is removed; its devices and disks are being wiped.
        Wiping = "wiping" => [Released, Failed];
        /// Nothing of it is left, verified or attested.
        Released = "released" => [];
        /// It was never provisioned, and nothing of it is left.
        Failed = "failed" => [];
    }
}

states! {
    /// Shape of an allocation.
    AllocationShape {
        /// A whole node, exclusively.
        Baremetal = "baremetal" => [];
        /// Some GPUs of one node.
        GpuSlice = "gpu_slice" => [];
    }
}

reasons! {
    /// Why an allocation failed or is stuck: a closed list, each with advice for its owner.
    FailureReason;
    NoCapacity = "no_capacity", "Request less, wait for it (`--wait-until`), or see `muster capacity`.";
    QuotaExceeded = "quota_exceeded", "Release something, request less, or ask an operator for a higher quota.";
    WaitExpired = "wait_expired", "It stayed in the queue until its deadline: request it again with a later one, or less.";
    PrepareFailed = "prepare_failed", "The node could not create the sandbox: request it again, and another node may be chosen.";
    PrepareTimeout = "prepare_timeout", "The node did not create the sandbox in time: request it again, and another node may be chosen.";
    VerifyFailed = "verify_failed", "The sandbox differs from the request: request it again, and report it to the operator.";
    NodeUnreachable = "node_unreachable", "The node sends no heartbeat: wait for it, or release the allocation and request another.";
    Cancelled = "cancelled", "Its cancellation was requested; nothing of it is left.";
    DestroyFailed = "destroy_failed", "Its sandbox could not be destroyed; it needs an operator's attention.";
    WipeFailed = "wipe_failed", "Its devices or disk could not be wiped and verified; it needs an operator's attention.";
    Protected = "protected", "It has expired and is protected: remove the protection or the expiry.";
    MembersNeeded = "members_needed", "The instance of one of its members would break: add members elsewhere, decommission it, or force the release.";
    DeadlinePassed = "deadline_passed", "It exceeded its deadline: request it again with a later one.";
}

/// An allocation.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// Its id.
    pub id: AllocationId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The owning project.
    pub project_id: ProjectId,
    /// Name, unique among the project's living allocations.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Its shape.
    pub shape: AllocationShape,
    /// Requested capacity.
    pub capacity: Capacity,
    /// How a node is chosen.
    pub strategy: Strategy,
    /// Current state.
    pub state: AllocationState,
    /// Its node.
    pub node_id: Option<NodeId>,
    /// That node's name.
    pub node_name: Option<String>,
    /// Fencing token, incremented whenever its sandbox is provisioned; reports about an older one are rejected.
    pub incarnation: i64,
    /// Capacity that it holds on the node now.
    pub held: Capacity,
    /// Why it failed or is stuck.
    pub reason: Option<FailureReason>,
    /// Message for users.
    pub message: Option<String>,
    /// Evidence that it is active.
    pub active_witness_id: Option<WitnessId>,
    /// Evidence that nothing is left.
    pub wiped_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    pub operation_id: Option<OperationId>,
    /// End of the wait in the queue; absent if it does not wait.
    pub wait_until: Option<Timestamp>,
    /// Time of its automatic release.
    pub expires_at: Option<Timestamp>,
    /// Whether release is refused.
    pub protected: bool,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl Allocation {
    /// A new request: a slice, packed, with nothing but its size.
    pub fn requested(
        id: AllocationId,
        tenant_id: TenantId,
        project_id: ProjectId,
        name: &str,
        capacity: Capacity,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            tenant_id,
            project_id,
            name: name.to_owned(),
            labels: Labels::new(),
            shape: AllocationShape::GpuSlice,
            capacity,
            strategy: Strategy::Pack,
            state: AllocationState::Requested,
            node_id: None,
            node_name: None,
            incarnation: 0,
            held: Capacity::default(),
            reason: None,
            message: None,
            active_witness_id: None,
            wiped_witness_id: None,
            operation_id: None,
            wait_until: None,
            expires_at: None,
            protected: false,
            created_at: at,
            updated_at: at,
            version: 1,
        }
    }

    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// One state in the history of an allocation.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The state.
    pub state: AllocationState,
    /// The operation that caused it.
    pub operation_id: Option<OperationId>,
    /// The reason.
    pub reason: Option<String>,
    /// Start of the state.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_a_final_state_and_only_provisioning_leads_to_active() {
        for state in AllocationState::ALL {
            assert_eq!(
                state.is_final(),
                matches!(state, AllocationState::Released | AllocationState::Failed),
                "{state}"
            );
            if state.can_become(AllocationState::Active) {
                assert!(matches!(state, AllocationState::Provisioning | AllocationState::Active));
            }
        }
    }
}
