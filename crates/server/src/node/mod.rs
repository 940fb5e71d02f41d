//! The listener that agents dial: TLS always, by certificates of the platform's own authority, apart from the public API.

mod door;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use muster_api::{Code, Problem};
use muster_control::Platform;
use muster_node_api::OPERATIONS;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::schema::Schemas;
use crate::{Settings, StartError, listen, respond};
use door::NodeDoor;

/// Starts what nodes need of a server; says where it listens, or nothing if that is off.
pub(crate) async fn start(
    settings: &Settings,
    platform: &Arc<Platform>,
    timeout: Duration,
    tasks: &mut JoinSet<()>,
    stop: &watch::Receiver<bool>,
) -> Result<Option<SocketAddr>, StartError> {
    if settings.text("nodes.listen").is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = settings.parsed("nodes.listen")?;
    let listener = TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })?;
    let address = listener.local_addr().map_err(|error| StartError::Listen { address, error })?;
    let names = tls::names(address, settings.text("nodes.hosts"));
    let (acceptor, certificate) = tls::acceptor(platform, names).await?;
    let connections = settings.parsed::<usize>("http.max_connections")?.max(1);
    let door = Arc::new(NodeDoor {
        platform: platform.clone(),
        schemas: Schemas::of(
            muster_node_api::document(),
            OPERATIONS.iter().map(|operation| operation.body.name()),
        ),
        timeout,
    });
    tasks.spawn(listen::serve(listener, Some(acceptor), router(&door), timeout, connections, stop.clone()));
    tasks.spawn(crate::run::until_stopped(stop.clone(), certificate.run(platform.clone())));
    tasks.spawn(crate::run::until_stopped(stop.clone(), platform.clone().run_polls()));
    tasks.spawn(platform.clone().run_heartbeats(stop.clone()));
    tasks.spawn(platform.clone().run_loss(stop.clone()));
    Ok(Some(address))
}

fn router(door: &Arc<NodeDoor>) -> Router {
    let mut router = Router::new();
    for operation in OPERATIONS {
        let door = door.clone();
        let serve = move |request: Request| door.clone().serve(operation, request);
        router = router.route(operation.path, post(serve));
    }
    let (absent, wrong) = (door.clone(), door.clone());
    router
        .fallback(async move |request: Request| {
            let problem = Problem::new(Code::NotFound, "agents ask for nothing at this path");
            respond::problem(problem, &absent.correlation(request.headers()))
        })
        .method_not_allowed_fallback(async move |request: Request| {
            let problem = Problem::new(Code::MethodNotAllowed, "agents only send POST");
            respond::problem(problem, &wrong.correlation(request.headers()))
        })
}
