//! The way of an agent's request: certificate, standing, input, use-case, answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use futures::FutureExt as _;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use muster_api::{Code, Problem};
use muster_control::{Answer, Cx, Platform, RequestLabels, Result, Share, Verdict, authority, fleet};
use muster_wire::Operation;
use serde::Serialize;
use serde_json::Value;

use crate::input::{correlation_id, drain, read, read_json, too_many_large};
use crate::listen::{Peer, PeerCertificate};
use crate::respond;
use crate::schema::Schemas;

/// Larger than the public API's: a hello may name ten thousand places, and a report a node's whole survey.
const BODY_LIMIT: usize = 8 << 20;
/// A stranger has an inventory to tell, and no more.
const STRANGERS_BODY_LIMIT: usize = 1 << 20;

pub(super) struct NodeDoor {
    pub(super) platform: Arc<Platform>,
    pub(super) schemas: &'static Schemas,
    pub(super) timeout: Duration,
}

fn unauthenticated(why: &str) -> Problem {
    Problem::new(Code::Unauthenticated, why)
}

impl NodeDoor {
    pub(super) fn correlation(&self, headers: &HeaderMap) -> String {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        correlation_id(header("x-correlation-id"), header("traceparent"), || {
            muster_model::hex::encode(&self.platform.world.bytes::<16>())
        })
    }

    /// Answers one request, whatever happens inside.
    pub(super) async fn serve(
        self: Arc<Self>,
        operation: &'static Operation,
        request: Request<Body>,
    ) -> Response<Body> {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let correlation_id = self.correlation(&parts.headers);
        let mut body = Some(body);
        let inside = self.pass(operation, &parts, &mut body, &correlation_id);
        let result = AssertUnwindSafe(inside).catch_unwind().await.unwrap_or_else(|_| {
            Err(Problem::new(Code::Internal, "the server failed; give the correlation id to the operator"))
        });
        // A connection that is closed on unread data is reset, and the agent may never see why it was refused.
        if let Some(unread) = &mut body {
            drain(unread, BODY_LIMIT).await;
        }
        let result = result.map(|answer| respond::answer(200, &answer));
        self.respond(operation.id, result, &correlation_id, started)
    }

    /// The answer, or the refusal; counted and noted either way.
    pub(super) fn respond(
        &self,
        operation: &'static str,
        result: Result<Response<Body>>,
        correlation_id: &str,
        started: Instant,
    ) -> Response<Body> {
        let detail = result.as_ref().err().map(|problem| problem.detail.clone());
        let mut response = result.unwrap_or_else(|problem| respond::problem(problem, correlation_id));
        // It names the public API's scheme, and no certificate has one.
        response.headers_mut().remove(WWW_AUTHENTICATE);
        if let Ok(value) = HeaderValue::from_str(correlation_id) {
            response.headers_mut().insert(respond::CORRELATION, value);
        }
        let status = response.status().as_u16();
        // Apart from the public API's, and without their times: a poll takes as long as it waits.
        let labels = RequestLabels { operation: format!("agent_{operation}"), status };
        self.platform.metrics.requests.get_or_create(&labels).inc();
        let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
        if status >= 500 {
            tracing::error!(
                operation,
                status,
                milliseconds,
                correlation_id,
                detail,
                "an agent's request failed"
            );
        } else {
            tracing::debug!(operation, status, milliseconds, correlation_id, detail, "an agent's request");
        }
        response
    }

    async fn pass(
        &self,
        operation: &Operation,
        parts: &Parts,
        body: &mut Option<Body>,
        correlation_id: &str,
    ) -> Result<Answer> {
        let cx = Cx { address: parts.extensions.get::<Peer>().map(|peer| peer.0), ..self.cx(correlation_id) };
        if !operation.certificate {
            self.take_share(parts)?;
            let body = self.read(operation, parts, body).await?;
            let joined = fleet::join(&cx, read(&body, "body")?).await;
            if matches!(&joined, Err(problem) if problem.code == Code::Unauthenticated) {
                self.platform.metrics.anonymous_refusals.inc();
            }
            return answer(&joined?);
        }
        let agent = Self::admitted(&cx, parts).await?;
        let body = self.read(operation, parts, body).await?;
        match operation.id {
            "renew" => answer(&fleet::renew(&cx, &agent, read(&body, "body")?).await?),
            "hello" => answer(&fleet::hello(&cx, &agent, read(&body, "body")?).await?),
            "poll" => answer(&fleet::poll(&cx, &agent, read(&body, "body")?).await?),
            "report" => answer(&fleet::report(&cx, &agent, read(&body, "body")?).await?),
            "inventory" => answer(&fleet::inventory(&cx, &agent, read(&body, "body")?).await?),
            "observe" => answer(&fleet::observe(&cx, &agent, read(&body, "body")?).await?),
            "secret" => answer(&fleet::secret(&cx, &agent, read(&body, "body")?).await?),
            id => Err(Problem::new(Code::Internal, format!("nobody answers {id}"))),
        }
    }

    fn cx(&self, correlation_id: &str) -> Cx {
        Cx {
            platform: self.platform.clone(),
            actor: None,
            correlation_id: correlation_id.to_owned(),
            now: self.platform.world.now(),
            if_match: None,
            address: None,
        }
    }

    /// Lets an agent in that comes for something else than an answer.
    pub(super) async fn admit(&self, parts: &Parts, correlation_id: &str) -> Result<fleet::Admitted> {
        Self::admitted(&self.cx(correlation_id), parts).await
    }

    /// Whose certificate it is, and whether that node is listened to.
    async fn admitted(cx: &Cx, parts: &Parts) -> Result<fleet::Admitted> {
        let certificate = parts.extensions.get::<PeerCertificate>();
        let certificate = certificate.ok_or_else(|| {
            unauthenticated("this needs the node's client certificate, which joining gives")
        })?;
        let identity = authority::identity(&certificate.0)
            .ok_or_else(|| unauthenticated("the client certificate names no node"))?;
        fleet::admit(cx, identity).await
    }

    /// Strangers share what callers of the public API without a credential have, by address.
    fn take_share(&self, parts: &Parts) -> Result<()> {
        let share = Share::of_address(parts.extensions.get::<Peer>().map(|peer| peer.0));
        match self.platform.limits.take("", &share, Instant::now()) {
            Verdict::Wait(_) => {
                self.platform.metrics.rate_limited.inc();
                Err(Problem::new(Code::RateLimited, "too many requests from this address; wait and repeat"))
            }
            _ => Ok(()),
        }
    }

    async fn read(&self, operation: &Operation, parts: &Parts, body: &mut Option<Body>) -> Result<Value> {
        let limit = if operation.certificate { BODY_LIMIT } else { STRANGERS_BODY_LIMIT };
        let value = read_json(&parts.headers, body, limit, self.timeout, || {
            // A node is known by its certificate, and has reports of its own to send.
            if operation.certificate {
                return Ok(None);
            }
            let share = Share::of_address(parts.extensions.get::<Peer>().map(|peer| peer.0));
            self.platform.limits.large_body(&share).map(Some).ok_or_else(too_many_large)
        })
        .await?;
        self.schemas.check(&operation.body.name(), &value, "")?;
        Ok(value)
    }
}

fn answer(body: &impl Serialize) -> Result<Answer> {
    Ok(Answer::new(body))
}
