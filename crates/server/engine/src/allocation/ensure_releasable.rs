//! Ensures that the allocation can be released before anything is taken: neither protection, for an expiry, nor the needs of
//! its members' instances prevent it. Members to be removed are uncounted here.

use std::collections::BTreeSet;

use muster_db::{Result, Tx};
use muster_ids::{MemberId, TypedId as _};
use muster_model::allocation::{Allocation, FailureReason};
use muster_model::operation::OperationKind;
use muster_model::operation_input::OperationInput;
use serde::{Deserialize, Serialize};

use super::occupants::{Circumstances, Obstacle, Occupants, counted_members, obstacle, occupants};
use super::subject::{attested, on_word, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::step_outcome::parsed;
use crate::{StepAction, StepOutcome};

pub(super) const ENSURE_RELEASABLE: Step = Step {
    name: "ensure_releasable",
    does: "ensure that neither protection nor a member prevents it",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("nothing was released yet"),
};

/// Its output: the members that this release removes and has subtracted from the desired counts.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Uncounted {
    pub(super) members: Vec<MemberId>,
}

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    if let Some(word) = attested(cx, &allocation).await? {
        return Ok(on_word(&word).into());
    }
    let (input, now, look) = (cx.operation.input.clone(), cx.now, cx.timing.look);
    if input.expired && allocation.protected {
        let name = &allocation.name;
        let why = format!(
            "it has expired and is protected: `muster allocation update {name} --protected=false` \
             releases it, `--never-expires` keeps it"
        );
        return Ok(blocked(cx, allocation, FailureReason::Protected, why));
    }
    let found = match input.cascade {
        true => occupants(cx.store, cx.releases, allocation.id).await?,
        false => Vec::new(),
    };
    if found.is_empty() {
        return Ok(passed(cx, allocation));
    }
    let before = counted_before(&input)?;
    let operation_id = cx.operation.id;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            let force = input.force;
            // Check all of them before uncounting any: a refusal commits with all earlier writes.
            let mut counts: Vec<(&Occupants, String, i64)> = Vec::new();
            for of in &found {
                let (kept_by, fewer) = examine(tx, of, &before, force).await?;
                match kept_by {
                    None => counts.extend(fewer.into_iter().map(|(key, fewer)| (of, key, fewer))),
                    Some(Obstacle::Busy(reason)) => {
                        return Ok(StepOutcome::Wait { reason, until: now + look });
                    }
                    Some(Obstacle::Needed(why)) => {
                        let reason = FailureReason::MembersNeeded;
                        let after = kept(&allocation, reason, &why, operation_id);
                        tx.allocation_move(&allocation, &after, now).await?;
                        return Ok(StepOutcome::Refused { reason: reason.as_str(), message: why });
                    }
                }
            }
            for (of, key, fewer) in counts.into_iter().filter(|(_, _, fewer)| *fewer > 0) {
                tx.component_change_desired(of.instance_id, &key, -fewer, 0).await?;
            }
            let after = Allocation { reason: None, message: None, ..allocation.clone() };
            tx.allocation_move(&allocation, &after, now).await?;
            let members: Vec<MemberId> =
                found.iter().flat_map(|of| &of.members).map(|member| member.id).collect();
            Ok(StepOutcome::with(Uncounted { members }))
        })
    }))
}

/// Returns why the members of an instance cannot be removed, if so, and by how much the desired count of each component
/// falls otherwise. Locks the components first: a concurrent operation that counts members waits, and then reads the result
/// of this one.
async fn examine(
    tx: &mut Tx,
    of: &Occupants,
    before: &BTreeSet<MemberId>,
    force: bool,
) -> Result<(Option<Obstacle>, Vec<(String, i64)>)> {
    let keys: BTreeSet<&str> = of.members.iter().map(|member| member.component_key.as_str()).collect();
    let mut components = Vec::new();
    for key in &keys {
        components.push(tx.component_change_desired(of.instance_id, key, 0, 0).await?);
    }
    let living = tx.member_living_now(of.instance_id).await?;
    let operations = tx.operations_locking_now(of.instance_id.uuid()).await?;
    // An open removal of a member has already uncounted it, also as a child of its replacement.
    let mut counted = before.clone();
    for member in &of.members {
        let open = tx.operation_open_on_now(member.id.uuid()).await?;
        if force && open.iter().any(|operation| operation.kind == OperationKind::MemberRemove) {
            counted.insert(member.id);
        }
    }
    let known = Circumstances { components: &components, living: &living, operations: &operations };
    let kept_by = obstacle(of, known, &counted, force);
    let fewer = keys
        .into_iter()
        .map(|key| {
            let fewer = counted_members(of, key, &counted).count();
            (key.to_owned(), i64::try_from(fewer).unwrap_or(i64::MAX))
        })
        .collect();
    Ok((kept_by, fewer))
}

/// Returns the members that a superseded release has already uncounted.
fn counted_before(input: &OperationInput) -> Result<BTreeSet<MemberId>> {
    let effects = input.inherited.iter().flat_map(|inherited| &inherited.effects);
    let mut counted = BTreeSet::new();
    for effect in effects.filter(|effect| effect.step == ENSURE_RELEASABLE.name) {
        counted.extend(parsed::<Uncounted>(&effect.output)?.unwrap_or_default().members);
    }
    Ok(counted)
}

/// Returns the allocation with the reason why it cannot be released now.
fn kept(
    allocation: &Allocation,
    reason: FailureReason,
    why: &str,
    operation_id: muster_ids::OperationId,
) -> Allocation {
    Allocation {
        reason: Some(reason),
        message: Some(why.to_owned()),
        operation_id: Some(operation_id),
        ..allocation.clone()
    }
}

fn blocked(cx: &StepCx<'_>, allocation: Allocation, reason: FailureReason, why: String) -> StepAction {
    let (now, operation_id) = (cx.now, cx.operation.id);
    StepAction::commit(move |tx, _| {
        Box::pin(async move {
            let after = kept(&allocation, reason, &why, operation_id);
            tx.allocation_move(&allocation, &after, now).await?;
            Ok(StepOutcome::Refused { reason: reason.as_str(), message: why })
        })
    })
}

/// Nothing prevents the release; clears a reason shown earlier.
fn passed(cx: &StepCx<'_>, allocation: Allocation) -> StepAction {
    let shown = matches!(allocation.reason, Some(FailureReason::Protected | FailureReason::MembersNeeded));
    if !shown {
        return StepOutcome::with_message("nothing prevents it").into();
    }
    let now = cx.now;
    StepAction::commit(move |tx, _| {
        Box::pin(async move {
            let after = Allocation { reason: None, message: None, ..allocation.clone() };
            tx.allocation_move(&allocation, &after, now).await?;
            Ok(StepOutcome::with_message("nothing prevents it any more"))
        })
    })
}
