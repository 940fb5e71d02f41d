//! Starting and stopping a server.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::routing::{MethodFilter, MethodRouter, any, get, on};
use jiff::SignedDuration;
use muster_api::{Code, Method};
use muster_control::audit::{AuditHeadsError, AuditKey, HeadsDestination};
use muster_control::{Error, Keys, Options, Platform, Rates, Result, first_start};
use muster_db::{Location, Replica, Store, StoreError};
use muster_engine::Timing;
use muster_ids::Env;
use muster_jobs::Sealer;
use muster_keys::{RootKeyError, RootKeys};
use muster_registry::Blobs;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::exchange::correlation;
use crate::hosts::Hosts;
use crate::pipeline::Server;
use crate::registry::Registry;
use crate::schema::Schemas;
use crate::{Settings, SettingsError, bind, listen, node, probes, respond};

/// Error at server start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Invalid setting.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Database error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Root key error.
    #[error(transparent)]
    RootKey(#[from] RootKeyError),
    /// The audit signing key cannot be used.
    #[error(transparent)]
    AuditKey(#[from] AuditHeadsError),
    /// Data folder error.
    #[error("the data folder {path}: {error}")]
    Data {
        /// The folder.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// Another server holds the database.
    #[error("another server already runs on {0}: SQLite supports one; several need PostgreSQL")]
    Locked(PathBuf),
    /// Error during the first start.
    #[error("the first start failed: {0}")]
    FirstStart(String),
    /// Listen error.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        error: std::io::Error,
    },
    /// Plain HTTP beyond loopback.
    #[error(
        "{0} is reachable from outside, and tokens would be sent unencrypted: set tls.cert_file and \
         tls.key_file, or listen on 127.0.0.1 behind a proxy"
    )]
    Exposed(SocketAddr),
    /// Registry storage error.
    #[error("the registry's storage: {0}")]
    Registry(String),
    /// TLS error.
    #[error("TLS: {0}")]
    Tls(String),
}

/// A running server.
pub struct Running {
    /// Listen address.
    pub address: SocketAddr,
    /// Listen address for agents, unless disabled.
    pub nodes_address: Option<SocketAddr>,
    /// File with the operator's token, if this was the first start.
    pub first_token_file: Option<PathBuf>,
    /// The shared state, for tests.
    pub platform: Arc<Platform>,
    stop: watch::Sender<bool>,
    stopping: Arc<AtomicBool>,
    tasks: JoinSet<()>,
    /// Held while the server runs; the operating system releases it even if the server is killed.
    _lock: Option<std::fs::File>,
}

impl Running {
    /// Stops gracefully: accepts no new connections, finishes running requests and releases leases.
    pub async fn stop(mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        let _ = self.platform.stopping.send_replace(true);
        let _ = self.stop.send(true);
        let finish = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(15), finish).await.is_err() {
            tracing::warn!("background work did not end in time and was cut off");
            self.tasks.abort_all();
        }
        let _ = self.platform.note_used_tokens().await;
        let now = self.platform.env.now();
        let _ = self
            .platform
            .store
            .replica_gone(self.platform.replica, now - SignedDuration::from_hours(1))
            .await;
        self.platform.store.close().await;
    }

    /// Drops everything immediately, as a crash would: for tests.
    pub fn crash(mut self) {
        self.tasks.abort_all();
    }
}

