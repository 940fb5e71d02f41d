//! Cells: isolated environments for members and interactive shells, inside an allocation.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use muster_ids::{
    AllocationId, ArtifactId, CellId, MemberId, NetworkId, NodeId, OperationId, ProjectId, SshKeyId,
    TenantId, UserId, WitnessId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::allocation::Allocation;
use crate::reason::reasons;
use crate::record::record;
use crate::state::states;
use crate::{Labels, Scope};

states! {
    /// State of a cell.
    CellState {
        /// It was requested.
        Requested = "requested" => [Provisioning, Destroyed, Failed];
        /// It is being created, and its services are starting.
        Provisioning = "provisioning" => [Running, Destroying, Destroyed, Failed];
        /// It runs and its services are ready, verified.
        Running = "running" => [Provisioning, Destroying, Destroyed];
        /// It is being destroyed.
        Destroying = "destroying" => [Provisioning, Destroyed, Failed];
        /// Nothing of it is left, verified or attested.
        Destroyed = "destroyed" => [];
        /// It was never created, and nothing of it is left.
        Failed = "failed" => [];
    }
}

reasons! {
    /// Why a cell failed or is stuck: a closed list, each with advice for its owner.
    CellFailure;
    MakeFailed = "make_failed", "The node could not create it; the message gives the reason. Change the request, or repeat it.";
    ArtifactPull = "artifact_pull", "The node could not pull its image; the message gives the reason. Fix it, then repeat the request.";
    ArtifactDamaged = "artifact_damaged", "The content on the node does not match its digest: verify the artifact, and push it again if it is damaged here too.";
    ArtifactUntrusted = "artifact_untrusted", "Its image has no valid signature in the project: sign it with a key that the project trusts, or change the trust policy.";
    SecretRefused = "secret_refused", "The node did not get a secret of the cell; the message names it. Create the secret, then repeat the request.";
    NotReady = "not_ready", "It was created, but not all of its services became ready in time: see `muster logs`.";
    ServiceEnded = "service_ended", "A service ended and is not restarted: see `muster logs`, and its restart policy.";
    NodeUnreachable = "node_unreachable", "The node sends no heartbeat: wait for it, or release the allocation and request another.";
    AllocationEnded = "allocation_ended", "Its allocation is no longer active: request another one.";
    DestroyFailed = "destroy_failed", "It could not be destroyed; it needs an operator's attention.";
    VerifyFailed = "verify_failed", "Something of it is left on the node; it needs an operator's attention.";
    Cancelled = "cancelled", "Its cancellation was requested; nothing of it is left.";
    DeadlinePassed = "deadline_passed", "It exceeded its deadline: repeat the request.";
}

