//! Seeing for ourselves what a member is: the platform's own look, and the checks of its manifest, run through agents.
//!
//! Nothing is cached: each check is asked for after the adapter said that it was done, and asked again until it holds or its
//! time is over. What was seen is kept as evidence, with what was expected. The look and all checks of a transition are asked
//! for at once, and judged one after the other.

use jiff::{SignedDuration, Timestamp};
use muster_db::{Result, StoreError};
use muster_ids::{NodeId, TaskId, TypedId as _};
use muster_manifest::{Check, Component, Manifest, Values, fill};
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellState};
use muster_model::instance::Instance;
use muster_model::member::{Member, MemberState};
use muster_model::task::{Task, TaskKind};
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_wire::task::{CellAct, ProbeOrder, Ran};
use serde_json::{Value, json};

use crate::cell::{CellJudged, judge_cell, order, seen};
use crate::death::{Death, Life, cell_life, component_life, death_of, gone};
use crate::task::{Ask, Asked, ask, ask_anew, has_failed};
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
    /// Whether the death of the member's own cell stands in for what could not be checked in it.
    pub(crate) lost: bool,
}

/// What a proof is for. The death of a cell proves that a member can leave, and never that it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// That a member works.
    Works,
    /// That no work is on a member, or nothing counts on it.
    Leaves,
}

impl Evidence {
    /// Adds what was seen after it.
    pub(crate) fn extend(&mut self, later: Evidence) {
        self.checked.extend(later.checked);
        self.node = later.node.or(self.node);
        self.task = later.task.or(self.task);
        self.lost |= later.lost;
    }

