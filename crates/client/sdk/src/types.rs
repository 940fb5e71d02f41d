//! Types of the API. Generated from `openapi/platform.json` by `make bless`; edit the API crate instead.

use serde::{Deserialize, Serialize};

///An adapter, as it identified itself in its last request for work.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Adapter {
    ///Its version.
    pub adapter_version: String,
    ///Contract version that it implements.
    pub contract_version: i64,
    ///Time of its first request for work.
    pub created_at: ::jiff::Timestamp,
    pub id: AdapterId,
    ///Number of steps it holds a lease on.
    pub leases: i64,
    ///Its own name.
    pub name: String,
    pub project_id: ProjectId,
    ///Time of its last request for work.
    pub seen_at: ::jiff::Timestamp,
    pub service_account_id: ServiceAccountId,
}
///`AdapterId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct AdapterId(pub String);
impl ::std::ops::Deref for AdapterId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for AdapterId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///The adapter that requests work.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdapterIs {
    ///Contract version that it implements.
    pub contract: i64,
    ///Its name, unique per process.
    pub name: String,
    ///Its version.
    pub version: String,
}
///A page of adapters.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AdapterPage {
    ///Items of this page, oldest first.
    pub items: Vec<Adapter>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A step that an adapter carries out.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AdapterStep {
    pub app_id: AppId,
    ///Number of times it was leased.
    pub attempts: i64,
    ///Correlation id.
    pub correlation_id: String,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///Time after which the step is abandoned.
    pub expires_at: ::jiff::Timestamp,
    ///Fencing token: incremented with each new lease; every call on the step must carry it.
    pub generation: i64,
    ///Name of the adapter that holds the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    pub id: AdapterStepId,
    ///Incarnation of that member.
    pub incarnation: i64,
    ///Input of the verb.
    pub input: ::serde_json::Map<String, ::serde_json::Value>,
    pub instance_id: InstanceId,
    ///Expiry of the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_until: Option<::jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_id: Option<MemberId>,
    ///Last message from the adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    ///Progress in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
    pub project_id: ProjectId,
    ///Failure reason, defined by the adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    ///Member reports that were rejected; only in the response to `complete`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_reports: Vec<RefusedReport>,
    pub state: AdapterStepState,
    pub verb: AdapterVerb,
}
///Completion of a step. The platform verifies the result itself.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepComplete {
    ///Free-form detail on the member; replaces the previous one.
    #[serde(default, skip_serializing_if = "::serde_json::Map::is_empty")]
    pub adapter_detail: ::serde_json::Map<String, ::serde_json::Value>,
    ///Generation of the lease.
    pub generation: i64,
    ///Member reports, after a reconciliation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberReport>,
    ///Summary, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Seconds until the next reconciliation; default: the manifest's interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_after_seconds: Option<i64>,
    ///The adapter's name for the topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_mode: Option<String>,
}
///Failure of a step.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepFail {
    ///Free-form detail on the member; replaces the previous one.
    #[serde(default, skip_serializing_if = "::serde_json::Map::is_empty")]
    pub adapter_detail: ::serde_json::Map<String, ::serde_json::Value>,
    ///Generation of the lease.
    pub generation: i64,
    ///The same in a sentence.
    pub message: String,
    ///Failure reason, defined by the adapter.
    pub reason: String,
    ///Seconds after which to retry: the step is offered again instead of failing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i64>,
}
///A heartbeat that extends the lease.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepHeartbeat {
    ///Generation of the lease.
    pub generation: i64,
    ///New lease duration, from now; default: 30 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
}
///`AdapterStepId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct AdapterStepId(pub String);
impl ::std::ops::Deref for AdapterStepId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for AdapterStepId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A request for work.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepLease {
    pub adapter: AdapterIs,
    ///Lease duration without a heartbeat; default: 30 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
    ///Maximum number of steps; default: 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<i64>,
    ///Seconds to wait for the first step; default: do not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<i64>,
}
///A page of adapter steps.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AdapterStepPage {
    ///Items of this page, oldest first.
    pub items: Vec<AdapterStep>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Progress on a step.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepProgress {
    ///Free-form detail on the member; replaces the previous one.
    #[serde(default, skip_serializing_if = "::serde_json::Map::is_empty")]
    pub adapter_detail: ::serde_json::Map<String, ::serde_json::Value>,
    ///Generation of the lease.
    pub generation: i64,
    ///New lease duration, from now, since progress also counts as a heartbeat; default: 30 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
    ///Current activity, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Progress in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
}
///State of an adapter step.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdapterStepState {
    #[serde(rename = "queued")]
    Queued,
    #[serde(rename = "leased")]
    Leased,
    #[serde(rename = "done")]
    Done,
    #[serde(rename = "failed")]
    Failed,
    #[serde(rename = "cancelled")]
    Cancelled,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for AdapterStepState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Queued => f.write_str("queued"),
            Self::Leased => f.write_str("leased"),
            Self::Done => f.write_str("done"),
            Self::Failed => f.write_str("failed"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A task in a member's cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AdapterTask {
    ///End time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<::jiff::Timestamp>,
    pub id: TaskId,
    ///Its idempotency key.
    pub key: String,
    ///The node's message, above all on failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Creation time.
    pub queued_at: ::jiff::Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran: Option<Ran>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<AdapterTaskReason>,
    pub state: AdapterTaskState,
}
///A task to run in a member's cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdapterTaskCreate {
    pub act: CellTask,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaskEffect>,
    ///Generation of the lease.
    pub generation: i64,
    /**Idempotency key: repeating the request under the same step returns the same task. Under a later lease the task
runs again if another task may have undone it since.*/
    pub key: String,
    pub member_id: MemberId,
    ///Seconds to wait for it to end; default: do not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<i64>,
}
///Reason a task failed, from a closed list.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdapterTaskReason {
    #[serde(rename = "cell_dead")]
    CellDead,
    #[serde(rename = "secret_unavailable")]
    SecretUnavailable,
    #[serde(rename = "image_damaged")]
    ImageDamaged,
    #[serde(rename = "refused")]
    Refused,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for AdapterTaskReason {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::CellDead => f.write_str("cell_dead"),
            Self::SecretUnavailable => f.write_str("secret_unavailable"),
            Self::ImageDamaged => f.write_str("image_damaged"),
            Self::Refused => f.write_str("refused"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///State of a task.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdapterTaskState {
    #[serde(rename = "queued")]
    Queued,
    #[serde(rename = "delivered")]
    Delivered,
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "done")]
    Done,
    #[serde(rename = "failed")]
    Failed,
    #[serde(rename = "expired")]
    Expired,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for AdapterTaskState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Queued => f.write_str("queued"),
            Self::Delivered => f.write_str("delivered"),
            Self::Running => f.write_str("running"),
            Self::Done => f.write_str("done"),
            Self::Failed => f.write_str("failed"),
            Self::Expired => f.write_str("expired"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Verb of an adapter step. Each must be idempotent.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdapterVerb {
    #[serde(rename = "join")]
    Join,
    #[serde(rename = "leave")]
    Leave,
    #[serde(rename = "drain")]
    Drain,
    #[serde(rename = "resume")]
    Resume,
    #[serde(rename = "remove")]
    Remove,
    #[serde(rename = "reconcile")]
    Reconcile,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for AdapterVerb {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Join => f.write_str("join"),
            Self::Leave => f.write_str("leave"),
            Self::Drain => f.write_str("drain"),
            Self::Resume => f.write_str("resume"),
            Self::Remove => f.write_str("remove"),
            Self::Reconcile => f.write_str("reconcile"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///An allocation.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Allocation {
    ///Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    pub capacity: Capacity,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<WitnessKind>,
    ///Time at which it is released automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    pub held: Capacity,
    pub id: AllocationId,
    ///Incremented each time its sandbox is created.
    pub incarnation: i64,
    pub labels: Labels,
    ///Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Name, unique among the project's live ones.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    pub project_id: ProjectId,
    ///Whether it is protected from release.
    pub protected: bool,
    /**Number of allocations ahead of it in the queue; only when a single allocation is returned, and only while it
waits.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<i64>,
    ///Reason for the failure or the block, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub shape: AllocationShape,
    pub state: AllocationState,
    pub strategy: Strategy,
    pub tenant_id: TenantId,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
    ///Time until which it stays in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_until: Option<::jiff::Timestamp>,
}
///An operator's attestation.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AllocationAttest {
    ///Statement of fact and its basis: the machine was powered off, its disks were pulled.
    pub statement: String,
}
///An allocation to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AllocationCreate {
    ///Logical CPUs; default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i64>,
    ///Disk in MiB; default: 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<i64>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Release it automatically at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    ///GPUs; default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Memory in MiB; default: 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
    ///Name, unique among the project's live ones.
    pub name: String,
    ///Refuse its release until the protection is lifted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<AllocationShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    ///Stay in the queue until then if it does not fit now. Without it, the request is refused at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_until: Option<::jiff::Timestamp>,
}
///`AllocationId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct AllocationId(pub String);
impl ::std::ops::Deref for AllocationId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for AllocationId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of allocations.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AllocationPage {
    ///Items of this page, oldest first.
    pub items: Vec<Allocation>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Options for releasing an allocation.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct AllocationRelease {
    ///Remove its members first. Without it, an allocation with members is not released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cascade: Option<bool>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Do not wait for an unreachable node: leave the rest in quarantine. With `cascade`: remove members without draining, and even if their instance needs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///A new size.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct AllocationResize {
    ///Logical CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i64>,
    ///Disk in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<i64>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///With `restart`: skip draining its members, and restart them even if their component loses quorum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    ///GPUs; default: unchanged, as for the other fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<i64>,
    ///Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
    ///Restart its cells, which a change of GPUs requires: a cell keeps the GPUs it was created with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<bool>,
}
///Options for recreating an allocation.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct AllocationRestart {
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Skip draining its members, and restart them even if their component loses quorum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///Shape of an allocation.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum AllocationShape {
    #[serde(rename = "baremetal")]
    Baremetal,
    #[serde(rename = "gpu_slice")]
    GpuSlice,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for AllocationShape {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Baremetal => f.write_str("baremetal"),
            Self::GpuSlice => f.write_str("gpu_slice"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///State of an allocation.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum AllocationState {
    #[serde(rename = "requested")]
    Requested,
    #[serde(rename = "placing")]
    Placing,
    #[serde(rename = "provisioning")]
    Provisioning,
    #[serde(rename = "active")]
    Active,
    #[serde(rename = "releasing")]
    Releasing,
    #[serde(rename = "wiping")]
    Wiping,
    #[serde(rename = "released")]
    Released,
    #[serde(rename = "failed")]
    Failed,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for AllocationState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Requested => f.write_str("requested"),
            Self::Placing => f.write_str("placing"),
            Self::Provisioning => f.write_str("provisioning"),
            Self::Active => f.write_str("active"),
            Self::Releasing => f.write_str("releasing"),
            Self::Wiping => f.write_str("wiping"),
            Self::Released => f.write_str("released"),
            Self::Failed => f.write_str("failed"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Properties of an allocation that change immediately.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct AllocationUpdate {
    ///Release it automatically at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Remove the expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never_expires: Option<bool>,
    ///Whether it is protected from release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<bool>,
}
///An entry of the catalog.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct App {
    ///Release started by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_version: Option<String>,
    pub audience: Audience,
    ///Release given to a percentage of starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_version: Option<String>,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///Description.
    pub description: String,
    ///Display name.
    pub display_name: String,
    ///Whether the requesting project may launch it.
    pub entitled: bool,
    pub id: AppId,
    pub labels: Labels,
    pub project_id: ProjectId,
    ///Its name in the catalog, unique on the platform.
    pub slug: String,
    pub tenant_id: TenantId,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///Shapes that an app fits.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AppCompatibility {
    ///One answer per shape.
    pub answers: Vec<Fit>,
    ///The release in question.
    pub version: String,
}
///An app to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AppCreate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
    ///Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    ///Name for people; default: the slug.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Its name in the catalog, unique on the platform.
    pub slug: String,
}
///`AppId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct AppId(pub String);
impl ::std::ops::Deref for AppId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for AppId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of apps.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AppPage {
    ///Items of this page, oldest first.
    pub items: Vec<App>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Properties of an app that can change.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct AppUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
    ///Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    ///Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
}
///A release of an app.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AppVersion {
    ///The app's slug.
    pub app: String,
    pub app_id: AppId,
    ///Percentage of starts that get the canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<i64>,
    ///Publication time.
    pub created_at: ::jiff::Timestamp,
    ///The digest of the manifest.
    pub digest: String,
    pub id: AppVersionId,
    ///Number of instances that run it or may roll back to it.
    pub instances: i64,
    ///The manifest, as it was published.
    pub manifest: ::serde_json::Map<String, ::serde_json::Value>,
    ///Its name, unique within the app.
    pub name: String,
    pub state: ArtifactState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<AppVersionId>,
    ///Time of the last state change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
    ///Lint warnings from its publication.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Fault>,
}
///`AppVersionId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct AppVersionId(pub String);
impl ::std::ops::Deref for AppVersionId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for AppVersionId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of releases.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AppVersionPage {
    ///Items of this page, oldest first.
    pub items: Vec<AppVersion>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A release to publish.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AppVersionPublish {
    ///Validate only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///The manifest; `app_schema` returns its schema.
    pub manifest: ::serde_json::Map<String, ::serde_json::Value>,
}
///A lifecycle transition of a release.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AppVersionStep {
    ///Percentage of starts that get the canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
    ///Reason, for the audit log.
    pub reason: String,
    pub to: ArtifactState,
}
///Archived logs: the last output of a cell's services before it was removed.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ArchivedLogs {
    ///One per service and incarnation.
    pub logs: Vec<CellLog>,
}
///An artifact: content by digest.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Artifact {
    ///Percentage of starts that get the canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<i64>,
    ///Publication time.
    pub created_at: ::jiff::Timestamp,
    ///The digest of its manifest.
    pub digest: String,
    pub id: ArtifactId,
    pub kind: ArtifactKind,
    pub labels: Labels,
    ///Release line; at most one artifact per line is active.
    pub line: String,
    ///The media type of its manifest.
    pub media_type: String,
    pub project_id: ProjectId,
    ///That repository's name.
    pub repository: String,
    pub repository_id: RepositoryId,
    ///Time from which it can be retired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retirable_at: Option<::jiff::Timestamp>,
    ///Total size in bytes.
    pub size: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smoke_witness_id: Option<WitnessId>,
    pub state: ArtifactState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<ArtifactId>,
    pub tenant_id: TenantId,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    ///Version for `If-Match`.
    pub version: i64,
}
///A state change.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ArtifactChange {
    ///The actor.
    pub actor_id: String,
    pub after: ArtifactState,
    ///Time.
    pub at: ::jiff::Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<ArtifactState>,
    ///Reason.
    pub reason: String,
}
///A demotion: canary to staged, active to deprecated, deprecated to retired.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ArtifactDemote {
    ///Reason, for the audit log.
    pub reason: String,
    pub to: ArtifactState,
}
///`ArtifactId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct ArtifactId(pub String);
impl ::std::ops::Deref for ArtifactId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///Kind of content.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum ArtifactKind {
    #[serde(rename = "oci")]
    Oci,
    #[serde(rename = "blob")]
    Blob,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Oci => f.write_str("oci"),
            Self::Blob => f.write_str("blob"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A page of artifacts.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ArtifactPage {
    ///Items of this page, oldest first.
    pub items: Vec<Artifact>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A promotion to staged, canary or active.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ArtifactPromote {
    ///Percentage of starts that get the canary; default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
    ///Reason, for the audit log.
    pub reason: String,
    ///A cell of this exact digest that was verified as running, by id or name: the smoke test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smoke_cell: Option<String>,
    pub to: ArtifactState,
}
///Content to publish as an artifact. A push with a tag publishes by itself; this is for everything else.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ArtifactPublish {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Release line; default: `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    ///Digest or tag of a manifest in the repository; with `external`, the digest there.
    pub reference: String,
    ///The repository in the project.
    pub repository: String,
}
///Everything that depends on a digest, from signature to running cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ArtifactReferences {
    pub artifact: Artifact,
    ///Live cells created from it.
    pub cells: Vec<CellReference>,
    ///State changes, oldest first.
    pub changes: Vec<ArtifactChange>,
    ///Reasons it cannot be retired or deleted now, one sentence each.
    pub holds: Vec<String>,
    ///Indexes that include it.
    pub indexes: Vec<String>,
    ///Lint findings.
    pub lint: Vec<LintFinding>,
    ///Signatures of it.
    pub signatures: Vec<SignatureReference>,
    ///Artifacts that it superseded.
    pub supersedes: Vec<ArtifactId>,
    ///Tags that point to it.
    pub tags: Vec<String>,
}
///Lifecycle state of an artifact.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum ArtifactState {
    #[serde(rename = "draft")]
    Draft,
    #[serde(rename = "staged")]
    Staged,
    #[serde(rename = "canary")]
    Canary,
    #[serde(rename = "active")]
    Active,
    #[serde(rename = "deprecated")]
    Deprecated,
    #[serde(rename = "retired")]
    Retired,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for ArtifactState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Draft => f.write_str("draft"),
            Self::Staged => f.write_str("staged"),
            Self::Canary => f.write_str("canary"),
            Self::Active => f.write_str("active"),
            Self::Deprecated => f.write_str("deprecated"),
            Self::Retired => f.write_str("retired"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Empty request body.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct ArtifactVerify {}
///Visibility of an app in the catalog.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Audience {
    #[serde(rename = "project")]
    Project,
    #[serde(rename = "tenant")]
    Tenant,
    #[serde(rename = "everyone")]
    Everyone,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Audience {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Project => f.write_str("project"),
            Self::Tenant => f.write_str("tenant"),
            Self::Everyone => f.write_str("everyone"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///The actor of a command.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AuditActor {
    ///The actor's id.
    pub id: String,
    ///`user`, `service_account` or `platform`.
    pub kind: String,
    ///Its name at the time.
    pub name: String,
}
///A record at its position in the chain.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AuditEntry {
    ///The chain: a tenant's id, or `platform`.
    pub chain: String,
    ///SHA-256 over the previous hash, the sequence number and the record's text.
    pub hash: String,
    ///Hash of the previous entry.
    pub previous_hash: String,
    pub record: AuditRecord,
    ///Sequence number, from 1, without gaps.
    pub sequence: i64,
}
///The head of a chain, as far as it is sealed.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AuditHead {
    ///The chain.
    pub chain: String,
    ///Its hash. Store it elsewhere to verify a later export against it.
    pub hash: String,
    ///Fingerprint of the signing key, which is not in the database.
    pub key_id: String,
    ///Hash of that entry, which the first retained entry builds on.
    pub pruned_hash: String,
    ///Last sequence number removed by retention.
    pub pruned_sequence: i64,
    ///Last sequence number.
    pub sequence: i64,
    ///Signature over chain, sequence number, hash and time, base64.
    pub signature: String,
    ///Time of signing: now.
    pub signed_at: ::jiff::Timestamp,
}
///`AuditId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct AuditId(pub String);
impl ::std::ops::Deref for AuditId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for AuditId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///Outcome of a command.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuditOutcome {
    #[serde(rename = "succeeded")]
    Succeeded,
    #[serde(rename = "refused")]
    Refused,
    #[serde(rename = "denied")]
    Denied,
    #[serde(rename = "failed")]
    Failed,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for AuditOutcome {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::Refused => f.write_str("refused"),
            Self::Denied => f.write_str("denied"),
            Self::Failed => f.write_str("failed"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A page of audit entries.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AuditPage {
    ///Entries, in order.
    pub items: Vec<AuditEntry>,
    ///Pass as `after` to continue.
    pub next_after: i64,
    ///Last sealed sequence number of the chain.
    pub sealed_up_to: i64,
}
///The hashed part of an entry: actor, action, target and outcome.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AuditRecord {
    ///The action, as `noun.verb`.
    pub action: String,
    pub actor: AuditActor,
    ///Time.
    pub at: ::jiff::Timestamp,
    ///The problem's code, unless it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    ///Correlation id, shared with the request, events and logs.
    pub correlation_id: String,
    ///Number of occurrences, for aggregated refusals.
    pub count: i64,
    ///Details of the change, without secrets.
    pub detail: ::serde_json::Map<String, ::serde_json::Value>,
    pub id: AuditId,
    pub outcome: AuditOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<AuditTarget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
}
///The target of a command.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct AuditTarget {
    ///Its id, or the reference from the request if it was not found.
    pub id: String,
    ///The noun.
    pub kind: String,
    ///Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
///Details of a block.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Blocked {
    ///Available actions.
    pub actions: Vec<ResolveAction>,
    ///Time at which it is escalated to operators as overdue.
    pub escalates_at: ::jiff::Timestamp,
    ///Reason.
    pub reason: String,
    ///Party that can unblock it: `tenant` or `operator`.
    pub resolvable_by: String,
    ///Time at which it was blocked.
    pub since: ::jiff::Timestamp,
}
///A blocked child operation, without which its parent cannot continue.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct BlockedChild {
    pub blocked: Blocked,
    ///`noun.verb`.
    pub kind: String,
    pub operation_id: OperationId,
    ///Kind of the child's subject: `allocation`, `cell`, `instance`, `member` or `node`.
    pub subject_kind: String,
    ///Name of what the child works on.
    pub subject_name: String,
}
///The answer, with its reason.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CanI {
    ///Whether it is granted.
    pub allowed: bool,
    ///The permission in question.
    pub permission: String,
    ///Reason.
    pub reason: String,
}
///Amounts of a node's resources.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Capacity {
    ///Logical CPUs.
    pub cpus: i64,
    ///Disk in MiB.
    pub disk_mb: i64,
    ///GPUs.
    pub gpus: i64,
    ///Memory in MiB.
    pub memory_mb: i64,
}
///Number of nodes that could provide this many GPUs now, with the requested CPUs, memory and disk.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CapacityByGpus {
    ///Number of GPUs.
    pub gpus: i64,
    ///Of these, nodes that could provide them inside one NVLink island.
    pub in_one_island: i64,
    ///Nodes that could provide them.
    pub nodes: i64,
}
///The smallest change that would fit now.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CapacityNearest {
    pub capacity: Capacity,
    ///The change in words.
    pub change: String,
    pub shape: AllocationShape,
}
///Reason it does not fit now.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum CapacityReason {
    #[serde(rename = "quota")]
    Quota,
    #[serde(rename = "no_node")]
    NoNode,
    #[serde(rename = "no_whole_node")]
    NoWholeNode,
    #[serde(rename = "gpus")]
    Gpus,
    #[serde(rename = "cpus")]
    Cpus,
    #[serde(rename = "memory_mb")]
    MemoryMb,
    #[serde(rename = "disk_mb")]
    DiskMb,
    #[serde(rename = "apart")]
    Apart,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for CapacityReason {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Quota => f.write_str("quota"),
            Self::NoNode => f.write_str("no_node"),
            Self::NoWholeNode => f.write_str("no_whole_node"),
            Self::Gpus => f.write_str("gpus"),
            Self::Cpus => f.write_str("cpus"),
            Self::MemoryMb => f.write_str("memory_mb"),
            Self::DiskMb => f.write_str("disk_mb"),
            Self::Apart => f.write_str("apart"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Capacity that a project can allocate now. Nothing is reserved: another request may claim it first.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CapacityReport {
    ///Number of nodes that could provide one GPU, two, and so on.
    pub by_gpus: Vec<CapacityByGpus>,
    pub capacity: Capacity,
    ///Whether it fits now: a node has room, and the quota allows it.
    pub fits_now: bool,
    pub largest: Capacity,
    ///Human-readable reason, with the short resource and the largest amount available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<CapacityNearest>,
    ///Number of nodes that could take it now, regardless of the quota.
    pub nodes: i64,
    pub project_id: ProjectId,
    pub quota_left: QuotaLeft,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<CapacityReason>,
    pub shape: AllocationShape,
    ///Number of queued allocations.
    pub waiting: i64,
}
///A cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Cell {
    ///Its address in its network.
    pub address: String,
    ///Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    pub allocation_id: AllocationId,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    pub health: Health,
    ///Explanation, when not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_message: Option<String>,
    pub id: CellId,
    ///Incremented each time it is created.
    pub incarnation: i64,
    pub labels: Labels,
    ///Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Name, unique among the project's live ones; also the host name.
    pub name: String,
    pub network_id: NetworkId,
    pub node_id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    ///Node ports that forward to it.
    pub ports: Vec<CellPort>,
    pub project_id: ProjectId,
    ///Reason for the failure or the block, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub spec: CellSpec,
    pub state: CellState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CellStatus>,
    pub tenant_id: TenantId,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///An action on a cell.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct CellAct {
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///A cell to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct CellCreate {
    ///Its allocation, by id or name.
    pub allocation: String,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Name, unique among the project's live ones; also the host name.
    pub name: String,
    ///Deadline for all services to be ready; default: 15 minutes from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_until: Option<::jiff::Timestamp>,
    pub spec: CellSpec,
}
///`CellId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct CellId(pub String);
impl ::std::ops::Deref for CellId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for CellId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///The last output of a service before its cell was removed.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CellLog {
    ///Incarnation of the cell.
    pub incarnation: i64,
    ///Time of archiving.
    pub kept_at: ::jiff::Timestamp,
    ///The service.
    pub service: String,
    ///One line per entry: time, stream, text.
    pub text: String,
    ///Whether earlier output was dropped.
    pub truncated: bool,
}
///A page of cells.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CellPage {
    ///Items of this page, oldest first.
    pub items: Vec<Cell>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A node port that forwards to a cell's port.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CellPort {
    ///The node's port.
    pub node_port: i64,
    ///The cell's port.
    pub port: i64,
    pub protocol: Protocol,
}
///A cell created from the digest.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CellReference {
    pub id: CellId,
    ///Its incarnation.
    pub incarnation: i64,
    ///Its name.
    pub name: String,
    ///Current state.
    pub state: String,
}
///Restart policy of a cell.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum CellRestart {
    #[serde(rename = "never")]
    Never,
    #[serde(rename = "always")]
    Always,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for CellRestart {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Never => f.write_str("never"),
            Self::Always => f.write_str("always"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Immutable specification of a cell. A changed specification is a new incarnation.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    ///Whether processes may reach addresses outside the network, through the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<bool>,
    ///Environment variables of every process.
    #[serde(
        default,
        skip_serializing_if = ":: std :: collections :: BTreeMap::is_empty"
    )]
    pub environment: ::std::collections::BTreeMap<
        String,
        String,
    >,
    ///Files written before any process starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    ///GPUs of the allocation that the cell may use. Default: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<i32>,
    ///Ports reachable from outside the network, at the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Ingress>,
    /**Whether the cell has the project's users: their names and ids in `/etc/muster/passwd` and `/etc/muster/group`, their
SSH keys in `/etc/muster/authorized_keys`. Commands then run as the calling user by default, not as root.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub people: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<CellRestart>,
    pub root: Root,
    ///Secrets, each a file in `/run/muster/secrets` that is kept in memory only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretFile>,
    ///Supervised services. A cell without any serves commands and shells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
    /**Directories shared with the other cells of the network, on the file system that the nodes share. Only cells of an
app's members have them, as declared in the manifest; decommissioning the app removes them.*/
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<String>,
    ///Directories that survive incarnations. They are wiped with the allocation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<String>,
    /**Seconds without contact to the platform after which the node destroys the cell, so that a replacement elsewhere never
runs beside it.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after_partition: Option<i32>,
}
///State of a cell.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum CellState {
    #[serde(rename = "requested")]
    Requested,
    #[serde(rename = "provisioning")]
    Provisioning,
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "destroying")]
    Destroying,
    #[serde(rename = "destroyed")]
    Destroyed,
    #[serde(rename = "failed")]
    Failed,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for CellState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Requested => f.write_str("requested"),
            Self::Provisioning => f.write_str("provisioning"),
            Self::Running => f.write_str("running"),
            Self::Destroying => f.write_str("destroying"),
            Self::Destroyed => f.write_str("destroyed"),
            Self::Failed => f.write_str("failed"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Status of a cell, as reported by its node's agent.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct CellStatus {
    ///Whether its first process is running.
    pub alive: bool,
    ///Time of the agent's last reported change.
    pub observed_at: ::jiff::Timestamp,
    ///Its services.
    pub services: Vec<ServiceStatus>,
    ///Time of the last change of `alive`.
    pub since: ::jiff::Timestamp,
}
///Action in or beside an existing cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub enum CellTask {
    ///Files to write, and paths to remove.
    #[serde(rename = "files")]
    Files(FilesOrder),
    ///A service to start or to stop.
    #[serde(rename = "service")]
    Service(ServiceOrder),
    ///Command to run to completion.
    #[serde(rename = "command")]
    Command(CommandOrder),
    ///Check to run beside the cell.
    #[serde(rename = "probe")]
    Probe(ProbeOrder),
}
///One difference between approved and found hardware.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Change {
    ///Found value; absent if the component is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is: Option<String>,
    ///Approved value; absent if the component is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    ///The component, and the fact of it that changed if the component is still present.
    pub what: String,
}
///A health check.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Check {
    ///Result.
    pub detail: String,
    ///Its name.
    pub name: String,
    ///Whether it passed.
    pub ok: bool,
}
///The closed list of codes. A code is stable; its text may improve.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Code {
    #[serde(rename = "malformed_request")]
    MalformedRequest,
    #[serde(rename = "invalid_request")]
    InvalidRequest,
    #[serde(rename = "bad_cursor")]
    BadCursor,
    #[serde(rename = "idempotency_key_required")]
    IdempotencyKeyRequired,
    #[serde(rename = "unauthenticated")]
    Unauthenticated,
    #[serde(rename = "permission_denied")]
    PermissionDenied,
    #[serde(rename = "csrf_required")]
    CsrfRequired,
    #[serde(rename = "origin_not_allowed")]
    OriginNotAllowed,
    #[serde(rename = "not_found")]
    NotFound,
    #[serde(rename = "method_not_allowed")]
    MethodNotAllowed,
    #[serde(rename = "request_timeout")]
    RequestTimeout,
    #[serde(rename = "name_taken")]
    NameTaken,
    #[serde(rename = "ambiguous_name")]
    AmbiguousName,
    #[serde(rename = "not_empty")]
    NotEmpty,
    #[serde(rename = "invalid_state")]
    InvalidState,
    #[serde(rename = "quota_exceeded")]
    QuotaExceeded,
    #[serde(rename = "fenced")]
    Fenced,
    #[serde(rename = "member_step_running")]
    MemberStepRunning,
    #[serde(rename = "too_many_tasks")]
    TooManyTasks,
    #[serde(rename = "incompatible")]
    Incompatible,
    #[serde(rename = "last_operator")]
    LastOperator,
    #[serde(rename = "version_mismatch")]
    VersionMismatch,
    #[serde(rename = "body_too_large")]
    BodyTooLarge,
    #[serde(rename = "unsupported_media_type")]
    UnsupportedMediaType,
    #[serde(rename = "host_not_allowed")]
    HostNotAllowed,
    #[serde(rename = "idempotency_key_reused")]
    IdempotencyKeyReused,
    #[serde(rename = "untrusted")]
    Untrusted,
    #[serde(rename = "lint_failed")]
    LintFailed,
    #[serde(rename = "url_not_allowed")]
    UrlNotAllowed,
    #[serde(rename = "version_required")]
    VersionRequired,
    #[serde(rename = "rate_limited")]
    RateLimited,
    #[serde(rename = "external_registry")]
    ExternalRegistry,
    #[serde(rename = "internal")]
    Internal,
    #[serde(rename = "unavailable")]
    Unavailable,
    #[serde(rename = "storage_full")]
    StorageFull,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Code {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::MalformedRequest => f.write_str("malformed_request"),
            Self::InvalidRequest => f.write_str("invalid_request"),
            Self::BadCursor => f.write_str("bad_cursor"),
            Self::IdempotencyKeyRequired => f.write_str("idempotency_key_required"),
            Self::Unauthenticated => f.write_str("unauthenticated"),
            Self::PermissionDenied => f.write_str("permission_denied"),
            Self::CsrfRequired => f.write_str("csrf_required"),
            Self::OriginNotAllowed => f.write_str("origin_not_allowed"),
            Self::NotFound => f.write_str("not_found"),
            Self::MethodNotAllowed => f.write_str("method_not_allowed"),
            Self::RequestTimeout => f.write_str("request_timeout"),
            Self::NameTaken => f.write_str("name_taken"),
            Self::AmbiguousName => f.write_str("ambiguous_name"),
            Self::NotEmpty => f.write_str("not_empty"),
            Self::InvalidState => f.write_str("invalid_state"),
            Self::QuotaExceeded => f.write_str("quota_exceeded"),
            Self::Fenced => f.write_str("fenced"),
            Self::MemberStepRunning => f.write_str("member_step_running"),
            Self::TooManyTasks => f.write_str("too_many_tasks"),
            Self::Incompatible => f.write_str("incompatible"),
            Self::LastOperator => f.write_str("last_operator"),
            Self::VersionMismatch => f.write_str("version_mismatch"),
            Self::BodyTooLarge => f.write_str("body_too_large"),
            Self::UnsupportedMediaType => f.write_str("unsupported_media_type"),
            Self::HostNotAllowed => f.write_str("host_not_allowed"),
            Self::IdempotencyKeyReused => f.write_str("idempotency_key_reused"),
            Self::Untrusted => f.write_str("untrusted"),
            Self::LintFailed => f.write_str("lint_failed"),
            Self::UrlNotAllowed => f.write_str("url_not_allowed"),
            Self::VersionRequired => f.write_str("version_required"),
            Self::RateLimited => f.write_str("rate_limited"),
            Self::ExternalRegistry => f.write_str("external_registry"),
            Self::Internal => f.write_str("internal"),
            Self::Unavailable => f.write_str("unavailable"),
            Self::StorageFull => f.write_str("storage_full"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A command in a cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Command {
    ///The terminal's width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<i32>,
    ///Program, by path or by name in the cell's PATH, and arguments. No shell interprets them.
    pub command: Vec<String>,
    ///Environment variables in addition to the cell's.
    #[serde(
        default,
        skip_serializing_if = ":: std :: collections :: BTreeMap::is_empty"
    )]
    pub environment: ::std::collections::BTreeMap<
        String,
        String,
    >,
    ///Group in the cell. Default: the same number as the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<i32>,
    ///The terminal's height.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<i32>,
    ///Whether to allocate a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<bool>,
    ///User in the cell. Default: the calling user in a cell that has the project's users, otherwise root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i32>,
    ///Working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
}
///A command to run to completion.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct CommandOrder {
    ///Program path and arguments. No shell interprets them.
    pub command: Vec<String>,
    ///Environment variables in addition to the cell's.
    #[serde(
        default,
        skip_serializing_if = ":: std :: collections :: BTreeMap::is_empty"
    )]
    pub environment: ::std::collections::BTreeMap<
        String,
        String,
    >,
    ///As which group of the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<i32>,
    ///Standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    ///After so many seconds it is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    ///As which user of the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i32>,
}
///A component of an instance.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Component {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_id: Option<AllocationId>,
    pub capacity: Capacity,
    ///Its key, meaningful to the app only.
    pub component_key: String,
    ///Number of active members.
    pub current: i64,
    ///Desired number of members.
    pub desired: i64,
    pub health: Health,
    ///Total number of members, including those that are starting, leaving or failed.
    pub members: i64,
}
///Requested properties of a component.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ComponentAsk {
    ///Allocation for the members, by id or name; default: the platform creates one per member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    ///Its key in the manifest.
    pub component_key: String,
    ///Number of members; default: the manifest's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}
///The processors.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Cpus {
    ///Logical CPUs that are online.
    pub count: i64,
    ///Model name reported by the processor.
    pub model: String,
    ///Number of sockets.
    pub sockets: i64,
}
///`DeliveryId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct DeliveryId(pub String);
impl ::std::ops::Deref for DeliveryId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A specification of devices that the agent applies to cells.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct DeviceSpec {
    ///SHA-256 of its content, in hexadecimal.
    pub digest: String,
    ///Vendor and class of its devices.
    pub kind: String,
    ///Its file, or `agent` if the agent made it from the driver's files.
    pub origin: String,
}
///Encoding of a value.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Encoding {
    #[serde(rename = "text")]
    Text,
    #[serde(rename = "base64")]
    Base64,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Encoding {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Text => f.write_str("text"),
            Self::Base64 => f.write_str("base64"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///`EnrolmentId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct EnrolmentId(pub String);
impl ::std::ops::Deref for EnrolmentId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for EnrolmentId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A project's right to launch an app.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Entitlement {
    ///The app's slug.
    pub app: String,
    pub app_id: AppId,
    ///Time of the grant.
    pub created_at: ::jiff::Timestamp,
    pub id: EntitlementId,
    pub operator_account_id: ServiceAccountId,
    ///Permissions of that account: exactly those consented to.
    pub permissions: Vec<String>,
    pub project_id: ProjectId,
    ///Time of revocation. No new instance starts after it; existing ones stay operable until they are decommissioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<::jiff::Timestamp>,
    pub tenant_id: TenantId,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///An entitlement to grant.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct EntitlementGrant {
    ///The app, by slug or id.
    pub app: String,
    ///Permissions granted to the app's adapter here; must match those its release requests, which a dry run shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consent: Vec<String>,
    ///Only return the permissions the app requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}
///`EntitlementId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct EntitlementId(pub String);
impl ::std::ops::Deref for EntitlementId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for EntitlementId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of entitlements.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct EntitlementPage {
    ///Items of this page, oldest first.
    pub items: Vec<Entitlement>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Options for revoking an entitlement.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct EntitlementRevoke {
    /**Shut the app's adapter out at once, although it still operates live instances: its account is disabled, its tokens
expire within seconds, and operations that need the adapter wait and are eventually blocked. Also accepted for an
entitlement that is already revoked.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<bool>,
}
///An event, as a CloudEvent.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Event {
    ///Actor of the command that caused it.
    pub actorid: String,
    ///Correlation id, shared with the request, audit and logs.
    pub correlationid: String,
    ///Details.
    pub data: ::serde_json::Map<String, ::serde_json::Value>,
    pub id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instanceid: Option<InstanceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memberid: Option<MemberId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projectid: Option<ProjectId>,
    ///Sequence number in the requested stream, from 1, without gaps; on an instance's timeline, the one in its project's stream.
    pub sequence: i64,
    ///Event source.
    pub source: String,
    ///CloudEvents version.
    pub specversion: String,
    ///Path of the resource.
    pub subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenantid: Option<TenantId>,
    ///Time of occurrence.
    pub time: ::jiff::Timestamp,
    ///Event type.
    #[serde(rename = "type")]
    pub type_: String,
}
///`EventId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct EventId(pub String);
impl ::std::ops::Deref for EventId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for EventId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of events.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct EventPage {
    ///Events in order, without gaps unless filtered.
    pub items: Vec<Event>,
    ///Pass as `after` to continue.
    pub next_after: i64,
    ///Last sealed sequence number of the stream; later events are not numbered yet.
    pub sealed_up_to: i64,
}
///An external registry.
#[derive(Deserialize, Serialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct External {
    ///Its host, with the port if not the default one: `registry.example`.
    pub registry: String,
    ///The repository there.
    pub repository: String,
    /**Name of the project's secret to authenticate with. It must have been created for this registry, with
`user:password` as its value. Needs `secret.use`.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}
///A lint finding in a manifest.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Fault {
    ///Whether it prevents publication.
    pub error: bool,
    ///The finding, and how to fix it.
    pub message: String,
    ///Location, as a JSON pointer into the manifest.
    pub path: String,
    ///The rule.
    pub rule: String,
}
///An error at one place of a request.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct FieldError {
    ///Description of the error.
    pub detail: String,
    ///A JSON pointer into the body, or `query/NAME`, `header/NAME`, `path/NAME`.
    pub pointer: String,
}
///A file in a cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct File {
    ///Its group in the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<i32>,
    ///Mode, in octal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    ///Path.
    pub path: String,
    ///Content.
    pub text: String,
    ///Its owner in the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i32>,
}
///A file of a cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct FileAt {
    ///Its group in the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<i32>,
    ///Mode of the written file, in octal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    ///Path.
    pub path: String,
    ///Its owner in the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i32>,
}
///Files to write and to remove in a cell. Each is renamed into its path, so it is never partially written.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct FilesOrder {
    ///Files and empty directories to remove. Missing ones are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    ///Secrets to write, by reference, each as a file of mode 0400 in `/run/muster/secrets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretFile>,
    ///Files to write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<File>,
}
///Whether an app fits a shape.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Fit {
    ///The smallest change that would make it fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    ///Whether it fits.
    pub fits: bool,
    ///Reasons for the answer.
    pub reasons: Vec<String>,
    pub shape: AllocationShape,
}
///A GPU.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Gpu {
    ///Architecture, in lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    ///Latest CUDA version that the driver supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    ///Driver version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    ///NVLink island. GPUs connected over NVLink share a number; one without links has its own.
    pub island: i64,
    ///Its memory in MiB.
    pub memory_mb: i64,
    ///Whether MIG mode is enabled.
    pub mig: bool,
    ///Its MIG instances, by UUID; empty unless MIG mode is enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig_instances: Vec<MigInstance>,
    ///The model.
    pub model: String,
    ///NUMA node it is attached to; -1 if the machine does not report one.
    pub numa: i64,
    ///Number of NVLinks that are up.
    pub nvlinks: i32,
    ///Ordinal assigned by the driver, from 0. It shifts when an earlier GPU is missing: the UUID is the identity.
    pub ordinal: i64,
    ///PCI address; absent for a simulated GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    ///Identity of the GPU, the same in any machine.
    pub uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vfs: Option<Vfs>,
}
///A product of GPUs.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct GpuProduct {
    ///Its architecture, such as `hopper`.
    pub architecture: String,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    pub id: GpuProductId,
    ///Memory of one GPU in MiB.
    pub memory_mb: i64,
    ///Its name, such as `h200`.
    pub name: String,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///A GPU product to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct GpuProductCreate {
    ///Its architecture, such as `hopper`.
    pub architecture: String,
    ///Memory of one GPU in MiB.
    pub memory_mb: i64,
    ///Its name, such as `h200`.
    pub name: String,
}
///`GpuProductId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct GpuProductId(pub String);
impl ::std::ops::Deref for GpuProductId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for GpuProductId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of GPU products.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct GpuProductPage {
    ///Items of this page, oldest first.
    pub items: Vec<GpuProduct>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Properties of a GPU product that can change.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct GpuProductUpdate {
    ///Its architecture, such as `hopper`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    ///Memory of one GPU in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
}
///Result of a grant.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Granted {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entitlement: Option<Entitlement>,
    ///Permissions of the app's adapter in the project.
    pub permissions: Vec<String>,
}
///Health: a second axis besides the state.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Health {
    #[serde(rename = "healthy")]
    Healthy,
    #[serde(rename = "degraded")]
    Degraded,
    #[serde(rename = "unhealthy")]
    Unhealthy,
    #[serde(rename = "unknown")]
    Unknown,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Health {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Healthy => f.write_str("healthy"),
            Self::Degraded => f.write_str("degraded"),
            Self::Unhealthy => f.write_str("unhealthy"),
            Self::Unknown => f.write_str("unknown"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A role and its scope.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct HeldRole {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
}
///A port of a cell that is reachable from outside its network.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    ///The node's port. Default: chosen by the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
    ///The cell's port.
    pub port: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}
///An instance of an app in a project.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Instance {
    ///Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    ///The app's slug.
    pub app: String,
    pub app_id: AppId,
    ///Name of that release.
    pub app_version: String,
    pub app_version_id: AppVersionId,
    pub bound_capacity_shape: AllocationShape,
    ///Its configuration.
    pub config: ::serde_json::Map<String, ::serde_json::Value>,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///Time at which it is decommissioned automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    pub health: Health,
    ///Explanation, when not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_message: Option<String>,
    ///Time of the last change of its health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_since: Option<::jiff::Timestamp>,
    pub id: InstanceId,
    pub labels: Labels,
    ///Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Name, unique among the project's live ones.
    pub name: String,
    pub network_id: NetworkId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    pub operator_service_account: ServiceAccountId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version_id: Option<AppVersionId>,
    pub project_id: ProjectId,
    ///Whether it is protected from decommissioning.
    pub protected: bool,
    ///Failure reason, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    ///Time of its adapter's last reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciled_at: Option<::jiff::Timestamp>,
    pub repair: RepairMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_witness_id: Option<WitnessId>,
    pub state: InstanceState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_witness_id: Option<WitnessId>,
    pub tenant_id: TenantId,
    pub topology: Topology,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///An action on an instance.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct InstanceAct {
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Skip draining the members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    ///Deadline; default: two hours from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_until: Option<::jiff::Timestamp>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///An instance to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct InstanceCreate {
    ///The app, by slug or id.
    pub app: String,
    ///Release, by name or id; default: the active one or the canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    ///Components that differ from the manifest's defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentAsk>,
    ///Configuration, validated against the manifest's schema.
    #[serde(default, skip_serializing_if = "::serde_json::Map::is_empty")]
    pub config: ::serde_json::Map<String, ::serde_json::Value>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Time at which it is decommissioned automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Name, unique among the project's live ones.
    pub name: String,
    ///Whether it is protected from decommissioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<bool>,
    ///Deadline for it to run; default: one hour from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_until: Option<::jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<AllocationShape>,
}
///An endpoint of an instance.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct InstanceEndpoint {
    ///Its address in the instance's network.
    pub address: String,
    ///Its component.
    pub component_key: String,
    ///The member.
    pub member: String,
    ///Its name in the manifest.
    pub name: String,
    ///Address of the node, if a node port forwards to the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_address: Option<String>,
    ///Port of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i64>,
    ///The port there.
    pub port: i64,
    ///`tcp` or `udp`.
    pub protocol: String,
}
///Endpoints of an instance.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct InstanceEndpoints {
    ///Endpoints of its active members.
    pub endpoints: Vec<InstanceEndpoint>,
}
///`InstanceId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct InstanceId(pub String);
impl ::std::ops::Deref for InstanceId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for InstanceId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of instances.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct InstancePage {
    ///Items of this page, oldest first.
    pub items: Vec<Instance>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Desired numbers of members.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct InstanceScale {
    ///Components to change.
    pub components: Vec<ComponentAsk>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Deadline; default: one hour from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_until: Option<::jiff::Timestamp>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///State of an instance.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum InstanceState {
    #[serde(rename = "created")]
    Created,
    #[serde(rename = "starting")]
    Starting,
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "stopping")]
    Stopping,
    #[serde(rename = "stopped")]
    Stopped,
    #[serde(rename = "failed")]
    Failed,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for InstanceState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Created => f.write_str("created"),
            Self::Starting => f.write_str("starting"),
            Self::Running => f.write_str("running"),
            Self::Stopping => f.write_str("stopping"),
            Self::Stopped => f.write_str("stopped"),
            Self::Failed => f.write_str("failed"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Properties of an instance that can change without changing its members.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct InstanceUpdate {
    ///Time at which it is decommissioned automatically; a time in the distant past removes the expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Whether it is protected from decommissioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairMode>,
}
///An upgrade to another release.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct InstanceUpgrade {
    ///Release, by name or id; default: the active one or the canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    ///New configuration; default: unchanged.
    #[serde(default, skip_serializing_if = "::serde_json::Map::is_empty")]
    pub config: ::serde_json::Map<String, ::serde_json::Value>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Deadline; default: two hours from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_until: Option<::jiff::Timestamp>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///Inventory of a machine. `Inventory::hardware_digest` defines the part that an operator approves.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Inventory {
    ///The processor architecture.
    pub architecture: String,
    ///Boot id, generated by the kernel at each start.
    pub boot_id: String,
    pub cpus: Cpus,
    ///Specifications of devices (Container Device Interface) that the agent applies to cells, by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_specs: Vec<DeviceSpec>,
    ///Size of the file system with the agent's data, in MiB.
    pub disk_mb: i64,
    ///GPUs, by ordinal.
    pub gpus: Vec<Gpu>,
    ///Host name of the machine; the node's name is the platform's.
    pub hostname: String,
    ///Release of the running kernel.
    pub kernel: String,
    ///Memory available to the kernel in MiB, slightly less than installed.
    pub memory_mb: i64,
    /**Physical network devices, by name. Bridges, tunnels and virtual functions come and go with the cells and are not
listed.*/
    pub network: Vec<NetworkDevice>,
    ///Read errors and their reasons.
    pub notes: Vec<String>,
    ///NUMA nodes, by number.
    pub numa: Vec<NumaNode>,
    ///Distribution name.
    pub os: String,
    /**Graphics, accelerator, network and NVMe devices on the PCI bus, by address. Virtual functions are counted at their
device and not listed.*/
    pub pci: Vec<PciDevice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Reserved>,
    ///Whether the GPUs are simulated, for machines without any.
    pub simulated: bool,
}
///One item of a bulk operation.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Item {
    ///Id of the resource.
    pub id: String,
    ///Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Its name.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    pub state: ItemState,
}
///State of one item of a bulk operation.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum ItemState {
    #[serde(rename = "pending")]
    Pending,
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "blocked")]
    Blocked,
    #[serde(rename = "succeeded")]
    Succeeded,
    #[serde(rename = "partial")]
    Partial,
    #[serde(rename = "failed")]
    Failed,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for ItemState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Pending => f.write_str("pending"),
            Self::Running => f.write_str("running"),
            Self::Blocked => f.write_str("blocked"),
            Self::Succeeded => f.write_str("succeeded"),
            Self::Partial => f.write_str("partial"),
            Self::Failed => f.write_str("failed"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A publisher's public key.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Key {
    ///`ecdsa-p256`, `ecdsa-p384`, `ed25519` or `rsa`.
    pub algorithm: String,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///`SHA256:` and the hexadecimal digest of the key.
    pub fingerprint: String,
    pub id: KeyId,
    ///Its name, unique in the project.
    pub name: String,
    pub project_id: ProjectId,
    ///The key, as PEM.
    pub public_key: String,
    ///Time since which its signatures are no longer accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<::jiff::Timestamp>,
    ///Reason for the revocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_reason: Option<String>,
    pub tenant_id: TenantId,
    ///Version for `If-Match`.
    pub version: i64,
}
///A key to trust.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct KeyCreate {
    ///Its name, unique in the project.
    pub name: String,
    ///The public key, as PEM: the content of `cosign.pub`.
    pub public_key: String,
}
///`KeyId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct KeyId(pub String);
impl ::std::ops::Deref for KeyId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of keys.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct KeyPage {
    ///Items of this page, oldest first.
    pub items: Vec<Key>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A key revocation.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct KeyRevoke {
    ///Reason, for the audit log.
    pub reason: String,
}
///`Labels`
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(transparent)]
pub struct Labels(
    pub ::std::collections::BTreeMap<String, String>,
);
impl ::std::ops::Deref for Labels {
    type Target = ::std::collections::BTreeMap<
        String,
        String,
    >;
    fn deref(
        &self,
    ) -> &::std::collections::BTreeMap<String, String> {
        &self.0
    }
}
///Leased steps.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Leased {
    ///The steps; empty if there was no work within the wait.
    pub steps: Vec<LeasedStep>,
}
///A step with everything needed to carry it out.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct LeasedStep {
    pub snapshot: Snapshot,
    pub step: AdapterStep,
}
///A lint finding.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct LintFinding {
    ///Whether it prevents staging.
    pub error: bool,
    ///How to fix it.
    pub fix: String,
    ///The finding.
    pub message: String,
    ///The rule.
    pub rule: String,
}
///Authentication method. Password is the only one today; single sign-on becomes a second variant.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum LoginMethod {
    #[serde(rename = "password")]
    Password,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for LoginMethod {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Password => f.write_str("password"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Selection of log lines.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    ///Whether to follow the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
    ///Text that each line must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    ///Service. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    ///Earliest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<::jiff::Timestamp>,
    ///Maximum number of last lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<i32>,
}
///Schema of manifests.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ManifestSchema {
    ///A JSON Schema, draft 2020-12.
    pub schema: ::serde_json::Map<String, ::serde_json::Value>,
}
///A single running unit of a component.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Member {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_witness_id: Option<WitnessId>,
    ///Detail last reported by its adapter.
    pub adapter_detail: ::serde_json::Map<String, ::serde_json::Value>,
    ///Its address in the instance's network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    ///Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_id: Option<AllocationId>,
    ///Whether the platform created that allocation for it.
    pub allocation_made: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version_id: Option<AppVersionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_capacity_shape: Option<AllocationShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell_id: Option<CellId>,
    ///The component; its key is meaningful to the app only.
    pub component_key: String,
    ///Correlation id.
    pub correlation_id: String,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drained_witness_id: Option<WitnessId>,
    ///Failure reason, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    ///Whether its network peers dropped it, because its node is unreachable.
    pub fenced: bool,
    /**Time at which its current work is expected to end, from its adapter's last report; in the past if it was idle,
absent if unknown. Scaling down removes the members that become free first.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_at: Option<::jiff::Timestamp>,
    pub health: Health,
    ///Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_advice: Option<String>,
    ///Explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_message: Option<String>,
    ///Cause of a health other than healthy, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_reason: Option<String>,
    ///Time of the last change of its health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_since: Option<::jiff::Timestamp>,
    pub id: MemberId,
    ///Incremented each time its cell is created.
    pub incarnation: i64,
    pub instance_id: InstanceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation_id: Option<OperationId>,
    ///Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Name and host name.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_witness_id: Option<WitnessId>,
    ///Its services and their restart counts, as last reported by the node's agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceStatus>,
    pub state: MemberState,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///An action on members.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct MemberAct {
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Members, by id or name.
    pub members: Vec<String>,
    ///Deadline; default: 30 minutes from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_until: Option<::jiff::Timestamp>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///Members to add.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct MemberAdd {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<MemberAllocation>,
    ///The component.
    pub component_key: String,
    ///Number of members; default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Deadline for them to be active; default: 30 minutes from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_until: Option<::jiff::Timestamp>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///Allocation for a member: one that the project holds, or one that the platform creates.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub enum MemberAllocation {
    ///An allocation of the project, by id or name.
    #[serde(rename = "id")]
    Id(String),
    ///A new allocation with this capacity.
    #[serde(rename = "capacity")]
    Capacity(Capacity),
}
///`MemberId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct MemberId(pub String);
impl ::std::ops::Deref for MemberId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for MemberId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of members.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct MemberPage {
    ///Items of this page, oldest first.
    pub items: Vec<Member>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///An adapter's findings on a member.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct MemberReport {
    ///Free-form detail on the member; replaces the previous one.
    #[serde(default, skip_serializing_if = "::serde_json::Map::is_empty")]
    pub adapter_detail: ::serde_json::Map<String, ::serde_json::Value>,
    /**Time at which its current work is expected to end: now or earlier if it is idle, absent if unknown. Scaling down
removes the members that become free first. A report without it clears the previous value.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_at: Option<::jiff::Timestamp>,
    pub health: Health,
    ///Its incarnation; a report on any other incarnation is rejected.
    pub incarnation: i64,
    pub member_id: MemberId,
    ///Explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
///State of a member.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum MemberState {
    #[serde(rename = "requested")]
    Requested,
    #[serde(rename = "provisioning")]
    Provisioning,
    #[serde(rename = "joining")]
    Joining,
    #[serde(rename = "active")]
    Active,
    #[serde(rename = "draining")]
    Draining,
    #[serde(rename = "drained")]
    Drained,
    #[serde(rename = "removing")]
    Removing,
    #[serde(rename = "removed")]
    Removed,
    #[serde(rename = "failed")]
    Failed,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for MemberState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Requested => f.write_str("requested"),
            Self::Provisioning => f.write_str("provisioning"),
            Self::Joining => f.write_str("joining"),
            Self::Active => f.write_str("active"),
            Self::Draining => f.write_str("draining"),
            Self::Drained => f.write_str("drained"),
            Self::Removing => f.write_str("removing"),
            Self::Removed => f.write_str("removed"),
            Self::Failed => f.write_str("failed"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Members to remove or replace.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct MemberTake {
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Skip draining; needs its own permission. Supersedes a running drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    ///Members, by id or name.
    pub members: Vec<String>,
    ///Deadline; default: one hour from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_until: Option<::jiff::Timestamp>,
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///A MIG instance: an isolated part of a GPU.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct MigInstance {
    ///Id of its compute instance in the GPU instance.
    pub compute_instance: i32,
    ///Id of its GPU instance on the GPU.
    pub gpu_instance: i32,
    ///Its memory in MiB.
    pub memory_mb: i64,
    ///Its profile.
    pub profile: String,
    ///Its identity. A repartitioned GPU has instances with other UUIDs.
    pub uuid: String,
}
///A network.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Network {
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    pub id: NetworkId,
    ///Its cells.
    pub members: Vec<NetworkMember>,
    ///Its name, unique in the project.
    pub name: String,
    pub project_id: ProjectId,
    ///Its address range.
    pub subnet: String,
    pub tenant_id: TenantId,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Incremented with each change.
    pub version: i64,
}
///A physical network device.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct NetworkDevice {
    ///Kernel driver bound to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /**Permanent address. Only the last eight of InfiniBand's twenty bytes, the port's GUID, because the others change at
each start. Empty if the kernel generated the address.*/
    pub mac: String,
    ///MTU in bytes.
    pub mtu: i64,
    ///Interface name.
    pub name: String,
    ///Address of its PCI device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    ///Whether it supports RDMA.
    pub rdma: bool,
    ///Link speed in Mbit/s; absent without a link, and if the device does not report one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<i64>,
    ///Link state as reported by the kernel, for example `up`, `down` or `unknown`.
    pub state: String,
}
///`NetworkId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct NetworkId(pub String);
impl ::std::ops::Deref for NetworkId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for NetworkId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///Networks of a project.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct NetworkList {
    ///All networks.
    pub items: Vec<Network>,
}
///A cell in a network.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct NetworkMember {
    ///Its address.
    pub address: String,
    pub cell_id: CellId,
    ///Its name, which resolves inside the network.
    pub name: String,
    pub node_id: NodeId,
}
///An enrolled machine.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Node {
    ///Address at which other nodes reach it, as approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    ///Version of the agent.
    pub agent_version: String,
    ///Number of allocations that hold capacity on it.
    pub allocations: i64,
    ///Time of approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<::jiff::Timestamp>,
    ///Digest of the approved hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_digest: Option<String>,
    ///Expiry of its certificate.
    pub certificate_until: ::jiff::Timestamp,
    ///Whether it accepts no new allocations.
    pub cordoned: bool,
    ///Time of joining.
    pub created_at: ::jiff::Timestamp,
    /**Hardware removed, added or changed since the approval; only when a single node is returned, and only if there is
any.*/
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub difference: Vec<Change>,
    ///Whether it is being drained.
    pub draining: bool,
    pub free: Capacity,
    pub id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    ///Digest of the hardware that its agent last reported; pass it to `node_approve`.
    pub inventory_digest: String,
    pub labels: Labels,
    ///Name, unique among nodes that are not retired.
    pub name: String,
    ///Whether the reported hardware or address differs from the approved one.
    pub needs_approval: bool,
    ///Source address of that report: the same, unless there is a proxy or NAT in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<String>,
    ///Address last reported by its agent. A different address is not used before it is approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_address: Option<String>,
    ///Time of retirement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<::jiff::Timestamp>,
    ///Time of the last heartbeat, accurate to a few seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<::jiff::Timestamp>,
    /**Name of the file system it shares with other nodes; nodes with the same name share the same one. Apps whose
members share directories run only on such nodes.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_files: Option<String>,
    ///Its slots and their holders; only when a single node is returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Slot>,
    pub state: NodeState,
    pub total: Capacity,
    ///Time since which it has been unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<::jiff::Timestamp>,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///Hardware to approve.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct NodeApprove {
    ///The `reported_address` that you reviewed; default: the one reported now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    ///The `inventory_digest` that you reviewed.
    pub digest: String,
}
///Options for comparing a node with the database.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NodeAudit {
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    ///Remove orphans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<bool>,
}
///Options for draining a node.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NodeDrain {
    ///Seconds its tenants have to release their allocations; default: one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<i32>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /**Also replace members that stop before their successors start, and release what is left at the deadline. Without
it, such members stay and the operation is blocked at the deadline.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    ///Reason, for the audit log and the tenants' timelines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///An enrolment token for one machine.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NodeEnrol {
    ///Lifetime of the token; default: one hour, at most a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Name of the new node; default: the machine's host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /**Existing node, by id or name, to re-enrol: its certificate has expired, or its disk was replaced. It keeps its
name, labels and allocations. Excludes `name` and `labels`.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}
///A single-use enrolment for one machine.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct NodeEnrolment {
    ///SHA-256 of the platform's certificate authority for nodes, which authenticates the server to the machine.
    pub ca_sha256: String,
    ///Command to run on the machine, once the token is in a file there: command lines are world-readable.
    pub command: String,
    ///Expiry of the token.
    pub expires_at: ::jiff::Timestamp,
    pub id: EnrolmentId,
    pub labels: Labels,
    ///Name of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    ///True in a replayed response: the token was only in the first one and is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
    ///The token; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}
///`NodeId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct NodeId(pub String);
impl ::std::ops::Deref for NodeId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of nodes.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct NodePage {
    ///Items of this page, oldest first.
    pub items: Vec<Node>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A reason.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NodeReason {
    ///Reason, for the audit log and the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///Options for retiring a node.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NodeRetire {
    ///An operator's attestation that nothing of the platform is left on it; only for an unreachable node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attest: Option<String>,
    ///Return the plan without executing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}
///State of a node.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeState {
    #[serde(rename = "enrolling")]
    Enrolling,
    #[serde(rename = "ready")]
    Ready,
    #[serde(rename = "cordoned")]
    Cordoned,
    #[serde(rename = "draining")]
    Draining,
    #[serde(rename = "unreachable")]
    Unreachable,
    #[serde(rename = "retired")]
    Retired,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for NodeState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Enrolling => f.write_str("enrolling"),
            Self::Ready => f.write_str("ready"),
            Self::Cordoned => f.write_str("cordoned"),
            Self::Draining => f.write_str("draining"),
            Self::Unreachable => f.write_str("unreachable"),
            Self::Retired => f.write_str("retired"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Properties of a node that can change.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NodeUpdate {
    ///The `reported_address` that other nodes should use from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
}
///An empty request body.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}
///Memory and the CPUs nearest to it.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct NumaNode {
    ///Its CPUs, in the kernel's list format.
    pub cpus: String,
    ///Its memory in MiB.
    pub memory_mb: i64,
    ///Ordinal assigned by the kernel.
    pub ordinal: i64,
}
///An operation.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Operation {
    ///Id of the requesting actor.
    pub actor_id: String,
    ///Name of the requesting actor.
    pub actor_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /**Blocked children, at any depth, while they are all that keeps the operation from advancing; only when a single
operation is returned. Resolve them so that it continues.*/
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<BlockedChild>,
    ///Whether its cancellation was requested.
    pub cancel_requested: bool,
    ///Correlation id, shared with audit, events, tasks and logs.
    pub correlation_id: String,
    ///Time of acceptance.
    pub created_at: ::jiff::Timestamp,
    ///Deadline; an operation that has not ended by then is rolled back or blocked.
    pub deadline_at: ::jiff::Timestamp,
    ///End time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<::jiff::Timestamp>,
    pub id: OperationId,
    ///Items of a bulk operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
    ///`noun.verb`.
    pub kind: String,
    ///The same in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<OperationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    ///Failure reason, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub state: OperationState,
    ///Its steps: the plan and its progress.
    pub steps: Vec<Step>,
    ///Its id.
    pub subject_id: String,
    ///Kind of its subject, such as `allocation` or `node`.
    pub subject_kind: String,
    ///Its name.
    pub subject_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<OperationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
    ///The reason it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    ///Evidence collected by its steps; only when a single operation is returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
}
///A cancellation.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct OperationCancel {
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///`OperationId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct OperationId(pub String);
impl ::std::ops::Deref for OperationId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for OperationId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of operations.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct OperationPage {
    ///Items of this page, oldest first.
    pub items: Vec<Operation>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A decision on a blocked operation.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct OperationResolve {
    pub action: ResolveAction,
    ///Statement for the audit log. Required to `abandon`: it replaces the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
}
///State of an operation.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum OperationState {
    #[serde(rename = "accepted")]
    Accepted,
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "verifying")]
    Verifying,
    #[serde(rename = "compensating")]
    Compensating,
    #[serde(rename = "blocked")]
    Blocked,
    #[serde(rename = "succeeded")]
    Succeeded,
    #[serde(rename = "partial")]
    Partial,
    #[serde(rename = "failed")]
    Failed,
    #[serde(rename = "cancelled")]
    Cancelled,
    #[serde(rename = "superseded")]
    Superseded,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for OperationState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Accepted => f.write_str("accepted"),
            Self::Running => f.write_str("running"),
            Self::Verifying => f.write_str("verifying"),
            Self::Compensating => f.write_str("compensating"),
            Self::Blocked => f.write_str("blocked"),
            Self::Succeeded => f.write_str("succeeded"),
            Self::Partial => f.write_str("partial"),
            Self::Failed => f.write_str("failed"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Superseded => f.write_str("superseded"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A token for an adapter in a consumer's project.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct OperatorTokenMint {
    ///The entitlement, by id.
    pub entitlement: String,
    ///Lifetime; at most, and by default, 15 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<i32>,
}
///A device on the PCI bus.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct PciDevice {
    ///Domain, bus, device and function.
    pub address: String,
    ///Class, subclass and interface, two hexadecimal digits each.
    pub class: String,
    ///Device id: four hexadecimal digits.
    pub device: String,
    ///Kernel driver bound to it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    ///NUMA node it is attached to; absent if the machine does not report one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa: Option<i64>,
    ///Vendor id: four hexadecimal digits.
    pub vendor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vfs: Option<Vfs>,
}
///One state in an allocation's history.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Phase {
    ///Start time.
    pub at: ::jiff::Timestamp,
    ///Duration in milliseconds; up to now for the current state, absent for a final one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    ///Reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub state: AllocationState,
}
///The plan of an operation.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Plan {
    ///Number of members it adds; they have no ids yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adds: Vec<PlannedMembers>,
    ///Release that it starts members from. A request that names none gets the default, which a canary may change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    ///Deadline.
    pub deadline_at: ::jiff::Timestamp,
    ///Typical duration without obstacles, including image pulls.
    pub expected_seconds: i32,
    ///Whether it fits now; not a reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits_now: Option<bool>,
    ///Planned action on each resource, where they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<PlannedItem>,
    ///`noun.verb`.
    pub kind: String,
    ///Resources that it locks; operations on the same resources run one after the other.
    pub locks: Vec<String>,
    ///Images of these members that no cell runs now: a node pulls them first, unless cached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pulls: Vec<PlannedPull>,
    ///Resource or limit that is short, if it does not fit now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
    ///The steps, in order.
    pub steps: Vec<PlannedStep>,
}
///Planned action on one resource.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum PlannedAction {
    #[serde(rename = "replace")]
    Replace,
    #[serde(rename = "drain")]
    Drain,
    #[serde(rename = "wait")]
    Wait,
    #[serde(rename = "release")]
    Release,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for PlannedAction {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Replace => f.write_str("replace"),
            Self::Drain => f.write_str("drain"),
            Self::Wait => f.write_str("wait"),
            Self::Release => f.write_str("release"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A resource that an operation would act on.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct PlannedItem {
    pub action: PlannedAction,
    ///Its id.
    pub id: String,
    ///Explanation: the order, the short resource, the state that is lost.
    pub message: String,
    ///Its name.
    pub name: String,
}
///Members of a component that an operation would add.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct PlannedMembers {
    ///The component.
    pub component_key: String,
    ///Number of members.
    pub count: i64,
}
///An image that nodes would have to pull.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct PlannedPull {
    ///Its repository and digest.
    pub image: String,
    ///Its size in bytes.
    pub size: i64,
}
///A planned step.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct PlannedStep {
    ///Description.
    pub does: String,
    ///Whether it can be rolled back.
    pub has_undo: bool,
    ///Its name.
    pub name: String,
    ///Whether it collects evidence.
    pub verifies: bool,
}
///Readiness probe.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    pub by: ProbeBy,
    ///Interval between two attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<i32>,
    ///Timeout of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}
