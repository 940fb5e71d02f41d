//! One HTTP/1.1 connection to the server, opened on demand and reused.
//!
//! It uses hyper's connection without a client: a pool, redirects, proxies and decompression would be most of an idle
//! agent's memory. The caller drives the connection, not a task of its own, so that dropping an agent drops all its
//! connections.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::dial::{Dial, Stream};

/// Maximum size of a response. The server limits the tasks and the page of the desired state in one response far below
/// this.
const ANSWER_LIMIT: usize = 16 << 20;

/// Reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The request was sent, and its result is unknown.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The response exceeds the limit.
    #[error("the server's response is longer than {ANSWER_LIMIT} bytes")]
    TooLong,
    /// The server refused the request.
    #[error("{detail} ({code}, {status})")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Error code.
        code: String,
        /// Error description from the server.
        detail: String,
    },
    /// The response cannot be parsed.
    #[error("the server's response is invalid: {0}")]
    Strange(String),
}

impl CallError {
    /// Parses a problem document.
    pub(crate) fn refused(status: u16, body: &[u8]) -> Self {
        let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        Self::Refused { status, code: problem.code, detail: problem.detail }
    }

    /// Returns the status of a refusal.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Problem {
    code: String,
    detail: String,
}

/// A connection, opened when needed.
pub(crate) struct Link {
    dial: Arc<Dial>,
    open: Option<Open>,
}

struct Open {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<Stream, Full<Bytes>>,
    edition: u64,
}

impl Link {
    pub(crate) fn new(dial: &Arc<Dial>) -> Self {
        Self { dial: dial.clone(), open: None }
    }

    /// Sends a request, and waits for the response until the timeout `patience`.
    pub(crate) async fn call<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        path: &str,
        question: &Q,
        patience: Duration,
    ) -> Result<A, CallError> {
        let body = self.ask(path, question, patience).await?;
        serde_json::from_slice(&body).map_err(|error| CallError::Strange(error.to_string()))
    }

    /// Sends a request and returns the raw body, for callers that must not leak an unparsable response into an error.
    pub(crate) async fn ask<Q: Serialize>(
        &mut self,
        path: &str,
        question: &Q,
        patience: Duration,
    ) -> Result<Bytes, CallError> {
        if *self.dial.cut.borrow() {
            self.open = None;
            return Err(CallError::Unreachable("the node is partitioned".to_owned()));
        }
        let dial = self.dial.clone();
        let exchange = tokio::time::timeout(patience, self.exchange(path, question));
        let answer = tokio::select! {
            biased;
            () = dial.severed() => Err(CallError::Lost("the node was partitioned".to_owned())),
            answer = exchange => answer.unwrap_or_else(|_| {
                Err(CallError::Lost(format!("there was no answer within {} s", patience.as_secs())))
            }),
        };
        let (status, body) = answer?;
        if (200..300).contains(&status) { Ok(body) } else { Err(CallError::refused(status, &body)) }
    }

    /// Sends the request. The connection is taken out while in use, so that a cancelled exchange does not reuse it.
    async fn exchange<Q: Serialize>(&mut self, path: &str, question: &Q) -> Result<(u16, Bytes), CallError> {
        let body = serde_json::to_vec(question).map_err(|error| CallError::Unreachable(error.to_string()))?;
        let request = Request::post(path)
            .header(HOST, self.dial.address.authority())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("muster-agent/", env!("CARGO_PKG_VERSION")))
            .header("x-correlation-id", self.dial.env.uuid().to_string())
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| CallError::Unreachable(error.to_string()))?;
        let mut open = match self.open.take() {
            Some(open) => match open.if_usable(self.dial.edition()).await {
                Some(open) => open,
                None => self.connect().await?,
            },
            None => self.connect().await?,
        };
        let (response, usable) = open.send(request).await;
        let (parts, body) = response?.into_parts();
        if usable {
            self.open = Some(open);
        }
        Ok((parts.status.as_u16(), body))
    }

    async fn connect(&self) -> Result<Open, CallError> {
        let (stream, edition) = self.dial.connect().await?;
        let (sender, connection) = Builder::new()
            .max_buf_size(16 * 1024)
            .handshake(stream)
            .await
            .map_err(|error| CallError::Unreachable(error.to_string()))?;
        Ok(Open { sender, connection, edition })
    }
}

impl Open {
    /// Returns the connection unless the server closed it while it was idle.
    async fn if_usable(mut self, edition: u64) -> Option<Self> {
        let ended = poll_fn(|cx| Poll::Ready(Pin::new(&mut self.connection).poll(cx).is_ready())).await;
        (!ended && self.edition == edition && self.sender.is_ready()).then_some(self)
    }

    /// Returns the response, and whether the connection can be reused.
    async fn send(&mut self, request: Request<Full<Bytes>>) -> (Result<Response<Bytes>, CallError>, bool) {
        let sending = self.sender.send_request(request);
        let answer = pin!(async {
            let lost = |error: &dyn std::fmt::Display| CallError::Lost(error.to_string());
            let (parts, body) = sending.await.map_err(|error| lost(&error))?.into_parts();
            let body = Limited::new(body, ANSWER_LIMIT).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() { CallError::TooLong } else { lost(&error) }
            })?;
            Ok(Response::from_parts(parts, body.to_bytes()))
        });
        match select(answer, &mut self.connection).await {
            Either::Left((answer, _)) => {
                let usable = answer.is_ok();
                (answer, usable)
            }
            // The connection ended; the response it read before is still available.
            Either::Right((_, answer)) => (answer.await, false),
        }
    }
}
