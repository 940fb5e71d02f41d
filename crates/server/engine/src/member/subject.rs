//! What every step on a member needs to know of it.

use std::sync::Arc;

use muster_db::{Result, StoreError};
use muster_ids::{AppVersionId, MemberId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::instance::Instance;
use muster_model::member::{Member, MemberFailure};

use crate::{StepCx, Verdict};

/// The member that the operation works on.
pub(super) async fn subject(cx: &StepCx<'_>) -> Result<Member> {
    let id = MemberId::from_uuid(cx.operation.subject_id);
    cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))
}

/// Its instance.
pub(super) async fn instance(cx: &StepCx<'_>, member: &Member) -> Result<Instance> {
    let found = cx.store.instance_lookup(member.instance_id).await?;
    found.ok_or(StoreError::Gone("instance".to_owned()))
}

/// The release that a member gets: an upgrade says which; everybody else means what the instance should run when its turn has
/// come, which need not be what it should run when it was asked for.
pub(super) fn wanted_version(cx: &StepCx<'_>, instance: &Instance) -> AppVersionId {
    let named =
        cx.operation.input["app_version_id"].as_str().filter(|_| cx.operation.kind == "member.upgrade");
    named.and_then(|text| text.parse().ok()).unwrap_or(instance.app_version_id)
}

/// The release that a member runs, or else should.
pub(super) fn running_version(member: &Member, instance: &Instance) -> AppVersionId {
    member.app_version_id.unwrap_or(instance.app_version_id)
}

/// The manifest of a release.
pub(crate) async fn manifest_of(cx: &StepCx<'_>, version: AppVersionId) -> Result<Arc<Manifest>> {
    cx.releases.manifest(cx.store, version).await
}

/// Its path.
pub(crate) fn path(member: &Member) -> String {
    format!("/v1/projects/{}/app-instances/{}/members/{}", member.project_id, member.instance_id, member.id)
}

pub(super) fn refused(reason: MemberFailure, message: impl Into<String>) -> Verdict {
    Verdict::Refused { reason: reason.as_str(), message: message.into() }
}
