//! Counters for Prometheus. Never labelled by id: a tenant's growth must not be the metrics' growth.

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// A request by operation and status.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The operation's id.
    pub operation: String,
    /// The HTTP status.
    pub status: u16,
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Word {
    /// What it was.
    pub what: String,
}

/// The counters of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Requests.
    pub requests: Family<RequestLabels, Counter>,
    /// How long they took.
    pub seconds: Histogram,
    /// Refusals of callers without a credential: counted, not audited.
    pub anonymous_refusals: Counter,
    /// Stored answers that were given again.
    pub replays: Counter,
    /// Requests that were told to wait.
    pub rate_limited: Counter,
    /// Rows sealed.
    pub sealed: Counter,
    /// Rows that wait for the sealer.
    pub unsealed: Gauge,
    /// Times that this server was refused because another had taken over.
    pub fenced: Counter,
    /// Live streams.
    pub streams: Gauge,
    /// Attempts to deliver to webhooks, by outcome.
    pub deliveries: Family<Word, Counter>,
    /// Polls of agents that wait for work.
    pub polls_waiting: Gauge,
    /// Heartbeats of nodes that were written down.
    pub heartbeats: Counter,
    /// Places found on nodes that must not be there.
    pub ghosts: Counter,
    /// Reports of agents on tasks that nobody waits for any more.
    pub stale_reports: Counter,
    /// Nodes declared unreachable.
    pub nodes_lost: Counter,
    /// Times that many nodes fell silent at once and the fault was presumed ours.
    pub loss_presumed_ours: Counter,
    /// Operations that this server ended, by kind and state.
    pub operations_ended: Family<Word, Counter>,
    /// Operations that are not finished, by state.
    pub operations: Family<Word, Gauge>,
    /// Nodes, by state.
    pub nodes: Family<Word, Gauge>,
    /// GPUs that can be claimed now.
    pub gpus_free: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("muster"),
            requests: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.0005, 2.0, 14)),
            anonymous_refusals: Counter::default(),
            replays: Counter::default(),
            rate_limited: Counter::default(),
            sealed: Counter::default(),
            unsealed: Gauge::default(),
            fenced: Counter::default(),
            streams: Gauge::default(),
            deliveries: Family::default(),
            polls_waiting: Gauge::default(),
            heartbeats: Counter::default(),
            ghosts: Counter::default(),
            stale_reports: Counter::default(),
            nodes_lost: Counter::default(),
            loss_presumed_ours: Counter::default(),
            operations_ended: Family::default(),
            operations: Family::default(),
            nodes: Family::default(),
            gpus_free: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("muster");
        registry.register("http_requests", "Requests by operation and status", metrics.requests.clone());
        registry.register("http_request_seconds", "How long requests took", metrics.seconds.clone());
        registry.register(
            "anonymous_refusals",
            "Refusals without a credential",
            metrics.anonymous_refusals.clone(),
        );
        registry.register("idempotent_replays", "Stored answers given again", metrics.replays.clone());
        registry.register("rate_limited", "Requests told to wait", metrics.rate_limited.clone());
        registry.register("sealed_rows", "Audit rows sealed by this server", metrics.sealed.clone());
        registry.register("unsealed_rows", "Rows that wait for the sealer", metrics.unsealed.clone());
        registry.register(
            "fenced",
            "Writes refused because another server took over",
            metrics.fenced.clone(),
        );
        registry.register("streams", "Live event streams", metrics.streams.clone());
        registry.register(
            "webhook_deliveries",
            "Attempts to deliver, by outcome",
            metrics.deliveries.clone(),
        );
        metrics.register_fleet(&mut registry);
        Self { registry, ..metrics }
    }
}

impl Metrics {
    fn register_fleet(&self, registry: &mut Registry) {
        registry.register("polls_waiting", "Polls of agents that wait for work", self.polls_waiting.clone());
        registry.register("node_heartbeats", "Heartbeats written down", self.heartbeats.clone());
        registry.register("ghosts", "Places on nodes that must not be there", self.ghosts.clone());
        registry.register("stale_reports", "Reports that came too late", self.stale_reports.clone());
        registry.register("nodes_lost", "Nodes declared unreachable", self.nodes_lost.clone());
        registry.register(
            "loss_presumed_ours",
            "Times that many nodes fell silent and the fault was presumed ours",
            self.loss_presumed_ours.clone(),
        );
        registry.register(
            "operations_ended",
            "Operations that this server ended, by kind and state",
            self.operations_ended.clone(),
        );
        registry.register(
            "operations",
            "Operations that are not finished, by state",
            self.operations.clone(),
        );
        registry.register("nodes", "Nodes, by state", self.nodes.clone());
        registry.register("gpus_free", "GPUs that can be claimed now", self.gpus_free.clone());
    }

    /// Counts what stands in the database. Called when somebody looks, so that looking is all it costs.
    pub async fn look(&self, store: &muster_store::Store) -> muster_store::Result<()> {
        self.operations.clear();
        for (state, count) in store.operation_count().await? {
            self.operations.get_or_create(&Word { what: state }).set(count);
        }
        self.nodes.clear();
        let mut free = 0;
        for count in store.node_count().await? {
            free += if count.state == "ready" { count.gpus_free } else { 0 };
            self.nodes.get_or_create(&Word { what: count.state }).set(count.nodes);
        }
        self.gpus_free.set(free);
        Ok(())
    }

    /// All of them, as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }
}
