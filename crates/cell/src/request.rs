//! Starting and stopping services because somebody asks.
//!
//! What was asked for is in the cell's record before anything is done about it, with the run that is to answer it. So whoever
//! asks again after a crash, in the same words, waits for the same run, and supervision starts and restarts what is wanted
//! whether or not anybody still waits.

use std::time::{Duration, Instant};

use muster_ids::CellId;
use muster_node_api::cell::Service;
use muster_node_api::task::{ServiceAction, ServiceOrder};
use rustix::process::Signal;

use crate::cells::{Cells, lock};
use crate::error::{CellError, CellResult, refused};
use crate::monitor::Seen;
use crate::patience::Patience;
use crate::plan;
use crate::process::Process;
use crate::record::{Record, Wish};
use crate::service::{MARK, Run};

const PAUSE: Duration = Duration::from_millis(20);
/// How long what was killed may take to be gone.
const GONE: Duration = Duration::from_secs(10);

/// Who asks for something of a service, and for how long.
pub struct Request<'a> {
    /// Of which incarnation of the cell.
    pub incarnation: i64,
    /// What.
    pub order: &'a ServiceOrder,
    /// The task: the same one again asks for nothing new.
    pub by: &'a str,
    /// How long somebody waits for it.
    pub patience: &'a Patience<'a>,
}

impl Cells {
    /// Starts or stops a service. A start is done when the service is ready; one that is not ready in time is ended again, and
    /// the error says what was the matter. A stop is done when no process of the service is left.
    pub fn service_request(&self, cell: CellId, request: &Request<'_>) -> CellResult<()> {
        let until = request.patience.until();
        if request.order.action == ServiceAction::Stop && self.is_dead(cell, request.incarnation)? {
            // Whatever ran in it ended with its first process.
            return Ok(());
        }
        let record = self.running_as(cell, request.incarnation)?;
        let service = service(&record, &request.order.name)?;
        match request.order.action {
            ServiceAction::Stop => {
                self.wish(cell, request, |_| None)?;
                self.stop(&record, service, (None, request.patience))
            }
            ServiceAction::Start => {
                let run = self.wish(cell, request, |seen| match seen {
                    (Seen::Running { .. } | Seen::Starting, run) => Some(run),
                    // One that was never begun is its first.
                    (Seen::Absent, run) => Some(run.max(1)),
                    (Seen::Ended { .. }, run) => Some(run + 1),
                })?;
                self.await_ready(cell, service, request, (run, until))
            }
            ServiceAction::Restart => {
                let run = self.wish(cell, request, |(_, run)| Some(run + 1))?;
                self.stop(&record, service, (run, request.patience))?;
                self.await_ready(cell, service, request, (run, until))
            }
        }
    }

    /// Writes down what is wished, unless this very task has wished it, and says which run answers it.
    fn wish(
        &self,
        cell: CellId,
        request: &Request<'_>,
        decide: impl FnOnce((Seen, u32)) -> Option<u32>,
    ) -> CellResult<Option<u32>> {
        let turn = self.turn(cell);
        let _turn = lock(&turn);
        let mut record = (*self.running_as(cell, request.incarnation)?).clone();
        let name = &request.order.name;
        if let Some(wish) = record.wishes.get(name).filter(|wish| wish.by == request.by) {
            return Ok(wish.run);
        }
        let run = Run::read(&self.place(cell), name)?.unwrap_or_default().number;
        let seen = match run {
            0 => Seen::Absent,
            run => self.service_monitor(&record, name, run).look(),
        };
        let run = decide((seen, run));
        record.wishes.insert(name.clone(), Wish { run, by: request.by.to_owned() });
        self.save(&record)?;
        Ok(run)
    }

