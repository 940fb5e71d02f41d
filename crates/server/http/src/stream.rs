//! Streaming responses: server-sent events, and line-by-line downloads.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt as _};
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use muster_control::event::Item;
use muster_control::{Cx, Result, audit as audits, event};

use crate::input::Input;
use crate::respond;

/// Interval of keep-alive comments on an idle stream, for proxies and clients.
const HEARTBEAT: Duration = Duration::from_secs(15);

fn streaming(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Serves `event_stream`.
pub(crate) async fn events(cx: &Cx, input: &Input) -> Result<Response<Body>> {
    Ok(event_stream(cx, event::stream(cx, input.query()?, input.last_event_id).await?))
}

/// Serves `instance_event_stream`.
pub(crate) async fn instance_events(cx: &Cx, input: &Input) -> Result<Response<Body>> {
    let (project, instance) = (input.path(0), input.path(1));
    Ok(event_stream(
        cx,
        event::instance_stream(cx, project, instance, input.query()?, input.last_event_id).await?,
    ))
}

fn event_stream(cx: &Cx, items: impl Stream<Item = Item> + Send + 'static) -> Response<Body> {
    let frames = counted(cx, items.map(frame));
    streaming("text/event-stream", Body::from_stream(with_heartbeat(frames)))
}

/// Serves `audit_export`.
pub(crate) async fn audit(cx: &Cx, input: &Input) -> Result<Response<Body>> {
    let lines = audits::export(cx, input.query()?).await?;
    // An error in the middle aborts the transfer: a client gets a broken download, never a truncated one that looks
    // complete.
    let chunks = lines
        .map(|lines| lines.map(|(lines, held)| respond::counted(lines, held)).map_err(std::io::Error::other));
    Ok(streaming("application/x-ndjson", Body::from_stream(chunks)))
}

fn frame(item: Item) -> Bytes {
    Bytes::from(match item {
        Item::Event(event) => {
            let data = serde_json::to_string(&event).expect("an event is JSON");
            format!("id: {}\nevent: event\ndata: {data}\n\n", event.sequence)
        }
        Item::Reset(after) => format!("id: {after}\nevent: reset\ndata: {{\"after\":{after}}}\n\n"),
        Item::End(why) => format!("event: end\ndata: {}\n\n", serde_json::json!({"detail": why})),
    })
}

/// Counts frames as unread until they are written. A stream whose caller leaves too much unread ends; the client continues it
/// after the last event that it has.
fn counted(
    cx: &Cx,
    frames: impl Stream<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let (platform, share) = (cx.platform.clone(), cx.share());
    let frames = Some(Box::pin(frames));
    futures::stream::unfold(frames, move |frames| {
        let (platform, share) = (platform.clone(), share.clone());
        async move {
            let mut frames = frames?;
            let bytes = frames.next().await?;
            match platform.limits.hold(&share, bytes.len()) {
                Some(held) => Some((respond::counted(bytes, held), Some(frames))),
                None => {
                    platform.metrics.rate_limited.inc();
                    Some((frame(Item::End(respond::too_much_unread().detail)), None))
                }
            }
        }
    })
}

fn with_heartbeat(
    frames: impl Stream<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    // The opening comment flushes the headers, so that a client knows it is connected.
    let opening = futures::stream::once(async { Ok(Bytes::from_static(b": muster\n\n")) });
    let rest = futures::stream::unfold(Box::pin(frames), |mut frames| async move {
        match tokio::time::timeout(HEARTBEAT, frames.next()).await {
            Ok(Some(frame)) => Some((Ok(frame), frames)),
            Ok(None) => None,
            Err(_) => Some((Ok(Bytes::from_static(b": alive\n\n")), frames)),
        }
    });
    opening.chain(rest)
}
