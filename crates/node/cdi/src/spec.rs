//! A specification as vendors' tools write it, in JSON or YAML.

use serde::{Deserialize, Serialize};

use crate::SpecError;

/// Maximum size of a specification; NVIDIA's for eight GPUs with MIG has some 200 KiB.
pub const LONGEST: usize = 4 << 20;
/// Maximum number of edits of each kind, in one specification.
const MOST_EDITS: usize = 4096;

/// A specification: the devices of one kind, and what a container needs to use them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// Version of the format.
    pub cdi_version: String,
    /// Vendor and class, such as `nvidia.com/gpu`.
    pub kind: String,
    /// Notes of the vendor. Nothing reads them.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub annotations: std::collections::BTreeMap<String, String>,
    /// The devices.
    pub devices: Vec<SpecDevice>,
    /// Edits for a container with any of the devices.
    #[serde(default)]
    pub container_edits: SpecEdits,
}

/// A device of a specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpecDevice {
    /// Its name: an ordinal, a UUID, or `all`.
    pub name: String,
    /// Notes of the vendor. Nothing reads them.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub annotations: std::collections::BTreeMap<String, String>,
    /// Edits for a container with this device.
    #[serde(default)]
    pub container_edits: SpecEdits,
}

/// Changes of a container's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SpecEdits {
    /// Variables: `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Device nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<SpecDeviceNode>,
    /// Mounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<SpecMount>,
    /// Programs to run at the container's start. None is ever executed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<SpecHook>,
    /// Groups of the container's processes.
    #[serde(rename = "additionalGids", skip_serializing_if = "Vec::is_empty")]
    pub additional_gids: Vec<u32>,
}

/// A device node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SpecDeviceNode {
    /// Path in the container.
    pub path: String,
    /// Path on the node, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// `c` for a character device, the only type that is given to cells.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Major number, if it is not read from the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major: Option<i64>,
    /// Minor number, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<i64>,
    /// Mode in the container. The node's own mode applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// `r`, `w` and `m`. A cell gets `rw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Owner in the container. The node's own owner applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group in the container. The node's own group applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// A mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SpecMount {
    /// Path on the node.
    pub host_path: String,
    /// Path in the container.
    pub container_path: String,
    /// Type of the file system, for other mounts than bind mounts.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Options. A cell's are always read-only, without set-user-id programs and devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// A program that the vendor wants to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SpecHook {
    /// When it would run.
    pub hook_name: String,
    /// The program.
    pub path: String,
    /// Its name and arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Its time limit in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

impl Spec {
    /// Reads a specification. A field that this release does not know refuses it: what it asks for would be left out.
    pub fn read(text: &str) -> Result<Self, SpecError> {
        if text.len() > LONGEST {
            return Err(SpecError::TooLarge);
        }
        // JSON is YAML.
        let spec: Self =
            serde_saphyr::from_str(text).map_err(|error| SpecError::Syntax(error.to_string()))?;
        if !matches!(spec.cdi_version.split('.').next(), Some("0" | "1")) {
            return Err(SpecError::Version(spec.cdi_version));
        }
        let named = spec.kind.split_once('/').is_some_and(|(vendor, class)| {
            let fits = |text: &str| {
                !text.is_empty()
                    && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
            };
            fits(vendor) && fits(class)
        });
        if !named {
            return Err(SpecError::Kind(spec.kind));
        }
        let all = spec.devices.iter().map(|device| &device.container_edits).chain([&spec.container_edits]);
        let edits = |edits: &SpecEdits| {
            edits.env.len() + edits.device_nodes.len() + edits.mounts.len() + edits.hooks.len()
        };
        if all.map(edits).sum::<usize>() > MOST_EDITS {
            return Err(SpecError::TooMany(MOST_EDITS));
        }
        Ok(spec)
    }
}
