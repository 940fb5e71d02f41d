//! Lookups shared by the steps on an instance.

use muster_db::{Result, StoreError};
use muster_ids::{InstanceId, MemberId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::instance::Instance;
use muster_model::member::Member;
use muster_model::operation::Item;

use crate::StepCx;

/// Returns the instance that the operation works on.
pub(super) async fn subject(cx: &StepCx<'_>) -> Result<Instance> {
    let id = InstanceId::from_uuid(cx.operation.subject_id);
    cx.store.instance_lookup(id).await?.ok_or(StoreError::Gone("instance".to_owned()))
}

/// Returns the API path of an instance.
pub(super) fn path(instance: &Instance) -> String {
    format!("/v1/projects/{}/app-instances/{}", instance.project_id, instance.id)
}

/// Returns these members.
pub(super) async fn members(cx: &StepCx<'_>, ids: &[MemberId]) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for id in ids {
        members.push(cx.store.member_lookup(*id).await?.ok_or(StoreError::Gone("member".to_owned()))?);
    }
    Ok(members)
}

/// Returns the operation's item of a member.
pub(super) fn item_of<'o>(cx: &StepCx<'o>, member: &Member) -> Option<&'o Item> {
    let id = member.id.to_string();
    cx.operation.items.iter().find(|item| item.id == id)
}

/// Returns the update order of a member's component.
pub(super) fn order(manifest: &Manifest, member: &Member) -> u32 {
    manifest.component(&member.component_key).map_or(0, |component| component.update_order)
}
