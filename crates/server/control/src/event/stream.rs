//! Live event streaming: stored events first, then new ones, without a gap.

use std::sync::Arc;

use futures::{FutureExt as _, Stream};
use muster_api::event::{Event as View, EventStreamQuery, InstanceEventStreamQuery};
use muster_authz::Permission;
use muster_db::EventFilter;
use muster_ids::InstanceId;
use muster_model::Scope;
use muster_model::event::Event;
use tokio::sync::broadcast;

use super::view;
use crate::cursor::PageLimits;
use crate::revalidate::Revalidated;
use crate::{Cx, Result};

/// An item of a stream.
#[derive(Debug, Clone)]
pub enum Item {
    /// An event.
    Event(Box<View>),
    /// The requested position is no longer stored; the stream continues after this number.
    Reset(i64),
    /// The server ends the stream, for this reason.
    End(String),
}

/// Stored events that a stream holds for its reader: so many, and so many bytes; at least one.
const PAGE: u16 = 200;
const PAGE_BYTES: usize = 64 << 10;

struct Follow {
    allowed: Revalidated,
    scope: Scope,
    /// Only the timeline of this instance.
    instance: Option<InstanceId>,
    last: i64,
    live: broadcast::Receiver<Arc<Event>>,
    stopping: tokio::sync::watch::Receiver<bool>,
    /// Events read from the database and not yet returned.
    kept: std::collections::VecDeque<View>,
    /// Whether the database may hold further events.
    behind: bool,
    ended: bool,
    counted: Counted,
    opened: crate::limits::StreamSlot,
}

struct Counted(Arc<crate::Platform>);

impl Counted {
    fn new(platform: &Arc<crate::Platform>) -> Self {
        platform.metrics.streams.inc();
        Self(platform.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.streams.dec();
    }
}

/// Opens `event_stream`. The credential is revalidated while the stream is open.
pub async fn stream(
    cx: &Cx,
    query: EventStreamQuery,
    last_event_id: Option<i64>,
) -> Result<impl Stream<Item = Item> + Send + 'static + use<>> {
    let scope = cx.scope(query.tenant.as_deref(), query.project.as_deref()).await?;
    cx.authorize(Permission::EventStream, scope, "stream")?;
    follow(cx, scope, None, last_event_id.or(query.after)).await
}

/// Opens `instance_event_stream`.
pub async fn instance_stream(
    cx: &Cx,
    project: &str,
    reference: &str,
    query: InstanceEventStreamQuery,
    last_event_id: Option<i64>,
) -> Result<impl Stream<Item = Item> + Send + 'static + use<>> {
    let instance = cx.instance(project, reference).await?;
    cx.authorize(Permission::EventStream, instance.scope(), "instance")?;
    follow(cx, instance.scope(), Some(instance.id), last_event_id.or(query.after)).await
}

async fn follow(
    cx: &Cx,
    scope: Scope,
    instance: Option<InstanceId>,
    asked: Option<i64>,
) -> Result<impl Stream<Item = Item> + Send + 'static + use<>> {
    let opened = cx.open(crate::limits::StreamKind::Events)?;
    // Subscribe before reading the database: events sealed in between arrive twice and are deduplicated by number.
    let live = cx.platform.tail.subscribe();
    let (newest, pruned) = cx.platform.store.event_stream_head(scope).await?;
    let last = asked.unwrap_or(newest).min(newest.max(0));
    let reset = last < pruned;
    let follow = Follow {
        allowed: Revalidated::new(cx, Permission::EventStream, scope),
        scope,
        instance,
        last: if reset { pruned } else { last },
        live,
        stopping: cx.platform.stopping.subscribe(),
        kept: std::collections::VecDeque::new(),
        behind: true,
        ended: false,
        counted: Counted::new(&cx.platform),
        opened,
    };
    let first = reset.then_some(Item::Reset(pruned));
    Ok(futures::stream::unfold((follow, first), |(mut follow, first)| async move {
        match first {
            Some(item) => Some((item, (follow, None))),
            None => follow.next().await.map(|item| (item, (follow, None))),
        }
    }))
}

impl Follow {
    async fn next(&mut self) -> Option<Item> {
        let _ = (&self.counted, &self.opened);
        if self.ended {
            return None;
        }
        loop {
            if let Err(error) = self.allowed.check().await {
                self.ended = true;
                return Some(Item::End(error.detail));
            }
            if let Some(event) = self.kept.pop_front() {
                self.last = event.sequence;
                return Some(Item::Event(Box::new(event)));
            }
            if self.behind {
                if let Err(error) = self.read_on().await {
                    self.ended = true;
                    return Some(Item::End(error.detail));
                }
                continue;
            }
            let happened = tokio::select! {
                happened = tokio::time::timeout(self.allowed.due_in(), self.live.recv()) => happened,
                _ = self.stopping.wait_for(|stopping| *stopping) => Ok(Err(broadcast::error::RecvError::Closed)),
            };
            match happened {
                // No event: time to revalidate the credential.
                Err(_) => {}
                Ok(Ok(event)) => match event.sequence_in(self.scope) {
                    Some(sequence) if sequence == self.last + 1 => {
                        self.last = sequence;
                        if self.instance.is_none_or(|id| event.draft.timeline.instance_id == Some(id)) {
                            self.kept.extend(view(&event, self.scope));
                        }
                    }
                    // A number was skipped: read it from the database.
                    Some(sequence) if sequence > self.last => self.behind = true,
                    Some(_) | None => {}
                },
                Ok(Err(broadcast::error::RecvError::Lagged(_))) => self.behind = true,
                Ok(Err(broadcast::error::RecvError::Closed)) => {
                    self.ended = true;
                    return Some(Item::End("the server is stopping; reconnect".to_owned()));
                }
            }
        }
    }

    async fn read_on(&mut self) -> Result<()> {
        let (scope, store) = (self.scope, &self.allowed.cx.platform.store);
        let instance = self.instance;
        // Without further events on the timeline, the stream continues after this number.
        let newest = match instance {
            Some(_) => store.event_stream_head(scope).await?.0,
            None => self.last,
        };
        let read = |after, limit| {
            let filter = EventFilter { after, instance, limit, ..EventFilter::default() };
            async move { store.event_list(scope, &filter).await }.boxed()
        };
        let most = PageLimits { items: PAGE, bytes: PAGE_BYTES };
        let sequence = |event: &Event| event.sequence_in(scope).unwrap_or(i64::MAX);
        let bytes = |event: &Event| event.draft.data.to_string().len();
        let events = Cx::read_sequence(self.last, most, sequence, bytes, read).await?;
        self.behind = !events.is_empty();
        if events.is_empty() {
            self.last = self.last.max(newest);
        }
        self.kept.extend(events.iter().filter_map(|event| view(event, scope)));
        Ok(())
    }
}
