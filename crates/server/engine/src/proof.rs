//! Verifies a member's state: the platform inspects its cell and runs the checks of its manifest through agents.
//!
//! Nothing is cached: each check is dispatched after the adapter reported success, and dispatched again until it passes or
//! times out. Observed and expected results are stored as evidence. The inspection and all checks of a transition are
//! dispatched in parallel and evaluated in order.

use jiff::{SignedDuration, Timestamp};
use muster_db::{Result, StoreError};
use muster_ids::{NodeId, TaskId, TypedId as _};
use muster_manifest::{Check, Component, Manifest, Values, fill};
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellState};
use muster_model::instance::Instance;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::task::Task;
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_wire::act::{Act, CellProbe};
use muster_wire::task::{ProbeOrder, Ran};
use serde::{Deserialize, Serialize};

use serde_json::{Value, json};

use crate::allocation::owned_allocation;
use crate::cell::{CellJudged, cell_target, inspect_act, judge_cell, order, seen};
use crate::death::{Death, Life, cell_life, component_life, death_of, gone};
use crate::task::{Ask, Asked, ask, ask_anew, has_failed};
use crate::{StepAction, StepCx, StepOutcome};

/// Result of a verification.
pub(crate) enum Proof {
    /// Not known yet; the step does this meanwhile.
    Pending(StepAction),
    /// Verified, with this evidence.
    Seen(Evidence),
    /// Not verified, and why.
    Not(MemberFailure, String),
}

/// Evidence of a verification.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// One entry for each observation: subject, location, expected and observed result.
    pub(crate) checked: Vec<Value>,
    /// Node of the last observation.
    #[serde(rename = "node_id")]
    pub(crate) node: Option<NodeId>,
    /// Task of the last observation.
    #[serde(rename = "task_id")]
    pub(crate) task: Option<TaskId>,
    /// Whether the death of the member's own cell stands in for checks that could not run in it.
    pub(crate) lost: bool,
}

/// Claim under verification. The death of a cell proves that a member can leave, never that it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// A member works.
    Works,
    /// No work runs on a member, or nothing depends on it.
    Leaves,
}

impl Evidence {
    /// Appends later evidence.
    pub(crate) fn extend(&mut self, later: Evidence) {
        self.checked.extend(later.checked);
        self.node = later.node.or(self.node);
        self.task = later.task.or(self.task);
        self.lost |= later.lost;
    }

    /// Builds the evidence row of a member.
    pub(crate) fn witness(self, cx: &StepCx<'_>, member: &Member, transition: Transition) -> Witness {
        Witness {
            id: cx.env.id(),
            subject_id: member.id.uuid(),
            transition,
            kind: if self.lost { WitnessKind::Lost } else { WitnessKind::Witnessed },
            incarnation: member.incarnation,
            operation_id: Some(cx.operation.id),
            node_id: self.node,
            task_id: self.task,
            actor_id: None,
            result: json!({"checks": self.checked.len()}),
            checked: json!(self.checked),
            at: cx.now,
        }
    }
}

/// Task purpose of the platform's own inspection.
const LOOK: &str = "look";

/// Bounds of the pause before an unmet check is dispatched again.
const SOONEST: SignedDuration = SignedDuration::from_millis(100);
const LATEST: SignedDuration = SignedDuration::from_secs(1);

/// Returns the pause before the next attempt, given the time since the first: a check that needs a tenth of a second must
/// not wait a whole one.
fn pause(so_long: SignedDuration) -> SignedDuration {
    (so_long / 4).clamp(SOONEST, LATEST)
}

/// Returns the cell of a member, if it has one.
pub(crate) async fn cell_of(cx: &StepCx<'_>, member: &Member) -> Result<Option<Cell>> {
    match member.cell_id {
        Some(id) => cx.store.cell_lookup(id).await,
        None => Ok(None),
    }
}

/// One observation, with the key prefix of its tasks.
struct Observation {
    asked_as: String,
    found: ObservationState,
}

