//! Streams: a terminal, a command, a log or a file between a client and a cell. A command, authorized and audited like
//! any other, creates one; the client then joins it by an upgrade to WebSocket, once and before it expires.

use jiff::Timestamp;
use muster_ids::{CellId, StreamId};
use muster_wire::stream::{Command, Control, FileAt, Logs};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Answer, Endpoint, shape};

/// Purpose of a stream. The variants are defined in the node contract, which executes them.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StreamCreate {
    /// Run a command in the cell, with or without a terminal.
    Command(Command),
    /// Read a file of the cell or, if the path ends in a slash, a directory as a tar archive.
    Read(FileAt),
    /// Write a file of the cell.
    Write(FileAt),
}

/// A granted stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Stream {
    /// Its id.
    pub id: StreamId,
    /// The cell.
    pub cell_id: CellId,
    /// Time until which its creator can join it.
    pub expires_at: Timestamp,
    /// Path to join it at.
    #[schema(example = "/v1/streams/str_01h455vb4pex5vsknk084sn02q")]
    pub path: String,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create(
        "stream_create",
        "/v1/projects/{project}/cells/{cell}/streams",
        shape::<StreamCreate>(),
        shape::<Stream>(),
    )
    .needs("stream.create")
    .summary("Request a terminal, a command or a transfer in a cell")
    .description("The response names the path to join, within a minute. The request is audited, contents are not."),
    Endpoint::create(
        "stream_logs",
        "/v1/projects/{project}/cells/{cell}/logs",
        shape::<Logs>(),
        shape::<Stream>(),
    )
    .needs("stream.logs")
    .summary("Request the logs of a cell's services")
    .description("The response names the path to join, within a minute. For cells that are gone, see cell_archived_logs."),
    Endpoint::stream("stream_join", "/v1/streams/{stream}", Answer::Socket(shape::<Control>()))
        .summary("Join a requested stream")
        .description(
            "An upgrade to WebSocket, once, by the actor that requested the stream. Messages are binary, at \
             most a MiB; the first byte is the channel: 0 input, 1 output, 2 error output, 3 a Control as \
             JSON. `started` comes first, and `exited` or `failed` last. An actor that loses the permission \
             is cut off within five seconds, with the reason.",
        ),
];
