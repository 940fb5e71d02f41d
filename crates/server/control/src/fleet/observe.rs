//! Agents report changed cell status. Reports on another incarnation, or on a cell of another node, are rejected and
//! dropped.

use std::collections::BTreeSet;

use muster_db::CellReport;
use muster_ids::InstanceId;
use muster_wire::wire::{CellObservation, Observations, Observed};
use serde_json::json;

use super::admit::Admitted;
use crate::health::store_report;
use crate::{Cx, Result};

/// Maximum stored length of each text.
const MOST: usize = 500;

/// Handles `observe`, and schedules a health assessment of the affected instances.
pub async fn observe(cx: &Cx, agent: &Admitted, body: Observations) -> Result<Observed> {
    agent.current(body.session)?;
    let platform = &cx.platform;
    platform.fleet.hear(agent.node);
    let mut refused = Vec::new();
    let mut instances: BTreeSet<InstanceId> = BTreeSet::new();
    let mut tx = platform.store.begin().await?;
    let written = async {
        for observed in &body.cells {
            if store_report(cx, &mut tx, agent.node, report(observed)).await? {
                instances.extend(tx.instance_of_cell(observed.cell.cell_id).await?);
            } else {
                refused.push(observed.cell.cell_id);
            }
        }
        tx.node_observed(agent.node, cx.now).await?;
        tx.node_in_session(agent.node, body.session).await
    };
    if let Err(error) = written.await {
        tx.rollback().await;
        return Err(super::hello::not_ours(error));
    }
    tx.commit().await?;
    platform.sealer_wake.notify_one();
    platform.assess_all(&instances.into_iter().collect::<Vec<_>>()).await;
    Ok(Observed { refused })
}

fn report(observed: &CellObservation) -> CellReport {
    let cut = |text: &str| text.chars().take(MOST).collect::<String>();
    let services: Vec<_> = observed
        .services
        .iter()
        .map(|service| {
            json!({"name": service.name, "state": service.state, "ready": service.ready, "restarts": service.restarts,
                   "exit": service.exit, "message": service.message.as_deref().map(cut)})
        })
        .collect();
    CellReport {
        cell_id: observed.cell.cell_id,
        incarnation: observed.cell.incarnation,
        alive: observed.alive,
        services: json!(services),
        message: observed.message.as_deref().map(cut),
        boot_id: observed.boot_id.clone(),
    }
}