/// State of one observation, before it is evaluated in order with the others.
enum ObservationState {
    /// Not known yet; the step does this meanwhile.
    Pending(StepAction),
    /// Passed, by this task.
    Holds(Box<Answer>, Evidence),
    /// Failed, by this task, and why. It may still pass within this time.
    Fails(Box<Answer>, String, SignedDuration),
    /// No member can run it, and why. One may appear within this time; without one a forced removal continues, with this
    /// entry in its evidence.
    NoRunner(String, SignedDuration, Option<Value>),
    /// It certainly cannot be observed, and why.
    Impossible(String),
    /// Nothing is left to run it in: the cell is dead, with this proof.
    Lost(Evidence),
    /// Its own cell is dead, and the member should work.
    Ended,
}

/// A result, and the request to obtain it anew.
struct Answer {
    wanted: Ask,
    task: Task,
}

/// Verifies a member: inspects its cell, then evaluates the checks of its manifest. All of them must pass.
pub(crate) async fn verify(
    cx: &StepCx<'_>,
    expected: Expectation,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    checks: &[Check],
) -> Result<Proof> {
    let own = look(cx, expected, member).await?;
    // No work runs in a dead cell, whatever the other checks report.
    if let ObservationState::Lost(mut evidence) = own.found {
        evidence.checked.extend(
            checks
                .iter()
                .enumerate()
                .map(|(index, check)| not_checked(index, check, "its own cell is dead", &[])),
        );
        return Ok(Proof::Seen(evidence));
    }
    let mut observations = vec![own];
    for (index, check) in checks.iter().enumerate() {
        observations.push(run_check(cx, expected, manifest, instance, member, index, check).await?);
    }
    evaluate_in_order(cx, &mine(cx).await?, observations)
}

/// Runs checks of a leaving member without an inspection. Each keeps its number from the manifest, so that a result cannot
/// count for another check when some are skipped later.
pub(crate) async fn run_numbered(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    checks: &[(usize, Check)],
) -> Result<Proof> {
    let mut observations = Vec::new();
    for (index, check) in checks {
        observations
            .push(run_check(cx, Expectation::Leaves, manifest, instance, member, *index, check).await?);
    }
    evaluate_in_order(cx, &mine(cx).await?, observations)
}

/// Evaluates the observations in order. Checks are dispatched in parallel: a result counts only if it was requested no
/// earlier than the previous check's result, and is requested again otherwise. So no evidence is older than the evidence
/// before it, and no check's timeout starts before its predecessors have passed.
fn evaluate_in_order(cx: &StepCx<'_>, tasks: &[Task], observations: Vec<Observation>) -> Result<Proof> {
    let mut evidence = Evidence::default();
    let mut acts = Vec::new();
    let started = cx.operation.step(cx.step).and_then(|step| step.started_at);
    // When the previous check was requested, and when it was answered.
    let (mut asked, mut since) = (Timestamp::MIN, started.unwrap_or(cx.now));
    for Observation { asked_as, found } in observations {
        let first_asked = |since: Timestamp| {
            let such = tasks.iter().filter(|task| task.key.starts_with(&asked_as));
            such.map(|task| task.queued_at).filter(|at| *at >= since).min()
        };
        // A failure counts only once all earlier checks have passed.
        let turn = acts.is_empty();
        match found {
            ObservationState::Pending(act) => acts.push(act),
            _ if !turn => {}
            ObservationState::Holds(answer, seen) if answer.task.queued_at >= asked => {
                evidence.checked.extend(seen.checked);
                (evidence.node, evidence.task) = (seen.node, seen.task);
                asked = answer.task.queued_at;
                since = since.max(answer.task.finished_at.unwrap_or(asked));
            }
            ObservationState::Holds(answer, _) => acts.push(ask_anew(cx, &answer.wanted, &answer.task)?),
            ObservationState::Fails(answer, why, within) => {
                let answered = answer.task.finished_at.unwrap_or(cx.now);
                // `None`: it was only requested before its turn, so it has not failed yet.
                let again_at =
                    first_asked(since).map(|began| (began, answered + pause(cx.now.duration_since(began))));
                match again_at {
                    Some((began, _)) if cx.now >= began + within => {
                        return Ok(Proof::Not(MemberFailure::NotWitnessed, why));
                    }
                    Some((_, until)) if cx.now < until => {
                        acts.push(StepOutcome::Wait { reason: why, until }.into());
                    }
                    _ => acts.push(ask_anew(cx, &answer.wanted, &answer.task)?),
                }
            }
            // Its timeout starts when it was first requested, or could have been.
            ObservationState::NoRunner(why, within, waived) => {
                if cx.now >= first_asked(since).unwrap_or(since) + within {
                    let Some(waived) = waived else {
                        return Ok(Proof::Not(MemberFailure::NotWitnessed, why));
                    };
                    evidence.checked.push(waived);
                    continue;
                }
                acts.push(StepOutcome::Wait { reason: why, until: cx.now + LATEST }.into());
            }
            ObservationState::Impossible(why) => return Ok(Proof::Not(MemberFailure::NotWitnessed, why)),
            ObservationState::Lost(proof) => evidence.extend(proof),
            ObservationState::Ended => {
                let why = "its cell ended before it was verified".to_owned();
                return Ok(Proof::Not(MemberFailure::CellEnded, why));
            }
        }
    }
    Ok(match StepAction::combine(acts) {
        Some(act) => Proof::Pending(act),
        None => Proof::Seen(evidence),
    })
}

