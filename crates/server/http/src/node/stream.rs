//! An agent joins a stream on request. Its certificate must belong to the cell's node, and a client must be waiting on
//! this replica; for all others the path does not exist.

use std::sync::Arc;

use axum::body::Body;
use http::request::Parts;
use http::{Request, Response};
use muster_control::{Error, Result};
use muster_ids::StreamId;
use muster_wire::STREAM;

use super::pipeline::NodePipeline;
use crate::exchange::Exchange;
use crate::websocket::{Serve, Upgrade};

impl NodePipeline {
    /// Serves one agent that dials for a stream.
    pub(super) async fn serve_stream(
        self: Arc<Self>,
        reference: String,
        request: Request<Body>,
    ) -> Response<Body> {
        let (mut parts, _) = request.into_parts();
        let exchange = Exchange::begin(&self.platform.env, &parts.headers);
        let result = self.come(&reference, &mut parts, &exchange.correlation_id).await;
        self.end(exchange, STREAM.id, result)
    }

    async fn come(&self, reference: &str, parts: &mut Parts, correlation_id: &str) -> Result<Response<Body>> {
        let agent = self.admit(parts, correlation_id).await?;
        let upgrade = Upgrade::read(parts).await?;
        let stream = reference.parse::<StreamId>().ok();
        let waiting = stream.and_then(|stream| self.platform.streams.take(stream, agent.node));
        let waiting = waiting.ok_or_else(|| Error::not_found("stream that waits here"))?;
        let serve: Serve = Box::new(move |node| {
            // The waiting client may have disconnected; then the socket is closed too.
            drop(waiting.send(node));
            Box::pin(std::future::ready(()))
        });
        Ok(upgrade.serve(serve))
    }
}
