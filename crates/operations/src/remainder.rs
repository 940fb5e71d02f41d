//! What is left of an operation on many that did not come to its end: members whose turn never came. What its command had counted
//! for them when it was accepted is counted back.

use futures::future::BoxFuture;
use muster_ids::{MemberId, TypedId as _};
use muster_model::member::{Member, MemberState};
use muster_model::operation::{Item, ItemState, Operation, OperationState};
use muster_store::{Result, StoreError, Tx};
use serde_json::Value;

use crate::member::never_came;
use crate::{Act, StepCx, Verdict};

/// What an operation on many meant to do with a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meant {
    /// It was to come.
    Add,
    /// It was to go.
    Remove,
    /// It was to take another's place.
    Succeed,
}

/// A settling for operations on many: `meant` says what each member was for.
pub(crate) fn settle_members<'a>(
    cx: &'a StepCx<'a>,
    state: OperationState,
    meant: Vec<(MemberId, Meant)>,
) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let mut left: Vec<(Member, Meant)> = Vec::new();
        if state != OperationState::Succeeded {
            for (id, meant) in meant {
                let member =
                    cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))?;
                // One that worked before it failed is wanted, and so was counted out.
                let failed = member.state == MemberState::Failed && member.active_witness_id.is_some();
                let stays = never(meant, member.state) || (meant == Meant::Remove && failed);
                if stays && idle(cx, id, meant).await? {
                    left.push((member, meant));
                }
            }
        }
        if left.is_empty() {
            return Ok(Verdict::done().into());
        }
        let (now, message) = (cx.now, cx.operation.message.clone());
        Ok(Act::write(move |tx, told| {
            Box::pin(async move {
                for (member, meant) in left {
                    let more = match meant {
                        Meant::Add if counted_out(tx, &member).await? => 0,
                        Meant::Add => -1,
                        Meant::Remove => 1,
                        Meant::Succeed => 0,
                    };
                    if more != 0 {
                        tx.component_want(member.instance_id, &member.component_key, more, 0).await?;
                    }
                    if meant != Meant::Remove {
                        never_came(tx, told, member, state, message.clone(), now).await?;
                    }
                }
                Ok(Verdict::done())
            })
        }))
    })
}

/// Whether a member that does not come is not counted any more, because somebody who removes it has counted it out. Whoever
/// removes it and was accepted before this transaction is seen here; whoever comes after sees that it has failed.
pub(crate) async fn counted_out(tx: &mut Tx, member: &Member) -> Result<bool> {
    // Also the lock under which members are counted.
    tx.component_want(member.instance_id, &member.component_key, 0, 0).await?;
    let operations = tx.operation_touching_now(member.instance_id.uuid()).await?;
    Ok(operations.iter().any(|operation| removes(operation, member)))
}

fn removes(operation: &Operation, member: &Member) -> bool {
    let id = member.id.to_string();
    let open = |item: &&Item| !matches!(item.state, ItemState::Succeeded | ItemState::Failed);
    match operation.kind.as_str() {
        "member.remove" => operation.subject_id == member.id.uuid(),
        "members.remove" => operation.items.iter().filter(open).any(|item| item.id == id),
        "instance.scale" => operation.input["remove"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|named| named.as_str() == Some(&id)),
        _ => false,
    }
}

/// Whether a member in this state never had what it was meant for.
fn never(meant: Meant, state: MemberState) -> bool {
    match meant {
        Meant::Add | Meant::Succeed => state == MemberState::Requested,
        Meant::Remove => !matches!(state, MemberState::Removing | MemberState::Removed | MemberState::Failed),
    }
}

/// Whether nothing is under way that may still do it: a part that was opened for it goes on by itself.
async fn idle(cx: &StepCx<'_>, id: MemberId, meant: Meant) -> Result<bool> {
    if cx.store.operation_open_on(id.uuid()).await?.iter().any(|other| other.id != cx.operation.id) {
        return Ok(false);
    }
    if meant != Meant::Succeed {
        return Ok(true);
    }
    let children = cx.store.operation_children(cx.operation.id).await?;
    let named = cx.operation.input["successors"].as_object();
    let of = named.and_then(|all| all.iter().find(|(_, new)| new.as_str() == Some(&id.to_string())));
    let of: Option<MemberId> = of.and_then(|(old, _)| old.parse().ok());
    Ok(!children
        .iter()
        .any(|child| !child.state.is_final() && Some(child.subject_id) == of.map(|of| of.uuid())))
}

/// The members that stand in a list of ids.
pub(crate) fn listed(ids: &Value, meant: Meant) -> Vec<(MemberId, Meant)> {
    let ids = ids.as_array().into_iter().flatten();
    ids.filter_map(|id| id.as_str()?.parse().ok()).map(|id| (id, meant)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_had_no_effect_is_counted_back() {
        use MemberState::{
            Active, Drained, Draining, Failed, Joining, Provisioning, Removed, Removing, Requested,
        };
        for state in MemberState::ALL.iter().copied() {
            let waits = matches!(state, Requested);
            assert_eq!(never(Meant::Add, state), waits, "{state}");
            assert_eq!(never(Meant::Succeed, state), waits, "{state}");
            let stays = matches!(state, Requested | Provisioning | Joining | Active | Draining | Drained);
            assert_eq!(never(Meant::Remove, state), stays, "{state}");
            assert_eq!(stays, !matches!(state, Removing | Removed | Failed));
        }
    }
}
