//! Supervises the services of cells.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use muster_ids::CellId;
use muster_wire::cell::{Service, ServiceFindings};
use parking_lot::Mutex;
use rustix::process::Signal;

use crate::bundle::{self, Started};
use crate::cells::Cells;
use crate::document;
use crate::error::CellResult;
use crate::log;
use crate::monitor::Seen;
use crate::plan::{self, Step, View};
use crate::probe;
use crate::process::Process;
use crate::record::{self, Phase, Record};
use crate::service::{MARK, Run};

/// Probe state of services. It is lost with the agent, and probed again.
#[derive(Default)]
pub(crate) struct Memos(Arc<Mutex<HashMap<(CellId, String), Memo>>>);

#[derive(Debug, Clone, Default)]
struct Memo {
    run: u32,
    asked: Option<Timestamp>,
    asking: bool,
    /// Last result; taken when it is recorded.
    answer: Option<Result<(), String>>,
    message: Option<String>,
}

impl Memos {
    fn of(&self, cell: CellId, service: &str, run: u32) -> Memo {
        self.0
            .lock()
            .get(&(cell, service.to_owned()))
            .filter(|memo| memo.run == run)
            .cloned()
            .unwrap_or_default()
    }

    fn change(&self, cell: CellId, service: &str, run: u32, change: impl FnOnce(&mut Memo)) {
        let mut memos = self.0.lock();
        let memo = memos.entry((cell, service.to_owned())).or_default();
        if memo.run != run {
            *memo = Memo { run, ..Memo::default() };
        }
        change(memo);
    }

    pub(crate) fn forget(&self, cell: CellId) {
        self.0.lock().retain(|(other, _), _| *other != cell);
    }
}

impl Cells {
    /// Checks every service of every cell and does the next step: starts, restarts, probes, rotates logs. To be called a few
    /// times a second; it waits only for starting programs. Failures are returned, and retried with the next call.
    pub fn supervise(&self, now: Timestamp) -> Vec<(CellId, crate::CellError)> {
        let cells = match record::known(&self.settings.folder) {
            Ok(cells) => cells,
            Err(error) => {
                tracing::warn!(%error, "the cells could not be listed");
                return Vec::new();
            }
        };
        cells.into_iter().filter_map(|cell| Some((cell, self.supervise_cell(cell, now).err()?))).collect()
    }

    pub(crate) fn supervise_cell(&self, cell: CellId, now: Timestamp) -> CellResult<()> {
        let turn = self.turn(cell);
        // A held lock: the cell is being created or destroyed, and there is nothing to supervise.
        let Some(_turn) = turn.try_lock() else { return Ok(()) };
        let record = match self.record(cell) {
            Ok(record) => record,
            // Its folder is created before its record, and removed after it.
            Err(crate::CellError::NoCell(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        if record.phase != Phase::Started || !record.init.as_ref().is_some_and(Process::alive) {
            return Ok(());
        }
        let views = self.views(&record)?;
        let mut answered = false;
        for view in &views {
            answered |= self.write_answer(&record, view)?;
            if matches!(view.seen, Seen::Running { .. }) {
                let monitor = self.service_monitor(&record, &view.service.name, view.run.number);
                log::rotate(&monitor.log, &monitor.folder, self.settings.logs)?;
            }
        }
        // Planned with the recorded results, so that dependent services start at once.
        let views = if answered { self.views(&record)? } else { views };
        for (service, step) in plan::plan(now, &views) {
            match step {
                Step::Start(run) => self.start_service(&record, service, run)?,
                Step::Mark(ready) => self.mark(&record, service, ready)?,
                Step::Ask => self.ask(&record, service, now)?,
            }
        }
        Ok(())
    }

    /// Returns the current state of a cell's services.
    pub(crate) fn views<'a>(&self, record: &'a Record) -> CellResult<Vec<View<'a>>> {
        let place = self.place(record.cell_id);
        let view = |service: &'a Service| -> CellResult<View<'a>> {
            let run = Run::read(&place, &service.name)?.unwrap_or_default();
            let seen = match run.number {
                0 => Seen::Absent,
                number => self.service_monitor(record, &service.name, number).look(),
            };
            let memo = self.memos.of(record.cell_id, &service.name, run.number);
            let wish = record.wishes.get(&service.name);
            Ok(View { service, run, seen, wish, asked: memo.asked, asking: memo.asking })
        };
        record.spec.services.iter().map(view).collect()
    }

    /// Returns the services of a cell for the wire protocol.
    pub(crate) fn service_findings(&self, record: &Record) -> CellResult<Vec<ServiceFindings>> {
        let finding = |view: View<'_>| {
            let memo = self.memos.of(record.cell_id, &view.service.name, view.run.number);
            let ready = plan::is_ready(&view);
            let (pid, exit, why) = match &view.seen {
                Seen::Running { pid, .. } => (*pid, None, None),
                Seen::Ended { exit, why, .. } => (0, *exit, why.clone()),
                Seen::Absent if plan::is_wanted(&view) && !view.service.after.is_empty() => {
                    (0, None, Some(format!("it waits for {}", view.service.after.join(", "))))
                }
                Seen::Absent | Seen::Starting => (0, None, None),
            };
            ServiceFindings {
                name: view.service.name.clone(),
                state: plan::state(&view),
                pid,
                ready,
                restarts: view.run.restarts,
                exit,
                message: why.or(memo.message.filter(|_| !ready)),
            }
        };
        Ok(self.views(record)?.into_iter().map(finding).collect())
    }