    /// The row about a member.
    pub(crate) fn witness(self, cx: &StepCx<'_>, member: &Member, transition: Transition) -> Witness {
        Witness {
            id: cx.world.id(),
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

/// What the platform's own look is asked for as.
const LOOK: &str = "look";

/// How soon what does not hold yet is asked again at first, and how soon at the latest.
const SOONEST: SignedDuration = SignedDuration::from_millis(100);
const LATEST: SignedDuration = SignedDuration::from_secs(1);

/// The pause before something is asked again that has been asked for so long: what takes a tenth of a second is not waited for
/// a whole one.
fn pause(so_long: SignedDuration) -> SignedDuration {
    (so_long / 4).clamp(SOONEST, LATEST)
}

/// The cell of a member, if it has one.
pub(crate) async fn cell_of(cx: &StepCx<'_>, member: &Member) -> Result<Option<Cell>> {
    match member.cell_id {
        Some(id) => cx.store.cell_lookup(id).await,
        None => Ok(None),
    }
}

/// One thing that is looked at, with how the tasks are called that look at it.
struct Thing {
    asked_as: String,
    found: Found,
}

/// How one thing stands by itself, before it is judged in its place among the others.
enum Found {
    /// Nothing to say yet; this is what the step does meanwhile.
    Pending(Act),
    /// It is so, by this task.
    Holds(Box<Answer>, Evidence),
    /// It is not so, by this task, and why. It may become so within this time.
    Fails(Box<Answer>, String, SignedDuration),
    /// There is nobody to be asked, and why. Somebody may come within this time.
    Nowhere(String, SignedDuration),
    /// It surely cannot be seen, and why.
    Never(String),
    /// Nothing is left that could be asked: it is dead, and this is the proof.
    Lost(Evidence),
}

/// What was answered, and what would be asked for to have it answered anew.
struct Answer {
    wanted: Ask,
    task: Task,
}

/// Sees what a member is: the platform's own look, and then the checks of its manifest. All of it must hold.
pub(crate) async fn see(
    cx: &StepCx<'_>,
    claim: Claim,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    checks: &[Check],
) -> Result<Proof> {
    let own = look(cx, claim, member).await?;
    // On a dead cell is no work, whatever others say of it.
    if let Found::Lost(mut evidence) = own.found {
        evidence.checked.extend(
            checks
                .iter()
                .enumerate()
                .map(|(index, check)| not_checked(index, check, "its own cell is dead", &[])),
        );
        return Ok(Proof::Seen(evidence));
    }
    let mut things = vec![own];
    for (index, check) in checks.iter().enumerate() {
        things.push(run_check(cx, claim, manifest, instance, member, index, check).await?);
    }
    in_turn(cx, &mine(cx).await?, things)
}

/// Runs checks of a member that leaves without a look, each with the number that it has in the manifest: what was asked of one must not answer for
/// another when some are left out meanwhile.
pub(crate) async fn run_numbered(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    checks: &[(usize, Check)],
) -> Result<Proof> {
    let mut things = Vec::new();
    for (index, check) in checks {
        things.push(run_check(cx, Claim::Leaves, manifest, instance, member, *index, check).await?);
    }
    in_turn(cx, &mine(cx).await?, things)
}

/// Judges what was asked at once as if each had been asked when those before it were answered. Where all of it holds, that is
/// one question; where something does not, what comes after it counts only if it was not asked before it, and is asked again
/// otherwise. So no evidence is older than that which comes before it, and nobody's time runs before its turn.
fn in_turn(cx: &StepCx<'_>, tasks: &[Task], things: Vec<Thing>) -> Result<Proof> {
    let mut evidence = Evidence::default();
    let mut acts = Vec::new();
    let started = cx.operation.step(cx.step).and_then(|step| step.started_at);
    // When what comes before was asked, and when it was answered.
    let (mut asked, mut since) = (Timestamp::MIN, started.unwrap_or(cx.now));
    for Thing { asked_as, found } in things {
        let first_asked = |since: Timestamp| {
            let such = tasks.iter().filter(|task| task.key.starts_with(&asked_as));
            such.map(|task| task.queued_at).filter(|at| *at >= since).min()
        };
        // What could not be answered before its turn is left until that comes.
        let turn = acts.is_empty();
        match found {
            Found::Pending(act) => acts.push(act),
            _ if !turn => {}
            Found::Holds(answer, seen) if answer.task.queued_at >= asked => {
                evidence.checked.extend(seen.checked);
                (evidence.node, evidence.task) = (seen.node, seen.task);
                asked = answer.task.queued_at;
                since = since.max(answer.task.finished_at.unwrap_or(asked));
            }
            Found::Holds(answer, _) => acts.push(ask_anew(cx, &answer.wanted, &answer.task)?),
            Found::Fails(answer, why, within) => {
                let answered = answer.task.finished_at.unwrap_or(cx.now);
                // Only before its turn: that is no answer yet.
                let again_at =
                    first_asked(since).map(|began| (began, answered + pause(cx.now.duration_since(began))));
                match again_at {
                    Some((began, _)) if cx.now >= began + within => return Ok(Proof::Not(why)),
                    Some((_, until)) if cx.now < until => {
                        acts.push(Verdict::Wait { reason: why, until }.into());
                    }
                    _ => acts.push(ask_anew(cx, &answer.wanted, &answer.task)?),
                }
            }
            // Its time runs since it was first asked for, or could have been.
            Found::Nowhere(why, within) => {
                if cx.now >= first_asked(since).unwrap_or(since) + within {
                    return Ok(Proof::Not(why));
                }
                acts.push(Verdict::Wait { reason: why, until: cx.now + LATEST }.into());
            }
            Found::Never(why) => return Ok(Proof::Not(why)),
            Found::Lost(proof) => evidence.extend(proof),
        }
    }
    Ok(match Act::together(acts) {
        Some(act) => Proof::Pending(act),
        None => Proof::Seen(evidence),
    })
}

/// The platform's own look at a member's cell: it is there, it is of this incarnation, and what should run in it is ready.
async fn look(cx: &StepCx<'_>, claim: Claim, member: &Member) -> Result<Thing> {
    let thing = |found: Found| Thing { asked_as: format!("{}/{LOOK}/", cx.step), found };
    let Some(cell) = cell_of(cx, member).await? else {
        return Ok(thing(Found::Never("it has no cell".to_owned())));
    };
    let allocation = cx.store.allocation_lookup(cell.allocation_id).await?;
    let allocation = allocation.ok_or(StoreError::Gone("allocation".to_owned()))?;
    if let Some(death) = gone(&cell).filter(|_| claim == Claim::Leaves) {
        return Ok(thing(Found::Lost(lost(death))));
    }
    if cell.state != CellState::Running || allocation.state != AllocationState::Active {
        let why = format!("its cell is {} in an allocation that is {}", cell.state, allocation.state);
        return Ok(thing(Found::Never(why)));
    }
    let wanted = order(cx, &cell, &allocation, TaskKind::CellInspect, LOOK).await?;
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(thing(Found::Pending(act))),
        Asked::Done(task, found) => (task, seen(&found)),
        Asked::Failed(why) => return Ok(thing(Found::Never(why))),
    };
    let spec = serde_json::from_value(cell.spec.clone())
        .map_err(|_| StoreError::Corrupt("what a cell is made of"))?;
    Ok(thing(match judge_cell(&cell, &spec, &found) {
        CellJudged::Ready => {
            let checked = json!({"what": "its cell", "node_id": task.node_id, "task_id": task.id,
                                 "incarnation": found.incarnation, "address": found.address,
                                 "services": found.services});
            let (node, by) = (Some(task.node_id), Some(task.id));
            let answer = Answer { wanted, task: *task };
            Found::Holds(Box::new(answer), Evidence { checked: vec![checked], node, task: by, lost: false })
        }
        _ if claim == Claim::Leaves && !found.present => match death_of(&cell, &found, &task) {
            Some(death) => Found::Lost(lost(death)),
            // The kernel may still be ending the last of its processes.
            None => {
                let why = "its cell does not run, and is not proved dead".to_owned();
                Found::Fails(Box::new(Answer { wanted, task: *task }), why, cx.timing.task)
            }
        },
        // What is not ready yet is asked for again until its time is over.
        CellJudged::Later(why) => Found::Fails(Box::new(Answer { wanted, task: *task }), why, cx.timing.task),
        CellJudged::Not(_, why) => Found::Never(why),
    }))
}

/// The evidence that a member's own cell is dead.
fn lost(death: Death) -> Evidence {
    Evidence { checked: death.checked, node: death.node, task: death.task, lost: true }
}

/// What is written of a check that nothing is left to run in.
pub(crate) fn not_checked(index: usize, check: &Check, why: &str, proof: &[Value]) -> Value {
    json!({"what": "a check of its manifest", "number": index, "in": check.place, "exec": check.exec, "not_checked": why,
           "proof": proof})
}

async fn run_check(
    cx: &StepCx<'_>,
    claim: Claim,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    index: usize,
    check: &Check,
) -> Result<Thing> {
    let thing = |found: Found| Thing { asked_as: format!("{}/check {index} in ", cx.step), found };
    let within = SignedDuration::from_secs(check.within_seconds().unwrap_or(0));
    let order_of = match probe(cx, manifest, instance, member, check).await? {
        Ok(order) => order,
        Err(why) => return Ok(thing(Found::Never(format!("check {index} cannot be run: {why}")))),
    };
    for (at, cell) in places_of(cx, instance, member, check).await? {
        let (answered, failed) = run_beside(cx, &order_of, index, check, within, &at, &cell).await?;
        if claim == Claim::Works || !failed {
            return Ok(thing(answered));
        }
        // It failed there: perhaps because that cell is dead. Then another may answer.
        match cell_life(cx, &cell).await? {
            Life::Pending(act) => return Ok(thing(Found::Pending(act))),
            Life::NotProved(_) => return Ok(thing(answered)),
            Life::Dead(death) if check.place == "self" => {
                let why = "its own cell is dead";
                let checked = vec![not_checked(index, check, why, &death.checked)];
                return Ok(thing(Found::Lost(Evidence { checked, ..lost(death) })));
            }
            Life::Dead(_) => {}
        }
    }
    if claim == Claim::Leaves && check.place != "self" {
        match component_life(cx, instance, &check.place).await? {
            Life::Pending(act) => return Ok(thing(Found::Pending(act))),
            Life::Dead(death) => {
                let why = format!("every cell of {} is dead", check.place);
                let checked = vec![not_checked(index, check, &why, &death.checked)];
                let evidence = Evidence { checked, node: death.node, task: death.task, lost: false };
                return Ok(thing(Found::Lost(evidence)));
            }
            Life::NotProved(_) => {}
        }
    }
    let why =
        format!("check {index} runs in {}, and no member of that is active: it cannot be seen", check.place);
    Ok(thing(Found::Nowhere(why, within)))
}

/// Runs a check beside one cell; says also whether the node could not run it there.
async fn run_beside(
    cx: &StepCx<'_>,
    order_of: &ProbeOrder,
    index: usize,
    check: &Check,
    within: SignedDuration,
    at: &Member,
    cell: &Cell,
) -> Result<(Found, bool)> {
    let allocation = cx.store.allocation_lookup(cell.allocation_id).await?;
    let allocation = allocation.ok_or(StoreError::Gone("allocation".to_owned()))?;
    let mut wanted =
        order(cx, cell, &allocation, TaskKind::CellProbe, format!("check {index} in {}", at.name)).await?;
    let command = order_of.command.clone();
    wanted.details.act = Some(CellAct::Probe(order_of.clone()));
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok((Found::Pending(act), has_failed(cx, &wanted).await?)),
        Asked::Done(task, found) => (task, found),
        Asked::Failed(why) => {
            return Ok((Found::Never(format!("check {index} could not be run: {why}")), true));
        }
    };
    let found = match judge(check, found.ran.as_ref()) {
        Ok(ran) => {
            let told = json!({"what": "a check of its manifest", "number": index, "in": at.name, "exec": command,
                              "expect": check.expect, "exit": ran.exit, "stdout": ran.stdout, "stderr": ran.stderr,
                              "timed_out": ran.timed_out, "node_id": task.node_id, "task_id": task.id});
            let (node, by) = (Some(task.node_id), Some(task.id));
            let answer = Answer { wanted, task: *task };
            Found::Holds(Box::new(answer), Evidence { checked: vec![told], node, task: by, lost: false })
        }
        Err(why) => {
            let why = format!("check {index} ({}, in {}) does not hold: {why}", command.join(" "), at.name);
            Found::Fails(Box::new(Answer { wanted, task: *task }), why, within)
        }
    };
    Ok((found, false))
}

/// What this step has asked of nodes in this round.
async fn mine(cx: &StepCx<'_>) -> Result<Vec<Task>> {
    let (step, round) =
        (format!("{}/", cx.step), format!("/{}/", cx.operation.input["round"].as_i64().unwrap_or(0)));
    let mut tasks = cx.store.task_list(cx.operation.id).await?;
    tasks.retain(|task| task.key.starts_with(&step) && task.key.contains(&round));
    Ok(tasks)
}

/// Beside whose cells a check can run: the member's own, or those of a component's members, the best one first.
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
    members.retain(|other| other.component_key == check.place && !other.fenced && knows(cx, other, member));
    // The first of a component has nobody but itself to be asked, and nobody is asked who is out of work while others are not.
    members.sort_by_key(|other| {
        (other.id == member.id, unheard(other), other.state != MemberState::Active, other.id)
    });
    let mut found = Vec::new();
    for other in members {
        found.extend(running(cx, &other).await?.map(|cell| (other, cell)));
    }
    Ok(found)
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
