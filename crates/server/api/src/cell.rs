//! Cells: isolated environments inside an allocation, and the services that run in them.

use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, NetworkId, NodeId, OperationId, ProjectId, TenantId};
use muster_wire::cell::{CellSpec, Protocol, ServiceState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::instance::Health;
use crate::operation::Started;
use crate::shape::{Labels, page};
use crate::{Endpoint, shape};

pub use muster_model::cell::{CellLog, CellState};

/// A cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
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
    /// Name, unique among the project's live ones; also the host name.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Its specification.
    pub spec: CellSpec,
    /// Its address in its network.
    pub address: String,
    /// Node ports that forward to it.
    pub ports: Vec<CellPort>,
    /// Current state.
    pub state: CellState,
    /// Health last reported by the node's agent; `unknown` if no report is recent enough.
    pub health: Health,
    /// Explanation, when not healthy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_message: Option<String>,
    /// Latest status report.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<CellStatus>,
    /// Incremented each time it is created.
    pub incarnation: i64,
    /// Reason for the failure or the block, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Operation that last worked on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Status of a cell, as reported by its node's agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CellStatus {
    /// Whether its first process is running.
    pub alive: bool,
    /// Time of the last change of `alive`.
    pub since: Timestamp,
    /// Time of the agent's last reported change.
    pub observed_at: Timestamp,
    /// Its services.
    pub services: Vec<ServiceStatus>,
}

/// Status of a service.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// Current state.
    pub state: ServiceState,
    /// Whether its probe reports it as ready.
    pub ready: bool,
    /// Number of restarts.
    pub restarts: u32,
    /// Its last exit status.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit: Option<i32>,
    /// Reason it is not ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

/// A node port that forwards to a cell's port.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CellPort {
    /// The cell's port.
    pub port: i64,
    /// Protocol.
    pub protocol: Protocol,
    /// The node's port.
    pub node_port: i64,
}

/// A cell to create.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellCreate {
    /// Name, unique among the project's live ones; also the host name.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// Its allocation, by id or name.
    #[schema(max_length = 100)]
    pub allocation: String,
    /// Labels.
    pub labels: Option<Labels>,
    /// Its specification.
    pub spec: CellSpec,
    /// Deadline for all services to be ready; default: 15 minutes from now.
    pub ready_until: Option<Timestamp>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// An action on a cell.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellAct {
    /// Reason, for the audit log.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// Filters for listing cells.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Label selector: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Only those in this state.
    pub state: Option<CellState>,
    /// Only those in this allocation, by id or name.
    #[schema(max_length = 100)]
    pub allocation: Option<String>,
}

page! {
    /// A page of cells.
    CellPage of Cell
}

/// Archived logs: the last output of a cell's services before it was removed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ArchivedLogs {
    /// One per service and incarnation.
    pub logs: Vec<CellLog>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::start("cell_create", "/v1/projects/{project}/cells", shape::<CellCreate>(), shape::<Started>())
        .needs("cell.create")
        .summary("Create a cell in an allocation and start its services")
        .description("The cell is running when the node's agent has verified it and every service is ready by its own probe. A cell that does not become ready in time is rolled back and has failed."),
    Endpoint::read("cell_list", "/v1/projects/{project}/cells", shape::<CellPage>())
        .needs("cell.list")
        .query(shape::<CellListQuery>())
        .summary("List a project's cells"),
    Endpoint::read("cell_get", "/v1/projects/{project}/cells/{cell}", shape::<Cell>())
        .needs("cell.get")
        .summary("Show a cell"),
    Endpoint::start(
        "cell_restart",
        "/v1/projects/{project}/cells/{cell}/restart",
        shape::<CellAct>(),
        shape::<Started>(),
    )
    .needs("cell.restart")
    .summary("Restart a cell")
    .description("Everything in it is lost except its state directories; its name, its address and its ports stay."),
    Endpoint::start(
        "cell_destroy",
        "/v1/projects/{project}/cells/{cell}/destroy",
        shape::<CellAct>(),
        shape::<Started>(),
    )
    .needs("cell.destroy")
    .summary("Destroy a cell and verify that nothing of it is left"),
    Endpoint::read("cell_archived_logs", "/v1/projects/{project}/cells/{cell}/archived-logs", shape::<ArchivedLogs>())
        .needs("cell.archived_logs")
        .summary("Show the archived logs of a cell's services"),
];
