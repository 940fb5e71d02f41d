//! The requests of an agent and their answers.

use muster_ids::{CellId, NodeId, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cell::{CellPlace, ServiceFindings, Wanted};
use crate::inventory::Inventory;
use crate::task::{Place, Report, Task};

/// A machine asks to join. The only request without a client certificate. One that did not hear the answer asks again with the
/// same token and the same key: the answer is the same node, with another certificate, until the token ends.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The one-time token.
    #[schema(max_length = 200)]
    pub token: String,
    /// A certificate request for the agent's key, as PEM. The key itself never leaves the machine.
    #[schema(max_length = 8192)]
    pub csr: String,
    /// The name it would like; the machine's host name as a rule. The token may fix another.
    #[schema(max_length = 63)]
    pub name: String,
    /// The agent's version.
    #[schema(max_length = 100)]
    pub agent_version: String,
    /// What the machine has.
    pub inventory: Inventory,
}

/// The machine has joined.
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
    /// After so many seconds it should ask for another certificate.
    pub renew_after_seconds: u64,
}

/// An agent asks for another certificate. If that is for another key, the present one works until the new one was used for the
/// first time, and not longer.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// A certificate request, as PEM.
    #[schema(max_length = 8192)]
    pub csr: String,
}

/// Another certificate.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Renewed {
    /// The certificate, as PEM.
    pub certificate: String,
    /// The authority that signed it, as PEM.
    pub authority: String,
    /// After so many seconds it should ask for another.
    pub renew_after_seconds: u64,
}

/// An agent takes up the node's identity: after its start, and whenever it was told that its session is over.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The agent's version.
    #[schema(max_length = 100)]
    pub agent_version: String,
    /// What the machine has.
    pub inventory: Inventory,
    /// Every place on it.
    #[schema(max_items = 10000)]
    pub places: Vec<Place>,
    /// Every cell on it.
    #[serde(default)]
    #[schema(required = false, max_items = 10000)]
    pub cells: Vec<CellPlace>,
    /// The address under which other nodes reach this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 45)]
    pub address: Option<String>,
    /// Which file system it shares with other nodes: those that say the same have the same one. None, if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 64)]
    pub shared_files: Option<String>,
}

/// The server knows the agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Welcome {
    /// The session; it goes with everything else. An agent with an older one is refused.
    pub session: i64,
    /// Places that must not be there: they are destroyed before anything else, and another hello follows. No task is
    /// handed out before one comes without any.
    pub ghosts: Vec<Place>,
    /// Cells that must not be there, in places that may: likewise.
    #[serde(default)]
    #[schema(required = false)]
    pub ghost_cells: Vec<CellPlace>,
    /// How often the agent must be heard.
    pub heartbeat_seconds: u64,
}

/// An agent is there, and asks for work. One that did not hear the answer says hello before it asks again: what the lost
/// answer carried is queued anew by that, and by nothing else.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// The session.
    pub session: i64,
    /// For how long it will wait when there is none; the server waits for a heartbeat at the most.
    #[schema(maximum = 60)]
    pub wait_seconds: u64,
    /// What it has of what the node should have beside its places; 0 after its start.
    #[serde(default)]
    #[schema(required = false)]
    pub revision: i64,
    /// Whether every cell is as the agent last reported it, checked within the last few seconds.
    #[serde(default)]
    #[schema(required = false)]
    pub observed: bool,
    /// Whether it wants tasks alone, because an answer with everything that the node should have was too long for it.
    #[serde(default)]
    #[schema(required = false)]
    pub tasks_only: bool,
}

/// Work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Work {
    /// What to do, in this order for each allocation; different allocations at once.
    pub tasks: Vec<Task>,
    /// What the node should have beside its places, when that is newer than what the agent has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub wanted: Option<Wanted>,
}

/// What became of tasks.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reports {
    /// The session.
    pub session: i64,
    /// One for each task.
    #[schema(max_items = 1000)]
    pub reports: Vec<Report>,
}

/// The reports were read.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Heard {
    /// Tasks that nobody waits for any more, or that were for something older: what was said of them was not taken.
    pub refused: Vec<TaskId>,
}

/// The status of cells that changed since the last report; all of them in a new session.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Observations {
    /// The session.
    pub session: i64,
    /// One for each cell.
    #[schema(max_items = 10000)]
    pub cells: Vec<CellObservation>,
}

/// The status of one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellObservation {
    /// Which, and which incarnation of it.
    pub cell: CellPlace,
    /// Whether its first process runs. If not, nothing of the tenant's runs in this incarnation any more.
    pub alive: bool,
    /// Which start of the machine this was observed in.
    #[schema(max_length = 64)]
    pub boot_id: String,
    /// Its services.
    #[schema(max_items = 1000)]
    pub services: Vec<ServiceFindings>,
    /// Anything else that is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 1000)]
    pub message: Option<String>,
}

/// The observations were stored.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Observed {
    /// Cells that are not on this node, or not in this incarnation: their status was dropped.
    pub refused: Vec<CellId>,
}

/// What the machine has now, when that changed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The session.
    pub session: i64,
    /// What the machine has.
    pub inventory: Inventory,
}

/// It was noted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Noted {
    /// Whether an operator has to approve the difference before it counts.
    pub needs_approval: bool,
}

/// An agent asks for a secret of a cell that it was ordered to make. Nothing else is a reason to be told one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretAsk {
    /// The session.
    pub session: i64,
    /// For which cell.
    pub cell_id: CellId,
    /// For which incarnation of it. For any other than the present one nothing is said.
    pub incarnation: i64,
    /// Which.
    pub what: SecretWhat,
}

/// Which secret of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretWhat {
    /// The content of this file of `/run/muster/secrets`.
    File(String),
    /// A token with which the cell's image can be read from the registry, for an hour at the most.
    ArtifactPull,
}

/// A secret. It is written nowhere but where it is used.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SecretTold {
    /// Its content, in base64.
    pub value: String,
}

impl std::fmt::Debug for SecretTold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretTold(…)")
    }
}
