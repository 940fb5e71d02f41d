//! Networks: cells in the same network reach each other, and no others.

use jiff::Timestamp;
use muster_ids::{CellId, NetworkId, NodeId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Endpoint, shape};

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
    /// Its address range.
    pub subnet: String,
    /// Its cells.
    pub members: Vec<NetworkMember>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Incremented with each change.
    pub version: i64,
}

/// A cell in a network.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NetworkMember {
    /// The cell.
    pub cell_id: CellId,
    /// Its name, which resolves inside the network.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its node.
    pub node_id: NodeId,
}

/// Networks of a project.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NetworkList {
    /// All networks.
    pub items: Vec<Network>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("network_list", "/v1/projects/{project}/networks", shape::<NetworkList>())
        .needs("network.list")
        .summary("List a project's networks with their cells and nodes"),
    Endpoint::read("network_get", "/v1/projects/{project}/networks/{network}", shape::<Network>())
        .needs("network.get")
        .summary("Show a network with its cells and nodes"),
];
