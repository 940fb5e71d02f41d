//! Logic shared by all commands that start an operation on an allocation.

use jiff::{SignedDuration, Timestamp};
use muster_api::Code;
use muster_authz::Permission;
use muster_engine::Definition;
use muster_engine::allocation::{find_interruption, is_kept, occupants};
use muster_ids::TypedId as _;
use muster_model::allocation::Allocation;
use muster_model::cell::Cell;
use muster_model::operation::Operation;
use muster_model::operation_input::OperationInput;
use serde_json::{Value, json};

use super::subject;
use crate::operation::{Submission, plan, submit};
use crate::{Cx, Error, PreparedCommand, Result};

/// Maximum number of cells named in an error message.
const NAMED: usize = 5;

/// A request for an operation on an existing allocation.
pub(super) struct Act {
    pub(super) allocation: Allocation,
    pub(super) definition: &'static Definition,
    pub(super) input: OperationInput,
    pub(super) deadline_at: Timestamp,
    pub(super) event_data: Value,
    pub(super) dry_run: bool,
    /// Whether to supersede open operations instead of queueing behind them.
    pub(super) supersedes: bool,
    /// Further resources it affects, for the plan.
    pub(super) touched: Vec<String>,
}

/// Prepares the operation.
pub(super) async fn act(cx: &Cx, act: Act) -> Result<PreparedCommand> {
    let Act { allocation, definition, .. } = act;
    let under_way = cx.platform.store.operation_open_on(allocation.id.uuid()).await?;
    if let Some(same) = under_way.iter().find(|operation| operation.kind == definition.kind)
        && !act.dry_run
        // A release that is blocked before it removed anything can be superseded by another release, and one that is not
        // forced by one that is.
        && !(act.supersedes && (is_kept(same) || can_be_forced(same, &act.input)))
    {
        let detail = format!(
            "{} is already in progress: follow it with `muster operation watch {}`",
            same.kind, same.id
        );
        return Err(Error::new(Code::InvalidState, detail));
    }
    let mut touched = vec![allocation.id.to_string()];
    touched.extend(act.touched);
    let mut shown = plan(definition, &touched, act.deadline_at);
    shown.capacity = Some(allocation.capacity);
    Ok(submit(
        cx,
        Submission {
            input: act.input,
            event_data: act.event_data,
            before: Some(json!({"state": allocation.state, "capacity": allocation.capacity,
                "node_id": allocation.node_id, "incarnation": allocation.incarnation})),
            supersedes: if act.supersedes { under_way } else { Vec::new() },
            plan: shown,
            dry_run: act.dry_run,
            ..Submission::on(definition, allocation.scope(), subject(&allocation), act.deadline_at)
        },
    ))
}

/// Reports whether a release waits for what the new one is forced not to wait for. The parent of a child is forced instead.
fn can_be_forced(release: &Operation, input: &OperationInput) -> bool {
    input.force && !release.input.force && release.parent_id.is_none()
}

/// The living cells of an allocation: cell and member ids for the plan, and names.
pub(super) struct Interrupted {
    pub(super) touched: Vec<String>,
    pub(super) names: Vec<String>,
    /// Cell with the highest GPU index, and that index.
    pub(super) last_gpu: Option<(String, i64)>,
    /// Extra time for draining and joining members, beside the operation itself.
    pub(super) within: SignedDuration,
}

/// Time limit for the members of a restarted allocation.
const MEMBERS_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// Returns the cells that a restart interrupts.
pub(super) async fn interrupted(cx: &Cx, allocation: &Allocation) -> Result<Interrupted> {
    let cells = cx.platform.store.cell_live_in(allocation.id).await?;
    let mut touched: Vec<String> = cells.iter().map(|cell| cell.id.to_string()).collect();
    touched.extend(cells.iter().filter_map(|cell| cell.member_id).map(|id| id.to_string()));
    let within = match cells.iter().any(|cell| cell.member_id.is_some()) {
        true => MEMBERS_WITHIN,
        false => SignedDuration::ZERO,
    };
    let gpu = |cell: &Cell| {
        let last = cell.spec["gpus"].as_array()?.iter().filter_map(Value::as_i64).max()?;
        Some((cell.name.clone(), last))
    };
    let last_gpu = cells.iter().filter_map(gpu).max_by_key(|(_, last)| *last);
    Ok(Interrupted { touched, last_gpu, names: cells.into_iter().map(|cell| cell.name).collect(), within })
}

/// Ensures that the cells in it can be restarted now: the caller may recover members, and no quorum is lost unless forced.
pub(super) async fn ensure_restartable(cx: &Cx, allocation: &Allocation, force: bool) -> Result<()> {
    let store = &cx.platform.store;
    let found = occupants(store, &cx.platform.engine.releases, allocation.id).await?;
    if found.is_empty() {
        return Ok(());
    }
    cx.authorize(Permission::MemberRecover, allocation.scope(), "allocation")?;
    match find_interruption(store, &found, force).await? {
        Some(why) => Err(Error::new(Code::InvalidState, why)),
        None => Ok(()),
    }
}

/// Returns the first few names, for an error message.
pub(super) fn named(names: &[String]) -> String {
    let more = if names.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "))
}
