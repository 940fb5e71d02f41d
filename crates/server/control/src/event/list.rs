//! List the events of a stream.

use futures::FutureExt as _;
use muster_api::event::{EventListQuery, EventPage, InstanceEventListQuery};
use muster_authz::Permission;
use muster_db::EventFilter;
use muster_model::Scope;
use muster_model::event::Event;

use super::view;
use crate::cursor::PageLimits;
use crate::{Answer, Cx, Result};

/// Handles `event_list`.
pub async fn list(cx: &Cx, query: EventListQuery) -> Result<Answer> {
    let scope = cx.scope(query.tenant.as_deref(), query.project.as_deref()).await?;
    cx.authorize(Permission::EventList, scope, "stream")?;
    let filter = EventFilter { event_type: query.event_type, ..EventFilter::default() };
    page(cx, scope, filter, query.after, query.page_size).await
}

/// Handles `instance_event_list`.
pub async fn instance_list(
    cx: &Cx,
    project: &str,
    reference: &str,
    query: InstanceEventListQuery,
) -> Result<Answer> {
    let instance = cx.instance(project, reference).await?;
    cx.authorize(Permission::EventList, instance.scope(), "instance")?;
    let filter =
        EventFilter { instance: Some(instance.id), event_type: query.event_type, ..EventFilter::default() };
    page(cx, instance.scope(), filter, query.after, query.page_size).await
}

async fn page(
    cx: &Cx,
    scope: Scope,
    filter: EventFilter,
    after: Option<i64>,
    page_size: Option<u16>,
) -> Result<Answer> {
    let after = after.unwrap_or(0);
    let store = &cx.platform.store;
    cx.large_answer().await;
    let (sealed_up_to, _) = store.event_stream_head(scope).await?;
    let read = |after, limit| {
        let filter = EventFilter { after, limit, ..filter.clone() };
        async move { store.event_list(scope, &filter).await }.boxed()
    };
    let sequence = |event: &Event| event.sequence_in(scope).unwrap_or(i64::MAX);
    let bytes = |event: &Event| event.draft.data.to_string().len();
    let events = Cx::read_sequence(after, PageLimits::of_list(page_size), sequence, bytes, read).await?;
    let items: Vec<_> = events.iter().filter_map(|event| view(event, scope)).collect();
    let next_after = items.last().map_or(after, |event| event.sequence);
    Ok(Answer::new(&EventPage { items, next_after, sealed_up_to: sealed_up_to.max(next_after) }))
}
