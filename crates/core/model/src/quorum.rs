//! Decides whether a component can lose some of its members. Pure: the caller has locked the component and read everything
//! in one transaction, so that of two concurrent requests only one can succeed.

use std::collections::BTreeSet;

use muster_ids::{MemberId, OperationId, TypedId as _};

use crate::member::Member;
use crate::operation::{Item, ItemState, Operation, OperationKind};

/// Returns the members that open operations drain, replace or remove, whether started or not.
pub fn leaving(operations: &[Operation]) -> BTreeSet<MemberId> {
    named_by(operations, &BTreeSet::new(), |kind| {
        matches!(kind, OperationKind::MemberDrain | OperationKind::MembersDrain)
            || replaces(kind)
            || removes(kind)
    })
}

/// Returns the members that open operations remove, whether started or not.
pub fn going(operations: &[Operation]) -> BTreeSet<MemberId> {
    named_by(operations, &BTreeSet::new(), removes)
}

/// Returns the members that open operations, except these, replace.
pub fn replacing(operations: &[Operation], but: &BTreeSet<OperationId>) -> BTreeSet<MemberId> {
    named_by(operations, but, replaces)
}

/// Returns the members that open operations let succeed others, whether they have joined or not.
pub fn successors(operations: &[Operation]) -> BTreeSet<MemberId> {
    let mut named = BTreeSet::new();
    for operation in operations.iter().filter(|operation| replaces(operation.kind)) {
        named.extend(operation.input.successors());
    }
    named
}

fn replaces(kind: OperationKind) -> bool {
    matches!(kind, OperationKind::MemberReplace | OperationKind::MembersReplace)
}

fn removes(kind: OperationKind) -> bool {
    use OperationKind::{InstanceDecommission, InstanceScale, MemberRemove, MembersRemove};
    matches!(kind, MemberRemove | MembersRemove | InstanceScale | InstanceDecommission)
}

fn named_by(
    operations: &[Operation],
    but: &BTreeSet<OperationId>,
    counts: impl Fn(OperationKind) -> bool,
) -> BTreeSet<MemberId> {
    let mut named = BTreeSet::new();
    let counted = |operation: &&Operation| counts(operation.kind) && !but.contains(&operation.id);
    for operation in operations.iter().filter(counted) {
        if operation.subject_kind == "member" {
            named.insert(MemberId::from_uuid(operation.subject_id));
        } else if operation.kind == OperationKind::InstanceScale {
            named.extend(&operation.input.remove);
        } else {
            let open = |item: &&Item| {
                !matches!(item.state, ItemState::Succeeded | ItemState::Partial | ItemState::Failed)
                    && item.operation_id.is_none_or(|part| !but.contains(&part))
            };
            named.extend(
                operation.items.iter().filter(open).filter_map(|item| item.id.parse::<MemberId>().ok()),
            );
        }
    }
    named
}

/// A component's quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Number of members that must keep working.
    pub need: i64,
    /// Desired number of members.
    pub desired: i64,
}

/// Returns the members of a component that work, as far as known. `out` are those being drained or removed, and those on
/// unreachable nodes.
pub fn at_work<'m>(
    component: &'m str,
    living: &'m [Member],
    out: &'m BTreeSet<MemberId>,
) -> impl Iterator<Item = &'m Member> {
    let works = move |member: &&Member| {
        member.component_key == component && member.works() && !out.contains(&member.id)
    };
    living.iter().filter(works)
}

/// Explains why a component cannot lose these members, if so. A member that does not work can always be removed.
pub fn quorum_violation(
    component: &str,
    need: Need,
    living: &[Member],
    out: &BTreeSet<MemberId>,
    without: &BTreeSet<MemberId>,
) -> Option<String> {
    let count = at_work(component, living, out).count();
    let taken = at_work(component, living, out).filter(|member| without.contains(&member.id)).count();
    let (left, Need { need, desired }) = (count - taken, need);
    if taken == 0 || i64::try_from(left).unwrap_or(i64::MAX) >= need {
        return None;
    }
    Some(format!(
        "{component} needs {need} of {desired} members active, and {left} would be left: wait for others to return, or add some first"
    ))
}

/// Returns how many working members can be taken out at once. If the quorum never allows any, one at a time may be: its
/// component could not be changed otherwise.
pub fn spare(need: Need, at_work: usize, under_way: usize) -> usize {
    let spare = i64::try_from(at_work).unwrap_or(i64::MAX) - need.need;
    let least = i64::from(need.desired <= need.need && under_way == 0);
    usize::try_from(spare.max(least)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_can_be_spared_and_the_last_one_still_changes() {
        let of = |need, desired| Need { need, desired };
        assert_eq!(spare(of(2, 3), 3, 0), 1);
        assert_eq!(spare(of(2, 3), 2, 0), 0, "one is ill: nobody else can go");
        assert_eq!(spare(of(2, 3), 2, 1), 0, "one is out already");
        assert_eq!(spare(of(3, 5), 5, 0), 2);
        assert_eq!(spare(of(1, 1), 1, 0), 1, "there is no other way");
        assert_eq!(spare(of(1, 1), 0, 1), 0);
        assert_eq!(spare(of(2, 2), 2, 0), 1);
        assert_eq!(spare(of(2, 2), 1, 1), 0);
    }
}
