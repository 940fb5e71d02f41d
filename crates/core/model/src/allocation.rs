//! Allocations: a project's right to capacity on exactly one node.

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, OperationId, ProjectId, TenantId, WitnessId};

use crate::node::Capacity;
use crate::placement::Strategy;
use crate::reason::reasons;
use crate::state::states;
use crate::{Labels, Scope};

states! {
    /// What an allocation is.
    AllocationState {
        /// It was asked for.
        Requested = "requested" => [Placing, Released, Failed];
        /// A node is looked for, or it waits in line for one.
        Placing = "placing" => [Provisioning, Released, Failed];
        /// Its place on the node is being made.
        Provisioning = "provisioning" => [Active, Releasing, Wiping, Failed];
        /// It is there, witnessed.
        Active = "active" => [Provisioning, Releasing];
        /// Its place is being destroyed.
        Releasing = "releasing" => [Wiping, Released, Failed];
        /// Its place is gone, and what it held is being wiped.
        Wiping = "wiping" => [Released, Failed];
        /// Nothing of it is left, witnessed or attested.
        Released = "released" => [];
        /// It never came to be, and nothing of it is left.
        Failed = "failed" => [];
    }
}

states! {
    /// What kind of place it is.
    AllocationShape {
        /// A whole node, alone.
        Baremetal = "baremetal" => [];
        /// Some GPUs of one node.
        GpuSlice = "gpu_slice" => [];
    }
}

reasons! {
    /// Why an allocation did not come to be or cannot go on: a closed list, each with what its owner can do.
    FailureReason;
    NoCapacity = "no_capacity", "Ask for less, wait for it (`--wait-until`), or see `muster capacity`.";
    QuotaExceeded = "quota_exceeded", "Release something, ask for less, or ask an operator for a higher quota.";
    WaitExpired = "wait_expired", "It waited in line until the time that was given: ask again with a later one, or for less.";
    PrepareFailed = "prepare_failed", "The node could not make the place: ask again, and another node may be chosen.";
    PrepareTimeout = "prepare_timeout", "The node did not make the place in time: ask again, and another node may be chosen.";
    VerifyFailed = "verify_failed", "The place was made but is not what was asked for: ask again, and tell the operator.";
    NodeUnreachable = "node_unreachable", "The node sends no heartbeat: wait for it, or release the allocation and ask for another.";
    Cancelled = "cancelled", "It was cancelled on request; nothing of it is left.";
    DestroyFailed = "destroy_failed", "Its place could not be destroyed; an operator has to look.";
    WipeFailed = "wipe_failed", "What it held could not be wiped and verified; an operator has to look.";
    Protected = "protected", "It has expired and is protected: take the protection away, or the expiry.";
    MembersNeeded = "members_needed", "The instance of a member in it would be broken: add members elsewhere, decommission it, or force the release.";
    DeadlinePassed = "deadline_passed", "It took longer than its deadline allows: ask again with a later one.";
}

/// An allocation.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// Its id.
    pub id: AllocationId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project that holds it.
    pub project_id: ProjectId,
    /// Its name, unique in the project among those that live.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// What kind of place.
    pub shape: AllocationShape,
    /// What was asked for.
    pub capacity: Capacity,
    /// How a node is chosen.
    pub strategy: Strategy,
    /// What it is.
    pub state: AllocationState,
    /// Where it is.
    pub node_id: Option<NodeId>,
    /// That node's name.
    pub node_name: Option<String>,
    /// Raised whenever its place is made; what speaks of an older one is refused.
    pub incarnation: i64,
    /// What it holds of the node now.
    pub held: Capacity,
    /// Why it failed or cannot go on.
    pub reason: Option<FailureReason>,
    /// The same in a sentence.
    pub message: Option<String>,
    /// The evidence that it is active.
    pub active_witness_id: Option<WitnessId>,
    /// The evidence that nothing is left.
    pub wiped_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    pub operation_id: Option<OperationId>,
    /// Until when it waits in line; not at all if absent.
    pub wait_until: Option<Timestamp>,
    /// When it is released by itself.
    pub expires_at: Option<Timestamp>,
    /// Whether release is refused.
    pub protected: bool,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Allocation {
    /// One that was just asked for: a slice, packed, with nothing beside its size.
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

    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// One state that an allocation went through.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Which.
    pub state: AllocationState,
    /// By which operation.
    pub operation_id: Option<OperationId>,
    /// Why.
    pub reason: Option<String>,
    /// From when.
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
