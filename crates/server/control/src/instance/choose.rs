//! Selection of members to remove in a scale-down. Pure.

use std::cmp::Reverse;

use jiff::Timestamp;
use muster_model::instance::Health;
use muster_model::member::{Member, MemberState};

/// Selects the members of a component to remove, for `fewer` members and `desired` remaining ones. Failed members go first,
/// as far as they count toward the desired number. The others are ordered by importance: unhealthy, then drained, then not
/// yet active, then working. Among equals, idle members come first, then by the end of their work in the adapter's last
/// report, with unknown ends last, and then the newest. Members that are already being removed are not selected.
pub(crate) fn removed(mut members: Vec<Member>, fewer: usize, desired: usize, now: Timestamp) -> Vec<Member> {
    members.retain(|member| !matches!(member.state, MemberState::Removing | MemberState::Removed));
    let (mut failed, mut others): (Vec<Member>, Vec<Member>) =
        members.into_iter().partition(|member| member.state == MemberState::Failed);
    // A member with a failed add was already subtracted from the desired number: it must not be removed in place of a
    // working one.
    let too_many = others.len().saturating_sub(desired).min(fewer);
    let missed = |member: &Member| match (member.state, member.known_health()) {
        (MemberState::Active, Health::Unhealthy) => 0,
        (MemberState::Drained | MemberState::Draining, _) => 1,
        (MemberState::Requested | MemberState::Provisioning | MemberState::Joining, _) => 2,
        _ => 3,
    };
    failed.sort_by_key(|member| Reverse(number(member)));
    others.sort_by_key(|member| (missed(member), free(member, now), Reverse(number(member))));
    failed.truncate(fewer - too_many);
    others.truncate(too_many);
    failed.extend(others);
    failed
}

/// When a member becomes free, in the order of removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Free {
    Now,
    At(Timestamp),
    Unknown,
}

fn free(member: &Member, now: Timestamp) -> Free {
    match member.free_at {
        Some(at) if at <= now => Free::Now,
        Some(at) => Free::At(at),
        None => Free::Unknown,
    }
}

/// Returns the number in its name, which grows with every member of its component. Ids are less precise for members of one
/// command.
fn number(member: &Member) -> i64 {
    member.name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use muster_ids::Env;
    use proptest::prelude::*;

    use super::*;
    use crate::member::tests::member;

    #[test]
    fn those_that_are_missed_least_go_first() {
        let env = Env::for_tests(1);
        let of = |number, state, health| Member {
            name: format!("a-worker-{number}"),
            ..member(&env, state, health)
        };
        let old = of(9, MemberState::Active, Health::Healthy);
        let unhealthy = of(2, MemberState::Active, Health::Unhealthy);
        let drained = of(3, MemberState::Drained, Health::Healthy);
        let failed = of(4, MemberState::Failed, Health::Unknown);
        let coming = of(5, MemberState::Joining, Health::Unknown);
        let new = of(10, MemberState::Active, Health::Healthy);
        let gone = of(7, MemberState::Removing, Health::Unknown);
        let all = vec![
            old.clone(),
            unhealthy.clone(),
            drained.clone(),
            failed.clone(),
            coming.clone(),
            new.clone(),
            gone,
        ];
        let order = |fewer, desired| -> Vec<_> {
            removed(all.clone(), fewer, desired, env.now()).into_iter().map(|member| member.id).collect()
        };
        assert_eq!(order(5, 0), [unhealthy.id, drained.id, coming.id, new.id, old.id]);
        assert_eq!(order(6, 0), [failed.id, unhealthy.id, drained.id, coming.id, new.id, old.id]);
        assert_eq!(order(1, 5), [failed.id], "five others are there, and five are wanted");
        assert_eq!(order(1, 4), [unhealthy.id], "the one that failed was not among those that are wanted");
    }

    #[test]
    fn of_those_that_work_the_one_goes_whose_work_is_over_first() {
        let env = Env::for_tests(2);
        let now = env.now();
        let of = |number, seconds: Option<i64>| Member {
            name: format!("a-worker-{number}"),
            free_at: seconds.map(|seconds| now + SignedDuration::from_secs(seconds)),
            ..member(&env, MemberState::Active, Health::Healthy)
        };
        let long = of(7, Some(3600));
        let short = of(2, Some(60));
        let idle = of(3, Some(-5));
        let just = of(4, Some(0));
        let unknown = of(9, None);
        let older = of(8, None);
        let all =
            vec![long.clone(), older.clone(), short.clone(), unknown.clone(), idle.clone(), just.clone()];
        let order: Vec<_> = removed(all, 6, 0, now).into_iter().map(|member| member.name).collect();
        let expected = [just, idle, short, long, unknown, older].map(|member| member.name);
        assert_eq!(order, expected, "idle, newest first; then by the end; then those of whom nobody knows");
        // A broken member is removed first, however long its work would last.
        let broken = Member { health: Health::Unhealthy, ..of(1, Some(7200)) };
        let order = removed(vec![of(2, Some(-5)), broken.clone()], 1, 1, now);
        assert_eq!(order[0].id, broken.id);
    }

    proptest! {
        /// A removed member is free no later than any equal that stays; an unknown end counts as last.
        #[test]
        fn removed_member_is_free_no_later_than_any_kept_equal(ends in prop::collection::vec(prop::option::of(-100..100_i64), 1..20), fewer in 0..20_usize) {
            let env = Env::for_tests(6);
            let now = env.now();
            let all: Vec<Member> = ends.iter().map(|end| Member {
                free_at: end.map(|seconds| now + SignedDuration::from_secs(seconds)),
                ..member(&env, MemberState::Active, Health::Healthy)
            }).collect();
            let desired = all.len().saturating_sub(fewer);
            let going = removed(all.clone(), fewer, desired, now);
            prop_assert_eq!(going.len(), fewer.min(all.len()));
            // An idle member is free now, however long it has been idle.
            let end = |one: &Member| one.free_at.map_or(i64::MAX, |at| (at.as_second() - now.as_second()).max(0));
            let last = going.iter().map(end).max().unwrap_or(0);
            let stays = all.iter().filter(|one| going.iter().all(|gone| gone.id != one.id));
            for one in stays {
                prop_assert!(end(one) >= last);
            }
        }

        /// The desired number stays, if there are as many; and no working member goes while one that does not work stays.
        #[test]
        fn none_that_works_goes_before_one_that_does_not(states in prop::collection::vec(0..9_usize, 0..20), fewer in 0..20_usize, desired in 0..20_usize) {
            let env = Env::for_tests(5);
            let all: Vec<Member> = states.iter().map(|at| member(&env, MemberState::ALL[*at], Health::Healthy)).collect();
            let going = removed(all.clone(), fewer, desired, env.now());
            prop_assert!(going.len() <= fewer);
            let could = |one: &&Member| !matches!(one.state, MemberState::Removing | MemberState::Removed | MemberState::Failed);
            let stays = |one: &&Member| going.iter().all(|gone| gone.id != one.id);
            let before = all.iter().filter(could).count();
            let after = all.iter().filter(could).filter(stays).count();
            prop_assert!(after >= before.min(desired), "{} of {} stay, and {} are wanted", after, before, desired);
            if going.iter().any(Member::works) {
                prop_assert!(all.iter().filter(could).filter(stays).all(Member::works));
            }
        }
    }
}
