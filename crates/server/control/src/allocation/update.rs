//! Change an allocation's labels, expiry or protection.
use muster_api::allocation::AllocationUpdate;
use muster_authz::Permission;
use muster_engine::allocation::{drop_kept, is_for_expiry, is_kept};
use muster_ids::TypedId as _;
use muster_model::allocation::Allocation;
use muster_model::event::EventType;
use muster_model::origin::Origin;
use serde_json::json;

use super::{path, view};
use crate::commit::{changed, target};
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result, operation};

/// Prepares `allocation_update`.
pub async fn update(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: AllocationUpdate,
) -> Result<PreparedCommand> {
    let mut allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationUpdate, allocation.scope(), "allocation")?;
    cx.ensure_operated(&allocation).await?;
    // Both lead to a release, so they need the permission for it.
    if body.expires_at.is_some() || body.protected == Some(false) {
        cx.authorize(Permission::AllocationRelease, allocation.scope(), "allocation")?;
    }
    cx.expect_version(allocation.version)?;
    if body.expires_at.is_some_and(|time| time <= cx.now) {
        return Err(Error::field("/expires_at", "it is in the past"));
    }
    if body.expires_at.is_some() && body.never_expires == Some(true) {
        return Err(Error::field("/never_expires", "set a time or clear it, not both"));
    }
    let told = changed(
        &view(&allocation),
        &[
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
            ("expires_at", body.expires_at.map(|time| json!(time))),
            ("never_expires", body.never_expires.map(|never| json!(never))),
            ("protected", body.protected.map(|protected| json!(protected))),
        ],
    );
    if body.labels.is_some() {
        allocation.labels = checked_labels(body.labels)?;
    }
    if body.never_expires == Some(true) {
        allocation.expires_at = None;
    }
    allocation.expires_at = body.expires_at.or(allocation.expires_at);
    allocation.protected = body.protected.unwrap_or(allocation.protected);
    allocation.updated_at = cx.now;
    allocation.version += 1;
    let moved = body.expires_at.is_some() || body.never_expires == Some(true);
    let open = cx.platform.store.operation_open_on(allocation.id.uuid()).await?;
    let kept = open.into_iter().find(|operation| is_kept(operation) && is_for_expiry(operation));
    let (teller, freed) = (cx.clone(), body.protected == Some(false));
    let subject = path(&allocation);
    let named = target("allocation", allocation.id, &allocation.name);
    let commit = PreparedCommand::new(allocation.scope(), named, move |tx| {
        Box::pin(async move {
            tx.allocation_update(&allocation).await?;
            if let Some(kept) = kept {
                if moved {
                    if drop_kept(tx, kept.id, "its expiry was changed", teller.now).await? {
                        let after = Allocation { reason: None, message: None, ..allocation.clone() };
                        tx.allocation_move(&allocation, &after, teller.now).await?;
                        allocation = Allocation { version: allocation.version + 1, ..after };
                        let data = json!({"kind": kept.kind, "state": "cancelled", "operation_id": kept.id});
                        let told = (EventType::OperationEnded, operation::path(&kept), data);
                        teller
                            .outbox_append(
                                tx,
                                &Origin { timeline: kept.timeline, ..teller.origin(allocation.scope()) },
                                None,
                                vec![told],
                            )
                            .await?;
                    }
                } else if freed {
                    operation::resume_blocked(&teller, tx, vec![kept]).await?;
                }
            }
            Ok(Answer::new(&view(&allocation)))
        })
    });
    Ok(commit.wakes_engine().event(cx, EventType::AllocationUpdated, subject, told))
}
