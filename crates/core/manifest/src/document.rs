//! The document as a whole.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Component;

/// The manifest of one release of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The app's slug.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "notebook")]
    pub app: String,
    /// Which release: unique within the app, and never used again.
    #[schema(pattern = "^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$", example = "1.4.0")]
    pub version: String,
    /// What is new, for people.
    #[serde(default)]
    #[schema(required = false, max_length = 4000)]
    pub notes: String,
    /// What kind of app it is.
    pub artifact_kind: AppKind,
    /// The content it is made of, by digest. A tag means nothing here.
    #[serde(default)]
    #[schema(required = false, max_items = 64)]
    pub artifacts: Vec<Artifact>,
    /// Where it fits.
    pub compatibility: Compatibility,
    /// Its parts.
    #[schema(min_items = 1, max_items = 32)]
    pub components: Vec<Component>,
    /// What an instance's `config` must be: a JSON Schema, draft 2020-12, that refers to nothing outside itself. Anything, if
    /// this is not said.
    #[serde(default = "anything")]
    #[schema(required = false, value_type = Object)]
    pub config_schema: Value,
    /// What the account needs under which its adapter works in a project; exactly this is given, and nothing else.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    pub permissions: Vec<String>,
    /// What can be done with its members. An add and a remove always can.
    #[serde(default)]
    #[schema(required = false, max_items = 6)]
    pub operations: Vec<Verb>,
    /// What it measures beside the capacity it holds.
    #[serde(default)]
    #[schema(required = false, max_items = 64)]
    pub meters: Vec<Meter>,
    /// What happens when a member fails, if its instance does not say otherwise.
    #[serde(default)]
    #[schema(required = false)]
    pub repair: RepairPolicy,
    /// How often the adapter is asked to look at an instance, in seconds.
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
    /// The component with this key.
    pub fn component(&self, key: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.key == key)
    }

    /// Whether a member of it can be asked this.
    pub fn supports(&self, verb: Verb) -> bool {
        matches!(verb, Verb::Add | Verb::Remove) || self.operations.contains(&verb)
    }
}

/// What kind of app it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AppKind {
    /// Images that its adapter makes a runtime of.
    Oci,
    /// One image that just runs: nothing has to be joined or left.
    Launchable,
    /// A runtime with a controller of its own.
    Controller,
}

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// How the components call it.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// The repository in the publisher's project.
    #[schema(max_length = 255)]
    pub repository: String,
    /// The digest of its manifest.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    pub digest: String,
}

/// What an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A whole machine.
    Baremetal,
    /// A part of one.
    GpuSlice,
}

impl Shape {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baremetal => "baremetal",
            Self::GpuSlice => "gpu_slice",
        }
    }
}

/// Where an app fits. It is asked before anything is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Compatibility {
    /// In which shapes of allocation it runs.
    #[schema(min_items = 1, max_items = 2)]
    pub requires_capacity_shape: Vec<Shape>,
    /// So many GPUs it needs in all, at least.
    #[serde(default)]
    #[schema(required = false, minimum = 0, maximum = 100_000)]
    pub min_gpu_count: i64,
    /// Whether it must be alone on its nodes.
    #[serde(default)]
    #[schema(required = false)]
    pub requires_exclusive_node: bool,
}

/// What can be done with members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// One more.
    Add,
    /// Its work goes elsewhere, and nothing new comes.
    Drain,
    /// It takes work again.
    Resume,
    /// It goes.
    Remove,
    /// Another takes its place.
    Replace,
    /// It is made anew where it is.
    Recover,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 6] =
        [Verb::Add, Verb::Drain, Verb::Resume, Verb::Remove, Verb::Replace, Verb::Recover];

    /// The word on the wire.
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

/// Something that an app measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Meter {
    /// Its name.
    #[schema(pattern = "^[a-z]([a-z0-9_]{0,61}[a-z0-9])?$", example = "tokens")]
    pub name: String,
    /// What one of it is.
    #[schema(max_length = 50, example = "token")]
    pub unit: String,
    /// How values relate to each other.
    pub kind: MeterKind,
}

/// How the values of a meter relate to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeterKind {
    /// Each is what was used since the one before.
    Delta,
    /// Each is what was used in all.
    Counter,
}

/// What happens when a member fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairPolicy {
    /// Who decides.
    #[serde(default)]
    #[schema(required = false)]
    pub mode: RepairMode,
    /// So many repairs may be opened by themselves within the window; after that they are only proposed.
    #[serde(default = "three")]
    #[schema(required = false, minimum = 0, maximum = 1000)]
    pub most: i64,
    /// The window.
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

/// Who decides about a repair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairMode {
    /// Nobody is told more than that the member failed.
    Off,
    /// A replacement is proposed, and a person decides.
    #[default]
    Propose,
    /// A replacement is opened by itself, until the breaker opens.
    Automatic,
}