/// Inspects a member's cell: it exists, is of this incarnation, and its processes are ready.
async fn look(cx: &StepCx<'_>, expected: Expectation, member: &Member) -> Result<Observation> {
    let thing = |found: ObservationState| Observation { asked_as: format!("{}/{LOOK}/", cx.step), found };
    let Some(cell) = cell_of(cx, member).await? else {
        return Ok(thing(ObservationState::Impossible("it has no cell".to_owned())));
    };
    let allocation = cx.store.allocation_lookup(cell.allocation_id).await?;
    let allocation = allocation.ok_or(StoreError::Gone("allocation".to_owned()))?;
    if let Some(death) = gone(&cell).filter(|_| expected == Expectation::Leaves) {
        return Ok(thing(ObservationState::Lost(lost(death))));
    }
    if cell.state != CellState::Running || allocation.state != AllocationState::Active {
        let why = format!("its cell is {} in an allocation that is {}", cell.state, allocation.state);
        return Ok(thing(ObservationState::Impossible(why)));
    }
    let wanted = order(&cell, &allocation, inspect_act(&cell, &allocation), LOOK);
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(thing(ObservationState::Pending(act))),
        Asked::Done(task, found) => (task, seen(&found)),
        Asked::Failed(why) => return Ok(thing(ObservationState::Impossible(why))),
    };
    let spec =
        serde_json::from_value(cell.spec.clone()).map_err(|_| StoreError::Corrupt("a cell specification"))?;
    Ok(thing(match judge_cell(&cell, &spec, &found) {
        CellJudged::Ready => {
            let checked = json!({"what": "its cell", "node_id": task.node_id, "task_id": task.id,
                                 "incarnation": found.incarnation, "address": found.address,
                                 "services": found.services});
            let (node, by) = (Some(task.node_id), Some(task.id));
            let answer = Answer { wanted, task: *task };
            ObservationState::Holds(
                Box::new(answer),
                Evidence { checked: vec![checked], node, task: by, lost: false },
            )
        }
        _ if !found.present => match death_of(&cell, &found, &task) {
            Some(death) if expected == Expectation::Leaves => ObservationState::Lost(lost(death)),
            Some(_) => ObservationState::Ended,
            // The kernel may still be ending the last of its processes.
            None => {
                let why = "its cell does not run, and is not verified dead".to_owned();
                ObservationState::Fails(Box::new(Answer { wanted, task: *task }), why, cx.timing.task)
            }
        },
        // Not ready yet: inspected again until the timeout.
        CellJudged::Later(why) => {
            ObservationState::Fails(Box::new(Answer { wanted, task: *task }), why, cx.timing.task)
        }
        CellJudged::Not(_, why) => ObservationState::Impossible(why),
    }))
}

