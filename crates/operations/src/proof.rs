//! Seeing for ourselves what a member is: the platform's own look, and the checks of its manifest, run through agents.
//!
//! Nothing is cached: each check is asked for after the adapter said that it was done, and asked again until it holds or its
//! time is over. What was seen is kept as evidence, with what was expected.

use jiff::{SignedDuration, Timestamp};
use muster_ids::{NodeId, TaskId, TypedId as _};
use muster_manifest::{Check, Component, Manifest, Values, fill};
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellState};
use muster_model::instance::Instance;
use muster_model::member::{Member, MemberState};
use muster_model::task::{Task, TaskKind};
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_node_api::task::{CellAct, ProbeOrder, Ran};
use muster_store::{Result, StoreError};
use serde_json::{Value, json};

use crate::cell::{CellJudged, judge_cell, order, seen};
use crate::task::{Asked, ask, ask_anew};
use crate::{Act, StepCx, Verdict};

/// How a proof stands.
pub(crate) enum Proof {
    /// Nothing to say yet; this is what the step does meanwhile.
    Pending(Act),
    /// It is so, and this is what was seen.
    Seen(Evidence),
    /// It is not so, and why.
    Not(String),
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// Each thing that was looked at: what, where, what was expected and what was found.
    pub(crate) checked: Vec<Value>,
    /// By whose agent, for the last of them.
    pub(crate) node: Option<NodeId>,
    /// By which task.
    pub(crate) task: Option<TaskId>,
}

