//! Shared services of all requests.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::Store;
use muster_engine::{Engine, Hooks, Timing};
use muster_ids::{Env, OperationId, ReplicaId, TaskId};
use muster_keys::{Authority, Custody, Envelope, RootKeys};
use muster_registry::Blobs;
use tokio::sync::{Notify, broadcast};

use crate::adapter_step::Leases;
use crate::audit::AuditKey;
use crate::authn::Authn;
use crate::fleet::Fleet;
use crate::registry::{Manifests, Names};
use crate::stream::Streams;
use crate::{Error, Limits, Metrics, Tail};

/// Settings of the use cases.
#[derive(Debug, Clone)]
pub struct Options {
    /// Lifetime of a browser session.
    pub session_length: SignedDuration,
    /// Lifetime of a cached credential: half of the five-second limit for revocation on all replicas.
    pub credential_cache: Duration,
    /// Retention of stored responses.
    pub idempotency_retention: SignedDuration,
    /// Retention of events; unlimited if absent.
    pub event_retention: Option<SignedDuration>,
    /// Retention of audit entries; unlimited if absent.
    pub audit_retention: Option<SignedDuration>,
    /// Destination of signed audit heads; none if absent.
    pub audit_heads_to: Option<crate::audit::HeadsDestination>,
    /// Interval at which changed heads are signed.
    pub audit_heads_every: Duration,
    /// Whether webhooks may go to loopback and private addresses, and by plain http.
    pub webhooks_to_private: bool,
    /// Whether session cookies require TLS.
    pub secure_cookies: bool,
    /// Folder of the data that the server cannot work without, if any. A full registry only refuses pushes.
    pub data: Option<std::path::PathBuf>,
    /// Fair shares.
    pub rates: crate::limits::Rates,
    /// URL for agents, as shown to operators. An unknown part is a placeholder.
    pub nodes_url: String,
    /// Heartbeat interval of nodes.
    pub heartbeat: Duration,
    /// Lifetime of a node's certificate.
    pub node_certificate: SignedDuration,
    /// Time limits of operation steps.
    pub timing: Timing,
    /// Address at which agents reach this replica, as `host:port`; the usual one if absent.
    pub nodes_advertise: Option<String>,
    /// Concurrent streams to cells per tenant at this server.
    pub streams_per_tenant: u32,
    /// Grace period for unreferenced registry content: longer than a push takes.
    pub garbage_grace: SignedDuration,
    /// Interval of garbage collection.
    pub garbage_every: Duration,
    /// Bytes of registry content per second verified in the background; none disables it.
    pub scrub_pace: Option<u64>,
    /// Maximum size of a blob in bytes.
    pub largest_blob: u64,
    /// Whether external registries may be at loopback and private addresses, those at loopback by plain http.
    pub registries_to_private: bool,
    /// Whether external registries may be referenced at all.
    pub registries: bool,
    /// Whether members in slices of several allocations share one layer-2 network; whole machines always do.
    pub slice_network_crosses_allocations: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            session_length: SignedDuration::from_hours(12),
            credential_cache: Duration::from_secs(2),
            idempotency_retention: SignedDuration::from_hours(24),
            event_retention: Some(SignedDuration::from_hours(24 * 30)),
            audit_retention: None,
            audit_heads_to: None,
            audit_heads_every: Duration::from_secs(60),
            webhooks_to_private: false,
            secure_cookies: false,
            data: None,
            rates: crate::limits::Rates::default(),
            nodes_url: "https://<this server>:<nodes port>".to_owned(),
            heartbeat: Duration::from_secs(10),
            node_certificate: SignedDuration::from_hours(24),
            timing: Timing::default(),
            nodes_advertise: None,
            streams_per_tenant: 64,
            garbage_grace: SignedDuration::from_hours(24),
            garbage_every: Duration::from_secs(3600),
            scrub_pace: Some(16 << 20),
            largest_blob: 1 << 40,
            registries_to_private: false,
            registries: true,
            slice_network_crosses_allocations: false,
        }
    }
}

/// Returns the engine's callbacks. The platform owns the engine, so they hold weak references.
fn hooks(platform: &Weak<Platform>) -> Hooks {
    let (sealer, fleet, leases) = (platform.clone(), platform.clone(), platform.clone());
    let (fenced, ended) = (platform.clone(), platform.clone());
    Hooks {
        outbox: Arc::new(move || {
            if let Some(platform) = sealer.upgrade() {
                platform.sealer_wake.notify_one();
            }
        }),
        task_for: Arc::new(move |node| {
            if let Some(platform) = fleet.upgrade() {
                platform.fleet.wake(node);
            }
        }),
        step_for: Arc::new(move |account| {
            if let Some(platform) = leases.upgrade() {
                platform.leases.wake(account);
            }
        }),
        fenced: Arc::new(move || {
            if let Some(platform) = fenced.upgrade() {
                platform.metrics.fenced.inc();
            }
        }),
        ended: Arc::new(move |id, kind, state| {
            if let Some(platform) = ended.upgrade() {
                let what = crate::metrics::Word { what: format!("{kind} {state}") };
                platform.metrics.operations_ended.get_or_create(&what).inc();
                // There may be no waiting receiver.
                let _ = platform.ended.send(id);
            }
        }),
    }
}

/// Keys of a server, stored in files.
pub struct Keys {
    /// Root of all encryption.
    pub root: RootKeys,
    /// Signing key of the audit heads.
    pub audit: AuditKey,
}

