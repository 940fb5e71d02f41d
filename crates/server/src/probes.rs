//! What is asked by machines that look after servers: health, readiness, metrics, and the document itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use muster_api::{Code, Problem};
use muster_control::Cx;

use crate::door::Server;
use crate::respond;

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `/healthz`: the process runs.
pub(crate) fn healthz() -> Response<Body> {
    text(StatusCode::OK, "text/plain; charset=utf-8", "ok\n".to_owned())
}

/// `/readyz`: it can take requests: the database answers and it is not stopping.
pub(crate) async fn readyz(server: &Server, stopping: &AtomicBool) -> Response<Body> {
    if stopping.load(Ordering::Relaxed) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", "stopping\n".to_owned());
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

/// `/metrics`: for operators' tokens only; what a platform does and how much is nobody else's business.
pub(crate) async fn metrics(server: &Arc<Server>, headers: &HeaderMap) -> Response<Body> {
    let correlation_id = server.correlation(headers);
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    let now = server.platform.world.now();
    let actor = match server.platform.authenticate(token, now).await {
        Ok(actor) => actor,
        Err(problem) => return respond::problem(problem, &correlation_id),
    };
    let cx =
        Cx { platform: server.platform.clone(), actor: Some(actor), correlation_id, now, if_match: None };
    if !cx.may_read_metrics() {
        let problem = Problem::new(Code::PermissionDenied, "metrics are for operators");
        return respond::problem(problem, &cx.correlation_id);
    }
    if let Err(error) = server.platform.metrics.look(&server.platform.store).await {
        tracing::debug!(%error, "the gauges are those of the last look");
    }
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    text(StatusCode::OK, content_type, server.platform.metrics.text())
}

/// `/openapi.json`: the contract.
pub(crate) fn document(server: &Server) -> Response<Body> {
    text(StatusCode::OK, "application/json", server.schemas.document().to_string())
}