///Probe method.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub enum ProbeBy {
    ///Command in the cell that must exit with zero.
    #[serde(rename = "command")]
    Command(Vec<String>),
    ///TCP connection to this port of the cell.
    #[serde(rename = "tcp")]
    Tcp(i32),
    ///HTTP GET of this path at this port of the cell; a status of 200 to 399 succeeds.
    #[serde(rename = "http")]
    Http {
        ///The path.
        path: String,
        ///The port.
        port: i32,
    },
}
///A check to run beside a cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProbeOrder {
    ///Program path in the image, and arguments.
    pub command: Vec<String>,
    ///Complete environment.
    #[serde(
        default,
        skip_serializing_if = ":: std :: collections :: BTreeMap::is_empty"
    )]
    pub environment: ::std::collections::BTreeMap<
        String,
        String,
    >,
    ///As which group of the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<i32>,
    ///Directories of the cell mounted for reading; nothing in them is executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sees: Vec<String>,
    ///After so many seconds it is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    ///As which user of the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i32>,
}
///An error response.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Problem {
    pub code: Code,
    ///Correlation id; quote it when you ask for help.
    pub correlation_id: String,
    ///Cause, and how to continue.
    pub detail: String,
    ///Documentation of the code.
    pub docs: String,
    ///Errors by field, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    ///Whether the identical request may succeed later.
    pub retryable: bool,
    ///The HTTP status.
    pub status: i32,
    ///Title of the code.
    pub title: String,
    ///Stable URI of the code.
    #[serde(rename = "type")]
    pub type_: String,
}
///A project: ownership and quota inside a tenant.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Project {
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///Display name.
    pub display_name: String,
    pub id: ProjectId,
    pub labels: Labels,
    ///Name, unique in the tenant; `tenant.name` is unique on the platform.
    pub name: String,
    ///That tenant's slug.
    pub tenant: String,
    pub tenant_id: TenantId,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///A project to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProjectCreate {
    ///Display name; default: the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Its name, unique in the tenant.
    pub name: String,
}
///`ProjectId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct ProjectId(pub String);
impl ::std::ops::Deref for ProjectId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for ProjectId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of projects.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ProjectPage {
    ///Items of this page, oldest first.
    pub items: Vec<Project>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Properties of a project that can change.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct ProjectUpdate {
    ///Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
}
///Transport protocol.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    #[serde(rename = "tcp")]
    Tcp,
    #[serde(rename = "udp")]
    Udp,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Tcp => f.write_str("tcp"),
            Self::Udp => f.write_str("udp"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Result of publishing a manifest.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Published {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version: Option<AppVersion>,
    ///All lint findings.
    pub faults: Vec<Fault>,
}
///Purpose of a runtime secret, from a closed list.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    #[serde(rename = "artifact_pull")]
    ArtifactPull,
    #[serde(rename = "cluster_bootstrap")]
    ClusterBootstrap,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::ArtifactPull => f.write_str("artifact_pull"),
            Self::ClusterBootstrap => f.write_str("cluster_bootstrap"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Limits of a project, and its usage.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Quota {
    ///Maximum number of allocations; absent: no limit, as for the other fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_allocations: Option<i64>,
    ///Maximum number of logical CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cpus: Option<i64>,
    ///Maximum disk in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_disk_mb: Option<i64>,
    ///Maximum number of GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_gpus: Option<i64>,
    ///Maximum memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory_mb: Option<i64>,
    pub project_id: ProjectId,
    pub used: QuotaUse,
    ///Version for `If-Match`.
    pub version: i64,
}
///Remaining quota; absent where there is no limit.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
pub struct QuotaLeft {
    ///Allocations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<i64>,
    ///Logical CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i64>,
    ///Disk in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<i64>,
    ///GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<i64>,
    ///Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
}
///A limit by name.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuotaLimit {
    #[serde(rename = "allocations")]
    Allocations,
    #[serde(rename = "gpus")]
    Gpus,
    #[serde(rename = "cpus")]
    Cpus,
    #[serde(rename = "memory_mb")]
    MemoryMb,
    #[serde(rename = "disk_mb")]
    DiskMb,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for QuotaLimit {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Allocations => f.write_str("allocations"),
            Self::Gpus => f.write_str("gpus"),
            Self::Cpus => f.write_str("cpus"),
            Self::MemoryMb => f.write_str("memory_mb"),
            Self::DiskMb => f.write_str("disk_mb"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Limits to set. Omitted fields keep their value.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct QuotaSet {
    ///Maximum number of allocations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_allocations: Option<i64>,
    ///Maximum number of logical CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cpus: Option<i64>,
    ///Maximum disk in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_disk_mb: Option<i64>,
    ///Maximum number of GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_gpus: Option<i64>,
    ///Maximum memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory_mb: Option<i64>,
    ///Limits to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlimited: Vec<QuotaLimit>,
}
///Capacity a project holds now, as it was requested.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct QuotaUse {
    ///Live allocations.
    pub allocations: i64,
    ///Logical CPUs.
    pub cpus: i64,
    ///Disk in MiB.
    pub disk_mb: i64,
    ///GPUs.
    pub gpus: i64,
    ///Memory in MiB.
    pub memory_mb: i64,
}
///Result of a command or a check.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Ran {
    ///Exit status; 128 plus the signal number after a kill.
    pub exit: i32,
    ///Last 16 KiB of standard error.
    pub stderr: String,
    ///Last 16 KiB of standard output.
    pub stdout: String,
    ///Whether it was killed by the timeout.
    pub timed_out: bool,
    ///Whether the output was truncated.
    pub truncated: bool,
}
///A rejected member report. It has no effect; the other reports of the same request do.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct RefusedReport {
    ///Incarnation named in the report.
    pub incarnation: i64,
    pub member_id: MemberId,
    pub reason: ReportRefusal,
}
///Result of a removal.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Removed {
    ///Id of the removed resource.
    pub id: String,
    ///Number of resources removed with it, by noun.
    pub removed: ::std::collections::BTreeMap<String, i64>,
}
///Repair policy for failed members.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum RepairMode {
    #[serde(rename = "off")]
    Off,
    #[serde(rename = "propose")]
    Propose,
    #[serde(rename = "automatic")]
    Automatic,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for RepairMode {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Off => f.write_str("off"),
            Self::Propose => f.write_str("propose"),
            Self::Automatic => f.write_str("automatic"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A server that shares the database.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Replica {
    ///Address it listens on.
    pub address: String,
    pub id: ReplicaId,
    ///Time of its last heartbeat.
    pub seen_at: ::jiff::Timestamp,
    ///Start time.
    pub started_at: ::jiff::Timestamp,
    ///Its version.
    pub version: String,
}
///`ReplicaId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct ReplicaId(pub String);
impl ::std::ops::Deref for ReplicaId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///Reason a member report was rejected.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReportRefusal {
    #[serde(rename = "unknown_member")]
    UnknownMember,
    #[serde(rename = "stale_incarnation")]
    StaleIncarnation,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for ReportRefusal {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::UnknownMember => f.write_str("unknown_member"),
            Self::StaleIncarnation => f.write_str("stale_incarnation"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A repository. The first push creates it.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Repository {
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    pub id: RepositoryId,
    ///Number of manifests.
    pub manifests: i64,
    ///Its name in the project; may have several segments: `train/base`.
    pub name: String,
    ///Its path after the server's name, as registry clients write it: `acme.ml/train/base`.
    pub path: String,
    pub project_id: ProjectId,
    ///Total size in bytes.
    pub size: i64,
    pub tenant_id: TenantId,
    ///Version for `If-Match`.
    pub version: i64,
}
///`RepositoryId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct RepositoryId(pub String);
impl ::std::ops::Deref for RepositoryId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for RepositoryId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of repositories.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct RepositoryPage {
    ///Items of this page, oldest first.
    pub items: Vec<Repository>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///CPUs and memory that are not offered to allocations: the platform's checks on the node use them.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Reserved {
    ///Logical CPUs.
    pub cpus: i64,
    ///Memory in MiB.
    pub memory_mb: i64,
}
///Actions on a blocked operation.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResolveAction {
    #[serde(rename = "retry")]
    Retry,
    #[serde(rename = "compensate")]
    Compensate,
    #[serde(rename = "accept_partial")]
    AcceptPartial,
    #[serde(rename = "abandon")]
    Abandon,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for ResolveAction {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Retry => f.write_str("retry"),
            Self::Compensate => f.write_str("compensate"),
            Self::AcceptPartial => f.write_str("accept_partial"),
            Self::Abandon => f.write_str("abandon"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Restart policy of a service.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Restart {
    #[serde(rename = "never")]
    Never,
    #[serde(rename = "on_failure")]
    OnFailure,
    #[serde(rename = "always")]
    Always,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Restart {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Never => f.write_str("never"),
            Self::OnFailure => f.write_str("on_failure"),
            Self::Always => f.write_str("always"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Role of a user. Service accounts have allow lists instead.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    #[serde(rename = "platform_operator")]
    PlatformOperator,
    #[serde(rename = "tenant_admin")]
    TenantAdmin,
    #[serde(rename = "project_admin")]
    ProjectAdmin,
    #[serde(rename = "project_viewer")]
    ProjectViewer,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Role {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::PlatformOperator => f.write_str("platform_operator"),
            Self::TenantAdmin => f.write_str("tenant_admin"),
            Self::ProjectAdmin => f.write_str("project_admin"),
            Self::ProjectViewer => f.write_str("project_viewer"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A person's role in a scope.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct RoleBinding {
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    pub id: RoleBindingId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    ///The person's e-mail address.
    pub user_email: String,
    pub user_id: UserId,
    ///Version for `If-Match`; a binding never changes, so it is always 1.
    pub version: i64,
}
///A role to grant.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct RoleBindingCreate {
    ///Project, by name or id: for `project_admin` and `project_viewer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    pub role: Role,
    ///Tenant, by slug or id: only for `tenant_admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    ///The person, by e-mail address or id.
    pub user: String,
}
///`RoleBindingId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct RoleBindingId(pub String);
impl ::std::ops::Deref for RoleBindingId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for RoleBindingId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of role bindings.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct RoleBindingPage {
    ///Items of this page, oldest first.
    pub items: Vec<RoleBinding>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Source of a cell's file system.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub enum Root {
    ///Image, by the digest of its manifest: `sha256:…`.
    #[serde(rename = "image")]
    Image(String),
    ///Directories of the node, read-only, with an `/etc` made for the cell. The node's operator allows them.
    #[serde(rename = "host")]
    Host(Vec<String>),
}
///A secret issued by the platform for a stated purpose.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct RuntimeSecret {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell_id: Option<CellId>,
    ///Time of issue.
    pub created_at: ::jiff::Timestamp,
    ///Expiry time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    pub id: RuntimeSecretId,
    ///Incarnation of that cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<InstanceId>,
    ///Its name, if it was given one.
    pub name: String,
    pub project_id: ProjectId,
    pub purpose: Purpose,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<RepositoryId>,
    ///Time it was revoked, or its cell or instance was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<::jiff::Timestamp>,
    ///True in a replayed response: the value was only in the first one and is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
    pub tenant_id: TenantId,
    ///The value; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    ///Version for `If-Match`.
    pub version: i64,
}
///`RuntimeSecretId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct RuntimeSecretId(pub String);
impl ::std::ops::Deref for RuntimeSecretId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for RuntimeSecretId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A runtime secret to issue.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSecretIssue {
    ///For `cluster_bootstrap`: number of random bytes; default: 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    ///For `artifact_pull`: the cell, by id or name. The secret ends with the cell's current incarnation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceId>,
    ///Its name in lists.
    pub name: String,
    pub purpose: Purpose,
    ///For `artifact_pull`: the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}
///A page of runtime secrets.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct RuntimeSecretPage {
    ///Items of this page, oldest first.
    pub items: Vec<RuntimeSecret>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A revocation.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSecretRevoke {
    ///Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
///A project's secret. Its value is only delivered to cells that reference it.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Secret {
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    pub id: SecretId,
    ///Its name, unique in the project.
    pub name: String,
    pub project_id: ProjectId,
    ///Registry that it is a credential for; `artifact publish` sends it there and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    ///Number of times its value was set. A cell keeps the value from the time of its creation.
    pub revision: i64,
    ///Size of the value in bytes.
    pub size: i64,
    pub tenant_id: TenantId,
    ///Time its value was last set.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///A secret to store.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct SecretCreate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    ///Its name, unique in the project.
    pub name: String,
    ///Registry that it is a credential (`user:password`) for, as `host` or `host:port`; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    ///The value. It is write-only.
    pub value: String,
}
/**A secret of a cell: a file of mode 0400. The specification carries only its name; the node requests the content by this
name, for this incarnation of the cell.*/
#[derive(Deserialize, Serialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct SecretFile {
    ///File name.
    pub file: String,
    ///Its group in the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<i32>,
    ///Project secret by name or id, or runtime secret by id.
    pub secret: String,
    ///Its owner in the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i32>,
}
///`SecretId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct SecretId(pub String);
impl ::std::ops::Deref for SecretId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for SecretId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of secrets.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct SecretPage {
    ///Items of this page, oldest first.
    pub items: Vec<Secret>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A new value.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct SecretRotate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    ///The value. It is write-only.
    pub value: String,
}
///A process that runs for as long as its cell.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Service {
    ///Services that must be ready before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    ///Program path and arguments. No shell interprets them.
    pub command: Vec<String>,
    ///Environment variables in addition to the cell's.
    #[serde(
        default,
        skip_serializing_if = ":: std :: collections :: BTreeMap::is_empty"
    )]
    pub environment: ::std::collections::BTreeMap<
        String,
        String,
    >,
    ///As which group of the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<i32>,
    ///Its name.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Probe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    ///Seconds to stop before it is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_seconds: Option<i32>,
    ///As which user of the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i32>,
    ///Working directory. Default: the image's own, or `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
}
///An identity for automation inside one project.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ServiceAccount {
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///Description.
    pub description: String,
    ///Whether its tokens are refused.
    pub disabled: bool,
    pub id: ServiceAccountId,
    pub labels: Labels,
    ///Its name, unique in the project.
    pub name: String,
    ///Its permissions; none are implied.
    pub permissions: Vec<String>,
    pub project_id: ProjectId,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///A service account to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountCreate {
    ///Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Its name, unique in the project.
    pub name: String,
    ///Permissions, as `noun.verb`. Some can never be granted, and none of a role that you do not hold; those of service accounts alone can be.
    pub permissions: Vec<String>,
}
///`ServiceAccountId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct ServiceAccountId(pub String);
impl ::std::ops::Deref for ServiceAccountId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for ServiceAccountId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of service accounts.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ServiceAccountPage {
    ///Items of this page, oldest first.
    pub items: Vec<ServiceAccount>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Properties of a service account that can change.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct ServiceAccountUpdate {
    ///Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    ///Whether its tokens are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Permissions; replace the existing ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
}
///Action on a service.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServiceAction {
    #[serde(rename = "start")]
    Start,
    #[serde(rename = "stop")]
    Stop,
    #[serde(rename = "restart")]
    Restart,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for ServiceAction {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Start => f.write_str("start"),
            Self::Stop => f.write_str("stop"),
            Self::Restart => f.write_str("restart"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A service to start or to stop.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ServiceOrder {
    pub action: ServiceAction,
    ///Name, from the cell's services.
    pub name: String,
}
///State of a service.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServiceState {
    #[serde(rename = "idle")]
    Idle,
    #[serde(rename = "waiting")]
    Waiting,
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "restarting")]
    Restarting,
    #[serde(rename = "ended")]
    Ended,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for ServiceState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Idle => f.write_str("idle"),
            Self::Waiting => f.write_str("waiting"),
            Self::Running => f.write_str("running"),
            Self::Restarting => f.write_str("restarting"),
            Self::Ended => f.write_str("ended"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Status of a service.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct ServiceStatus {
    ///Its last exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    ///Reason it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Its name.
    pub name: String,
    ///Whether its probe reports it as ready.
    pub ready: bool,
    ///Number of restarts.
    pub restarts: i32,
    pub state: ServiceState,
}
///A session. The token itself is only in the `muster_session` cookie.
#[derive(Deserialize, Serialize, Clone)]
pub struct Session {
    ///Value for the `X-CSRF-Token` header of every request that is not a GET; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    ///Expiry time.
    pub expires_at: ::jiff::Timestamp,
    pub id: TokenId,
    ///True in a replayed response: the secret was only in the first one and is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
    pub user_id: UserId,
}
///A login.
#[derive(Deserialize, Serialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct SessionCreate {
    ///E-mail address.
    pub email: String,
    pub method: LoginMethod,
    ///The password.
    pub password: String,
    ///The person's tenant, by slug or id; absent for platform staff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}
///A signature that the registry holds for the digest.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct SignatureReference {
    ///Its artifact type.
    pub artifact_type: String,
    ///`tag` (`sha256-….sig`) or `referrer`.
    pub by: String,
    ///Digest of the manifest that carries it.
    pub digest: String,
}
///A node's smallest claimable GPU unit.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Slot {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_id: Option<AllocationId>,
    ///The device's own identifier.
    pub device: String,
    pub id: SlotId,
    ///Its NVLink island: GPUs that reach each other over NVLink have the same number.
    pub island: i64,
    ///Its kind: `gpu`.
    pub kind: String,
    ///Its memory in MiB.
    pub memory_mb: i64,
    ///The device's model.
    pub model: String,
    pub node_id: NodeId,
    ///Its NUMA node.
    pub numa: i64,
    ///Its number on the node.
    pub ordinal: i64,
    ///Reason it is quarantined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub state: SlotState,
    ///Incremented with each change.
    pub version: i64,
}
///An approval on an operator's responsibility.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct SlotApprove {
    ///Checks made and the person responsible; the platform verified nothing itself.
    pub reason: String,
}
///`SlotId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct SlotId(pub String);
impl ::std::ops::Deref for SlotId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for SlotId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A node's slots.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct SlotPage {
    ///Items of this page, oldest first.
    pub items: Vec<Slot>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A quarantine.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct SlotQuarantine {
    ///Reason.
    pub reason: String,
}
///State of a slot.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum SlotState {
    #[serde(rename = "discovered")]
    Discovered,
    #[serde(rename = "approved")]
    Approved,
    #[serde(rename = "quarantined")]
    Quarantined,
    #[serde(rename = "retired")]
    Retired,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for SlotState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Discovered => f.write_str("discovered"),
            Self::Approved => f.write_str("approved"),
            Self::Quarantined => f.write_str("quarantined"),
            Self::Retired => f.write_str("retired"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///An instance as an adapter needs it, taken at the time of the lease.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Snapshot {
    ///The app's slug.
    pub app: String,
    ///Name of that release.
    pub app_version: String,
    pub app_version_id: AppVersionId,
    ///Its configuration.
    pub config: ::serde_json::Map<String, ::serde_json::Value>,
    ///Its name.
    pub instance: String,
    pub instance_id: InstanceId,
    ///Manifest of the release.
    pub manifest: ::serde_json::Map<String, ::serde_json::Value>,
    ///Its members, except removed ones.
    pub members: Vec<SnapshotMember>,
    /**Time a member last left without witnessed evidence: it was fenced with its node, or an operator attested its
removal. Anything shared with the members before that time may have leaked. Absent if this never happened.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unwitnessed_at: Option<::jiff::Timestamp>,
}
///A member, as an adapter needs it.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct SnapshotMember {
    ///Detail last reported by the adapter.
    pub adapter_detail: ::serde_json::Map<String, ::serde_json::Value>,
    ///Its address in the instance's network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_id: Option<AllocationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version_id: Option<AppVersionId>,
    ///Its component.
    pub component_key: String,
    ///Logical CPUs.
    pub cpus: i64,
    ///Whether it was fenced because of that: its network dropped it, and its processes count as lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fenced: Option<bool>,
    ///GPUs.
    pub gpus: i64,
    pub health: Health,
    pub id: MemberId,
    ///Incremented each time its cell is created.
    pub incarnation: i64,
    ///Memory in MiB.
    pub memory_mb: i64,
    ///Name and host name.
    pub name: String,
    pub state: MemberState,
    ///Whether its node is unreachable.
    pub unreachable: bool,
}
///A person's public key.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct SshKey {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_id: Option<AllocationId>,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///Time at which the platform removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    ///`SHA256:…`, as OpenSSH prints it.
    pub fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted_by: Option<UserId>,
    pub id: SshKeyId,
    ///Name, unique among the owner's keys in the project.
    pub name: String,
    pub project_id: ProjectId,
    ///The key, as a line of `authorized_keys`.
    pub public_key: String,
    pub user_id: UserId,
    ///Version for `If-Match`.
    pub version: i64,
}
///A public key for the cells of a project, or a grant for those of one allocation.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct SshKeyCreate {
    ///Accept it only in the cells of this allocation, by id or name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<String>,
    ///Remove it at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<::jiff::Timestamp>,
    ///Its name.
    pub name: String,
    ///The text of the `.pub` file.
    pub public_key: String,
    ///Grant another person of the tenant, by e-mail address or id, a login in the cells of `allocation` until `expires_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}
///`SshKeyId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct SshKeyId(pub String);
impl ::std::ops::Deref for SshKeyId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for SshKeyId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of keys.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct SshKeyPage {
    ///Items of this page, oldest first.
    pub items: Vec<SshKey>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Start condition of a service.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    #[serde(rename = "with_cell")]
    WithCell,
    #[serde(rename = "on_request")]
    OnRequest,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Start {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::WithCell => f.write_str("with_cell"),
            Self::OnRequest => f.write_str("on_request"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///An accepted operation, or its plan.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Started {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    pub plan: Plan,
}
///Status of the platform.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Status {
    ///Version of the contract.
    pub api_version: String,
    ///The checks.
    pub checks: Vec<Check>,
    ///`sqlite` or `postgres`.
    pub database: String,
    ///Whether every check passed.
    pub healthy: bool,
    ///The server's clock.
    pub now: ::jiff::Timestamp,
    ///Servers that share the database; only visible to operators.
    pub replicas: Vec<Replica>,
    ///The newest applied migration.
    pub schema_version: i64,
    ///Version of the responding server.
    pub version: String,
}
///One step.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Step {
    ///Number of evaluations.
    pub attempts: i32,
    ///Description.
    pub does: String,
    ///End time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<::jiff::Timestamp>,
    ///Whether it can be rolled back.
    pub has_undo: bool,
    ///Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    ///Its name.
    pub name: String,
    ///Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<::jiff::Timestamp>,
    pub state: StepState,
    ///Whether it collects evidence.
    pub verifies: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness_id: Option<WitnessId>,
}
///State of a step.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum StepState {
    #[serde(rename = "pending")]
    Pending,
    #[serde(rename = "running")]
    Running,
    #[serde(rename = "done")]
    Done,
    #[serde(rename = "failed")]
    Failed,
    #[serde(rename = "undoing")]
    Undoing,
    #[serde(rename = "undone")]
    Undone,
    #[serde(rename = "skipped")]
    Skipped,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for StepState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Pending => f.write_str("pending"),
            Self::Running => f.write_str("running"),
            Self::Done => f.write_str("done"),
            Self::Failed => f.write_str("failed"),
            Self::Undoing => f.write_str("undoing"),
            Self::Undone => f.write_str("undone"),
            Self::Skipped => f.write_str("skipped"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///How nodes are filled: one after the other, or evenly.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Strategy {
    #[serde(rename = "pack")]
    Pack,
    #[serde(rename = "spread")]
    Spread,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Pack => f.write_str("pack"),
            Self::Spread => f.write_str("spread"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A granted stream.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Stream {
    pub cell_id: CellId,
    ///Time until which its creator can join it.
    pub expires_at: ::jiff::Timestamp,
    pub id: StreamId,
    ///Path to join it at.
    pub path: String,
}
///Purpose of a stream. The variants are defined in the node contract, which executes them.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub enum StreamCreate {
    ///Run a command in the cell, with or without a terminal.
    #[serde(rename = "command")]
    Command(Command),
    ///Read a file of the cell or, if the path ends in a slash, a directory as a tar archive.
    #[serde(rename = "read")]
    Read(FileAt),
    ///Write a file of the cell.
    #[serde(rename = "write")]
    Write(FileAt),
}
///`StreamId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct StreamId(pub String);
impl ::std::ops::Deref for StreamId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for StreamId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A tag. It is mutable; digests are not.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Tag {
    ///Digest that it points to.
    pub digest: String,
    ///Its name.
    pub name: String,
    ///Time it was last set.
    pub updated_at: ::jiff::Timestamp,
}
///A page of tags, sorted by name.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct TagPage {
    ///Items of this page, oldest first.
    pub items: Vec<Tag>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
/**Effect of a task on the cell, as declared by the adapter. It decides which tasks a reconciliation of the whole
instance may run beside steps of its members: a reconciliation works from an older snapshot, and its repair could undo
a drain that began since.*/
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskEffect {
    #[serde(rename = "reads")]
    Reads,
    #[serde(rename = "changes")]
    Changes,
    #[serde(rename = "concurrent")]
    Concurrent,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for TaskEffect {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Reads => f.write_str("reads"),
            Self::Changes => f.write_str("changes"),
            Self::Concurrent => f.write_str("concurrent"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///`TaskId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct TaskId(pub String);
impl ::std::ops::Deref for TaskId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A tenant: the outermost isolation boundary.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Tenant {
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///Display name.
    pub display_name: String,
    pub id: TenantId,
    pub labels: Labels,
    ///Name, unique on the platform.
    pub slug: String,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///A tenant to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct TenantCreate {
    ///Display name; default: the slug.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Name, unique on the platform.
    pub slug: String,
}
///`TenantId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct TenantId(pub String);
impl ::std::ops::Deref for TenantId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for TenantId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of tenants.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct TenantPage {
    ///Items of this page, oldest first.
    pub items: Vec<Tenant>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Properties of a tenant that can change.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct TenantUpdate {
    ///Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
}
///History of an allocation.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Timeline {
    ///The states, oldest first.
    pub phases: Vec<Phase>,
    ///The evidence, oldest first.
    pub witnesses: Vec<Witness>,
}
///A token. Its secret is shown once, when it is issued.
#[derive(Deserialize, Serialize, Clone)]
pub struct Token {
    ///Time of issue.
    pub created_at: ::jiff::Timestamp,
    ///Expiry time.
    pub expires_at: ::jiff::Timestamp,
    ///Its first characters.
    pub hint: String,
    pub id: TokenId,
    pub kind: TokenKind,
    ///Time of last use, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<::jiff::Timestamp>,
    ///Its name.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<TokenId>,
    ///Time of revocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<::jiff::Timestamp>,
    ///The token itself; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    ///True in a replayed response: the secret was only in the first one and is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_id: Option<ServiceAccountId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    ///Version for `If-Match`.
    pub version: i64,
}
///`TokenId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct TokenId(pub String);
impl ::std::ops::Deref for TokenId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for TokenId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A token to issue.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct TokenIssue {
    /**Lifetime; default: 90 days. A token issued by a token expires no later than its issuer; a browser session may
issue longer-lived ones.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<i32>,
    ///Its name.
    pub name: String,
    ///Service account, by id; default: yourself. A token for another person cannot be issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
}
///Kind of token.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenKind {
    #[serde(rename = "personal")]
    Personal,
    #[serde(rename = "service_account")]
    ServiceAccount,
    #[serde(rename = "session")]
    Session,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for TokenKind {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Personal => f.write_str("personal"),
            Self::ServiceAccount => f.write_str("service_account"),
            Self::Session => f.write_str("session"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A page of tokens.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct TokenPage {
    ///Items of this page, oldest first.
    pub items: Vec<Token>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A token rotation.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct TokenRotate {
    ///Lifetime of the new token; default: 90 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<i32>,
    ///Seconds the old token keeps working beside the new one; default: one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_seconds: Option<i32>,
}
///Composition of an instance.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Topology {
    ///Its components.
    pub components: Vec<Component>,
    ///The adapter's name for it; opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}
///Trust in an artifact's signatures.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trust {
    #[serde(rename = "trusted")]
    Trusted,
    #[serde(rename = "unsigned")]
    Unsigned,
    #[serde(rename = "untrusted")]
    Untrusted,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for Trust {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Trusted => f.write_str("trusted"),
            Self::Unsigned => f.write_str("unsigned"),
            Self::Untrusted => f.write_str("untrusted"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///A project's requirements for artifacts before they may be used.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct TrustPolicy {
    ///Hours an artifact stays deprecated before it can be retired.
    pub grace_hours: i64,
    ///Incremented when the keys or the policy change; a verification result is valid for one revision.
    pub policy: i64,
    pub project_id: ProjectId,
    ///Whether staging requires a smoke test: a cell of the exact digest that was verified as running.
    pub smoke_to_stage: bool,
    pub unsigned_up_to: ArtifactState,
    ///Version for `If-Match`.
    pub version: i64,
}
///Policy changes. Omitted fields keep their value.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct TrustPolicySet {
    ///Hours an artifact stays deprecated before it can be retired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_hours: Option<i64>,
    ///Whether staging requires a smoke test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smoke_to_stage: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned_up_to: Option<ArtifactState>,
}
///A person.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct User {
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    ///Whether login and tokens are refused.
    pub disabled: bool,
    ///Display name.
    pub display_name: String,
    ///E-mail address, unique in the tenant.
    pub email: String,
    ///Whether a password is set.
    pub has_password: bool,
    pub id: UserId,
    pub labels: Labels,
    ///Login name inside cells that include the project's people; derived from the e-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    ///User and group id there: the same in every cell, and never reused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i64>,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Version for `If-Match`.
    pub version: i64,
}
///A person to add.
#[derive(Deserialize, Serialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct UserCreate {
    ///Display name; default: the e-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    ///E-mail address, unique in the tenant.
    pub email: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Initial password. Without one, the person cannot log in until it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    ///The person's tenant, by slug or id; absent for platform staff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}
///`UserId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct UserId(pub String);
impl ::std::ops::Deref for UserId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for UserId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of people.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct UserPage {
    ///Items of this page, oldest first.
    pub items: Vec<User>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///A new password.
#[derive(Deserialize, Serialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct UserSetPassword {
    ///The current password; required when people change their own and have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_password: Option<String>,
    ///The new password.
    pub password: String,
}
///Properties of a person that can change.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct UserUpdate {
    ///Disable the person: tokens and sessions are refused within seconds, and work again once this is lifted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    ///Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
}
///Result of signature verification.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Verdict {
    ///Verification time.
    pub checked_at: ::jiff::Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<KeyId>,
    ///The same in a sentence.
    pub message: String,
    ///Revision of the project's keys and trust policy that it was verified under.
    pub policy: i64,
    ///Reason no signature is valid: `other_key`, `revoked_key`, `wrong_digest`, `malformed` or `bad_signature`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    ///Digest of the valid signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    pub trust: Trust,
}
///Virtual functions of a device.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Vfs {
    ///Enabled number.
    pub active: i64,
    ///Supported number.
    pub total: i64,
}
///Delivery of events to a URL, signed and in order.
#[derive(Deserialize, Serialize, Clone)]
pub struct Webhook {
    ///Number of delivery attempts for the next event.
    pub attempts: i64,
    ///Creation time.
    pub created_at: ::jiff::Timestamp,
    /**Last event delivered or skipped, by its sequence number in the platform's stream; only for the platform's own
webhooks.*/
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
    ///Event types; empty means all.
    pub event_types: Vec<String>,
    ///Time since which all deliveries have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<::jiff::Timestamp>,
    pub id: WebhookId,
    pub labels: Labels,
    ///Last response or error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_result: Option<String>,
    ///Name, unique in its scope.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    ///The signing key; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    ///True in a replayed response: the secret was only in the first one and is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
    pub state: WebhookState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    ///Time of the last change.
    pub updated_at: ::jiff::Timestamp,
    ///Target URL.
    pub url: String,
    ///Version for `If-Match`.
    pub version: i64,
}
///A webhook to create.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct WebhookCreate {
    ///Event types; a trailing `*` is a wildcard; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_types: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Name, unique in its scope.
    pub name: String,
    ///Events of this project, by name or id. With neither, the platform's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    ///Events of this tenant, by slug or id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    ///Target URL: https, or http to addresses that the operator allowed.
    pub url: String,
}
///A delivery attempt.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct WebhookDelivery {
    ///Time.
    pub at: ::jiff::Timestamp,
    ///Number of the attempt for this event, from 1.
    pub attempt: i64,
    ///Whether the receiver responded with success.
    pub delivered: bool,
    pub event_id: EventId,
    pub id: DeliveryId,
    ///Response or error.
    pub result: String,
    ///The event's sequence number in the platform's stream.
    pub sequence: i64,
}
///A page of delivery attempts.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct WebhookDeliveryPage {
    ///Items of this page, oldest first.
    pub items: Vec<WebhookDelivery>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///`WebhookId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct WebhookId(pub String);
impl ::std::ops::Deref for WebhookId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for WebhookId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///A page of webhooks.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct WebhookPage {
    ///Items of this page, oldest first.
    pub items: Vec<Webhook>,
    ///Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
///Delivery state of a webhook.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum WebhookState {
    #[serde(rename = "enabled")]
    Enabled,
    #[serde(rename = "disabled")]
    Disabled,
    #[serde(rename = "failing")]
    Failing,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for WebhookState {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Enabled => f.write_str("enabled"),
            Self::Disabled => f.write_str("disabled"),
            Self::Failing => f.write_str("failing"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
///Properties of a webhook that can change.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct WebhookUpdate {
    ///Disable or re-enable it; it then resumes after the last delivered event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    ///Event types; replace the existing ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_types: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    ///Target URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}
///The actor of a request.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct WhoAmI {
    ///Expiry of that credential.
    pub expires_at: ::jiff::Timestamp,
    ///The actor's id.
    pub id: String,
    ///`user` or `service_account`.
    pub kind: String,
    ///E-mail address or name.
    pub name: String,
    ///The allow list of a service account.
    pub permissions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    ///The roles of a person.
    pub roles: Vec<HeldRole>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    pub token_id: TokenId,
}
///Evidence for a transition.
#[derive(Deserialize, Serialize, Clone, Debug)]
pub struct Witness {
    ///Operator that attested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<String>,
    ///Time.
    pub at: ::jiff::Timestamp,
    ///Checks and their results.
    pub evidence: ::serde_json::Map<String, ::serde_json::Value>,
    pub id: WitnessId,
    ///Incarnation of the resource that it applies to.
    pub incarnation: i64,
    pub kind: WitnessKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    ///Transition that it is evidence for: `active`, `gone`, `wiped` or `retired`.
    pub transition: String,
}
///`WitnessId`
#[derive(Deserialize, Serialize, Clone, Debug, Eq, PartialEq)]
#[serde(transparent)]
pub struct WitnessId(pub String);
impl ::std::ops::Deref for WitnessId {
    type Target = String;
    fn deref(&self) -> &String {
        &self.0
    }
}
impl ::std::fmt::Display for WitnessId {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        self.0.fmt(f)
    }
}
///Kind of evidence.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, Eq, PartialEq)]
pub enum WitnessKind {
    #[serde(rename = "witnessed")]
    Witnessed,
    #[serde(rename = "attested")]
    Attested,
    #[serde(rename = "lost")]
    Lost,
    /// A word that this client is too old to know.
    #[serde(rename = "unrecognised", other)]
    Unrecognised,
}
impl ::std::fmt::Display for WitnessKind {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::Witnessed => f.write_str("witnessed"),
            Self::Attested => f.write_str("attested"),
            Self::Lost => f.write_str("lost"),
            Self::Unrecognised => f.write_str("unrecognised"),
        }
    }
}
impl ::std::fmt::Debug for External {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct("External").finish_non_exhaustive()
    }
}
impl ::std::fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct("SecretFile").finish_non_exhaustive()
    }
}
impl ::std::fmt::Debug for Session {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
impl ::std::fmt::Debug for SessionCreate {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct("SessionCreate").finish_non_exhaustive()
    }
}
impl ::std::fmt::Debug for Token {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}
impl ::std::fmt::Debug for UserCreate {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct("UserCreate").finish_non_exhaustive()
    }
}
impl ::std::fmt::Debug for UserSetPassword {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct("UserSetPassword").finish_non_exhaustive()
    }
}
impl ::std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}
