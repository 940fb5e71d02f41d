//! Which members go when fewer are wanted. Pure.

use std::cmp::Reverse;

use jiff::Timestamp;
use muster_model::instance::Health;
use muster_model::member::{Member, MemberState};

/// The members of a component that go when `fewer` are wanted and `desired` are left to be: those that failed go first, as far as
/// they are among those that are wanted at all; of the others those that are missed least, which are those that do not work, then
/// those that are out of work, then those that have not come yet, and then those that work. Among equals those go first that do
/// nothing, then those whose work is over first, as their adapter last said; of whom nobody knows that, they come after these;
/// and then the newest. What is on its way out already is not chosen.
pub(crate) fn removed(mut members: Vec<Member>, fewer: usize, desired: usize, now: Timestamp) -> Vec<Member> {
    members.retain(|member| !matches!(member.state, MemberState::Removing | MemberState::Removed));
    let (mut failed, mut others): (Vec<Member>, Vec<Member>) =
        members.into_iter().partition(|member| member.state == MemberState::Failed);
    // One whose add failed was taken back from what is wanted when it did: it must not stand in for one that works.
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

/// When it is free, in the order in which members go.
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

/// The number in its name, which grows with every member of its component. Of those that one command asked for, the ids say less.
fn number(member: &Member) -> i64 {
    member.name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use muster_ids::World;
    use proptest::prelude::*;

    use super::*;
    use crate::member::tests::member;

    #[test]
    fn those_that_are_missed_least_go_first() {
        let world = World::for_tests(1);
        let of = |number, state, health| Member {
            name: format!("a-worker-{number}"),
            ..member(&world, state, health)
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
            removed(all.clone(), fewer, desired, world.now()).into_iter().map(|member| member.id).collect()
        };
        assert_eq!(order(5, 0), [unhealthy.id, drained.id, coming.id, new.id, old.id]);
        assert_eq!(order(6, 0), [failed.id, unhealthy.id, drained.id, coming.id, new.id, old.id]);
        assert_eq!(order(1, 5), [failed.id], "five others are there, and five are wanted");
        assert_eq!(order(1, 4), [unhealthy.id], "the one that failed was not among those that are wanted");
    }

    #[test]
    fn of_those_that_work_the_one_goes_whose_work_is_over_first() {
        let world = World::for_tests(2);
        let now = world.now();
        let of = |number, seconds: Option<i64>| Member {
            name: format!("a-worker-{number}"),
            free_at: seconds.map(|seconds| now + SignedDuration::from_secs(seconds)),
            ..member(&world, MemberState::Active, Health::Healthy)
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
        // What does not work is missed less, however long it would have gone on.
        let broken = Member { health: Health::Unhealthy, ..of(1, Some(7200)) };
        let order = removed(vec![of(2, Some(-5)), broken.clone()], 1, 1, now);
        assert_eq!(order[0].id, broken.id);
    }

    proptest! {
        /// Whoever goes is free no later than any equal that stays; one of whom nobody knows it is free last.
        #[test]
        fn nobody_goes_before_an_equal_that_is_free_earlier(ends in prop::collection::vec(prop::option::of(-100..100_i64), 1..20), fewer in 0..20_usize) {
            let world = World::for_tests(6);
            let now = world.now();
            let all: Vec<Member> = ends.iter().map(|end| Member {
                free_at: end.map(|seconds| now + SignedDuration::from_secs(seconds)),
                ..member(&world, MemberState::Active, Health::Healthy)
            }).collect();
            let desired = all.len().saturating_sub(fewer);
            let going = removed(all.clone(), fewer, desired, now);
            prop_assert_eq!(going.len(), fewer.min(all.len()));
            // Whoever does nothing is free now, however long that has been so.
            let end = |one: &Member| one.free_at.map_or(i64::MAX, |at| (at.as_second() - now.as_second()).max(0));
            let last = going.iter().map(end).max().unwrap_or(0);
            let stays = all.iter().filter(|one| going.iter().all(|gone| gone.id != one.id));
            for one in stays {
                prop_assert!(end(one) >= last);
            }
        }

        /// As many stay as are wanted, where there are so many; and none that works goes while one that does not stays.
        #[test]
        fn none_that_works_goes_before_one_that_does_not(states in prop::collection::vec(0..9_usize, 0..20), fewer in 0..20_usize, desired in 0..20_usize) {
            let world = World::for_tests(5);
            let all: Vec<Member> = states.iter().map(|at| member(&world, MemberState::ALL[*at], Health::Healthy)).collect();
            let going = removed(all.clone(), fewer, desired, world.now());
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
