//! A random walk over commands, faults and decisions.

use jiff::SignedDuration;
use muster_db::{CellReport, OperationFilter, Page};
use muster_engine::{definition, go_on};
use muster_ids::{AllocationId, Entropy as _, InstanceId, SeededEntropy, TypedId as _};
use muster_model::adapter::AdapterVerb;
use muster_model::instance::InstanceState;
use muster_model::member::Member;
use muster_model::operation::{Operation, OperationState, ResolveAction};
use muster_model::task::TaskKind;
use serde_json::{Value, json};

use super::reached::Reached;
use crate::desk::{Actor, Desk};
use crate::laws;
use crate::node::{Node, Wrong};
use crate::rig::Rig;

/// Name of the instance.
pub(super) const NAME: &str = "i";
/// Steps of one walk.
const STEPS: usize = 16;
/// Turns without progress of the clock after which the engine counts as running in circles.
const CIRCLES: usize = 2000;

const VERBS: [AdapterVerb; 5] =
    [AdapterVerb::Join, AdapterVerb::Drain, AdapterVerb::Resume, AdapterVerb::Remove, AdapterVerb::Leave];
const TASKS: [TaskKind; 7] = [
    TaskKind::Prepare,
    TaskKind::CellCreate,
    TaskKind::CellInspect,
    TaskKind::CellProbe,
    TaskKind::CellDestroy,
    TaskKind::Destroy,
    TaskKind::Wipe,
];

/// Randomness of one walk.
struct Chance(SeededEntropy);

impl Chance {
    fn below(&self, bound: usize) -> usize {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        usize::try_from(u64::from_be_bytes(bytes) % u64::try_from(bound).unwrap()).unwrap()
    }

    fn seconds(&self, from: i64, to: i64) -> SignedDuration {
        let more = self.below(usize::try_from(to - from).unwrap());
        SignedDuration::from_secs(from + i64::try_from(more).unwrap())
    }

    fn one<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        (!all.is_empty()).then(|| &all[self.below(all.len())])
    }

    fn often(&self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Which of the rig's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Near,
    Far,
}

impl Which {
    pub(super) const ALL: [Self; 2] = [Self::Near, Self::Far];

    pub(super) fn of(self, rig: &Rig) -> &Node {
        match self {
            Self::Near => &rig.node,
            Self::Far => rig.far.as_ref().unwrap(),
        }
    }

    fn of_mut(self, rig: &mut Rig) -> &mut Node {
        match self {
            Self::Near => &mut rig.node,
            Self::Far => rig.far.as_mut().unwrap(),
        }
    }
}

/// One walk, and its log for the analysis of a failure.
pub(super) struct Walk {
    pub(super) desk: Desk,
    pub(super) i: InstanceId,
    seed: u64,
    chance: Chance,
    /// Randomness of the commands that are added to the others, which stay the same.
    extra: Chance,
    story: Vec<String>,
}

/// A failed assertion, also one of the invariants, comes with the story that led to it.
impl Drop for Walk {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.story());
        }
    }
}

/// Returns all operations, open and ended.
pub(super) async fn operations(rig: &Rig) -> Vec<Operation> {
    let page = Page { after: uuid::Uuid::nil(), size: 10_000 };
    rig.store.operation_list(page, OperationFilter::default()).await.unwrap()
}

impl Walk {
    /// Launches an instance with two units; three walks of four wait until it runs.
    pub(super) async fn begin(rig: &mut Rig, reached: &mut Reached, seed: u64) -> Self {
        rig.add_far(4, 8).await;
        let (desk, chance) = (Desk::new(rig).await, Chance(SeededEntropy::new(seed)));
        let unit = json!({"component_key": "unit", "count": 2,
                          "capacity": {"gpus": 1, "cpus": 1, "memory_mb": 64, "disk_mb": 64}});
        let repair = *chance.one(&["off", "propose", "automatic", "automatic"]).unwrap();
        let mut launch = json!({"name": NAME, "app": "pair", "app_version": "1", "components": [unit],
                                "repair": repair});
        if seed % 4 == 3 {
            launch["ready_until"] = json!(rig.env.now() + SignedDuration::from_secs(90));
        }
        let launched = desk.order(Actor::Tenant, "instance.create", NAME, launch).await.unwrap();
        let i = launched["operation"]["subject_id"].as_str().unwrap().parse().unwrap();
        let extra = Chance(SeededEntropy::new(seed + 1_000_000));
        let mut walk = Self { desk, i, seed, chance, extra, story: vec![format!("launch, repair {repair}")] };
        reached.note_open(rig, i, seed).await;
        if seed % 4 != 3 {
            walk.pass(rig, reached, SignedDuration::from_secs(30)).await;
        }
        walk
    }

