//! The whole state machine as a property: no sequence of requests, legal or not, reaches a forbidden state.

use jiff::{SignedDuration, Timestamp};
use muster_ids::Env;
use proptest::prelude::*;

use super::*;

/// A request of the property.
#[derive(Debug, Clone)]
enum Act {
    Step { artifact: usize, step: Step },
    Sign { artifact: usize, trust: Trust },
    Policy { unsigned_up_to: ArtifactState, smoke: bool, grace: i64 },
    Smoke { artifact: usize },
    Start { artifact: usize },
    Release { artifact: usize, state: ArtifactState },
    Unrelease { artifact: usize },
    Stop { artifact: usize },
    Wait { hours: i64 },
}

fn states() -> impl Strategy<Value = ArtifactState> {
    (0..ArtifactState::ALL.len()).prop_map(|at| ArtifactState::ALL[at])
}

fn acts() -> impl Strategy<Value = Act> {
    let artifact = 0usize..4;
    let trust = prop_oneof![Just(Trust::Trusted), Just(Trust::Unsigned), Just(Trust::Untrusted)];
    prop_oneof![
        8 => (artifact.clone(), states(), proptest::option::of(1i64..=100), any::<bool>()).prop_map(
            |(artifact, to, percent, forward)| {
                let step = if forward { Step::Promote { to, percent } } else { Step::Demote { to } };
                Act::Step { artifact, step }
            }
        ),
        2 => (artifact.clone(), trust).prop_map(|(artifact, trust)| Act::Sign { artifact, trust }),
        1 => (0usize..4, any::<bool>(), 0i64..48).prop_map(|(at, smoke, grace)| Act::Policy {
            unsigned_up_to: ArtifactState::ALL[at], smoke, grace
        }),
        1 => artifact.clone().prop_map(|artifact| Act::Smoke { artifact }),
        1 => artifact.clone().prop_map(|artifact| Act::Start { artifact }),
        2 => (artifact.clone(), states()).prop_map(|(artifact, state)| Act::Release { artifact, state }),
        1 => artifact.clone().prop_map(|artifact| Act::Unrelease { artifact }),
        1 => artifact.prop_map(|artifact| Act::Stop { artifact }),
        1 => (1i64..40).prop_map(|hours| Act::Wait { hours }),
    ]
}

struct Site {
    artifacts: Vec<Artifact>,
    trust: Vec<Trust>,
    smoked: Vec<bool>,
    cells: Vec<u32>,
    /// Releases of apps that contain each artifact.
    releases: Vec<Vec<(String, ArtifactState)>>,
    policy: TrustPolicy,
    now: Timestamp,
}

fn artifact(env: &Env, line: &str) -> Artifact {
    Artifact {
        id: env.id(),
        tenant_id: env.id(),
        project_id: env.id(),
        repository_id: env.id(),
        repository: "train".to_owned(),
        digest: String::new(),
        kind: ArtifactKind::Oci,
        media_type: String::new(),
        size: 0,
        line: line.to_owned(),
        state: ArtifactState::Draft,
        canary_percent: None,
        verdict: None,
        policy: None,
        smoke_witness_id: None,
        superseded_by: None,
        deprecated_at: None,
        labels: Labels::default(),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        version: 1,
    }
}

impl Site {
    fn new() -> Self {
        let env = Env::for_tests(7);
        Self {
            // Three of one succession, and one of another.
            artifacts: ["main", "main", "main", "next"].map(|line| artifact(&env, line)).to_vec(),
            trust: vec![Trust::Unsigned; 4],
            smoked: vec![false; 4],
            cells: vec![0; 4],
            releases: vec![Vec::new(); 4],
            policy: TrustPolicy::default(),
            now: Timestamp::from_second(1_000_000).unwrap(),
        }
    }

