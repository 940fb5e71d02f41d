//! Streams: a terminal, a command, logs or a file between a person and a cell. Agents only dial out, so the server asks for one
//! with a task, the agent dials the server that asked, and that one joins the two.
//!
//! On both legs a stream is a WebSocket of binary messages whose first byte says what the rest is ([`Channel`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_ids::{CellId, StreamId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a message carries; its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// What goes to the program's standard input, or into the file.
    Input = 0,
    /// The program's standard output, the file, or the log.
    Output = 1,
    /// The program's standard error.
    Error = 2,
    /// A [`Control`], as JSON.
    Control = 3,
}

impl Channel {
    /// The channel of a message, and what it carries; none for an empty one or an unknown channel.
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

    /// A message.
    pub fn message(self, bytes: &[u8]) -> Vec<u8> {
        let mut message = Vec::with_capacity(bytes.len() + 1);
        message.push(self as u8);
        message.extend_from_slice(bytes);
        message
    }
}

/// What is said about a stream, in either direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// To the cell: the terminal has another size.
    Resize {
        /// Its width.
        columns: u16,
        /// Its height.
        rows: u16,
    },
    /// To the cell: no more input comes.
    InputEnded {},
    /// From the cell: it has begun.
    Started {},
    /// From the cell: it is over, with this exit status; 0 for logs and files that came through whole.
    Exited {
        /// The status.
        status: i32,
    },
    /// From either: it did not work, in a sentence.
    Failed {
        /// Why.
        why: String,
    },
}

/// What a stream does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StreamWhat {
    /// Runs a command in the cell, with or without a terminal.
    Command(Command),
    /// Reads what a service wrote.
    Logs(Logs),
    /// Reads a file of the cell, or, where the path ends in a slash, a directory as a tar archive.
    Read(FileAt),
    /// Writes a file of the cell.
    Write(FileAt),
}

/// A command in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program, by its path or by its name in the cell's PATH, and its arguments. No shell looks at them.
    #[schema(min_items = 1, max_items = 256)]
    pub command: Vec<String>,
    /// Whether it gets a terminal.
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
    /// As which user of the cell; if this is not said, as oneself in a cell that has the project's people, and else as root.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub uid: Option<u32>,
    /// As which group of the cell; the user's own number if this is not said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub gid: Option<u32>,
    /// What it finds in its environment beside what the cell has.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
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

/// Which lines of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// Of which service; of all if this is not said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 63)]
    pub service: Option<String>,
    /// Whether to go on with what is written from now on.
    #[serde(default)]
    #[schema(required = false)]
    pub follow: bool,
    /// At most so many of the last lines.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, maximum = 1_000_000)]
    pub tail: Option<u32>,
    /// Only what was written from then on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub since: Option<Timestamp>,
    /// Only lines that contain this text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 1024)]
    pub search: Option<String>,
}

/// A file of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileAt {
    /// Where.
    #[schema(max_length = 4096)]
    pub path: String,
    /// The mode of what is written, in octal digits.
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

/// A stream, as an agent is asked to join it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamOrder {
    /// Which.
    pub stream_id: StreamId,
    /// In which cell.
    pub cell_id: CellId,
    /// Which incarnation of it.
    pub incarnation: i64,
    /// The server to dial, as `host:port`; the usual one if this is not said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub address: Option<String>,
    /// What to do.
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
