//! A scripted registry: it serves its content, records requests, and can break off, send wrong data and refuse.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use muster_image::Digest;
use serde_json::{Value, json};

use crate::server::{Answer, content};

/// Chunk size.
const PIECE: usize = 64 << 10;

/// Scripted behaviour for a request.
#[derive(Debug, Clone)]
pub(crate) enum Instead {
    /// A refusal in the registry's format.
    Refuse(u16, &'static str),
    /// Breaks the connection after this many bytes.
    BreakAfter(usize),
    /// Stalls for a long time after this many bytes.
    StopAfter(usize),
    /// Sends other content.
    Give(Bytes),
    /// Declares this length.
    Say(u64),
    /// Ignores the requested range.
    Whole,
}

#[derive(Default)]
pub(crate) struct Registry {
    /// Content by path: `REPOSITORY/blobs/DIGEST`, `…/manifests/…`, `…/referrers/…`.
    pub(crate) holds: BTreeMap<String, Bytes>,
    /// Requested paths and ranges.
    pub(crate) asked: Vec<(String, Option<String>)>,
    pub(crate) instead: BTreeMap<String, VecDeque<Instead>>,
    /// Number of issued tokens.
    pub(crate) tokens: usize,
    /// Number of expired tokens, oldest first.
    pub(crate) ended: usize,
    /// Number of requests after which the token expires.
    pub(crate) token_ends_after: Option<usize>,
    /// Number of blob bytes sent.
    pub(crate) sent: usize,
}

/// The only repository.
pub(crate) const REPOSITORY: &str = "acme.ml/train";

impl Registry {
    pub(crate) fn new_token(&mut self) -> String {
        self.tokens += 1;
        format!("mst_pull_CANARY-{}", self.tokens)
    }

    pub(crate) fn blob(&mut self, bytes: impl Into<Bytes>) -> Value {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes).to_string();
        let size = bytes.len();
        self.holds.insert(path("blobs", &digest), bytes);
        json!({"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size})
    }

    /// Stores a document under its digest, and returns its descriptor.
    pub(crate) fn document(&mut self, document: &Value) -> Value {
        let bytes = Bytes::from(document.to_string());
        let digest = Digest::of(&bytes).to_string();
        let media_type = document["mediaType"].clone();
        let size = bytes.len();
        self.holds.insert(path("manifests", &digest), bytes);
        json!({"mediaType": media_type, "digest": digest, "size": size})
    }

    /// Stores an image of these layers, and returns its digest.
    pub(crate) fn image(&mut self, layers: &[Value]) -> String {
        let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids":
            layers.iter().map(|layer| layer["digest"].clone()).collect::<Vec<_>>()}});
        let config = self.blob(config.to_string());
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": layers});
        self.document(&manifest)["digest"].as_str().unwrap().to_owned()
    }

    /// Scripts the next request for this object.
    pub(crate) fn instead(&mut self, kind: &str, digest: &Value, instead: Instead) {
        let digest = digest.as_str().unwrap();
        self.instead.entry(path(kind, digest)).or_default().push_back(instead);
    }

    /// Returns the number of requests for this.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.asked.iter().filter(|(asked, _)| asked.contains(part)).count()
    }
}

pub(crate) fn path(kind: &str, digest: &str) -> String {
    format!("{REPOSITORY}/{kind}/{digest}")
}

pub(crate) fn answer(what: &str, request: &Request<Incoming>, registry: &mut Registry) -> Answer {
    let header = |name| request.headers().get(name).map(|value: &http::HeaderValue| value.to_str().unwrap());
    registry.asked.push((what.to_owned(), header(RANGE).map(str::to_owned)));
    if let Some(left) = &mut registry.token_ends_after {
        if *left == 0 {
            registry.ended = registry.tokens;
            registry.token_ends_after = None;
        } else {
            *left -= 1;
        }
    }
    let token = header(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer mst_pull_CANARY-"));
    let good = registry.ended + 1..=registry.tokens;
    if !token.is_some_and(|token| token.parse().is_ok_and(|token| good.contains(&token))) {
        return refuse(401, "UNAUTHORIZED", "the token has ended");
    }
    let instead = registry.instead.get_mut(what).and_then(VecDeque::pop_front);
    if let Some(Instead::Refuse(status, message)) = instead {
        return refuse(status, "DENIED", message);
    }
    let Some(whole) = registry.holds.get(what).cloned() else {
        return refuse(404, "BLOB_UNKNOWN", "the repository does not hold it");
    };
    let from = header(RANGE).filter(|_| !matches!(instead, Some(Instead::Whole)));
    let from: usize = from.map_or(0, |range| {
        range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')).unwrap().parse().unwrap()
    });
    let bytes = if let Some(Instead::Give(other)) = &instead { other.clone() } else { whole.slice(from..) };
    let length = if let Some(Instead::Say(length)) = instead { length } else { bytes.len() as u64 };
    let mut response = Response::builder().header(CONTENT_LENGTH, length);
    if from > 0 {
        let range = format!("bytes {from}-{}/{}", whole.len() - 1, whole.len());
        response = response.status(206).header(CONTENT_RANGE, range);
    }
    let most = match instead {
        Some(Instead::BreakAfter(most) | Instead::StopAfter(most)) => most.min(bytes.len()),
        _ => bytes.len(),
    };
    if what.contains("/blobs/") {
        registry.sent += most;
    }
    let pieces: Vec<Bytes> =
        (0..most).step_by(PIECE).map(|at| bytes.slice(at..most.min(at + PIECE))).collect();
    let pieces = futures::stream::iter(pieces.into_iter().map(|piece| Ok(Frame::data(piece))));
    let body = match instead {
        Some(Instead::BreakAfter(_)) => {
            // Lets earlier data arrive first.
            let end = futures::stream::once(async {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                Err(std::io::Error::other("scripted: broken off"))
            });
            BodyExt::boxed(StreamBody::new(SyncStream(pieces.chain(end).boxed().into())))
        }
        Some(Instead::StopAfter(_)) => {
            let silence = futures::stream::pending();
            BodyExt::boxed(StreamBody::new(SyncStream(pieces.chain(silence).boxed().into())))
        }
        _ => BodyExt::boxed(StreamBody::new(pieces)),
    };
    Ok(response.body(body).unwrap())
}

/// A stream with a single poller, as a boxed body requires.
struct SyncStream(
    parking_lot::Mutex<futures::stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>,
);

impl futures::Stream for SyncStream {
    type Item = Result<Frame<Bytes>, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.get_mut().as_mut().poll_next(cx)
    }
}

fn refuse(status: u16, code: &str, message: &str) -> Answer {
    let errors = json!({"errors": [{"code": code, "message": message}]});
    Ok(Response::builder().status(status).body(content(errors.to_string())).unwrap())
}
