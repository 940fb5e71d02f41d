//! Make a cell in an allocation.

use std::collections::BTreeMap;

use muster_api::cell::CellCreate;
use muster_api::operations::Started;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_ids::{CellId, NetworkId, OperationId, TypedId as _};
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::cell::{Cell, CellState, NodePort, free_host};
use muster_model::event::EventType;
use muster_node_api::cell::{CellSpec, Protocol};
use muster_operations::cell::CREATE;
use muster_operations::{Open, open};
use muster_store::Tx;
use serde_json::json;

use super::check::{NODE_PORTS, fault};
use super::path;
use crate::commit::{WriteError, target};
use crate::operation::started;
use crate::refuse::{Result, refuse};
use crate::tenant::checked_labels;
use crate::{Answer, Commit, Cx, operation};

/// So many cells an allocation holds at most: each costs the node a few processes that no limit of the allocation's counts.
const MOST_CELLS: usize = 64;
/// The network of a project's bare cells.
const NETWORK: &str = "default";

/// Prepares `cell_create`.
pub async fn create(cx: &Cx, project: &str, body: CellCreate) -> Result<Commit> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::CellCreate, scope, "project")?;
    let allocation = cx.allocation(project, &body.allocation).await?;
    let Some(node_id) = allocation.node_id.filter(|_| allocation.state == AllocationState::Active) else {
        let detail = format!("its allocation must be active; {} is {}", allocation.name, allocation.state);
        return Err(Problem::new(Code::InvalidState, detail));
    };
    if cx.platform.store.cell_live_in(allocation.id).await.map_err(refuse)?.len() >= MOST_CELLS {
        let detail = format!(
            "its allocation holds {MOST_CELLS} cells, which is as many as one can: destroy one first"
        );
        return Err(Problem::new(Code::QuotaExceeded, detail));
    }
    if let Some((field, why)) = fault(&body.spec, allocation.capacity.gpus) {
        return Err(Problem::field(field, why));
    }
    if body.ready_until.is_some_and(|time| time <= cx.now) {
        return Err(Problem::field("/ready_until", "it is in the past"));
    }
    let deadline_at = body.ready_until.unwrap_or(cx.now + cx.platform.engine.timing().create);
    let world = &cx.platform.world;
    let (id, operation_id): (CellId, OperationId) = (world.id(), world.id());
    let tenant_id = scope.tenant().ok_or_else(|| Problem::not_found("project"))?;
    let plan = operation::plan(&CREATE, &[id.to_string()], deadline_at);
    let subject = target("cell", id, &body.name);
    if body.dry_run.unwrap_or(false) {
        let answer = Answer::new(&Started { operation: None, plan });
        let commit = Commit::new(scope, subject, move |_| Box::pin(async move { Ok(answer) }));
        return Ok(commit.detail(json!({"dry_run": true})));
    }
    let mut cell = Cell {
        id,
        tenant_id,
        project_id,
        allocation_id: allocation.id,
        node_id,
        network_id: world.id::<NetworkId>(),
        name: body.name,
        labels: checked_labels(body.labels)?,
        spec: json!(body.spec),
        ssh_keys: body.spec.ssh_keys,
        host: 0,
        state: CellState::Requested,
        incarnation: 0,
        reason: None,
        message: None,
        running_witness_id: None,
        gone_witness_id: None,
        operation_id: Some(operation_id),
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let opened = open(
        &CREATE,
        Open {
            id: operation_id,
            scope,
            subject_kind: "cell",
            subject_id: id.uuid(),
            subject_name: cell.name.clone(),
            touches: vec![id.uuid()],
            asked_by: operation::asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input: json!({}),
            deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    let told = json!({"name": cell.name, "allocation_id": allocation.id, "operation_id": operation_id});
    let subject_path = path(&cell);
    let (spec, now) = (body.spec, cx.now);
    let commit = Commit::new(scope, subject, move |tx| {
        Box::pin(async move {
            let network = tx.network_ensure(cell.network_id, tenant_id, project_id, NETWORK, now).await?;
            cell.network_id = network.id;
            cell.host = free_host(&tx.cell_hosts(network.id).await?).ok_or_else(network_full)?;
            tx.cell_request(&cell).await?;
            take_ports(tx, &allocation, &cell, &spec).await?;
            tx.wanted_raise(network.id, node_id).await?;
            tx.operation_open(&opened).await?;
            Ok(started(&opened, plan))
        })
    });
    Ok(commit.wakes_engine().event(cx, EventType::CellRequested, subject_path, told))
}

fn network_full() -> Problem {
    Problem::new(Code::QuotaExceeded, "every address of the project's network is taken: destroy a cell first")
}

/// Gives the cell the node's ports that it asks for, or some that are free.
async fn take_ports(
    tx: &mut Tx,
    allocation: &Allocation,
    cell: &Cell,
    spec: &CellSpec,
) -> std::result::Result<(), WriteError> {
    let mut taken: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (index, ingress) in spec.ingress.iter().enumerate() {
        let protocol = match ingress.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        if !taken.contains_key(protocol) {
            taken.insert(protocol, tx.node_port_taken(cell.node_id, protocol).await?);
        }
        let used = taken.entry(protocol).or_default();
        let port = match ingress.node_port {
            Some(port) if used.contains(&i64::from(port)) => {
                let node = allocation.node_name.as_deref().unwrap_or("its node");
                let why = format!("port {port} of {node} leads to another cell: name another, or none");
                return Err(Problem::field(format!("/spec/ingress/{index}/node_port"), why).into());
            }
            Some(port) => i64::from(port),
            None => NODE_PORTS.map(i64::from).find(|port| !used.contains(port)).ok_or_else(|| {
                Problem::new(Code::QuotaExceeded, "every port of the node that can lead to cells is taken")
            })?,
        };
        used.push(port);
        let leads = NodePort { protocol: protocol.to_owned(), port, cell_port: i64::from(ingress.port) };
        tx.node_port_insert(cell.node_id, cell.id, &leads).await?;
    }
    Ok(())
}
