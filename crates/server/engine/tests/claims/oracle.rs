//! An independent count: compares the rows with each other and with the workers' own records. Nothing in here calls the
//! store's counting code.

use std::collections::{BTreeMap, BTreeSet};

use muster_db::{AllocationFilter, Page, Store};
use muster_ids::{AllocationId, NodeId, SlotId};
use muster_model::LabelSelector;
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::node::{Capacity, Node, Slot, SlotState};
use muster_model::placement::Fit;

use crate::fleet::Fleet;
use crate::worker::Worker;

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A slot with two live claims.
    Double(SlotId, Vec<AllocationId>),
    /// A node with wrong counters, and which.
    Unbalanced(NodeId, String),
    /// An allocation with too few or too many claims for its capacity.
    Disagrees(AllocationId, String),
    /// The index by which nodes are found does not match their free capacity.
    Misfiled(String),
}

/// Returns all violations. Only for a database at rest: it takes many reads.
pub(crate) async fn findings(fleet: &Fleet, workers: &[Worker]) -> Vec<Finding> {
    let store = &fleet.replicas[1];
    let held = held(store).await;
    let mut findings = Vec::new();
    let mut claims = BTreeMap::<AllocationId, BTreeSet<SlotId>>::new();
    let mut kinds = BTreeMap::<Fit, i64>::new();
    for id in &fleet.nodes {
        let node = store.node_lookup(*id).await.unwrap().unwrap();
        // One row for each live claim, and one for each slot without.
        let rows = store.slot_list(*id).await.unwrap();
        let here: Vec<&Allocation> = held.values().filter(|one| one.node_id == Some(*id)).collect();
        findings.extend(doubles(&rows));
        findings.extend(books(&node, &rows, &here).map(|what| Finding::Unbalanced(*id, what)));
        for row in &rows {
            if let Some(by) = row.allocation_id {
                claims.entry(by).or_default().insert(row.id);
            }
        }
        if here.iter().all(|one| one.shape != AllocationShape::Baremetal) {
            *kinds.entry(kind(&rows, here.is_empty())).or_default() += 1;
        }
    }
    findings.extend(believed(workers, &held, &claims));
    let filed: BTreeMap<Fit, i64> =
        store.fit_counts().await.unwrap().into_iter().map(|count| (count.fit, count.nodes)).collect();
    if filed != kinds {
        findings.push(Finding::Misfiled(format!("filed {filed:?}, counted {kinds:?}")));
    }
    findings
}

/// Returns all allocations that hold something.
async fn held(store: &Store) -> BTreeMap<AllocationId, Allocation> {
    let every = LabelSelector::parse("").unwrap();
    let filter =
        AllocationFilter { state: Some(AllocationState::Provisioning), ..AllocationFilter::default() };
    let page = Page { after: uuid::Uuid::nil(), size: 1_000_000 };
    let rows = store.allocation_list(page, &every, filter).await.unwrap();
    rows.into_iter().map(|row| (row.id, row)).collect()
}

fn doubles(rows: &[Slot]) -> Vec<Finding> {
    let mut holders = BTreeMap::<SlotId, Vec<AllocationId>>::new();
    for row in rows {
        holders.entry(row.id).or_default().extend(row.allocation_id);
    }
    holders.retain(|_, by| by.len() > 1);
    holders.into_iter().map(|(slot, by)| Finding::Double(slot, by)).collect()
}

/// Lists the wrong counters of a node: free and held must add up to the total, for every resource.
fn books(node: &Node, rows: &[Slot], here: &[&Allocation]) -> impl Iterator<Item = String> + use<> {
    let count = |number: usize| i64::try_from(number).unwrap();
    let sum = |of: fn(&Capacity) -> i64| here.iter().map(|one| of(&one.held)).sum::<i64>();
    let slots: BTreeSet<SlotId> = rows.iter().map(|row| row.id).collect();
    let claimed = count(rows.iter().filter(|row| row.allocation_id.is_some()).count());
    let exclusive = here.iter().filter(|one| one.shape == AllocationShape::Baremetal).count();
    let mut wrong = Vec::new();
    let mut same = |what: &str, left: i64, right: i64| {
        if left != right {
            wrong.push(format!("{what}: {left} is not {right}"));
        }
    };
    let (free, total) = (&node.free, &node.total);
    same("cpus, free and held", free.cpus + sum(|held| held.cpus), total.cpus);
    same("memory, free and held", free.memory_mb + sum(|held| held.memory_mb), total.memory_mb);
    same("disk, free and held", free.disk_mb + sum(|held| held.disk_mb), total.disk_mb);
    same("GPUs, free and held", free.gpus + sum(|held| held.gpus), total.gpus);
    same("GPUs that are claimed and held", claimed, sum(|held| held.gpus));
    same("GPUs and slots", total.gpus, count(slots.len()));
    same("holders", node.holders, count(here.len()));
    if exclusive > 0 {
        same("neighbours of who has it alone", count(here.len()), 1);
        same("CPUs left by who has it alone", free.cpus, 0);
        same("GPUs left by who has it alone", free.gpus, 0);
    }
    wrong.into_iter()
}

/// Compares the workers' records, the allocations and the claims, which must agree.
fn believed(
    workers: &[Worker],
    held: &BTreeMap<AllocationId, Allocation>,
    claims: &BTreeMap<AllocationId, BTreeSet<SlotId>>,
) -> Vec<Finding> {
    let believed: BTreeMap<_, _> = workers.iter().flat_map(|worker| &worker.held).collect();
    let all: BTreeSet<_> = believed.keys().copied().chain(held.keys()).chain(claims.keys()).collect();
    let mut findings = Vec::new();
    for id in all {
        let slots = claims.get(id).cloned().unwrap_or_default();
        let ours = believed.get(id).map(|placed| {
            (Some(placed.node), placed.held, placed.slots.iter().copied().collect::<BTreeSet<_>>())
        });
        let theirs = held.get(id).map(|row| (row.node_id, row.held, slots.clone()));
        if ours != theirs {
            findings.push(Finding::Disagrees(*id, format!("a worker has {ours:?}, the rows say {theirs:?}")));
        }
    }
    findings
}

/// Computes the free capacity of a node, slot by slot.
fn kind(rows: &[Slot], whole: bool) -> Fit {
    let free = || rows.iter().filter(|row| row.allocation_id.is_none() && row.state == SlotState::Approved);
    let most = |of: fn(&Slot) -> (i64, i64)| {
        let mut counts = BTreeMap::<(i64, i64), u8>::new();
        free().for_each(|slot| *counts.entry(of(slot)).or_default() += 1);
        counts.into_values().max().unwrap_or(0)
    };
    Fit {
        whole,
        gpus: u8::try_from(free().count()).unwrap(),
        pocket: most(|slot| (slot.island, slot.numa)),
        island: most(|slot| (slot.island, 0)),
        numa: most(|slot| (0, slot.numa)),
    }
}
