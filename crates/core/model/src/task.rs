//! Node tasks: what an agent is asked to do.

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, OperationId, TaskId};
use serde_json::Value;

use crate::state::states;

states! {
    /// What a task is.
    TaskState {
        /// It waits for the agent.
        Queued = "queued" => [Delivered, Expired];
        /// The agent has it.
        Delivered = "delivered" => [Queued, Running, Done, Failed, Expired];
        /// The agent works on it.
        Running = "running" => [Queued, Done, Failed, Expired];
        /// The agent did it, and said what it saw.
        Done = "done" => [];
        /// The agent surely did not do it.
        Failed = "failed" => [];
        /// Nobody heard of it in time: it may have happened.
        Expired = "expired" => [];
    }
}

states! {
    /// What can be asked of an agent. No free shell.
    TaskKind {
        /// Make the place of an allocation.
        Prepare = "prepare" => [];
        /// Look at it, and say what is there.
        Inspect = "inspect" => [];
        /// Change how much it has.
        Resize = "resize" => [];
        /// Destroy it.
        Destroy = "destroy" => [];
        /// Wipe what it held.
        Wipe = "wipe" => [];
        /// List everything of ours on the node.
        Survey = "survey" => [];
        /// Make a cell in a place.
        CellCreate = "cell_create" => [];
        /// Look at a cell.
        CellInspect = "cell_inspect" => [];
        /// Destroy a cell.
        CellDestroy = "cell_destroy" => [];
        /// Say the last of what services wrote.
        KeepLogs = "keep_logs" => [];
        /// Join a stream to a cell.
        Stream = "stream" => [];
        /// Remove things that nothing knows.
        Sweep = "sweep" => [];
        /// Write or remove files in a cell.
        CellFiles = "cell_files" => [];
        /// Start or stop a service of a cell.
        CellService = "cell_service" => [];
        /// Run a command in a cell.
        CellCommand = "cell_command" => [];
        /// Run a check beside a cell.
        CellProbe = "cell_probe" => [];
        /// Fetch and unpack an image for a cell that is to be made later.
        ImagePull = "image_pull" => [];
        /// Remove what the cells of a network shared.
        ShareRemove = "share_remove" => [];
    }
}

/// A task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// For whose agent.
    pub node_id: NodeId,
    /// For which operation.
    pub operation_id: OperationId,
    /// What it is for there; an operation asks for the same thing only once.
    pub key: String,
    /// What to do.
    pub kind: TaskKind,
    /// For which allocation.
    pub allocation_id: Option<AllocationId>,
    /// Which incarnation of it.
    pub incarnation: i64,
    /// The generation of the operation's lease when it was asked for.
    pub generation: i64,
    /// The details.
    pub payload: Value,
    /// What it is.
    pub state: TaskState,
    /// What the agent saw.
    pub result: Option<Value>,
    /// What the agent said.
    pub message: Option<String>,
    /// The thread.
    pub correlation_id: String,
    /// When it was asked for.
    pub queued_at: Timestamp,
    /// When the agent got it.
    pub delivered_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When nobody waits for it any more.
    pub expires_at: Timestamp,
}