    /// Takes all steps; ends early if the instance is stopped.
    pub(super) async fn run(&mut self, rig: &mut Rig, reached: &mut Reached) -> Result<(), String> {
        for _ in 0..STEPS {
            match self.extra.below(10) {
                0 => self.declare(rig).await,
                1..=2 => self.command_on_allocation(rig).await,
                _ => {}
            }
            match self.chance.below(20) {
                0..=10 => self.command(rig).await,
                11..=15 => self.fault(rig).await,
                16..=17 => self.decide(rig).await?,
                18 => self.heal(rig).await,
                _ => self.desk.assess(self.i).await,
            }
            reached.note_open(rig, self.i, self.seed).await;
            let length = match self.chance.below(20) {
                0..=11 => self.chance.seconds(0, 12),
                12..=16 => self.chance.seconds(20, 90),
                _ => self.chance.seconds(150, 400),
            };
            self.pass(rig, reached, length).await;
            self.note_state(rig).await;
            reached.note_ended(rig, self.i, self.seed).await;
            self.hold_laws(rig).await;
            if rig.app_instance(self.i).await.state == InstanceState::Stopped {
                break;
            }
        }
        Ok(())
    }

    /// Notes the states at its end.
    pub(super) async fn note_end(&self, rig: &Rig, reached: &mut Reached) {
        reached.note_ended(rig, self.i, self.seed).await;
    }

    /// Returns its log.
    pub(super) fn story(&self) -> String {
        format!("seed {}: {}", self.seed, self.story.join("; "))
    }

    fn note(&mut self, what: impl Into<String>) {
        self.story.push(what.into());
    }

    /// Adds the current states to its log.
    async fn note_state(&mut self, rig: &Rig) {
        let wanted = rig.desired(self.i, "unit").await;
        let living = rig.store.member_living(self.i).await.unwrap();
        let members: Vec<String> =
            living.iter().map(|member| format!("{} {}", member.name, member.state)).collect();
        let state = rig.app_instance(self.i).await.state;
        self.note(format!(
            "\n  {} {state}, {wanted} units wanted, {}: {}\n  ",
            rig.env.now(),
            members.join(", "),
            under_way(rig).await.join(" | ")
        ));
    }

    /// Checks the invariants, if nothing is under way and every node can be inspected.
    async fn hold_laws(&self, rig: &Rig) {
        let open = operations(rig).await.into_iter().any(|operation| !operation.state.is_final());
        if !open && Which::ALL.iter().all(|which| which.of(rig).reachable) {
            laws::hold(rig).await;
        }
    }

    /// Runs everything that becomes due within this time.
    pub(super) async fn pass(&mut self, rig: &mut Rig, reached: &mut Reached, length: SignedDuration) {
        self.pass_until(rig, reached, length, async |_| false).await;
    }

    /// Likewise, at most until `done`; reports whether it is.
    pub(super) async fn pass_until(
        &mut self,
        rig: &mut Rig,
        reached: &mut Reached,
        length: SignedDuration,
        done: impl AsyncFn(&Rig) -> bool,
    ) -> bool {
        let until = rig.env.now() + length;
        let (mut rest, mut turns) = (SignedDuration::from_millis(500), 0);
        while rig.env.now() < until {
            if rig.turn().await {
                turns += 1;
                assert!(turns < CIRCLES, "{}: it runs in circles: {:#?}", self.story(), under_way(rig).await);
                reached.note_open(rig, self.i, self.seed).await;
                rest = SignedDuration::from_millis(500);
                continue;
            }
            if done(rig).await {
                return true;
            }
            // Idle time is passed in ever longer steps: most waits last for minutes.
            rig.clock.advance(rest.min(until.duration_since(rig.env.now())));
            (rest, turns) = ((rest * 2).min(SignedDuration::from_secs(8)), 0);
        }
        done(rig).await
    }

