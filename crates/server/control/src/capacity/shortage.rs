//! Checks whether a project could get an allocation now, and which resource is short if not.

use muster_ids::{NodeId, ProjectId};
use muster_model::allocation::AllocationShape;
use muster_model::node::Capacity;

use super::weigh::{Question, obstacle};
use crate::{Cx, Result};

/// Returns the shortage, if there is one. `but` is a node to exclude.
pub(crate) async fn shortage(
    cx: &Cx,
    project: ProjectId,
    shape: AllocationShape,
    need: Capacity,
    but: Option<NodeId>,
) -> Result<Option<String>> {
    let store = &cx.platform.store;
    let heard_since = cx.platform.engine.timing().heard_since(cx.now);
    let rooms = match but {
        Some(node) => store.rooms_elsewhere(&need, heard_since, node).await,
        None => store.rooms(&need, heard_since).await,
    };
    let rooms = rooms?;
    let quota = store.quota_lookup(project).await?;
    Ok(obstacle(&Question { shape, need }, &rooms, &quota).map(|(_, message)| message))
}