/// Shared services of a server. A crash loses only its caches and counters.
pub struct Platform {
    /// Time and randomness.
    pub env: Env,
    /// The database.
    pub store: Store,
    /// Registry content.
    pub blobs: Blobs,
    /// Settings.
    pub options: Options,
    /// Id of this server.
    pub replica: ReplicaId,
    /// Metrics.
    pub metrics: Metrics,
    /// Live events.
    pub tail: Tail,
    /// Rate limiter.
    pub limits: Limits,
    /// The agents' side: waiting polls and heartbeats.
    pub fleet: Fleet,
    /// Streams to cells joined at this server.
    pub streams: Streams,
    /// The engine of operations.
    pub engine: Arc<Engine>,
    /// True once the server stops: streams then end instead of delaying the shutdown.
    pub stopping: tokio::sync::watch::Sender<bool>,
    /// Adapters that wait for work at this server.
    pub(crate) leases: Leases,
    pub(crate) authn: Authn,
    pub(crate) names: Names,
    pub(crate) manifests: Manifests,
    /// Downloads from external registries in progress.
    pub(crate) fetches: crate::artifact::external::Fetches,
    /// Examinations of signatures that are under way.
    pub(crate) examinations: crate::artifact::trust::Examinations,
    /// Artifacts whose signatures were found not to count.
    pub(crate) negative_verdicts: crate::artifact::trust::NegativeVerdicts,
    /// Tenants' keys and the platform's.
    pub envelope: Envelope,
    /// Certificate authority of the nodes.
    pub authority: Authority,
    /// Signing key of the audit heads.
    pub(crate) audit_key: AuditKey,
    /// Wakes this server's sealer after a commit.
    pub sealer_wake: Notify,
    /// Announces operations ended by this server's engine.
    pub(crate) ended: broadcast::Sender<OperationId>,
    /// Announces ended adapter tasks, as reported by agents to this server.
    pub(crate) tasks_ended: broadcast::Sender<TaskId>,
}

impl Platform {
    /// Assembles the services.
    pub fn new(env: Env, store: Store, blobs: Blobs, keys: Keys, options: Options) -> Arc<Self> {
        let replica: ReplicaId = env.id();
        Arc::new_cyclic(|platform: &Weak<Self>| Self {
            replica,
            engine: Arc::new(Engine::new(
                store.clone(),
                env.clone(),
                replica.to_string(),
                options.timing,
                hooks(platform),
            )),
            names: Names::default(),
            manifests: Manifests::default(),
            fetches: Default::default(),
            examinations: Default::default(),
            negative_verdicts: Default::default(),
            blobs,
            authn: Authn::new(options.credential_cache),
            envelope: Envelope::new(keys.root),
            authority: Authority::default(),
            audit_key: keys.audit,
            limits: Limits::new(options.rates),
            metrics: Metrics::default(),
            tail: Tail::default(),
            fleet: Fleet::default(),
            streams: Streams::default(),
            stopping: tokio::sync::watch::Sender::new(false),
            sealer_wake: Notify::new(),
            ended: broadcast::Sender::new(256),
            tasks_ended: broadcast::Sender::new(256),
            leases: Leases::default(),
            env,
            store,
            options,
        })
    }

    /// Executes operations until stopped.
    pub async fn run_engine(self: Arc<Self>, stop: tokio::sync::watch::Receiver<bool>) {
        let reports = async {
            loop {
                self.fleet.engine_wake.notified().await;
                self.engine.wake.notify_one();
            }
        };
        tokio::select! {
            () = self.engine.clone().run(stop) => {}
            () = reports => {}
        }
    }

    /// Returns what the authority is stored and sealed with.
    pub fn custody(&self) -> Custody<'_> {
        Custody { store: &self.store, envelope: &self.envelope, env: &self.env }
    }

    /// Returns the root keys, for rotation.
    pub fn root_keys(&self) -> &RootKeys {
        self.envelope.root_keys()
    }

    /// Fails when the root key file does not match the database: better at startup than at the first secret.
    pub async fn check_keys(&self) -> crate::Result<()> {
        self.envelope.derive(&self.store, "start").await.map(drop).map_err(|_| {
            Error::new(
                muster_api::Code::Unavailable,
                "the root key file does not open this database's keys: copy root.key from the replica that created the database",
            )
        })
    }

    /// Returns the hash of a request that is stored with its idempotency key. It is keyed, because requests carry passwords:
    /// a plain hash could be guessed offline.
    pub async fn request_hash(&self, query: &str, body: &str) -> crate::Result<[u8; 32]> {
        let key = self.envelope.derive(&self.store, "request hashes").await?;
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key);
        let mut context = aws_lc_rs::hmac::Context::with_key(&key);
        context.update(query.as_bytes());
        context.update(&[0]);
        context.update(body.as_bytes());
        let mut hash = [0; 32];
        hash.copy_from_slice(context.sign().as_ref());
        Ok(hash)
    }

    /// Clears cached credentials, so that the next request reads the database.
    pub fn forget_credentials(&self) {
        self.authn.forget();
        self.names.forget();
        self.manifests.forget();
    }

    /// Records the tokens used since the last time.
    pub async fn note_used_tokens(&self) -> muster_db::Result<()> {
        self.authn.note_used(&self.store).await
    }
}
