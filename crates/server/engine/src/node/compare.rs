//! Lists all platform resources on the node and compares them with the database, in both directions.

use std::collections::BTreeSet;

use muster_db::Result;
use muster_ids::{AllocationId, CellId, NetworkId};
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::cell::{Cell, CellState};
use muster_model::node::Node;
use muster_wire::act::Act;
use muster_wire::task::{Findings, NodeResource, NodeResourceKind};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Ask, Asked, ask};
use crate::{StepAction, StepOutcome};

pub(super) const COMPARE: Step = Step {
    name: "compare",
    does: "survey the node and compare it with the database",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

/// Number of differences listed in a message.
const TOLD: usize = 20;

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let node = subject(cx).await?;
    Ok(match found(cx, &node, "survey").await? {
        Asked::Pending(act) => act,
        Asked::Failed(message) => StepOutcome::Refused { reason: "verify_failed", message }.into(),
        Asked::Done(_, found) => {
            let differences = find_differences(cx, &node, &found).await?;
            let said = differences.said(found.resources.len());
            let compared = Compared { resources: found.resources.len(), differences };
            StepOutcome::with(compared).and_message(Some(said)).into()
        }
    })
}

/// Requests a list of all platform resources on the node.
pub(super) async fn found(cx: &StepCx<'_>, node: &Node, purpose: &'static str) -> Result<Asked> {
    let survey = Ask { node: node.id, purpose: purpose.into(), incarnation: 0, act: Act::Survey };
    ask(cx, &survey).await
}

/// Output of the comparison.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Compared {
    /// Number of resources on the node.
    pub(super) resources: usize,
    #[serde(flatten)]
    pub(super) differences: Differences,
}

/// Differences between a node and its database rows.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Differences {
    /// Resources without rows.
    pub(super) orphans: Vec<NodeResource>,
    /// Rows without resources, and resources that only a human may remove, as messages.
    pub(super) missing: Vec<String>,
}

impl Differences {
    pub(super) fn said(&self, resources: usize) -> String {
        if *self == Self::default() {
            return format!("{resources} resources compared: no orphans, nothing missing");
        }
        let orphans = self.orphans.iter().map(|thing| {
            let kind = json!(thing.kind);
            format!("{} {} is an orphan", kind.as_str().unwrap_or_default(), thing.name)
        });
        let all: Vec<String> = orphans.chain(self.missing.iter().cloned()).collect();
        let more = all.len().saturating_sub(TOLD);
        let mut said = all.into_iter().take(TOLD).collect::<Vec<_>>().join("; ");
        if more > 0 {
            said.push_str(&format!("; and {more} more"));
        }
        said
    }
}

/// Reads the current rows of the node and compares.
pub(super) async fn find_differences(cx: &StepCx<'_>, node: &Node, found: &Findings) -> Result<Differences> {
    let allocations = cx.store.allocation_live_on(node.id).await?;
    let cells = cx.store.cell_live_on(node.id).await?;
    let networks = cx.store.network_on_node(node.id).await?;
    let mut differences =
        compare(found, &allocations, &cells, &networks.iter().map(|network| network.id).collect());
    for share in found.resources.iter().filter(|thing| thing.kind == NodeResourceKind::Share) {
        let network = match share.network_id {
            Some(id) => cx.store.network_lookup(id).await?,
            None => None,
        };
        // A share of an unknown network may belong to another platform on the same file system, so it is not reported. Nor
        // is a share removed automatically: by the time the node does that, a new instance of the same name may use the
        // directory.
        if network.is_some_and(|network| network.shared_files.is_none()) {
            differences.missing.push(format!(
                "shared files of the cells of {} are left without a row: check them, and remove them from the shared file system by hand",
                share.name
            ));
        }
    }
    Ok(differences)
}

