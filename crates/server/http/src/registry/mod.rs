//! HTTP layer of the registry: the OCI distribution protocol under `/v2/`, on the public listener and, read-only, on the
//! node listener.
//!
//! It is not in the contract's table because its contract is a standard: names with slashes in paths, bodies that are not
//! JSON, its own error format. The use-cases (`muster_control::registry`) go through the same authorization and the same
//! command pipeline as everything else.

mod answer;
mod body;
mod credential;
mod pull;
mod push;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use muster_api::Code;
use muster_control::registry::{Answered, Guest, Right, TransferGuard, authenticate_again};
use muster_control::{
    AnswerSlot, Cx, InFlight, Platform, RateDecision, Share, StreamKind, StreamSlot, UnreadBytes, fleet,
};
use muster_registry::error::{Code as Codes, Refusal};
use muster_registry::manifest::LONGEST;
use muster_registry::path::{self, Route};

use answer::refusal;
use body::Incoming;
use credential::Reached;

use crate::exchange::{Entry, Exchange, guarded};
use crate::hosts::Hosts;
use crate::input::too_many_large;
use crate::listen::{Peer, Reserve};
use crate::respond;

/// State of the registry's HTTP layer.
pub(crate) struct Registry {
    pub(crate) platform: Arc<Platform>,
    /// Accepted host names; `None` on the node listener, which clients identify by its certificate.
    pub(crate) hosts: Option<Hosts>,
    /// Maximum pause of a client.
    pub(crate) patience: Duration,
    /// Whether the listener uses TLS.
    pub(crate) tls: bool,
}

/// Agent identified by the certificate of a request on the node listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadingNode(pub(crate) fleet::Admitted);

/// A request, parsed as far as all routes need it.
struct Asked {
    cx: Cx,
    guest: Guest,
    secret: String,
    /// The caller and its share.
    caller: String,
    share: Share,
    /// The node that reads, on the node listener.
    node: Option<fleet::Admitted>,
    route: Route,
    method: Method,
    headers: HeaderMap,
    query: Vec<(String, String)>,
    path: String,
    body: Incoming,
    patience: Duration,
}

impl Asked {
    fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Counts a download against the caller's tenant until the returned guard is dropped. Those of the platform's own nodes
    /// are limited by the connections of a node.
    fn download(&self) -> Answered<Option<StreamSlot>> {
        if self.node.is_some() {
            return Ok(None);
        }
        let opened = self.cx.platform.limits.open(&self.caller, &self.share, StreamKind::Download);
        opened.map(Some).ok_or_else(busy)
    }

    /// Counts an upload until the returned guard is dropped. It does not count as in flight, because it lasts for as long as
    /// its client likes.
    fn upload(&self) -> Answered<StreamSlot> {
        self.cx.platform.limits.open(&self.caller, &self.share, StreamKind::Upload).ok_or_else(busy)
    }

