//! WebSockets. The command pipeline and the use-case authorize one before the upgrade; this module turns it into the end
//! of a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use futures::future::BoxFuture;
use futures::stream::{SplitSink, SplitStream, unfold};
use futures::{Sink, SinkExt as _, StreamExt as _};
use http::Response;
use http::request::Parts;
use muster_control::stream::{End, Frame, LARGEST};
use muster_control::{Cx, Error, Result, stream};
use tokio_tungstenite::tungstenite;

use crate::input::Input;
use crate::listen::{Connected, PausesAllowed};

/// Handler of a connected socket.
pub(crate) type Serve = Box<dyn FnOnce(End) -> BoxFuture<'static, ()> + Send>;

/// Serves `stream_join`.
pub(crate) async fn join(cx: &Cx, input: &Input) -> Result<Serve> {
    let joined = stream::join(cx, input.path(0), input.secret.clone()).await?;
    Ok(Box::new(move |user| Box::pin(stream::meet(joined, user))))
}

/// A request that can become a WebSocket.
pub(crate) struct Upgrade {
    upgrade: WebSocketUpgrade,
    connected: Option<Connected>,
    pauses: Option<PausesAllowed>,
}

impl Upgrade {
    /// Parses an upgrade; refuses a request without one.
    pub(crate) async fn read(parts: &mut Parts) -> Result<Self> {
        let connected = parts.extensions.get::<Connected>().cloned();
        let pauses = parts.extensions.get::<PausesAllowed>().cloned();
        let upgrade = WebSocketUpgrade::from_request_parts(parts, &())
            .await
            .map_err(|_| Error::field("header/Upgrade", "join it by an upgrade to WebSocket, version 13"))?;
        // Every message is written immediately: a full socket applies back pressure to the sender.
        let upgrade = upgrade
            .read_buffer_size(64 << 10)
            .write_buffer_size(0)
            .max_write_buffer_size(4 * LARGEST)
            .max_message_size(LARGEST)
            .max_frame_size(LARGEST);
        Ok(Self { upgrade, connected, pauses })
    }

    /// Responds with the upgrade; `serve` runs once the connection has become a socket.
    pub(crate) fn serve(self, serve: Serve) -> Response<Body> {
        let connected = self.connected;
        // The stream's own rules end it: a user may pause a terminal.
        if let Some(pauses) = &self.pauses {
            pauses.set();
        }
        self.upgrade.on_upgrade(move |socket| serve(end(socket, connected)))
    }
}

fn end(socket: WebSocket, connected: Option<Connected>) -> End {
    let (sink, source) = socket.split();
    End {
        source: unfold(Some(source), frame).fuse().boxed(),
        sink: Box::pin(Outgoing(sink)),
        held: connected.map(|connected| Box::new(connected) as Box<_>),
    }
}

/// Sending half of a socket. Adapters that map errors must not be used after the first error, but a close frame is
/// attempted anyway.
struct Outgoing(SplitSink<WebSocket, Message>);

impl Sink<Frame> for Outgoing {
    type Error = String;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.0.poll_ready_unpin(cx).map_err(|error| error.to_string())
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Frame) -> Result<(), String> {
        let message = match frame {
            Frame::Message(message) => Message::Binary(message.into()),
            Frame::Ping => Message::Ping(axum::body::Bytes::new()),
            Frame::Strange(why) => return Err(why),
        };
        self.0.start_send_unpin(message).map_err(|error| error.to_string())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.0.poll_flush_unpin(cx).map_err(|error| error.to_string())
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.0.poll_close_unpin(cx).map_err(|error| error.to_string())
    }
}

type Source = SplitStream<WebSocket>;

/// Returns the next frame; an invalid one ends the stream.
async fn frame(source: Option<Source>) -> Option<(Frame, Option<Source>)> {
    let mut source = source?;
    match source.next().await? {
        Ok(Message::Binary(message)) => Some((Frame::Message(message.into()), Some(source))),
        Ok(Message::Ping(_) | Message::Pong(_)) => Some((Frame::Ping, Some(source))),
        Ok(Message::Text(_)) => Some((Frame::Strange("messages are binary, not text".to_owned()), None)),
        Ok(Message::Close(_)) => None,
        Err(error) => match error.into_inner().downcast_ref::<tungstenite::Error>() {
            Some(tungstenite::Error::Capacity(_)) => {
                Some((Frame::Strange(format!("a message is larger than {LARGEST} bytes")), None))
            }
            _ => None,
        },
    }
}
