//! An engine, a simulated node and a manual clock, over a real database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Joining, Store};
use muster_engine::{Definition, Engine, Hooks, OperationRequest, Strike, Timing, accept};
use muster_ids::{
    AllocationId, CellId, Env, ManualClock, NetworkId, NodeId, OperationId, SeededEntropy, SlotId, TypedId,
};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::audit::Actor;
use muster_model::cell::{Cell, NodePort, free_host};
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::operation::{Operation, OperationState};
use muster_model::operation_input::OperationInput;
use muster_model::{Labels, Project, Tenant};
use muster_testkit::Database;
use serde_json::{Value, json};

use crate::adapter::Adapter;
use crate::apps::Catalog;
use crate::node::Node;

pub(crate) const TIMING: Timing = Timing {
    lease: SignedDuration::from_millis(50),
    task: SignedDuration::from_secs(10),
    create: SignedDuration::from_secs(60),
    release: SignedDuration::from_secs(60),
    undo: SignedDuration::from_secs(60),
    escalate: SignedDuration::from_secs(3600),
    look: SignedDuration::from_secs(1),
    silent: SignedDuration::from_secs(5),
};

pub(crate) struct Rig {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) env: Env,
    pub(crate) engine: Arc<Engine>,
    pub(crate) node: Node,
    /// A second node, if the test has one.
    pub(crate) far: Option<Node>,
    pub(crate) catalog: Catalog,
    pub(crate) adapter: Adapter,
    /// Number of GPUs of a unit.
    pub(crate) unit_gpus: i64,
    pub(crate) project: Project,
    engines: u32,
    pub(crate) database: Database,
}

fn engine(store: &Store, env: &Env, number: u32, timing: Timing) -> Arc<Engine> {
    let holder = format!("engine-{number}");
    Arc::new(Engine::new(store.clone(), env.clone(), holder, timing, Hooks::default()))
}

/// Adds a node with GPUs in two islands of equal size, approved.
pub(crate) async fn add_node(store: &Store, env: &Env, name: &str, gpus: i64, cpus: i64) -> NodeId {
    let id: NodeId = env.id();
    let now = env.now();
    let joining = Joining {
        id,
        name: name.to_owned(),
        labels: Labels::new(),
        inventory: json!({}),
        inventory_digest: "digest".to_owned(),
        agent_version: "test".to_owned(),
        certificate_until: now,
        at: now,
    };
    let mut tx = store.begin().await.unwrap();
    tx.node_join(&joining).await.unwrap();
    assert_eq!(tx.node_hello(id, "test", json!({}), "digest", true, now).await.unwrap(), 1);
    let total = Capacity { gpus, cpus, memory_mb: 1024 * cpus, disk_mb: 1024 * cpus };
    tx.node_approve(id, total, "digest", 1, now).await.unwrap();
    for ordinal in 0..gpus {
        let slot = Slot {
            id: env.id(),
            node_id: id,
            kind: "gpu".to_owned(),
            device: format!("{name}-gpu-{ordinal}"),
            ordinal,
            model: "simulated".to_owned(),
            memory_mb: 80 * 1024,
            numa: ordinal * 2 / gpus.max(1),
            island: ordinal * 2 / gpus.max(1),
            state: SlotState::Approved,
            reason: None,
            allocation_id: None,
            version: 1,
        };
        tx.slot_upsert(&slot, now).await.unwrap();
    }
    // Its heartbeats are always recent unless a test changes that: the clock advances by hours at once.
    tx.heartbeat_note(&[id], now + SignedDuration::from_hours(24 * 365)).await.unwrap();
    tx.node_recount(id).await.unwrap();
    tx.node_shared_files(id, Some("files")).await.unwrap();
    tx.commit().await.unwrap();
    id
}

impl Rig {
    pub(crate) async fn new(database: Database) -> Self {
        Self::with_cpus(database, 32).await
    }

    /// Likewise, with an engine of other time limits.
    pub(crate) async fn with_timing(database: Database, timing: Timing) -> Self {
        let rig = Self::new(database).await;
        let engine = engine(&rig.store, &rig.env, 0, timing);
        Self { engine, ..rig }
    }

