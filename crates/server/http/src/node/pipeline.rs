//! The path of an agent's request: certificate, admission, input, use-case, response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::header::WWW_AUTHENTICATE;
use http::request::Parts;
use http::{Request, Response};
use muster_api::Code;
use muster_control::{
    Answer, AnswerSlot, Cx, Error, Platform, RateDecision, Result, Share, StreamKind, StreamSlot, fleet,
};
use muster_wire::Endpoint;
use serde::Serialize;
use serde_json::Value;

use crate::exchange::{Entry, Exchange, guarded};
use crate::input::{drain, read, read_json, too_many_large};
use crate::listen::{Peer, PeerCertificate};
use crate::respond;
use crate::schema::Schemas;

/// Larger than the public API's: a hello may list ten thousand allocations, and a report the whole survey of a node.
const BODY_LIMIT: usize = 8 << 20;
/// A machine without a certificate only sends its inventory.
const STRANGERS_BODY_LIMIT: usize = 1 << 20;

/// A body that took longer to arrive may have outlasted the node's admission.
const SLOW_BODY: Duration = Duration::from_secs(1);

pub(super) struct NodePipeline {
    pub(super) platform: Arc<Platform>,
    pub(super) schemas: &'static Schemas,
    pub(super) timeout: Duration,
}

fn unauthenticated(why: &str) -> Error {
    Error::new(Code::Unauthenticated, why)
}

impl NodePipeline {
    /// Serves one request and always returns a response.
    pub(super) async fn serve(
        self: Arc<Self>,
        endpoint: &'static Endpoint,
        request: Request<Body>,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let exchange = Exchange::begin(&self.platform.env, &parts.headers);
        let mut body = Some(body);
        let result = guarded(self.pass(endpoint, &parts, &mut body, &exchange.correlation_id)).await;
        // A connection that is closed on unread data is reset, and the agent may never see why it was refused.
        if let Some(unread) = &mut body {
            drain(unread, BODY_LIMIT).await;
        }
        self.end(exchange, endpoint.id, result)
    }

    /// Returns the response, counted and logged, for success and refusal alike.
    pub(super) fn end(
        &self,
        exchange: Exchange,
        endpoint: &'static str,
        result: Result<Response<Body>>,
    ) -> Response<Body> {
        let failure = result.as_ref().err().map(|error| (error.code.as_str(), error.detail.clone()));
        let mut response = result.unwrap_or_else(|error| respond::problem(error, &exchange.correlation_id));
        // The header names the public API's scheme, which does not apply to certificates.
        response.headers_mut().remove(WWW_AUTHENTICATE);
        exchange.end(&self.platform, Entry::Agent, endpoint, failure, response)
    }

    async fn pass(
        &self,
        endpoint: &Endpoint,
        parts: &Parts,
        body: &mut Option<Body>,
        correlation_id: &str,
    ) -> Result<Response<Body>> {
        let cx = Cx { address: parts.extensions.get::<Peer>().map(|peer| peer.0), ..self.cx(correlation_id) };
        if !endpoint.certificate {
            self.take_share(parts)?;
            let share = Share::of_address(cx.address);
            let (body, _memory) = self.read(endpoint, parts, body, &share).await?;
            let joined = fleet::join(&cx, read(&body, "body")?).await;
            if matches!(&joined, Err(error) if error.code == Code::Unauthenticated) {
                self.platform.metrics.anonymous_refusals.inc();
            }
            return Ok(self.answer(&joined?, &share));
        }
        let agent = Self::admitted(&cx, parts).await?;
        let share = Share::Node(agent.node);
        if !self.platform.limits.has_room(&share) {
            self.platform.metrics.rate_limited.inc();
            return Err(respond::too_much_unread());
        }
        // The slot of a large body is held to the end: parsed, it takes more memory than on the wire.
        let began = Instant::now();
        let (body, _memory) = self.read(endpoint, parts, body, &share).await?;
        // The node may have been retired, or its certificate replaced, while the body was arriving.
        let (cx, agent) = match began.elapsed() < SLOW_BODY {
            true => (cx, agent),
            false => {
                let cx = Cx { now: self.platform.env.now(), ..cx };
                let agent = Self::admitted(&cx, parts).await?;
                (cx, agent)
            }
        };
        Ok(match endpoint.id {
            "renew" => self.answer(&fleet::renew(&cx, &agent, read(&body, "body")?).await?, &share),
            "hello" => self.answer(&fleet::hello(&cx, &agent, read(&body, "body")?).await?, &share),
            "poll" => self.answer(&fleet::poll(&cx, &agent, read(&body, "body")?).await?, &share),
            "report" => self.answer(&fleet::report(&cx, &agent, read(&body, "body")?).await?, &share),
            "inventory" => self.answer(&fleet::inventory(&cx, &agent, read(&body, "body")?).await?, &share),
            "observe" => self.answer(&fleet::observe(&cx, &agent, read(&body, "body")?).await?, &share),
            "secret" => self.answer(&fleet::secret(&cx, &agent, read(&body, "body")?).await?, &share),
            id => return Err(Error::new(Code::Internal, format!("{id} has no handler"))),
        })
    }

    /// Returns the response, counted as unread until it is written. It is never refused: tasks in it count as delivered.
    fn answer(&self, body: &impl Serialize, share: &Share) -> Response<Body> {
        respond::effect(200, &Answer::new(body), &self.platform.limits, share)
    }

    fn cx(&self, correlation_id: &str) -> Cx {
        Cx {
            platform: self.platform.clone(),
            actor: None,
            correlation_id: correlation_id.to_owned(),
            now: self.platform.env.now(),
            if_match: None,
            address: None,
            answer_slot: AnswerSlot::default(),
        }
    }

    /// Admits an agent for a request that is no plain call, such as a stream.
    pub(super) async fn admit(&self, parts: &Parts, correlation_id: &str) -> Result<fleet::Admitted> {
        Self::admitted(&self.cx(correlation_id), parts).await
    }

    /// Returns the node of the certificate, if the node is admitted.
    async fn admitted(cx: &Cx, parts: &Parts) -> Result<fleet::Admitted> {
        let certificate = parts.extensions.get::<PeerCertificate>();
        let certificate = certificate.ok_or_else(|| {
            unauthenticated("this needs the node's client certificate, which a join issues")
        })?;
        let identity = muster_keys::identity(&certificate.0)
            .ok_or_else(|| unauthenticated("the client certificate names no node"))?;
        fleet::admit(cx, identity).await
    }

    /// Applies the rate limit for anonymous callers, by address.
    fn take_share(&self, parts: &Parts) -> Result<()> {
        let share = Share::of_address(parts.extensions.get::<Peer>().map(|peer| peer.0));
        match self.platform.limits.take("", &share, Instant::now()) {
            RateDecision::Wait(_) => {
                self.platform.metrics.rate_limited.inc();
                Err(Error::new(Code::RateLimited, "too many requests from this address; wait and repeat"))
            }
            _ => Ok(()),
        }
    }

    async fn read(
        &self,
        endpoint: &Endpoint,
        parts: &Parts,
        body: &mut Option<Body>,
        share: &Share,
    ) -> Result<(Value, Option<StreamSlot>)> {
        let limit = if endpoint.certificate { BODY_LIMIT } else { STRANGERS_BODY_LIMIT };
        let memory =
            || self.platform.limits.open("", share, StreamKind::LargeBody).ok_or_else(too_many_large);
        let body = read_json(&parts.headers, body, limit, self.timeout, memory).await?;
        self.schemas.check(&endpoint.body.name(), &body.value, "")?;
        Ok((body.value, body.held))
    }
}
