//! The shell of a request at the three entry points (public API, agents, registry): correlation id, panic, metrics, log.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::body::Body;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Response};
use muster_api::Code;
use muster_control::{Error, Platform, RequestLabels};
use muster_ids::Env;

use crate::input::correlation_id;
use crate::respond::CORRELATION;

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The public API: a command is logged, a read only for debugging.
    Api {
        /// Whether it is a command.
        command: bool,
    },
    /// An agent. Its durations are not counted: a poll takes as long as it waits.
    Agent,
    /// The registry. Its durations are not counted: a transfer takes as long as its client.
    Registry,
}

impl Entry {
    fn as_str(self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Agent => "agent",
            Self::Registry => "registry",
        }
    }

    /// Returns the endpoint's label in the metrics.
    fn label(self, endpoint: &str) -> String {
        match self {
            Self::Api { .. } => endpoint.to_owned(),
            Self::Agent | Self::Registry => format!("{}_{endpoint}", self.as_str()),
        }
    }
}

/// Code and detail of a refusal.
pub(crate) type Failure = (&'static str, String);

/// A request in progress.
pub(crate) struct Exchange {
    /// Correlation id.
    pub(crate) correlation_id: String,
    started: Instant,
}

impl Exchange {
    /// Begins one.
    pub(crate) fn begin(env: &Env, headers: &HeaderMap) -> Self {
        Self { correlation_id: correlation(env, headers), started: Instant::now() }
    }

    /// Sets the response's correlation id, and counts and logs it.
    pub(crate) fn end(
        self,
        platform: &Platform,
        entry: Entry,
        endpoint: &str,
        failure: Option<Failure>,
        mut response: Response<Body>,
    ) -> Response<Body> {
        let (correlation_id, took) = (self.correlation_id, self.started.elapsed().as_secs_f64());
        if let Ok(value) = HeaderValue::from_str(&correlation_id) {
            response.headers_mut().insert(CORRELATION, value);
        }
        let status = response.status().as_u16();
        let labels = RequestLabels { endpoint: entry.label(endpoint), status };
        platform.metrics.requests.get_or_create(&labels).inc();
        if matches!(entry, Entry::Api { .. }) {
            platform.metrics.seconds.observe(took);
        }
        let (entry_name, milliseconds) = (entry.as_str(), took * 1000.0);
        let (code, detail) = failure.unzip();
        if status >= 500 {
            tracing::error!(
                entry = entry_name,
                endpoint,
                status,
                milliseconds,
                correlation_id,
                code,
                detail,
                "request failed"
            );
        } else if entry == (Entry::Api { command: true }) {
            tracing::info!(
                entry = entry_name,
                endpoint,
                status,
                milliseconds,
                correlation_id,
                code,
                "command"
            );
        } else {
            tracing::debug!(
                entry = entry_name,
                endpoint,
                status,
                milliseconds,
                correlation_id,
                code,
                detail,
                "request"
            );
        }
        response
    }
}

/// Returns the correlation id of a request, from its headers or new.
pub(crate) fn correlation(env: &Env, headers: &HeaderMap) -> String {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    correlation_id(header("x-correlation-id"), header("traceparent"), || {
        muster_model::hex::encode(&env.bytes::<16>())
    })
}

/// Runs a request. A panic in it is an error of this request alone.
pub(crate) async fn guarded<T, E: From<Error>>(inside: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    AssertUnwindSafe(inside).catch_unwind().await.unwrap_or_else(|_| {
        let why = "the server failed; give the correlation id to the operator";
        Err(Error::new(Code::Internal, why).into())
    })
}
