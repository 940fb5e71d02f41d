//! Prometheus metrics. Never labelled by id: cardinality must not grow with the tenants.

use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::Platform;
use crate::health::CONFIRM_HEARTBEATS;

/// Delay after which a due reconcile is overdue.
const OVERDUE: SignedDuration = SignedDuration::from_mins(1);

/// Labels of a request: endpoint and status.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// Endpoint, by its operationId.
    pub endpoint: String,
    /// HTTP status.
    pub status: u16,
}

/// A single label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Word {
    /// Label value.
    pub what: String,
}

/// State and health of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HealthLabels {
    /// Its state.
    pub state: String,
    /// Its health.
    pub health: String,
}

/// Metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Requests.
    pub requests: Family<RequestLabels, Counter>,
    /// Duration of requests.
    pub seconds: Histogram,
    /// Rejections without a credential: counted, not audited.
    pub anonymous_refusals: Counter,
    /// Replayed responses.
    pub replays: Counter,
    /// Rate-limited requests.
    pub rate_limited: Counter,
    /// Sealed rows.
    pub sealed: Counter,
    /// Rows waiting for the sealer.
    pub outbox: Gauge,
    /// Writes of this server that were fenced because another had taken over.
    pub fenced: Counter,
    /// Live streams.
    pub streams: Gauge,
    /// Attempts to deliver to webhooks, by outcome.
    pub deliveries: Family<Word, Counter>,
    /// Waiting polls of agents.
    pub polls_waiting: Gauge,
    /// Recorded heartbeats of nodes.
    pub heartbeats: Counter,
    /// Orphaned sandboxes found on nodes.
    pub stale_copies: Counter,
    /// Stale task reports of agents.
    pub stale_reports: Counter,
    /// Damaged files found in the registry.
    pub damaged_blobs: Counter,
    /// Bytes of the registry verified by the scrubber.
    pub scrubbed_bytes: Counter,
    /// Nodes declared unreachable.
    pub nodes_lost: Counter,
    /// Suspected mass losses, in which the server suspected itself.
    pub mass_loss_suspected: Counter,
    /// Operations ended by this server, by kind and state.
    pub operations_ended: Family<Word, Counter>,
    /// Unfinished operations, by state.
    pub operations: Family<Word, Gauge>,
    /// Nodes, by state.
    pub nodes: Family<Word, Gauge>,
    /// GPUs that can be claimed now.
    pub gpus_free: Gauge,
    /// Instances that are not stopped, by state and health.
    pub instances: Family<HealthLabels, Gauge>,
    /// Members that are not removed, by state and health.
    pub members: Family<HealthLabels, Gauge>,
    /// Cells that should run and are dead.
    pub cells_dead: Gauge,
    /// Running instances with a silent adapter.
    pub adapters_silent: Gauge,
    /// Running instances with a reconcile that is overdue by more than a minute.
    pub reconciles_overdue: Gauge,
    /// Nodes that send heartbeats without confirming the status of their cells.
    pub nodes_unconfirmed: Gauge,
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
            outbox: Gauge::default(),
            fenced: Counter::default(),
            streams: Gauge::default(),
            deliveries: Family::default(),
            polls_waiting: Gauge::default(),
            heartbeats: Counter::default(),
            stale_copies: Counter::default(),
            stale_reports: Counter::default(),
            damaged_blobs: Counter::default(),
            scrubbed_bytes: Counter::default(),
            nodes_lost: Counter::default(),
            mass_loss_suspected: Counter::default(),
            operations_ended: Family::default(),
            operations: Family::default(),
            nodes: Family::default(),
            gpus_free: Gauge::default(),
            instances: Family::default(),
            members: Family::default(),
            cells_dead: Gauge::default(),
            adapters_silent: Gauge::default(),
            reconciles_overdue: Gauge::default(),
            nodes_unconfirmed: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("muster");
        registry.register("http_requests", "Requests by operation and status", metrics.requests.clone());
        registry.register("http_request_seconds", "Duration of requests", metrics.seconds.clone());
        registry.register(
            "anonymous_refusals",
            "Refusals without a credential",
            metrics.anonymous_refusals.clone(),
        );
        registry.register("idempotent_replays", "Stored responses returned again", metrics.replays.clone());
        registry.register(
            "rate_limited",
            "Requests rejected by the rate limit",
            metrics.rate_limited.clone(),
        );
        registry.register("sealed_rows", "Audit rows sealed by this server", metrics.sealed.clone());
        registry.register("outbox_rows", "Rows that wait for the sealer", metrics.outbox.clone());
        registry.register(
            "fenced",
            "Writes refused because another server holds the lease",
            metrics.fenced.clone(),
        );
        registry.register("streams", "Live event streams", metrics.streams.clone());
        registry.register("webhook_deliveries", "Delivery attempts, by outcome", metrics.deliveries.clone());
        registry.register(
            "damaged_blobs",
            "Damaged files of the registry that were quarantined",
            metrics.damaged_blobs.clone(),
        );
        registry.register(
            "scrubbed_bytes",
            "Bytes of the registry that were verified in the background",
            metrics.scrubbed_bytes.clone(),
        );
        metrics.register_fleet(&mut registry);
        Self { registry, ..metrics }
    }
}

