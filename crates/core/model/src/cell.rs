//! Cells: the isolated places of members and of people's shells, inside an allocation.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use muster_ids::{
    AllocationId, ArtifactId, CellId, MemberId, NetworkId, NodeId, OperationId, ProjectId, SshKeyId,
    TenantId, UserId, WitnessId,
};
use serde_json::Value;

use crate::reason::reasons;
use crate::state::states;
use crate::{Labels, Scope};

states! {
    /// What a cell is.
    CellState {
        /// It was asked for.
        Requested = "requested" => [Provisioning, Gone, Failed];
        /// It is being made, and what runs in it is being started.
        Provisioning = "provisioning" => [Running, Destroying, Gone, Failed];
        /// It is there and everything in it is ready, witnessed.
        Running = "running" => [Provisioning, Destroying, Gone];
        /// It is being destroyed.
        Destroying = "destroying" => [Provisioning, Gone, Failed];
        /// Nothing of it is left, witnessed or attested.
        Gone = "gone" => [];
        /// It never came to be, and nothing of it is left.
        Failed = "failed" => [];
    }
}

reasons! {
    /// Why a cell did not come to be or cannot go on: a closed list, each with what its owner can do.
    CellFailure;
    MakeFailed = "make_failed", "The node could not make it; the message says why. Change what it asks for, or ask again.";
    ArtifactPull = "artifact_pull", "The node could not get its image; the message says why. Ask again when that is mended.";
    ArtifactDamaged = "artifact_damaged", "What the node got, or had, is not what the digest says: verify the artifact, and push it again if it is damaged here too.";
    ArtifactUntrusted = "artifact_untrusted", "Its image has no signature that counts in the project: sign it with a key that the project trusts, or change the trust policy.";
    SecretRefused = "secret_refused", "The node was not told a secret that it names; the message says which. Make the secret, then ask again.";
    NotReady = "not_ready", "It was made, but not everything in it became ready in time: see `muster logs`.";
    ServiceEnded = "service_ended", "A service ended and is not started again: see `muster logs`, and its restart policy.";
    NodeUnreachable = "node_unreachable", "Nobody hears from the node: wait for it, or release the allocation and ask for another.";
    AllocationEnded = "allocation_ended", "Its allocation is not active any more: ask for another one.";
    DestroyFailed = "destroy_failed", "It could not be destroyed; an operator has to look.";
    VerifyFailed = "verify_failed", "Something of it is left where nothing should be; an operator has to look.";
    Cancelled = "cancelled", "It was cancelled on request; nothing of it is left.";
    DeadlinePassed = "deadline_passed", "It took longer than its deadline allows: ask again.";
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
    /// The allocation it is in.
    pub allocation_id: AllocationId,
    /// The node that is on.
    pub node_id: NodeId,
    /// The network it is in.
    pub network_id: NetworkId,
    /// Its name, unique in the project among those that live; its host name too.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// What it is made of, in the words of the nodes' contract.
    pub spec: Value,
    /// The artifact that its image is, where the platform has it.
    pub artifact_id: Option<ArtifactId>,
    /// Whose it is, where it is a member's.
    pub member_id: Option<MemberId>,
    /// Whether its neighbours were told to forget it.
    pub fenced: bool,
    /// Whether it has the project's people.
    pub people: bool,
    /// Its place among the addresses of its network.
    pub host: i64,
    /// What it is.
    pub state: CellState,
    /// Raised whenever it is made; what speaks of an older one is refused.
    pub incarnation: i64,
    /// Why it failed or cannot go on.
    pub reason: Option<CellFailure>,
    /// The same in a sentence.
    pub message: Option<String>,
    /// The evidence that it runs.
    pub running_witness_id: Option<WitnessId>,
    /// The evidence that it is gone.
    pub gone_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    pub operation_id: Option<OperationId>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Cell {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A network: who is in one reaches the others in it, and nobody else does.
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
    /// The number by which nodes tell its packets from others'.
    pub vni: i64,
    /// Its addresses.
    pub subnet: String,
    /// On which of the nodes' shared file systems lies what its cells share; none, if they share nothing.
    pub shared_files: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Raised with each change.
    pub version: i64,
}

impl Network {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }

    /// The address of one of its cells.
    pub fn address(&self, host: i64) -> Option<Ipv4Addr> {
        let base: Ipv4Addr = self.subnet.split_once('/')?.0.parse().ok()?;
        Some(Ipv4Addr::from(u32::from(base).checked_add(u32::try_from(host).ok()?)?))
    }
}

/// So many addresses a network has, counting the one that names it, its gateway and its last.
pub const NETWORK_SIZE: i64 = 1 << 12;
/// Where the addresses of networks begin: 10.64.0.0, and so many of them fit below 10.128.0.0.
const POOL: u32 = 0x0a40_0000;
const SUBNETS: i64 = 1 << 10;

/// The addresses of the network with this number. Networks share no link, so two that are far apart may have the same ones.
pub fn subnet(vni: i64) -> String {
    let index = u32::try_from(vni.rem_euclid(SUBNETS)).unwrap_or_default();
    let size = u32::try_from(NETWORK_SIZE).unwrap_or_default();
    format!("{}/20", Ipv4Addr::from(POOL + index * size))
}

/// The first place among a network's addresses that nobody has; the gateway's is 1. `taken` is in order.
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

/// A person's public key, for a project's cells.
#[derive(Debug, Clone)]
pub struct SshKey {
    /// Its id.
    pub id: SshKeyId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Whose.
    pub user_id: UserId,
    /// Its name, unique among the person's in the project.
    pub name: String,
    /// As a line of `authorized_keys`, without options.
    pub public_key: String,
    /// `SHA256:…`, as OpenSSH prints it.
    pub fingerprint: String,
    /// The only allocation whose cells accept it; none: every cell of the project.
    pub allocation_id: Option<AllocationId>,
    /// When it is removed.
    pub expires_at: Option<Timestamp>,
    /// The person who granted it to its owner, who then needs no role of their own; none: added by its owner.
    pub granted_by: Option<UserId>,
    /// When it was added.
    pub created_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl SshKey {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A port of a node that leads to a port of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePort {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The node's port.
    pub port: i64,
    /// The cell's port.
    pub cell_port: i64,
}

/// The last that a service of a cell wrote before the cell went.
#[derive(Debug, Clone)]
pub struct CellLog {
    /// Which incarnation of the cell.
    pub incarnation: i64,
    /// Which service.
    pub service: String,
    /// A line each: time, stream, text.
    pub text: String,
    /// Whether there was more.
    pub truncated: bool,
    /// When it was kept.
    pub kept_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cell_that_is_being_made_becomes_running() {
        for state in CellState::ALL {
            assert_eq!(state.is_final(), matches!(state, CellState::Gone | CellState::Failed), "{state}");
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
