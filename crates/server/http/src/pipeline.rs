//! The path of every request: host, credential, rate limit, input, use-case, response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::header::{AUTHORIZATION, COOKIE};
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use muster_api::{Code, Credential, Endpoint, Kind, Method};
use muster_control::{
    AnswerSlot, Authenticated, Command, Cx, Error, Platform, RateDecision, Result, Share, StreamKind,
    StreamSlot, prepare_and_execute,
};

use muster_model::token::{Secret, TokenKind};
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use crate::bind::Handler;
use crate::exchange::{Entry, Exchange, guarded};
use crate::hosts::Hosts;
use crate::input::{Input, drain, idempotency_key, if_match, read_json, too_many_large};
use crate::listen::{Peer, RESERVE_TIMEOUT, Reserve};
use crate::probes::Readiness;
use crate::respond;
use crate::schema::Schemas;
use crate::websocket::Upgrade;

/// State shared by all requests.
pub(crate) struct Server {
    pub(crate) platform: Arc<Platform>,
    pub(crate) schemas: &'static Schemas,
    pub(crate) hosts: Hosts,
    pub(crate) body_limit: usize,
    pub(crate) timeout: Duration,
    pub(crate) readiness: Readiness,
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

impl Server {
    /// Serves one request for `endpoint` and always returns a response.
    pub(crate) async fn serve(
        self: Arc<Self>,
        endpoint: Endpoint,
        handler: Handler,
        path: Vec<String>,
        request: Request<Body>,
    ) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let exchange = Exchange::begin(&self.platform.env, &parts.headers);
        let mut body = Some(body);
        let inside = self.pass(&endpoint, handler, path, &mut parts, &mut body, &exchange.correlation_id);
        let result = guarded(inside).await;
        // A connection that is closed on unread data is reset, and the client may never see why it was refused.
        if let Some(unread) = &mut body {
            drain(unread, self.body_limit).await;
        }
        let failure = result.as_ref().err().map(|error| (error.code.as_str(), error.detail.clone()));
        let response = result.unwrap_or_else(|error| respond::problem(error, &exchange.correlation_id));
        let entry = Entry::Api { command: endpoint.kind == Kind::Command };
        exchange.end(&self.platform, entry, endpoint.id, failure, response)
    }

    async fn pass(
        &self,
        endpoint: &Endpoint,
        handler: Handler,
        path: Vec<String>,
        parts: &mut Parts,
        body: &mut Option<Body>,
        correlation: &str,
    ) -> Result<Response<Body>> {
        self.hosts.check(&parts.headers, &parts.uri)?;
        let now = self.platform.env.now();
        let address = parts.extensions.get::<Peer>().map(|peer| peer.0);
        let (actor, secret) = match self.authenticate(endpoint, &parts.headers, now).await {
            // An invalid credential counts against the address: guessing must not be free.
            Err(error) if error.code == Code::Unauthenticated => {
                self.take_share("", &Share::of_address(address))?;
                return Err(error);
            }
            authenticated => authenticated?,
        };
        let reserved = parts.extensions.get::<Reserve>().is_some();
        if reserved && !may_use_reserve(endpoint, actor.as_deref()) {
            self.platform.metrics.rate_limited.inc();
            return Err(Error::new(
                Code::RateLimited,
                "too many connections to the server, or from your address, are open; wait and repeat",
            ));
        }
        let key = match endpoint.needs_idempotency_key() {
            true => Some(idempotency_key(header(&parts.headers, "idempotency-key"))?),
            false => None,
        };
        let cx = Cx {
            platform: self.platform.clone(),
            actor,
            correlation_id: correlation.to_owned(),
            now,
            if_match: if_match(header(&parts.headers, "if-match"))?,
            address,
            answer_slot: AnswerSlot::default(),
        };
        let share = cx.share();
        let actor = cx.actor.as_ref().map_or_else(String::new, |actor| actor.principal.id());
        self.take_share(&actor, &share)?;
        if endpoint.if_match {
            cx.needs_version()?;
        }
        let raw_query = parts.uri.query().unwrap_or_default();
        let timeout = if reserved { RESERVE_TIMEOUT.min(self.timeout) } else { self.timeout };
        // The slot of a large body is kept until the answer: the parsed body is in memory for as long.
        let (body, _large) =
            self.read_body(endpoint, &parts.headers, body, (&actor, &share), timeout).await?;
        // The credential, or a role of its owner, may have been revoked while the body was arriving.
        let cx = if endpoint.body.is_some() && cx.actor.is_some() { cx.again().await? } else { cx };
        // Counted only now: a body that never arrives must not hold a slot that others need.
        let _under_way = self.platform.limits.enter(&share).ok_or_else(|| {
            self.platform.metrics.rate_limited.inc();
            Error::new(Code::RateLimited, "your tenant has too many requests in progress; wait and repeat")
        })?;
        let input = Arc::new(Input {
            path: no_nul(path)?,
            query: self.schemas.read_query(endpoint, raw_query)?,
            body,
            silent_body: self.schemas.has_silent_body(endpoint),
            last_event_id: last_event_id(&parts.headers)?,
            secret,
        });
        match handler {
            Handler::Read(read) => {
                // The context is kept until the text is made: it may have the slot of a large answer.
                let answer = read(cx.clone(), input).await?;
                respond::answer(endpoint.status, &answer, &self.platform.limits, &share)
                    .ok_or_else(|| self.too_much_unread())
            }
            Handler::Machine(act) => {
                if !self.platform.limits.has_room(&share) {
                    return Err(self.too_much_unread());
                }
                let answer = act(cx, input).await?;
                Ok(respond::effect(endpoint.status, &answer, &self.platform.limits, &share))
            }
            Handler::Stream(stream) => stream(cx, input).await,
            // Validate the upgrade first: a stream can be joined once, and a bad request must not consume it.
            Handler::Socket(join) => {
                let upgrade = Upgrade::read(parts).await?;
                Ok(upgrade.serve(join(cx, input).await?))
            }
            Handler::Command(prepare) => {
                let command = Command {
                    action: endpoint.action(),
                    route: format!("{} {}", endpoint.method.as_str(), parts.uri.path()),
                    // Anonymous callers would share one key space, and a stored login could not be replayed: a repeated
                    // login is a new login.
                    key: key.filter(|_| cx.actor.is_some()),
                    request_hash: self.platform.request_hash(raw_query, &input.body.to_string()).await?,
                    status: endpoint.status,
                };
                let prepare = || prepare(cx.clone(), input.clone());
                let reply = prepare_and_execute(&cx, &command, prepare).await?;
                // The command was carried out. A repetition with the same key is answered once there is room.
                respond::reply(&reply, &self.platform.limits, &share).ok_or_else(|| self.too_much_unread())
            }
        }
    }