    /// Issues a random command. The server decides whether it is accepted.
    async fn command(&mut self, rig: &Rig) {
        let living = rig.store.member_living(self.i).await.unwrap();
        let mut members: Vec<&str> = Vec::new();
        for _ in 0..=usize::from(self.chance.often(15)) {
            members.extend(self.chance.one(&living).map(|member| member.name.as_str()));
        }
        members.dedup();
        let (force, members) = (self.chance.often(35), json!(members));
        let until = self.chance.often(70).then(|| rig.env.now() + self.chance.seconds(15, 240));
        let on = |members: Value| json!({"members": members, "ready_until": until});
        let forced = |members: Value| json!({"members": members, "force": force, "ready_until": until});
        let (action, body) = match self.chance.below(24) {
            0..=2 => {
                let count = 1 + self.chance.below(2);
                ("member.add", json!({"component_key": "unit", "count": count, "ready_until": until}))
            }
            3..=5 => ("member.drain", on(members)),
            6..=7 => ("member.resume", on(members)),
            8..=11 => ("member.remove", forced(members)),
            12..=15 => ("member.replace", forced(members)),
            16..=17 => ("member.recover", on(members)),
            18..=19 => {
                let units = json!({"component_key": "unit", "count": self.chance.below(4)});
                ("instance.scale", json!({"components": [units], "ready_until": until}))
            }
            20..=21 => {
                let version = *self.chance.one(&["1", "2", "2"]).unwrap();
                ("instance.upgrade", json!({"app_version": version, "ready_until": until}))
            }
            22 => ("instance.rollback", json!({"ready_until": until})),
            _ if self.chance.often(40) => {
                ("instance.decommission", json!({"force": force, "ready_until": until}))
            }
            _ => return self.drain_node(rig, force).await,
        };
        let _ = self.order(Actor::Tenant, action, NAME, body).await;
    }

    /// Declares how the instance should be: its release and numbers, or its repair policy.
    async fn declare(&mut self, rig: &Rig) {
        let (action, body) = match self.extra.often(50) {
            true => {
                let repair = *self.extra.one(&["off", "propose", "automatic"]).unwrap();
                ("instance.update", json!({"repair": repair}))
            }
            false => {
                let version = *self.extra.one(&["1", "2"]).unwrap();
                let units = json!({"component_key": "unit", "count": self.extra.below(4)});
                let until = rig.env.now() + self.extra.seconds(15, 240);
                let body = json!({"name": NAME, "app": "pair", "app_version": version, "components": [units],
                                  "ready_until": until});
                ("instance.apply", body)
            }
        };
        let _ = self.order(Actor::Tenant, action, NAME, body).await;
    }

    /// Issues a command on the allocation of a random member.
    async fn command_on_allocation(&mut self, rig: &Rig) {
        let (living, force) = (rig.store.member_living(self.i).await.unwrap(), self.extra.often(35));
        let held: Vec<_> = living.iter().filter_map(|member| member.allocation_id).collect();
        let Some(id) = self.extra.one(&held).copied() else { return };
        let name = rig.allocation(id).await.name;
        let (action, body) = match self.extra.below(4) {
            0..=1 => ("allocation.release", json!({"cascade": self.extra.often(70), "force": force})),
            2 => ("allocation.restart", json!({"force": force})),
            _ => {
                let restart = self.extra.often(50);
                let cpus = 1 + self.extra.below(2);
                let force = restart && force;
                (
                    "allocation.resize",
                    json!({"cpus": cpus, "memory_mb": 128, "restart": restart, "force": force}),
                )
            }
        };
        let _ = self.order(Actor::Tenant, action, &name, body).await;
    }

    async fn drain_node(&mut self, rig: &Rig, force: bool) {
        let name = *self.chance.one(&["node-1", "far"]).unwrap();
        let far = name == "far";
        let draining = rig.store.node_lookup(if far { Which::Far } else { Which::Near }.of(rig).id).await;
        let (action, body) = match draining.unwrap().unwrap().cordoned {
            true => ("node.uncordon", json!({})),
            false => ("node.drain", json!({"force": force, "deadline_seconds": 120})),
        };
        let _ = self.order(Actor::Operator, action, name, body).await;
    }

