//! Cleanup of a bulk operation that did not succeed: members that it never started. The counts reserved when the command was
//! accepted are reverted.

use muster_db::{Result, StoreError, Tx};
use muster_ids::{MemberId, TypedId as _};
use muster_model::member::{Member, MemberState};
use muster_model::operation::{Item, ItemState, Operation, OperationKind, OperationState};

use crate::member::{fail_unstarted, is_survivor};
use crate::{StepAction, StepCx, StepOutcome};

/// Intent of a bulk operation for one member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// The member was to be added.
    Add,
    /// The member was to be removed.
    Remove,
    /// The member was to replace another.
    Succeed,
}

/// Settles a bulk operation; `meant` holds the intent for each member.
pub(crate) async fn settle_members(
    cx: &StepCx<'_>,
    state: OperationState,
    meant: Vec<(MemberId, Intent)>,
) -> Result<StepAction> {
    let mut left: Vec<(Member, Intent, bool)> = Vec::new();
    if state != OperationState::Succeeded {
        let children = cx.store.operation_children(cx.operation.id).await?;
        // The operation that superseded a removal has already adjusted the count.
        let superseded = |id: MemberId| {
            children
                .iter()
                .any(|child| child.subject_id == id.uuid() && child.state == OperationState::Superseded)
        };
        for (id, meant) in meant {
            if meant == Intent::Remove && superseded(id) {
                continue;
            }
            let member = cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))?;
            let beside = meant == Intent::Succeed && !is_survivor(&member) && beside(cx, id).await?;
            if (beside || never(meant, &member)) && idle(cx, id, meant).await? {
                left.push((member, meant, beside));
            }
        }
    }
    if left.is_empty() {
        return Ok(StepOutcome::done().into());
    }
    let (now, message) = (cx.now, cx.operation.message.clone());
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            for (member, meant, beside) in left {
                let more = match meant {
                    Intent::Add if already_uncounted(tx, &member).await? => 0,
                    Intent::Add => -1,
                    Intent::Remove => 1,
                    Intent::Succeed => -i64::from(beside),
                };
                if more != 0 {
                    tx.component_change_desired(member.instance_id, &member.component_key, more, 0).await?;
                }
                if meant != Intent::Remove && member.state == MemberState::Requested {
                    fail_unstarted(tx, effects, member, state, message.clone(), now).await?;
                }
            }
            Ok(StepOutcome::done())
        })
    }))
}

/// Reports whether a removal has already uncounted a member that was never added. A removal accepted before this transaction
/// is found here; a later one finds the member failed.
pub(crate) async fn already_uncounted(tx: &mut Tx, member: &Member) -> Result<bool> {
    // Also takes the lock under which members are counted.
    tx.component_change_desired(member.instance_id, &member.component_key, 0, 0).await?;
    let operations = tx.operations_locking_now(member.instance_id.uuid()).await?;
    Ok(operations.iter().any(|operation| removes(operation, member)))
}

fn removes(operation: &Operation, member: &Member) -> bool {
    let id = member.id.to_string();
    let open =
        |item: &&Item| !matches!(item.state, ItemState::Succeeded | ItemState::Partial | ItemState::Failed);
    match operation.kind {
        OperationKind::MemberRemove => operation.subject_id == member.id.uuid(),
        OperationKind::MembersRemove => operation.items.iter().filter(open).any(|item| item.id == id),
        OperationKind::InstanceScale => operation.input.remove.contains(&member.id),
        _ => false,
    }
}

/// Reports whether the intent had no effect on the member.
fn never(meant: Intent, member: &Member) -> bool {
    match meant {
        Intent::Add | Intent::Succeed => member.state == MemberState::Requested,
        Intent::Remove => {
            !matches!(member.state, MemberState::Removing | MemberState::Removed) && !member.never_worked()
        }
    }
}

/// Reports whether a successor replaces a member that never worked, and was therefore counted in addition to the others.
async fn beside(cx: &StepCx<'_>, id: MemberId) -> Result<bool> {
    let Some(old) = replaced_by(cx, id) else { return Ok(false) };
    Ok(cx.store.member_lookup(old).await?.is_some_and(|old| old.never_worked()))
}

/// Returns the member that a successor replaces.
fn replaced_by(cx: &StepCx<'_>, id: MemberId) -> Option<MemberId> {
    cx.operation.input.successors.iter().find(|(_, new)| **new == id).map(|(old, _)| *old)
}

/// Reports whether nothing in progress may still realise the intent: a child opened for it continues on its own.
async fn idle(cx: &StepCx<'_>, id: MemberId, meant: Intent) -> Result<bool> {
    let mut open = cx.store.operation_open_on(id.uuid()).await?;
    open.retain(|other| other.id != cx.operation.id);
    // Only another removal removes it: a drain or an upgrade does not.
    if meant == Intent::Remove {
        open.retain(|other| other.kind == OperationKind::MemberRemove);
    }
    if !open.is_empty() {
        return Ok(false);
    }
    if meant != Intent::Succeed {
        return Ok(true);
    }
    let children = cx.store.operation_children(cx.operation.id).await?;
    let of = replaced_by(cx, id);
    Ok(!children
        .iter()
        .any(|child| !child.state.is_final() && Some(child.subject_id) == of.map(|of| of.uuid())))
}

/// Parses a list of member ids.
pub(crate) fn listed(ids: &[MemberId], meant: Intent) -> Vec<(MemberId, Intent)> {
    ids.iter().map(|id| (*id, meant)).collect()
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_model::instance::{Instance, NewInstance};
    use muster_model::member::NewMember;

    use super::*;

    #[test]
    fn only_what_had_no_effect_is_counted_back() {
        use MemberState::{Failed, Removed, Removing, Requested};
        let env = Env::for_tests(1);
        for state in MemberState::ALL.iter().copied() {
            for worked in [false, true] {
                let active_witness_id = worked.then(|| env.id());
                let member = Member { state, active_witness_id, ..member(&env) };
                let waits = matches!(state, Requested);
                assert_eq!(never(Intent::Add, &member), waits, "{state}");
                assert_eq!(never(Intent::Succeed, &member), waits, "{state}");
                let gone = matches!(state, Removing | Removed) || (state == Failed && !worked);
                assert_eq!(never(Intent::Remove, &member), !gone, "{state}");
            }
        }
    }

    fn member(env: &Env) -> Member {
        let instance = Instance::requested(NewInstance {
            id: env.id(),
            tenant_id: env.id(),
            project_id: env.id(),
            app_id: env.id(),
            app_version_id: env.id(),
            operator_account_id: env.id(),
            network_id: env.id(),
            name: "i".to_owned(),
            now: env.now(),
        });
        Member::requested(NewMember {
            id: env.id(),
            instance: &instance,
            component_key: "unit",
            ordinal: 1,
            allocation_id: None,
            operation_id: env.id(),
            correlation_id: "",
            now: env.now(),
        })
    }
}
