//! Assesses the health of a member from every report about it: its cell, its node, its adapter. Pure.
//!
//! No single report decides. A fact that is not confirmed within its bound makes the member `unknown`, never `healthy`; a
//! cell that its agent found dead stays dead in that incarnation, even if its node falls silent afterwards.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::instance::Health;
use crate::reason::reasons;
use crate::repair::Breaker;

reasons! {
    /// Cause of a member's health, unless it is simply healthy.
    HealthReason;
    CellExited = "cell_exited", "Its cell ended. Recover it where it is, or replace it.";
    ServiceRestarting = "service_restarting", "A service ended or is not ready, and is being restarted. See its logs if that continues.";
    ServiceFailed = "service_failed", "A service ended for good, or did not become ready again in time. See its logs, then recover or replace it.";
    CrashLoop = "crash_loop", "A service keeps ending, though its supervisor restarts it each time. See its logs.";
    CellImpaired = "cell_impaired", "Its cell runs with a fault; the message names it.";
    NodeUnreachable = "node_unreachable", "Its node does not answer. Wait for the node, or replace the member.";
    Unconfirmed = "unconfirmed", "Its node answers without confirming the status of its cells. See the log of the node's agent.";
    AdapterSilent = "adapter_silent", "Its adapter no longer reports. Start the adapter, or see its log.";
    AdapterReport = "adapter_report", "Its adapter reports this; the message is the adapter's.";
}

/// Latest status of a cell as reported by its node's agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellObservation {
    /// Its incarnation.
    pub incarnation: i64,
    /// Whether its init process ran.
    pub alive: bool,
    /// Its services.
    pub services: Vec<ServiceObservation>,
    /// Any other problem.
    pub message: Option<String>,
    /// Boot of the machine.
    pub boot_id: String,
    /// Time since which it is alive, or dead.
    pub since: Timestamp,
    /// Time of the report.
    pub observed_at: Timestamp,
}

/// Status of a service in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceObservation {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ServiceState,
    /// Whether it is ready.
    pub ready: bool,
    /// Number of restarts.
    #[serde(default)]
    pub restarts: u32,
    /// Its last exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Times of its latest restarts: those that still count for a crash loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarted_at: Vec<Timestamp>,
}

/// Restarts within the window that make a crash loop, even while the service is up.
pub const CRASH_LOOP: Breaker = Breaker { most: 3, window: SignedDuration::from_mins(10) };
/// Maximum number of remembered restarts.
const REMEMBERED: usize = 20;

impl ServiceObservation {
    /// Returns the number of restarts since the previous report on the same incarnation.
    pub fn restarts_since(&self, before: Option<&Self>) -> u32 {
        self.restarts.saturating_sub(before.map_or(0, |one| one.restarts))
    }

    /// Records the restarts since the previous report. Restarts before the cell is active do not count: services retry until
    /// their dependencies are up.
    pub fn note_restarts(&mut self, before: Option<&Self>, at_work: bool, now: Timestamp) {
        self.restarted_at = CRASH_LOOP.recent(before.map_or(&[], |one| &one.restarted_at), now);
        let new = if at_work { self.restarts_since(before) } else { 0 };
        let new = usize::try_from(new).unwrap_or(REMEMBERED);
        self.restarted_at.extend(std::iter::repeat_n(now, new.min(REMEMBERED)));
        let excess = self.restarted_at.len().saturating_sub(REMEMBERED);
        self.restarted_at.drain(..excess);
    }

    /// Returns until when it counts as in a crash loop, if it does.
    pub fn crash_loop_until(&self, now: Timestamp) -> Option<Timestamp> {
        let recent = CRASH_LOOP.recent(&self.restarted_at, now);
        let most = usize::try_from(CRASH_LOOP.most).ok()?;
        recent.len().checked_sub(most).map(|first| recent[first] + CRASH_LOOP.window)
    }
}

/// State of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// It is not meant to run now.
    Idle,
    /// It waits for its dependencies.
    Waiting,
    /// It runs.
    Running,
    /// It ended and is about to be restarted.
    Restarting,
    /// It ended for good.
    Ended,
}