    /// Executes a command; returns the response, or why it was refused.
    pub(super) async fn order(
        &mut self,
        actor: Actor,
        action: &str,
        target: &str,
        body: Value,
    ) -> Result<Value, String> {
        let answer = self.desk.order(actor, action, target, body.clone()).await;
        let said = match &answer {
            Ok(_) => "accepted".to_owned(),
            Err(problem) => {
                assert!(problem.code.status() < 500, "{}: {action} {body}: {problem:?}", self.story());
                problem.detail.clone()
            }
        };
        self.note(format!("{action} {target} {body}: {said}"));
        answer.map_err(|problem| problem.detail)
    }

    /// Injects a random fault.
    async fn fault(&mut self, rig: &mut Rig) {
        match self.chance.below(16) {
            0..=4 => self.kill_cells(rig).await,
            5..=7 => {
                // The first node, with the hub on it as a rule, is lost less often.
                let which = if self.chance.often(25) { Which::Near } else { Which::Far };
                match which.of(rig).reachable {
                    true => self.lose(rig, which).await,
                    false => self.bring_back(rig, which).await,
                }
            }
            8..=9 => {
                let verb = *self.chance.one(&VERBS).unwrap();
                self.note(format!("the adapter cannot {verb}"));
                rig.adapter.cannot(verb);
            }
            10..=11 => {
                let verb = *self.chance.one(&VERBS).unwrap();
                self.note(format!("the adapter lies about {verb}"));
                rig.adapter.lies.insert(verb);
            }
            12 => {
                rig.adapter.silent = !rig.adapter.silent;
                self.note(format!("the adapter is silent: {}", rig.adapter.silent));
            }
            13 => {
                let verb = *self.chance.one(&VERBS).unwrap();
                self.note(format!("the adapter dies after {verb}"));
                rig.adapter.dies_after = Some(verb);
            }
            _ => {
                let kind = *self.chance.one(&TASKS).unwrap();
                let all =
                    [Wrong::Fails(kind), Wrong::Refuses(kind), Wrong::DiesAfter(kind), Wrong::LeavesResidue];
                let wrong = *self.chance.one(&all).unwrap();
                let which = *self.chance.one(&Which::ALL).unwrap();
                self.note(format!("{which:?}: {wrong:?}"));
                which.of_mut(rig).wrong.push(wrong);
            }
        }
    }

    /// Kills random cells. Half of the deaths are reported by the agent, and assessed.
    async fn kill_cells(&mut self, rig: &mut Rig) {
        for which in Which::ALL {
            let node = which.of_mut(rig);
            let running: Vec<_> = node.cells.keys().copied().filter(|cell| node.runs(*cell)).collect();
            let Some(cell) = self.chance.one(&running).copied().filter(|_| self.chance.often(60)) else {
                continue;
            };
            node.kill(cell);
            let (id, incarnation, reachable) = (node.id, node.cells[&cell].1, node.reachable);
            let member = rig.store.member_by_cell(cell).await.unwrap();
            let name = member.map(|member: Member| member.name).unwrap_or_default();
            let noticed = reachable && self.chance.often(50);
            self.note(format!("the cell of {name} dies, noticed: {noticed}"));
            if noticed {
                let report = CellReport {
                    cell_id: cell,
                    incarnation,
                    alive: false,
                    services: json!([]),
                    message: Some("it was killed".to_owned()),
                    boot_id: "boot".to_owned(),
                };
                let mut tx = rig.store.begin().await.unwrap();
                tx.cell_observe(id, &report, rig.env.now()).await.unwrap();
                tx.commit().await.unwrap();
                self.desk.assess(self.i).await;
            }
        }
    }

    async fn lose(&mut self, rig: &mut Rig, which: Which) {
        self.note(format!("{which:?} is lost"));
        let (node, now) = (which.of(rig).id, rig.env.now());
        which.of_mut(rig).reachable = false;
        let mut tx = rig.store.begin().await.unwrap();
        tx.node_lost(node, now).await.unwrap();
        tx.instances_assess_on(node, now).await.unwrap();
        tx.commit().await.unwrap();
        self.desk.assess(self.i).await;
    }