impl Evidence {
    /// The row about a member.
    pub(crate) fn witness(self, cx: &StepCx<'_>, member: &Member, transition: Transition) -> Witness {
        Witness {
            id: cx.world.id(),
            subject_id: member.id.uuid(),
            transition,
            kind: WitnessKind::Witnessed,
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

/// What the platform's own look is asked for as.
const LOOK: &str = "look";

/// How often a check that does not hold yet is asked again.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// The cell of a member, if it has one.
pub(crate) async fn cell_of(cx: &StepCx<'_>, member: &Member) -> Result<Option<Cell>> {
    match member.cell_id {
        Some(id) => cx.store.cell_lookup(id).await,
        None => Ok(None),
    }
}

/// The platform's own look at a member's cell: it is there, it is of this incarnation, and what should run in it is ready.
pub(crate) async fn look(cx: &StepCx<'_>, member: &Member) -> Result<Proof> {
    let Some(cell) = cell_of(cx, member).await? else { return Ok(Proof::Not("it has no cell".to_owned())) };
    let allocation = cx.store.allocation_lookup(cell.allocation_id).await?;
    let allocation = allocation.ok_or(StoreError::Gone("allocation".to_owned()))?;
    if cell.state != CellState::Running || allocation.state != AllocationState::Active {
        let why = format!("its cell is {} in an allocation that is {}", cell.state, allocation.state);
        return Ok(Proof::Not(why));
    }
    let wanted = order(cx, &cell, &allocation, TaskKind::CellInspect, LOOK).await?;
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(Proof::Pending(act)),
        Asked::Done(task, found) => (task, seen(&found)),
        Asked::Failed(why) => return Ok(Proof::Not(why)),
    };
    let spec = serde_json::from_value(cell.spec.clone())
        .map_err(|_| StoreError::Corrupt("what a cell is made of"))?;
    match judge_cell(&cell, &spec, &found) {
        CellJudged::Ready => Ok(Proof::Seen(Evidence {
            checked: vec![json!({"what": "its cell", "node_id": task.node_id, "task_id": task.id,
                                 "incarnation": found.incarnation, "address": found.address,
                                 "services": found.services})],
            node: Some(task.node_id),
            task: Some(task.id),
        })),
        // What is not ready yet is asked for again until the time is over that it has since the first look.
        CellJudged::Later(why) if cx.now < first_seen(cx).await?.unwrap_or(cx.now) + cx.timing.task => {
            match task.finished_at.is_some_and(|at| cx.now < at + PAUSE) {
                true => Ok(Proof::Pending(Verdict::Wait { reason: why, until: cx.now + PAUSE }.into())),
                false => Ok(Proof::Pending(ask_anew(cx, &wanted, &task)?)),
            }
        }
        CellJudged::Later(why) | CellJudged::Not(_, why) => Ok(Proof::Not(why)),
    }
}

/// Runs the checks of a manifest, one after the other; all of them must hold.
pub(crate) async fn run_checks(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    checks: &[Check],
) -> Result<Proof> {
    let numbered: Vec<(usize, Check)> = checks.iter().cloned().enumerate().collect();
    run_numbered(cx, manifest, instance, member, &numbered).await
}

/// The same, with the number that each has in the manifest: what was asked of one must not answer for another when some are
/// left out meanwhile.
pub(crate) async fn run_numbered(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    checks: &[(usize, Check)],
) -> Result<Proof> {
    let mut evidence = Evidence::default();
    for (index, check) in checks {
        match run_check(cx, manifest, instance, member, *index, check).await? {
            Proof::Seen(seen) => {
                evidence.checked.extend(seen.checked);
                (evidence.node, evidence.task) = (seen.node, seen.task);
            }
            other => return Ok(other),
        }
    }
    Ok(Proof::Seen(evidence))
}

async fn run_check(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    index: usize,
    check: &Check,
) -> Result<Proof> {
    let Some((at, cell)) = place_of(cx, instance, member, check).await? else {
        let why = format!(
            "check {index} runs in {}, and no member of that is active: it cannot be seen",
            check.place
        );
        return waiting_for_place(cx, index, check, why).await;
    };
    let order_of = match probe(cx, manifest, instance, member, check).await? {
        Ok(order) => order,
        Err(why) => return Ok(Proof::Not(format!("check {index} cannot be run: {why}"))),
    };
    let allocation = cx.store.allocation_lookup(cell.allocation_id).await?;
    let allocation = allocation.ok_or(StoreError::Gone("allocation".to_owned()))?;
    let mut wanted =
        order(cx, &cell, &allocation, TaskKind::CellProbe, format!("check {index} in {}", at.name)).await?;
    let command = order_of.command.clone();
    wanted.details.act = Some(CellAct::Probe(order_of));
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(Proof::Pending(act)),
        Asked::Done(task, found) => (task, found),
        Asked::Failed(why) => return Ok(Proof::Not(format!("check {index} could not be run: {why}"))),
    };
    let why = match judge(check, found.ran.as_ref()) {
        Ok(ran) => {
            let told = json!({"what": "a check of its manifest", "number": index, "in": at.name, "exec": command,
                              "expect": check.expect, "exit": ran.exit, "stdout": ran.stdout, "stderr": ran.stderr,
                              "timed_out": ran.timed_out, "node_id": task.node_id, "task_id": task.id});
            return Ok(Proof::Seen(Evidence {
                checked: vec![told],
                node: Some(task.node_id),
                task: Some(task.id),
            }));
        }
        Err(why) => why,
    };
    let began = first_asked(cx, &mine(cx).await?, index).unwrap_or(cx.now);
    let within = SignedDuration::from_secs(check.within_seconds().unwrap_or(0));
    let sentence = format!("check {index} ({}, in {}) does not hold: {why}", command.join(" "), at.name);
    if cx.now >= began + within {
        return Ok(Proof::Not(sentence));
    }
    let again_at = task.finished_at.unwrap_or(cx.now) + PAUSE;
    if cx.now < again_at {
        return Ok(Proof::Pending(Verdict::Wait { reason: sentence, until: again_at }.into()));
    }
    Ok(Proof::Pending(ask_anew(cx, &wanted, &task)?))
}

/// What this step has asked of nodes in this round.
async fn mine(cx: &StepCx<'_>) -> Result<Vec<Task>> {
    let (step, round) =
        (format!("{}/", cx.step), format!("/{}/", cx.operation.input["round"].as_i64().unwrap_or(0)));
    let mut tasks = cx.store.task_list(cx.operation.id).await?;
    tasks.retain(|task| task.key.starts_with(&step) && task.key.contains(&round));
    Ok(tasks)
}

/// When the first look of this step was answered.
async fn first_seen(cx: &StepCx<'_>) -> Result<Option<Timestamp>> {
    let prefix = format!("{}/{LOOK}/", cx.step);
    let tasks = mine(cx).await?;
    Ok(tasks.iter().filter(|task| task.key.starts_with(&prefix)).filter_map(|task| task.finished_at).min())
}

/// When a check of this step was first asked for.
fn first_asked(cx: &StepCx<'_>, mine: &[Task], index: usize) -> Option<Timestamp> {
    let prefix = format!("{}/check {index} in ", cx.step);
    mine.iter().filter(|task| task.key.starts_with(&prefix)).map(|task| task.queued_at).min()
}

/// Its time runs since it was first asked for, or could have been: since what comes before it was answered.
async fn waiting_for_place(cx: &StepCx<'_>, index: usize, check: &Check, why: String) -> Result<Proof> {
    let tasks = mine(cx).await?;
    let started = || cx.operation.step(cx.step).and_then(|step| step.started_at);
    let began = first_asked(cx, &tasks, index)
        .or_else(|| tasks.iter().filter_map(|task| task.finished_at).max())
        .or_else(started)
        .unwrap_or(cx.now);
    let within = SignedDuration::from_secs(check.within_seconds().unwrap_or(0));
    if cx.now >= began + within {
        return Ok(Proof::Not(why));
    }
    Ok(Proof::Pending(Verdict::Wait { reason: why, until: cx.now + PAUSE }.into()))
}

/// Whose cell a check runs beside: the member's own, or that of the first active member of a component whose node is heard.
async fn place_of(
    cx: &StepCx<'_>,
    instance: &Instance,
    member: &Member,
    check: &Check,
) -> Result<Option<(Member, Cell)>> {
    if check.place == "self" {
        return Ok(running(cx, member).await?.map(|cell| (member.clone(), cell)));
    }
    let places = cx.store.member_places(instance.id).await?;
    let unheard = |other: &Member| {
        places.iter().any(|place| place.member_id == other.id && place.unreachable_since.is_some())
    };
    let mut members = cx.store.member_living(instance.id).await?;
    members.retain(|other| other.component_key == check.place && !other.fenced && knows(cx, other, member));
    // The first of a component has nobody but itself to be asked, and nobody is asked who is out of work while others are not.
    members.sort_by_key(|other| {
        (other.id == member.id, unheard(other), other.state != MemberState::Active, other.id)
    });
    for other in members {
        if let Some(cell) = running(cx, &other).await? {
            return Ok(Some((other, cell)));
        }
    }
    Ok(None)
}

/// Whether a member can be asked of another. One that goes may still be known where nobody works any more; for everything else
/// the word of one that works is wanted.
fn knows(cx: &StepCx<'_>, other: &Member, member: &Member) -> bool {
    let goes = cx.step == "verify_withdrawn";
    match other.state {
        MemberState::Active => true,
        MemberState::Draining | MemberState::Drained => goes || other.id == member.id,
        _ => other.id == member.id,
    }
}

/// Whether there is anybody beside the member itself who could say what a check asks: only then can it be asked at all.
pub(crate) async fn anybody(
    cx: &StepCx<'_>,
    instance: &Instance,
    member: &Member,
    check: &Check,
) -> Result<bool> {
    let members = cx.store.member_living(instance.id).await?;
    for other in members.iter().filter(|other| other.component_key == check.place && other.id != member.id) {
        let works = other.state == MemberState::Active;
        if works || (!other.fenced && knows(cx, other, member) && running(cx, other).await?.is_some()) {
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

/// What a check came to, if that is what it should be; otherwise why not. Whoever says that it was run, and not what came of
/// it, has said nothing.
fn judge<'r>(check: &Check, ran: Option<&'r Ran>) -> std::result::Result<&'r Ran, String> {
    let ran = ran.ok_or("the node did not say what came of it")?;
    unmet(check, ran).map_or(Ok(ran), Err)
}

fn unmet(check: &Check, ran: &Ran) -> Option<String> {
    if ran.timed_out {
        return Some("it did not end in time".to_owned());
    }
    let wrote = ran.stdout.trim_end_matches(['\n', '\r']);
    if ran.exit != check.expect.exit {
        let complaint = ran.stderr.lines().last().unwrap_or_default();
        return Some(format!("it ended with {}, not {}; {complaint}", ran.exit, check.expect.exit));
    }
    let pattern = check.expect.stdout.as_deref()?;
    if ran.truncated {
        return Some(
            "it wrote more than is kept, and its beginning is not known: have it write less".to_owned(),
        );
    }
    match regex::Regex::new(pattern) {
        Ok(pattern) if pattern.is_match(wrote) => None,
        Ok(_) => Some(format!("it wrote {:?}, which does not match {pattern}", shortened(wrote))),
        Err(_) => Some(format!("{pattern} is no regular expression")),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

/// The component of a member in a manifest.
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
