//! Checks whether a verb is allowed in a member's state. Pure: returns a message if not.

use muster_manifest::Verb;
use muster_model::instance::Health;
use muster_model::member::{Member, MemberState};

/// Further facts for the check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Circumstances {
    /// Whether its cell is dead.
    pub(super) lost: bool,
    /// Whether the command is forced.
    pub(super) forced: bool,
}

/// Returns why the verb is not allowed, if it is not.
pub(super) fn fault(verb: Verb, member: &Member, known: Circumstances) -> Option<String> {
    let (name, state) = (&member.name, member.state);
    let broken = known.lost || member.known_health() == Health::Unhealthy;
    let (suits, wants) = match verb {
        Verb::Add => (true, ""),
        Verb::Drain => (state == MemberState::Active, "only an active member can be drained"),
        Verb::Resume => (
            matches!(state, MemberState::Drained | MemberState::Draining),
            "only a drained or draining member can be resumed",
        ),
        Verb::Remove => (
            match state {
                MemberState::Removed => false,
                // Its removal may be blocked; a forced one continues from there.
                MemberState::Removing => known.forced,
                _ => true,
            },
            "it is already being removed; `--force` starts its removal again",
        ),
        Verb::Replace => (
            matches!(
                state,
                MemberState::Active | MemberState::Drained | MemberState::Draining | MemberState::Failed
            ),
            "only an active, drained or failed member can be replaced: wait until it is active",
        ),
        Verb::Recover => (
            state == MemberState::Failed || (state == MemberState::Active && broken),
            "only a failed or unhealthy member can be recovered: replace or drain an active one",
        ),
    };
    (!suits).then(|| format!("{name} is {state}: {wants}"))
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;

    use super::*;
    use crate::member::tests::member;

    /// The states in which each verb is allowed for a healthy member.
    #[test]
    fn every_verb_in_every_state() {
        let env = Env::for_tests(1);
        let can = |verb| {
            let known = Circumstances::default();
            let suits =
                |state: &&MemberState| fault(verb, &member(&env, **state, Health::Healthy), known).is_none();
            MemberState::ALL.iter().filter(suits).map(|state| state.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(can(Verb::Drain), "active");
        assert_eq!(can(Verb::Resume), "draining drained");
        assert_eq!(can(Verb::Remove), "requested provisioning joining active draining drained failed");
        assert_eq!(can(Verb::Replace), "active draining drained failed");
        assert_eq!(can(Verb::Recover), "failed");
        let known = Circumstances::default();
        assert_eq!(fault(Verb::Recover, &member(&env, MemberState::Active, Health::Unhealthy), known), None);
    }

    #[test]
    fn one_with_a_dead_cell_is_recovered_and_a_blocked_removal_is_forced() {
        let env = Env::for_tests(1);
        let lost = Circumstances { lost: true, forced: false };
        let forced = Circumstances { lost: false, forced: true };
        let healthy = |state| member(&env, state, Health::Healthy);
        assert_eq!(fault(Verb::Recover, &healthy(MemberState::Active), lost), None);
        for verb in [Verb::Drain, Verb::Remove, Verb::Replace] {
            assert_eq!(fault(verb, &healthy(MemberState::Active), lost), None);
        }
        assert_eq!(fault(Verb::Remove, &healthy(MemberState::Removing), forced), None);
        assert!(fault(Verb::Remove, &healthy(MemberState::Removing), lost).is_some());
        assert!(fault(Verb::Remove, &healthy(MemberState::Removed), forced).is_some());
    }

    #[test]
    fn health_of_another_incarnation_is_no_reason_to_recover() {
        let mut healed = member(&Env::for_tests(1), MemberState::Active, Health::Unhealthy);
        healed.incarnation += 1;
        assert!(fault(Verb::Recover, &healed, Circumstances::default()).is_some());
    }
}