    /// Counts the request as in flight until the returned guard is dropped.
    fn enter(&self) -> Answered<InFlight<'_>> {
        self.cx.platform.limits.enter(&self.share).ok_or_else(busy)
    }

    /// Counts memory of an answer until the returned guard is dropped.
    fn hold(&self, bytes: usize) -> Answered<UnreadBytes> {
        self.cx.platform.limits.hold(&self.reader(), bytes).ok_or_else(unread)
    }

    /// Returns an answer that counts as unread until it is written.
    fn counted(&self, bytes: impl Into<Bytes>) -> Answered<Body> {
        let bytes = bytes.into();
        let held = self.hold(bytes.len())?;
        Ok(Body::from(respond::counted(bytes, held)))
    }

    /// Returns the share whose unread answers the request adds to.
    fn reader(&self) -> Share {
        self.node.map_or_else(|| self.share.clone(), |node| Share::Node(node.node))
    }

    /// Returns the guard of a download or an upload.
    fn guard(&self, name: &path::Name, right: Right) -> TransferGuard {
        TransferGuard::new(&self.cx, &self.secret, name, right, self.node)
    }

    fn sends(&self) -> Sends {
        match &self.route {
            Route::Manifest { .. } if self.method == Method::PUT => Sends::Manifest,
            Route::UploadStart { .. } if self.method == Method::POST && self.query("digest").is_some() => {
                Sends::Blob
            }
            Route::Upload { .. } if matches!(self.method, Method::PATCH | Method::PUT) => Sends::Blob,
            _ => Sends::Nothing,
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Registry {
    /// Serves one request; `rest` follows `/v2/`.
    pub(crate) async fn serve(self: Arc<Self>, rest: String, request: Request<Body>) -> Response<Body> {
        let exchange = Exchange::begin(&self.platform.env, request.headers());
        let (parts, body) = request.into_parts();
        let reached = Reached::of(&parts, self.tls);
        let body = Incoming::new(body);
        let answered = guarded(self.pass(&rest, parts, body.clone(), &exchange.correlation_id)).await;
        if answered.is_err() {
            body.drain().await;
        }
        let failure = answered.as_ref().err().map(|refusal| (refusal.code.word(), refusal.message.clone()));
        let response = answered.unwrap_or_else(|refused| refusal(&refused, &reached, &rest));
        exchange.end(&self.platform, Entry::Registry, word(&rest), failure, response)
    }

    async fn pass(
        &self,
        rest: &str,
        parts: Parts,
        body: Incoming,
        correlation: &str,
    ) -> Answered<Response<Body>> {
        if let Some(hosts) = &self.hosts {
            hosts.check(&parts.headers, &parts.uri)?;
        }
        let now = self.platform.env.now();
        let secret = credential::secret(&parts.headers)?;
        let address = parts.extensions.get::<Peer>().map(|peer| peer.0);
        if parts.extensions.get::<Reserve>().is_some() {
            self.platform.metrics.rate_limited.inc();
            return Err(busy());
        }
        let Some(secret) = secret else {
            self.share("", &Share::of_address(address))?;
            self.platform.metrics.anonymous_refusals.inc();
            return Err(Refusal::new(
                Codes::Unauthorized,
                "log in with a token: `podman login` or `skopeo login`, any user name, the token as the password",
            ));
        };
        let node = parts.extensions.get::<ReadingNode>().map(|node| node.0);
        let guest = match self.platform.registry_guest(&secret, now).await {
            Err(error) if error.code == Code::Unauthenticated => {
                self.share("", &Share::of_address(address))?;
                return Err(Refusal::from(error));
            }
            guest => guest?,
        };
        if let Guest::Pull(pull) = &guest
            && node.is_none_or(|node| node.node != pull.node_id)
        {
            let why = "a pull token only works for the node of its cell, with that node's certificate, at the nodes' address";
            return Err(Refusal::new(Codes::Unauthorized, why));
        }
        let (name, share) = match &guest {
            Guest::Actor { actor, .. } => (actor.principal.id(), Share::of_actor(actor)),
            Guest::Pull(pull) => (format!("pull {}", pull.repository_id), Share::Tenant(pull.tenant_id)),
        };
        self.share(&name, &share)?;
        let actor = match &guest {
            Guest::Actor { actor, .. } => Some(actor.clone()),
            Guest::Pull(_) => None,
        };
        let cx = Cx {
            platform: self.platform.clone(),
            actor,
            correlation_id: correlation.to_owned(),
            now,
            if_match: None,
            address,
            answer_slot: AnswerSlot::default(),
        };
        let query: Vec<(String, String)> =
            url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        if rest.contains('\0')
            || query.iter().any(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(Refusal::new(Codes::NameInvalid, "a name must not contain the character U+0000"));
        }
        if rest == "token" {
            let _in_flight = self.platform.limits.enter(&share).ok_or_else(busy)?;
            return credential::token(&cx, &guest, &secret, &query).await;
        }
        let route = path::parse(rest).map_err(|error| error.refusal())?;
        let mut asked = Asked {
            cx,
            guest,
            secret,
            caller: name,
            share,
            node,
            route,
            method: parts.method,
            headers: parts.headers,
            query,
            path: format!("/v2/{rest}"),
            body,
            patience: self.patience,
        };
        match asked.sends() {
            Sends::Nothing => {
                let _in_flight = asked.enter()?;
                route_of(&asked, Vec::new()).await
            }
            // Counted as in flight only when it has arrived: a slow one must not hold a slot that others need.
            Sends::Manifest => {
                let memory = || {
                    let limits = &self.platform.limits;
                    limits.open(&asked.caller, &asked.share, StreamKind::LargeBody).ok_or_else(too_many_large)
                };
                let (manifest, _large) = asked.body.whole(LONGEST, asked.patience, memory).await?;
                // The credential may have been revoked while the manifest was arriving.
                (asked.cx, asked.guest) = authenticate_again(&asked.cx, &asked.secret).await?;
                let _in_flight = asked.enter()?;
                route_of(&asked, manifest).await
            }
            Sends::Blob => {
                let _upload = asked.upload()?;
                route_of(&asked, Vec::new()).await
            }
        }
    }

    fn share(&self, actor: &str, share: &Share) -> Answered<()> {
        match self.platform.limits.take(actor, share, Instant::now()) {
            RateDecision::Wait(_) => {
                self.platform.metrics.rate_limited.inc();
                Err(busy())
            }
            _ => Ok(()),
        }
    }
}

/// Body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sends {
    Nothing,
    Manifest,
    /// A blob, or a part of one.
    Blob,
}

fn unread() -> Refusal {
    Refusal::from(respond::too_much_unread())
}

fn busy() -> Refusal {
    Refusal::new(Codes::TooManyRequests, "your request rate limit is used up; wait and repeat")
}

/// Returns the metric label of a request, derived from its path.
fn word(rest: &str) -> &'static str {
    let known = ["manifests", "blobs", "uploads", "tags", "referrers"];
    rest.rsplit('/').find_map(|part| known.into_iter().find(|word| *word == part)).unwrap_or("other")
}