/// A cell.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its id.
    pub id: CellId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its allocation.
    pub allocation_id: AllocationId,
    /// Its node.
    pub node_id: NodeId,
    /// Its network.
    pub network_id: NetworkId,
    /// Name, unique among the project's living cells; also its host name.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Its spec, in the format of the node contract.
    pub spec: Value,
    /// Artifact of its image, if the platform stores it.
    pub artifact_id: Option<ArtifactId>,
    /// Its member, if it belongs to one.
    pub member_id: Option<MemberId>,
    /// Whether its neighbours were instructed to drop it.
    pub fenced: bool,
    /// Whether it has the project's user accounts.
    pub people: bool,
    /// Its host number in the network.
    pub host: i64,
    /// Current state.
    pub state: CellState,
    /// Fencing token, incremented whenever it is created; reports about an older one are rejected.
    pub incarnation: i64,
    /// Why it failed or is stuck.
    pub reason: Option<CellFailure>,
    /// Message for users.
    pub message: Option<String>,
    /// Evidence that it runs.
    pub running_witness_id: Option<WitnessId>,
    /// Evidence that it is gone.
    pub destroyed_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    pub operation_id: Option<OperationId>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl Cell {
    /// A new request: of no member, and without an address yet.
    pub fn requested(
        id: CellId,
        allocation: &Allocation,
        node_id: NodeId,
        network_id: NetworkId,
        name: &str,
        spec: Value,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            tenant_id: allocation.tenant_id,
            project_id: allocation.project_id,
            allocation_id: allocation.id,
            node_id,
            network_id,
            name: name.to_owned(),
            labels: Labels::new(),
            people: spec["people"] == Value::Bool(true),
            spec,
            artifact_id: None,
            member_id: None,
            fenced: false,
            host: 0,
            state: CellState::Requested,
            incarnation: 0,
            reason: None,
            message: None,
            running_witness_id: None,
            destroyed_witness_id: None,
            operation_id: None,
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

/// A network: its cells reach each other and are isolated from all others.
#[derive(Debug, Clone)]
pub struct Network {
    /// Its id.
    pub id: NetworkId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// Virtual network identifier of its packets.
    pub vni: i64,
    /// Its address range.
    pub subnet: String,
    /// The nodes' shared file system that holds its shared directories; none if its cells share nothing.
    pub shared_files: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Incremented with each change.
    pub version: i64,
}

impl Network {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }

    /// Returns the address of one of its cells.
    pub fn address(&self, host: i64) -> Option<Ipv4Addr> {
        let base: Ipv4Addr = self.subnet.split_once('/')?.0.parse().ok()?;
        Some(Ipv4Addr::from(u32::from(base).checked_add(u32::try_from(host).ok()?)?))
    }
}

/// Number of addresses in a network, including the network, gateway and broadcast addresses.
pub const NETWORK_SIZE: i64 = 1 << 12;
/// Start of the address pool, 10.64.0.0; this many subnets fit below 10.128.0.0.
const POOL: u32 = 0x0a40_0000;
const SUBNETS: i64 = 1 << 10;

/// Returns the subnet of a network number. Networks share no link, so distant ones may reuse a subnet.
pub fn subnet(vni: i64) -> String {
    let index = u32::try_from(vni.rem_euclid(SUBNETS)).unwrap_or_default();
    let size = u32::try_from(NETWORK_SIZE).unwrap_or_default();
    format!("{}/20", Ipv4Addr::from(POOL + index * size))
}

/// Returns the first free host number; the gateway has 1. `taken` is sorted.
pub fn free_host(taken: &[i64]) -> Option<i64> {
    let mut next = 2;
    for host in taken {
        if *host > next {
            break;
        }
        next = next.max(host + 1);
    }
    (next < NETWORK_SIZE - 1).then_some(next)
}

record! {
    noun "ssh_key", title "SSH key", path "ssh-keys", table "ssh_keys", parent project_id: ProjectId,
    unique name false, changes [];

    /// A person's public key.
    #[derive(Debug, Clone, Serialize, ToSchema)]
    pub struct SshKey {
        /// Its id.
        pub id: SshKeyId,
        /// The tenant, for scopes; the API has the project alone.
        #[serde(skip)]
        pub tenant_id: TenantId,
        /// The project.
        pub project_id: ProjectId,
        /// Its owner.
        pub user_id: UserId,
        /// Name, unique among the owner's keys in the project.
        pub name: String,
        /// The key, as a line of `authorized_keys`.
        pub public_key: String,
        /// `SHA256:…`, as OpenSSH prints it.
        pub fingerprint: String,
        /// The only allocation with cells that accept it; absent: every cell of the project.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub allocation_id: Option<AllocationId>,
        /// Time at which the platform removes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expires_at: Option<Timestamp>,
        /// The person that granted it; absent: its owner added it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub granted_by: Option<UserId>,
        /// Creation time.
        pub created_at: Timestamp,
        /// Version for `If-Match`.
        pub version: i64,
    }
}

impl SshKey {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A node port forwarded to a cell port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePort {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The node's port.
    pub port: i64,
    /// The cell's port.
    pub cell_port: i64,
}

/// The last output of a service before its cell was removed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CellLog {
    /// Incarnation of the cell.
    pub incarnation: i64,
    /// The service.
    pub service: String,
    /// One line per entry: time, stream, text.
    pub text: String,
    /// Whether earlier output was dropped.
    pub truncated: bool,
    /// Time of archiving.
    pub kept_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cell_that_is_being_made_becomes_running() {
        for state in CellState::ALL {
            assert_eq!(
                state.is_final(),
                matches!(state, CellState::Destroyed | CellState::Failed),
                "{state}"
            );
            if state.can_become(CellState::Running) {
                assert!(matches!(state, CellState::Provisioning | CellState::Running));
            }
        }
    }

    #[test]
    fn the_first_free_address_is_given_until_none_is_left() {
        assert_eq!(free_host(&[]), Some(2));
        assert_eq!(free_host(&[2, 3, 5]), Some(4));
        assert_eq!(free_host(&[3]), Some(2));
        let all: Vec<i64> = (2..NETWORK_SIZE - 1).collect();
        assert_eq!(free_host(&all), None);
        assert_eq!(free_host(&all[..all.len() - 1]), Some(NETWORK_SIZE - 2));
    }

    #[test]
    fn the_number_of_a_network_decides_its_addresses() {
        assert_eq!(subnet(1), "10.64.16.0/20");
        assert_eq!(subnet(1023), "10.127.240.0/20");
        assert_eq!(subnet(1024), "10.64.0.0/20");
    }
}
