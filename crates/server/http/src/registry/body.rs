//! Bodies of pushes: a stream of bytes from a client that may pause, but not forever.
//!
//! A reader locks the body only while it waits for the next chunk. What a refusal leaves unread is drained afterwards, so
//! that the client receives the refusal and not a connection reset.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::Stream;
use http_body_util::BodyExt as _;
use muster_api::Code as Problems;
use muster_control::registry::Answered;
use muster_control::{Result, StreamSlot};
use muster_registry::error::{Code, Refusal};
use tokio::sync::Mutex;

use crate::input::{collect, drain};

/// The rest of a refused push is read up to this limit.
const DRAINED: usize = 1 << 20;

/// A request's body.
#[derive(Clone)]
pub(super) struct Incoming(Arc<Mutex<Body>>);

impl Incoming {
    pub(super) fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    /// Returns the body in chunks. A pause longer than `patience` ends it.
    pub(super) fn parts(
        &self,
        patience: Duration,
    ) -> impl Stream<Item = Result<Bytes, String>> + Send + use<> {
        futures::stream::unfold(Some(self.clone()), move |body| async move {
            let body = body?;
            match tokio::time::timeout(patience, body.next()).await {
                Ok(Some(Ok(part))) => Some((Ok(part), Some(body))),
                Ok(Some(Err(error))) => Some((Err(error), None)),
                Ok(None) => None,
                Err(_) => Some((Err("no data arrived for too long".to_owned()), None)),
            }
        })
    }

    async fn next(&self) -> Option<Result<Bytes, String>> {
        loop {
            match self.0.lock().await.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => return Some(Err(error.to_string())),
            }
        }
    }

    /// Reads a whole manifest, up to a size limit. `memory` acquires a slot for a large one, or refuses; the slot is returned with
    /// the manifest.
    pub(super) async fn whole(
        &self,
        most: usize,
        patience: Duration,
        memory: impl FnOnce() -> Result<StreamSlot>,
    ) -> Answered<(Vec<u8>, Option<StreamSlot>)> {
        let mut body = self.0.lock().await;
        let invalid = |why: &str| Refusal::new(Code::ManifestInvalid, why);
        match tokio::time::timeout(patience, collect(&mut body, most, memory)).await {
            Err(_) => Err(invalid("the manifest did not arrive in time").with_status(408)),
            Ok(Ok(collected)) => Ok(collected),
            Ok(Err(error)) => Err(match error.code {
                Problems::BodyTooLarge => {
                    invalid(&format!("a manifest can have at most {most} bytes")).with_status(413)
                }
                Problems::RateLimited => Refusal::from(error),
                _ => invalid("the manifest broke off"),
            }),
        }
    }

    /// Drains the rest of the body.
    pub(super) async fn drain(&self) {
        drain(&mut *self.0.lock().await, DRAINED).await;
    }
}
