//! The journal of effects: what simulated nodes really did, a line each, written before anybody is told.
//!
//! No server reads it. It is what the platform's word is compared with after servers, agents and networks were made to
//! fail: the two must tell the same story.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, TaskId};
use serde::{Deserialize, Serialize};

use crate::AgentError;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A place was made.
    Prepared,
    /// A place was changed.
    Resized,
    /// A place was destroyed.
    Destroyed,
    /// Devices, or the disk, were wiped.
    Wiped,
    /// A cell was made in a place.
    CellCreated,
    /// A cell was destroyed.
    CellDestroyed,
    /// Files of a cell were written or removed.
    FilesWritten,
    /// A service of a cell was started because somebody asked.
    ServiceStarted,
    /// A service of a cell was stopped because somebody asked.
    ServiceStopped,
    /// A service of a cell was stopped and started because somebody asked.
    ServiceRestarted,
    /// A service of a cell ended by itself.
    ServiceEnded,
    /// The first process of a cell ended by itself, and every other with it.
    CellDied,
    /// A command ran in a cell.
    CommandRan,
    /// Something was asked for that would have let one tenant reach another's; it was not done.
    Violation,
    /// Something old was asked for; it was not done.
    RefusedStale,
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When.
    pub at: Timestamp,
    /// On which node.
    pub node: String,
    /// The number of the effect on its node, from 1 without a gap. What is no effect has the number of the one before.
    pub seq: u64,
    /// What happened.
    pub effect: Effect,
    /// To whose place.
    pub allocation_id: AllocationId,
    /// Which incarnation of it was spoken of.
    pub incarnation: i64,
    /// Which cell in it, where one was meant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cell_id: Option<CellId>,
    /// The devices.
    pub devices: Vec<String>,
    /// By which task; none for a ghost that was destroyed after a hello.
    pub task_id: Option<TaskId>,
    /// Why, where something was not done.
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
    /// The last effect of each node that the journal has.
    last: BTreeMap<String, u64>,
}

impl Journal {
    /// Opens it, and reads how far each node had come.
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

    /// Adds a line, in one write: whoever kills the process next finds all of it or nothing.
    pub(super) fn append(&self, line: &Line) -> Result<(), AgentError> {
        let failed =
            |why: &dyn std::fmt::Display| AgentError::file(&self.path, format!("a line is lost: {why}"));
        let mut text = serde_json::to_vec(line).map_err(|error| failed(&error))?;
        text.push(b'\n');
        let mut open = self.open.lock().expect("no holder of this lock can panic");
        open.file.write_all(&text).map_err(|error| failed(&error))?;
        open.last.insert(line.node.clone(), line.seq);
        Ok(())
    }

    /// The last effect of a node that the journal has.
    pub(super) fn last(&self, node: &str) -> u64 {
        self.open.lock().expect("no holder of this lock can panic").last.get(node).copied().unwrap_or(0)
    }
}