    /// Likewise, with this many CPUs on its node.
    pub(crate) async fn with_cpus(database: Database, cpus: i64) -> Self {
        let store = database.open().await;
        let start = jiff::Timestamp::from_second(1_790_000_000).unwrap();
        let clock = Arc::new(ManualClock::at(start));
        let env = Env::new(clock.clone(), Arc::new(SeededEntropy::new(7)));
        let tenant = Tenant {
            id: env.id(),
            slug: "acme".to_owned(),
            display_name: "Acme".to_owned(),
            labels: Labels::new(),
            created_at: start,
            updated_at: start,
            version: 1,
        };
        let project = Project {
            id: env.id(),
            tenant_id: tenant.id,
            tenant_slug: "acme".to_owned(),
            name: "train".to_owned(),
            display_name: "Train".to_owned(),
            labels: Labels::new(),
            created_at: start,
            updated_at: start,
            version: 1,
        };
        let mut tx = store.begin().await.unwrap();
        tx.tenant_insert(&tenant).await.unwrap();
        tx.project_insert(&project).await.unwrap();
        tx.commit().await.unwrap();
        let node = Node::new(add_node(&store, &env, "node-1", 8, cpus).await);
        let catalog = Catalog::stock(&store, &env, &project).await;
        Self {
            far: None,
            adapter: Adapter::new(catalog.account),
            catalog,
            unit_gpus: 1,
            engine: engine(&store, &env, 0, TIMING),
            store,
            clock,
            env,
            node,
            project,
            engines: 0,
            database,
        }
    }

    pub(crate) fn asked(&self) -> Actor {
        Actor { kind: "user".to_owned(), id: "usr_test".to_owned(), name: "test".to_owned() }
    }

    /// Requests an allocation, as the command does.
    pub(crate) async fn create(
        &self,
        name: &str,
        gpus: i64,
        wait_seconds: Option<i64>,
    ) -> (AllocationId, OperationId) {
        let capacity = Capacity { gpus, cpus: 2, memory_mb: 1024, disk_mb: 1024 };
        self.create_as(name, capacity, AllocationShape::GpuSlice, wait_seconds).await
    }

    pub(crate) async fn create_as(
        &self,
        name: &str,
        capacity: Capacity,
        shape: AllocationShape,
        wait_seconds: Option<i64>,
    ) -> (AllocationId, OperationId) {
        // Ids of one instant have no order.
        self.clock.advance(SignedDuration::from_millis(1));
        let now = self.env.now();
        let wait_until = wait_seconds.map(|seconds| now + SignedDuration::from_secs(seconds));
        let (tenant_id, project_id) = (self.project.tenant_id, self.project.id);
        let allocation = Allocation {
            shape,
            wait_until,
            ..Allocation::requested(self.env.id(), tenant_id, project_id, name, capacity, now)
        };
        let deadline = wait_until.unwrap_or(now) + TIMING.create;
        let operation =
            self.opened(&muster_engine::allocation::CREATE, "allocation", allocation.id, json!({}), deadline);
        let mut tx = self.store.begin().await.unwrap();
        assert!(tx.quota_take(self.project.id, 1, capacity).await.unwrap());
        tx.allocation_request(&allocation).await.unwrap();
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        (allocation.id, operation.id)
    }

    fn opened(
        &self,
        definition: &'static Definition,
        subject_kind: &'static str,
        subject: impl TypedId,
        input: Value,
        deadline_at: jiff::Timestamp,
    ) -> Operation {
        let scope = match subject_kind {
            "node" => muster_model::Scope::Platform,
            _ => muster_model::Scope::Project(self.project.tenant_id, self.project.id),
        };
        accept(
            definition,
            OperationRequest {
                id: self.env.id(),
                scope,
                subject_kind,
                subject_id: subject.uuid(),
                subject_name: "x".to_owned(),
                exclusive_locks: vec![subject.uuid()],
                shared_locks: Vec::new(),
                timeline: muster_model::event::Timeline::default(),
                asked_by: self.asked(),
                correlation_id: "c".to_owned(),
                input: input_of(input),
                deadline_at,
                parent_id: None,
                now: self.env.now(),
            },
        )
    }

