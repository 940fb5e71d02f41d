//! A stream between this program and a cell: bytes in, bytes out, and its exit status.
//!
//! It is joined with the same client that requested it, so credential, certificate authorities and proxies are the same.

use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use reqwest::StatusCode;
use reqwest::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::call::refusal;
use crate::{Connection, Error};

type Socket = WebSocketStream<reqwest::Upgraded>;

/// First byte of each message.
const INPUT: u8 = 0;
const OUTPUT: u8 = 1;
const ERROR: u8 = 2;
const CONTROL: u8 = 3;

/// The platform's maximum message size.
const LARGEST: usize = 1 << 20;
/// Maximum size of an input chunk.
const PIECE: usize = 64 << 10;
/// Timeout: the server pings four times a minute, so longer silence means a dead connection.
const SILENCE: Duration = Duration::from_secs(60);

/// Item of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Started.
    Started,
    /// Standard output, a file, or a log.
    Output(Bytes),
    /// Standard error.
    Error(Bytes),
    /// Ended, with this exit status.
    Exited(i32),
    /// Failed, with a message.
    Failed(String),
}

/// Input side of a stream.
#[derive(Debug)]
pub struct StreamInput {
    sink: SplitSink<Socket, Message>,
    server: String,
}

/// Output side of a stream.
#[derive(Debug)]
pub struct StreamOutput {
    source: SplitStream<Socket>,
    server: String,
}

fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(64 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * LARGEST)
        .max_message_size(Some(2 * LARGEST))
        .max_frame_size(Some(2 * LARGEST))
}

impl Connection {
    /// Joins a stream by the path from its creation.
    pub async fn join(&self, path: &str) -> Result<(StreamInput, StreamOutput), Error> {
        if !path.starts_with('/') {
            return Err(Error::Setup(format!("{path:?} is not the path of a stream")));
        }
        let key = generate_key();
        let request = self
            .http
            .get(format!("{}{path}", self.server))
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let response = request.send().await.map_err(|error| Error::network(&self.server, &error))?;
        let status = response.status().as_u16();
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let headers = response.headers().clone();
            return Err(refusal(status, &headers, response.bytes().await.unwrap_or_default().as_ref()));
        }
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accept.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(Error::Answer { status, why: "its upgrade does not match the request".to_owned() });
        }
        let upgraded = response.upgrade().await.map_err(|error| Error::network(&self.server, &error))?;
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(limits())).await;
        let (sink, source) = socket.split();
        let server = self.server.clone();
        Ok((StreamInput { sink, server: server.clone() }, StreamOutput { source, server }))
    }
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    Message::Binary(message.into())
}

impl StreamInput {
    /// Sends input; waits while the other end does not accept it.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for piece in bytes.chunks(PIECE) {
            self.put(message(INPUT, piece)).await?;
        }
        Ok(())
    }

    /// Signals the end of input.
    pub async fn end(&mut self) -> Result<(), Error> {
        self.control(&json!({"input_ended": {}})).await
    }

    /// Sends a new terminal size.
    pub async fn resize(&mut self, columns: u16, rows: u16) -> Result<(), Error> {
        self.control(&json!({"resize": {"columns": columns, "rows": rows}})).await
    }

    /// Closes the stream, and ends its command.
    pub async fn close(&mut self) {
        // A peer that is gone needs no close frame.
        let _ = self.sink.close().await;
    }

    async fn control(&mut self, control: &Value) -> Result<(), Error> {
        self.put(message(CONTROL, control.to_string().as_bytes())).await
    }

    async fn put(&mut self, message: Message) -> Result<(), Error> {
        let lost = |cause: String| Error::Lost { server: self.server.clone(), cause };
        self.sink.send(message).await.map_err(|error| lost(error.to_string()))
    }
}

impl StreamOutput {
    /// Returns the next item. [`Said::Exited`] or [`Said::Failed`] is the last one; an end without either is an error.
    pub async fn next(&mut self) -> Result<Said, Error> {
        let lost = |cause: &str| Error::Lost { server: self.server.clone(), cause: cause.to_owned() };
        loop {
            let message = match tokio::time::timeout(SILENCE, self.source.next()).await {
                Err(_) => return Err(lost("no message arrived for a minute")),
                Ok(None) => return Err(lost("the stream was closed")),
                Ok(Some(Err(error))) => return Err(lost(&error.to_string())),
                Ok(Some(Ok(message))) => message,
            };
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Close(_) => return Err(lost("the stream was closed")),
                _ => continue,
            };
            match bytes.first() {
                Some(&OUTPUT) => return Ok(Said::Output(bytes.slice(1..))),
                Some(&ERROR) => return Ok(Said::Error(bytes.slice(1..))),
                // Ignore control messages of a newer server.
                Some(&CONTROL) => match said(&bytes[1..]) {
                    Some(said) => return Ok(said),
                    None => continue,
                },
                _ => continue,
            }
        }
    }
}

fn said(text: &[u8]) -> Option<Said> {
    let control: Value = serde_json::from_slice(text).ok()?;
    let (word, data) = control.as_object()?.iter().next()?;
    match word.as_str() {
        "started" => Some(Said::Started),
        "exited" => Some(Said::Exited(i32::try_from(data["status"].as_i64()?).ok()?)),
        "failed" => Some(Said::Failed(data["why"].as_str()?.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_read_and_unknown_ones_are_passed_over() {
        assert_eq!(said(br#"{"started": {}}"#), Some(Said::Started));
        assert_eq!(said(br#"{"exited": {"status": 3}}"#), Some(Said::Exited(3)));
        assert_eq!(said(br#"{"failed": {"why": "so"}}"#), Some(Said::Failed("so".to_owned())));
        assert_eq!(said(br#"{"paused": {}}"#), None);
        assert_eq!(said(b"nonsense"), None);
    }
}
