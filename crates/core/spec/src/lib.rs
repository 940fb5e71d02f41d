//! Specification of a cell: the isolated sandbox of one member, or of a user's shell, inside an allocation.
//!
//! Manifests, which are signed and live for years, are made of these types, so they depend on no protocol; the agents' wire and
//! the public API carry them unchanged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Immutable specification of a cell. A changed specification is a new incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Root file system.
    pub root: Root,
    /// Supervised services. A cell without any serves commands and shells.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub services: Vec<Service>,
    /// Files written before any process starts.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    pub files: Vec<File>,
    /// Directories that survive incarnations. They are wiped with the allocation.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub state: Vec<String>,
    /// Directories shared with the other cells of the network, on the file system that the nodes share. Only cells of an
    /// app's members have them, as declared in the manifest; decommissioning the app removes them.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub shared: Vec<String>,
    /// Environment variables of every process.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// GPUs of the allocation that the cell may use. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_items = 64)]
    pub gpus: Option<Vec<u32>>,
    /// Whether processes may reach addresses outside the network, through the node.
    #[serde(default)]
    #[schema(required = false)]
    pub egress: bool,
    /// Ports reachable from outside the network, at the node.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub ingress: Vec<Ingress>,
    /// Whether the cell has the project's users: their names and ids in `/etc/muster/passwd` and `/etc/muster/group`, their
    /// SSH keys in `/etc/muster/authorized_keys`. Commands then run as the calling user by default, not as root.
    #[serde(default)]
    #[schema(required = false)]
    pub people: bool,
    /// Secrets, each a file in `/run/muster/secrets` that is kept in memory only.
    #[serde(default)]
    #[schema(required = false, max_items = 64)]
    pub secrets: Vec<SecretFile>,
    /// Restart policy for the cell itself, after its first process dies or its node reboots.
    #[serde(default, skip_serializing_if = "CellRestart::is_never")]
    #[schema(required = false)]
    pub restart: CellRestart,
    /// Seconds without contact to the platform after which the node destroys the cell, so that a replacement elsewhere never
    /// runs beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 5, maximum = 86400)]
    pub stop_after_partition: Option<u32>,
}

/// A secret of a cell: a file of mode 0400. The specification carries only its name; the node requests the content by this
/// name, for this incarnation of the cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretFile {
    /// Project secret by name or id, or runtime secret by id.
    #[schema(max_length = 100)]
    pub secret: String,
    /// File name.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,126}$")]
    pub file: String,
    /// Its owner in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// Its group in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
}

/// Source of a cell's file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Root {
    /// Image, by the digest of its manifest: `sha256:…`.
    Image(String),
    /// Directories of the node, read-only, with an `/etc` made for the cell. The node's operator allows them.
    Host(Vec<String>),
}

/// A process that runs for as long as its cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// Program path and arguments. No shell interprets them.
    #[schema(min_items = 1, max_items = 256)]
    pub command: Vec<String>,
    /// As which user of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// As which group of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
    /// Environment variables in addition to the cell's.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Working directory. Default: the image's own, or `/`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 4096)]
    pub working_directory: Option<String>,
    /// Start condition.
    #[serde(default)]
    #[schema(required = false)]
    pub start: Start,
    /// Restart policy.
    #[serde(default)]
    #[schema(required = false)]
    pub restart: Restart,
    /// Services that must be ready before this one starts.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub after: Vec<String>,
    /// Readiness probe. Without one, the service is ready after running for a second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub ready: Option<Probe>,
    /// Seconds to stop before it is killed.
    #[serde(default = "ten")]
    #[schema(required = false, maximum = 600)]
    pub stop_seconds: u32,
}

fn ten() -> u32 {
    10
}

fn one() -> u32 {
    1
}

/// Restart policy of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellRestart {
    /// Leave it stopped: its owner decides.
    #[default]
    Never,
    /// Recreate it in its sandbox as a new incarnation with its state directories, at most three times within an hour.
    Always,
}

impl CellRestart {
    /// Reports whether an ended cell is left stopped.
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// Start condition of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Start with the cell.
    #[default]
    WithCell,
    /// Start on request. The cell counts as complete without it.
    OnRequest,
}

/// Restart policy of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Never restart.
    Never,
    /// Restart after a nonzero exit status.
    #[default]
    OnFailure,
    /// Restart after every exit.
    Always,
}

/// Readiness probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Probe method.
    pub by: ProbeBy,
    /// Interval between two attempts.
    #[serde(default = "one")]
    #[schema(required = false, minimum = 1, maximum = 300)]
    pub every_seconds: u32,
    /// Timeout of one attempt.
    #[serde(default = "ten")]
    #[schema(required = false, minimum = 1, maximum = 300)]
    pub timeout_seconds: u32,
}

/// Probe method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProbeBy {
    /// Command in the cell that must exit with zero.
    Command(Vec<String>),
    /// TCP connection to this port of the cell.
    Tcp(u16),
    /// HTTP GET of this path at this port of the cell; a status of 200 to 399 succeeds.
    Http {
        /// The port.
        #[schema(minimum = 1)]
        port: u16,
        /// The path.
        #[schema(max_length = 1024)]
        path: String,
    },
}

/// A file in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Path.
    #[schema(max_length = 4096)]
    pub path: String,
    /// Content.
    #[schema(max_length = 262_144)]
    pub text: String,
    /// Mode, in octal digits.
    #[serde(default = "plain_mode")]
    #[schema(required = false, pattern = "^[0-7]{3,4}$")]
    pub mode: String,
    /// Its owner in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// Its group in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
}

fn plain_mode() -> String {
    "644".to_owned()
}

/// A port of a cell that is reachable from outside its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// The cell's port.
    #[schema(minimum = 1)]
    pub port: u16,
    /// Transport protocol.
    #[serde(default)]
    #[schema(required = false)]
    pub protocol: Protocol,
    /// The node's port. Default: chosen by the platform.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 1)]
    pub node_port: Option<u16>,
}

/// Transport protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}
