//! Adapters: independent processes that implement the semantics of apps, and the steps that they run.

use jiff::Timestamp;
use muster_ids::{
    AdapterId, AdapterStepId, AppId, InstanceId, MemberId, OperationId, ProjectId, ServiceAccountId, TenantId,
};
use serde_json::Value;

use crate::Scope;
use crate::state::states;

states! {
    /// Verb of an adapter step. Each must be idempotent.
    AdapterVerb {
        /// Join a member.
        Join = "join" => [];
        /// Undo a join, also an unfinished one.
        Leave = "leave" => [];
        /// Drain a member.
        Drain = "drain" => [];
        /// Resume a drained member.
        Resume = "resume" => [];
        /// Withdraw a member that is being removed.
        Remove = "remove" => [];
        /// Inspect an instance, repair what the adapter is responsible for, and report member health.
        Reconcile = "reconcile" => [];
    }
}

states! {
    /// State of an adapter step.
    AdapterStepState {
        /// It waits for an adapter.
        Queued = "queued" => [Leased, Cancelled];
        /// An adapter holds its lease.
        Leased = "leased" => [Queued, Done, Failed, Cancelled];
        /// The adapter reported success.
        Done = "done" => [];
        /// The adapter reported a permanent failure.
        Failed = "failed" => [];
        /// It is no longer needed.
        Cancelled = "cancelled" => [];
    }
}

/// A process that implements an app, as it described itself in its latest poll.
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
    /// Contract version that it implements.
    pub contract_version: i64,
    /// First poll.
    pub created_at: Timestamp,
    /// Latest poll.
    pub seen_at: Timestamp,
}

/// A step that an adapter runs. It must be idempotent.
#[derive(Debug, Clone)]
pub struct AdapterStep {
    /// Its id.
    pub id: AdapterStepId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its app.
    pub app_id: AppId,
    /// Its instance.
    pub instance_id: InstanceId,
    /// Its member; none for a step on the whole instance.
    pub member_id: Option<MemberId>,
    /// Incarnation of that member at the time of the request.
    pub incarnation: i64,
    /// Its operation; none for a scheduled reconciliation.
    pub operation_id: Option<OperationId>,
    /// Its purpose: an operation requests each purpose only once.
    pub key: String,
    /// Requested verb.
    pub verb: AdapterVerb,
    /// The only account that may lease it.
    pub operator_account_id: ServiceAccountId,
    /// Parameters besides the verb.
    pub input: Value,
    /// Current state.
    pub state: AdapterStepState,
    /// Fencing token, incremented whenever its lease changes hands.
    pub generation: i64,
    /// Holder of the lease.
    pub holder: String,
    /// End of the lease.
    pub leased_until: Option<Timestamp>,
    /// Time from which it is offered.
    pub due_at: Timestamp,
    /// Number of leases.
    pub attempts: i64,
    /// Latest message of the adapter.
    pub message: Option<String>,
    /// Progress in percent.
    pub percent: Option<i64>,
    /// The adapter's failure reason.
    pub reason: Option<String>,
    /// The adapter's details about the member, for users.
    pub adapter_detail: Option<Value>,
    /// Correlation id.
    pub correlation_id: String,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time at which it expires.
    pub expires_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl AdapterStep {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}