fn compare(
    found: &Findings,
    allocations: &[Allocation],
    cells: &[Cell],
    networks: &BTreeSet<NetworkId>,
) -> Differences {
    let known: BTreeSet<AllocationId> = allocations.iter().map(|allocation| allocation.id).collect();
    let living: BTreeSet<CellId> = cells.iter().map(|cell| cell.id).collect();
    let orphan = |thing: &&NodeResource| {
        if thing.kind == NodeResourceKind::Share {
            return false;
        }
        // The innermost owner that a resource names decides.
        match (thing.cell_id, thing.allocation_id, thing.network_id) {
            (Some(cell), ..) => !living.contains(&cell),
            (None, Some(allocation), _) => !known.contains(&allocation),
            (None, None, Some(network)) => !networks.contains(&network),
            (None, None, None) => true,
        }
    };
    let orphans = found.resources.iter().filter(orphan).cloned().collect();
    let mut missing = Vec::new();
    for allocation in allocations.iter().filter(|allocation| allocation.state == AllocationState::Active) {
        let there = found
            .sandboxes
            .iter()
            .any(|place| place.allocation_id == allocation.id && place.incarnation == allocation.incarnation);
        if !there {
            missing.push(format!(
                "the sandbox of allocation {} ({}) is missing: `muster allocation restart` recreates it",
                allocation.name, allocation.id
            ));
        }
    }
    for cell in cells.iter().filter(|cell| cell.state == CellState::Running) {
        let there =
            |thing: &NodeResource| thing.kind == NodeResourceKind::Cell && thing.cell_id == Some(cell.id);
        // A simulated node has sandboxes and no other resources.
        if !found.resources.is_empty() && !found.resources.iter().any(there) {
            missing.push(format!(
                "the cell {} ({}) is missing: `muster cell restart` recreates it",
                cell.name, cell.id
            ));
        }
    }
    Differences { orphans, missing }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_wire::task::SandboxRef;

    use super::*;
    use crate::allocation::tests::allocation;
    use crate::cell::tests::cell;

    fn thing(allocation_id: Option<AllocationId>, network_id: Option<NetworkId>) -> NodeResource {
        NodeResource {
            kind: NodeResourceKind::Mount,
            name: "/m".to_owned(),
            allocation_id,
            cell_id: None,
            network_id,
        }
    }

    #[test]
    fn orphans_and_missing_resources_are_found() {
        let env = Env::for_tests(7);
        let held = Allocation { state: AllocationState::Active, ..allocation(2) };
        let place = SandboxRef { allocation_id: held.id, incarnation: 2 };
        let network: NetworkId = env.id();
        let resources = vec![thing(Some(held.id), None), thing(None, Some(network))];
        let found =
            Findings { sandboxes: vec![place.clone()], resources: resources.clone(), ..Findings::default() };
        let rows = std::slice::from_ref(&held);
        assert_eq!(compare(&found, rows, &[], &[network].into()), Differences::default());

        let strange = vec![thing(Some(env.id()), None), thing(None, Some(env.id())), thing(None, None)];
        let all = resources.into_iter().chain(strange.clone()).collect();
        let found = Findings { resources: all, ..found };
        assert_eq!(compare(&found, rows, &[], &[network].into()).orphans, strange);

        let older =
            Findings { sandboxes: vec![SandboxRef { incarnation: 1, ..place }], ..Findings::default() };
        assert_eq!(compare(&older, rows, &[], &[].into()).missing.len(), 1);
    }

    #[test]
    fn leftover_of_a_cell_is_an_orphan_though_its_allocation_lives() {
        let env = Env::for_tests(7);
        let held = Allocation { state: AllocationState::Active, ..allocation(2) };
        let sandboxes = vec![SandboxRef { allocation_id: held.id, incarnation: 2 }];
        let living = Cell { allocation_id: held.id, state: CellState::Running, ..cell(&env) };
        let of = |kind, cell_id| NodeResource { kind, cell_id: Some(cell_id), ..thing(Some(held.id), None) };
        let left = of(NodeResourceKind::Mount, env.id());
        let resources =
            vec![of(NodeResourceKind::Cell, living.id), of(NodeResourceKind::Mount, living.id), left.clone()];
        let found = Findings { sandboxes: sandboxes.clone(), resources, ..Findings::default() };
        let rows = std::slice::from_ref(&held);
        let differences = compare(&found, rows, std::slice::from_ref(&living), &[].into());
        assert_eq!(differences, Differences { orphans: vec![left], missing: Vec::new() });

        // For a running cell a mount is not enough; a cell still being created may have nothing yet.
        let found = Findings {
            sandboxes,
            resources: vec![of(NodeResourceKind::Mount, living.id)],
            ..Findings::default()
        };
        let missing = compare(&found, rows, std::slice::from_ref(&living), &[].into()).missing;
        assert!(missing.len() == 1 && missing[0].contains("muster cell restart"), "{missing:?}");
        let coming = Cell { state: CellState::Provisioning, ..living };
        assert_eq!(compare(&found, rows, &[coming], &[].into()), Differences::default());
    }
}