/// Latest report of an adapter about a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterReport {
    /// Incarnation that it refers to.
    pub incarnation: i64,
    /// Reported health.
    pub health: Health,
    /// Its reason.
    pub message: Option<String>,
}

/// Facts about a member's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeFacts<'f> {
    /// Its name.
    pub name: &'f str,
    /// Time since which it is unreachable.
    pub unreachable_since: Option<Timestamp>,
    /// When its agent last confirmed the status of its cells; `None` if it never reported any.
    pub confirmed_at: Option<Timestamp>,
}

/// Facts about an active member.
#[derive(Debug, Clone, Copy)]
pub struct MemberFacts<'f> {
    /// Its incarnation.
    pub incarnation: i64,
    /// When it became active: what is younger than a report may not be in it.
    pub changed_at: Timestamp,
    /// Its node.
    pub node: Option<NodeFacts<'f>>,
    /// Its cell.
    pub cell: Option<&'f CellObservation>,
    /// Its adapter's report.
    pub report: Option<&'f AdapterReport>,
    /// Time from which its adapter counts as silent; `None` if the app has no adapter.
    pub adapter_silent_at: Option<Timestamp>,
    /// Previous cause of its health, and since when.
    pub before: Option<(HealthReason, Timestamp)>,
}

/// Time limits for silent sources and restarting services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Time within which a node must confirm the status of its cells.
    pub confirm: SignedDuration,
    /// Time that a service may be down before its member is repaired.
    pub restart: SignedDuration,
}

/// Assessed health of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The health.
    pub health: Health,
    /// Its cause.
    pub reason: Option<HealthReason>,
    /// Message for users.
    pub message: Option<String>,
    /// Start of this health.
    pub since: Timestamp,
    /// When the passing of time alone may change it.
    pub review_at: Option<Timestamp>,
}

impl Assessment {
    /// An assessment with a message and no cause.
    pub fn new(health: Health, message: Option<&str>, since: Timestamp) -> Self {
        Self { health, reason: None, message: message.map(str::to_owned), since, review_at: None }
    }

    /// Reports whether its cell is proved dead.
    pub fn is_lost(&self) -> bool {
        self.reason == Some(HealthReason::CellExited)
    }

    /// Reports whether it stays broken unless it is repaired.
    pub fn needs_repair(&self) -> bool {
        self.health == Health::Unhealthy && self.reason != Some(HealthReason::ServiceRestarting)
    }
}

