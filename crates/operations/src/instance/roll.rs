//! Have member after member run the release that the instance should run: in the order of the components, at their pace.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use muster_ids::{OperationId, TypedId as _};
use muster_model::member::MemberState;
use muster_model::operation::ItemState;
use muster_store::Result;
use serde_json::json;
use uuid::Uuid;

use super::shrink::{among_all, ended};
use super::subject::{item_of, order, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather};
use crate::member::{UPGRADE, at_rest, manifest_of};
use crate::{Act, Verdict};

pub(super) const ROLL: Step = Step {
    name: "roll",
    does: "has member after member run that release",
    verifies: false,
    run,
    undo: Undo::None("the way back is a rollback, which says so itself"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let instance = subject(cx).await?;
        let manifest = manifest_of(cx, instance.app_version_id).await?;
        let version = instance.app_version_id;
        let changed = cx.operation.input["config"].is_object();
        let left = left_under_way(cx).await?;
        let mut members = cx.store.member_living(instance.id).await?;
        let mut resting = BTreeSet::new();
        for member in &members {
            if at_rest(cx.store, member).await? {
                resting.insert(member.id);
            }
        }
        members.retain(|member| {
            let runs = member.app_version_id == Some(version) && member.state == MemberState::Active;
            // Who was taken out of work stays out, with what it runs: it is for whoever did that to have it replaced.
            let concerned =
                !matches!(member.state, MemberState::Removing | MemberState::Failed | MemberState::Requested)
                    && !resting.contains(&member.id);
            match item_of(cx, member) {
                Some(item) if item.state == ItemState::Succeeded => false,
                // One whose part was opened is asked for until its item says how that ended.
                Some(item) if item.operation_id.is_some() => true,
                _ => concerned && (changed || !runs || left.contains(&member.id.uuid())),
            }
        });
        let Some(wave) = members.iter().map(|member| order(&manifest, member)).min() else {
            return Ok(Verdict::said("all of them run it").into());
        };
        members.retain(|member| order(&manifest, member) == wave);
        let paces = members
            .iter()
            .filter_map(|member| manifest.component(&member.component_key))
            .map(|component| component.drain_pace.at_once);
        let pace = usize::try_from(paces.min().unwrap_or(1)).unwrap_or(1).max(1);
        let input = json!({"app_version_id": version});
        let planned: Vec<Planned> = members
            .into_iter()
            .map(|member| Planned { member, definition: &UPGRADE, input: input.clone() })
            .collect();
        // What an upgrade that was taken over from has left under way on a member is taken over too.
        Ok(match gather(cx, planned, pace, TakesOver::Upgrades).await? {
            Gathered::Pending(act) => among_all(cx, act),
            Gathered::Ended(items, succeeded) if items.len() == succeeded => {
                let until = cx.now;
                ended(cx, items, Verdict::Wait { reason: "the next components follow".to_owned(), until })
            }
            Gathered::Ended(items, _) => {
                let message = failures(&items);
                ended(cx, items, Verdict::Refused { reason: "some_failed", message })
            }
        })
    })
}

/// The members that an upgrade which was taken over from still works on, or was about to: those too are brought to this release,
/// or they would be brought to the other one later.
async fn left_under_way(cx: &StepCx<'_>) -> Result<BTreeSet<Uuid>> {
    let before: Option<OperationId> =
        cx.operation.input["inherited"]["operation"].as_str().and_then(|text| text.parse().ok());
    let Some(before) = before else { return Ok(BTreeSet::new()) };
    let children = cx.store.operation_children(before).await?;
    let open = children.iter().filter(|child| child.kind == UPGRADE.kind && !child.state.is_final());
    Ok(open.map(|child| child.subject_id).collect())
}
