//! List the events of a stream.

use futures::FutureExt as _;
use muster_api::event::{EventListQuery, EventPage};
use muster_authz::Permission;
use muster_db::EventFilter;
use muster_model::event::Event;

use super::view;
use crate::cursor::PageLimits;
use crate::{Answer, Cx, Result};

/// Handles `event_list`.
pub async fn list(cx: &Cx, query: EventListQuery) -> Result<Answer> {
    let scope = cx.scope(query.tenant.as_deref(), query.project.as_deref()).await?;
    cx.authorize(Permission::EventList, scope, "stream")?;
    let after = query.after.unwrap_or(0);
    let store = &cx.platform.store;
    cx.large_answer().await;
    let (sealed_up_to, _) = store.event_stream_head(scope).await?;
    let read = |after, limit| {
        let filter = EventFilter { after, event_type: query.event_type.clone(), limit };
        async move { store.event_list(scope, &filter).await }.boxed()
    };
    let sequence = |event: &Event| event.sequence_in(scope).unwrap_or(i64::MAX);
    let bytes = |event: &Event| event.draft.data.to_string().len();
    let events =
        Cx::read_sequence(after, PageLimits::of_list(query.page_size), sequence, bytes, read).await?;
    let items: Vec<_> = events.iter().filter_map(|event| view(event, scope)).collect();
    let next_after = items.last().map_or(after, |event| event.sequence);
    Ok(Answer::new(&EventPage { items, next_after, sealed_up_to: sealed_up_to.max(next_after) }))
}
