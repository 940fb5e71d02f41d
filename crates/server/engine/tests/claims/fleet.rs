//! A simulated fleet, and two replicas on its database.

use std::sync::Arc;

use muster_db::{Joining, Store};
use muster_ids::{Env, NodeId, SeededEntropy, SystemClock};
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::{Labels, Project, Tenant};
use muster_testkit::Database;
use serde_json::json;

/// GPUs of a node, in two islands of four, each a NUMA node of its own.
pub(crate) const GPUS: i64 = 8;
/// CPUs of a node: fewer than its GPUs could use, so that some requests fail on the counters.
pub(crate) const CPUS: i64 = 56;

/// A fleet.
pub(crate) struct Fleet {
    /// Two replicas, each with connections of its own, like two servers.
    pub(crate) replicas: [Store; 2],
    pub(crate) project: Project,
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) seed: u64,
    _database: Database,
}

/// Clock and randomness of one worker: a real clock, and a repeatable seed.
pub(crate) fn env(seed: u64) -> Env {
    Env::new(Arc::new(SystemClock), Arc::new(SeededEntropy::new(seed)))
}

/// Returns a random number below `most`.
pub(crate) fn below(env: &Env, most: u64) -> u64 {
    u64::from_le_bytes(env.bytes()) % most
}

impl Fleet {
    pub(crate) async fn new(database: Database, nodes: usize) -> Self {
        let seed = number("MUSTER_SEED", 1);
        let env = env(seed);
        let replicas = [database.open().await, database.open().await];
        let (tenant, project) = people(&env);
        let mut tx = replicas[0].begin().await.unwrap();
        tx.tenant_insert(&tenant).await.unwrap();
        tx.project_insert(&project).await.unwrap();
        tx.commit().await.unwrap();
        let mut fleet = Self { replicas, project, nodes: Vec::new(), seed, _database: database };
        for number in 0..nodes {
            fleet.nodes.push(add_node(&fleet.replicas[0], &env, number).await);
        }
        fleet
    }

    /// Returns the replica of a worker.
    pub(crate) fn replica(&self, worker: usize) -> Store {
        self.replicas[worker % 2].clone()
    }
}

/// Returns a number from the environment, or the default.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn people(env: &Env) -> (Tenant, Project) {
    let (id, now) = (env.id(), env.now());
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
        id: env.id(),
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

async fn add_node(store: &Store, env: &Env, number: usize) -> NodeId {
    let (id, now): (NodeId, _) = (env.id(), env.now());
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
            id: env.id(),
            node_id: id,
            kind: "gpu".to_owned(),
            device: format!("gpu-{number}-{ordinal}"),
            ordinal,
            model: "simulated".to_owned(),
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
