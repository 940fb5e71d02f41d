//! Show the capacity available to the project now.

use jiff::Timestamp;
use muster_api::capacity::{
    AllocationShape, CapacityNearest, CapacityQuery, CapacityReason, CapacityReport, QuotaLeft,
};
use muster_authz::Permission;
use muster_db::Store;
use muster_model::placement::{Room, Strategy, ask_for};

use super::request::{impossible, with_defaults};
use super::weigh::{Question, by_gpus, change, largest, least, left, nearest, nodes, obstacle};
use crate::{Answer, Cx, Result};

/// Handles `capacity_get`.
pub async fn get(cx: &Cx, project: &str, query: CapacityQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::CapacityGet, scope, "project")?;
    let store = &cx.platform.store;
    let question = question(&query);
    let heard_since = cx.platform.engine.timing().heard_since(cx.now);
    let rooms = store.rooms(&question.need, heard_since).await?;
    let limits = store.quota_lookup(project).await?;
    let quota = left(&limits);
    let mut obstacle = obstacle(&question, &rooms, &limits);
    if let Some((reason, message)) = &mut obstacle
        && *reason != CapacityReason::Quota
    {
        *message = explain(cx, &question, std::mem::take(message), heard_since).await?;
    }
    let report = CapacityReport {
        project_id: project,
        shape: question.shape,
        capacity: question.need,
        fits_now: obstacle.is_none(),
        nodes: nodes(&question, &rooms),
        largest: largest(&question, &rooms),
        by_gpus: by_gpus(&question, &rooms),
        waiting: store.queue_length().await?,
        quota_left: quota,
        reason: obstacle.as_ref().map(|(reason, _)| *reason),
        nearest: match obstacle {
            None => None,
            Some(_) => instead(store, &question, &quota, &rooms, heard_since).await?,
        },
        message: obstacle.map(|(_, message)| message),
    };
    Ok(Answer::new(&report))
}

/// Explains a shortage beyond the scarce resource: no node is large enough, or the nodes that are do not send heartbeats.
async fn explain(cx: &Cx, question: &Question, short: String, heard_since: Timestamp) -> Result<String> {
    let store = &cx.platform.store;
    let largest = store.largest_nodes(&question.need).await?;
    if let Some((_, impossible)) = impossible(&question.need, &largest) {
        return Ok(impossible);
    }
    let ask = ask_for(&question.need, question.shape == AllocationShape::Baremetal, Strategy::Pack);
    let silent = store.silent_with_room(&ask, &question.need, heard_since).await?;
    Ok(match silent {
        Some(silent) => {
            let nodes =
                if silent.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", silent.nodes) };
            format!("{short}; {nodes} with enough free missed the last heartbeats")
        }
        None => short,
    })
}

/// Returns the nearest request that would fit. It is reduced to the remaining quota first, and only if that is not enough,
/// to the largest free node: each reduction is a new query.
async fn instead(
    store: &Store,
    question: &Question,
    quota: &QuotaLeft,
    rooms: &[Room],
    heard_since: Timestamp,
) -> Result<Option<CapacityNearest>> {
    let cuts = [least(question, quota, None), least(question, quota, Some(rooms))];
    for cut in cuts.into_iter().flatten() {
        let rooms = store.rooms(&cut.need, heard_since).await?;
        if let Some(other) = nearest(&cut, &rooms) {
            let change = change(question, &other);
            return Ok(Some(CapacityNearest { change, shape: other.shape, capacity: other.need }));
        }
    }
    Ok(None)
}

fn question(query: &CapacityQuery) -> Question {
    Question {
        shape: query.shape.unwrap_or(AllocationShape::GpuSlice),
        need: with_defaults(query.gpus, query.cpus, query.memory_mb, query.disk_mb),
    }
}
