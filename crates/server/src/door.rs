//! The way of every request: name, credential, share, input, use-case, answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use futures::FutureExt as _;
use http::header::{AUTHORIZATION, COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Limited};
use muster_api::{Code, Credential, Kind, Method, Operation, Problem};
use muster_control::{Authenticated, Command, Cx, Platform, Result, Verdict, execute};
use muster_model::token::{Secret, TokenKind};
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use crate::bind::Handler;
use crate::hosts::Hosts;
use crate::input::{Input, correlation_id, idempotency_key, if_match, read_json};
use crate::listen::Peer;
use crate::respond;
use crate::schema::Schemas;
use crate::websocket::Upgrade;

/// What every request needs.
pub(crate) struct Server {
    pub(crate) platform: Arc<Platform>,
    pub(crate) schemas: Schemas,
    pub(crate) hosts: Hosts,
    pub(crate) body_limit: usize,
    pub(crate) timeout: Duration,
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

impl Server {
    pub(crate) fn correlation(&self, headers: &HeaderMap) -> String {
        correlation_id(header(headers, "x-correlation-id"), header(headers, "traceparent"), || {
            muster_model::hex::encode(&self.platform.world.bytes::<16>())
        })
    }

    /// Answers one request for `operation`, whatever happens inside.
    pub(crate) async fn serve(
        self: Arc<Self>,
        operation: Operation,
        handler: Handler,
        path: Vec<String>,
        request: Request<Body>,
    ) -> Response<Body> {
        let started = Instant::now();
        let (mut parts, body) = request.into_parts();
        let correlation = self.correlation(&parts.headers);
        let mut body = Some(body);
        let inside = self.pass(&operation, handler, path, &mut parts, &mut body, &correlation);
        let result = match AssertUnwindSafe(inside).catch_unwind().await {
            Ok(result) => result,
            Err(_) => Err(Problem::new(
                Code::Internal,
                "the server failed; give the correlation id to the operator",
            )),
        };
        // A connection that is closed on unread data is reset, and the client may never see why it was refused.
        if let Some(unread) = body {
            let drain = Limited::new(unread, self.body_limit).collect();
            let _ = tokio::time::timeout(Duration::from_secs(2), drain).await;
        }
        let failure = result.as_ref().err().map(|problem| (problem.code.as_str(), problem.detail.clone()));
        let mut response = result.unwrap_or_else(|problem| respond::problem(problem, &correlation));
        if let Ok(value) = HeaderValue::from_str(&correlation) {
            response.headers_mut().insert(respond::CORRELATION, value);
        }
        self.note(&operation, &correlation, response.status().as_u16(), failure, started);
        response
    }

    fn note(
        &self,
        operation: &Operation,
        correlation_id: &str,
        status: u16,
        failure: Option<(&str, String)>,
        started: Instant,
    ) {
        let labels = muster_control::RequestLabels { operation: operation.id.to_owned(), status };
        self.platform.metrics.requests.get_or_create(&labels).inc();
        self.platform.metrics.seconds.observe(started.elapsed().as_secs_f64());
        let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
        let operation_id = operation.id;
        let (code, detail) = failure.map_or((None, None), |(code, detail)| (Some(code), Some(detail)));
        if status >= 500 {
            tracing::error!(
                operation_id,
                status,
                milliseconds,
                correlation_id,
                code,
                detail,
                "request failed"
            );
        } else if operation.kind == Kind::Command {
            tracing::info!(operation_id, status, milliseconds, correlation_id, code, "command");
        } else {
            tracing::debug!(operation_id, status, milliseconds, correlation_id, code, "read");
        }
    }

