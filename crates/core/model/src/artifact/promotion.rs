//! Decides which promotions of an artifact are allowed, and what they entail: pure.

use jiff::{SignedDuration, Timestamp};

use super::{Artifact, ArtifactState, Trust, TrustPolicy, Verdict};

/// Requested change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Promote.
    Promote {
        /// Target state.
        to: ArtifactState,
        /// Percentage of starts that get the canary.
        percent: Option<i64>,
    },
    /// Demote or retire.
    Demote {
        /// Target state.
        to: ArtifactState,
    },
}

/// Inputs of the decision besides the artifact.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The project's policy.
    pub policy: &'a TrustPolicy,
    /// Result of verifying its signatures under that edition of the policy.
    pub verdict: &'a Verdict,
    /// Lint errors, one sentence each.
    pub lint: &'a [String],
    /// Whether a cell of this digest was verified as running.
    pub smoked: bool,
    /// Living users of the artifact, one sentence each.
    pub held_by: &'a [String],
    /// Unretired releases of apps that contain it: description and promotion state.
    pub releases: &'a [(String, ArtifactState)],
    /// The active artifact of its succession.
    pub active: Option<&'a Artifact>,
    /// Current time.
    pub now: Timestamp,
}

/// Resulting changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moves {
    /// New state of the artifact.
    pub to: ArtifactState,
    /// Percentage of starts that get the canary.
    pub percent: Option<i64>,
    /// Whether the active artifact of its succession becomes deprecated.
    pub supersedes: bool,
}

/// Why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No such transition exists.
    NoSuchStep(String),
    /// It has no valid signature.
    Untrusted(String),
    /// Lint errors.
    Lint(String),
    /// A smoke test is missing.
    NotSmoked(String),
    /// It is still in use, or its grace period has not ended.
    Held(String),
}

impl Refusal {
    /// Returns the message.
    pub fn message(&self) -> &str {
        match self {
            Self::NoSuchStep(text)
            | Self::Untrusted(text)
            | Self::Lint(text)
            | Self::NotSmoked(text)
            | Self::Held(text) => text,
        }
    }
}

/// Default canary percentage.
pub(crate) const PERCENT: i64 = 10;

/// Decides on a change.
pub fn plan(artifact: &Artifact, step: Step, facts: &Facts<'_>) -> Result<Moves, Refusal> {
    let from = artifact.state;
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
        trusted(to, facts.policy, facts.verdict)?;
    }
    if to == ArtifactState::Staged && forward {
        staged(facts)?;
    }
    if !forward && to != ArtifactState::Retired {
        not_overtaken(to, facts)?;
    }
    if to == ArtifactState::Retired {
        retired(artifact, facts)?;
    }
    let percent = match step {
        Step::Promote { to: ArtifactState::Canary, percent } => Some(percent.unwrap_or(PERCENT)),
        _ => None,
    };
    let supersedes = to == ArtifactState::Active && facts.active.is_some();
    Ok(Moves { to, percent, supersedes })
}

/// Ensures that no release is ahead of its artifact. An already promoted one may keep a deprecated artifact.
fn not_overtaken(to: ArtifactState, facts: &Facts<'_>) -> Result<(), Refusal> {
    let ahead =
        |state: ArtifactState| matches!(state, ArtifactState::Canary | ArtifactState::Active) && state > to;
    match facts.releases.iter().find(|(_, state)| ahead(*state)) {
        None => Ok(()),
        Some((release, state)) => Err(Refusal::Held(format!(
            "{release} is {state} and uses it, and a release cannot be ahead of its artifacts: demote the release first"
        ))),
    }
}

pub(crate) fn no_such_step(from: ArtifactState, to: ArtifactState, forward: bool) -> Refusal {
    let next = match (from, forward) {
        (ArtifactState::Draft, true) => "promote it to staged, or demote it to retired",
        (ArtifactState::Staged, true) => "promote it to canary, or demote it to retired",
        (ArtifactState::Canary, true) => "promote it to active, or demote it to staged",
        (ArtifactState::Canary, false) => "demote it to staged, or promote it to active",
        (ArtifactState::Active, _) => "demote it to deprecated, or promote another of its line",
        (ArtifactState::Deprecated, _) => "demote it to retired",
        (ArtifactState::Retired, _) => "none: publish another",
        (ArtifactState::Draft, false) => "promote it to staged, or demote it to retired",
        (ArtifactState::Staged, false) => "demote it to retired, or promote it to canary",
    };
    Refusal::NoSuchStep(format!("it is {from} and cannot become {to} by this; allowed: {next}"))
}

pub(crate) fn trusted(to: ArtifactState, policy: &TrustPolicy, verdict: &Verdict) -> Result<(), Refusal> {
    match verdict.trust {
        Trust::Trusted => Ok(()),
        Trust::Untrusted => Err(Refusal::Untrusted(verdict.message.clone())),
        Trust::Unsigned if policy.lets_unsigned(to) => Ok(()),
        Trust::Unsigned => Err(Refusal::Untrusted(format!(
            "it has no signature, and the project's policy allows unsigned artifacts to become {} at most: \
             sign it with a key that the project trusts, or change the policy",
            policy.unsigned_up_to
        ))),
    }
}

fn staged(facts: &Facts<'_>) -> Result<(), Refusal> {
    if !facts.lint.is_empty() {
        return Err(Refusal::Lint(facts.lint.join("; ")));
    }
    if facts.policy.smoke_to_stage && !facts.smoked {
        return Err(Refusal::NotSmoked(
            "the project's policy requires a smoke test: create a cell from this digest, wait until it runs, \
             and name it as smoke_cell"
                .to_owned(),
        ));
    }
    Ok(())
}

fn retired(artifact: &Artifact, facts: &Facts<'_>) -> Result<(), Refusal> {
    if let Some(at) = retirable_at(artifact, facts.policy).filter(|at| *at > facts.now) {
        return Err(Refusal::Held(format!("its grace period ends at {at}")));
    }
    if !facts.held_by.is_empty() {
        return Err(Refusal::Held(format!("it is still in use: {}", facts.held_by.join("; "))));
    }
    if let Some((release, state)) = facts.releases.first() {
        return Err(Refusal::Held(format!(
            "it is still in use: {release} uses it and is {state}: retire that first"
        )));
    }
    Ok(())
}

/// Returns when a deprecated artifact can be retired.
pub fn retirable_at(artifact: &Artifact, policy: &TrustPolicy) -> Option<Timestamp> {
    artifact.deprecated_at.map(|since| grace_ends(since, policy))
}

/// Returns the end of the grace period.
pub(crate) fn grace_ends(since: Timestamp, policy: &TrustPolicy) -> Timestamp {
    since.saturating_add(SignedDuration::from_hours(policy.grace_hours)).unwrap_or(Timestamp::MAX)
}
