//! A fleet of made-up nodes, and two replicas on its database.

use std::sync::Arc;

use muster_db::{Joining, Store};
use muster_ids::{NodeId, SeededEntropy, SystemClock, World};
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::{Labels, Project, Tenant};
use muster_testkit::Database;
use serde_json::json;

/// GPUs of a node, in two islands of four, each of which is a NUMA node of its own.
pub(crate) const GPUS: i64 = 8;
/// What a node has beside them: less than its GPUs could want, so that some asks fail by the counters.
pub(crate) const CPUS: i64 = 56;

/// A fleet.
pub(crate) struct Fleet {
    /// Two replicas: each has connections of its own, as two servers have.
    pub(crate) replicas: [Store; 2],
    pub(crate) project: Project,
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) seed: u64,
    _database: Database,
}

/// Ids and chances of one worker: the clock runs, the chances can be repeated.
pub(crate) fn world(seed: u64) -> World {
    World::new(Arc::new(SystemClock), Arc::new(SeededEntropy::new(seed)))
}

/// A number below `most`.
pub(crate) fn below(world: &World, most: u64) -> u64 {
    u64::from_le_bytes(world.bytes()) % most
}

impl Fleet {
    pub(crate) async fn new(database: Database, nodes: usize) -> Self {
        let seed = number("MUSTER_SEED", 1);
        let world = world(seed);
        let replicas = [database.open().await, database.open().await];
        let (tenant, project) = people(&world);
        let mut tx = replicas[0].begin().await.unwrap();
        tx.tenant_insert(&tenant).await.unwrap();
        tx.project_insert(&project).await.unwrap();
        tx.commit().await.unwrap();
        let mut fleet = Self { replicas, project, nodes: Vec::new(), seed, _database: database };
        for number in 0..nodes {
            fleet.nodes.push(add_node(&fleet.replicas[0], &world, number).await);
        }
        fleet
    }

    /// The replica that a worker works for.
    pub(crate) fn replica(&self, worker: usize) -> Store {
        self.replicas[worker % 2].clone()
    }
}

/// A number from the environment, or the one that is meant otherwise.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn people(world: &World) -> (Tenant, Project) {
    let (id, now) = (world.id(), world.now());
    let tenant = Tenant {
        id,
        slug: "acme".to_owned(),
        display_name: "Acme".to_owned(),
        labels: Labels::new(),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let project = Project {
        id: world.id(),
        tenant_id: id,
        tenant_slug: "acme".to_owned(),
        name: "train".to_owned(),
        display_name: "Train".to_owned(),
        labels: Labels::new(),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    (tenant, project)
}

async fn add_node(store: &Store, world: &World, number: usize) -> NodeId {
    let (id, now): (NodeId, _) = (world.id(), world.now());
    let joining = Joining {
        id,
        name: format!("node-{number}"),
        labels: Labels::new(),
        inventory: json!({}),
        inventory_digest: "digest".to_owned(),
        agent_version: "test".to_owned(),
        certificate_until: now,
        at: now,
    };
    let mut tx = store.begin().await.unwrap();
    tx.node_join(&joining).await.unwrap();
    tx.node_hello(id, "test", json!({}), "digest", true, now).await.unwrap();
    let total = Capacity { gpus: GPUS, cpus: CPUS, memory_mb: 1024 * CPUS, disk_mb: 1024 * CPUS };
    tx.node_approve(id, total, "digest", 1, now).await.unwrap();
    for ordinal in 0..GPUS {
        let slot = Slot {
            id: world.id(),
            node_id: id,
            kind: "gpu".to_owned(),
            device: format!("gpu-{number}-{ordinal}"),
            ordinal,
            model: "pretended".to_owned(),
            memory_mb: 80 * 1024,
            numa: ordinal * 2 / GPUS,
            island: ordinal * 2 / GPUS,
            state: SlotState::Approved,
            reason: None,
            allocation_id: None,
            version: 1,
        };
        tx.slot_upsert(&slot, now).await.unwrap();
    }
    tx.heartbeat_note(&[id], now).await.unwrap();
    tx.node_recount(id).await.unwrap();
    tx.commit().await.unwrap();
    id
}
