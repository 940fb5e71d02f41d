//! From every reachable state of an instance there is a path to `stopped`: random walks over commands and faults, each ended
//! by a forced decommission, which ends or waits only for the return of a node or an attestation.
//!
//! `MUSTER_EXIT_SEEDS` walks more seeds than `make test` does.

use jiff::SignedDuration;
use muster_db::{OperationFilter, Page};
use muster_engine::{definition, go_on, instance, member, supersede};
use muster_ids::{Entropy as _, InstanceId, OperationId, SeededEntropy, TypedId as _};
use muster_model::adapter::AdapterVerb;
use muster_model::instance::InstanceState;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{Operation, OperationState};
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::rig::{Rig, TIMING};
use crate::stories::attest;

/// Steps of one walk.
const STEPS: usize = 14;
/// Default number of seeds.
const SEEDS: u64 = 6;
/// Simulated time for a forced decommission: more than all of its timeouts and the deadlines of its children.
const ENOUGH: SignedDuration = SignedDuration::from_mins(15);

/// Randomness of one walk.
struct Chance(SeededEntropy);

impl Chance {
    fn below(&self, bound: usize) -> usize {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        usize::try_from(u64::from_be_bytes(bytes) % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        (!all.is_empty()).then(|| &all[self.below(all.len())])
    }

    fn often(&self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

const VERBS: [AdapterVerb; 5] =
    [AdapterVerb::Join, AdapterVerb::Drain, AdapterVerb::Resume, AdapterVerb::Remove, AdapterVerb::Leave];

/// One walk, and its log for the analysis of a failure.
struct Walk {
    chance: Chance,
    story: Vec<String>,
    i: InstanceId,
}

impl Walk {
    fn note(&mut self, what: impl Into<String>) {
        self.story.push(what.into());
    }

    async fn step(&mut self, rig: &mut Rig) {
        match self.chance.below(10) {
            0..=5 => self.command(rig).await,
            _ => self.fault(rig).await,
        }
        let seconds = i64::try_from(self.chance.below(12)).unwrap();
        rig.pass(SignedDuration::from_secs(seconds)).await;
    }

    /// Issues a random command that the API would accept now.
    async fn command(&mut self, rig: &mut Rig) {
        if rig.app_instance(self.i).await.state != InstanceState::Running {
            return;
        }
        let held = rig.store.operation_touching(self.i.uuid()).await.unwrap();
        if held.iter().any(|operation| operation.exclusive_locks.contains(&self.i.uuid())) {
            return;
        }
        let living = rig.store.member_living(self.i).await.unwrap();
        let Some(member) = self.chance.one(&living).cloned() else { return };
        let (kind, forced) = (self.chance.below(9), self.chance.often(30));
        match kind {
            0 if living.len() < 5 => {
                self.note("add");
                rig.add(self.i).await;
            }
            1 => self.ask(rig, &member, &member::DRAIN, false).await,
            2 => self.ask(rig, &member, &member::RESUME, false).await,
            3 | 4 => self.ask(rig, &member, &member::REMOVE, forced).await,
            5 | 6 => self.ask(rig, &member, &member::REPLACE, forced).await,
            7 => self.ask(rig, &member, &member::RECOVER, false).await,
            8 if self.chance.often(30) => {
                self.note("decommission");
                rig.instance_op(&instance::DECOMMISSION, self.i, json!({}), false).await;
            }
            _ => {}
        }
    }

    async fn ask(
        &mut self,
        rig: &mut Rig,
        member: &Member,
        definition: &'static muster_engine::Definition,
        forced: bool,
    ) {
        use MemberState::{Active, Drained, Draining, Failed, Removed, Removing};
        let open = rig.store.operation_open_on(member.id.uuid()).await.unwrap();
        let busy =
            open.iter().any(|operation| operation.kind == definition.kind || operation.parent_id.is_some());
        let suits = match definition.kind {
            "member.drain" => member.state == Active,
            "member.resume" => matches!(member.state, Drained | Draining),
            "member.remove" => match member.state {
                Removed => false,
                Removing => forced,
                _ => member.component_key == "unit",
            },
            "member.replace" => matches!(member.state, Active | Drained | Draining | Failed),
            _ => matches!(member.state, Active | Failed),
        };
        if !suits || (busy && !forced) {
            return;
        }
        self.note(format!("{} {} force={forced}", definition.kind, member.name));
        let input = json!({"force": forced});
        rig.member_op_with(definition, member.id, input, forced).await;
    }

    /// Injects a random fault.
    async fn fault(&mut self, rig: &mut Rig) {
        match self.chance.below(8) {
            0..=2 => {
                let mut killed = Vec::new();
                let nodes = [Some(&mut rig.node), rig.far.as_mut()];
                for node in nodes.into_iter().flatten() {
                    let running: Vec<_> =
                        node.cells.keys().copied().filter(|cell| !node.dead.contains(cell)).collect();
                    if let Some(cell) = self.chance.one(&running).copied().filter(|_| self.chance.often(60)) {
                        node.kill(cell);
                        killed.push(cell);
                    }
                }
                for cell in killed {
                    let member = rig.store.member_by_cell(cell).await.unwrap().unwrap();
                    self.note(format!("the cell of {} dies", member.name));
                    if self.chance.often(50) {
                        notice(rig, member).await;
                    }
                }
            }
            3 => self.toggle_far(rig).await,
            4 => {
                let verb = *self.chance.one(&VERBS).unwrap();
                self.note(format!("the adapter cannot {verb}"));
                rig.adapter.cannot(verb);
            }
            5 => {
                let verb = *self.chance.one(&VERBS).unwrap();
                self.note(format!("the adapter lies about {verb}"));
                rig.adapter.lies.insert(verb);
            }
            6 => {
                rig.adapter.silent = !rig.adapter.silent;
                self.note(format!("the adapter is silent: {}", rig.adapter.silent));
            }
            _ => {
                let verb = *self.chance.one(&VERBS).unwrap();
                self.note(format!("the adapter dies after {verb}"));
                rig.adapter.dies_after = Some(verb);
            }
        }
    }

    async fn toggle_far(&mut self, rig: &mut Rig) {
        let far = rig.far.as_mut().unwrap();
        if far.reachable {
            far.reachable = false;
            let id = far.id;
            let mut tx = rig.store.begin().await.unwrap();
            tx.node_lost(id, rig.env.now()).await.unwrap();
            tx.commit().await.unwrap();
            self.note("the far node is lost");
        } else {
            back(rig).await;
            self.note("the far node is back");
        }
    }
}

/// The platform detects a dead cell: its member fails, unless an operation works on it.
async fn notice(rig: &Rig, member: Member) {
    let open = rig.store.operation_open_on(member.id.uuid()).await.unwrap();
    if member.state != MemberState::Active || !open.is_empty() {
        return;
    }
    let after = Member {
        state: MemberState::Failed,
        failure_reason: Some(MemberFailure::CellEnded),
        ..member.clone()
    };
    let mut tx = rig.store.begin().await.unwrap();
    tx.member_move(&member, &after, rig.env.now()).await.unwrap();
    tx.commit().await.unwrap();
}

/// The far node reconnects: operations blocked on it resume.
async fn back(rig: &mut Rig) {
    let far = rig.far.as_mut().unwrap();
    far.reachable = true;
    let (id, now) = (far.id, rig.env.now());
    let mut tx = rig.store.begin().await.unwrap();
    tx.node_back(id, now).await.unwrap();
    if tx.cell_let_in_on(id, now).await.unwrap() {
        tx.bump_desired_node(id).await.unwrap();
    }
    let blocked = tx.operation_blocked_on(id).await.unwrap();
    take_up(&mut tx, blocked, now).await;
    tx.commit().await.unwrap();
}

async fn take_up(tx: &mut muster_db::Tx, blocked: Vec<Operation>, now: jiff::Timestamp) {
    for blocked in blocked {
        let mut fresh = tx.operation_seize(blocked.id).await.unwrap().unwrap();
        assert!(go_on(&mut fresh, definition(&blocked.kind).unwrap(), &TIMING, now));
        tx.operation_advance(&fresh, now, None).await.unwrap();
    }
}

/// Decommissions as the command does: every operation that holds the instance is superseded.
async fn decommission(rig: &Rig, i: InstanceId, force: bool) -> OperationId {
    let held = rig.store.operation_touching(i.uuid()).await.unwrap();
    let id = rig.instance_op(&instance::DECOMMISSION, i, json!({"force": force}), false).await;
    let now = rig.env.now();
    let mut tx = rig.store.begin().await.unwrap();
    let mut new = tx.operation_seize(id).await.unwrap().unwrap();
    for old in &held {
        supersede(&mut tx, &rig.env, old, &mut new, now).await.unwrap();
    }
    tx.operation_advance(&new, now, None).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn is_stopped(rig: &mut Rig, i: InstanceId, within: SignedDuration) -> bool {
    let until = rig.env.now() + within;
    while rig.env.now() < until {
        if rig.app_instance(i).await.state == InstanceState::Stopped {
            return true;
        }
        if !rig.turn().await {
            rig.clock.advance(SignedDuration::from_secs(1));
        }
    }
    false
}

/// Lists the open operations, for the log.
async fn under_way(rig: &Rig) -> Vec<String> {
    let page = Page { after: uuid::Uuid::nil(), size: 1000 };
    let all = rig.store.operation_list(page, OperationFilter::default()).await.unwrap();
    let open = all.into_iter().filter(|operation| !operation.state.is_final());
    open.map(|operation| {
        let why = operation.blocked.map(|blocked| blocked.reason).or(operation.waiting).unwrap_or_default();
        format!("{} {} {}: {why}", operation.kind, operation.subject_name, operation.state)
    })
    .collect()
}

/// Checks that the instance can be stopped; the error is the state it is stuck in.
async fn way_out(rig: &mut Rig, i: InstanceId, force: bool, attests: bool) -> Result<(), String> {
    decommission(rig, i, force).await;
    if is_stopped(rig, i, ENOUGH).await {
        return Ok(());
    }
    if rig.far.as_ref().is_some_and(|far| far.reachable) {
        return Err(format!("it waits although every node answers: {:#?}", under_way(rig).await));
    }
    // It waits for the node: only its return or an attestation is needed now.
    if attests {
        attest_all(rig, i).await;
    } else {
        back(rig).await;
    }
    match is_stopped(rig, i, ENOUGH).await {
        true => Ok(()),
        false => Err(format!("the node was not all that it waited for: {:#?}", under_way(rig).await)),
    }
}

/// Attests every allocation on the lost node, and resumes the operations that waited for that.
async fn attest_all(rig: &mut Rig, i: InstanceId) {
    let far = rig.far.as_ref().unwrap().id;
    for member in rig.store.member_living(i).await.unwrap() {
        let Some(id) = member.allocation_id else { continue };
        let held = rig.allocation(id).await;
        if held.node_id != Some(far) || held.state.is_final() {
            continue;
        }
        attest(rig, id).await;
        let now = rig.env.now();
        let mut tx = rig.store.begin().await.unwrap();
        let blocked = tx.operation_blocked_in(id).await.unwrap();
        take_up(&mut tx, blocked, now).await;
        tx.commit().await.unwrap();
    }
}

async fn walk(database: Database, seed: u64, force: bool) -> Result<(), String> {
    let mut rig = Rig::new(database).await;
    let i = rig.instance("i", 1).await;
    rig.add_far(4, 8).await;
    crate::member_stories::cordon(&rig, true).await;
    let (_, add) = rig.add(i).await;
    assert_eq!(rig.drive(add).await.state, OperationState::Succeeded);
    crate::member_stories::cordon(&rig, false).await;
    let chance = Chance(SeededEntropy::new(seed));
    let attests = seed % 2 == 1;
    let mut walk = Walk { chance, story: Vec::new(), i };
    for _ in 0..STEPS {
        walk.step(&mut rig).await;
    }
    let story = walk.story.join("; ");
    way_out(&mut rig, i, force, attests).await.map_err(|why| format!("seed {seed}: {story}: {why}"))?;
    if rig.far.as_ref().is_some_and(|far| !far.reachable) {
        // It cannot be inspected.
        rig.far = None;
    }
    let left: Vec<Member> = rig.store.member_living(i).await.unwrap();
    assert!(left.is_empty(), "seed {seed}: {story}: {left:#?}");
    laws::hold(&rig).await;
    Ok(())
}

fn seeds() -> u64 {
    std::env::var("MUSTER_EXIT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

#[tokio::test(flavor = "multi_thread")]
async fn from_every_state_there_is_a_way_to_stopped_on_sqlite() {
    for seed in 0..seeds() {
        walk(Database::sqlite(), seed, true).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn from_every_state_there_is_a_way_to_stopped_on_postgres() {
    for seed in 0..seeds().div_ceil(4) {
        walk(Database::postgres(), 1000 + seed, true).await.unwrap();
    }
}

/// The planted bug: a decommission that does not pass `force` to the removals. A failing or lying adapter then blocks it
/// forever, and the walk has to find that.
#[tokio::test(flavor = "multi_thread")]
async fn a_decommission_that_forgets_its_force_is_found_out() {
    for seed in 0..40 {
        if walk(Database::sqlite(), seed, false).await.is_err() {
            return;
        }
    }
    panic!("no walk found a dead end");
}
