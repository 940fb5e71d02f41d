//! Request capacity on a node.

use muster_api::Code;
use muster_api::allocation::AllocationCreate;
use muster_api::operation::Started;
use muster_authz::Permission;
use muster_engine::allocation::CREATE;
use muster_engine::{OperationRequest, accept};
use muster_ids::{AllocationId, OperationId, TypedId as _};
use muster_model::allocation::{Allocation, AllocationShape};
use muster_model::event::{EventType, Timeline};
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::path;
use crate::capacity::{PlannedAllocations, ensure_possible, foresee, with_defaults};
use crate::commit::target;
use crate::operation::started;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result, operation};

/// Prepares `allocation_create`.
pub async fn create(cx: &Cx, project: &str, body: AllocationCreate) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AllocationCreate, scope, "project")?;
    for (field, time) in [("/wait_until", body.wait_until), ("/expires_at", body.expires_at)] {
        if time.is_some_and(|time| time <= cx.now) {
            return Err(Error::field(field, "it is in the past"));
        }
    }
    let operation_id: OperationId = cx.platform.env.id();
    let capacity = with_defaults(body.gpus, body.cpus, body.memory_mb, body.disk_mb);
    ensure_possible(cx, &capacity, |resource, why| Error::field(format!("/{}", resource.field()), why))
        .await?;
    let tenant_id = scope.tenant().ok_or_else(|| Error::not_found("project"))?;
    let id: AllocationId = cx.platform.env.id();
    let allocation = Allocation {
        labels: checked_labels(body.labels)?,
        shape: body.shape.unwrap_or(AllocationShape::GpuSlice),
        strategy: body.strategy.unwrap_or_default(),
        operation_id: Some(operation_id),
        wait_until: body.wait_until,
        expires_at: body.expires_at,
        protected: body.protected.unwrap_or(false),
        ..Allocation::requested(id, tenant_id, project_id, &body.name, capacity, cx.now)
    };
    let timing = cx.platform.engine.timing();
    let deadline_at = body.wait_until.unwrap_or(cx.now) + timing.create;
    let exclusive_locks = [allocation.id.to_string()];
    let mut plan = operation::plan(&CREATE, &exclusive_locks, deadline_at);
    plan.capacity = Some(allocation.capacity);
    let subject = target("allocation", allocation.id, &allocation.name);
    if body.dry_run.unwrap_or(false) {
        let exclusive = allocation.shape == AllocationShape::Baremetal;
        let planned = PlannedAllocations { component: "", count: 1, each: allocation.capacity, exclusive };
        foresee(cx, project_id, &[planned], &mut plan).await?;
        // An allocation has no id before it is created.
        plan.locks = vec![allocation.name.clone()];
        let answer = Answer::new(&Started { operation: None, plan });
        let commit = PreparedCommand::new(scope, subject, move |_| Box::pin(async move { Ok(answer) }));
        return Ok(commit.detail(json!({"dry_run": true})));
    }
    let opened = accept(
        &CREATE,
        OperationRequest {
            id: operation_id,
            scope,
            subject_kind: "allocation",
            subject_id: allocation.id.uuid(),
            subject_name: allocation.name.clone(),
            exclusive_locks: vec![allocation.id.uuid()],
            shared_locks: Vec::new(),
            timeline: Timeline::default(),
            asked_by: operation::asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input: OperationInput::default(),
            deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    let told = json!({"name": allocation.name, "capacity": allocation.capacity, "shape": allocation.shape,
                      "operation_id": operation_id});
    let subject_path = path(&allocation);
    let commit = PreparedCommand::new(scope, subject, move |tx| {
        Box::pin(async move {
            if !tx.quota_take(project_id, 1, allocation.capacity).await? {
                let excess = tx.quota_excess(project_id, 1, &allocation.capacity).await?;
                return Err(Error::new(Code::QuotaExceeded, excess));
            }
            tx.allocation_request(&allocation).await?;
            tx.operation_open(&opened).await?;
            Ok(started(&opened, plan))
        })
    });
    Ok(commit.wakes_engine().event(cx, EventType::AllocationRequested, subject_path, told))
}
