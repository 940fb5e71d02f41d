//! One HTTP/1.1 connection for streaming downloads of any size.
//!
//! [`crate::link::Link`] buffers whole responses; this one returns chunks as they arrive. For both, the caller drives the
//! connection; both connect to the same server with the same keys, and are cut by the same switch.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::{Either, select};
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, Request};
use http_body_util::Empty;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};

use crate::dial::{Dial, Stream};
use crate::link::CallError;

/// Timeout for the start of a response, and between chunks.
const PATIENCE: Duration = Duration::from_secs(30);
/// Read buffer size.
const BUFFER: usize = 128 << 10;

pub(super) struct RegistryConnection {
    dial: Arc<Dial>,
    open: Option<Open>,
}

struct Open {
    sender: SendRequest<Empty<Bytes>>,
    connection: Connection<Stream, Empty<Bytes>>,
    edition: u64,
    ended: bool,
}

/// A response that is being read. It owns the connection until [`RegistryConnection::keep`] takes it back.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    body: Incoming,
    dial: Arc<Dial>,
    open: Open,
    at_end: bool,
}

impl RegistryConnection {
    pub(super) fn new(dial: &Arc<Dial>) -> Self {
        Self { dial: dial.clone(), open: None }
    }

    /// Sends a GET request; the body is read from the response.
    pub(super) async fn get(&mut self, path: &str, headers: HeaderMap) -> Result<Answer, CallError> {
        let strange = |error: http::Error| CallError::Strange(error.to_string());
        let mut request = Request::get(path)
            .header(HOST, self.dial.address.authority())
            .header(USER_AGENT, concat!("muster-agent/", env!("CARGO_PKG_VERSION")))
            .header("x-correlation-id", self.dial.env.uuid().to_string())
            .body(Empty::new())
            .map_err(strange)?;
        request.headers_mut().extend(headers);
        let before = self.open.take();
        let dial = self.dial.clone();
        let exchange = async {
            let mut open = match before {
                Some(open) => open.or_another(&dial).await?,
                None => Open::connect(&dial).await?,
            };
            let sending = pin!(open.sender.send_request(request));
            let response = match select(sending, &mut open.connection).await {
                Either::Left((response, _)) => response,
                Either::Right((_, response)) => {
                    open.ended = true;
                    response.await
                }
            };
            Ok((response.map_err(|error| CallError::Lost(error.to_string()))?, open))
        };
        let (response, open) = within(&dial, exchange).await?;
        let (parts, body) = response.into_parts();
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        Ok(Answer { status, headers, body, dial, open, at_end: false })
    }

    /// Takes back the connection of a fully read response for the next request.
    pub(super) fn keep(&mut self, answer: Answer) {
        self.open = answer.at_end.then_some(answer.open);
    }

    /// Reads a complete response of at most `most` bytes.
    pub(super) async fn whole(&mut self, mut answer: Answer, most: u64) -> Result<Bytes, CallError> {
        let mut all = BytesMut::new();
        while let Some(bytes) = answer.next().await? {
            if (all.len() + bytes.len()) as u64 > most {
                return Err(CallError::Strange(format!("it is longer than {most} bytes")));
            }
            all.extend_from_slice(&bytes);
        }
        self.keep(answer);
        Ok(all.freeze())
    }
}

impl Open {
    async fn connect(dial: &Dial) -> Result<Self, CallError> {
        let (stream, edition) = dial.connect().await?;
        let made = Builder::new().max_buf_size(BUFFER).handshake(stream).await;
        let (sender, connection) = made.map_err(|error| CallError::Unreachable(error.to_string()))?;
        Ok(Self { sender, connection, edition, ended: false })
    }

    /// Returns the connection, or a new one if the server closed it while idle or its certificate was replaced.
    async fn or_another(mut self, dial: &Dial) -> Result<Self, CallError> {
        poll_fn(|cx| {
            self.ended = self.ended || Pin::new(&mut self.connection).poll(cx).is_ready();
            Poll::Ready(())
        })
        .await;
        let usable = !self.ended && self.edition == dial.edition() && self.sender.is_ready();
        if usable { Ok(self) } else { Self::connect(dial).await }
    }
}

impl Answer {
    /// Returns the next chunk; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        if self.at_end {
            return Ok(None);
        }
        let (open, body) = (&mut self.open, &mut self.body);
        let frame = poll_fn(|cx| {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
                return Poll::Ready(Ok(frame));
            }
            if !open.ended && Pin::new(&mut open.connection).poll(cx).is_ready() {
                // Data read before the connection ended is still returned.
                open.ended = true;
                return Pin::new(&mut *body).poll_frame(cx).map(Ok);
            }
            Poll::Pending
        });
        match within(&self.dial, frame).await? {
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
            Some(Err(error)) => Err(CallError::Lost(error.to_string())),
            None => {
                self.at_end = true;
                Ok(None)
            }
        }
    }
}

/// Limits a future by the timeout and the simulated partition.
async fn within<T>(dial: &Dial, doing: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    if *dial.cut.borrow() {
        return Err(CallError::Unreachable("the node is partitioned".to_owned()));
    }
    tokio::select! {
        biased;
        () = dial.severed() => Err(CallError::Lost("the node was partitioned".to_owned())),
        done = tokio::time::timeout(PATIENCE, doing) => done.unwrap_or_else(|_| {
            Err(CallError::Lost(format!("no data arrived within {} s", PATIENCE.as_secs())))
        }),
    }
}
