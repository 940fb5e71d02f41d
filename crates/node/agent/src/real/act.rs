//! Actions in a running cell, and checks beside it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use muster_cell::{CellError, Once, Patience, Request, Secret};
use muster_image::{Digest, Limits, Source};
use muster_wire::cell::CellOrder;
use muster_wire::task::{
    CellAct, CommandOrder, FilesOrder, Findings, ProbeOrder, Ran, Refusal, ServiceOrder,
};

use super::cell::unusable;
use super::{Done, Driver, said};
use crate::AgentError;
use crate::driver::{Order, Outcome, Undone};

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
    /// Executes an order in a cell, and inspects the cell afterwards.
    pub(super) fn act(&self, order: &Order) -> Outcome {
        match self.try_act(order) {
            Ok(findings) => Ok(Ok(findings)),
            Err(Why::Undone(undone)) => Ok(Err(undone)),
            Err(Why::Unknown(error)) => Err(AgentError::Refused(error.to_string())),
        }
    }

    fn try_act(&self, order: &Order) -> Result<Findings, Why> {
        let (Some(place), Some(cell), Some(act)) = (&order.place, &order.details.cell, &order.details.act)
        else {
            return Err("the task names no cell or no action".to_owned().into());
        };
        if act.kind() != order.kind {
            let why = format!("the task is {:?}, but its action is {:?}", order.kind, act.kind());
            return Err(why.into());
        }
        // A cell is only accessible through its own allocation.
        if !self.cells_of(place.allocation_id)?.iter().any(|there| there.cell_id == cell.cell_id) {
            return Err("the cell does not exist".to_owned().into());
        }
        let given = order.given.as_ref().map_err(Undone::clone)?;
        let left = Duration::try_from(order.until.duration_since(self.env.now())).unwrap_or_default();
        let patience = Patience {
            within: left.saturating_sub(TO_REPORT),
            now: &|| self.env.now(),
            given_up: &|| self.left.load(Ordering::Relaxed),
        };
        let ran = match act {
            CellAct::Files(files) => {
                let secrets: Vec<Secret<'_>> = given.secrets.iter().map(|told| told.for_cell()).collect();
                self.cell_files(cell, files, &secrets)?;
                None
            }
            CellAct::Service(service) => {
                self.cell_service(order, cell, service, &patience)?;
                None
            }
            CellAct::Command(command) => Some(self.cell_command(order, cell, command, &patience)?),
            CellAct::Probe(probe) => Some(self.cell_probe(cell, probe, &patience)?),
        };
        // Its network is unchanged and not requested here, and inspecting it would wait for concurrent changes.
        let found = self.cells.look(cell.cell_id)?;
        Ok(Findings { cell: Some(found), ran, ..Findings::default() })
    }

    fn cell_files(&self, cell: &CellOrder, files: &FilesOrder, secrets: &[Secret<'_>]) -> Result<(), Why> {
        Ok(self.cells.files_apply(cell.cell_id, cell.incarnation, files, secrets)?)
    }

    fn cell_service(
        &self,
        order: &Order,
        cell: &CellOrder,
        service: &ServiceOrder,
        patience: &Patience<'_>,
    ) -> Result<(), Why> {
        let (incarnation, by) = (cell.incarnation, task(order)?);
        Ok(self
            .cells
            .service_request(cell.cell_id, &Request { incarnation, order: service, by: &by, patience })?)
    }

    fn cell_command(
        &self,
        order: &Order,
        cell: &CellOrder,
        command: &CommandOrder,
        patience: &Patience<'_>,
    ) -> Result<Ran, Why> {
        let (incarnation, id) = (cell.incarnation, task(order)?);
        let once = Once { incarnation, id: &id, order: command, patience };
        Ok(self.cells.command_once(cell.cell_id, &once)?)
    }

    fn cell_probe(&self, cell: &CellOrder, probe: &ProbeOrder, patience: &Patience<'_>) -> Result<Ran, Why> {
        if let Some(digest) = self.cells.image(cell.cell_id)? {
            self.still_sealed(&digest)?;
        }
        Ok(self.cells.run_check(cell.cell_id, cell.incarnation, probe, patience)?)
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

fn task(order: &Order) -> Done<String> {
    order.task.map(|task| task.to_string()).ok_or_else(|| "it needs a task".to_owned())
}
