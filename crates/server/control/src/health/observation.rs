//! Stores an agent's report on a cell and publishes the changes: a bare cell that ended, a service in a crash loop. The end
//! of a member's cell is assessed with its instance.

use muster_db::{CellReport, StoreError, Tx};
use muster_ids::NodeId;
use muster_model::assess::{CellObservation, ServiceObservation};
use muster_model::cell::{Cell, CellState};
use muster_model::event::{EventType, NewEvent, Timeline};
use muster_model::member::{Member, MemberState};
use serde_json::json;

use crate::{Cx, cell, member};

/// Stores a report; returns whether the cell is on that node, in that incarnation.
pub(crate) async fn store_report(
    cx: &Cx,
    tx: &mut Tx,
    node: NodeId,
    mut report: CellReport,
) -> muster_db::Result<bool> {
    let before = tx.cell_observation_now(report.cell_id).await?;
    let before = before.filter(|before| before.incarnation == report.incarnation);
    let services = serde_json::from_value::<Vec<ServiceObservation>>(report.services.clone());
    let mut services = services.map_err(|_| StoreError::Corrupt("the services of a cell"))?;
    let exited = !report.alive && before.as_ref().is_none_or(|before| before.alive);
    let restarted = services.iter().any(|one| one.restarts_since(earlier(before.as_ref(), one)) > 0);
    // Most reports contain neither, and cost only their own row.
    let of_cell = if exited || restarted { cell_and_member(tx, &report).await? } else { None };
    let at_work = of_cell.as_ref().is_some_and(|(cell, member)| is_at_work(cell, member.as_ref()));
    let mut looping = Vec::new();
    for service in &mut services {
        let earlier = earlier(before.as_ref(), service);
        service.note_restarts(earlier, at_work, cx.now);
        let was_looping = earlier.is_some_and(|one| one.crash_loop_until(cx.now).is_some());
        if !was_looping && service.crash_loop_until(cx.now).is_some() {
            looping.push(service.clone());
        }
    }
    report.services = json!(services);
    if !tx.cell_observe(node, &report, cx.now).await? {
        return Ok(false);
    }
    if let Some((cell, member)) = of_cell {
        let told = news(&cell, member.as_ref(), exited.then_some(&report), &looping);
        if !told.is_empty() {
            let timeline = member.as_ref().map(Timeline::of_member).unwrap_or_default();
            cx.outbox_append_as_platform(tx, cell.scope(), timeline, told).await?;
        }
    }
    Ok(true)
}

/// Returns the previous observation of the same service.
fn earlier<'b>(
    before: Option<&'b CellObservation>,
    service: &ServiceObservation,
) -> Option<&'b ServiceObservation> {
    before.and_then(|cell| cell.services.iter().find(|one| one.name == service.name))
}

async fn cell_and_member(
    tx: &mut Tx,
    report: &CellReport,
) -> muster_db::Result<Option<(Cell, Option<Member>)>> {
    let Some(cell) = tx.cell_now(report.cell_id).await? else { return Ok(None) };
    let member = match cell.member_id {
        Some(id) => tx.member_now(id).await?,
        None => None,
    };
    Ok(Some((cell, member)))
}

/// Reports whether all services were ready once. A member's cell runs before its adapter starts them.
fn is_at_work(cell: &Cell, member: Option<&Member>) -> bool {
    match member {
        Some(member) => {
            !matches!(member.state, MemberState::Requested | MemberState::Provisioning | MemberState::Joining)
        }
        None => cell.state == CellState::Running,
    }
}

fn news(
    cell: &Cell,
    member: Option<&Member>,
    exited: Option<&CellReport>,
    looping: &[ServiceObservation],
) -> Vec<NewEvent> {
    let mut told = Vec::new();
    let (event, path) = match member {
        Some(member) => (EventType::MemberCrashLoopDetected, member::path(member)),
        None => (EventType::CellCrashLoopDetected, cell::path(cell)),
    };
    for service in looping {
        let data = json!({"name": cell.name, "service": service.name, "restarts": service.restarts,
                          "exit": service.exit, "incarnation": cell.incarnation});
        told.push((event, path.clone(), data));
    }
    // The end of a member's cell is published with the member.
    if let Some(report) = exited.filter(|_| cell.member_id.is_none() && cell.state == CellState::Running) {
        let data = json!({"name": cell.name, "incarnation": cell.incarnation, "message": report.message});
        told.push((EventType::CellExited, cell::path(cell), data));
    }
    told
}