    /// Opens an operation on an existing subject.
    pub(crate) async fn ask(
        &self,
        definition: &'static Definition,
        subject_kind: &'static str,
        subject: impl TypedId,
        input: Value,
    ) -> OperationId {
        self.clock.advance(SignedDuration::from_millis(1));
        let deadline = self.env.now() + SignedDuration::from_secs(60);
        let operation = self.opened(definition, subject_kind, subject, input, deadline);
        let mut tx = self.store.begin().await.unwrap();
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        operation.id
    }

    pub(crate) async fn operation(&self, id: OperationId) -> Operation {
        self.store.operation_lookup(id).await.unwrap().unwrap()
    }

    /// Adds another node, which shares a file system with the first.
    pub(crate) async fn add_far(&mut self, gpus: i64, cpus: i64) -> NodeId {
        let id = add_node(&self.store, &self.env, "far", gpus, cpus).await;
        self.far = Some(Node { shares: self.node.shares.clone(), ..Node::new(id) });
        id
    }

    /// Returns the networks with shared directories left.
    pub(crate) fn shares(&self) -> BTreeSet<NetworkId> {
        self.node.shares.lock().clone()
    }

    pub(crate) async fn allocation(&self, id: AllocationId) -> Allocation {
        self.store.allocation_lookup(id).await.unwrap().unwrap()
    }

    pub(crate) async fn slots(&self) -> Vec<(SlotId, SlotState, Option<AllocationId>)> {
        let slots = self.store.slot_list(self.node.id).await.unwrap();
        slots.into_iter().map(|slot| (slot.id, slot.state, slot.allocation_id)).collect()
    }

    /// Resets everything to the initial state, with another node; faster than another database.
    pub(crate) async fn reset(&mut self) {
        for table in [
            "DELETE FROM adapter_steps",
            "UPDATE cells SET member_id = NULL",
            "DELETE FROM members",
            "DELETE FROM instance_components",
            "DELETE FROM instances",
            "DELETE FROM node_tasks",
            "DELETE FROM operation_locks",
            "DELETE FROM operations",
            "DELETE FROM operations_finished",
            "DELETE FROM cell_logs",
            "DELETE FROM node_ports",
            "DELETE FROM cells",
            "DELETE FROM networks",
            "DELETE FROM node_revisions",
            "DELETE FROM claims",
            "DELETE FROM allocation_phases",
            "DELETE FROM allocations",
            "DELETE FROM slots",
            "DELETE FROM nodes",
            "DELETE FROM witnesses",
            "DELETE FROM quotas",
            "DELETE FROM outbox",
        ] {
            self.store.sabotage(table).await.unwrap();
        }
        self.engines += 1;
        self.engine = engine(&self.store, &self.env, self.engines, *self.engine.timing());
        let name = format!("node-{}", self.engines);
        self.node = Node::new(add_node(&self.store, &self.env, &name, 8, 32).await);
        self.far = None;
        self.adapter.begin_anew();
    }

    /// Replaces a dead engine with a new one.
    pub(crate) async fn replace_engine(&mut self) {
        self.engines += 1;
        self.engine = engine(&self.store, &self.env, self.engines, *self.engine.timing());
        // The lease expires by the database's clock on PostgreSQL and by ours on SQLite.
        tokio::time::sleep(Duration::from_millis(70)).await;
        self.clock.advance(SignedDuration::from_millis(70));
    }

    /// Runs engine and node until the operation has ended or is blocked. An engine that was struck dead is replaced.
    pub(crate) async fn drive(&mut self, id: OperationId) -> Operation {
        self.drive_with(id, true).await
    }

    /// Likewise; `deadly` is whether a strike kills the engine.
    pub(crate) async fn drive_with(&mut self, id: OperationId, deadly: bool) -> Operation {
        let mut struck = self.engine.points.struck();
        for _ in 0..3000 {
            let operation = self.operation(id).await;
            if operation.state.is_final() || operation.state == OperationState::Blocked {
                return operation;
            }
            let idle = !self.turn().await;
            if deadly && self.engine.points.struck() > struck {
                self.replace_engine().await;
                struck = 0;
            }
            if idle {
                self.clock.advance(SignedDuration::from_millis(500));
            }
        }
        panic!("{id} did not come to an end: {:#?}", self.operation(id).await);
    }