/// Assesses an active member.
pub fn assess_member(facts: &MemberFacts<'_>, bounds: Bounds, now: Timestamp) -> Assessment {
    let verdict = |health, reason, message: String, since| Assessment {
        health,
        reason: Some(reason),
        message: Some(message),
        since: facts.before.filter(|(before, _)| *before == reason).map_or(since, |(_, since)| since),
        review_at: None,
    };
    let cell = facts.cell.filter(|cell| cell.incarnation == facts.incarnation);
    if let Some(dead) = cell.filter(|cell| !cell.alive) {
        let why = dead.message.as_deref().unwrap_or("its first process ended");
        return verdict(
            Health::Unhealthy,
            HealthReason::CellExited,
            format!("cell exited: {why}"),
            dead.since,
        );
    }
    if let Some(node) = facts.node {
        if let Some(since) = node.unreachable_since {
            let message = format!("node {} is unreachable; its cells may still run", node.name);
            return verdict(Health::Unknown, HealthReason::NodeUnreachable, message, since);
        }
        // A node that never confirmed has had its time since the member became active.
        let at = node.confirmed_at.unwrap_or(facts.changed_at);
        // A confirmation changes no row of the instance, so this is reviewed in any case.
        let unconfirmed = |message, since| Assessment {
            review_at: Some(later(now, bounds.confirm)),
            ..verdict(Health::Unknown, HealthReason::Unconfirmed, message, since)
        };
        if now.duration_since(at) >= bounds.confirm {
            let message = format!("node {} has not confirmed the status of its cells", node.name);
            return unconfirmed(message, at);
        }
        let unreported_since = later(facts.changed_at, bounds.confirm);
        if cell.is_none() && node.confirmed_at.is_some_and(|at| at > unreported_since) {
            let message = format!("node {} does not report its cell", node.name);
            return unconfirmed(message, unreported_since);
        }
    }
    if let Some(trouble) = cell.and_then(|cell| service_trouble(cell, facts.before, bounds, now)) {
        return trouble;
    }
    if let Some(silent_at) = facts.adapter_silent_at.filter(|at| now >= *at) {
        let message = "its adapter has not reported in time".to_owned();
        return verdict(Health::Unknown, HealthReason::AdapterSilent, message, silent_at);
    }
    let never_confirmed = facts.node.is_some_and(|node| node.confirmed_at.is_none());
    let unconfirmed_at = never_confirmed.then(|| later(facts.changed_at, bounds.confirm));
    // A confirmation that follows without a report of its cell starts no assessment.
    let is_unreported = facts.node.is_some() && cell.is_none();
    let unreported_at = is_unreported.then(|| later(later(facts.changed_at, bounds.confirm), bounds.confirm));
    let review_at = facts.adapter_silent_at.into_iter().chain(unconfirmed_at).chain(unreported_at).min();
    if let Some(report) = facts.report.filter(|report| report.incarnation == facts.incarnation)
        && report.health != Health::Healthy
    {
        let message = report.message.clone().unwrap_or_else(|| "its adapter gave no reason".to_owned());
        let reported = verdict(report.health, HealthReason::AdapterReport, message, now);
        return Assessment { review_at, ..reported };
    }
    let looping = |cell: &CellObservation| {
        cell.services.iter().find_map(|one| Some((one.clone(), one.crash_loop_until(now)?)))
    };
    if let Some((service, until)) = cell.and_then(looping) {
        let message = crash_loop_message(&service);
        let review_at = Some(review_at.map_or(until, |at| at.min(until)));
        let degraded = verdict(Health::Degraded, HealthReason::CrashLoop, message, now);
        return Assessment { review_at, ..degraded };
    }
    if let Some(message) = cell.and_then(|cell| cell.message.clone()) {
        let impaired = verdict(Health::Degraded, HealthReason::CellImpaired, message, now);
        return Assessment { review_at, ..impaired };
    }
    let message = facts.report.filter(|report| report.incarnation == facts.incarnation);
    let message = message.and_then(|report| report.message.clone());
    Assessment { health: Health::Healthy, reason: None, message, since: now, review_at }
}

/// Without a count: a message that changes with each restart would count as a change of health.
fn crash_loop_message(service: &ServiceObservation) -> String {
    let minutes = CRASH_LOOP.window.as_mins();
    let exit = service.exit.map(|exit| format!(", with status {exit}")).unwrap_or_default();
    format!("service {} ended {} times or more within {minutes} minutes{exit}", service.name, CRASH_LOOP.most)
}

/// Returns the first service that should be ready and is not.
fn service_trouble(
    cell: &CellObservation,
    before: Option<(HealthReason, Timestamp)>,
    bounds: Bounds,
    now: Timestamp,
) -> Option<Assessment> {
    let service = cell.services.iter().find(|one| !one.ready && one.state != ServiceState::Idle)?;
    let earlier = before.filter(|(reason, _)| {
        matches!(reason, HealthReason::ServiceRestarting | HealthReason::ServiceFailed)
    });
    let since = earlier.map_or(now, |(_, since)| since);
    let over = service.state == ServiceState::Ended || now.duration_since(since) >= bounds.restart;
    let exit = service.exit.map(|exit| format!(" with status {exit}")).unwrap_or_default();
    let what = match service.state {
        ServiceState::Ended => format!("ended{exit} and is not restarted"),
        ServiceState::Restarting => format!("ended{exit} and is being restarted"),
        ServiceState::Waiting => "waits for others".to_owned(),
        ServiceState::Running | ServiceState::Idle => "runs and is not ready".to_owned(),
    };
    let why = service.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    Some(Assessment {
        health: Health::Unhealthy,
        reason: Some(if over { HealthReason::ServiceFailed } else { HealthReason::ServiceRestarting }),
        message: Some(format!("service {} {what}{why}", service.name)),
        since,
        review_at: (!over).then(|| later(since, bounds.restart)),
    })
}

/// Adds a bound, which may be "never".
fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
