//! Conversion of answers and problems to HTTP responses.

use axum::body::{Body, Bytes};
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Response, StatusCode};
use muster_api::{Code, Problem};
use muster_control::{Answer, Error, Limits, Reply, Share, UnreadBytes};

pub(crate) const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Bytes of an answer. Their memory counts until the last of them was written.
struct Counted {
    bytes: Bytes,
    _held: UnreadBytes,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns bytes that count as unread until they are written to the client, or dropped with its connection.
pub(crate) fn counted(bytes: impl Into<Bytes>, held: UnreadBytes) -> Bytes {
    Bytes::from_owner(Counted { bytes: bytes.into(), _held: held })
}

/// Returns the refusal for a caller that does not read its answers.
pub(crate) fn too_much_unread() -> Error {
    Error::new(
        Code::RateLimited,
        "too many answers to you or your tenant are not read yet; read them, and repeat",
    )
}

fn json(status: u16, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Renders an error as a problem document (RFC 9457).
pub(crate) fn problem(error: Error, correlation_id: &str) -> Response<Body> {
    let mut problem = Problem::from(error);
    problem.correlation_id = correlation_id.to_owned();
    let body = serde_json::to_value(&problem).expect("a problem is JSON");
    let mut response = json(problem.status, "application/problem+json", body.to_string());
    let headers = response.headers_mut();
    match problem.code {
        Code::Unauthenticated => insert(headers, WWW_AUTHENTICATE, "Bearer realm=\"muster\""),
        Code::RateLimited | Code::Unavailable => insert(headers, RETRY_AFTER, "1"),
        _ => {}
    }
    response
}

/// Returns the response to a command; `None` while its caller leaves too much unread.
pub(crate) fn reply(reply: &Reply, limits: &Limits, share: &Share) -> Option<Response<Body>> {
    let text = reply.body.to_string();
    let held = limits.hold(share, text.len())?;
    let mut response = json(reply.status, "application/json", counted(text, held));
    let headers = response.headers_mut();
    if let Some(version) = reply.version {
        insert(headers, ETAG, &format!("\"{version}\""));
    }
    if let Some(cookie) = &reply.cookie {
        insert(headers, SET_COOKIE, cookie);
    }
    if reply.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Some(response)
}

/// Returns the response to a read; `None` while its caller leaves too much unread.
pub(crate) fn answer(status: u16, answer: &Answer, limits: &Limits, share: &Share) -> Option<Response<Body>> {
    let text = answer.body.to_string();
    let held = limits.hold(share, text.len())?;
    Some(answered(status, answer, counted(text, held)))
}

/// Returns the response to a request that had an effect and is never refused.
pub(crate) fn effect(status: u16, answer: &Answer, limits: &Limits, share: &Share) -> Response<Body> {
    let text = answer.body.to_string();
    let held = limits.hold_anyway(share, text.len());
    answered(status, answer, counted(text, held))
}

fn answered(status: u16, answer: &Answer, body: Bytes) -> Response<Body> {
    let mut response = json(status, "application/json", body);
    if let Some(version) = answer.version {
        insert(response.headers_mut(), ETAG, &format!("\"{version}\""));
    }
    response
}