impl Metrics {
    fn register_fleet(&self, registry: &mut Registry) {
        registry.register("polls_waiting", "Polls of agents that wait for work", self.polls_waiting.clone());
        registry.register("node_heartbeats", "Heartbeats written", self.heartbeats.clone());
        registry.register("stale_copies", "Orphaned sandboxes on nodes", self.stale_copies.clone());
        registry.register("stale_reports", "Reports that came too late", self.stale_reports.clone());
        registry.register("nodes_lost", "Nodes declared unreachable", self.nodes_lost.clone());
        registry.register(
            "mass_loss_suspected",
            "Times that many nodes missed heartbeats at once and the platform's fault was presumed",
            self.mass_loss_suspected.clone(),
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
        registry.register("instances", "Instances, by state and health", self.instances.clone());
        registry.register("members", "Members, by state and health", self.members.clone());
        registry.register("cells_dead", "Cells that should run and are dead", self.cells_dead.clone());
        registry.register(
            "adapters_silent",
            "Running instances whose adapter missed two reconciles",
            self.adapters_silent.clone(),
        );
        registry.register(
            "reconciles_overdue",
            "Running instances whose reconcile is overdue by more than a minute",
            self.reconciles_overdue.clone(),
        );
        registry.register(
            "nodes_unconfirmed",
            "Nodes that answer without confirming the status of their cells",
            self.nodes_unconfirmed.clone(),
        );
    }

    /// Updates the gauges from the database. Called on each scrape, so that an unused endpoint costs nothing.
    async fn look(
        &self,
        store: &muster_db::Store,
        now: Timestamp,
        heartbeat: SignedDuration,
    ) -> muster_db::Result<()> {
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
        let (instances, members) = store.health_count().await?;
        for (family, counts) in [(&self.instances, instances), (&self.members, members)] {
            family.clear();
            for (state, health, count) in counts {
                family.get_or_create(&HealthLabels { state, health }).set(count);
            }
        }
        let confirmed_before = now - heartbeat * CONFIRM_HEARTBEATS;
        let stale = store.stale_count(now, now - OVERDUE, confirmed_before).await?;
        self.cells_dead.set(stale.cells_dead);
        self.adapters_silent.set(stale.adapters_silent);
        self.reconciles_overdue.set(stale.reconciles_overdue);
        self.nodes_unconfirmed.set(stale.nodes_unconfirmed);
        Ok(())
    }

    /// Returns all metrics as OpenMetrics text. `docs/guides/production.md` lists each.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }
}

impl Platform {
    /// Updates the gauges from the database.
    pub async fn look_for_metrics(&self) -> muster_db::Result<()> {
        self.metrics.look(&self.store, self.env.now(), self.heartbeat()).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_guide_lists_every_metric_that_exists_and_no_other() {
        let metrics = Metrics::default();
        // A family without a member is not printed.
        let word = || Word { what: "any".to_owned() };
        let labels = || HealthLabels { state: "any".to_owned(), health: "any".to_owned() };
        metrics.requests.get_or_create(&RequestLabels { endpoint: "any".to_owned(), status: 200 }).inc();
        metrics.operations_ended.get_or_create(&word()).inc();
        metrics.operations.get_or_create(&word()).set(0);
        metrics.nodes.get_or_create(&word()).set(0);
        metrics.instances.get_or_create(&labels()).set(0);
        metrics.members.get_or_create(&labels()).set(0);
        metrics.deliveries.get_or_create(&word()).inc();
        let text = metrics.text();
        let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let exist: BTreeSet<String> = kinds
            .map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() })
            .collect();
        let guide = include_str!("../../../../docs/guides/production.md");
        let listed: BTreeSet<String> = guide
            .lines()
            .filter_map(|line| line.strip_prefix("| `muster_"))
            .map(|rest| {
                let name: String =
                    rest.chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '_').collect();
                format!("muster_{name}")
            })
            .collect();
        assert_eq!(listed, exist);
        assert!(exist.len() > 15, "{exist:?}");
    }
}
