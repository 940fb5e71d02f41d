//! Decides which promotions of a release are allowed, and what they entail: pure.
//!
//! A release has the states and transitions of artifacts, and is never ahead of its own artifacts.

use jiff::Timestamp;

use crate::app::AppVersion;
use crate::artifact::promotion::{PERCENT, grace_ends, no_such_step, trusted};
use crate::artifact::{ArtifactState, Moves, Refusal, Step, TrustPolicy, Verdict};

/// One artifact of a release.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name in the manifest.
    pub name: String,
    /// Promotion state.
    pub state: ArtifactState,
    /// Result of verifying its signatures under the current edition of the publisher's policy.
    pub verdict: Verdict,
}

/// Inputs of the decision besides the release.
#[derive(Debug, Clone)]
pub struct ReleaseFacts<'a> {
    /// The publisher's policy.
    pub policy: &'a TrustPolicy,
    /// Its artifacts.
    pub parts: &'a [Part],
    /// Living instances that run it or may roll back to it.
    pub instances: i64,
    /// Living members that actually run it.
    pub members: i64,
    /// The app's active release.
    pub active: Option<&'a AppVersion>,
    /// The app's canary.
    pub canary: Option<&'a AppVersion>,
    /// Current time.
    pub now: Timestamp,
}

/// Decides on a change.
pub fn plan(release: &AppVersion, step: Step, facts: &ReleaseFacts<'_>) -> Result<Moves, Refusal> {
    let from = release.state;
    let (to, forward) = match step {
        Step::Promote { to, .. } => (to, true),
        Step::Demote { to } => (to, false),
    };
    let goes_forward =
        matches!(to, ArtifactState::Staged | ArtifactState::Canary | ArtifactState::Active) && to > from;
    if from == to || !from.can_become(to) || goes_forward != forward {
        return Err(no_such_step(from, to, forward));
    }
    if forward {
        for part in facts.parts {
            carried(to, part, facts.policy)?;
        }
    }
    if let Some(other) = facts.canary.filter(|other| to == ArtifactState::Canary && other.id != release.id) {
        return Err(Refusal::Held(format!(
            "{} is already the app's canary: promote it to active or demote it to staged first",
            other.name
        )));
    }
    if to == ArtifactState::Retired {
        retired(release, facts)?;
    }
    let percent = match step {
        Step::Promote { to: ArtifactState::Canary, percent } => Some(percent.unwrap_or(PERCENT)),
        _ => None,
    };
    let supersedes =
        to == ArtifactState::Active && facts.active.is_some_and(|active| active.id != release.id);
    Ok(Moves { to, percent, supersedes })
}

/// Ensures that an artifact of a release has at least the release's new state and is trusted there. A deprecated artifact
/// serves only releases that are already there, and a retired one serves none.
fn carried(to: ArtifactState, part: &Part, policy: &TrustPolicy) -> Result<(), Refusal> {
    let Part { name, state, verdict } = part;
    if !state.may_start() {
        return Err(Refusal::Held(format!(
            "the artifact {name} is {state}, and a release with it cannot be promoted: publish a release \
             with another"
        )));
    }
    if *state < to {
        return Err(Refusal::Held(format!(
            "the artifact {name} is {state}, and a release cannot be ahead of its artifacts: promote the artifact to {to} first"
        )));
    }
    trusted(to, policy, verdict).map_err(|refusal| match refusal {
        Refusal::Untrusted(says) => Refusal::Untrusted(format!("the artifact {name}: {says}")),
        other => other,
    })
}

fn retired(release: &AppVersion, facts: &ReleaseFacts<'_>) -> Result<(), Refusal> {
    if let Some(at) = retirable_at(release, facts.policy).filter(|at| *at > facts.now) {
        return Err(Refusal::Held(format!("its grace period ends at {at}")));
    }
    still_used(facts.instances, facts.members).map_or(Ok(()), |says| Err(Refusal::Held(says)))
}

/// Explains why a release in use cannot be retired; `None` if it is unused.
pub fn still_used(instances: i64, members: i64) -> Option<String> {
    (instances > 0 || members > 0).then(|| {
        format!(
            "it is still in use: {instances} live instances run it or may roll back to it, and it runs in \
             {members} live members: upgrade or decommission them first"
        )
    })
}

