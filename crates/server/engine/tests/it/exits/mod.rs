//! From every reachable state of an instance and its members there is a way to `stopped`: random walks over all commands,
//! with and without force, faults and decisions. Each ends in a decommission, then in a forced one, which leads to `stopped`
//! or waits for nothing but the return of a node or an attestation.
//!
//! The commands are those of the server, so a verb that refuses a member in some state closes a way and is found.
//! `make test` walks a third of the seeds, by `MUSTER_SEED`. `MUSTER_EXIT_SEEDS` walks more, `MUSTER_EXIT_SEED` one alone.

mod reached;
mod walk;

use std::path::Path;

use jiff::SignedDuration;
use muster_engine::Timing;
use muster_ids::{InstanceId, TypedId as _};
use muster_model::instance::InstanceState;
use muster_model::member::{Member, MemberState};
use muster_model::operation::{Operation, OperationState};
use muster_testkit::Database;
use serde_json::json;

use crate::desk::Actor;
use crate::laws;
use crate::rig::{Rig, TIMING};
use crate::sample::{self, is_sampled};
use reached::Reached;
use walk::{NAME, Walk, Which, operations, says, under_way};

/// Default number of seeds.
const SEEDS: u64 = 24;
/// Simulated time for a decommission: more than all of its timeouts and the deadlines of its children.
const ENOUGH: SignedDuration = SignedDuration::from_mins(15);

/// Time limits: waiting steps are checked as seldom as by a server, because most of a walk is waiting.
const PATIENT: Timing = Timing {
    task: SignedDuration::from_secs(20),
    release: SignedDuration::from_secs(90),
    look: SignedDuration::from_secs(10),
    ..TIMING
};

/// How a walk ends.
#[derive(Debug, Clone, Copy)]
struct Ending {
    /// Whether the second decommission is forced: a planted bug forgets it.
    forces: bool,
    /// Whether an operator attests what is on the lost node, instead of its return.
    attests: bool,
    /// Whether all units are removed by force first.
    members_first: bool,
}

impl Ending {
    fn of(seed: u64) -> Self {
        Self { forces: true, attests: seed % 2 == 1, members_first: seed / 2 % 2 == 1 }
    }
}

async fn is_stopped(rig: &Rig, i: InstanceId) -> bool {
    rig.app_instance(i).await.state == InstanceState::Stopped
}

/// Returns the open operations that wait for no other one.
async fn leaves(rig: &Rig) -> Vec<Operation> {
    let mut open = operations(rig).await;
    open.retain(|operation| !operation.state.is_final());
    let parents: Vec<_> = open.iter().filter_map(|operation| operation.parent_id).collect();
    open.retain(|operation| !parents.contains(&operation.id));
    open
}

/// Reports whether the instance is stopped, or everything that is open is blocked: then only a decision moves it.
async fn is_settled(rig: &Rig, i: InstanceId) -> bool {
    let blocked = |operation: &Operation| operation.state == OperationState::Blocked;
    is_stopped(rig, i).await || leaves(rig).await.iter().all(blocked)
}

/// Walks and leaves; the error is the state that the instance is stuck in.
async fn walk(database: Database, seed: u64, ending: Ending, reached: &mut Reached) -> Result<(), String> {
    let mut rig = Rig::with_timing(database, PATIENT).await;
    let mut walk = Walk::begin(&mut rig, reached, seed).await;
    let left = async {
        walk.run(&mut rig, reached).await?;
        if ending.members_first {
            remove_units(&mut walk, &mut rig, reached).await?;
        }
        way_out(&mut walk, &mut rig, reached, ending).await
    };
    left.await.map_err(|why| format!("{}: {why}", walk.story()))?;
    walk.note_end(&rig, reached).await;
    if !Which::Far.of(&rig).reachable {
        // It was attested and cannot be inspected.
        rig.far = None;
    }
    laws::hold(&rig).await;
    Ok(())
}

/// Has every unit removed by force: that is accepted in every state of it, unless such a removal is under way. If nothing is
/// in the way, it leads to its end.
async fn remove_units(walk: &mut Walk, rig: &mut Rig, reached: &mut Reached) -> Result<(), String> {
    if rig.app_instance(walk.i).await.state != InstanceState::Running {
        return Ok(());
    }
    let members = rig.store.member_living(walk.i).await.unwrap();
    let units: Vec<&Member> = members.iter().filter(|member| member.component_key == "unit").collect();
    for unit in &units {
        let until = rig.env.now() + SignedDuration::from_mins(8);
        let body = json!({"members": [unit.name], "force": true, "ready_until": until});
        if let Err(why) = walk.order(Actor::Tenant, "member.remove", NAME, body).await
            && !why.contains("already in progress")
        {
            return Err(format!("{} is {} and cannot be removed by force: {why}", unit.name, unit.state));
        }
    }
    walk.heal(rig).await;
    let i = walk.i;
    walk.pass_until(rig, reached, ENOUGH, async |rig| is_settled(rig, i).await).await;
    // Operations on the whole instance come first, and may be blocked.
    let held = rig.store.operations_locking(walk.i.uuid()).await.unwrap();
    let locked = held.iter().any(|operation| operation.exclusive_locks.contains(&walk.i.uuid()));
    if locked || !Which::ALL.iter().all(|which| which.of(rig).reachable) {
        return Ok(());
    }
    for unit in units {
        let state = rig.member(unit.id).await.state;
        if state != MemberState::Removed {
            let open = under_way(rig).await;
            return Err(format!("{} is {state} after its forced removal: {open:#?}", unit.name));
        }
    }
    Ok(())
}