fn options(settings: &Settings, secure: bool) -> Result<Options, SettingsError> {
    let days = |key| {
        settings
            .parsed::<u32>(key)
            .map(|days| (days > 0).then(|| SignedDuration::from_hours(24 * i64::from(days))))
    };
    Ok(Options {
        session_length: SignedDuration::from_hours(settings.parsed::<u32>("sessions.hours")?.max(1).into()),
        idempotency_retention: SignedDuration::from_hours(
            settings.parsed::<u32>("retention.idempotency_hours")?.max(1).into(),
        ),
        event_retention: days("retention.events_days")?,
        audit_retention: days("retention.audit_days")?,
        audit_heads_to: HeadsDestination::parse(
            settings.text("audit.heads_to"),
            settings.parsed("webhooks.allow_private")?,
        )
        .map_err(|error| settings.refused("audit.heads_to", error.to_string()))?,
        audit_heads_every: Duration::from_secs(settings.positive("audit.heads_every_seconds")?),
        webhooks_to_private: settings.parsed("webhooks.allow_private")?,
        rates: Rates {
            actor: settings.parsed::<u32>("limits.actor_per_second")?.max(1),
            tenant: settings.parsed::<u32>("limits.tenant_per_second")?.max(1),
            address: settings.parsed::<u32>("limits.address_per_second")?.max(1),
            tenant_in_flight: settings.parsed::<u32>("limits.tenant_in_flight")?.max(1),
            address_in_flight: settings.parsed::<u32>("limits.address_in_flight")?.max(1),
            streams_per_actor: settings.parsed::<u32>("events.streams_per_actor")?.max(1),
            streams_per_tenant: settings.parsed::<u32>("events.streams_per_tenant")?.max(1),
            downloads_per_tenant: settings.parsed::<u32>("limits.downloads_per_tenant")?.max(1),
            uploads_per_tenant: settings.parsed::<u32>("limits.uploads_per_tenant")?.max(1),
            unread_bytes: settings.parsed("http.unread_bytes")?,
        },
        timing: Timing {
            lease: SignedDuration::from_millis(
                settings.parsed::<u32>("engine.lease_milliseconds")?.max(100).into(),
            ),
            task: SignedDuration::from_millis(
                settings.parsed::<u32>("engine.task_milliseconds")?.max(100).into(),
            ),
            create: SignedDuration::from_secs(settings.parsed::<u32>("engine.create_seconds")?.max(1).into()),
            release: SignedDuration::from_secs(
                settings.parsed::<u32>("engine.release_seconds")?.max(1).into(),
            ),
            undo: SignedDuration::from_secs(settings.parsed::<u32>("engine.undo_seconds")?.max(1).into()),
            escalate: SignedDuration::from_secs(
                settings.parsed::<u32>("engine.escalate_seconds")?.max(1).into(),
            ),
            silent: Timing::silent_after(SignedDuration::from_secs(
                settings.parsed::<u32>("nodes.heartbeat_seconds")?.max(1).into(),
            )),
            ..Timing::default()
        },
        secure_cookies: secure,
        data: Some(settings.data_dir()),
        nodes_url: node::url(settings)?,
        nodes_advertise: node::advertised(settings)?,
        streams_per_tenant: settings.parsed::<u32>("streams.per_tenant")?.max(1),
        largest_blob: settings.parsed::<u64>("registry.largest_blob_bytes")?.max(1),
        garbage_grace: SignedDuration::from_secs(
            settings.parsed::<u32>("registry.garbage_grace_seconds")?.into(),
        ),
        garbage_every: Duration::from_secs(settings.parsed::<u64>("registry.garbage_every_seconds")?.max(1)),
        scrub_pace: Some(settings.parsed::<u64>("registry.scrub_bytes_per_second")?).filter(|pace| *pace > 0),
        registries_to_private: settings.parsed("registry.allow_private")?,
        registries: settings.parsed("registry.external")?,
        slice_network_crosses_allocations: settings.parsed("apps.slice_network_crosses_allocations")?,
        heartbeat: Duration::from_secs(settings.parsed::<u64>("nodes.heartbeat_seconds")?.max(1)),
        node_certificate: SignedDuration::from_hours(
            settings.parsed::<u32>("nodes.certificate_hours")?.max(1).into(),
        ),
        ..Options::default()
    })
}

/// Connections beyond `http.max_connections`, so that probes, operators and logins are served when those are exhausted.
const RESERVED_CONNECTIONS: usize = 64;

/// Returns the addresses in `http.proxies`.
fn proxies(settings: &Settings) -> Result<Arc<[IpAddr]>, SettingsError> {
    let names = settings.text("http.proxies").split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::parse).collect::<Result<_, _>>().map_err(|error: std::net::AddrParseError| {
        settings.refused("http.proxies", format!("it must be addresses separated by commas: {error}"))
    })
}

