//! Cells: isolated places inside an allocation, and what runs in them.

use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, NetworkId, NodeId, OperationId, ProjectId, TenantId};
use muster_wire::cell::{CellSpec, Protocol, ServiceState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::instance::Health;
use crate::operations::Started;
use crate::shape::{Labels, page};
use crate::{Operation, shape};

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// It was asked for.
    Requested,
    /// It is being made, and what runs in it is being started.
    Provisioning,
    /// It is there and everything in it is ready, witnessed.
    Running,
    /// It is being destroyed.
    Destroying,
    /// Nothing of it is left, witnessed or attested.
    Gone,
    /// It never came to be, and nothing of it is left.
    Failed,
}

/// A cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
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
    /// What it is made of.
    pub spec: CellSpec,
    /// Its address in its network.
    pub address: String,
    /// The ports of its node that lead to it.
    pub ports: Vec<CellPort>,
    /// What it is.
    pub state: CellState,
    /// How well it does, as its node's agent reported last; `unknown` where no report is recent enough.
    pub health: Health,
    /// Why, where it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_message: Option<String>,
    /// The newest report on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<CellStatus>,
    /// Raised whenever it is made.
    pub incarnation: i64,
    /// Why it failed or cannot go on: a word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What to do about that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// What happened, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// The operation that last worked on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// The status of a cell, as its node's agent reported it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CellStatus {
    /// Whether its first process runs.
    pub alive: bool,
    /// Since when that is so.
    pub since: Timestamp,
    /// When the agent reported last that something changed.
    pub observed_at: Timestamp,
    /// Its services.
    pub services: Vec<ServiceStatus>,
}

/// The status of a service.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// Which.
    pub name: String,
    /// What it is doing.
    pub state: ServiceState,
    /// Whether it is ready, by its probe.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: u32,
    /// Its last exit status.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit: Option<i32>,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

/// A port of a node that leads to a port of a cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CellPort {
    /// The cell's port.
    pub port: i64,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// The node's port.
    pub node_port: i64,
}

/// A cell to be made.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellCreate {
    /// Its name, unique in the project among those that live; its host name too.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// The allocation it is in, by id or name.
    #[schema(max_length = 100)]
    pub allocation: String,
    /// Labels.
    pub labels: Option<Labels>,
    /// What it is made of.
    pub spec: CellSpec,
    /// Until when everything in it must be ready; fifteen minutes from now if this is not said.
    pub ready_until: Option<Timestamp>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// An order about a cell.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellAct {
    /// Why, for the record.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// Which cells to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those with these labels: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// In this state only.
    pub state: Option<CellState>,
    /// In this allocation only, by id or name.
    #[schema(max_length = 100)]
    pub allocation: Option<String>,
}

page! {
    /// A page of cells.
    CellPage of Cell
}

/// The last that the services of a cell wrote before it went.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct KeptLogs {
    /// One for each service and incarnation.
    pub logs: Vec<CellLog>,
}

/// The last that a service wrote before its cell went.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
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

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::start("cell_create", "/v1/projects/{project}/cells", shape::<CellCreate>(), shape::<Started>())
        .needs("cell.create")
        .summary("Make a cell in an allocation, and start what runs in it")
        .description("The cell is running when the node's agent has seen it there and every service in it is ready by its own probe. What does not become ready in time is taken down again, and the cell has failed."),
    Operation::read("cell_list", "/v1/projects/{project}/cells", shape::<CellPage>())
        .needs("cell.list")
        .query(shape::<CellListQuery>())
        .summary("List a project's cells"),
    Operation::read("cell_get", "/v1/projects/{project}/cells/{cell}", shape::<Cell>())
        .needs("cell.get")
        .summary("Show a cell"),
    Operation::start(
        "cell_restart",
        "/v1/projects/{project}/cells/{cell}/restart",
        shape::<CellAct>(),
        shape::<Started>(),
    )
    .needs("cell.restart")
    .summary("Make a cell anew in its place")
    .description("Everything in it is lost but its state directories; its name, its address and its ports stay."),
    Operation::start(
        "cell_destroy",
        "/v1/projects/{project}/cells/{cell}/destroy",
        shape::<CellAct>(),
        shape::<Started>(),
    )
    .needs("cell.destroy")
    .summary("Destroy a cell, and see that nothing of it is left"),
    Operation::read("cell_kept_logs", "/v1/projects/{project}/cells/{cell}/kept-logs", shape::<KeptLogs>())
        .needs("cell.kept_logs")
        .summary("Show the last of what a cell's services wrote before it went"),
];
