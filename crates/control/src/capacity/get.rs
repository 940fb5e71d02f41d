//! Show what the project can get now.

use muster_api::capacity::{AllocationShape, CapacityNearest, CapacityQuery, CapacityReport, QuotaLeft};
use muster_authz::Permission;
use muster_model::node::Capacity;
use muster_store::{Room, Store};

use super::amounts;
use super::weigh::{Question, by_gpus, change, largest, least, left, nearest, nodes, obstacle};
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// Answers `capacity_get`.
pub async fn get(cx: &Cx, project: &str, query: CapacityQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::CapacityGet, scope, "project")?;
    let store = &cx.platform.store;
    let question = question(&query);
    let rooms = store.rooms(&question.need).await.map_err(refuse)?;
    let quota = left(&store.quota_lookup(project).await.map_err(refuse)?);
    let obstacle = obstacle(&question, &rooms, &quota);
    let report = CapacityReport {
        project_id: project,
        shape: question.shape,
        capacity: amounts(&question.need),
        fits_now: obstacle.is_none(),
        nodes: nodes(&question, &rooms),
        largest: amounts(&largest(&question, &rooms)),
        by_gpus: by_gpus(&question, &rooms),
        waiting: store.line_length().await.map_err(refuse)?,
        quota_left: quota,
        reason: obstacle.as_ref().map(|(reason, _)| *reason),
        nearest: match obstacle {
            None => None,
            Some(_) => instead(store, &question, &quota, &rooms).await?,
        },
        message: obstacle.map(|(_, message)| message),
    };
    Ok(Answer::new(&report))
}

/// What would fit in its place. It is cut down to what the quota leaves first, and only if that is not enough, to what any
/// one node has: each cut is a question of its own, for which the store counts anew.
async fn instead(
    store: &Store,
    question: &Question,
    quota: &QuotaLeft,
    rooms: &[Room],
) -> Result<Option<CapacityNearest>> {
    let cuts = [least(question, quota, None), least(question, quota, Some(rooms))];
    for cut in cuts.into_iter().flatten() {
        let rooms = store.rooms(&cut.need).await.map_err(refuse)?;
        if let Some(other) = nearest(&cut, &rooms) {
            let change = change(question, &other);
            return Ok(Some(CapacityNearest { change, shape: other.shape, capacity: amounts(&other.need) }));
        }
    }
    Ok(None)
}

fn question(query: &CapacityQuery) -> Question {
    Question {
        shape: query.shape.unwrap_or(AllocationShape::GpuSlice),
        need: Capacity {
            gpus: i64::from(query.gpus.unwrap_or(0)),
            cpus: query.cpus.unwrap_or(0),
            memory_mb: query.memory_mb.unwrap_or(0),
            disk_mb: query.disk_mb.unwrap_or(0),
        },
    }
}
