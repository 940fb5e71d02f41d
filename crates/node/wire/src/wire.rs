//! Requests of an agent and their responses.

use muster_ids::{CellId, NodeId, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cell::{CellRef, DesiredState, ServiceFindings};
use crate::inventory::Inventory;
use crate::task::{Report, SandboxRef, Task};

/// Request of a machine to join. The only request without a client certificate. If the response is lost, the agent retries
/// with the same token and key, and the server answers with the same node and a new certificate until the token expires.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The one-time token.
    #[schema(max_length = 200)]
    pub token: String,
    /// Certificate signing request for the agent's key, as PEM. The key itself never leaves the machine.
    #[schema(max_length = 8192)]
    pub csr: String,
    /// Preferred name, usually the host name. The token may fix another.
    #[schema(max_length = 63)]
    pub name: String,
    /// The agent's version.
    #[schema(max_length = 100)]
    pub agent_version: String,
    /// The machine's hardware.
    pub inventory: Inventory,
}

/// Response to a join.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Joined {
    /// Its id.
    pub node_id: NodeId,
    /// Its name.
    pub name: String,
    /// Its certificate, as PEM.
    pub certificate: String,
    /// The authority that signed it, as PEM.
    pub authority: String,
    /// Seconds after which to renew the certificate.
    pub renew_after_seconds: u64,
}

/// Request for a new certificate. If it is for a new key, the current certificate works until the first use of the new one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// Certificate signing request, as PEM.
    #[schema(max_length = 8192)]
    pub csr: String,
}

/// Response to a renewal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Renewed {
    /// The certificate, as PEM.
    pub certificate: String,
    /// The authority that signed it, as PEM.
    pub authority: String,
    /// Seconds after which to renew again.
    pub renew_after_seconds: u64,
}

/// Start of a session, sent at the agent's start and whenever its session has ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The agent's version.
    #[schema(max_length = 100)]
    pub agent_version: String,
    /// The machine's hardware.
    pub inventory: Inventory,
    /// Every sandbox on the machine.
    #[schema(max_items = 10000)]
    pub sandboxes: Vec<SandboxRef>,
    /// Every cell on the machine.
    #[serde(default)]
    #[schema(required = false, max_items = 10000)]
    pub cells: Vec<CellRef>,
    /// Address at which other nodes reach this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 45)]
    pub address: Option<String>,
    /// Identity of the file system shared with other nodes, equal on all nodes that mount it; absent without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 64)]
    pub shared_files: Option<String>,
}

/// Response to a hello.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Welcome {
    /// Session number, part of every later request. The server refuses an agent with an older one.
    pub session: i64,
    /// Stale copies of sandboxes. The agent destroys them first and sends another hello. The server hands out no task until
    /// a hello lists none.
    pub stale_allocations: Vec<SandboxRef>,
    /// Stale copies of cells, in sandboxes that are current. Handled likewise.
    #[serde(default)]
    #[schema(required = false)]
    pub stale_cells: Vec<CellRef>,
    /// Heartbeat interval.
    pub heartbeat_seconds: u64,
}

/// Heartbeat and request for work. If the response is lost, the agent sends a hello before it polls again: only a hello
/// requeues the tasks of a lost response.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// The session.
    pub session: i64,
    /// Long-poll timeout. The server waits for at most one heartbeat interval.
    #[schema(maximum = 60)]
    pub wait_seconds: u64,
    /// Revision of the desired state that the agent has; 0 after its start.
    #[serde(default)]
    #[schema(required = false)]
    pub revision: i64,
    /// Page of the desired state to send, as named by the previous one; the first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, max_length = 100)]
    pub desired_after: Option<String>,
    /// Whether every cell is as last reported, verified within the last few seconds.
    #[serde(default)]
    #[schema(required = false)]
    pub observed: bool,
    /// Whether to send tasks only, because a response with the full desired state exceeded the agent's limit.
    #[serde(default)]
    #[schema(required = false)]
    pub tasks_only: bool,
}

/// Response to a poll.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Work {
    /// Tasks, in this order for each allocation. Different allocations run in parallel.
    pub tasks: Vec<Task>,
    /// Desired state of the node beside its sandboxes, if newer than the agent's; a page of it where it is long.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub desired: Option<DesiredState>,
}

/// Reports on tasks.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reports {
    /// The session.
    pub session: i64,
    /// One report for each task.
    #[schema(max_items = 1000)]
    pub reports: Vec<Report>,
}

/// Response to reports.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReportsAccepted {
    /// Tasks that expired or were superseded. Their reports were dropped.
    pub refused: Vec<TaskId>,
}

/// Status of the cells that changed since the last report; all cells in a new session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Observations {
    /// The session.
    pub session: i64,
    /// One observation for each cell.
    #[schema(max_items = 10000)]
    pub cells: Vec<CellObservation>,
}

/// The status of one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellObservation {
    /// Cell and incarnation.
    pub cell: CellRef,
    /// Whether its first process is running. If not, none of the tenant's processes runs in this incarnation.
    pub alive: bool,
    /// Boot id of the machine at the observation.
    #[schema(max_length = 64)]
    pub boot_id: String,
    /// Its services.
    #[schema(max_items = 1000)]
    pub services: Vec<ServiceFindings>,
    /// Any other problem of the cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 1000)]
    pub message: Option<String>,
}

/// Response to observations.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Observed {
    /// Cells that are not on this node, or not in this incarnation. Their status was dropped.
    pub refused: Vec<CellId>,
}

/// A changed inventory.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The session.
    pub session: i64,
    /// The machine's hardware.
    pub inventory: Inventory,
}

/// Response to an inventory.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Noted {
    /// Whether an operator must approve the difference before it counts.
    pub needs_approval: bool,
}

/// Request for a secret of a cell that the agent was ordered to create. There is no other ground to release one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretAsk {
    /// The session.
    pub session: i64,
    /// Cell id.
    pub cell_id: CellId,
    /// Incarnation of the cell. Any other than the current one is refused.
    pub incarnation: i64,
    /// Secret.
    pub what: SecretWhat,
}

/// A secret of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretWhat {
    /// Content of this file in `/run/muster/secrets`.
    File(String),
    /// Token to pull the cell's image from the registry, valid for an hour at most.
    ArtifactPull,
}

/// Response with a secret. Store it only where it is used.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretValue {
    /// Content, in base64.
    pub value: String,
}

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretValue(…)")
    }
}