    fn too_much_unread(&self) -> Error {
        self.platform.metrics.rate_limited.inc();
        respond::too_much_unread()
    }

    fn take_share(&self, actor: &str, share: &Share) -> Result<()> {
        match self.platform.limits.take(actor, share, Instant::now()) {
            RateDecision::Proceed => Ok(()),
            RateDecision::Wait(_) => {
                self.platform.metrics.rate_limited.inc();
                Err(Error::new(Code::RateLimited, "your request rate limit is used up; wait and repeat"))
            }
        }
    }

    async fn authenticate(
        &self,
        endpoint: &Endpoint,
        headers: &HeaderMap,
        now: jiff::Timestamp,
    ) -> Result<(Option<Arc<Authenticated>>, String)> {
        if endpoint.credential == Credential::None {
            return Ok((None, String::new()));
        }
        let refused = |why: &str| {
            self.platform.metrics.anonymous_refusals.inc();
            Error::new(Code::Unauthenticated, why)
        };
        if let Some(authorization) = headers.get(AUTHORIZATION) {
            let text = authorization.to_str().unwrap_or_default();
            let token = text
                .split_once(' ')
                .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
                .map(|(_, token)| token.trim())
                .ok_or_else(|| refused("the Authorization header must be `Bearer mst_…`"))?;
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
        if endpoint.method != Method::Get {
            let expected = Secret::parse(&session).map(|secret| secret.csrf()).unwrap_or_default();
            let given = header(headers, "x-csrf-token").unwrap_or_default();
            if !bool::from(expected.as_bytes().ct_eq(given.as_bytes())) {
                let detail =
                    "send the `csrf_token` of the login as `X-CSRF-Token` with every request but a GET";
                return Err(Error::new(Code::CsrfRequired, detail));
            }
        }
        Ok((Some(actor), session))
    }

    /// An invalid credential counts with missing ones: both are anonymous attempts.
    async fn checked(&self, secret: &str, now: jiff::Timestamp) -> Result<Arc<Authenticated>> {
        let checked = self.platform.authenticate(secret, now).await;
        if matches!(&checked, Err(error) if error.code == Code::Unauthenticated) {
            self.platform.metrics.anonymous_refusals.inc();
        }
        checked
    }

    async fn read_body(
        &self,
        endpoint: &Endpoint,
        headers: &HeaderMap,
        body: &mut Option<Body>,
        (actor, share): (&str, &Share),
        timeout: Duration,
    ) -> Result<(Value, Option<StreamSlot>)> {
        if endpoint.body.is_none() {
            return Ok((Value::Null, None));
        }
        let memory =
            || self.platform.limits.open(actor, share, StreamKind::LargeBody).ok_or_else(too_many_large);
        let body = read_json(headers, body, self.body_limit, timeout, memory).await?;
        self.schemas.check_body(endpoint, &body.value)?;
        Ok((body.value, body.held))
    }
}

/// Reserves scarce connections for logins and for operators, because they can fix the shortage.
fn may_use_reserve(endpoint: &Endpoint, actor: Option<&Authenticated>) -> bool {
    match actor {
        Some(actor) => actor.is_operator(),
        None => endpoint.id == "session_create",
    }
}

/// Returns the path parameters, and refuses any that PostgreSQL cannot accept in a query.
fn no_nul(path: Vec<String>) -> Result<Vec<String>> {
    match path.iter().any(|part| part.contains('\0')) {
        true => Err(Error::field("path", "a name must not contain the character U+0000")),
        false => Ok(path),
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
    number.map(Some).ok_or_else(|| Error::field("header/Last-Event-ID", "it must be the number of an event"))
}
