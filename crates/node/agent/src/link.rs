//! One HTTP/1.1 connection to the server, made when it is needed and kept while it lasts.
//!
//! It is hyper's connection without a client around it: a pool, redirects, proxies and decompression would be most of
//! an idle agent's memory. The connection is driven by the call that waits for it, not by a task of its own, so that
//! dropping an agent drops everything that it had open.

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

/// No answer of the wire is larger. The server bounds the tasks in one answer far below this; only everything that the node
/// should have can be longer.
const ANSWER_LIMIT: usize = 16 << 20;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// It was sent, and nobody knows whether it was heard.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// There was an answer, which is longer than an agent reads.
    #[error("the server's answer is longer than {ANSWER_LIMIT} bytes")]
    TooLong,
    /// The server said no.
    #[error("{detail} ({code}, {status})")]
    Refused {
        /// The status.
        status: u16,
        /// The problem's code.
        code: String,
        /// What the server says of it.
        detail: String,
    },
    /// The answer is not what it should be.
    #[error("the server's answer cannot be read: {0}")]
    Strange(String),
}

impl CallError {
    /// From an answer that is a problem document.
    pub(crate) fn refused(status: u16, body: &[u8]) -> Self {
        let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        Self::Refused { status, code: problem.code, detail: problem.detail }
    }

    /// The status of a refusal.
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

/// A connection, or the intention to have one.
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

    /// Asks, and waits for the answer for as long as `patience` lasts.
    pub(crate) async fn call<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        path: &str,
        question: &Q,
        patience: Duration,
    ) -> Result<A, CallError> {
        let body = self.ask(path, question, patience).await?;
        serde_json::from_slice(&body).map_err(|error| CallError::Strange(error.to_string()))
    }

    /// The same, with the answer as it came: for who must not say what is in one that cannot be read.
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

    /// A connection is taken out while it is used: if this is given up half-way, it is not used again.
    async fn exchange<Q: Serialize>(&mut self, path: &str, question: &Q) -> Result<(u16, Bytes), CallError> {
        let body = serde_json::to_vec(question).map_err(|error| CallError::Unreachable(error.to_string()))?;
        let request = Request::post(path)
            .header(HOST, self.dial.address.authority())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("muster-agent/", env!("CARGO_PKG_VERSION")))
            .header("x-correlation-id", self.dial.world.uuid().to_string())
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
    /// Looks whether the server closed the connection while nobody watched it.
    async fn if_usable(mut self, edition: u64) -> Option<Self> {
        let ended = poll_fn(|cx| Poll::Ready(Pin::new(&mut self.connection).poll(cx).is_ready())).await;
        (!ended && self.edition == edition && self.sender.is_ready()).then_some(self)
    }

    /// The answer, and whether the connection can be used again.
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
            // The connection is over; what it had read before is still handed out.
            Either::Right((_, answer)) => (answer.await, false),
        }
    }
}
