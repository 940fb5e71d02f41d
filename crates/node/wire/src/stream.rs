//! Streams: a terminal, a command, logs or a file transfer between a user and a cell. Agents only dial out, so the server
//! requests a stream with a task, the agent dials that server, and the server connects both ends.
//!
//! On both legs a stream is a WebSocket of binary messages. The first byte is the [`Channel`] of the rest.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_ids::StreamId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::act::{CellTarget, OwnedAllocation};

/// Channel of a message; its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// Standard input of the program, or content of the file.
    Input = 0,
    /// Standard output of the program, the file, or the log.
    Output = 1,
    /// Standard error of the program.
    Error = 2,
    /// A [`Control`], as JSON.
    Control = 3,
}

impl Channel {
    /// Parses a message into its channel and payload; none if it is empty or the channel is unknown.
    pub fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let (first, rest) = message.split_first()?;
        let channel = match first {
            0 => Self::Input,
            1 => Self::Output,
            2 => Self::Error,
            3 => Self::Control,
            _ => return None,
        };
        Some((channel, rest))
    }

    /// Builds a message.
    pub fn message(self, bytes: &[u8]) -> Vec<u8> {
        let mut message = Vec::with_capacity(bytes.len() + 1);
        message.push(self as u8);
        message.extend_from_slice(bytes);
        message
    }
}

/// Control message of a stream, in either direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// To the cell: the terminal was resized.
    Resize {
        /// Width.
        columns: u16,
        /// Height.
        rows: u16,
    },
    /// To the cell: end of input.
    InputEnded {},
    /// From the cell: started.
    Started {},
    /// From the cell: ended with this exit status; 0 for complete logs and files.
    Exited {
        /// Exit status.
        status: i32,
    },
    /// From either end: failed.
    Failed {
        /// Reason.
        why: String,
    },
}

/// Action of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StreamWhat {
    /// Runs a command in the cell, with or without a terminal.
    Command(Command),
    /// Reads the log of a service.
    Logs(Logs),
    /// Reads a file of the cell, or a directory as a tar archive if the path ends in a slash.
    Read(FileAt),
    /// Writes a file of the cell.
    Write(FileAt),
}

/// A command in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Program, by path or by name in the cell's PATH, and arguments. No shell interprets them.
    #[schema(min_items = 1, max_items = 256)]
    pub command: Vec<String>,
    /// Whether to allocate a terminal.
    #[serde(default)]
    #[schema(required = false)]
    pub terminal: bool,
    /// The terminal's width.
    #[serde(default = "eighty")]
    #[schema(required = false, minimum = 1, maximum = 1000)]
    pub columns: u16,
    /// The terminal's height.
    #[serde(default = "twenty_four")]
    #[schema(required = false, minimum = 1, maximum = 1000)]
    pub rows: u16,
    /// User in the cell. Default: the calling user in a cell that has the project's users, otherwise root.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub uid: Option<u32>,
    /// Group in the cell. Default: the same number as the user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub gid: Option<u32>,
    /// Environment variables in addition to the cell's.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Working directory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 4096)]
    pub working_directory: Option<String>,
}

fn eighty() -> u16 {
    80
}

fn twenty_four() -> u16 {
    24
}

/// Selection of log lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// Service. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 63)]
    pub service: Option<String>,
    /// Whether to follow the log.
    #[serde(default)]
    #[schema(required = false)]
    pub follow: bool,
    /// Maximum number of last lines.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, maximum = 1_000_000)]
    pub tail: Option<u32>,
    /// Earliest time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub since: Option<Timestamp>,
    /// Text that each line must contain.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 1024)]
    pub search: Option<String>,
}

/// A file of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileAt {
    /// Path.
    #[schema(max_length = 4096)]
    pub path: String,
    /// Mode of the written file, in octal digits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, pattern = "^[0-7]{3,4}$")]
    pub mode: Option<String>,
    /// Its owner in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// Its group in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
}

/// A stream in a task for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamOrder {
    /// Which.
    pub stream_id: StreamId,
    /// Allocation of the cell.
    pub allocation: OwnedAllocation,
    /// The cell.
    pub cell: CellTarget,
    /// Server to dial, as `host:port`. Default: the agent's own server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub address: Option<String>,
    /// Action.
    pub what: StreamWhat,
}

#[cfg(test)]
mod tests {
    use super::Channel;

    #[test]
    fn a_message_says_what_it_carries() {
        for channel in [Channel::Input, Channel::Output, Channel::Error, Channel::Control] {
            assert_eq!(Channel::read(&channel.message(b"text")), Some((channel, b"text".as_slice())));
        }
        assert_eq!(Channel::read(b""), None);
        assert_eq!(Channel::read(b"\x09text"), None);
    }
}
