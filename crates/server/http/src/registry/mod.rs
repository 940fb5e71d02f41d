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

use axum::body::Body;
use futures::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use muster_api::{Code, Problem};
use muster_control::registry::{Answered, Guest, told};
use muster_control::{Cx, Open, Opened, Platform, RateDecision, RequestLabels, Share};
use muster_registry::error::{Code as Codes, Refusal};
use muster_registry::path::{self, Route};

use crate::hosts::Hosts;
use crate::input::correlation_id;
use crate::listen::{Peer, Reserve};
use crate::respond::CORRELATION;
use answer::refusal;
use body::Incoming;
use credential::Reached;

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

/// Node identified by the certificate of a request on the node listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadingNode(pub(crate) muster_ids::NodeId);

/// A request, parsed as far as all routes need it.
struct Asked {
    cx: Cx,
    guest: Guest,
    /// The caller and its rate-limit share; `None` for the platform's own nodes.
    share: Option<(String, Share)>,
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

    /// Counts a download against the caller's tenant until the returned guard is dropped.
    fn download(&self) -> Answered<Option<Opened>> {
        let Some((name, share)) = &self.share else { return Ok(None) };
        let opened = self.cx.platform.limits.open(name, share, Open::Download);
        opened.map(Some).ok_or_else(busy)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Registry {
    /// Serves one request; `rest` follows `/v2/`.
    pub(crate) async fn serve(self: Arc<Self>, rest: String, request: Request<Body>) -> Response<Body> {
        let started = Instant::now();
        let correlation = self.correlation(request.headers());
        let (parts, body) = request.into_parts();
        let reached = Reached::of(&parts, self.tls);
        let body = Incoming::new(body);
        let inside = std::panic::AssertUnwindSafe(self.pass(&rest, parts, body.clone(), &correlation));
        let answered = inside.catch_unwind().await.unwrap_or_else(|_| {
            let why = "the server failed; give the correlation id to the operator";
            Err(told(Problem::new(Code::Internal, why)))
        });
        if answered.is_err() {
            body.drain().await;
        }
        let what = word(&rest);
        let failure = answered.as_ref().err().map(|refusal| refusal.message.clone());
        let mut response = answered.unwrap_or_else(|refused| refusal(&refused, &reached, &rest));
        if let Ok(value) = http::HeaderValue::from_str(&correlation) {
            response.headers_mut().insert(CORRELATION, value);
        }
        self.note(what, response.status().as_u16(), &correlation, failure, started);
        response
    }

    fn correlation(&self, headers: &HeaderMap) -> String {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        correlation_id(header("x-correlation-id"), header("traceparent"), || {
            muster_model::hex::encode(&self.platform.env.bytes::<16>())
        })
    }

    fn note(&self, what: &str, status: u16, correlation_id: &str, detail: Option<String>, started: Instant) {
        let labels = RequestLabels { endpoint: format!("registry_{what}"), status };
        self.platform.metrics.requests.get_or_create(&labels).inc();
        let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
        if status >= 500 {
            tracing::error!(
                what,
                status,
                milliseconds,
                correlation_id,
                detail,
                "a request to the registry failed"
            );
        } else {
            tracing::debug!(what, status, milliseconds, correlation_id, detail, "the registry");
        }
    }

    async fn pass(
        &self,
        rest: &str,
        parts: Parts,
        body: Incoming,
        correlation: &str,
    ) -> Answered<Response<Body>> {
        if let Some(hosts) = &self.hosts {
            hosts.check(&parts.headers, &parts.uri).map_err(told)?;
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
        let guest = match self.platform.registry_guest(&secret, now).await {
            Err(problem) if problem.code == Code::Unauthenticated => {
                self.share("", &Share::of_address(address))?;
                return Err(told(problem));
            }
            guest => guest.map_err(told)?,
        };
        if let Guest::Pull(pull) = &guest
            && parts.extensions.get::<ReadingNode>().is_none_or(|node| node.0 != pull.node_id)
        {
            let why = "a right to pull is used by the node of its cell, with that node's certificate, at the nodes' address";
            return Err(Refusal::new(Codes::Unauthorized, why));
        }
        let (name, share) = match &guest {
            Guest::Actor { actor, .. } => (actor.principal.id(), Share::of_actor(actor)),
            Guest::Pull(pull) => (format!("pull {}", pull.repository_id), Share::Tenant(pull.tenant_id)),
        };
        self.share(&name, &share)?;
        let _under_way = self.platform.limits.enter(&share).ok_or_else(busy)?;
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
        };
        let query: Vec<(String, String)> =
            url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        if rest.contains('\0')
            || query.iter().any(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(Refusal::new(Codes::NameInvalid, "the character U+0000 is in no name"));
        }
        if rest == "token" {
            return credential::token(&cx, &guest, &secret, &query).await;
        }
        let route = path::parse(rest).map_err(|error| error.refusal())?;
        let asked = Asked {
            cx,
            guest,
            share: self.hosts.is_some().then_some((name, share)),
            route,
            method: parts.method,
            headers: parts.headers,
            query,
            path: format!("/v2/{rest}"),
            body,
            patience: self.patience,
        };
        route_of(&asked).await
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

fn busy() -> Refusal {
    Refusal::new(Codes::TooManyRequests, "your share of requests is used up; wait and repeat")
}

/// Returns the metric label of a request, derived from its path.
fn word(rest: &str) -> &'static str {
    let known = ["manifests", "blobs", "uploads", "tags", "referrers"];
    rest.rsplit('/').find_map(|part| known.into_iter().find(|word| *word == part)).unwrap_or("other")
}

async fn route_of(asked: &Asked) -> Answered<Response<Body>> {
    let read = matches!(asked.method, Method::GET | Method::HEAD);
    match asked.route.clone() {
        Route::Base if read => Ok(answer::base()),
        Route::Catalog if read => pull::catalog(asked).await,
        Route::Tags { name } if read => pull::tags(asked, &name).await,
        Route::Referrers { name, digest } if read => pull::referrers(asked, &name, &digest).await,
        Route::Manifest { name, reference } if read => pull::manifest(asked, &name, &reference).await,
        Route::Manifest { name, reference } if asked.method == Method::PUT => {
            push::manifest(asked, &name, &reference).await
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
        _ => Err(Refusal::new(Codes::Unsupported, "the path does not take this method")),
    }
}
