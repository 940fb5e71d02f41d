//! The fleet API for operators and tenants. Machines join by a database row here; the agent protocol has its own tests.

mod nodes;
mod projects;
mod slots;

use jiff::SignedDuration;
use muster_db::{Hold, Joining};
use muster_ids::{AllocationId, ClaimId, Env, NodeId, SlotId};
use muster_model::allocation::Allocation;
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::placement::Fit;
use muster_testkit::{Answer, Client, Fixture, Kit};
use muster_wire::inventory::{Cpus, Gpu, Inventory};
use reqwest::Method;
use serde_json::{Value, json};

/// Returns a machine with this many GPUs, half of them in each of two islands.
pub(crate) fn inventory(name: &str, gpus: i64) -> Inventory {
    let gpu = |ordinal: i64| Gpu {
        ordinal,
        uuid: format!("GPU-{name}-{ordinal}"),
        model: "NVIDIA H200".to_owned(),
        memory_mb: 143_771,
        pci: None,
        numa: ordinal * 2 / gpus,
        island: ordinal * 2 / gpus,
        nvlinks: 18,
        mig: false,
        ..Gpu::default()
    };
    Inventory {
        hostname: name.to_owned(),
        architecture: "x86_64".to_owned(),
        cpus: Cpus { count: 64, sockets: 2, model: "EPYC".to_owned() },
        memory_mb: 512_000,
        disk_mb: 2_000_000,
        gpus: (0..gpus).map(gpu).collect(),
        simulated: true,
        ..Inventory::default()
    }
}

/// Records that such a machine joined, as its agent's first request would.
pub(crate) async fn join(kit: &Kit, name: &str, found: &Inventory) -> NodeId {
    let env = Env::system();
    let (id, now): (NodeId, _) = (env.id(), env.now());
    let joining = Joining {
        id,
        name: name.to_owned(),
        labels: [("rack".to_owned(), name.to_owned())].into_iter().collect(),
        inventory: json!(found),
        inventory_digest: found.hardware_digest(),
        agent_version: "0.1.0".to_owned(),
        certificate_until: now + SignedDuration::from_hours(24),
        at: now,
    };
    let mut tx = kit.store().begin().await.unwrap();
    tx.node_join(&joining).await.unwrap();
    for gpu in &found.gpus {
        let slot = Slot {
            id: env.id(),
            node_id: id,
            kind: "gpu".to_owned(),
            device: gpu.uuid.clone(),
            ordinal: gpu.ordinal,
            model: gpu.model.clone(),
            memory_mb: gpu.memory_mb,
            numa: gpu.numa,
            island: gpu.island,
            state: SlotState::Discovered,
            reason: None,
            allocation_id: None,
            version: 1,
        };
        tx.slot_upsert(&slot, now).await.unwrap();
    }
    // Its agent stays alive throughout.
    tx.heartbeat_note(&[id], now + SignedDuration::from_hours(24)).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// Approves a machine's hardware.
pub(crate) async fn approve(operator: &Client, node: &str, digest: &str) -> Answer {
    let request = operator.request(Method::POST, &format!("/v1/nodes/{node}/approve"));
    let request = request.header("idempotency-key", Env::system().uuid().to_string());
    operator.send(request.header("if-match", "*").json(&json!({"digest": digest}))).await
}

/// Creates a machine that accepts allocations.
pub(crate) async fn machine(kit: &Kit, name: &str, gpus: i64) -> NodeId {
    let found = inventory(name, gpus);
    let id = join(kit, name, &found).await;
    approve(&kit.operator(), name, &found.hardware_digest()).await.ok();
    id
}

/// Changes the machine's hardware.
async fn refit(kit: &Kit, node: NodeId, found: &Inventory) {
    let mut tx = kit.store().begin().await.unwrap();
    let now = Env::system().now();
    tx.node_hello(node, "0.1.0", json!(found), &found.hardware_digest(), true, now).await.unwrap();
    tx.commit().await.unwrap();
}

async fn slots(kit: &Kit, node: NodeId) -> Vec<Slot> {
    kit.store().slot_list(node).await.unwrap()
}

fn allocation(fixture: &Fixture, name: &str, gpus: i64) -> Allocation {
    let env = Env::system();
    let (tenant, project) = (fixture.id("acme").parse().unwrap(), fixture.id("train").parse().unwrap());
    let capacity = Capacity { gpus, cpus: 1, memory_mb: 1, disk_mb: 1 };
    Allocation::requested(env.id(), tenant, project, name, capacity, env.now())
}

/// Makes an allocation hold one slot of a node and a little of the rest, as the engine would.
async fn hold(kit: &Kit, fixture: &Fixture, node: NodeId, slot: SlotId) -> AllocationId {
    let asked = allocation(fixture, "holder", 1);
    let mut tx = kit.store().begin().await.unwrap();
    tx.allocation_request(&asked).await.unwrap();
    let hold = Hold {
        node,
        allocation: asked.id,
        slots: vec![slot],
        amount: asked.capacity,
        holders: 1,
        exclusive: false,
        fit: Fit::of(&[], false),
        at: asked.created_at,
    };
    tx.hold(&hold, &[Env::system().id::<ClaimId>()]).await.unwrap();
    tx.node_recount(node).await.unwrap();
    tx.commit().await.unwrap();
    asked.id
}

async fn capacity(client: &Client, query: &str) -> Value {
    client.get(&format!("/v1/projects/acme.train/capacity?{query}")).await.ok().body
}