/// Decommissions the instance, then does so by force. Both are accepted, unless the same is under way.
async fn way_out(
    walk: &mut Walk,
    rig: &mut Rig,
    reached: &mut Reached,
    ending: Ending,
) -> Result<(), String> {
    let i = walk.i;
    // A wipe that fails on a node that answers is attested too, which is a story of its own.
    walk.mend_nodes(rig);
    for force in [false, ending.forces] {
        if is_stopped(rig, i).await {
            return Ok(());
        }
        let body = json!({"force": force, "ready_until": rig.env.now() + SignedDuration::from_mins(8)});
        if let Err(why) = walk.order(Actor::Tenant, "instance.decommission", NAME, body).await
            && !why.contains("already in progress")
        {
            return Err(format!("a decommission is refused: {why}"));
        }
        walk.pass_until(rig, reached, ENOUGH, async |rig| is_settled(rig, i).await).await;
    }
    if is_stopped(rig, i).await {
        return Ok(());
    }
    let lost: Vec<Which> = Which::ALL.into_iter().filter(|which| !which.of(rig).reachable).collect();
    if lost.is_empty() {
        return Err(format!("it waits although every node answers: {:#?}", under_way(rig).await));
    }
    waits_for_nodes_alone(rig).await?;
    for which in lost {
        match which {
            Which::Far if ending.attests => attest(walk, rig).await?,
            _ => walk.bring_back(rig, which).await,
        }
    }
    walk.pass_until(rig, reached, ENOUGH, async |rig| is_settled(rig, i).await).await;
    match is_stopped(rig, i).await {
        true => Ok(()),
        false => Err(format!("the node was not all that it waited for: {:#?}", under_way(rig).await)),
    }
}

/// Ensures that every operation that waits for no other one waits for a node that is away, and says so.
async fn waits_for_nodes_alone(rig: &Rig) -> Result<(), String> {
    for operation in leaves(rig).await {
        let why = says(&operation);
        // The release of an allocation destroys its cells, and is checked itself.
        let with_release = why.contains("the cell is destroyed with it");
        let for_node = why.contains("unreachable") || why.contains("no reachable node") || with_release;
        // Drains of nodes are not the instance's.
        if !for_node && operation.subject_kind != "node" {
            let open = under_way(rig).await;
            return Err(format!(
                "{} {} waits for something else: {why}: {open:#?}",
                operation.kind, operation.state
            ));
        }
    }
    Ok(())
}

/// An operator attests every allocation on the lost node.
async fn attest(walk: &mut Walk, rig: &Rig) -> Result<(), String> {
    let far = Which::Far.of(rig).id;
    for member in rig.store.member_living(walk.i).await.unwrap() {
        let Some(id) = member.allocation_id else { continue };
        let held = rig.allocation(id).await;
        if held.node_id != Some(far) || held.state.is_final() {
            continue;
        }
        let body = json!({"statement": "the machine was destroyed"});
        walk.order(Actor::Operator, "allocation.attest", &held.name, body)
            .await
            .map_err(|why| format!("{} cannot be attested: {why}", held.name))?;
    }
    Ok(())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn seeds() -> u64 {
    number("MUSTER_EXIT_SEEDS").unwrap_or(SEEDS)
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_from_every_state_there_is_a_way_to_stopped_on_sqlite() {
    let mut reached = Reached::default();
    if let Some(seed) = number("MUSTER_EXIT_SEED") {
        return walk(Database::sqlite(), seed, Ending::of(seed), &mut reached).await.unwrap();
    }
    // A third of the walks by `MUSTER_SEED`; together they must reach the golden set, which `make soak` and `make bless` check.
    let sample = sample::seed().filter(|_| std::env::var_os("MUSTER_BLESS").is_none());
    let sampled = |walk: &u64| sample.is_none_or(|seed| is_sampled(usize::try_from(*walk).unwrap(), seed));
    for seed in (0..seeds()).filter(sampled) {
        if let Err(why) = walk(Database::sqlite(), seed, Ending::of(seed), &mut reached).await {
            panic!("{why}");
        }
    }
    if sample.is_some() {
        return;
    }
    reached.covers_the_enums();
    reached
        .covers_the_golden_set(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/exit_states.txt"));
}

#[tokio::test(flavor = "multi_thread")]
async fn from_every_state_there_is_a_way_to_stopped_on_postgres() {
    for seed in 0..seeds().div_ceil(4) {
        let seed = 1000 + seed;
        walk(Database::postgres(), seed, Ending::of(seed), &mut Reached::default()).await.unwrap();
    }
}

/// The planted bug: a second decommission without force. A failing or lying adapter then blocks it forever, and the walks
/// have to find that.
#[tokio::test(flavor = "multi_thread")]
async fn a_decommission_that_forgets_its_force_is_found_out() {
    for seed in 0..40 {
        let ending = Ending { forces: false, ..Ending::of(seed) };
        if walk(Database::sqlite(), seed, ending, &mut Reached::default()).await.is_err() {
            return;
        }
    }
    panic!("no walk found a dead end");
}
