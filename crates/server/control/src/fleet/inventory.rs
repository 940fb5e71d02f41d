//! Report of an inventory that changed while the agent was running.

use muster_wire::wire::{Changed, Noted};
use serde_json::json;

use super::admit::{Admitted, retired};
use super::hello::{inventory_changed, not_ours};
use super::{slots, tell};
use crate::{Cx, Result};

/// Handles `inventory`.
pub async fn inventory(cx: &Cx, agent: &Admitted, body: Changed) -> Result<Noted> {
    agent.current(body.session)?;
    let platform = &cx.platform;
    let store = &platform.store;
    platform.fleet.hear(agent.node);
    let node = store.node_lookup(agent.node).await?.ok_or_else(retired)?;
    let known = store.slot_list(node.id).await?;
    let found = slots::discovered(&platform.env, node.id, &body.inventory, &known);
    let digest = body.inventory.hardware_digest();
    let told = inventory_changed(&node, &body.inventory, &digest);
    let mut tx = store.begin().await?;
    let written = async {
        tx.node_inventory(node.id, body.session, json!(body.inventory), &digest, cx.now).await?;
        let frees = slots::write(&mut tx, cx, &node, "node.inventory", &body.inventory, &found).await?;
        let Some(event) = told else { return Ok(frees) };
        let news = tell::News {
            actor: tell::agent(node.id, &node.name),
            action: "node.inventory",
            target: tell::target(node.id, &node.name),
            subject: tell::subject(node.id),
            events: vec![event],
            correlation_id: &cx.correlation_id,
            at: cx.now,
        };
        platform.outbox_append(&mut tx, news).await.map(|()| frees)
    };
    let frees = match written.await {
        Ok(frees) => frees,
        Err(error) => {
            tx.rollback().await;
            return Err(not_ours(error));
        }
    };
    tx.commit().await?;
    platform.sealer_wake.notify_one();
    if frees {
        platform.engine.wake.notify_one();
    }
    Ok(Noted { needs_approval: node.approved_digest.as_deref() != Some(digest.as_str()) })
}