    fn start_service(&self, record: &Record, service: &Service, run: Run) -> CellResult<()> {
        let place = self.place(record.cell_id);
        run.write(&place, &service.name)?;
        let monitor = self.service_monitor(record, &service.name, run.number);
        // An agent that died may have started it without recording it.
        if monitor.began() {
            monitor.settle();
            return Ok(());
        }
        for earlier in (1..run.number).rev().take(3) {
            let earlier = self.service_monitor(record, &service.name, earlier);
            // Its monitor has ended, or this would be no new run. It may have been killed while the service lives on.
            if let Some(process) = earlier.process(record.namespaces.get("pid").copied()) {
                process.signal(Signal::KILL);
            }
            document::remove_folder(&earlier.folder)?;
        }
        let mut environment = service.environment.clone();
        environment.insert(MARK.to_owned(), service.name.clone());
        let process = bundle::process(
            record,
            &Started {
                arguments: &service.command,
                uid: service.uid,
                gid: service.gid,
                environment: Some(&environment),
                working_directory: service.working_directory.as_deref(),
                terminal: false,
            },
        );
        monitor.start(&process, self.settings.logs)
    }

    fn mark(&self, record: &Record, service: &Service, ready: bool) -> CellResult<()> {
        let place = self.place(record.cell_id);
        match Run::read(&place, &service.name)? {
            Some(run) if run.ready != ready => Run { ready, ..run }.write(&place, &service.name),
            _ => Ok(()),
        }
    }

    /// Records a new probe result, and returns whether there was one.
    fn write_answer(&self, record: &Record, view: &View<'_>) -> CellResult<bool> {
        let (cell, name, run) = (record.cell_id, &view.service.name, view.run.number);
        let Some(answer) = self.memos.of(cell, name, run).answer else { return Ok(false) };
        self.memos.change(cell, name, run, |memo| {
            memo.answer = None;
            memo.message = answer.as_ref().err().cloned();
        });
        let running = matches!(view.seen, Seen::Running { .. });
        self.mark(record, view.service, running && answer.is_ok())?;
        Ok(true)
    }

    /// Starts a probe of a service, without waiting for the result.
    fn ask(&self, record: &Record, service: &Service, now: Timestamp) -> CellResult<()> {
        let (Some(probe), Some(init)) = (service.ready.clone(), record.init.clone()) else { return Ok(()) };
        let run = Run::read(&self.place(record.cell_id), &service.name)?.unwrap_or_default().number;
        self.memos.change(record.cell_id, &service.name, run, |memo| {
            memo.asked = Some(now);
            memo.asking = true;
        });
        let question = probe::Question {
            probe,
            init,
            runner: self.runner(record.cell_id),
            record: record.clone(),
            service: service.clone(),
        };
        let memos = Memos(Arc::clone(&self.memos.0));
        std::thread::spawn(move || {
            let answer = question.ask();
            memos.change(question.record.cell_id, &question.service.name, run, |memo| {
                memo.asking = false;
                memo.answer = Some(answer);
            });
        });
        Ok(())
    }
}
