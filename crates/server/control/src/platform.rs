//! What all requests share.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::Store;
use muster_engine::{Engine, Hooks, Timing};
use muster_ids::{OperationId, ReplicaId, TaskId, World};
use muster_registry::Blobs;
use tokio::sync::{Notify, broadcast};

use crate::adapter_step::Leases;
use crate::audit::AuditKey;
use crate::authn::Authn;
use crate::envelope::Envelope;
use crate::fleet::Fleet;
use crate::places::Places;
use crate::registry::{Manifests, Names};
use crate::stream::Streams;
use crate::{Limits, Metrics, RootKeys, Tail};

/// Settings that use-cases need.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a browser session lives.
    pub session_length: SignedDuration,
    /// How long a checked credential is believed without asking the database; half of the five seconds in which a
    /// revoked one must be dead everywhere.
    pub credential_cache: Duration,
    /// How long stored answers are kept.
    pub idempotency_retention: SignedDuration,
    /// How long events are kept; for ever if absent.
    pub event_retention: Option<SignedDuration>,
    /// How long audit entries are kept; for ever if absent.
    pub audit_retention: Option<SignedDuration>,
    /// Where signed heads of the audit's chains are kept; nowhere if absent.
    pub audit_heads_to: Option<crate::audit::HeadsDestination>,
    /// How often they are, where something changed.
    pub audit_heads_every: Duration,
    /// Whether webhooks may go to loopback and private addresses, and by plain http.
    pub webhooks_to_private: bool,
    /// Whether session cookies demand TLS.
    pub secure_cookies: bool,
    /// Where the server writes what it cannot work without, if anywhere. A full registry refuses pushes, and everything else goes on.
    pub data: Option<std::path::PathBuf>,
    /// Fair shares.
    pub rates: crate::limits::Rates,
    /// Where operators are told that agents find us. What is not known stands there as a word to be replaced.
    pub nodes_url: String,
    /// How often a node must be heard.
    pub heartbeat: Duration,
    /// How long a node's certificate lasts.
    pub node_certificate: SignedDuration,
    /// How long the steps of operations may take.
    pub timing: Timing,
    /// Where agents reach this very replica, as `host:port`; where they usually dial if absent.
    pub nodes_advertise: Option<String>,
    /// Streams to cells that one tenant may have at this server at once.
    pub streams_per_tenant: u32,
    /// How long content of the registry stays that nothing needs: longer than a push takes.
    pub garbage_grace: SignedDuration,
    /// How often such content is looked for.
    pub garbage_every: Duration,
    /// How many bytes a second of the registry's content are verified in the background; none switches it off.
    pub scrub_pace: Option<u64>,
    /// The most bytes of one blob.
    pub largest_blob: u64,
    /// Whether other registries may be at loopback and private addresses, those at loopback by plain http.
    pub registries_to_private: bool,
    /// Whether other registries may be referenced at all.
    pub registries: bool,
    /// Whether members in slices of several allocations share one network, as if on one wire; whole machines always do.
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

/// The engine belongs to the platform and tells it what it did.
fn hooks(platform: &Weak<Platform>) -> Hooks {
    let (sealer, fleet, leases) = (platform.clone(), platform.clone(), platform.clone());
    let (fenced, ended) = (platform.clone(), platform.clone());
    Hooks {
        unsealed: Arc::new(move || {
            if let Some(platform) = sealer.upgrade() {
                platform.unsealed.notify_one();
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
                // Nobody may wait for it.
                let _ = platform.ended.send(id);
            }
        }),
    }
}

/// The keys of a server, which are in files.
pub struct Keys {
    /// What everything that is secret is encrypted under.
    pub root: RootKeys,
    /// What signs heads of the audit's chains.
    pub audit: AuditKey,
}