async fn route_of(asked: &Asked, manifest: Vec<u8>) -> Answered<Response<Body>> {
    let read = matches!(asked.method, Method::GET | Method::HEAD);
    match asked.route.clone() {
        Route::Base if read => Ok(answer::base()),
        Route::Catalog if read => pull::catalog(asked).await,
        Route::Tags { name } if read => pull::tags(asked, &name).await,
        Route::Referrers { name, digest } if read => pull::referrers(asked, &name, &digest).await,
        Route::Manifest { name, reference } if read => pull::manifest(asked, &name, &reference).await,
        Route::Manifest { name, reference } if asked.method == Method::PUT => {
            push::manifest(asked, &name, &reference, manifest).await
        }
        Route::Manifest { name, reference } if asked.method == Method::DELETE => {
            push::manifest_delete(asked, &name, &reference).await
        }
        Route::Blob { name, digest } if read => pull::blob(asked, &name, &digest).await,
        Route::Blob { name, digest } if asked.method == Method::DELETE => {
            push::blob_delete(asked, &name, &digest).await
        }
        Route::UploadStart { name } if asked.method == Method::POST => push::start(asked, &name).await,
        Route::Upload { name, id } if asked.method == Method::PATCH => push::append(asked, &name, id).await,
        Route::Upload { name, id } if asked.method == Method::PUT => push::finish(asked, &name, id).await,
        Route::Upload { name, id } if asked.method == Method::DELETE => push::cancel(asked, &name, id).await,
        Route::Upload { name, id } if read => push::length(asked, &name, id).await,
        _ => Err(Refusal::new(Codes::Unsupported, "the path does not support this method")),
    }
}
