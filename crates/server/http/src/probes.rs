//! Endpoints for monitoring: health, readiness, metrics, and the OpenAPI document.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use axum::body::{Body, Bytes};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use muster_api::{Code, Problem};
use muster_control::status::disk_fault;
use muster_control::{AnswerSlot, Cx, RateDecision, Share};

use crate::listen::Peer;
use crate::pipeline::Server;
use crate::respond;

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `/healthz`: the process is running.
pub(crate) fn healthz() -> Response<Body> {
    text(StatusCode::OK, "text/plain; charset=utf-8", "ok\n".to_owned())
}

/// The contract as it is answered: hundreds of kilobytes that are made once, when the first client asks.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| muster_api::document().to_string().into());

/// `/readyz`: it can take requests: the database answers, there is room to write, and it is not stopping.
pub(crate) async fn readyz(server: &Server, stopping: &AtomicBool) -> Response<Body> {
    if stopping.load(Ordering::Relaxed) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", "stopping\n".to_owned());
    }
    if let Some(why) = server.platform.options.data.as_deref().and_then(disk_fault) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", format!("{why}\n"));
    }
    match server.platform.store.ping().await {
        Ok(()) => text(StatusCode::OK, "text/plain; charset=utf-8", "ready\n".to_owned()),
        Err(_) => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "text/plain; charset=utf-8",
            "the database does not answer\n".to_owned(),
        ),
    }
}

/// `/metrics`: only for operators' tokens; the platform's load is not public.
pub(crate) async fn metrics(server: &Arc<Server>, request: &Parts) -> Response<Body> {
    let headers = &request.headers;
    if let Some(refused) = hurried(server, request) {
        return refused;
    }
    let correlation_id = server.correlation(headers);
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    let now = server.platform.env.now();
    let actor = match server.platform.authenticate(token, now).await {
        Ok(actor) => actor,
        Err(problem) => return respond::problem(problem, &correlation_id),
    };
    let cx = Cx {
        platform: server.platform.clone(),
        actor: Some(actor),
        correlation_id,
        now,
        if_match: None,
        address: None,
        answer_slot: AnswerSlot::default(),
    };
    if !cx.may_read_metrics() {
        let problem = Problem::new(Code::PermissionDenied, "metrics are for operators");
        return respond::problem(problem, &cx.correlation_id);
    }
    if let Err(error) = server.platform.look_for_metrics().await {
        tracing::debug!(%error, "the gauges could not be updated");
    }
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    text(StatusCode::OK, content_type, server.platform.metrics.text())
}

/// `/openapi.json`: the contract.
pub(crate) fn document(server: &Arc<Server>, request: &Parts) -> Response<Body> {
    if let Some(refused) = hurried(server, request) {
        return refused;
    }
    let mut response = Response::new(Body::from(DOCUMENT.clone()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns the refusal for an address that exceeds its share of anonymous requests.
fn hurried(server: &Arc<Server>, request: &Parts) -> Option<Response<Body>> {
    let share = Share::of_address(request.extensions.get::<Peer>().map(|peer| peer.0));
    match server.platform.limits.take("", &share, Instant::now()) {
        RateDecision::Proceed => None,
        RateDecision::Wait(_) => {
            server.platform.metrics.rate_limited.inc();
            let problem =
                Problem::new(Code::RateLimited, "too many requests from this address; wait and repeat");
            Some(respond::problem(problem, &server.correlation(&request.headers)))
        }
    }
}
