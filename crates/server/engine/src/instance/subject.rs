//! What every step on an instance needs to know of it.

use muster_db::{Result, StoreError};
use muster_ids::{InstanceId, MemberId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::instance::Instance;
use muster_model::member::Member;
use muster_model::operation::Item;
use serde_json::{Value, json};

use crate::StepCx;

/// The instance that the operation works on.
pub(super) async fn subject(cx: &StepCx<'_>) -> Result<Instance> {
    let id = InstanceId::from_uuid(cx.operation.subject_id);
    cx.store.instance_lookup(id).await?.ok_or(StoreError::Gone("instance".to_owned()))
}

/// Its path.
pub(super) fn path(instance: &Instance) -> String {
    format!("/v1/projects/{}/app-instances/{}", instance.project_id, instance.id)
}

/// What each new member of it is given.
pub(super) fn adding(cx: &StepCx<'_>) -> Value {
    let asked = &cx.operation.input;
    json!({"app_version_id": asked["app_version_id"], "capacity": asked["capacity"], "shape": asked["shape"]})
}

/// The members whose ids stand in the operation under this name.
pub(super) async fn named(cx: &StepCx<'_>, name: &str) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for text in cx.operation.input[name].as_array().into_iter().flatten() {
        let id: Option<MemberId> = text.as_str().and_then(|text| text.parse().ok());
        let id = id.ok_or(StoreError::Corrupt("a member of an operation"))?;
        members.push(cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))?);
    }
    Ok(members)
}

/// What the operation says of a member.
pub(super) fn item_of<'o>(cx: &StepCx<'o>, member: &Member) -> Option<&'o Item> {
    let id = member.id.to_string();
    cx.operation.items.iter().find(|item| item.id == id)
}

/// The place of a member's component among the others.
pub(super) fn order(manifest: &Manifest, member: &Member) -> u32 {
    manifest.component(&member.component_key).map_or(0, |component| component.update_order)
}
