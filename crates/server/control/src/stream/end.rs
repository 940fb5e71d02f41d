//! One end of a stream, independent of its transport.

use std::any::Any;
use std::pin::Pin;

use futures::stream::BoxStream;
use futures::{Sink, SinkExt as _, StreamExt as _};
use muster_wire::stream::{Channel, Control};

/// Maximum message size. Only one whole message is held in memory while it is relayed.
pub const LARGEST: usize = 1 << 20;

/// A frame from or to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message of the stream.
    Message(Vec<u8>),
    /// Outgoing: a ping; incoming: any sign of life.
    Ping,
    /// Incoming only: an unexpected frame, described.
    Strange(String),
}

/// One end of a stream.
pub struct End {
    /// Incoming frames; ends when it has closed or is lost.
    pub source: BoxStream<'static, Frame>,
    /// Outgoing frames. It accepts the next message after the previous one was sent.
    pub sink: Pin<Box<dyn Sink<Frame, Error = String> + Send>>,
    /// Guard to hold until the end is dropped: its slot among the server's connections.
    pub held: Option<Box<dyn Any + Send>>,
}

impl End {
    /// Sends a control message.
    pub(super) async fn say(&mut self, control: &Control) -> Result<(), String> {
        let text = serde_json::to_vec(control).expect("a control message is JSON");
        self.sink.send(Frame::Message(Channel::Control.message(&text))).await
    }

    /// Closes it and waits for the peer to close: dropping a connection with unread bytes may discard the last message
    /// before the peer reads it.
    pub(super) async fn close(&mut self) {
        if self.sink.close().await.is_ok() {
            while self.source.next().await.is_some() {}
        }
    }
}