/// Evidence that a member's own cell is dead.
fn lost(death: Death) -> Evidence {
    Evidence { checked: death.checked, node: death.node, task: death.task, lost: true }
}

/// Evidence entry of a check that no cell is left to run.
pub(crate) fn not_checked(index: usize, check: &Check, why: &str, proof: &[Value]) -> Value {
    json!({"what": "a check of its manifest", "number": index, "in": check.place, "exec": check.exec, "not_checked": why,
           "proof": proof})
}

async fn run_check(
    cx: &StepCx<'_>,
    expected: Expectation,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    index: usize,
    check: &Check,
) -> Result<Observation> {
    let thing =
        |found: ObservationState| Observation { asked_as: format!("{}/check {index} in ", cx.step), found };
    let within = SignedDuration::from_secs(check.within_seconds().unwrap_or(0));
    let order_of = match probe(cx, manifest, instance, member, check).await? {
        Ok(order) => order,
        Err(why) => {
            return Ok(thing(ObservationState::Impossible(format!("check {index} cannot be run: {why}"))));
        }
    };
    for (at, cell) in places_of(cx, instance, member, check).await? {
        let (answered, failed) = run_beside(cx, &order_of, index, check, within, &at, &cell).await?;
        // No death proves that a member works; that of its own cell decides that it does not.
        let own = check.place == "self";
        if !failed || (expected == Expectation::Works && !own) {
            return Ok(thing(answered));
        }
        // The failure may be due to a dead cell. Then another cell may answer.
        match cell_life(cx, &cell).await? {
            Life::Pending(act) => return Ok(thing(ObservationState::Pending(act))),
            Life::NotProved(_) => return Ok(thing(answered)),
            Life::Dead(_) if expected == Expectation::Works => return Ok(thing(ObservationState::Ended)),
            Life::Dead(death) if own => {
                let why = "its own cell is dead";
                let checked = vec![not_checked(index, check, why, &death.checked)];
                return Ok(thing(ObservationState::Lost(Evidence { checked, ..lost(death) })));
            }
            Life::Dead(_) => {}
        }
    }
    if expected == Expectation::Leaves && check.place != "self" {
        match component_life(cx, instance, &check.place).await? {
            Life::Pending(act) => return Ok(thing(ObservationState::Pending(act))),
            Life::Dead(death) => {
                let why = format!("every cell of {} is dead", check.place);
                let checked = vec![not_checked(index, check, &why, &death.checked)];
                let evidence = Evidence { checked, node: death.node, task: death.task, lost: false };
                return Ok(thing(ObservationState::Lost(evidence)));
            }
            Life::NotProved(_) => {}
        }
    }
    let why =
        format!("check {index} runs in {}, which has no active member: it cannot be verified", check.place);
    let forced = expected == Expectation::Leaves && cx.operation.input.force;
    let waived = forced.then(|| not_checked(index, check, &why, &[]));
    Ok(thing(ObservationState::NoRunner(why, within, waived)))
}

/// Runs a check beside one cell; also returns whether the node failed to run it there.
async fn run_beside(
    cx: &StepCx<'_>,
    order_of: &ProbeOrder,
    index: usize,
    check: &Check,
    within: SignedDuration,
    at: &Member,
    cell: &Cell,
) -> Result<(ObservationState, bool)> {
    let allocation = cx.store.allocation_lookup(cell.allocation_id).await?;
    let allocation = allocation.ok_or(StoreError::Gone("allocation".to_owned()))?;
    let command = order_of.command.clone();
    let probe = CellProbe {
        allocation: owned_allocation(&allocation),
        cell: cell_target(cell),
        probe: order_of.clone(),
    };
    let wanted = order(cell, &allocation, Act::CellProbe(probe), format!("check {index} in {}", at.name));
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok((ObservationState::Pending(act), has_failed(cx, &wanted).await?)),
        Asked::Done(task, found) => (task, found),
        Asked::Failed(why) => {
            return Ok((
                ObservationState::Impossible(format!("check {index} could not be run: {why}")),
                true,
            ));
        }
    };
    let found = match judge(check, found.ran.as_ref()) {
        Ok(ran) => {
            let effects = json!({"what": "a check of its manifest", "number": index, "in": at.name, "exec": command,
                              "expect": check.expect, "exit": ran.exit, "stdout": ran.stdout, "stderr": ran.stderr,
                              "timed_out": ran.timed_out, "node_id": task.node_id, "task_id": task.id});
            let (node, by) = (Some(task.node_id), Some(task.id));
            let answer = Answer { wanted, task: *task };
            ObservationState::Holds(
                Box::new(answer),
                Evidence { checked: vec![effects], node, task: by, lost: false },
            )
        }
        Err(why) => {
            let why = format!("check {index} ({}, in {}) does not hold: {why}", command.join(" "), at.name);
            ObservationState::Fails(Box::new(Answer { wanted, task: *task }), why, within)
        }
    };
    Ok((found, false))
}