    /// Runs a step as the use-case does: plan, then apply.
    fn step(&mut self, at: usize, step: Step) -> Result<(), Refusal> {
        let verdict = Verdict {
            trust: self.trust[at],
            reason: None,
            message: "no signature counts".to_owned(),
            key_id: None,
            signature: None,
            checked_at: self.now,
        };
        let held: Vec<String> = (0..self.cells[at]).map(|cell| format!("cell {cell}")).collect();
        let line = self.artifacts[at].line.clone();
        let active = self.artifacts.iter().position(|a| a.line == line && a.state == ArtifactState::Active);
        let moves = plan(
            &self.artifacts[at],
            step,
            &Facts {
                policy: &self.policy,
                verdict: &verdict,
                lint: &[],
                smoked: self.smoked[at],
                held_by: &held,
                releases: &self.releases[at],
                active: active.map(|active| &self.artifacts[active]),
                now: self.now,
            },
        )?;
        if moves.supersedes {
            let old = active.expect("only an active one is superseded");
            let by = self.artifacts[at].id;
            self.artifacts[old].state = ArtifactState::Deprecated;
            self.artifacts[old].superseded_by = Some(by);
            self.artifacts[old].deprecated_at = Some(self.now);
        }
        let artifact = &mut self.artifacts[at];
        if moves.to == ArtifactState::Deprecated {
            artifact.deprecated_at = Some(self.now);
        }
        artifact.state = moves.to;
        artifact.canary_percent = moves.percent;
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_sequence_of_requests_reaches_what_the_rules_forbid(acts in proptest::collection::vec(acts(), 1..60)) {
        let mut site = Site::new();
        for act in acts {
            match act {
                Act::Sign { artifact, trust } => site.trust[artifact] = trust,
                Act::Policy { unsigned_up_to, smoke, grace } => {
                    site.policy = TrustPolicy { unsigned_up_to, smoke_to_stage: smoke, grace_hours: grace, ..site.policy };
                }
                Act::Smoke { artifact } => site.smoked[artifact] = true,
                Act::Start { artifact } if site.artifacts[artifact].state.may_start() => site.cells[artifact] += 1,
                Act::Start { .. } => {}
                // A release that is compatible with the artifact's current state.
                Act::Release { artifact, state } => {
                    let now = site.artifacts[artifact].state;
                    let retired = [state, now].contains(&ArtifactState::Retired);
                    if !retired && (state <= now || state == ArtifactState::Deprecated) {
                        site.releases[artifact].push(("a release".to_owned(), state));
                    }
                }
                Act::Unrelease { artifact } => drop(site.releases[artifact].pop()),
                Act::Stop { artifact } => site.cells[artifact] = site.cells[artifact].saturating_sub(1),
                Act::Wait { hours } => site.now += SignedDuration::from_hours(hours),
                Act::Step { artifact: at, step } => {
                    let before: Vec<ArtifactState> = site.artifacts.iter().map(|a| a.state).collect();
                    let done = site.step(at, step).is_ok();
                    check(&site, &before, at, done)?;
                }
            }
        }
    }
}

/// The rules once more, independent of the planner.
fn check(site: &Site, before: &[ArtifactState], at: usize, done: bool) -> Result<(), TestCaseError> {
    use ArtifactState::{Active, Canary, Deprecated, Draft, Retired, Staged};
    for (index, artifact) in site.artifacts.iter().enumerate() {
        let (old, new) = (before[index], artifact.state);
        if old == new {
            continue;
        }
        prop_assert!(done, "a refused request changed something");
        let legal = matches!(
            (old, new),
            (Draft, Staged)
                | (Staged, Canary)
                | (Canary, Active | Staged)
                | (Active, Deprecated)
                | (Draft | Staged | Deprecated, Retired)
        );
        prop_assert!(legal, "{old} became {new}");
        if index != at {
            prop_assert!((old, new) == (Active, Deprecated), "a bystander went from {old} to {new}");
            prop_assert!(artifact.line == site.artifacts[at].line && site.artifacts[at].state == Active);
            continue;
        }
        let forward = matches!((old, new), (Draft, Staged) | (Staged, Canary) | (Canary, Active));
        if forward {
            let rank = |state| [Draft, Staged, Canary, Active].iter().position(|s| *s == state);
            let unsigned_may = rank(new) <= rank(site.policy.unsigned_up_to);
            prop_assert!(
                site.trust[at] == Trust::Trusted || (site.trust[at] == Trust::Unsigned && unsigned_may)
            );
        }
        if (old, new) == (Canary, Staged) {
            let ahead = site.releases[at].iter().any(|(_, state)| matches!(state, Canary | Active));
            prop_assert!(!ahead, "a release was left ahead of what it is made of");
        }
        if new == Staged && old == Draft && site.policy.smoke_to_stage {
            prop_assert!(site.smoked[at]);
        }
        if new == Retired {
            prop_assert!(site.cells[at] == 0, "retired while something runs from it");
            prop_assert!(site.releases[at].is_empty(), "retired while a release is made of it");
            // An artifact that was never active has no grace period: it was never offered.
            if old == Deprecated {
                let since = artifact.deprecated_at.unwrap();
                prop_assert!(site.now >= since + SignedDuration::from_hours(site.policy.grace_hours));
            }
        }
    }
    for line in ["main", "next"] {
        let active = site.artifacts.iter().filter(|a| a.line == line && a.state == Active).count();
        prop_assert!(active <= 1, "{active} are active in {line}");
    }
    for artifact in &site.artifacts {
        prop_assert!((artifact.state == Canary) == artifact.canary_percent.is_some());
    }
    Ok(())
}

#[test]
fn lint_keeps_an_artifact_from_being_staged_and_says_why() {
    let env = Env::for_tests(8);
    let verdict = Verdict {
        trust: Trust::Trusted,
        reason: None,
        message: String::new(),
        key_id: None,
        signature: None,
        checked_at: Timestamp::UNIX_EPOCH,
    };
    let lint = ["the environment contains API_TOKEN, which looks like a secret".to_owned()];
    let facts = Facts {
        policy: &TrustPolicy::default(),
        verdict: &verdict,
        lint: &lint,
        smoked: false,
        held_by: &[],
        releases: &[],
        active: None,
        now: Timestamp::UNIX_EPOCH,
    };
    let step = Step::Promote { to: ArtifactState::Staged, percent: None };
    let refused = plan(&artifact(&env, "main"), step, &facts).unwrap_err();
    assert!(matches!(&refused, Refusal::Lint(says) if says.contains("API_TOKEN")));
    let clean = Facts { lint: &[], ..facts };
    assert_eq!(plan(&artifact(&env, "main"), step, &clean).unwrap().to, ArtifactState::Staged);
}
