//! Lookups shared by the steps on a member.

use std::sync::Arc;

use muster_db::{Result, StoreError};
use muster_ids::{AppVersionId, MemberId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::instance::Instance;
use muster_model::member::{Member, MemberFailure};
use muster_model::node::Capacity;
use muster_model::operation::OperationKind;

use crate::{StepCx, StepOutcome};

/// Returns the member that the operation works on.
pub(super) async fn subject(cx: &StepCx<'_>) -> Result<Member> {
    let id = MemberId::from_uuid(cx.operation.subject_id);
    cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))
}

/// Returns its instance.
pub(super) async fn instance(cx: &StepCx<'_>, member: &Member) -> Result<Instance> {
    let found = cx.store.instance_lookup(member.instance_id).await?;
    found.ok_or(StoreError::Gone("instance".to_owned()))
}

/// Returns the target release of a member: an upgrade names it; every other operation uses the instance's desired release at
/// run time, which may differ from that at the time of the request.
pub(super) fn wanted_version(cx: &StepCx<'_>, instance: &Instance) -> AppVersionId {
    let upgrades = cx.operation.kind == OperationKind::MemberUpgrade;
    cx.operation.input.app_version_id.filter(|_| upgrades).unwrap_or(instance.app_version_id)
}

/// Returns a declared capacity as amounts of a node's resources.
pub fn amounts(declared: muster_manifest::Capacity) -> Capacity {
    let muster_manifest::Capacity { gpus, cpus, memory_mb, disk_mb } = declared;
    Capacity { gpus, cpus, memory_mb, disk_mb }
}

/// Returns the release that a member runs, or else should run.
pub(super) fn running_version(member: &Member, instance: &Instance) -> AppVersionId {
    member.app_version_id.unwrap_or(instance.app_version_id)
}

/// Returns the manifest of a release.
pub(crate) async fn manifest_of(cx: &StepCx<'_>, version: AppVersionId) -> Result<Arc<Manifest>> {
    cx.releases.manifest(cx.store, version).await
}

/// Returns the API path of a member.
pub(crate) fn path(member: &Member) -> String {
    format!("/v1/projects/{}/app-instances/{}/members/{}", member.project_id, member.instance_id, member.id)
}

pub(super) fn refused(reason: MemberFailure, message: impl Into<String>) -> StepOutcome {
    StepOutcome::Refused { reason: reason.as_str(), message: message.into() }
}
