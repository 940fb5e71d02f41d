//! One end of a stream, whatever carries it.

use std::any::Any;
use std::pin::Pin;

use futures::stream::BoxStream;
use futures::{Sink, SinkExt as _, StreamExt as _};
use muster_wire::stream::{Channel, Control};

/// The largest message. A whole one is held in memory while it is passed on, and no more than that.
pub const LARGEST: usize = 1 << 20;

/// What comes from an end, or goes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message of the stream.
    Message(Vec<u8>),
    /// Outwards, a question whether somebody is there; inwards, any sign that somebody is.
    Ping,
    /// Inwards only: something that no stream has, in words.
    Strange(String),
}

/// One end.
pub struct End {
    /// What comes from it; over when it has closed or is lost.
    pub source: BoxStream<'static, Frame>,
    /// What goes to it. It takes the next message when the one before was sent.
    pub sink: Pin<Box<dyn Sink<Frame, Error = String> + Send>>,
    /// What must not be given up before the end is: its place among the server's connections.
    pub held: Option<Box<dyn Any + Send>>,
}

impl End {
    /// Says something about the stream.
    pub(super) async fn say(&mut self, control: &Control) -> Result<(), String> {
        let text = serde_json::to_vec(control).expect("what is said of a stream is JSON");
        self.sink.send(Frame::Message(Channel::Control.message(&text))).await
    }

    /// Closes it, and waits until the other side has closed too: a connection that is dropped with unread bytes on it can
    /// take what was said last away from whoever was about to read it.
    pub(super) async fn close(&mut self) {
        if self.sink.close().await.is_ok() {
            while self.source.next().await.is_some() {}
        }
    }
}
