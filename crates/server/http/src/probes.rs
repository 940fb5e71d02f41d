//! Endpoints for monitoring: health, readiness, metrics, and the OpenAPI document.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use muster_api::Code;
use muster_control::status::disk_fault;
use muster_control::{AnswerSlot, Cx, Error, RateDecision, Share};
use tokio::sync::Mutex;

use crate::exchange::correlation;
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
    let (status, body) = match server.readiness.get(|| fault(server)).await {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    text(status, "text/plain; charset=utf-8", body)
}

/// Returns why the server cannot take requests.
async fn fault(server: &Server) -> Option<String> {
    if let Some(why) = disk_fault(&server.platform) {
        return Some(why);
    }
    server.platform.store.ping().await.err().map(|_| "the database does not answer".to_owned())
}

/// A readiness result is reused for so long.
const READINESS_LASTS: Duration = Duration::from_secs(1);

/// The last readiness result. Any caller may ask, without a credential and at any rate, and each check costs a query.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<String>)>>);

impl Readiness {
    /// Returns the last result, or a new one when that is too old. Concurrent callers wait for one check.
    async fn get<F: Future<Output = Option<String>>>(&self, check: impl FnOnce() -> F) -> Option<String> {
        let mut last = self.0.lock().await;
        if let Some((at, fault)) = &*last
            && at.elapsed() < READINESS_LASTS
        {
            return fault.clone();
        }
        let fault = check().await;
        *last = Some((Instant::now(), fault.clone()));
        fault
    }
}

/// `/metrics`: only for operators' tokens; the platform's load is not public.
pub(crate) async fn metrics(server: &Arc<Server>, request: &Parts) -> Response<Body> {
    let headers = &request.headers;
    if let Some(refused) = hurried(server, request) {
        return refused;
    }
    let correlation_id = correlation(&server.platform.env, headers);
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    let now = server.platform.env.now();
    let actor = match server.platform.authenticate(token, now).await {
        Ok(actor) => actor,
        Err(error) => return respond::problem(error, &correlation_id),
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
        let error = Error::new(Code::PermissionDenied, "metrics are for operators");
        return respond::problem(error, &cx.correlation_id);
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
            let error = Error::new(Code::RateLimited, "too many requests from this address; wait and repeat");
            Some(respond::problem(error, &correlation(&server.platform.env, &request.headers)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Readiness;

    #[tokio::test]
    async fn a_flood_of_probes_is_one_check_a_second() {
        let (readiness, checks) = (Readiness::default(), AtomicUsize::new(0));
        let check = async || {
            checks.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Some("full".to_owned())
        };
        let probes = (0..1_000).map(|_| readiness.get(check));
        for answer in futures::future::join_all(probes).await {
            assert_eq!(answer.as_deref(), Some("full"));
        }
        // More than one only where the thousand probes take longer than a second.
        assert!(checks.load(Ordering::Relaxed) < 10, "{checks:?}");
    }
}