/// Returns when a deprecated release can be retired.
pub fn retirable_at(release: &AppVersion, policy: &TrustPolicy) -> Option<Timestamp> {
    release.deprecated_at.map(|since| grace_ends(since, policy))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use muster_ids::Env;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::artifact::Trust;

    fn verdict(trust: Trust) -> Verdict {
        Verdict {
            trust,
            reason: None,
            message: "no signature counts".to_owned(),
            key_id: None,
            signature: None,
            checked_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn release(env: &Env, name: &str) -> AppVersion {
        AppVersion {
            id: env.id(),
            tenant_id: env.id(),
            project_id: env.id(),
            app_id: env.id(),
            name: name.to_owned(),
            manifest: json!({}),
            digest: String::new(),
            state: ArtifactState::Draft,
            canary_percent: None,
            superseded_by: None,
            deprecated_at: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            version: 1,
        }
    }

    #[derive(Debug, Clone)]
    enum Act {
        Step { release: usize, step: Step },
        Artifact { part: usize, state: ArtifactState },
        Sign { part: usize, trust: Trust },
        Start { release: usize },
        Stop { release: usize },
        Wait { hours: i64 },
    }

    fn states() -> impl Strategy<Value = ArtifactState> {
        (0..ArtifactState::ALL.len()).prop_map(|at| ArtifactState::ALL[at])
    }

    fn acts() -> impl Strategy<Value = Act> {
        let trust = prop_oneof![Just(Trust::Trusted), Just(Trust::Unsigned), Just(Trust::Untrusted)];
        prop_oneof![
            8 => (0usize..3, states(), proptest::option::of(1i64..=100), any::<bool>()).prop_map(
                |(release, to, percent, forward)| {
                    let step = if forward { Step::Promote { to, percent } } else { Step::Demote { to } };
                    Act::Step { release, step }
                }
            ),
            4 => (0usize..4, states()).prop_map(|(part, state)| Act::Artifact { part, state }),
            2 => (0usize..4, trust).prop_map(|(part, trust)| Act::Sign { part, trust }),
            1 => (0usize..3).prop_map(|release| Act::Start { release }),
            1 => (0usize..3).prop_map(|release| Act::Stop { release }),
            1 => (1i64..200).prop_map(|hours| Act::Wait { hours }),
        ]
    }

    struct Shelf {
        releases: Vec<AppVersion>,
        parts: Vec<Part>,
        used: Vec<i64>,
        policy: TrustPolicy,
        now: Timestamp,
    }

    /// The first release contains the artifacts 0 and 1, the second 1 and 2, the third 3.
    const MADE_OF: [&[usize]; 3] = [&[0, 1], &[1, 2], &[3]];

    impl Shelf {
        fn new() -> Self {
            let env = Env::for_tests(5);
            let part = |name: &str| Part {
                name: name.to_owned(),
                state: ArtifactState::Active,
                verdict: verdict(Trust::Trusted),
            };
            Self {
                releases: ["1", "2", "3"].map(|name| release(&env, name)).to_vec(),
                parts: ["a", "b", "c", "d"].map(part).to_vec(),
                used: vec![0; 3],
                policy: TrustPolicy::default(),
                now: Timestamp::from_second(1_000_000).unwrap(),
            }
        }

        fn in_state(&self, state: ArtifactState) -> Option<usize> {
            self.releases.iter().position(|release| release.state == state)
        }

        /// Runs a step as the use-case does: plan, then apply.
        fn step(&mut self, at: usize, step: Step) -> Result<(), Refusal> {
            let parts: Vec<Part> = MADE_OF[at].iter().map(|part| self.parts[*part].clone()).collect();
            let active = self.in_state(ArtifactState::Active);
            let canary = self.in_state(ArtifactState::Canary);
            let facts = ReleaseFacts {
                policy: &self.policy,
                parts: &parts,
                instances: self.used[at],
                members: 0,
                active: active.map(|active| &self.releases[active]),
                canary: canary.map(|canary| &self.releases[canary]),
                now: self.now,
            };
            let moves = plan(&self.releases[at], step, &facts)?;
            if moves.supersedes {
                let old = active.expect("only an active one is superseded");
                self.releases[old].superseded_by = Some(self.releases[at].id);
                self.releases[old].state = ArtifactState::Deprecated;
                self.releases[old].deprecated_at = Some(self.now);
            }
            let release = &mut self.releases[at];
            if moves.to == ArtifactState::Deprecated {
                release.deprecated_at = Some(self.now);
            }
            release.state = moves.to;
            release.canary_percent = moves.percent;
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn no_sequence_of_requests_reaches_what_the_rules_forbid(acts in proptest::collection::vec(acts(), 1..60)) {
            let mut shelf = Shelf::new();
            for act in acts {
                match act {
                    Act::Artifact { part, state } => shelf.parts[part].state = state,
                    Act::Sign { part, trust } => shelf.parts[part].verdict = verdict(trust),
                    Act::Start { release } if shelf.releases[release].state.may_start() => shelf.used[release] += 1,
                    Act::Start { .. } => {}
                    Act::Stop { release } => shelf.used[release] = (shelf.used[release] - 1).max(0),
                    Act::Wait { hours } => shelf.now += SignedDuration::from_hours(hours),
                    Act::Step { release: at, step } => {
                        let before: Vec<ArtifactState> = shelf.releases.iter().map(|r| r.state).collect();
                        let done = shelf.step(at, step).is_ok();
                        check(&shelf, &before, at, done)?;
                    }
                }
            }
        }
    }

    /// The rules once more, independent of the planner.
    fn check(shelf: &Shelf, before: &[ArtifactState], at: usize, done: bool) -> Result<(), TestCaseError> {
        use ArtifactState::{Active, Canary, Deprecated, Draft, Retired, Staged};
        for (index, release) in shelf.releases.iter().enumerate() {
            let (old, new) = (before[index], release.state);
            if old == new {
                continue;
            }
            prop_assert!(done, "a refused request changed something");
            if index != at {
                prop_assert!((old, new) == (Active, Deprecated) && shelf.releases[at].state == Active);
                prop_assert_eq!(release.superseded_by, Some(shelf.releases[at].id));
                continue;
            }
            match (old, new) {
                (Draft, Staged) | (Staged, Canary) | (Canary, Active) => {
                    for part in MADE_OF[at].iter().map(|part| &shelf.parts[*part]) {
                        let rank = |state| [Draft, Staged, Canary, Active].iter().position(|s| *s == state);
                        prop_assert!(rank(part.state) >= rank(new), "a release is ahead of {}", part.name);
                        let unsigned_may = rank(new) <= rank(shelf.policy.unsigned_up_to);
                        let trust = part.verdict.trust;
                        prop_assert!(trust == Trust::Trusted || (trust == Trust::Unsigned && unsigned_may));
                    }
                }
                (Canary, Staged) | (Active, Deprecated) => {}
                // It was never offered, so there is no grace period.
                (Draft | Staged, Retired) => prop_assert_eq!(shelf.used[at], 0),
                (Deprecated, Retired) => {
                    prop_assert_eq!(shelf.used[at], 0);
                    let grace = SignedDuration::from_hours(shelf.policy.grace_hours);
                    prop_assert!(shelf.now >= release.deprecated_at.unwrap() + grace);
                }
                _ => prop_assert!(false, "{old} became {new}"),
            }
        }
        for state in [Active, Canary] {
            prop_assert!(shelf.releases.iter().filter(|release| release.state == state).count() <= 1);
        }
        for release in &shelf.releases {
            prop_assert!((release.state == Canary) == release.canary_percent.is_some());
        }
        Ok(())
    }

    #[test]
    fn refusals_name_the_artifact_and_what_to_do() {
        let mut shelf = Shelf::new();
        shelf.parts[1].state = ArtifactState::Draft;
        let to_staged = Step::Promote { to: ArtifactState::Staged, percent: None };
        let refused = shelf.step(0, to_staged).unwrap_err();
        assert!(refused.message().contains("artifact b is draft"), "{}", refused.message());
        assert!(refused.message().contains("promote the artifact to staged"), "{}", refused.message());
        shelf.parts[1].state = ArtifactState::Deprecated;
        let refused = shelf.step(0, to_staged).unwrap_err();
        assert!(refused.message().contains("artifact b is deprecated"), "{}", refused.message());
        shelf.parts[1] = Part {
            verdict: verdict(Trust::Untrusted),
            state: ArtifactState::Active,
            ..shelf.parts[1].clone()
        };
        let refused = shelf.step(0, to_staged).unwrap_err();
        assert!(matches!(&refused, Refusal::Untrusted(says) if says.contains("artifact b")), "{refused:?}");
    }
}
