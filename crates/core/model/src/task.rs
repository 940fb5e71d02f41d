//! Node tasks: requests to an agent.

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, OperationId, TaskId};
use serde_json::Value;

use crate::state::states;

states! {
    /// State of a task.
    TaskState {
        /// It waits for the agent.
        Queued = "queued" => [Delivered, Expired];
        /// The agent received it.
        Delivered = "delivered" => [Queued, Running, Done, Failed, Expired];
        /// The agent is running it.
        Running = "running" => [Queued, Done, Failed, Expired];
        /// The agent ran it and reported its findings.
        Done = "done" => [];
        /// The agent certainly did not run it.
        Failed = "failed" => [];
        /// It timed out without a report: it may have run.
        Expired = "expired" => [];
    }
}

states! {
    /// Kind of a task. There is no arbitrary shell.
    TaskKind {
        /// Provision the sandbox of an allocation.
        Prepare = "prepare" => [];
        /// Inspect it.
        Inspect = "inspect" => [];
        /// Resize it.
        Resize = "resize" => [];
        /// Destroy it.
        Destroy = "destroy" => [];
        /// Wipe its resources.
        Wipe = "wipe" => [];
        /// List all platform resources on the node.
        Survey = "survey" => [];
        /// Create a cell in a sandbox.
        CellCreate = "cell_create" => [];
        /// Inspect a cell.
        CellInspect = "cell_inspect" => [];
        /// Destroy a cell.
        CellDestroy = "cell_destroy" => [];
        /// Return the tail of the service logs.
        KeepLogs = "keep_logs" => [];
        /// Connect a stream to a cell.
        Stream = "stream" => [];
        /// Remove orphans.
        Sweep = "sweep" => [];
        /// Write or remove files in a cell.
        CellFiles = "cell_files" => [];
        /// Start or stop a service of a cell.
        CellService = "cell_service" => [];
        /// Run a command in a cell.
        CellCommand = "cell_command" => [];
        /// Run a check beside a cell.
        CellProbe = "cell_probe" => [];
        /// Pull and unpack an image for a later cell.
        ImagePull = "image_pull" => [];
        /// Remove the shared directories of a network.
        ShareRemove = "share_remove" => [];
    }
}

/// A task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its node.
    pub node_id: NodeId,
    /// Its operation.
    pub operation_id: OperationId,
    /// Its purpose; an operation queues each purpose only once.
    pub key: String,
    /// Its kind.
    pub kind: TaskKind,
    /// Its allocation.
    pub allocation_id: Option<AllocationId>,
    /// Incarnation of that allocation.
    pub incarnation: i64,
    /// Lease generation of the operation when it was queued.
    pub generation: i64,
    /// Payload.
    pub payload: Value,
    /// Current state.
    pub state: TaskState,
    /// The agent's findings.
    pub result: Option<Value>,
    /// The agent's message.
    pub message: Option<String>,
    /// Correlation id.
    pub correlation_id: String,
    /// Time of the request.
    pub queued_at: Timestamp,
    /// Time of delivery.
    pub delivered_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Time at which it expires.
    pub expires_at: Timestamp,
}
