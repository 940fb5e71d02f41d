//! Journal of started and finished orders, flushed before and after each.
//!
//! Every order is idempotent, so recovery does not need the journal: the server retries, and the state is found by
//! inspection. It is for operators and tests: the order in progress at a power cut is the last line without an end.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, TaskId};
use muster_wire::task::TaskKind;
use parking_lot::Mutex;
use serde::Serialize;

use crate::AgentError;
use crate::driver::Order;

/// Maximum size of a journal file. One older file is kept.
const LONGEST: u64 = 4 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

#[derive(Serialize)]
struct Line<'l> {
    at: Timestamp,
    what: &'static str,
    kind: TaskKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation_id: Option<AllocationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cell_id: Option<CellId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cell_incarnation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'l str>,
}

impl Journal {
    pub(super) fn open(folder: &Path) -> Result<Self, AgentError> {
        let path = folder.join("journal.jsonl");
        let file = append(&path)?;
        // The file's name must survive a power cut too.
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| AgentError::file(folder, error))?;
        Ok(Self { path, file: Mutex::new(file) })
    }

    pub(super) fn begin(&self, order: &Order, at: Timestamp) -> Result<(), AgentError> {
        self.write(order, "begun", None, at)
    }

    pub(super) fn end(&self, order: &Order, why: Option<&str>, at: Timestamp) -> Result<(), AgentError> {
        self.write(order, if why.is_none() { "done" } else { "refused" }, why, at)
    }

    fn write(
        &self,
        order: &Order,
        what: &'static str,
        why: Option<&str>,
        at: Timestamp,
    ) -> Result<(), AgentError> {
        let (place, cell) = (order.sandbox(), order.cell());
        let line = Line {
            at,
            what,
            kind: order.kind(),
            task_id: order.task_id(),
            allocation_id: place.as_ref().map(|place| place.allocation_id),
            incarnation: place.as_ref().map(|place| place.incarnation),
            cell_id: cell.as_ref().map(|cell| cell.cell_id),
            cell_incarnation: cell.as_ref().map(|cell| cell.incarnation),
            why,
        };
        let mut text = serde_json::to_string(&line).map_err(|error| AgentError::file(&self.path, error))?;
        text.push('\n');
        let mut file = self.file.lock();
        let written = (|| {
            if file.metadata()?.len() > LONGEST {
                std::fs::rename(&self.path, self.path.with_extension("old.jsonl"))?;
                *file = append(&self.path).map_err(std::io::Error::other)?;
            }
            let whole = file.metadata()?.len();
            // A partial line, on a full disk, would corrupt the next one too.
            file.write_all(text.as_bytes()).inspect_err(|_| drop(file.set_len(whole)))?;
            file.sync_data()
        })();
        written.map_err(|error| AgentError::file(&self.path, format!("it cannot be written: {error}")))
    }
}

fn append(path: &Path) -> Result<File, AgentError> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    file.map_err(|error| AgentError::file(path, error))
}
