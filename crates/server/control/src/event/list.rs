//! List the events of a stream.

use muster_api::event::{EventListQuery, EventPage};
use muster_authz::Permission;
use muster_db::EventFilter;

use super::view;
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// Handles `event_list`.
pub async fn list(cx: &Cx, query: EventListQuery) -> Result<Answer> {
    let scope = cx.scope(query.tenant.as_deref(), query.project.as_deref()).await?;
    cx.authorize(Permission::EventList, scope, "stream")?;
    let after = query.after.unwrap_or(0);
    let limit = i64::from(query.page_size.unwrap_or(50));
    let store = &cx.platform.store;
    let (sealed_up_to, _) = store.event_stream_head(scope).await.map_err(refuse)?;
    let filter = EventFilter { after, event_type: query.event_type, limit };
    let events = store.event_list(scope, &filter).await.map_err(refuse)?;
    let items: Vec<_> = events.iter().filter_map(|event| view(event, scope)).collect();
    let next_after = items.last().map_or(after, |event| event.sequence);
    Ok(Answer::new(&EventPage { items, next_after, sealed_up_to: sealed_up_to.max(next_after) }))
}