    /// A node reconnects: operations blocked on it resume.
    pub(super) async fn bring_back(&mut self, rig: &mut Rig, which: Which) {
        self.note(format!("{which:?} is back"));
        let (now, id) = (rig.env.now(), which.of(rig).id);
        // The agent destroys stale copies first: sandboxes that an operator attested to be gone.
        let places: Vec<_> = which.of(rig).sandboxes.keys().copied().collect();
        for place in places {
            if rig.allocation(place).await.state.is_final() {
                which.of_mut(rig).destroy(place);
            }
        }
        which.of_mut(rig).reachable = true;
        let mut tx = rig.store.begin().await.unwrap();
        tx.node_back(id, now).await.unwrap();
        if tx.cell_let_in_on(id, now).await.unwrap() {
            tx.bump_desired_node(id).await.unwrap();
        }
        for blocked in tx.operation_blocked_on(id).await.unwrap() {
            let mut fresh = tx.operation_seize(blocked.id).await.unwrap().unwrap();
            assert!(go_on(&mut fresh, definition(blocked.kind).unwrap(), rig.engine.timing(), now));
            tx.operation_advance(&fresh, now, None).await.unwrap();
        }
        tx.instances_assess_on(id, now).await.unwrap();
        tx.commit().await.unwrap();
        self.desk.assess(self.i).await;
    }

    /// Adapter and nodes work again, from now on.
    pub(super) async fn heal(&mut self, rig: &mut Rig) {
        self.note("the faults end");
        rig.adapter.fails.clear();
        rig.adapter.lies.clear();
        rig.adapter.silent = false;
        rig.adapter.dies_after = None;
        self.mend_nodes(rig);
    }

    /// Nodes that answer do what they are asked from now on.
    pub(super) fn mend_nodes(&self, rig: &mut Rig) {
        for which in Which::ALL {
            which.of_mut(rig).wrong.clear();
        }
    }

    /// Takes a random decision: one of the actions of a blocked operation, which must be accepted, or a cancellation.
    async fn decide(&mut self, rig: &mut Rig) -> Result<(), String> {
        let open: Vec<Operation> =
            operations(rig).await.into_iter().filter(|operation| !operation.state.is_final()).collect();
        let blocked: Vec<&Operation> =
            open.iter().filter(|operation| operation.state == OperationState::Blocked).collect();
        if let Some(operation) = self.chance.one(&blocked) {
            let why = operation.blocked.as_ref().unwrap();
            let action: ResolveAction = *self.chance.one(&why.actions).unwrap();
            let tenants = why.resolvable_by == "tenant" || action == ResolveAction::Retry;
            let actor = match tenants && operation.tenant_id.is_some() {
                true => Actor::Tenant,
                false => Actor::Operator,
            };
            let body = json!({"action": action.as_str(), "statement": "nothing is left of it"});
            let kind = operation.kind;
            if action == ResolveAction::Abandon && operation.subject_kind == "allocation" {
                // The operator destroyed it by hand: the statement is true.
                let allocation = AllocationId::from_uuid(operation.subject_id);
                Which::ALL.into_iter().for_each(|which| which.of_mut(rig).destroy(allocation));
            }
            return match self.order(actor, "operation.resolve", &operation.id.to_string(), body).await {
                Ok(_) => Ok(()),
                Err(why) => Err(format!("{} is not accepted for a blocked {kind}: {why}", action.as_str())),
            };
        }
        if let Some(operation) = self.chance.one(&open) {
            let id = operation.id.to_string();
            self.note(format!("cancel {}", operation.kind));
            let _ = self.order(Actor::Operator, "operation.cancel", &id, json!({})).await;
        }
        Ok(())
    }
}

/// Lists the open operations, for the log.
pub(super) async fn under_way(rig: &Rig) -> Vec<String> {
    let open = operations(rig).await.into_iter().filter(|operation| !operation.state.is_final());
    open.map(|operation| {
        let why = says(&operation);
        format!("{} {} {}: {why}", operation.kind, operation.subject_name, operation.state)
    })
    .collect()
}

/// Returns why an operation waits or is blocked.
pub(super) fn says(operation: &Operation) -> String {
    let blocked = operation.blocked.as_ref().map(|blocked| blocked.reason.clone());
    blocked.or_else(|| operation.waiting.clone()).unwrap_or_default()
}
