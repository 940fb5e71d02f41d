//! Registry access for nodes. The certificate identifies the machine, and the pull secret issued for a cell grants the
//! read. Neither suffices alone: the cell must be on that node. Read-only.

use std::sync::Arc;

use axum::body::Body;
use http::header::AUTHORIZATION;
use http::{Method, Request, Response};
use muster_api::Code;
use muster_control::{Error, Result};

use super::pipeline::NodePipeline;
use crate::exchange::Exchange;
use crate::registry::{ReadingNode, Registry};

impl NodePipeline {
    /// Serves one agent that reads registry content.
    pub(super) async fn serve_registry(
        self: Arc<Self>,
        registry: Arc<Registry>,
        rest: String,
        request: Request<Body>,
    ) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let exchange = Exchange::begin(&self.platform.env, &parts.headers);
        let come: Result<ReadingNode> = async {
            let admitted = self.admit(&parts, &exchange.correlation_id).await?;
            if !matches!(parts.method, Method::GET | Method::HEAD) {
                return Err(Error::new(Code::MethodNotAllowed, "nodes only read the registry"));
            }
            let held = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            if !held.is_some_and(|held| held.starts_with("Bearer mst_pull_")) {
                let why = "nodes read the registry with the pull token of a cell";
                return Err(Error::new(Code::Unauthenticated, why));
            }
            Ok(ReadingNode(admitted))
        }
        .await;
        match come {
            Ok(node) => {
                parts.extensions.insert(node);
                registry.serve(rest, Request::from_parts(parts, body)).await
            }
            Err(error) => self.end(exchange, "registry", Err(error)),
        }
    }
}
