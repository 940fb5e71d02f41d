//! Journal of effects: the actual effects of simulated nodes, one line each, written before any report.
//!
//! The server never reads it. Tests compare it with the platform's records after failures of servers, agents and networks:
//! the two must agree.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use muster_agent::AgentError;
use muster_ids::{AllocationId, CellId, TaskId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Kind of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A sandbox was provisioned.
    Prepared,
    /// A sandbox was resized.
    Resized,
    /// A sandbox was destroyed.
    Destroyed,
    /// Devices, or the disk, were wiped.
    Wiped,
    /// A cell was created in a sandbox.
    CellCreated,
    /// A cell was destroyed.
    CellDestroyed,
    /// Files of a cell were written or removed.
    FilesWritten,
    /// A service of a cell was started on request.
    ServiceStarted,
    /// A service of a cell was stopped on request.
    ServiceStopped,
    /// A service of a cell was restarted on request.
    ServiceRestarted,
    /// A service of a cell ended by itself.
    ServiceEnded,
    /// The first process of a cell ended by itself, and all others with it.
    CellDied,
    /// A command ran in a cell.
    CommandRan,
    /// An order that would have given one tenant access to another's resources was refused.
    Violation,
    /// A stale order was refused.
    RefusedStale,
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Time.
    pub at: Timestamp,
    /// Node.
    pub node: String,
    /// Number of the effect on its node, from 1 without gaps. A line without an effect has the number of the previous one.
    pub seq: u64,
    /// Effect.
    pub effect: Effect,
    /// Allocation of the sandbox.
    pub allocation_id: AllocationId,
    /// Incarnation of the order.
    pub incarnation: i64,
    /// Cell, if the order was about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cell_id: Option<CellId>,
    /// Devices.
    pub devices: Vec<String>,
    /// Task; none for a stale copy destroyed after a hello.
    pub task_id: Option<TaskId>,
    /// Reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// The journal, shared by the nodes of one process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Last journalled effect of each node.
    last: BTreeMap<String, u64>,
}

impl Journal {
    /// Opens the journal, and reads the last effect of each node.
    pub fn open(path: &Path) -> Result<Self, AgentError> {
        let failed =
            |error: std::io::Error| AgentError::file(path, format!("the journal cannot be opened: {error}"));
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(failed)?;
        let mut last = BTreeMap::new();
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        let mut torn = false;
        while reader.read_line(&mut text).map_err(failed)? > 0 {
            torn = !text.ends_with('\n');
            if let Ok(line) = serde_json::from_str::<Line>(&text) {
                last.insert(line.node, line.seq);
            }
            text.clear();
        }
        if torn {
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), open: Mutex::new(Open { file, last }) })
    }

    /// Appends a line in one write: a kill leaves all of it or nothing.
    pub(crate) fn append(&self, line: &Line) -> Result<(), AgentError> {
        let failed =
            |why: &dyn std::fmt::Display| AgentError::file(&self.path, format!("a line is lost: {why}"));
        let mut text = serde_json::to_vec(line).map_err(|error| failed(&error))?;
        text.push(b'\n');
        let mut open = self.open.lock();
        open.file.write_all(&text).map_err(|error| failed(&error))?;
        open.last.insert(line.node.clone(), line.seq);
        Ok(())
    }

    /// Returns the last journalled effect of a node.
    pub(crate) fn last(&self, node: &str) -> u64 {
        self.open.lock().last.get(node).copied().unwrap_or(0)
    }
}
