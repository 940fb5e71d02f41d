//! Quorum check of a component: the rule is `muster_model::quorum`, and the manifest declares the required number.

use std::collections::BTreeSet;

use muster_ids::MemberId;
use muster_manifest::Component;
use muster_model::member::Member;
use muster_model::quorum::Need;

pub(crate) use muster_model::quorum::{going, leaving, replacing, successors};

/// Returns why a component cannot lose these members, if it cannot. `out` are members that do not count: they are being
/// removed, or their nodes are unreachable.
pub(crate) fn quorum_violation(
    component: &Component,
    desired: i64,
    living: &[Member],
    out: &BTreeSet<MemberId>,
    without: &BTreeSet<MemberId>,
) -> Option<String> {
    let quorum = component.quorum.filter(|_| desired > 0)?;
    let need = Need { need: quorum.of(desired), desired };
    muster_model::quorum::quorum_violation(&component.key, need, living, out, without)
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_manifest::Quorum;
    use muster_model::instance::Health;
    use muster_model::member::MemberState;
    use muster_model::operation::{Item, ItemState, OperationKind};
    use proptest::prelude::*;

    use super::*;
    use crate::member::tests::{component, member};

    #[test]
    fn a_majority_stays_at_work() {
        let env = Env::for_tests(1);
        let three: Vec<Member> = (0..3).map(|_| member(&env, MemberState::Active, Health::Healthy)).collect();
        let with = Component { quorum: Some(Quorum::Majority), ..component("worker") };
        let set = |ids: &[usize]| ids.iter().map(|at| three[*at].id).collect::<BTreeSet<_>>();
        let none = BTreeSet::new();
        assert_eq!(quorum_violation(&with, 3, &three, &none, &set(&[0])), None);
        assert!(quorum_violation(&with, 3, &three, &none, &set(&[0, 1])).is_some());
        assert!(
            quorum_violation(&with, 3, &three, &set(&[1]), &set(&[0])).is_some(),
            "one is on its way out already"
        );
        assert_eq!(
            quorum_violation(&component("worker"), 3, &three, &none, &set(&[0, 1, 2])),
            None,
            "it has no quorum"
        );
    }

    #[test]
    fn removing_unhealthy_members_never_violates_the_quorum() {
        let env = Env::for_tests(1);
        let mut three: Vec<Member> =
            (0..2).map(|_| member(&env, MemberState::Active, Health::Unhealthy)).collect();
        three.push(member(&env, MemberState::Active, Health::Healthy));
        let with = Component { quorum: Some(Quorum::Majority), ..component("worker") };
        let broken: BTreeSet<MemberId> = three[..2].iter().map(|member| member.id).collect();
        assert_eq!(quorum_violation(&with, 3, &three, &BTreeSet::new(), &broken), None);
        let last = BTreeSet::from([three[2].id]);
        assert!(quorum_violation(&with, 3, &three, &BTreeSet::new(), &last).is_some());
    }

    #[test]
    fn bulk_and_scale_take_members_out_before_their_parts_are_opened() {
        let env = Env::for_tests(1);
        let (one, two): (MemberId, MemberId) = (env.id(), env.id());
        let mut bulk = crate::member::tests::operation(&env, OperationKind::MembersDrain);
        let part = |id: MemberId, state| Item {
            id: id.to_string(),
            name: String::new(),
            state,
            operation_id: None,
            message: None,
        };
        bulk.items = vec![part(one, ItemState::Pending), part(two, ItemState::Failed)];
        assert_eq!(leaving(&[bulk.clone()]), BTreeSet::from([one]));
        let mut scale = crate::member::tests::operation(&env, OperationKind::InstanceScale);
        scale.input.remove = vec![two];
        assert_eq!(going(&[bulk.clone(), scale.clone()]), BTreeSet::from([two]));
        assert_eq!(leaving(&[bulk, scale]), BTreeSet::from([one, two]));
        assert_eq!(
            leaving(&[crate::member::tests::operation(&env, OperationKind::MemberResume)]),
            BTreeSet::new()
        );
    }

    proptest! {
        /// In any order of removal, members removed one after the other never break the quorum.
        #[test]
        fn one_after_the_other_never_breaks_it(count in 1..8_usize, order in prop::collection::vec(0..8_usize, 1..16)) {
            let env = Env::for_tests(3);
            let all: Vec<Member> = (0..count).map(|_| member(&env, MemberState::Active, Health::Healthy)).collect();
            let with = Component { quorum: Some(Quorum::Majority), ..component("worker") };
            let desired = i64::try_from(count).unwrap();
            let mut out = BTreeSet::new();
            for at in order {
                let one = BTreeSet::from([all[at % count].id]);
                if quorum_violation(&with, desired, &all, &out, &one).is_none() {
                    out.extend(one);
                }
            }
            let left = i64::try_from(count - out.len()).unwrap();
            prop_assert!(left > desired / 2 || out.is_empty());
        }
    }
}