/// Starts a server with these settings.
pub async fn start(settings: &Settings, env: Env) -> Result<Running, StartError> {
    let address: SocketAddr = settings.parsed("http.listen")?;
    let acceptor = match (settings.text("tls.cert_file"), settings.text("tls.key_file")) {
        ("", "") if listen::may_be_plain(address) => None,
        ("", "") => return Err(StartError::Exposed(address)),
        (cert, key) => Some(listen::tls(Path::new(cert), Path::new(key))?),
    };
    let options = options(settings, acceptor.is_some())?;
    let timeout = Duration::from_secs(settings.positive("http.timeout_seconds")?);
    let data = settings.data_dir();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&data)
        .map_err(|error| StartError::Data { path: data.clone(), error })?;
    let location = match settings.text("database.url") {
        "" => Location::Sqlite(data.join("muster.db")),
        url => Location::parse(database_url(settings, url)?),
    };
    let lock = match &location {
        Location::Sqlite(path) => Some(only_one(path)?),
        Location::Postgres(_) => None,
    };
    let store = Store::open(&location, settings.parsed::<u32>("database.connections")?.max(2)).await?;
    // A new root key is only generated for a new database: it could not decrypt an existing one.
    let fresh = store.sealing_key_newest("platform").await?.is_none();
    let root_keys = RootKeys::open(&settings.file("keys.root_key_file", "root.key"), fresh, &env)?;
    let blobs = blobs(settings, &store, &env).await?;
    let audit_key = AuditKey::open(&settings.file("audit.signing_key_file", "audit.key"))?;
    let keys = Keys { root: root_keys, audit: audit_key };
    let platform = Platform::new(env, store, blobs, keys, options);
    #[cfg(feature = "test-api")]
    if let Some((point, nth)) = kill_at(settings.text("engine.kill_at")) {
        platform.engine.points.arm(point, muster_engine::Strike::Abort, nth);
    }
    let token_file = settings.file("operator.token_file", "operator.token");
    let first = first_start(&platform, |made| write_token(&token_file, made.operator_token.reveal()))
        .await
        .map_err(|error| StartError::FirstStart(error.detail))?;
    platform.check_keys().await.map_err(|error| StartError::FirstStart(error.detail))?;

    let listener = TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })?;
    let address = listener.local_addr().map_err(|error| StartError::Listen { address, error })?;
    let stopping = Arc::new(AtomicBool::new(false));
    let server = Arc::new(Server {
        platform: platform.clone(),
        schemas: Schemas::public(),
        hosts: Hosts::new(address, settings.text("http.hosts")),
        body_limit: settings.parsed("http.body_limit_bytes")?,
        timeout,
        readiness: probes::Readiness::default(),
    });
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    background(&mut tasks, &platform, address, &stopped);
    let nodes_address = node::start(settings, &platform, timeout, &mut tasks, &stopped).await?;
    let admission = listen::Admission {
        timeout,
        connections: settings.parsed::<usize>("http.max_connections")?.max(1),
        reserve: RESERVED_CONNECTIONS,
        per_address: settings.parsed::<u32>("http.connections_per_address")?.max(1),
        nodes: None,
        proxies: proxies(settings)?,
    };
    let registry = Arc::new(Registry {
        platform: platform.clone(),
        hosts: Some(server.hosts.clone()),
        patience: timeout,
        tls: acceptor.is_some(),
    });
    let router = router(&server, &stopping).merge(registry_routes(registry));
    tasks.spawn(listen::serve(listener, acceptor, router, admission, stopped));
    let first_token_file = first.map(|_| token_file);
    Ok(Running { address, nodes_address, first_token_file, platform, stop, stopping, tasks, _lock: lock })
}

/// Refuses URLs without a driver, which would otherwise be taken as the path of a file.
fn database_url<'s>(settings: &Settings, url: &'s str) -> Result<&'s str, SettingsError> {
    match url.split_once("://") {
        None | Some(("postgres" | "postgresql" | "sqlite", _)) => Ok(url),
        Some((scheme, _)) => Err(settings.refused(
            "database.url",
            format!("there is no driver for {scheme}: give postgres://…, or the path of a SQLite file"),
        )),
    }
}

/// Parses `point` or `point@n`, for the n-th hit.
#[cfg(feature = "test-api")]
fn kill_at(text: &str) -> Option<(&str, u32)> {
    let (point, nth) = text.split_once('@').unwrap_or((text, "1"));
    (!point.is_empty()).then(|| (point, nth.parse().unwrap_or(1)))
}

/// Locks a SQLite database: two servers on one file would each assume to be the only writer.
fn only_one(database: &Path) -> Result<std::fs::File, StartError> {
    let path = database.with_extension("lock");
    let data = |error| StartError::Data { path: path.clone(), error };
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(data)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StartError::Locked(database.to_owned())),
        Err(std::fs::TryLockError::Error(error)) => Err(data(error)),
    }
}

/// Opens the registry's storage. All replicas must share it, or each would lose the others' content.
async fn blobs(settings: &Settings, store: &Store, env: &Env) -> Result<Blobs, StartError> {
    let folder = settings.file("registry.dir", "registry");
    let blobs =
        Blobs::open(&folder, env.clone()).await.map_err(|error| StartError::Registry(error.to_string()))?;
    let (claimed, database) = store.storage_claim(blobs.identity(), env.uuid()).await?;
    if claimed != blobs.identity() {
        return Err(StartError::Registry(format!(
            "{} is not the folder of this database: every server must share the one with storage.id \
             {claimed}; set registry.dir to it",
            folder.display()
        )));
    }
    // Conversely, the content of another database's rows would be collected as garbage by this one.
    let owner = blobs.belong_to(database).await.map_err(|error| StartError::Registry(error.to_string()))?;
    if owner != database {
        return Err(StartError::Registry(format!(
            "{} belongs to another database: set registry.dir to a folder for this one alone",
            folder.display()
        )));
    }
    Ok(blobs)
}