    /// Waits until the run that was asked for is ready; ends it if it does not become so.
    fn await_ready(
        &self,
        cell: CellId,
        service: &Service,
        request: &Request<'_>,
        (run, until): (Option<u32>, Instant),
    ) -> CellResult<()> {
        // The same task found its wish taken back: it failed before.
        let Some(run) = run else {
            return refused(format!("{} was ended before it was ready", service.name));
        };
        let why = loop {
            request.patience.check()?;
            self.supervise_cell(cell, (request.patience.now)())?;
            let record = self.running_as(cell, request.incarnation)?;
            let views = self.views(&record)?;
            let Some(view) = views.iter().find(|view| view.service.name == service.name) else {
                return Err(CellError::NoCell(cell));
            };
            if !plan::is_wanted(view) {
                return refused(format!("somebody else asked for the end of {} meanwhile", service.name));
            }
            if view.run.number >= run && plan::is_ready(view) {
                return Ok(());
            }
            let over = matches!(view.seen, Seen::Ended { .. }) && !plan::restarts(view);
            if view.run.number >= run && over {
                break match &view.seen {
                    Seen::Ended { exit: Some(exit), .. } => format!("it ended with {exit}"),
                    Seen::Ended { why: Some(why), .. } => why.clone(),
                    _ => "it ended".to_owned(),
                };
            }
            if Instant::now() >= until {
                let found = self.service_findings(&record)?;
                let said = found.into_iter().find(|found| found.name == service.name);
                break said.and_then(|found| found.message).map_or_else(
                    || "it was not ready in time".to_owned(),
                    |said| format!("it was not ready in time: {said}"),
                );
            }
            std::thread::sleep(PAUSE);
        };
        self.take_back(cell, service, request)?;
        refused(format!("{} did not become ready: {why}; its log may say more", service.name))
    }

    /// Takes back a wish that did not come true, and kills what there is of it: what failed must not come about later.
    fn take_back(&self, cell: CellId, service: &Service, request: &Request<'_>) -> CellResult<()> {
        let turn = self.turn(cell);
        let _turn = lock(&turn);
        let mut record = (*self.running_as(cell, request.incarnation)?).clone();
        let wish = Wish { run: None, by: request.by.to_owned() };
        record.wishes.insert(service.name.clone(), wish);
        self.save(&record)?;
        self.kill(&record, &service.name)
    }

    /// Asks a service to end, and kills what is left of it after the time that it may take. Runs from `before` on are not meant.
    fn stop(
        &self,
        record: &Record,
        service: &Service,
        (before, patience): (Option<u32>, &Patience<'_>),
    ) -> CellResult<()> {
        let run = Run::read(&self.place(record.cell_id), &service.name)?.unwrap_or_default().number;
        if run == 0 || before.is_some_and(|before| run >= before) {
            return Ok(());
        }
        let namespace = record.namespaces.get("pid").copied();
        let main = || self.service_monitor(record, &service.name, run).process(namespace);
        if let Some(main) = main() {
            main.signal(Signal::TERM);
        }
        let until = Instant::now() + Duration::from_secs(u64::from(service.stop_seconds));
        while Instant::now() < until {
            if main().is_none() && self.processes_of(record, &service.name).is_empty() {
                return self.settled(record, service, run);
            }
            patience.check()?;
            std::thread::sleep(PAUSE);
        }
        self.kill(record, &service.name)?;
        self.settled(record, service, run)
    }

    /// Waits until the monitor has written down how it ended, so that nobody takes it for running.
    fn settled(&self, record: &Record, service: &Service, run: u32) -> CellResult<()> {
        let since = Instant::now();
        while matches!(
            self.service_monitor(record, &service.name, run).look(),
            Seen::Running { .. } | Seen::Starting
        ) {
            if since.elapsed() > GONE {
                return refused(format!("the monitor of {} does not end", service.name));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Kills all processes of a service, and waits until they are gone.
    fn kill(&self, record: &Record, service: &str) -> CellResult<()> {
        let since = Instant::now();
        loop {
            let left = self.processes_of(record, service);
            if left.is_empty() {
                return Ok(());
            }
            if since.elapsed() > GONE {
                let pids: Vec<u32> = left.iter().map(|process| process.pid).collect();
                let doing = format!("end the service {service}");
                return Err(CellError::Tool { doing, said: format!("processes {pids:?} do not end") });
            }
            for process in left {
                process.signal(Signal::KILL);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The processes of a service: its first, all that descend from it, and all that carry its mark.
    fn processes_of(&self, record: &Record, service: &str) -> Vec<Process> {
        let namespace = record.namespaces.get("pid").copied();
        let run = Run::read(&self.place(record.cell_id), service).ok().flatten().unwrap_or_default().number;
        let main = self.service_monitor(record, service, run).process(namespace).map(|main| main.pid);
        self.processes_with(record, main, &format!("{MARK}={service}"))
    }
}

fn service<'a>(record: &'a Record, name: &str) -> CellResult<&'a Service> {
    record.spec.services.iter().find(|service| service.name == name).map_or_else(
        || {
            let names: Vec<&str> = record.spec.services.iter().map(|service| service.name.as_str()).collect();
            let names = if names.is_empty() { "it has none".to_owned() } else { names.join(", ") };
            refused(format!("no service of the cell is called {name}: {names}"))
        },
        Ok,
    )
}
