//! A part of an app.

use std::collections::BTreeMap;

use muster_wire::cell::{CellRestart, Protocol, SecretFile, Service};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Witnesses;

/// A part of an app. Its key means something to the adapter alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Its name in this app.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$", example = "worker")]
    pub key: String,
    /// What it is, for people.
    #[serde(default)]
    #[schema(required = false, max_length = 500)]
    pub description: String,
    /// How many there can be.
    pub count: Count,
    /// What each member asks for, unless an instance says otherwise.
    pub capacity: Capacity,
    /// What its members need of each other and of other components'.
    #[serde(default)]
    #[schema(required = false)]
    pub reach: Reach,
    /// How many must stay in work for the component to work at all; none needs to, if this is not said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub quorum: Option<Quorum>,
    /// The place in starts and upgrades: lower ones come first, and go last.
    #[serde(default)]
    #[schema(required = false, maximum = 1000)]
    pub update_order: u32,
    /// How fast members are taken out of work.
    #[serde(default)]
    #[schema(required = false)]
    pub drain_pace: DrainPace,
    /// Which comes first when one member takes another's place.
    #[serde(default)]
    #[schema(required = false)]
    pub replace_order: ReplaceOrder,
    /// Directories that survive incarnations on the same allocation, and are wiped with the member.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub state: Vec<String>,
    /// Directories that all members with this path in their list have in common, whichever node they are on, with the same owners. They
    /// are made empty with the first member and removed when the instance is decommissioned. Their nodes must share a file system.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub shared: Vec<String>,
    /// What happens when the cell of a member ends by itself, as it does when its node is rebooted. `always` recovers the member in its
    /// place, with its state directories, and needs `recover` among the operations.
    #[serde(default, skip_serializing_if = "CellRestart::is_never")]
    #[schema(required = false)]
    pub restart: CellRestart,
    /// After so many seconds without the platform, the node's agent destroys the member's cell, and keeps its state directories; a
    /// replacement waits for twice as long after the node was found unreachable. It needs an agent that lives: where none runs,
    /// nothing stops the cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 5, maximum = 86400)]
    pub stop_after_partition: Option<u32>,
    /// What runs.
    pub runtime: Runtime,
    /// How each of its states is witnessed.
    #[serde(default)]
    #[schema(required = false)]
    pub witnesses: Witnesses,
}

/// How many members a component can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// An instance runs with so many of them.
    #[schema(minimum = 0, maximum = 10_000)]
    pub min: i64,
    /// There are never more.
    #[schema(minimum = 1, maximum = 10_000)]
    pub max: i64,
    /// So many, if an instance does not say; the least, if this is not said either.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 0, maximum = 10_000)]
    pub default: Option<i64>,
}

/// What a member asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// GPUs; none is legal.
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

/// What members need of each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Nothing: each is by itself, or all are in one allocation.
    #[default]
    None,
    /// They reach each other's addresses, over routers if need be.
    Routed,
    /// They share one network, as if on one wire.
    Flat,
}

/// How many must stay in work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Quorum {
    /// More than half of those that are wanted.
    Majority,
    /// So many.
    AtLeast(i64),
}

impl Quorum {
    /// How many of `desired` must stay.
    pub fn of(self, desired: i64) -> i64 {
        match self {
            Self::Majority => desired / 2 + 1,
            Self::AtLeast(least) => least,
        }
    }
}

/// How fast members are taken out of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainPace {
    /// So many at once.
    #[schema(minimum = 1, maximum = 10_000)]
    pub at_once: i64,
}

impl Default for DrainPace {
    fn default() -> Self {
        Self { at_once: 1 }
    }
}

/// Which comes first when one member takes another's place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplaceOrder {
    /// The new one works before the old one goes.
    #[default]
    NewFirst,
    /// The old one is gone before the new one comes.
    OldFirst,
}

/// What runs in a member's cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// Its file system.
    pub root: RootFrom,
    /// What runs in it, under supervision. One with `start: on_request` waits for the adapter.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub services: Vec<Service>,
    /// What every process in it finds in its environment.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Where it can be reached.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub ports: Vec<Port>,
    /// Whether it may reach addresses outside its network.
    #[serde(default)]
    #[schema(required = false)]
    pub egress: bool,
    /// Secrets of the consumer's project that it is given.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub secrets: Vec<SecretFile>,
    /// Whether it has the project's people, with names, numbers and SSH keys.
    #[serde(default)]
    #[schema(required = false)]
    pub people: bool,
}

/// Where a file system comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RootFrom {
    /// One of the manifest's artifacts, by its name there.
    Artifact(String),
    /// Directories of the node, read-only; its operator says which there are.
    Host(Vec<String>),
}

/// A port that a member listens at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// What it is for: the name of an endpoint.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$", example = "http")]
    pub name: String,
    /// The port.
    #[schema(minimum = 1, maximum = 65_535)]
    pub port: u16,
    /// How it is spoken to.
    #[serde(default)]
    #[schema(required = false)]
    pub protocol: Protocol,
    /// Who reaches it.
    #[serde(default)]
    #[schema(required = false)]
    pub expose: Expose,
}

/// Who reaches a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expose {
    /// Only members of the instance.
    #[default]
    Network,
    /// Whoever reaches the node: a port of it leads here.
    Node,
}