/// Writes a token to a new file and renames it into place. An existing file may be readable by others or be a link, so
/// nothing is written into it.
fn write_token(path: &Path, token: &str) -> std::io::Result<()> {
    let fresh = path.with_extension(format!("fresh-{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let written = file
        .write_all(token.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&fresh, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&fresh);
    }
    written
}

fn background(
    tasks: &mut JoinSet<()>,
    platform: &Arc<Platform>,
    address: SocketAddr,
    stop: &watch::Receiver<bool>,
) {
    tasks.spawn(Sealer::new(platform.clone()).run(stop.clone()));
    tasks.spawn(muster_jobs::deliver(platform.clone(), stop.clone()));
    tasks.spawn(platform.clone().run_audit_heads(stop.clone()));
    tasks.spawn(platform.clone().run_engine(stop.clone()));
    tasks.spawn(muster_jobs::sweep(platform.clone(), Duration::from_secs(20), stop.clone()));
    tasks.spawn(until_stopped(stop.clone(), platform.clone().run_collector()));
    tasks.spawn(until_stopped(stop.clone(), platform.clone().run_scrubber()));
    tasks.spawn(until_stopped(stop.clone(), platform.clone().run_tail()));
    tasks.spawn(until_stopped(stop.clone(), platform.clone().run_leases()));
    tasks.spawn(until_stopped(stop.clone(), platform.clone().run_listener()));
    tasks.spawn(until_stopped(stop.clone(), heartbeat(platform.clone(), address)));
}

pub(crate) async fn until_stopped(mut stop: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = stop.changed() => {}
    }
}

async fn heartbeat(platform: Arc<Platform>, address: SocketAddr) {
    let started_at = platform.env.now();
    loop {
        let replica = Replica {
            id: platform.replica,
            address: address.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at,
            seen_at: platform.env.now(),
        };
        if let Err(error) = platform.store.replica_seen(&replica).await {
            tracing::debug!(%error, "the heartbeat could not be written; retrying");
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// Returns the registry's routes: everything under `/v2/`.
pub(crate) fn registry_routes(registry: Arc<Registry>) -> Router {
    let base = registry.clone();
    let rest = move |params: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
        let rest = params.ok().and_then(|params| params.iter().next().map(|(_, value)| value.to_owned()));
        registry.clone().serve(rest.unwrap_or_default(), request)
    };
    let base_too = base.clone();
    Router::new()
        .route("/v2/", any(move |request: Request| base.clone().serve(String::new(), request)))
        .route("/v2", any(move |request: Request| base_too.clone().serve(String::new(), request)))
        .route("/v2/{*rest}", any(rest))
}

fn router(server: &Arc<Server>, stopping: &Arc<AtomicBool>) -> Router {
    let mut paths: std::collections::BTreeMap<&str, MethodRouter> = std::collections::BTreeMap::new();
    for operation in muster_api::endpoints() {
        let handler = bind::handler(operation.id).expect("a test ensures that every endpoint has a handler");
        let filter = match operation.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        let server = server.clone();
        let serve = move |params: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
            // A parameter that is not valid text cannot name a resource; pass it on as an empty one.
            let path = params
                .map(|params| params.iter().map(|(_, value)| value.to_owned()).collect())
                .unwrap_or_else(|_| vec![String::new(); operation.path_parameters().len()]);
            server.clone().serve(operation, handler, path, request)
        };
        let routes = paths.remove(operation.path).unwrap_or_default();
        paths.insert(operation.path, routes.merge(on(filter, serve)));
    }
    let mut router = Router::new();
    for (path, routes) in paths {
        router = router.route(path, routes);
    }
    let (absent, wrong) = (server.clone(), server.clone());
    let (ready, metrics, document) = (server.clone(), server.clone(), server.clone());
    let stopping = stopping.clone();
    router
        .route("/healthz", get(async || probes::healthz()))
        .route("/readyz", get(async move || probes::readyz(&ready, &stopping).await))
        .route(
            "/metrics",
            get(async move |request: Request| probes::metrics(&metrics, &request.into_parts().0).await),
        )
        .route(
            "/openapi.json",
            get(async move |request: Request| probes::document(&document, &request.into_parts().0)),
        )
        .fallback(async move |request: Request| {
            let error = Error::new(
                Code::NotFound,
                "there is nothing at this path; /openapi.json lists the endpoints",
            );
            respond::problem(error, &correlation(&absent.platform.env, request.headers()))
        })
        .method_not_allowed_fallback(async move |request: Request| {
            let error =
                Error::new(Code::MethodNotAllowed, "the path does not support this method; see `Allow`");
            respond::problem(error, &correlation(&wrong.platform.env, request.headers()))
        })
}