    /// Runs engine, nodes and adapter once; returns whether anything happened.
    pub(crate) async fn turn(&mut self) -> bool {
        let moved = self.engine.round().await.unwrap();
        let now = self.env.now();
        let mut served = self.node.serve(&self.store, now).await;
        if let Some(far) = &mut self.far {
            served += far.serve(&self.store, now).await;
        }
        let mut nodes: Vec<&mut Node> =
            [Some(&mut self.node), self.far.as_mut()].into_iter().flatten().collect();
        served += self.adapter.serve(&self.store, &mut nodes, now).await;
        self.follow().await;
        moved + served > 0
    }

    /// Advances the clock and runs everything that becomes due.
    pub(crate) async fn pass(&mut self, length: SignedDuration) {
        let until = self.env.now() + length;
        while self.env.now() < until {
            if !self.turn().await {
                self.clock.advance(SignedDuration::from_millis(500));
            }
        }
    }

    /// Returns an active allocation.
    pub(crate) async fn active(&mut self, name: &str, gpus: i64) -> AllocationId {
        let (allocation, operation) = self.create(name, gpus, None).await;
        let ended = self.drive(operation).await;
        assert_eq!(ended.state, OperationState::Succeeded, "{ended:#?}");
        assert_eq!(self.allocation(allocation).await.state, AllocationState::Active);
        allocation
    }

    /// The agents reconcile at once.
    async fn follow(&self) {
        for node in [Some(&self.node), self.far.as_ref()].into_iter().flatten() {
            let (wanted, applied) = self.store.node_revisions(node.id).await.unwrap();
            if wanted > applied && node.reachable {
                let mut tx = self.store.begin().await.unwrap();
                tx.set_observed_revision(node.id, wanted).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
    }

    /// Requests a cell in an allocation, as the command does.
    pub(crate) async fn cell(&mut self, allocation: AllocationId, name: &str) -> (CellId, OperationId) {
        self.clock.advance(SignedDuration::from_millis(1));
        let (tenant_id, project_id, now) = (self.project.tenant_id, self.project.id, self.env.now());
        let spec = json!({"root": {"host": ["/usr"]}, "services": [{"name": "main", "command": ["/bin/main"]}],
                          "ingress": [{"port": 80}]});
        let id: CellId = self.env.id();
        let operation = self.opened(&muster_engine::cell::CREATE, "cell", id, json!({}), now + TIMING.create);
        let mut tx = self.store.begin().await.unwrap();
        let network = tx.network_ensure(self.env.id(), tenant_id, project_id, "default", now).await.unwrap();
        let allocation = self.allocation(allocation).await;
        let requested = Cell::requested(id, &allocation, self.node.id, network.id, name, spec, now);
        let host = free_host(&tx.cell_hosts(network.id).await.unwrap()).unwrap();
        let cell = Cell { host, operation_id: Some(operation.id), ..requested };
        tx.cell_request(&cell).await.unwrap();
        // Distinct from the ports assigned to members, from 30,000 on.
        let port = NodePort { protocol: "tcp".to_owned(), port: 31_000 + cell.host, cell_port: 80 };
        tx.node_port_insert(self.node.id, id, &port).await.unwrap();
        tx.bump_desired(network.id, self.node.id).await.unwrap();
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        (id, operation.id)
    }

    /// Returns a running cell, in an allocation of its own.
    pub(crate) async fn running(&mut self, name: &str) -> CellId {
        let allocation = self.active(&format!("of-{name}"), 1).await;
        let (cell, operation) = self.cell(allocation, name).await;
        let ended = self.drive(operation).await;
        assert_eq!(ended.state, OperationState::Succeeded, "{ended:#?}");
        cell
    }

    /// Arms a point to kill the engine.
    pub(crate) fn kill_at(&self, point: &str) {
        self.engine.points.arm(point, Strike::Die, 1);
    }
}

/// Parses the input of an operation.
pub(crate) fn input_of(input: Value) -> OperationInput {
    let input: OperationInput = serde_json::from_value(input).expect("an input of an operation");
    assert!(input.newer.is_empty(), "misspelt: {:?}", input.newer);
    input
}