/// The shared parts of a server. Nothing in here is lost by a crash but caches and counters.
pub struct Platform {
    /// Time and randomness.
    pub world: World,
    /// The database.
    pub store: Store,
    /// The content of the registry.
    pub blobs: Blobs,
    /// Settings.
    pub options: Options,
    /// This server.
    pub replica: ReplicaId,
    /// Counters.
    pub metrics: Metrics,
    /// Live events.
    pub tail: Tail,
    /// Rates.
    pub limits: Limits,
    /// The agents' side: who waits for work, who was heard.
    pub fleet: Fleet,
    /// Streams to cells that were joined here.
    pub streams: Streams,
    /// What carries operations out.
    pub engine: Arc<Engine>,
    /// True once the server stops: streams end then, instead of holding it up.
    pub stopping: tokio::sync::watch::Sender<bool>,
    /// Adapters that wait for work here.
    pub(crate) leases: Leases,
    pub(crate) authn: Authn,
    pub(crate) places: Places,
    pub(crate) names: Names,
    pub(crate) manifests: Manifests,
    /// Downloads from other registries that are under way.
    pub(crate) fetches: crate::artifact::external::Fetches,
    /// Examinations of signatures that are under way.
    pub(crate) examinations: crate::artifact::trust::Examinations,
    /// Artifacts whose signatures were found not to count.
    pub(crate) negative_verdicts: crate::artifact::trust::NegativeVerdicts,
    pub(crate) envelope: Envelope,
    /// Signs heads of the audit's chains.
    pub(crate) audit_key: AuditKey,
    /// Wakes the sealer of this server after a commit.
    pub(crate) unsealed: Notify,
    /// Says which operations have ended, by this server's engine.
    pub(crate) ended: broadcast::Sender<OperationId>,
    /// Says which tasks of adapters have ended, as far as their agents said so to this server.
    pub(crate) tasks_ended: broadcast::Sender<TaskId>,
}

impl Platform {
    /// Puts the parts together.
    pub fn new(world: World, store: Store, blobs: Blobs, keys: Keys, options: Options) -> Arc<Self> {
        let replica: ReplicaId = world.id();
        Arc::new_cyclic(|platform: &Weak<Self>| Self {
            replica,
            engine: Arc::new(Engine::new(
                store.clone(),
                world.clone(),
                replica.to_string(),
                options.timing,
                hooks(platform),
            )),
            places: Places::default(),
            names: Names::default(),
            manifests: Manifests::default(),
            fetches: Default::default(),
            examinations: Default::default(),
            negative_verdicts: Default::default(),
            blobs,
            authn: Authn::new(options.credential_cache),
            envelope: Envelope::new(keys.root),
            audit_key: keys.audit,
            limits: Limits::new(options.rates),
            metrics: Metrics::default(),
            tail: Tail::default(),
            fleet: Fleet::default(),
            streams: Streams::default(),
            stopping: tokio::sync::watch::Sender::new(false),
            unsealed: Notify::new(),
            ended: broadcast::Sender::new(256),
            tasks_ended: broadcast::Sender::new(256),
            leases: Leases::default(),
            world,
            store,
            options,
        })
    }

    /// Carries operations out until told to stop.
    pub async fn run_engine(self: Arc<Self>, stop: tokio::sync::watch::Receiver<bool>) {
        let reports = async {
            loop {
                self.fleet.operations.notified().await;
                self.engine.wake.notify_one();
            }
        };
        tokio::select! {
            () = self.engine.clone().run(stop) => {}
            () = reports => {}
        }
    }

    /// The root keys, for rotation.
    pub fn root_keys(&self) -> &RootKeys {
        self.envelope.root_keys()
    }

    /// Fails when the root key file and the database do not belong together: better at the start than at the first secret.
    pub async fn check_keys(&self) -> crate::Result<()> {
        self.envelope.derive(&self.store, "start").await.map(drop).map_err(|_| {
            muster_api::Problem::new(
                muster_api::Code::Unavailable,
                "the root key file does not open this database's keys: copy root.key from the replica that made the database",
            )
        })
    }

    /// What a stored key remembers of a request. Keyed, because requests carry passwords: a plain hash of one in the
    /// database would be an invitation to guess it.
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

    /// Forgets checked credentials, so that the next request asks the database.
    pub fn forget_credentials(&self) {
        self.authn.forget();
        self.places.forget();
        self.names.forget();
        self.manifests.forget();
    }

    /// Writes down which tokens were seen since the last time.
    pub async fn note_used_tokens(&self) -> muster_db::Result<()> {
        self.authn.note_used(&self.store).await
    }
}
