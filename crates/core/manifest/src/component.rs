//! A component of an app.

use std::collections::BTreeMap;

use muster_spec::{CellRestart, Protocol, SecretFile, Service};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Witnesses;

/// A component of an app. Its key is meaningful only to the adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Name in this app.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$", example = "worker")]
    pub key: String,
    /// Description.
    #[serde(default)]
    #[schema(required = false, max_length = 500)]
    pub description: String,
    /// Allowed number of members.
    pub count: Count,
    /// Default capacity of each member.
    pub capacity: Capacity,
    /// Network that its members need between each other and to other components.
    #[serde(default)]
    #[schema(required = false)]
    pub reach: Reach,
    /// Number of members that must keep working for the component to work; none by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub quorum: Option<Quorum>,
    /// Order of starts and upgrades: lower ones start first and stop last.
    #[serde(default)]
    #[schema(required = false, maximum = 1000)]
    pub update_order: u32,
    /// Pace of draining.
    #[serde(default)]
    #[schema(required = false)]
    pub drain_pace: DrainPace,
    /// Order of replacement.
    #[serde(default)]
    #[schema(required = false)]
    pub replace_order: ReplaceOrder,
    /// Directories that survive incarnations on the same allocation, and are wiped with the member.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub state: Vec<String>,
    /// Directories shared by all members that list this path, on any node, with the same owners. They are created empty with
    /// the first member and removed when the instance is decommissioned. Their nodes must share a file system.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub shared: Vec<String>,
    /// Reaction to the unexpected end of a member's cell, such as a reboot of its node. `always` recovers the member in
    /// place, with its state directories, and requires `recover` among the operations.
    #[serde(default, skip_serializing_if = "CellRestart::is_never")]
    #[schema(required = false)]
    pub restart: CellRestart,
    /// Seconds without contact to the platform after which the node's agent destroys the member's cell, keeping its state
    /// directories; a replacement waits for at least twice as long after the node was found unreachable. This needs a running
    /// agent: without one, nothing stops the cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 5, maximum = 86400)]
    pub stop_after_partition: Option<u32>,
    /// The services of the cell.
    pub runtime: Runtime,
    /// Checks that verify its states.
    #[serde(default)]
    #[schema(required = false)]
    pub witnesses: Witnesses,
}

/// Allowed number of members of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Minimum for an instance to run.
    #[schema(minimum = 0, maximum = 10_000)]
    pub min: i64,
    /// Maximum.
    #[schema(minimum = 1, maximum = 10_000)]
    pub max: i64,
    /// Default for an instance; the minimum if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 0, maximum = 10_000)]
    pub default: Option<i64>,
}

/// Capacity of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// GPUs, possibly none.
    #[serde(default)]
    #[schema(required = false, minimum = 0, maximum = 1024)]
    pub gpus: i64,
    /// Logical CPUs.
    #[schema(minimum = 1, maximum = 4096)]
    pub cpus: i64,
    /// Memory in MiB.
    #[schema(minimum = 1, maximum = 67_108_864)]
    pub memory_mb: i64,
    /// Disk in MiB.
    #[serde(default)]
    #[schema(required = false, minimum = 0, maximum = 1_073_741_824)]
    pub disk_mb: i64,
}

/// Network that members need between each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// None: each is independent, or all are in one allocation.
    #[default]
    None,
    /// They reach each other's addresses, possibly over routers.
    Routed,
    /// They share one flat network.
    Flat,
}

/// Number of members that must keep working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Quorum {
    /// More than half of the desired number.
    Majority,
    /// This many.
    AtLeast(i64),
}

impl Quorum {
    /// Returns the quorum for `desired` members.
    pub fn of(self, desired: i64) -> i64 {
        match self {
            Self::Majority => desired / 2 + 1,
            Self::AtLeast(least) => least,
        }
    }
}

/// Pace of draining.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainPace {
    /// Number of members drained at once.
    #[schema(minimum = 1, maximum = 10_000)]
    pub at_once: i64,
}

impl Default for DrainPace {
    fn default() -> Self {
        Self { at_once: 1 }
    }
}

/// Order of replacement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplaceOrder {
    /// The new member works before the old one is removed.
    #[default]
    NewFirst,
    /// The old member is removed before the new one is added.
    OldFirst,
}

/// Contents of a member's cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// Root file system.
    pub root: RootFrom,
    /// Supervised services. One with `start: on_request` waits for the adapter.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub services: Vec<Service>,
    /// Environment of every process in it.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Ports that it listens on.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub ports: Vec<Port>,
    /// Whether it may reach addresses outside its network.
    #[serde(default)]
    #[schema(required = false)]
    pub egress: bool,
    /// Secrets of the consumer's project that it receives.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub secrets: Vec<SecretFile>,
    /// Whether it has the project's user accounts, with names, uids and SSH keys.
    #[serde(default)]
    #[schema(required = false)]
    pub people: bool,
}

/// Source of a root file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RootFrom {
    /// One of the manifest's artifacts, by name.
    Artifact(String),
    /// Directories of the node, read-only; its operator allows them.
    Host(Vec<String>),
}

/// A port that a member listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Name of the endpoint.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$", example = "http")]
    pub name: String,
    /// The port.
    #[schema(minimum = 1, maximum = 65_535)]
    pub port: u16,
    /// Protocol.
    #[serde(default)]
    #[schema(required = false)]
    pub protocol: Protocol,
    /// Exposure.
    #[serde(default)]
    #[schema(required = false)]
    pub expose: Expose,
}

/// Exposure of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expose {
    /// Only to members of the instance.
    #[default]
    Network,
    /// To every client that reaches the node: a node port is forwarded to it.
    Node,
}