    async fn pass(
        &self,
        operation: &Operation,
        handler: Handler,
        path: Vec<String>,
        parts: &mut Parts,
        body: &mut Option<Body>,
        correlation: &str,
    ) -> Result<Response<Body>> {
        self.hosts.check(&parts.headers)?;
        let now = self.platform.world.now();
        let (actor, secret) = self.authenticate(operation, &parts.headers, now).await?;
        let tenant = Cx::share(actor.as_deref());
        let share = match (&actor, parts.extensions.get::<Peer>()) {
            (Some(actor), _) => actor.principal.id(),
            (None, Some(peer)) => format!("anonymous at {}", peer.0),
            (None, None) => "anonymous".to_owned(),
        };
        if let Verdict::Wait(_) = self.platform.limits.take(&share, tenant.as_deref(), Instant::now()) {
            self.platform.metrics.rate_limited.inc();
            return Err(Problem::new(
                Code::RateLimited,
                "your share of requests per second is used up; wait and repeat",
            ));
        }
        let _under_way = self.platform.limits.enter(tenant.as_deref()).ok_or_else(|| {
            self.platform.metrics.rate_limited.inc();
            Problem::new(Code::RateLimited, "too many requests of your tenant are under way; wait and repeat")
        })?;
        let key = match operation.needs_idempotency_key() {
            true => Some(idempotency_key(header(&parts.headers, "idempotency-key"))?),
            false => None,
        };
        let cx = Cx {
            platform: self.platform.clone(),
            actor,
            correlation_id: correlation.to_owned(),
            now,
            if_match: if_match(header(&parts.headers, "if-match"))?,
        };
        if operation.if_match {
            cx.needs_version()?;
        }
        let raw_query = parts.uri.query().unwrap_or_default();
        let body = self.read_body(operation, &parts.headers, body).await?;
        let input = Input {
            path,
            query: self.schemas.read_query(operation, raw_query)?,
            body,
            silent_body: self.schemas.has_silent_body(operation),
            last_event_id: last_event_id(&parts.headers)?,
            secret,
        };
        match handler {
            Handler::Read(read) | Handler::Machine(read) => {
                Ok(respond::answer(operation.status, &read(cx, input).await?))
            }
            Handler::Stream(stream) => stream(cx, input).await,
            // Whether it can become a socket is read first: a stream is joined once, and must not be used up by a mistake.
            Handler::Socket(join) => {
                let upgrade = Upgrade::read(parts).await?;
                Ok(upgrade.serve(join(cx, input).await?))
            }
            Handler::Command(prepare) => {
                let command = Command {
                    action: operation.action(),
                    route: format!("{} {}", operation.method.as_str(), parts.uri.path()),
                    key,
                    request_hash: self.platform.request_hash(raw_query, &input.body.to_string()).await?,
                    status: operation.status,
                };
                let prepared = prepare(cx.clone(), input).await;
                Ok(respond::reply(&execute(&cx, &command, prepared).await?))
            }
        }
    }

    async fn authenticate(
        &self,
        operation: &Operation,
        headers: &HeaderMap,
        now: jiff::Timestamp,
    ) -> Result<(Option<Arc<Authenticated>>, String)> {
        if operation.credential == Credential::None {
            return Ok((None, String::new()));
        }
        let refused = |why: &str| {
            self.platform.metrics.anonymous_refusals.inc();
            Problem::new(Code::Unauthenticated, why)
        };
        if let Some(authorization) = headers.get(AUTHORIZATION) {
            let text = authorization.to_str().unwrap_or_default();
            let token = text
                .split_once(' ')
                .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
                .map(|(_, token)| token.trim())
                .ok_or_else(|| refused("the Authorization header should read `Bearer mst_…`"))?;
            let actor = self.checked(token, now).await?;
            if actor.token_kind == TokenKind::Session {
                return Err(refused("a browser session is a cookie, not a bearer token"));
            }
            return Ok((Some(actor), token.to_owned()));
        }
        let session = session_cookie(headers)
            .ok_or_else(|| refused("send a token as `Authorization: Bearer …`, or log in with a browser"))?;
        let actor = self.checked(&session, now).await?;
        if actor.token_kind != TokenKind::Session {
            return Err(refused("only a browser session may be sent as a cookie"));
        }
        if operation.method != Method::Get {
            let expected = Secret::parse(&session).map(|secret| secret.csrf()).unwrap_or_default();
            let given = header(headers, "x-csrf-token").unwrap_or_default();
            if !bool::from(expected.as_bytes().ct_eq(given.as_bytes())) {
                let detail =
                    "send the `csrf_token` of the login as `X-CSRF-Token` with every request but a GET";
                return Err(Problem::new(Code::CsrfRequired, detail));
            }
        }
        Ok((Some(actor), session))
    }

    /// A credential that does not hold is counted with those that were not given: both are knocks by nobody we know.
    async fn checked(&self, secret: &str, now: jiff::Timestamp) -> Result<Arc<Authenticated>> {
        let checked = self.platform.authenticate(secret, now).await;
        if matches!(&checked, Err(problem) if problem.code == Code::Unauthenticated) {
            self.platform.metrics.anonymous_refusals.inc();
        }
        checked
    }

    async fn read_body(
        &self,
        operation: &Operation,
        headers: &HeaderMap,
        body: &mut Option<Body>,
    ) -> Result<Value> {
        if operation.body.is_none() {
            return Ok(Value::Null);
        }
        let value = read_json(headers, body, self.body_limit, self.timeout).await?;
        self.schemas.check_body(operation, &value)?;
        Ok(value)
    }
}

fn session_cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == muster_control::session::COOKIE).map(|(_, value)| value.to_owned())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>> {
    let Some(text) = header(headers, "last-event-id") else { return Ok(None) };
    let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
    number
        .map(Some)
        .ok_or_else(|| Problem::field("header/Last-Event-ID", "it should be the number of an event"))
}
