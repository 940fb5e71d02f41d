//! Change an instance's labels, protection, expiry or repair mode.

use muster_api::Code;
use muster_api::instance::InstanceUpdate;
use muster_authz::Permission;
use muster_model::event::EventType;
use muster_model::instance::{Instance, InstanceState};
use serde_json::{Value, json};

use super::{manifest_of, path, shown};
use crate::commit::{changed, target};
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `instance_update`.
pub async fn update(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: InstanceUpdate,
) -> Result<PreparedCommand> {
    let before = cx.instance(project, reference).await?;
    cx.authorize(Permission::InstanceUpdate, before.scope(), "instance")?;
    cx.expect_version(before.version)?;
    if before.state == InstanceState::Stopped {
        return Err(Error::new(Code::InvalidState, "it is stopped and can no longer change"));
    }
    let (after, told) = updated(cx, &before, body)?;
    let store = &cx.platform.store;
    let (components, counts) =
        tokio::try_join!(store.component_list(before.id), store.member_count(before.id))?;
    let (release, manifest) = manifest_of(cx, &before, before.app_version_id).await?;
    let (now, subject) = (cx.now, path(&before));
    let commit =
        PreparedCommand::new(before.scope(), target("instance", before.id, &before.name), move |tx| {
            Box::pin(async move {
                tx.instance_move(&before, &after, now).await?;
                let after = Instance { updated_at: now, version: before.version + 1, ..after };
                Ok(Answer::new(&shown(&after, &release.name, &manifest, &components, &counts)))
            })
        });
    Ok(commit.event(cx, EventType::InstanceUpdated, subject, told))
}

/// Returns the updated instance, and the event data.
pub(super) fn updated(cx: &Cx, before: &Instance, body: InstanceUpdate) -> Result<(Instance, Value)> {
    let shown = json!({"labels": before.labels, "protected": before.protected, "expires_at": before.expires_at,
        "repair": before.repair});
    let told = changed(
        &shown,
        &[
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
            ("protected", body.protected.map(|protected| json!(protected))),
            ("expires_at", body.expires_at.map(|time| json!(time))),
            ("repair", body.repair.map(|mode| json!(mode))),
        ],
    );
    // Both lead to a decommission, so they need the permission for it.
    if body.expires_at.is_some() || body.protected == Some(false) {
        cx.authorize(Permission::InstanceDecommission, before.scope(), "instance")?;
    }
    let mut after = before.clone();
    if body.labels.is_some() {
        after.labels = checked_labels(body.labels)?;
    }
    after.protected = body.protected.unwrap_or(after.protected);
    after.repair = body.repair.unwrap_or(after.repair);
    if let Some(time) = body.expires_at {
        // A past time clears the expiry: an instance must not be decommissioned unexpectedly.
        after.expires_at = Some(time).filter(|time| *time > cx.now);
    }
    Ok((after, told))
}
