//! Derives the health of an instance from that of its members. Pure.
//!
//! Unknown members are not guessed: the instance is evaluated twice, once as if they were all healthy and once as if none of
//! them worked. If both agree, that is the result; otherwise it is unknown.

use crate::instance::Health;
use crate::member::MemberState;

/// Counts of a component: desired members, and members by health.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ComponentCounts {
    /// Desired number of members.
    pub desired: i64,
    /// Minimum for the instance to run.
    pub min: i64,
    /// Quorum of working members; 0 if it has none.
    pub quorum: i64,
    /// Healthy active members.
    pub healthy: i64,
    /// Degraded active members.
    pub degraded: i64,
    /// Active members of unknown health.
    pub unknown: i64,
    /// Members that should work and do not: unhealthy and failed ones.
    pub broken: i64,
}

impl ComponentCounts {
    /// Adds members to the counts.
    pub fn count(&mut self, state: MemberState, health: Health, members: i64) {
        match (state, health) {
            (MemberState::Active, Health::Healthy) => self.healthy += members,
            (MemberState::Active, Health::Degraded) => self.degraded += members,
            (MemberState::Active, Health::Unknown) => self.unknown += members,
            (MemberState::Active, Health::Unhealthy) | (MemberState::Failed, _) => self.broken += members,
            // Members being added or removed do not count, and are no problem.
            _ => {}
        }
    }

    /// Returns the number of active members.
    pub fn active(&self) -> i64 {
        self.healthy + self.degraded + self.unknown
    }

    /// Returns its health if the unknown members work, or do not.
    fn health_assuming(&self, unknown_work: bool) -> Health {
        let (work, fail) = if unknown_work { (self.unknown, 0) } else { (0, self.unknown) };
        let works = self.healthy + self.degraded + work;
        let quorum = if self.desired > 0 { self.quorum } else { 0 };
        let trouble = self.degraded > 0 || self.broken + fail > 0;
        if works < self.min.max(quorum) {
            Health::Unhealthy
        } else if works >= self.desired && !trouble {
            Health::Healthy
        } else {
            Health::Degraded
        }
    }
}

/// Returns the worse of two known values.
fn worse(one: Health, other: Health) -> Health {
    let badness = |health: Health| match health {
        Health::Healthy => 0,
        Health::Degraded => 1,
        Health::Unknown => 2,
        Health::Unhealthy => 3,
    };
    if badness(one) >= badness(other) { one } else { other }
}

/// Returns the health of an instance: healthy if each component has its desired number of working members, degraded if each
/// has at least its minimum, unhealthy if one has less, unknown if that depends on unknown members.
pub fn health_of(components: &[ComponentCounts]) -> Health {
    let all = |unknown_work| {
        components
            .iter()
            .fold(Health::Healthy, |so_far, component| worse(so_far, component.health_assuming(unknown_work)))
    };
    let (best, worst) = (all(true), all(false));
    if best == worst { best } else { Health::Unknown }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn three(healthy: i64, unknown: i64, broken: i64) -> ComponentCounts {
        ComponentCounts { desired: 3, min: 1, quorum: 2, healthy, degraded: 0, unknown, broken }
    }

    #[test]
    fn each_health_value_is_reached() {
        assert_eq!(health_of(&[three(3, 0, 0)]), Health::Healthy);
        assert_eq!(health_of(&[three(2, 0, 0)]), Health::Degraded);
        assert_eq!(health_of(&[three(2, 0, 1)]), Health::Degraded);
        assert_eq!(health_of(&[three(1, 0, 2)]), Health::Unhealthy, "the quorum is two");
        assert_eq!(health_of(&[three(2, 1, 0)]), Health::Unknown, "healthy or degraded");
        assert_eq!(health_of(&[three(1, 1, 1)]), Health::Unknown, "degraded or unhealthy");
        assert_eq!(health_of(&[three(0, 1, 2)]), Health::Unhealthy, "whatever the unknown one does");
        assert_eq!(health_of(&[three(2, 1, 1)]), Health::Degraded, "whatever the unknown one does");
        assert_eq!(health_of(&[three(3, 0, 0), three(0, 0, 3)]), Health::Unhealthy);
        assert_eq!(health_of(&[]), Health::Healthy);
    }

    #[test]
    fn a_component_of_which_nothing_is_wanted_does_well_with_nothing() {
        let none = ComponentCounts { desired: 0, min: 0, quorum: 1, ..ComponentCounts::default() };
        assert_eq!(health_of(&[none]), Health::Healthy);
        assert_eq!(health_of(&[ComponentCounts { min: 1, ..none }]), Health::Unhealthy);
    }

    #[test]
    fn members_on_their_way_are_counted_for_nothing() {
        let mut standing = ComponentCounts::default();
        for state in MemberState::ALL
            .iter()
            .filter(|state| !matches!(state, MemberState::Active | MemberState::Failed))
        {
            standing.count(*state, Health::Unhealthy, 1);
        }
        assert_eq!(standing, ComponentCounts::default());
    }

    fn standing() -> impl Strategy<Value = ComponentCounts> {
        (0..6_i64, 0..4_i64, 0..4_i64, 0..5_i64, 0..3_i64, 0..3_i64, 0..3_i64).prop_map(
            |(desired, min, quorum, healthy, degraded, unknown, broken)| ComponentCounts {
                desired,
                min,
                quorum,
                healthy,
                degraded,
                unknown,
                broken,
            },
        )
    }

    /// Resolves the unknown members of a component.
    fn settled(standing: &ComponentCounts, well: i64) -> ComponentCounts {
        let broken = standing.broken + standing.unknown - well;
        ComponentCounts { healthy: standing.healthy + well, unknown: 0, broken, ..*standing }
    }

    proptest! {
        /// Unknown is returned exactly where it matters: any other result holds for every resolution of the unknown members.
        #[test]
        fn health_holds_for_every_resolution_of_the_unknown_members(one in standing(), other in standing()) {
            let said = health_of(&[one, other]);
            let ways = (0..=one.unknown).flat_map(|first| (0..=other.unknown).map(move |second| (first, second)));
            let out: Vec<Health> = ways.map(|(first, second)| health_of(&[settled(&one, first), settled(&other, second)])).collect();
            prop_assert!(!out.contains(&Health::Unknown));
            let all_the_same = out.iter().all(|health| *health == out[0]);
            prop_assert_eq!(said, if all_the_same { out[0] } else { Health::Unknown });
        }

        /// More working members never make it worse, and fewer never better.
        #[test]
        fn more_that_works_never_makes_it_worse(one in standing(), more in 0..3_i64) {
            let known = ComponentCounts { unknown: 0, ..one };
            let better = ComponentCounts { healthy: known.healthy + more, ..known };
            let (before, after) = (health_of(&[known]), health_of(&[better]));
            prop_assert_eq!(worse(before, after), before);
        }

        #[test]
        fn component_below_its_minimum_is_unhealthy(one in standing()) {
            if one.active() < one.min {
                prop_assert_eq!(health_of(&[one]), Health::Unhealthy);
            }
        }
    }
}
