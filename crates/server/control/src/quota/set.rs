//! Set a project's quota.
use muster_api::quota::{QuotaLimit, QuotaSet};
use muster_authz::Permission;
use muster_db::Quota;
use muster_model::event::EventType;
use serde_json::{Value, json};

use super::{version, view};
use crate::commit::{changed, target};
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `quota_set`.
pub async fn set(cx: &Cx, project: &str, body: QuotaSet) -> Result<PreparedCommand> {
    let project = cx.project(project).await?;
    cx.authorize(Permission::QuotaSet, project.scope(), "project")?;
    let mut quota = cx.platform.store.quota_lookup(project.id).await?;
    cx.expect_version(version(&quota))?;
    let before = view(project.id, &quota);
    apply(&mut quota, &body)?;
    let mut told = changed(
        &before,
        &[
            ("max_allocations", body.max_allocations.map(|most| json!(most))),
            ("max_gpus", body.max_gpus.map(|most| json!(most))),
            ("max_cpus", body.max_cpus.map(|most| json!(most))),
            ("max_memory_mb", body.max_memory_mb.map(|most| json!(most))),
            ("max_disk_mb", body.max_disk_mb.map(|most| json!(most))),
            ("unlimited", body.unlimited.as_ref().map(|limits| json!(limits))),
        ],
    );
    if body.unlimited.is_some() {
        // A removed limit is only listed by name, so the previous values include all limits.
        told["before"] = limits(&before);
    }
    let subject = format!("/v1/projects/{}/quota", project.id);
    let id = project.id;
    let commit = PreparedCommand::new(project.scope(), target("quota", id, &project.name), move |tx| {
        Box::pin(async move {
            tx.quota_set(id, &quota).await?;
            quota.version = version(&quota) + 1;
            Ok(Answer::new(&view(id, &quota)))
        })
    });
    Ok(commit.event(cx, EventType::QuotaSet, subject, told))
}

/// Returns the limits alone.
fn limits(quota: &impl serde::Serialize) -> Value {
    let mut shown = json!(quota);
    if let Some(members) = shown.as_object_mut() {
        members.retain(|name, _| name.starts_with("max_"));
    }
    shown
}

/// Applies the given limits. Our JSON has no null: an absent limit is unchanged, and a removed one is named in a list.
fn apply(quota: &mut Quota, body: &QuotaSet) -> Result<()> {
    let given = [
        (QuotaLimit::Allocations, body.max_allocations, &mut quota.max_allocations),
        (QuotaLimit::Gpus, body.max_gpus, &mut quota.max_gpus),
        (QuotaLimit::Cpus, body.max_cpus, &mut quota.max_cpus),
        (QuotaLimit::MemoryMb, body.max_memory_mb, &mut quota.max_memory_mb),
        (QuotaLimit::DiskMb, body.max_disk_mb, &mut quota.max_disk_mb),
    ];
    let unlimited = body.unlimited.as_deref().unwrap_or_default();
    for (limit, most, place) in given {
        match (most, unlimited.iter().position(|other| *other == limit)) {
            (Some(_), Some(at)) => {
                return Err(Error::field(
                    format!("/unlimited/{at}"),
                    "the same limit is set above: set it or clear it, not both",
                ));
            }
            (Some(most), None) => *place = Some(most),
            (None, Some(_)) => *place = None,
            (None, None) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_taken_away_or_left() {
        let mut quota = Quota { max_gpus: Some(8), max_cpus: Some(64), ..Quota::default() };
        let body = QuotaSet {
            max_allocations: Some(0),
            unlimited: Some(vec![QuotaLimit::Gpus, QuotaLimit::DiskMb]),
            ..QuotaSet::default()
        };
        apply(&mut quota, &body).unwrap();
        let expected = Quota { max_allocations: Some(0), max_cpus: Some(64), ..Quota::default() };
        assert_eq!(quota, expected);
        let both = QuotaSet {
            max_cpus: Some(1),
            unlimited: Some(vec![QuotaLimit::Gpus, QuotaLimit::Cpus]),
            ..QuotaSet::default()
        };
        assert_eq!(apply(&mut quota, &both).unwrap_err().fields[0].pointer, "/unlimited/1");
    }
}
