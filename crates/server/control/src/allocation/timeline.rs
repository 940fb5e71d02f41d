//! Show an allocation's state history, with durations and evidence.

use jiff::Timestamp;
use muster_api::allocation as api;
use muster_authz::Permission;
use muster_ids::TypedId as _;
use muster_model::allocation::Phase;

use crate::{Answer, Cx, Result, operation};

/// Handles `allocation_timeline`.
pub async fn timeline(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationTimeline, allocation.scope(), "allocation")?;
    let store = &cx.platform.store;
    let phases = store.phase_list(allocation.id).await?;
    let witnesses = store.witness_list(allocation.id.uuid()).await?;
    Ok(Answer::new(&api::Timeline {
        phases: with_durations(&phases, cx.now),
        witnesses: witnesses.iter().map(|found| operation::witness(cx.is_operator(), found)).collect(),
    }))
}

/// Returns the phases with durations. Each state lasts until the next one; the last until now, unless it is final.
fn with_durations(phases: &[Phase], now: Timestamp) -> Vec<api::Phase> {
    let until = |index: usize| match phases.get(index + 1) {
        Some(next) => Some(next.at),
        None => (!phases[index].state.is_final()).then_some(now),
    };
    let view = |(index, phase): (usize, &Phase)| api::Phase {
        state: phase.state,
        at: phase.at,
        milliseconds: until(index).map(|until| {
            let lasted = until.duration_since(phase.at).as_millis();
            i64::try_from(lasted).unwrap_or(i64::MAX)
        }),
        operation_id: phase.operation_id,
        reason: phase.reason.clone(),
    };
    phases.iter().enumerate().map(view).collect()
}
