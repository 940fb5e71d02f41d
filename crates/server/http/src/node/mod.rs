//! The listener that agents dial: TLS always, by certificates of the platform's own authority, apart from the public API.

mod pipeline;
mod registry;
mod stream;
mod tls;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request};
use axum::routing::{any, get, post};
use muster_api::Code;
use muster_control::{Error, Platform, Result};
use muster_wire::{ENDPOINTS, STREAM};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use pipeline::NodePipeline;

use crate::exchange::correlation;
use crate::registry::Registry;
use crate::schema::Schemas;
use crate::{Settings, SettingsError, StartError, listen, respond};

/// Starts the node listener; returns its address, or `None` if disabled.
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
    let names = tls::names(address, settings.text("nodes.hosts"), advertised(settings)?.as_deref());
    let (acceptor, certificate) = tls::acceptor(platform, names).await?;
    let connections = settings.parsed::<usize>("http.max_connections")?.max(1);
    let pipeline =
        Arc::new(NodePipeline { platform: platform.clone(), schemas: Schemas::of_nodes(), timeout });
    let registry =
        Arc::new(Registry { platform: platform.clone(), hosts: None, patience: timeout, tls: true });
    tasks.spawn(listen::serve(
        listener,
        Some(acceptor),
        router(&pipeline, &registry),
        listen::Admission {
            timeout,
            connections,
            reserve: 0,
            per_address: u32::MAX,
            nodes: Some(admission(connections, timeout)),
            proxies: Arc::default(),
        },
        stop.clone(),
    ));
    tasks.spawn(crate::run::until_stopped(stop.clone(), certificate.run(platform.clone())));
    tasks.spawn(crate::run::until_stopped(stop.clone(), platform.clone().run_polls()));
    tasks.spawn(platform.clone().run_heartbeats(stop.clone()));
    tasks.spawn(muster_jobs::detect_loss(platform.clone(), stop.clone()));
    tasks.spawn(platform.clone().run_health(stop.clone()));
    Ok(Some(address))
}

/// Timeout of an agent's TLS handshake. The slots of handshakes are few, and an agent dials again.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Returns the limits by address and by node. A site's agents may share one address, which then completes hundreds of
/// handshakes at once; a node needs a few connections, and one for each stream and download.
fn admission(connections: usize, timeout: Duration) -> listen::NodeAdmission {
    let part = |divisor: usize, least: usize| (connections / divisor).max(least);
    let count = |part: usize| u32::try_from(part).unwrap_or(u32::MAX);
    listen::NodeAdmission {
        timeout: HANDSHAKE.min(timeout),
        handshakes: part(4, 64),
        handshakes_per_address: count(part(16, 16)),
        joining: part(16, 16),
        joining_per_address: count(part(64, 8)),
        per_node: count(part(16, 32)),
    }
}

/// Returns the address at which agents reach this replica, if configured.
pub(crate) fn advertised(settings: &Settings) -> Result<Option<String>, SettingsError> {
    let text = settings.text("nodes.advertise");
    if text.is_empty() {
        return Ok(None);
    }
    let authority: http::uri::Authority = settings.parsed("nodes.advertise")?;
    match authority.port_u16() {
        Some(_) if !text.contains('@') => Ok(Some(text.to_owned())),
        _ => Err(SettingsError::Value {
            key: "nodes.advertise".to_owned(),
            value: text.to_owned(),
            source_name: "the settings".to_owned(),
            why: "it must be HOST:PORT".to_owned(),
        }),
    }
}

/// Returns the URL for the enrolment command: the first host name that agents dial, or the listen address.
pub(crate) fn url(settings: &Settings) -> Result<String, SettingsError> {
    let listen = settings.text("nodes.listen");
    let address: Option<SocketAddr> =
        if listen.is_empty() { None } else { Some(settings.parsed("nodes.listen")?) };
    let port = match address.map(|address| address.port()) {
        None | Some(0) => "<nodes port>".to_owned(),
        Some(port) => port.to_string(),
    };
    let given = settings.text("nodes.hosts").split(',').map(str::trim).find(|host| !host.is_empty());
    let host = match (given, address.map(|address| address.ip())) {
        (Some(host), _) if host.contains(':') => format!("[{host}]"),
        (Some(host), _) => host.to_owned(),
        (None, Some(IpAddr::V6(ip))) if !ip.is_unspecified() => format!("[{ip}]"),
        (None, Some(IpAddr::V4(ip))) if !ip.is_unspecified() => ip.to_string(),
        (None, _) => "<this server>".to_owned(),
    };
    Ok(format!("https://{host}:{port}"))
}

fn router(pipeline: &Arc<NodePipeline>, registry: &Arc<Registry>) -> Router {
    let mut router = Router::new();
    for endpoint in ENDPOINTS {
        let pipeline = pipeline.clone();
        let serve = move |request: Request| pipeline.clone().serve(endpoint, request);
        router = router.route(endpoint.path, post(serve));
    }
    let streams = pipeline.clone();
    let stream =
        move |Path(stream): Path<String>, request: Request| streams.clone().serve_stream(stream, request);
    router = router.route(STREAM.path, get(stream));
    let (reader, registry) = (pipeline.clone(), registry.clone());
    let read = move |Path(rest): Path<String>, request: Request| {
        reader.clone().serve_registry(registry.clone(), rest, request)
    };
    router = router.route("/v2/{*rest}", any(read));
    let (absent, wrong) = (pipeline.clone(), pipeline.clone());
    router
        .fallback(async move |request: Request| {
            let error = Error::new(Code::NotFound, "agents have no endpoint at this path");
            respond::problem(error, &correlation(&absent.platform.env, request.headers()))
        })
        .method_not_allowed_fallback(async move |request: Request| {
            let error = Error::new(Code::MethodNotAllowed, "agents send POST, and GET only for streams");
            respond::problem(error, &correlation(&wrong.platform.env, request.headers()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_told_the_first_name_or_where_we_listen() {
        let told = |listen: &str, hosts: &str| {
            let mut settings = Settings::default();
            settings.set("nodes.listen", listen.to_owned(), "the test").unwrap();
            settings.set("nodes.hosts", hosts.to_owned(), "the test").unwrap();
            url(&settings).unwrap()
        };
        assert_eq!(told("127.0.0.1:7481", ""), "https://127.0.0.1:7481");
        assert_eq!(told("0.0.0.0:7481", ""), "https://<this server>:7481");
        assert_eq!(told("0.0.0.0:7481", "muster.example, 10.0.0.7"), "https://muster.example:7481");
        assert_eq!(told("[::]:7481", "fd00::7"), "https://[fd00::7]:7481");
        assert_eq!(told("[fd00::7]:0", ""), "https://[fd00::7]:<nodes port>");
        assert_eq!(told("", ""), "https://<this server>:<nodes port>");
    }
}
