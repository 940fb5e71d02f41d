//! Adapter steps: units of work that adapters lease and execute. The engine queues them; these are the adapters' endpoints.
//! Every request is fenced by the generation of its lease, and the audit records only the start and end of a lease.

mod complete;
mod fail;
mod get;
mod heartbeat;
mod lease;
mod list;
mod progress;
mod reconcile;
mod snapshot;
mod waiting;

pub use complete::complete;
pub use fail::fail;
pub use get::get;
pub use heartbeat::heartbeat;
pub use lease::lease;
pub use list::list;
pub use progress::progress;

pub(crate) use waiting::Leases;

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::adapter_step as api;
use muster_authz::{Permission, PrincipalKind};
use muster_db::StoreError;
use muster_ids::{AdapterStepId, ServiceAccountId};
use muster_model::adapter::{AdapterStep, AdapterStepState};
use muster_model::event::Timeline;
use muster_model::origin::Origin;
use serde_json::{Map, Value};

use crate::{Cx, Error, Result};

/// Default lease length in seconds without a heartbeat.
const LEASE: i64 = 30;

fn lease_length(seconds: Option<i64>) -> SignedDuration {
    SignedDuration::from_secs(seconds.unwrap_or(LEASE))
}

pub(crate) fn path(step: &AdapterStep) -> String {
    format!("/v1/projects/{}/adapter-steps/{}", step.project_id, step.id)
}

/// Returns the origin of an adapter's report.
fn origin(cx: &Cx, step: &AdapterStep) -> Origin {
    let timeline = Timeline { instance_id: Some(step.instance_id), member_id: step.member_id };
    Origin { timeline, ..cx.origin(step.scope()) }
}

/// Returns the calling service account. Only service accounts hold adapter permissions; this is a second check.
fn account(cx: &Cx) -> Result<ServiceAccountId> {
    match &cx.principal()?.kind {
        PrincipalKind::ServiceAccount { id, .. } => Ok(*id),
        PrincipalKind::User { .. } => {
            let why = "adapters work under a service account; people watch with `muster adapter-step list`";
            Err(Error::new(Code::PermissionDenied, why))
        }
    }
}

/// Returns a step of the calling account. A step of another account is reported as not found: only an instance's operator
/// account may access its steps.
pub(crate) async fn own(
    cx: &Cx,
    project: &str,
    reference: &str,
    permission: Permission,
) -> Result<AdapterStep> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(permission, scope, "adapter step")?;
    let account = account(cx)?;
    let absent = || Error::not_found("adapter step");
    let id = reference.parse::<AdapterStepId>().map_err(|_| absent())?;
    let found = cx.platform.store.adapter_step_lookup(id).await?;
    let own = |step: &AdapterStep| step.project_id == project && step.operator_account_id == account;
    found.filter(own).ok_or_else(absent)
}

/// Returns the error for a request under an expired or superseded lease.
pub(crate) fn fenced() -> Error {
    let why = "the lease is over: it lapsed, another adapter leased the step, or the step was withdrawn; drop it and lease again";
    Error::new(Code::Fenced, why)
}

/// Maps a store error to the error an adapter receives.
fn refuse_adapter(error: StoreError) -> Error {
    match error {
        StoreError::Fenced => fenced(),
        error => Error::from(error),
    }
}

/// Reports whether this is a retry after a lost response. Such a retry is not stale.
fn said_before(step: &AdapterStep, generation: i64, state: AdapterStepState) -> bool {
    step.state == state && step.generation == generation
}

/// Returns a JSON value that the schema guarantees to be an object.
pub(crate) fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Maximum size of `adapter_detail`, in bytes of JSON.
const DETAIL: usize = 16 * 1024;

/// Validates that `adapter_detail` is short enough to be part of every member list.
fn short(field: &str, detail: Option<&Map<String, Value>>) -> Result<()> {
    let length = detail.map_or(0, |detail| Value::Object(detail.clone()).to_string().len());
    if length <= DETAIL {
        return Ok(());
    }
    let why = format!("it has {length} bytes; at most {DETAIL} are allowed: shorten it");
    Err(Error::field(field, why))
}

fn view(step: &AdapterStep) -> api::AdapterStep {
    api::AdapterStep {
        id: step.id,
        project_id: step.project_id,
        app_id: step.app_id,
        instance_id: step.instance_id,
        member_id: step.member_id,
        incarnation: step.incarnation,
        operation_id: step.operation_id,
        verb: step.verb,
        input: object(&step.input),
        state: step.state,
        generation: step.generation,
        holder: Some(step.holder.clone()).filter(|holder| !holder.is_empty()),
        leased_until: step.leased_until,
        attempts: step.attempts,
        message: step.message.clone(),
        percent: step.percent,
        reason: step.reason.clone(),
        correlation_id: step.correlation_id.clone(),
        created_at: step.created_at,
        expires_at: step.expires_at,
        refused_reports: Vec::new(),
    }
}
