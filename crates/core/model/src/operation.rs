//! Operations: durable work, its plan and its journal.

use jiff::Timestamp;
use muster_ids::{OperationId, ProjectId, TenantId, WitnessId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Scope;
use crate::audit::Actor;
use crate::event::Timeline;
use crate::operation_input::OperationInput;
use crate::state::states;

states! {
    /// State of an operation.
    OperationState {
        /// It is stored and waits in the queue.
        Accepted = "accepted" => [Running, Compensating, Blocked, Succeeded, Partial, Failed, Cancelled, Superseded];
        /// A step is running.
        Running = "running" => [Verifying, Compensating, Blocked, Succeeded, Partial, Failed, Cancelled, Superseded];
        /// Its effects are done and are being verified.
        Verifying = "verifying" => [Running, Compensating, Blocked, Succeeded, Partial, Failed, Superseded];
        /// Its effects are being rolled back.
        Compensating = "compensating" => [Blocked, Partial, Failed, Cancelled, Superseded];
        /// It needs attention: `blocked` names the reason, the party that can unblock it and the escalation time.
        Blocked = "blocked" => [Running, Verifying, Compensating, Partial, Failed, Cancelled, Superseded];
        /// Done and verified.
        Succeeded = "succeeded" => [];
        /// Partially done, and accepted as such.
        Partial = "partial" => [];
        /// It had no effect, or was rolled back and that was verified.
        Failed = "failed" => [];
        /// Likewise, on request.
        Cancelled = "cancelled" => [];
        /// A newer operation superseded it and inherited its effects.
        Superseded = "superseded" => [];
    }
}

states! {
    /// State of a step.
    StepState {
        /// It has not started.
        Pending = "pending" => [Running, Done, Skipped];
        /// It is running.
        Running = "running" => [Done, Failed, Undoing, Skipped];
        /// It is done.
        Done = "done" => [Undoing];
        /// It certainly had no effect.
        Failed = "failed" => [Undoing];
        /// It is being undone.
        Undoing = "undoing" => [Undone];
        /// It was undone.
        Undone = "undone" => [];
        /// There was nothing to do.
        Skipped = "skipped" => [];
    }
}

states! {
    /// State of one item of a bulk operation.
    ItemState {
        /// It waits.
        Pending = "pending" => [Running, Blocked, Succeeded, Partial, Failed];
        /// It is in progress.
        Running = "running" => [Blocked, Succeeded, Partial, Failed];
        /// Its operation is blocked and needs a decision.
        Blocked = "blocked" => [Running, Succeeded, Partial, Failed];
        /// It is done.
        Succeeded = "succeeded" => [];
        /// The rest of it is left to an operation of the platform.
        Partial = "partial" => [];
        /// It failed for good.
        Failed = "failed" => [];
    }
}

/// Actions on a blocked operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolveAction {
    /// Retry the step.
    Retry,
    /// Roll back.
    Compensate,
    /// Accept the partial result.
    AcceptPartial,
    /// Give up. Unverified resources stay quarantined, and an operator's statement replaces the evidence.
    Abandon,
}

impl ResolveAction {
    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ResolveAction::Retry => "retry",
            ResolveAction::Compensate => "compensate",
            ResolveAction::AcceptPartial => "accept_partial",
            ResolveAction::Abandon => "abandon",
        }
    }
}

/// One step, in the plan and in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its name, and that of its file in the engine crate.
    pub name: String,
    /// Current state.
    pub state: StepState,
    /// Number of attempts.
    pub attempts: u32,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Timestamp>,
    /// Message for users.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Record of its effects, for its undo and for a superseding operation.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub output: Value,
    /// Its evidence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub witness_id: Option<WitnessId>,
}

impl StepRecord {
    /// A step that has not started.
    pub fn pending(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: StepState::Pending,
            attempts: 0,
            started_at: None,
            ended_at: None,
            message: None,
            output: Value::Null,
            witness_id: None,
        }
    }
}

/// One item of a bulk operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Item {
    /// Id of the resource.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Current state.
    pub state: ItemState,
    /// Its operation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

