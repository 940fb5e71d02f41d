//! Make sure that nothing keeps the allocation, before anything of it is taken: its protection, where the clock asks for the
//! release, and what the instances of the members in it need. Members that are to be removed are counted out here.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use muster_db::{Result, Tx};
use muster_ids::{MemberId, TypedId as _};
use muster_model::allocation::{Allocation, FailureReason};
use serde_json::{Value, json};

use super::occupants::{Circumstances, Obstacle, Occupants, counted_members, obstacle, occupants};
use super::subject::{attested, on_word, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::{Act, Verdict};

pub(super) const ENSURE_RELEASABLE: Step = Step {
    name: "ensure_releasable",
    does: "makes sure that neither protection nor a member keeps it",
    verifies: false,
    run,
    undo: Undo::None("it takes nothing yet"),
};

/// Whether the members in it are to be removed first.
pub(super) fn is_cascade(input: &Value) -> bool {
    input["cascade"] == json!(true)
}

pub(super) fn is_forced(input: &Value) -> bool {
    input["force"] == json!(true)
}

/// Whether the clock asks for it.
pub(super) fn is_expiry(input: &Value) -> bool {
    input["expired"] == json!(true)
}

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let allocation = subject(cx).await?;
        if let Some(word) = attested(cx, &allocation).await? {
            return Ok(on_word(&word).into());
        }
        let (input, now, look) = (cx.operation.input.clone(), cx.now, cx.timing.look);
        if is_expiry(&input) && allocation.protected {
            let name = &allocation.name;
            let why = format!(
                "it has expired and is protected: `muster allocation update {name} --protected=false` lets it go, \
                 `--never-expires` keeps it"
            );
            return Ok(blocked(cx, allocation, FailureReason::Protected, why));
        }
        let found = match is_cascade(&input) {
            true => occupants(cx.store, cx.releases, allocation.id).await?,
            false => Vec::new(),
        };
        if found.is_empty() {
            return Ok(passed(cx, allocation));
        }
        let before = counted_before(&input);
        let operation_id = cx.operation.id;
        Ok(Act::write(move |tx, _| {
            Box::pin(async move {
                let force = is_forced(&input);
                // All of them are looked at before one is counted out: a refusal is committed with whatever was written by then.
                let mut counts: Vec<(&Occupants, String, i64)> = Vec::new();
                for of in &found {
                    let (kept_by, fewer) = examine(tx, of, &before, force).await?;
                    match kept_by {
                        None => counts.extend(fewer.into_iter().map(|(key, fewer)| (of, key, fewer))),
                        Some(Obstacle::Busy(reason)) => {
                            return Ok(Verdict::Wait { reason, until: now + look });
                        }
                        Some(Obstacle::Needed(why)) => {
                            let reason = FailureReason::MembersNeeded;
                            let after = kept(&allocation, reason, &why, operation_id);
                            tx.allocation_move(&allocation, &after, now).await?;
                            return Ok(Verdict::Refused { reason: reason.as_str(), message: why });
                        }
                    }
                }
                for (of, key, fewer) in counts.into_iter().filter(|(_, _, fewer)| *fewer > 0) {
                    tx.component_want(of.instance_id, &key, -fewer, 0).await?;
                }
                let after = Allocation { reason: None, message: None, ..allocation.clone() };
                tx.allocation_move(&allocation, &after, now).await?;
                let members: Vec<MemberId> =
                    found.iter().flat_map(|of| &of.members).map(|member| member.id).collect();
                Ok(Verdict::with(json!({"members": members})))
            })
        }))
    })
}

/// Why the members of an instance cannot go, if they cannot, and how many fewer each component wants if they do. Locks the
/// components first: an operation that counts members at the same moment waits, and then sees what this left.
async fn examine(
    tx: &mut Tx,
    of: &Occupants,
    before: &BTreeSet<MemberId>,
    force: bool,
) -> Result<(Option<Obstacle>, Vec<(String, i64)>)> {
    let keys: BTreeSet<&str> = of.members.iter().map(|member| member.component_key.as_str()).collect();
    let mut components = Vec::new();
    for key in &keys {
        components.push(tx.component_want(of.instance_id, key, 0, 0).await?);
    }
    let living = tx.member_living_now(of.instance_id).await?;
    let operations = tx.operation_touching_now(of.instance_id.uuid()).await?;
    // The removal of a member has counted it out already, also as a child of its replacement.
    let mut counted = before.clone();
    for member in &of.members {
        let open = tx.operation_open_on_now(member.id.uuid()).await?;
        if force && open.iter().any(|operation| operation.kind == "member.remove") {
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

/// The members that a release which this one supersedes has counted out.
fn counted_before(input: &Value) -> BTreeSet<MemberId> {
    let effects = input["inherited"]["effects"].as_array().into_iter().flatten();
    effects
        .filter(|effect| effect["step"] == json!(ENSURE_RELEASABLE.name))
        .flat_map(|effect| effect["output"]["members"].as_array().into_iter().flatten())
        .filter_map(|id| id.as_str()?.parse().ok())
        .collect()
}

/// An allocation that cannot be released now, and says why.
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

fn blocked(cx: &StepCx<'_>, allocation: Allocation, reason: FailureReason, why: String) -> Act {
    let (now, operation_id) = (cx.now, cx.operation.id);
    Act::write(move |tx, _| {
        Box::pin(async move {
            let after = kept(&allocation, reason, &why, operation_id);
            tx.allocation_move(&allocation, &after, now).await?;
            Ok(Verdict::Refused { reason: reason.as_str(), message: why })
        })
    })
}

/// Nothing keeps it; a reason that it showed is over.
fn passed(cx: &StepCx<'_>, allocation: Allocation) -> Act {
    let shown = matches!(allocation.reason, Some(FailureReason::Protected | FailureReason::MembersNeeded));
    if !shown {
        return Verdict::said("nothing keeps it").into();
    }
    let now = cx.now;
    Act::write(move |tx, _| {
        Box::pin(async move {
            let after = Allocation { reason: None, message: None, ..allocation.clone() };
            tx.allocation_move(&allocation, &after, now).await?;
            Ok(Verdict::said("nothing keeps it any more"))
        })
    })
}
