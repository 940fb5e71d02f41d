//! What all commands that start an operation on an allocation have in common.

use jiff::Timestamp;
use muster_api::{Code, Problem};
use muster_ids::TypedId as _;
use muster_model::allocation::Allocation;
use muster_operations::Definition;
use serde_json::Value;

use super::path;
use crate::capacity::amounts;
use crate::operation::{Start, start};
use crate::refuse::{Result, refuse};
use crate::{Commit, Cx};

/// So many cells are named in a refusal.
const NAMED: usize = 5;

/// An operation on an allocation that exists.
pub(super) struct Act {
    pub(super) allocation: Allocation,
    pub(super) definition: &'static Definition,
    pub(super) input: Value,
    pub(super) deadline_at: Timestamp,
    pub(super) told: Value,
    pub(super) dry_run: bool,
    /// Whether what is under way is taken over, or waited for.
    pub(super) supersedes: bool,
}

/// Prepares it.
pub(super) async fn act(cx: &Cx, act: Act) -> Result<Commit> {
    let Act { allocation, definition, .. } = act;
    let under_way = cx.platform.store.operation_open_on(allocation.id.uuid()).await.map_err(refuse)?;
    if let Some(same) = under_way.iter().find(|operation| operation.kind == definition.kind)
        && !act.dry_run
    {
        let detail =
            format!("{} is already under way: `muster operation watch {}` shows how far", same.kind, same.id);
        return Err(Problem::new(Code::InvalidState, detail));
    }
    Ok(start(
        cx,
        Start {
            definition,
            scope: allocation.scope(),
            subject_kind: "allocation",
            subject_id: allocation.id.uuid(),
            subject: allocation.id.to_string(),
            path: path(&allocation),
            input: act.input,
            deadline_at: act.deadline_at,
            told: act.told,
            capacity: Some(amounts(&allocation.capacity)),
            supersedes: if act.supersedes { under_way } else { Vec::new() },
            dry_run: act.dry_run,
            name: allocation.name,
        },
    ))
}

/// Goes on only if the allocation holds no living cell. One that is asked for meanwhile is no harm: a place that goes takes
/// its cells along, with evidence for each.
pub(super) async fn without_cells(cx: &Cx, allocation: &Allocation, why: &str) -> Result<()> {
    let cells = cx.platform.store.cell_live_in(allocation.id).await.map_err(refuse)?;
    if cells.is_empty() {
        return Ok(());
    }
    let mut named: Vec<&str> = cells.iter().take(NAMED).map(|cell| cell.name.as_str()).collect();
    if cells.len() > NAMED {
        named.push("…");
    }
    let detail = format!(
        "it holds cells ({}), and {why}: destroy them first (`muster cell destroy`)",
        named.join(", ")
    );
    Err(Problem::new(Code::InvalidState, detail))
}