/// Why an operation is blocked, and how to unblock it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The reason.
    pub reason: String,
    /// Role that can unblock it: `tenant` or `operator`.
    pub resolvable_by: String,
    /// Available actions.
    pub actions: Vec<ResolveAction>,
    /// Start of the block.
    pub since: Timestamp,
    /// When it is escalated to operators.
    pub escalates_at: Timestamp,
    /// Whether it was escalated.
    #[serde(default)]
    pub escalated: bool,
    /// Whether only its deadline passed and no step was refused: then it can continue in place once its obstacle is gone.
    #[serde(default)]
    pub by_deadline: bool,
}
macro_rules! kinds {
    ($($variant:ident = $word:literal;)*) => {
        /// All kinds of operations, as `noun.verb`. The journals of older releases name them, so none is ever renamed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum OperationKind { $(#[doc = $word] #[serde(rename = $word)] $variant,)* }

        impl OperationKind {
            /// All values.
            pub const ALL: &'static [OperationKind] = &[$(OperationKind::$variant,)*];

            /// Returns its name on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $(OperationKind::$variant => $word,)* }
            }

            /// Parses a kind from its name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
            }

            /// Returns the verb of its name.
            pub fn verb(self) -> &'static str {
                self.as_str().split_once('.').map_or("", |(_, verb)| verb)
            }

            /// Reports whether its name begins with this noun.
            pub fn is_of(self, noun: &str) -> bool {
                self.as_str().split_once('.').is_some_and(|(of, _)| of == noun)
            }
        }

        impl std::fmt::Display for OperationKind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

kinds! {
    AllocationCreate = "allocation.create";
    AllocationRelease = "allocation.release";
    AllocationRestart = "allocation.restart";
    AllocationResize = "allocation.resize";
    AllocationClean = "allocation.clean";
    CellCreate = "cell.create";
    CellRestart = "cell.restart";
    CellDestroy = "cell.destroy";
    NodeDrain = "node.drain";
    NodeRetire = "node.retire";
    NodeAudit = "node.audit";
    MemberAdd = "member.add";
    MemberDrain = "member.drain";
    MemberResume = "member.resume";
    MemberRemove = "member.remove";
    MemberReplace = "member.replace";
    MemberRecover = "member.recover";
    MemberUpgrade = "member.upgrade";
    MembersAdd = "members.add";
    MembersDrain = "members.drain";
    MembersResume = "members.resume";
    MembersRemove = "members.remove";
    MembersReplace = "members.replace";
    MembersRecover = "members.recover";
    InstanceCreate = "instance.create";
    InstanceScale = "instance.scale";
    InstanceUpgrade = "instance.upgrade";
    InstanceRollback = "instance.rollback";
    InstanceDecommission = "instance.decommission";
}

/// An operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// Its kind.
    pub kind: OperationKind,
    /// The tenant, if any.
    pub tenant_id: Option<TenantId>,
    /// The project, if any.
    pub project_id: Option<ProjectId>,
    /// Kind of its subject, such as `allocation` or `node`.
    pub subject_kind: String,
    /// Id of the subject.
    pub subject_id: Uuid,
    /// Name of the subject.
    pub subject_name: String,
    /// The timelines that show its events.
    #[serde(default)]
    pub timeline: Timeline,
    /// The requester.
    pub asked_by: Actor,
    /// Correlation id.
    pub correlation_id: String,
    /// Current state.
    pub state: OperationState,
    /// Its input.
    pub input: OperationInput,
    /// Exclusive locks; disjoint operations run in parallel, others in order.
    pub exclusive_locks: Vec<Uuid>,
    /// Shared locks: compatible with each other, and exclusive with those in `exclusive_locks`.
    #[serde(default)]
    pub shared_locks: Vec<Uuid>,
    /// The steps, planned and done.
    pub steps: Vec<StepRecord>,
    /// Items of a bulk operation.
    pub items: Vec<Item>,
    /// Why it waits.
    pub waiting: Option<String>,
    /// Why it is blocked.
    pub blocked: Option<Blocked>,
    /// Why it failed: a code from a closed list.
    pub reason: Option<String>,
    /// Message for users.
    pub message: Option<String>,
    /// Whether cancellation was requested.
    pub cancel_requested: bool,
    /// The operation that it supersedes.
    pub supersedes: Option<OperationId>,
    /// Parent operation, if it is a child.
    pub parent_id: Option<OperationId>,
    /// When the engine runs it next.
    pub due_at: Timestamp,
    /// Its deadline.
    pub deadline_at: Timestamp,
    /// Fencing token, incremented whenever its lease changes hands.
    pub generation: i64,
    /// Incremented whenever it is woken.
    pub wakes: i64,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Version for `If-Match`.
    pub version: i64,
}

impl Operation {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::from_columns(self.tenant_id, self.project_id)
    }

    /// Returns the step that is running or comes next.
    pub fn current(&self) -> Option<usize> {
        self.steps.iter().position(|step| !matches!(step.state, StepState::Done | StepState::Skipped))
    }

    /// Returns the record of a step.
    pub fn step(&self, name: &str) -> Option<&StepRecord> {
        self.steps.iter().find(|step| step.name == name)
    }
}
