//! Networks: who is in one reaches the others in it, and nobody else does.

use jiff::Timestamp;
use muster_ids::{CellId, NetworkId, NodeId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Operation, shape};

/// A network.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Network {
    /// Its id.
    pub id: NetworkId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// Its addresses.
    pub subnet: String,
    /// Everybody in it.
    pub members: Vec<NetworkMember>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Raised with each change.
    pub version: i64,
}

/// A cell in a network.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NetworkMember {
    /// Which cell.
    pub cell_id: CellId,
    /// Its name, which resolves inside the network.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its node.
    pub node_id: NodeId,
}

/// A project's networks.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NetworkList {
    /// All of them.
    pub items: Vec<Network>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::read("network_list", "/v1/projects/{project}/networks", shape::<NetworkList>())
        .needs("network.list")
        .summary("List a project's networks, with everybody in them"),
    Operation::read("network_get", "/v1/projects/{project}/networks/{network}", shape::<Network>())
        .needs("network.get")
        .summary("Show a network, with everybody in it"),
];
