//! The manifest document.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Component;

/// The manifest of one release of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Slug of the app.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "notebook")]
    pub app: String,
    /// Release name: unique within the app, and never reused.
    #[schema(pattern = "^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$", example = "1.4.0")]
    pub version: String,
    /// Release notes.
    #[serde(default)]
    #[schema(required = false, max_length = 4000)]
    pub notes: String,
    /// Kind of app.
    pub artifact_kind: AppKind,
    /// Artifacts by digest. Tags are not used here.
    #[serde(default)]
    #[schema(required = false, max_items = 64)]
    pub artifacts: Vec<Artifact>,
    /// Requirements for allocations.
    pub compatibility: Compatibility,
    /// Its components.
    #[schema(min_items = 1, max_items = 32)]
    pub components: Vec<Component>,
    /// JSON Schema of an instance's `config`, draft 2020-12, without external references. Anything is valid by default.
    #[serde(default = "anything")]
    #[schema(required = false, value_type = Object)]
    pub config_schema: Value,
    /// Exact permissions of the adapter's account in a project.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    pub permissions: Vec<String>,
    /// Supported operations on members. Add and remove are always supported.
    #[serde(default)]
    #[schema(required = false, max_items = 6)]
    pub operations: Vec<Verb>,
    /// Meters besides the held capacity.
    #[serde(default)]
    #[schema(required = false, max_items = 64)]
    pub meters: Vec<Meter>,
    /// Default repair policy.
    #[serde(default)]
    #[schema(required = false)]
    pub repair: RepairPolicy,
    /// Interval in seconds at which the adapter reconciles an instance.
    #[serde(default = "a_minute")]
    #[schema(required = false, minimum = 1, maximum = 86400)]
    pub reconcile_seconds: u32,
}

fn anything() -> Value {
    Value::Object(serde_json::Map::new())
}

fn a_minute() -> u32 {
    60
}

impl Manifest {
    /// Returns the component with this key.
    pub fn component(&self, key: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.key == key)
    }

    /// Reports whether its members support this verb.
    pub fn supports(&self, verb: Verb) -> bool {
        matches!(verb, Verb::Add | Verb::Remove) || self.operations.contains(&verb)
    }
}

/// Kind of app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AppKind {
    /// Images from which its adapter builds a runtime.
    Oci,
    /// One image that simply runs, without joining or leaving.
    Launchable,
    /// A runtime with a controller of its own.
    Controller,
}

/// An artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Name used by the components.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// Repository in the publisher's project.
    #[schema(max_length = 255)]
    pub repository: String,
    /// Digest of its manifest.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    pub digest: String,
}

/// Shape of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A whole machine.
    Baremetal,
    /// A part of a machine.
    GpuSlice,
}

impl Shape {
    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baremetal => "baremetal",
            Self::GpuSlice => "gpu_slice",
        }
    }
}

/// Requirements for allocations, checked before anything is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Compatibility {
    /// Allowed shapes of allocations.
    #[schema(min_items = 1, max_items = 2)]
    pub requires_capacity_shape: Vec<Shape>,
    /// Minimum total number of GPUs.
    #[serde(default)]
    #[schema(required = false, minimum = 0, maximum = 100_000)]
    pub min_gpu_count: i64,
    /// Whether it needs its nodes exclusively.
    #[serde(default)]
    #[schema(required = false)]
    pub requires_exclusive_node: bool,
}

/// Operations on members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Add a member.
    Add,
    /// Move its work elsewhere and accept no new work.
    Drain,
    /// Accept work again.
    Resume,
    /// Remove it.
    Remove,
    /// Replace it with another.
    Replace,
    /// Recreate it in place.
    Recover,
}

impl Verb {
    /// All values.
    pub const ALL: [Verb; 6] =
        [Verb::Add, Verb::Drain, Verb::Resume, Verb::Remove, Verb::Replace, Verb::Recover];

    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Drain => "drain",
            Self::Resume => "resume",
            Self::Remove => "remove",
            Self::Replace => "replace",
            Self::Recover => "recover",
        }
    }
}

/// A meter of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Meter {
    /// Its name.
    #[schema(pattern = "^[a-z]([a-z0-9_]{0,61}[a-z0-9])?$", example = "tokens")]
    pub name: String,
    /// Unit of the values.
    #[schema(max_length = 50, example = "token")]
    pub unit: String,
    /// Kind of values.
    pub kind: MeterKind,
}

/// Kind of a meter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeterKind {
    /// Usage since the previous value.
    Delta,
    /// Total usage.
    Counter,
}

/// Reaction to a failed member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairPolicy {
    /// Repair mode.
    #[serde(default)]
    #[schema(required = false)]
    pub mode: RepairMode,
    /// Maximum number of automatic repairs within the window; further ones are only proposed.
    #[serde(default = "three")]
    #[schema(required = false, minimum = 0, maximum = 1000)]
    pub most: i64,
    /// Length of the window in seconds.
    #[serde(default = "an_hour")]
    #[schema(required = false, minimum = 60, maximum = 604_800)]
    pub window_seconds: u32,
}

fn three() -> i64 {
    3
}

fn an_hour() -> u32 {
    3600
}

impl Default for RepairPolicy {
    fn default() -> Self {
        Self { mode: RepairMode::default(), most: three(), window_seconds: an_hour() }
    }
}

/// Reaction to a failed member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairMode {
    /// Only report the failure.
    Off,
    /// Propose a replacement for a user to decide on.
    #[default]
    Propose,
    /// Open a replacement automatically, until the circuit breaker opens.
    Automatic,
}
