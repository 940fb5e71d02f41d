//! What is left of an operation on many that did not come to its end: members whose turn never came. What its command had counted
//! for them when it was accepted is counted back.

use futures::future::BoxFuture;
use muster_db::{Result, StoreError, Tx};
use muster_ids::{MemberId, TypedId as _};
use muster_model::member::{Member, MemberState};
use muster_model::operation::{Item, ItemState, Operation, OperationState};
use serde_json::Value;

use crate::member::{never_came, stays};
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
        let mut left: Vec<(Member, Meant, bool)> = Vec::new();
        if state != OperationState::Succeeded {
            for (id, meant) in meant {
                let member =
                    cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))?;
                let beside = meant == Meant::Succeed && !stays(&member) && beside(cx, id).await?;
                if (beside || never(meant, &member)) && idle(cx, id, meant).await? {
                    left.push((member, meant, beside));
                }
            }
        }
        if left.is_empty() {
            return Ok(Verdict::done().into());
        }
        let (now, message) = (cx.now, cx.operation.message.clone());
        Ok(Act::write(move |tx, told| {
            Box::pin(async move {
                for (member, meant, beside) in left {
                    let more = match meant {
                        Meant::Add if counted_out(tx, &member).await? => 0,
                        Meant::Add => -1,
                        Meant::Remove => 1,
                        Meant::Succeed => -i64::from(beside),
                    };
                    if more != 0 {
                        tx.component_want(member.instance_id, &member.component_key, more, 0).await?;
                    }
                    if meant != Meant::Remove && member.state == MemberState::Requested {
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

/// Whether a member never had what it was meant for.
fn never(meant: Meant, member: &Member) -> bool {
    match meant {
        Meant::Add | Meant::Succeed => member.state == MemberState::Requested,
        Meant::Remove => {
            !matches!(member.state, MemberState::Removing | MemberState::Removed) && !member.never_worked()
        }
    }
}

/// Whether a new one is to take the place of one that never worked, and so was wanted beside the others.
async fn beside(cx: &StepCx<'_>, id: MemberId) -> Result<bool> {
    let Some(old) = replaced_by(cx, id) else { return Ok(false) };
    Ok(cx.store.member_lookup(old).await?.is_some_and(|old| old.never_worked()))
}

/// Whose place a new one is to take.
fn replaced_by(cx: &StepCx<'_>, id: MemberId) -> Option<MemberId> {
    let named = cx.operation.input["successors"].as_object()?;
    let (old, _) = named.iter().find(|(_, new)| new.as_str() == Some(&id.to_string()))?;
    old.parse().ok()
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
    let of = replaced_by(cx, id);
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
    use muster_ids::World;
    use muster_model::instance::Health;

    use super::*;

    #[test]
    fn only_what_had_no_effect_is_counted_back() {
        use MemberState::{Failed, Removed, Removing, Requested};
        let world = World::for_tests(1);
        for state in MemberState::ALL.iter().copied() {
            for worked in [false, true] {
                let active_witness_id = worked.then(|| world.id());
                let member = Member { state, active_witness_id, ..member(&world) };
                let waits = matches!(state, Requested);
                assert_eq!(never(Meant::Add, &member), waits, "{state}");
                assert_eq!(never(Meant::Succeed, &member), waits, "{state}");
                let gone = matches!(state, Removing | Removed) || (state == Failed && !worked);
                assert_eq!(never(Meant::Remove, &member), !gone, "{state}");
            }
        }
    }

    fn member(world: &World) -> Member {
        Member {
            id: world.id(),
            tenant_id: world.id(),
            project_id: world.id(),
            instance_id: world.id(),
            component_key: "unit".to_owned(),
            name: "i-unit-1".to_owned(),
            state: MemberState::Requested,
            health: Health::Unknown,
            health_message: None,
            health_incarnation: 0,
            health_reason: None,
            health_since: None,
            free_at: None,
            allocation_id: None,
            allocation_made: false,
            bound_capacity_shape: None,
            cell_id: None,
            incarnation: 0,
            app_version_id: None,
            adapter_detail: Value::Null,
            failure_reason: None,
            message: None,
            fenced: false,
            active_witness_id: None,
            drained_witness_id: None,
            removed_witness_id: None,
            operation_id: None,
            correlation_id: String::new(),
            created_at: world.now(),
            updated_at: world.now(),
            version: 1,
        }
    }
}