/// Returns the tasks that this step has queued in this retry epoch.
async fn mine(cx: &StepCx<'_>) -> Result<Vec<Task>> {
    let (step, round) = (format!("{}/", cx.step), format!("/{}/", cx.operation.input.retry_epoch));
    let mut tasks = cx.store.task_list(cx.operation.id).await?;
    tasks.retain(|task| task.key.starts_with(&step) && task.key.contains(&round));
    Ok(tasks)
}

/// Returns the cells beside which a check can run: the member's own, or those of a component's members, best first.
async fn places_of(
    cx: &StepCx<'_>,
    instance: &Instance,
    member: &Member,
    check: &Check,
) -> Result<Vec<(Member, Cell)>> {
    if check.place == "self" {
        return Ok(running(cx, member).await?.map(|cell| (member.clone(), cell)).into_iter().collect());
    }
    let places = cx.store.member_places(instance.id).await?;
    let unheard = |other: &Member| {
        places.iter().any(|place| place.member_id == other.id && place.unreachable_since.is_some())
    };
    let mut members = cx.store.member_living(instance.id).await?;
    members.retain(|other| {
        other.component_key == check.place && !other.fenced && can_observe(cx, other, member)
    });
    // The member itself comes last: it is asked only if it has no peer. Reachable and active members come first.
    members.sort_by_key(|other| {
        (other.id == member.id, unheard(other), other.state != MemberState::Active, other.id)
    });
    let mut found = Vec::new();
    for other in members {
        found.extend(running(cx, &other).await?.map(|cell| (other, cell)));
    }
    Ok(found)
}

/// Reports whether `other` can observe `member`. A member being withdrawn may still be known to draining members; every
/// other step needs an active one.
fn can_observe(cx: &StepCx<'_>, other: &Member, member: &Member) -> bool {
    let goes = cx.step == "verify_withdrawn";
    match other.state {
        MemberState::Active => true,
        MemberState::Draining | MemberState::Drained => goes || other.id == member.id,
        _ => other.id == member.id,
    }
}

