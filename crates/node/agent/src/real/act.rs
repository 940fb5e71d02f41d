//! Actions in a running cell, and checks beside it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use muster_cell::{CellError, Once, Patience, Request, Secret};
use muster_image::{Digest, Limits, Source};
use muster_wire::act::{CellCommand, CellFiles, CellProbe, CellService, CellTarget, OwnedAllocation};
use muster_wire::task::{Findings, Ran, Refusal};

use super::cell::unusable;
use super::{Driver, said};
use crate::AgentError;
use crate::driver::{Outcome, TaskOrder, Undone};
use crate::provide::Given;

/// Part of a task's time reserved for its report.
const TO_REPORT: Duration = Duration::from_secs(2);

/// Reason why an action was not done, or an unknown result.
enum Why {
    Undone(Undone),
    Unknown(CellError),
}

impl From<CellError> for Why {
    fn from(error: CellError) -> Self {
        match error {
            CellError::GivenUp => Self::Unknown(error),
            CellError::Dead(_) => Self::Undone(Undone::because(Refusal::CellDead, error)),
            error => Self::Undone(said(error).into()),
        }
    }
}

impl<U: Into<Undone>> From<U> for Why {
    fn from(why: U) -> Self {
        Self::Undone(why.into())
    }
}

impl Driver {
    /// Writes and removes files in a cell.
    pub(super) fn cell_files(&self, task: &TaskOrder, act: &CellFiles) -> Outcome {
        self.act(task, (act.allocation, act.cell), |given, _| {
            let secrets: Vec<Secret<'_>> = given.secrets.iter().map(|told| told.for_cell()).collect();
            self.cells.files_apply(act.cell.cell_id, act.cell.incarnation, &act.files, &secrets)?;
            Ok(None)
        })
    }

    /// Starts or stops a service of a cell.
    pub(super) fn cell_service(&self, task: &TaskOrder, act: &CellService) -> Outcome {
        self.act(task, (act.allocation, act.cell), |_, patience| {
            let (incarnation, by) = (act.cell.incarnation, task.id.to_string());
            let request = Request { incarnation, order: &act.service, by: &by, patience };
            self.cells.service_request(act.cell.cell_id, &request)?;
            Ok(None)
        })
    }

    /// Runs a command in a cell.
    pub(super) fn cell_command(&self, task: &TaskOrder, act: &CellCommand) -> Outcome {
        self.act(task, (act.allocation, act.cell), |_, patience| {
            let (incarnation, id) = (act.cell.incarnation, task.id.to_string());
            let once = Once { incarnation, id: &id, order: &act.command, patience };
            Ok(Some(self.cells.command_once(act.cell.cell_id, &once)?))
        })
    }

    /// Runs a check beside a cell.
    pub(super) fn cell_probe(&self, task: &TaskOrder, act: &CellProbe) -> Outcome {
        self.act(task, (act.allocation, act.cell), |_, patience| {
            let (cell, incarnation) = (act.cell.cell_id, act.cell.incarnation);
            if let Some(digest) = self.cells.image(cell)? {
                self.still_sealed(&digest)?;
            }
            Ok(Some(self.cells.run_check(cell, incarnation, &act.probe, patience)?))
        })
    }

    /// Acts in a cell, and inspects it afterwards.
    fn act(
        &self,
        task: &TaskOrder,
        (allocation, cell): (OwnedAllocation, CellTarget),
        work: impl FnOnce(&Given, &Patience<'_>) -> Result<Option<Ran>, Why>,
    ) -> Outcome {
        match self.try_act(task, (allocation, cell), work) {
            Ok(findings) => Ok(Ok(findings)),
            Err(Why::Undone(undone)) => Ok(Err(undone)),
            Err(Why::Unknown(error)) => Err(AgentError::Refused(error.to_string())),
        }
    }

    fn try_act(
        &self,
        task: &TaskOrder,
        (allocation, cell): (OwnedAllocation, CellTarget),
        work: impl FnOnce(&Given, &Patience<'_>) -> Result<Option<Ran>, Why>,
    ) -> Result<Findings, Why> {
        // A cell is only accessible through its own allocation.
        if !self.cells_of(allocation.allocation_id)?.iter().any(|there| there.cell_id == cell.cell_id) {
            return Err("the cell does not exist".to_owned().into());
        }
        let given = task.given.as_ref().map_err(Undone::clone)?;
        let left = Duration::try_from(task.until.duration_since(self.env.now())).unwrap_or_default();
        let patience = Patience {
            within: left.saturating_sub(TO_REPORT),
            now: &|| self.env.now(),
            given_up: &|| self.left.load(Ordering::Relaxed),
        };
        let ran = work(given, &patience)?;
        // Its network is unchanged and not requested here, and inspecting it would wait for concurrent changes.
        let found = self.cells.look(cell.cell_id)?;
        Ok(Findings { cell: Some(found), ran, ..Findings::default() })
    }

    /// Ensures that the image is as it was unpacked, by the same check as when a cell is created: a check from a modified
    /// image is worthless.
    fn still_sealed(&self, digest: &str) -> Result<(), Undone> {
        let digest: Digest = digest.parse().map_err(said)?;
        let missing = || {
            let why =
                format!("{digest} is no longer unpacked here, so it cannot run checks; restart the cell");
            Undone::because(Refusal::ArtifactDamaged, why)
        };
        self.images.lookup(&digest).map_err(unusable)?.ok_or_else(missing)?;
        // It is unpacked here, so the source is never read.
        let nowhere = Source::Layout(self.settings.folder.join("no-layout"));
        self.images.ensure(&nowhere, &digest, &Limits::default()).map(drop).map_err(unusable)
    }
}
