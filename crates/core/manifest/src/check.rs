//! How the states of a member are verified: commands that the platform runs itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Checks for each state, always in addition to the platform's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Witnesses {
    /// The member works.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub active: Vec<Check>,
    /// The member has no work and receives none.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub drained: Vec<Check>,
    /// No other member depends on it.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub removed: Vec<Check>,
}

/// One check: a command, where it runs, and its expected result.
///
/// It runs from the image's own read-only files with a clean environment, in the network and beside the processes of the
/// member, so that it never executes anything written into the cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Where it runs: `self`, or the key of a component, to run beside its first active member.
    #[serde(rename = "in", default = "itself")]
    #[schema(required = false, max_length = 32)]
    pub place: String,
    /// The program, by its path, and its arguments. The variables `{member.name}`, `{member.id}`, `{member.address}`,
    /// `{component.key}`, `{instance.name}` and `{instance.id}` are replaced by their values; there are no others.
    #[schema(min_items = 1, max_items = 64)]
    pub exec: Vec<String>,
    /// Expected result.
    #[serde(default)]
    #[schema(required = false)]
    pub expect: Expect,
    /// How long it is retried before it fails: `30s`, `10m`, `2h`.
    #[serde(default = "half_a_minute")]
    #[schema(required = false, pattern = "^[1-9][0-9]{0,4}(s|m|h)$")]
    pub within: String,
    /// Directories of the cell that are mounted beside the image's files at the same path: read-only, and never executed.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub sees: Vec<String>,
    /// The complete environment of the command.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// User id in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// Group id in the cell.
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
    /// Returns the retry time in seconds; `None` if it is malformed.
    pub fn within_seconds(&self) -> Option<i64> {
        seconds(&self.within)
    }
}

/// Parses a duration to seconds: `30s`, `10m`, `2h`.
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

/// Expected result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Its exit status.
    #[serde(default)]
    #[schema(required = false, minimum = 0, maximum = 255)]
    pub exit: i32,
    /// Regular expression that must match its output, without the final newline.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 1000)]
    pub stdout: Option<String>,
}