/// Reports whether any other member can run this check: only then is it worth waiting for.
pub(crate) async fn has_observer(
    cx: &StepCx<'_>,
    instance: &Instance,
    member: &Member,
    check: &Check,
) -> Result<bool> {
    let members = cx.store.member_living(instance.id).await?;
    for other in members.iter().filter(|other| other.component_key == check.place && other.id != member.id) {
        let works = other.state == MemberState::Active;
        if works || (!other.fenced && can_observe(cx, other, member) && running(cx, other).await?.is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn running(cx: &StepCx<'_>, member: &Member) -> Result<Option<Cell>> {
    Ok(cell_of(cx, member).await?.filter(|cell| cell.state == CellState::Running))
}

async fn probe(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    check: &Check,
) -> Result<std::result::Result<ProbeOrder, String>> {
    let address = match cell_of(cx, member).await? {
        Some(cell) => {
            let network = cx.store.network_lookup(cell.network_id).await?;
            network.and_then(|network| network.address(cell.host)).map(|address| address.to_string())
        }
        None => None,
    }
    .unwrap_or_default();
    let (member_id, instance_id) = (member.id.to_string(), instance.id.to_string());
    let values = Values {
        member_name: &member.name,
        member_id: &member_id,
        member_address: &address,
        component_key: &member.component_key,
        instance_name: &instance.name,
        instance_id: &instance_id,
    };
    let _ = manifest;
    let filled: std::result::Result<Vec<String>, String> =
        check.exec.iter().map(|word| fill(word, &values).map_err(|why| why.to_string())).collect();
    Ok(filled.map(|command| ProbeOrder {
        command,
        environment: check.environment.clone(),
        sees: check.sees.clone(),
        uid: check.uid,
        gid: check.gid,
        timeout_seconds: 10,
    }))
}

/// Returns the result if it meets the check's expectation, and otherwise why not. A missing result counts as a failure.
fn judge<'r>(check: &Check, ran: Option<&'r Ran>) -> std::result::Result<&'r Ran, String> {
    let ran = ran.ok_or("the node returned no result")?;
    unmet(check, ran).map_or(Ok(ran), Err)
}

fn unmet(check: &Check, ran: &Ran) -> Option<String> {
    if ran.timed_out {
        return Some("it timed out".to_owned());
    }
    let wrote = ran.stdout.trim_end_matches(['\n', '\r']);
    if ran.exit != check.expect.exit {
        let complaint = ran.stderr.lines().last().unwrap_or_default();
        return Some(format!("it ended with {}, not {}; {complaint}", ran.exit, check.expect.exit));
    }
    let pattern = check.expect.stdout.as_deref()?;
    if ran.truncated {
        return Some(
            "it wrote more than is stored, and the beginning is lost: make it write less".to_owned(),
        );
    }
    match regex::Regex::new(pattern) {
        Ok(pattern) if pattern.is_match(wrote) => None,
        Ok(_) => Some(format!("it wrote {:?}, which does not match {pattern}", shortened(wrote))),
        Err(_) => Some(format!("{pattern} is not a regular expression")),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Returns the component of a member in a manifest.
pub(crate) fn component<'m>(manifest: &'m Manifest, member: &Member) -> Result<&'m Component> {
    manifest.component(&member.component_key).ok_or(StoreError::Corrupt("a component of the manifest"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(exit: i32, stdout: Option<&str>) -> Check {
        serde_json::from_value(
            json!({"exec": ["/bin/cat", "/x"], "expect": {"exit": exit, "stdout": stdout}}),
        )
        .unwrap()
    }

    fn ran(exit: i32, stdout: &str) -> Ran {
        Ran { exit, stdout: stdout.to_owned(), ..Ran::default() }
    }

    #[test]
    fn a_check_holds_only_with_its_exit_status_and_its_words() {
        assert_eq!(unmet(&check(0, None), &ran(0, "anything")), None);
        assert_eq!(unmet(&check(0, Some("^UP$")), &ran(0, "UP\n")), None);
        assert_eq!(unmet(&check(1, None), &ran(1, "")), None);
        for (check, ran) in [
            (check(0, None), ran(1, "")),
            (check(0, Some("^UP$")), ran(0, "UP DOWN")),
            (check(0, Some("^UP$")), ran(0, "")),
            (check(0, Some("^UP$")), ran(1, "UP")),
            (check(1, None), ran(0, "")),
            (check(0, None), Ran { timed_out: true, ..Ran::default() }),
            (check(0, Some("^UP$")), Ran { truncated: true, ..ran(0, "UP") }),
        ] {
            assert!(unmet(&check, &ran).is_some(), "{check:?} {ran:?}");
        }
        assert_eq!(unmet(&check(0, None), &Ran { truncated: true, ..ran(0, "much") }), None);
    }

    #[test]
    fn a_check_without_a_result_does_not_hold() {
        assert!(judge(&check(0, None), None).is_err());
        assert!(judge(&check(0, None), Some(&ran(0, ""))).is_ok());
        assert!(judge(&check(0, None), Some(&ran(1, ""))).is_err());
    }
}
