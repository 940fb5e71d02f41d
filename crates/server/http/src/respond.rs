//! Conversion of answers and problems to HTTP responses.

use axum::body::Body;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Response, StatusCode};
use muster_api::{Code, Problem};
use muster_control::{Answer, Reply};
use serde_json::Value;

pub(crate) const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

fn json(status: u16, content_type: &'static str, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
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

pub(crate) fn problem(mut problem: Problem, correlation_id: &str) -> Response<Body> {
    problem.correlation_id = correlation_id.to_owned();
    let body = serde_json::to_value(&problem).expect("a problem is JSON");
    let mut response = json(problem.status, "application/problem+json", &body);
    let headers = response.headers_mut();
    match problem.code {
        Code::Unauthenticated => insert(headers, WWW_AUTHENTICATE, "Bearer realm=\"muster\""),
        Code::RateLimited | Code::Unavailable => insert(headers, RETRY_AFTER, "1"),
        _ => {}
    }
    response
}

pub(crate) fn reply(reply: &Reply) -> Response<Body> {
    let mut response = json(reply.status, "application/json", &reply.body);
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
    response
}

pub(crate) fn answer(status: u16, answer: &Answer) -> Response<Body> {
    let mut response = json(status, "application/json", &answer.body);
    if let Some(version) = answer.version {
        insert(response.headers_mut(), ETAG, &format!("\"{version}\""));
    }
    response
}
