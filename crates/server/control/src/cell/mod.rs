//! Cells. The commands record the desired state; the engine provisions it.

mod archived_logs;
pub(crate) mod check;
mod create;
mod destroy;
mod get;
mod list;
mod restart;

pub use archived_logs::archived_logs;
pub use create::create;
pub use destroy::destroy;
pub use get::get;
pub use list::list;
pub use restart::restart;

use jiff::SignedDuration;
use muster_api::cell as api;
use muster_db::StoreError;
use muster_engine::Definition;
use muster_ids::TypedId as _;
use muster_model::assess::{
    Assessment, Bounds, CellObservation, MemberFacts, NodeFacts, ServiceObservation, ServiceState,
    assess_member,
};
use muster_model::cell::{Cell, CellFailure, CellState};
use muster_model::instance::Health;
use muster_model::member::MemberState;
use muster_model::operation::OperationKind;
use muster_model::operation_input::OperationInput;
use muster_wire::cell::Protocol;
use serde_json::json;

use crate::operation::{Subject, Submission, submit};
use crate::{Cx, Error, PreparedCommand, Result};

pub(crate) fn path(cell: &Cell) -> String {
    format!("/v1/projects/{}/cells/{}", cell.project_id, cell.id)
}

/// Returns the view with its address and ports, which need queries.
pub(crate) async fn view(cx: &Cx, cell: &Cell) -> Result<api::Cell> {
    let store = &cx.platform.store;
    let network = store.network_lookup(cell.network_id).await?;
    let address = network.and_then(|network| network.address(cell.host));
    let ports = store.node_port_of(cell.id).await?;
    let spec = serde_json::from_value(cell.spec.clone())
        .map_err(|_| Error::from(StoreError::Corrupt("a cell specification")))?;
    let observed = store.cell_observation(cell.id).await?;
    let assessed = assess(cx, cell, observed.as_ref()).await?;
    Ok(api::Cell {
        id: cell.id,
        tenant_id: cell.tenant_id,
        project_id: cell.project_id,
        allocation_id: cell.allocation_id,
        node_id: cell.node_id,
        network_id: cell.network_id,
        name: cell.name.clone(),
        labels: cell.labels.clone(),
        spec,
        address: address.map(|address| address.to_string()).unwrap_or_default(),
        ports: ports
            .into_iter()
            .map(|port| api::CellPort {
                port: port.cell_port,
                protocol: if port.protocol == "udp" { Protocol::Udp } else { Protocol::Tcp },
                node_port: port.port,
            })
            .collect(),
        state: cell.state,
        health: assessed.health,
        health_message: assessed.message,
        status: observed.filter(|one| one.incarnation == cell.incarnation).map(status),
        incarnation: cell.incarnation,
        reason: cell.reason.map(|reason| reason.as_str().to_owned()),
        advice: cell.reason.map(CellFailure::advice).map(str::to_owned),
        message: cell.message.clone(),
        operation_id: cell.operation_id,
        created_at: cell.created_at,
        updated_at: cell.updated_at,
        version: cell.version,
    })
}

/// Assesses a cell's health by the rules for a member's cell, without an adapter.
async fn assess(cx: &Cx, cell: &Cell, observed: Option<&CellObservation>) -> Result<Assessment> {
    let unknown = Assessment {
        health: Health::Unknown,
        reason: None,
        message: None,
        since: cell.updated_at,
        review_at: None,
    };
    if cell.state != CellState::Running || observed.is_none() {
        return Ok(unknown);
    }
    let store = &cx.platform.store;
    let (node, confirmed_at) =
        tokio::try_join!(store.node_lookup(cell.node_id), store.node_confirmed_at(cell.node_id))?;
    let facts = MemberFacts {
        incarnation: cell.incarnation,
        changed_at: cell.updated_at,
        node: node.as_ref().map(|node| NodeFacts {
            name: &node.name,
            unreachable_since: node.unreachable_since,
            confirmed_at,
        }),
        cell: observed,
        report: None,
        adapter_silent_at: None,
        before: None,
    };
    // The downtime of a bare cell's service has no consequence: its owner decides.
    let bounds = Bounds { restart: SignedDuration::MAX, ..crate::health::bounds(cx) };
    Ok(assess_member(&facts, bounds, cx.now))
}

fn status(observed: CellObservation) -> api::CellStatus {
    api::CellStatus {
        alive: observed.alive,
        since: observed.since,
        observed_at: observed.observed_at,
        services: observed.services.iter().map(service_status).collect(),
    }
}

pub(crate) fn service_status(observed: &ServiceObservation) -> api::ServiceStatus {
    api::ServiceStatus {
        name: observed.name.clone(),
        state: match observed.state {
            ServiceState::Idle => muster_wire::cell::ServiceState::Idle,
            ServiceState::Waiting => muster_wire::cell::ServiceState::Waiting,
            ServiceState::Running => muster_wire::cell::ServiceState::Running,
            ServiceState::Restarting => muster_wire::cell::ServiceState::Restarting,
            ServiceState::Ended => muster_wire::cell::ServiceState::Ended,
        },
        ready: observed.ready,
        restarts: observed.restarts,
        exit: observed.exit,
        message: observed.message.clone(),
    }
}

/// Prepares an operation on a cell; shared by all commands that start one.
async fn act(
    cx: &Cx,
    cell: Cell,
    definition: &'static Definition,
    body: api::CellAct,
    deadline_at: jiff::Timestamp,
    supersedes: bool,
) -> Result<PreparedCommand> {
    not_a_members(cx, &cell, definition).await?;
    let under_way = cx.platform.store.operation_open_on(cell.id.uuid()).await?;
    let dry_run = body.dry_run.unwrap_or(false);
    if let Some(same) = under_way.iter().find(|operation| operation.kind == definition.kind)
        && !dry_run
    {
        let detail = format!(
            "{} is already in progress: follow it with `muster operation watch {}`",
            same.kind, same.id
        );
        return Err(Error::new(muster_api::Code::InvalidState, detail));
    }
    let reason = body.reason.unwrap_or_default();
    let subject = Subject {
        kind: "cell",
        uuid: cell.id.uuid(),
        id: cell.id.to_string(),
        name: cell.name.clone(),
        path: path(&cell),
    };
    Ok(submit(
        cx,
        Submission {
            input: OperationInput::because(&reason),
            event_data: json!({"name": cell.name, "reason": reason}),
            before: Some(json!({"state": cell.state, "incarnation": cell.incarnation})),
            supersedes: if supersedes { under_way } else { Vec::new() },
            dry_run,
            ..Submission::on(definition, cell.scope(), subject, deadline_at)
        },
    ))
}

/// Ensures that the cell belongs to no living member: destroying or re-creating it directly would leave its member active on
/// stale evidence, without a quorum check.
async fn not_a_members(cx: &Cx, cell: &Cell, definition: &Definition) -> Result<()> {
    let Some(id) = cell.member_id else { return Ok(()) };
    let member = cx.platform.store.member_lookup(id).await?;
    let Some(member) = member.filter(|member| member.state != MemberState::Removed) else { return Ok(()) };
    let instead = if definition.kind == OperationKind::CellRestart { "recover or replace" } else { "remove" };
    let why = format!("it is the cell of the member {}: {instead} the member instead", member.name);
    Err(Error::new(muster_api::Code::InvalidState, why))
}
