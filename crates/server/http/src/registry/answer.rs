//! Responses in the format of the distribution protocol.

use axum::body::Body;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{Response, StatusCode};
use muster_registry::error::Refusal;

use super::credential::Reached;

/// Header that old clients require.
const API_VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");
pub(super) const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
pub(super) const UPLOAD: HeaderName = HeaderName::from_static("docker-upload-uuid");
pub(super) const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
pub(super) const FILTERS: HeaderName = HeaderName::from_static("oci-filters-applied");

/// Returns a response with this body.
pub(super) fn of(status: u16, content_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
    if !content_type.is_empty() {
        set(&mut response, CONTENT_TYPE, content_type);
    }
    response
}

/// Returns a response without a body.
pub(super) fn empty(status: u16) -> Response<Body> {
    let mut response = of(status, "", Body::empty());
    if status != 204 {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    response
}

pub(super) fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

pub(super) fn base() -> Response<Body> {
    of(200, "application/json", Body::from("{}"))
}

/// Returns a refusal. Without a valid credential, it includes the address of the token service.
pub(super) fn refusal(refusal: &Refusal, reached: &Reached, rest: &str) -> Response<Body> {
    let body = if reached.head { Body::empty() } else { Body::from(refusal.body()) };
    let mut response = of(refusal.status, "application/json", body);
    set(&mut response, CACHE_CONTROL, "no-store");
    match refusal.status {
        401 => set(&mut response, WWW_AUTHENTICATE, &reached.challenge(rest)),
        429 | 503 => set(&mut response, RETRY_AFTER, "1"),
        _ => {}
    }
    response
}
