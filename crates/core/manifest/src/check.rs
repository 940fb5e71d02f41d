//! How a state of a member is witnessed: commands that the platform runs itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The checks of each state. The platform's own come on top of them, always.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Witnesses {
    /// It is a working member.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub active: Vec<Check>,
    /// No work is on it, and none comes.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub drained: Vec<Check>,
    /// The others do not count on it any more.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub removed: Vec<Check>,
}

/// One check: a command, where it runs, and what must come of it.
///
/// It runs from the image's own read-only files with a clean environment, in the network and beside the processes of the
/// member, so that nothing that was written into the cell is run by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Where it runs: `self`, or the key of a component, of which the first active member is asked.
    #[serde(rename = "in", default = "itself")]
    #[schema(required = false, max_length = 32)]
    pub place: String,
    /// The program, by its path, and its arguments. In each `{member.name}`, `{member.id}`, `{member.address}`,
    /// `{component.key}`, `{instance.name}` and `{instance.id}` stand for what they say; there are no others.
    #[schema(min_items = 1, max_items = 64)]
    pub exec: Vec<String>,
    /// What must come of it.
    #[serde(default)]
    #[schema(required = false)]
    pub expect: Expect,
    /// How long it is asked again before it counts as not so: `30s`, `10m`, `2h`.
    #[serde(default = "half_a_minute")]
    #[schema(required = false, pattern = "^[1-9][0-9]{0,4}(s|m|h)$")]
    pub within: String,
    /// Directories of the cell that it sees beside the image's files, at the same place: to read, and nothing in them is ever run.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub sees: Vec<String>,
    /// What it finds in its environment: nothing but this.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// As which user of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// As which group of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
}

fn itself() -> String {
    "self".to_owned()
}

fn half_a_minute() -> String {
    "30s".to_owned()
}

impl Check {
    /// How long it is asked again, in seconds; nothing if that is not written as it should be.
    pub fn within_seconds(&self) -> Option<i64> {
        seconds(&self.within)
    }
}

/// A time in seconds: `30s`, `10m`, `2h`.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: i64 = digits.parse().ok().filter(|number| *number > 0)?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// What must come of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Its exit status.
    #[serde(default)]
    #[schema(required = false, minimum = 0, maximum = 255)]
    pub exit: i32,
    /// A regular expression that must match what it wrote, without the line's end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 1000)]
    pub stdout: Option<String>,
}
