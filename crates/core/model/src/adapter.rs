//! Adapters: independent processes that give apps their meaning, and the steps that they carry out.

use jiff::Timestamp;
use muster_ids::{
    AdapterId, AdapterStepId, AppId, InstanceId, MemberId, OperationId, ProjectId, ServiceAccountId, TenantId,
};
use serde_json::Value;

use crate::Scope;
use crate::state::states;

states! {
    /// What an adapter is asked for.
    AdapterVerb {
        /// Take a member in.
        Join = "join" => [];
        /// Undo that: also where it was never finished.
        Leave = "leave" => [];
        /// Take a member out of work.
        Drain = "drain" => [];
        /// Put it back to work.
        Resume = "resume" => [];
        /// Forget a member, which goes.
        Remove = "remove" => [];
        /// Look at an instance, mend what is the adapter's to mend, and say how its members do.
        Reconcile = "reconcile" => [];
    }
}

states! {
    /// What an adapter's step is.
    AdapterStepState {
        /// It waits for an adapter.
        Queued = "queued" => [Leased, Cancelled];
        /// An adapter works on it, as long as its lease lasts.
        Leased = "leased" => [Queued, Done, Failed, Cancelled];
        /// The adapter says that it is done.
        Done = "done" => [];
        /// The adapter says that it cannot be done.
        Failed = "failed" => [];
        /// Nobody wants it any more.
        Cancelled = "cancelled" => [];
    }
}

/// A process that gives an app its meaning: what it said of itself when it last asked for work.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// Its id.
    pub id: AdapterId,
    /// The tenant it works in.
    pub tenant_id: TenantId,
    /// The project it works in.
    pub project_id: ProjectId,
    /// The account it works under.
    pub service_account_id: ServiceAccountId,
    /// Its own name.
    pub name: String,
    /// Its version.
    pub adapter_version: String,
    /// The version of the contract that it speaks.
    pub contract_version: i64,
    /// When it first asked.
    pub created_at: Timestamp,
    /// When it last asked.
    pub seen_at: Timestamp,
}

/// A step that an adapter carries out. It must be safe to run again.
#[derive(Debug, Clone)]
pub struct AdapterStep {
    /// Its id.
    pub id: AdapterStepId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Of which app.
    pub app_id: AppId,
    /// Of which instance.
    pub instance_id: InstanceId,
    /// Of which member; none for a look at the whole instance.
    pub member_id: Option<MemberId>,
    /// The incarnation of that member when it was asked for.
    pub incarnation: i64,
    /// For which operation; none for a look on schedule.
    pub operation_id: Option<OperationId>,
    /// What it is for there: an operation asks for the same thing only once.
    pub key: String,
    /// What to do.
    pub verb: AdapterVerb,
    /// The account that alone may lease it.
    pub operator_account_id: ServiceAccountId,
    /// What is asked for beside the verb.
    pub input: Value,
    /// What it is.
    pub state: AdapterStepState,
    /// Raised whenever its lease changes hands.
    pub generation: i64,
    /// Who has it.
    pub holder: String,
    /// Until when.
    pub leased_until: Option<Timestamp>,
    /// From when on it is offered.
    pub due_at: Timestamp,
    /// How often it was leased.
    pub attempts: i64,
    /// What the adapter last said of it.
    pub message: Option<String>,
    /// How far it is, of a hundred.
    pub percent: Option<i64>,
    /// Why it failed: the adapter's own word.
    pub reason: Option<String>,
    /// What the adapter says of the member, for people.
    pub adapter_detail: Option<Value>,
    /// The thread.
    pub correlation_id: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When nobody waits for it any more.
    pub expires_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl AdapterStep {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}
