//! Orders that meet: an upgrade that people order around, a removal of what has not come yet, a resume of what goes.

use jiff::SignedDuration;
use muster_ids::{InstanceId, MemberId, OperationId};
use muster_model::adapter::AdapterVerb;
use muster_model::cell::CellState;
use muster_model::member::{MemberFailure, MemberState};
use muster_model::operation::{OperationState, Unblock};
use muster_model::task::TaskKind;
use muster_operations::{Definition, instance, member};
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::member_stories::{part_of, succeeds, why};
use crate::node::Wrong;
use crate::rig::Rig;
use crate::stories::decide;

stories! {}

/// Has an instance run the other release, by a way or its way back.
async fn roll(rig: &Rig, definition: &'static Definition, i: InstanceId, takes_over: bool) -> OperationId {
    let [one, two] = rig.catalog.versions;
    let (from, to) = if definition.kind == "instance.rollback" { (two, one) } else { (one, two) };
    rig.instance_op(definition, i, json!({"app_version_id": to, "from": from}), takes_over).await
}

async fn drained(rig: &mut Rig, unit: MemberId) {
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    succeeds(rig, drain).await;
}
