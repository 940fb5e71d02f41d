//! Which change of an artifact's state is allowed, and what it takes along: a pure function over what was read.

use jiff::{SignedDuration, Timestamp};

use super::{Artifact, ArtifactState, Trust, TrustPolicy, Verdict};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A step forward.
    Promote {
        /// To what.
        to: ArtifactState,
        /// To how many of a hundred starts a canary is offered.
        percent: Option<i64>,
    },
    /// A step back or out.
    Demote {
        /// To what.
        to: ArtifactState,
    },
}

/// Everything that the decision needs beside the artifact.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// What the project demands.
    pub policy: &'a TrustPolicy,
    /// What was found of its signatures, under that very edition of the policy.
    pub verdict: &'a Verdict,
    /// What lint holds against it, a sentence each.
    pub lint: &'a [String],
    /// Whether a cell of this very digest was witnessed running.
    pub smoked: bool,
    /// What lives and was made from it, a sentence each.
    pub held_by: &'a [String],
    /// The releases of apps that are made of it and not retired: what each is, in words, and how far it may be used.
    pub releases: &'a [(String, ArtifactState)],
    /// The active artifact of its line.
    pub active: Option<&'a Artifact>,
    /// The time.
    pub now: Timestamp,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moves {
    /// What the artifact becomes.
    pub to: ArtifactState,
    /// To how many of a hundred starts a canary is offered.
    pub percent: Option<i64>,
    /// Whether the active artifact of its line becomes deprecated with it.
    pub supersedes: bool,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The machine has no such step.
    NoSuchStep(String),
    /// Nobody signed it, or nobody whose signature counts.
    Untrusted(String),
    /// Lint.
    Lint(String),
    /// A smoke test is missing.
    NotSmoked(String),
    /// Something still needs it, or its time has not come.
    Held(String),
}

impl Refusal {
    /// The sentence.
    pub fn says(&self) -> &str {
        match self {
            Self::NoSuchStep(text)
            | Self::Untrusted(text)
            | Self::Lint(text)
            | Self::NotSmoked(text)
            | Self::Held(text) => text,
        }
    }
}

/// A canary that nobody gave a share is offered to so many of a hundred.
pub(crate) const PERCENT: i64 = 10;

/// Decides.
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

/// No release is further than what it is made of. One that is already there may go on with what is deprecated.
fn not_overtaken(to: ArtifactState, facts: &Facts<'_>) -> Result<(), Refusal> {
    let ahead =
        |state: ArtifactState| matches!(state, ArtifactState::Canary | ArtifactState::Active) && state > to;
    match facts.releases.iter().find(|(_, state)| ahead(*state)) {
        None => Ok(()),
        Some((release, state)) => Err(Refusal::Held(format!(
            "{release} is {state} and made of it, and no release is ahead of what it is made of: demote the release first"
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
        (ArtifactState::Retired, _) => "nothing: publish another",
        (ArtifactState::Draft, false) => "promote it to staged, or demote it to retired",
        (ArtifactState::Staged, false) => "demote it to retired, or promote it to canary",
    };
    Refusal::NoSuchStep(format!("it is {from} and cannot become {to} by this; what can be done is: {next}"))
}

pub(crate) fn trusted(to: ArtifactState, policy: &TrustPolicy, verdict: &Verdict) -> Result<(), Refusal> {
    match verdict.trust {
        Trust::Trusted => Ok(()),
        Trust::Untrusted => Err(Refusal::Untrusted(verdict.says.clone())),
        Trust::Unsigned if policy.lets_unsigned(to) => Ok(()),
        Trust::Unsigned => Err(Refusal::Untrusted(format!(
            "nobody signed it, and the project's policy lets what is unsigned become {} at the most: sign it with a key that \
             the project trusts, or change the policy",
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
            "the project's policy asks for a smoke test: make a cell from this digest, wait until it runs, and name it as \
             smoke_cell"
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
        return Err(Refusal::Held(format!("it is still needed: {}", facts.held_by.join("; "))));
    }
    if let Some((release, state)) = facts.releases.first() {
        return Err(Refusal::Held(format!(
            "it is still needed: {release} is made of it, which is {state}: retire that first"
        )));
    }
    Ok(())
}

/// From when on a deprecated artifact can be retired.
pub fn retirable_at(artifact: &Artifact, policy: &TrustPolicy) -> Option<Timestamp> {
    artifact.deprecated_at.map(|since| grace_ends(since, policy))
}

/// When the grace of what was deprecated then is over.
pub(crate) fn grace_ends(since: Timestamp, policy: &TrustPolicy) -> Timestamp {
    since.saturating_add(SignedDuration::from_hours(policy.grace_hours)).unwrap_or(Timestamp::MAX)
}
