//! Starts and stops services on request.
//!
//! The cell's record stores a request, with the run that satisfies it, before any effect. A retry after a crash waits for
//! the same run, and supervision starts and restarts requested services whether or not a caller waits.

use std::time::{Duration, Instant};

use muster_ids::CellId;
use muster_wire::cell::Service;
use muster_wire::task::{ServiceAction, ServiceOrder};
use rustix::process::Signal;

use crate::cells::Cells;
use crate::error::{CellError, CellResult, refused};
use crate::log::LogQuery;
use crate::monitor::Seen;
use crate::patience::Patience;
use crate::plan;
use crate::process::Process;
use crate::record::{Record, Wish};
use crate::service::{MARK, Run};

const PAUSE: Duration = Duration::from_millis(10);
/// Consecutive early failures after which a start is given up: another attempt would fail too.
const HOPELESS: u32 = 4;
/// Maximum log lines of a service in an error, and their maximum characters: the log has all of them.
const LAST_LINES: usize = 5;
const LAST_WORDS: usize = 600;
/// Timeout for killed processes to end.
const GONE: Duration = Duration::from_secs(10);

/// A request about a service, with its timeout.
pub struct Request<'a> {
    /// Incarnation of the cell.
    pub incarnation: i64,
    /// Order.
    pub order: &'a ServiceOrder,
    /// Task: a repeated one changes nothing.
    pub by: &'a str,
    /// How long the caller waits.
    pub patience: &'a Patience<'a>,
}

impl Cells {
    /// Starts or stops a service. A start completes when the service is ready; one that is not ready in time is stopped
    /// again, and the error describes the cause. A stop completes when none of its processes is left.
    pub fn service_request(&self, cell: CellId, request: &Request<'_>) -> CellResult<()> {
        // Everything that follows is part of the caller's time.
        let began = Instant::now();
        if request.order.action == ServiceAction::Stop && self.is_dead(cell, request.incarnation)? {
            // All processes ended with the first one.
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
                    // A service that never started gets its first run.
                    (Seen::Absent, run) => Some(run.max(1)),
                    (Seen::Ended { .. }, run) => Some(run + 1),
                })?;
                self.await_ready(cell, service, request, (run, began))
            }
            ServiceAction::Restart => {
                let run = self.wish(cell, request, |(_, run)| Some(run + 1))?;
                self.stop(&record, service, (run, request.patience))?;
                self.await_ready(cell, service, request, (run, began))
            }
        }
    }

    /// Records the request unless this task has already, and returns the run that satisfies it.
    fn wish(
        &self,
        cell: CellId,
        request: &Request<'_>,
        decide: impl FnOnce((Seen, u32)) -> Option<u32>,
    ) -> CellResult<Option<u32>> {
        let turn = self.turn(cell);
        let _turn = turn.lock();
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

    /// Waits until the requested run is ready; stops it otherwise.
    fn await_ready(
        &self,
        cell: CellId,
        service: &Service,
        request: &Request<'_>,
        (run, began): (Option<u32>, Instant),
    ) -> CellResult<()> {
        // The same task finds its request withdrawn: it failed before.
        let Some(run) = run else {
            return refused(format!("{} was stopped before it was ready", service.name));
        };
        let (until, since) = (began + request.patience.within, (request.patience.now)());
        let why = loop {
            request.patience.check()?;
            self.supervise_cell(cell, (request.patience.now)())?;
            let record = self.running_as(cell, request.incarnation)?;
            let views = self.views(&record)?;
            let Some(view) = views.iter().find(|view| view.service.name == service.name) else {
                return Err(CellError::NoCell(cell));
            };
            if !plan::is_wanted(view) {
                return refused(format!("another request stopped {} meanwhile", service.name));
            }
            if view.run.number >= run && plan::is_ready(view) {
                return Ok(());
            }
            let over = matches!(view.seen, Seen::Ended { .. }) && !plan::restarts(view);
            let late = Instant::now() >= until;
            if view.run.number >= run && (over || plan::is_hopeless(view, HOPELESS)) || late {
                let found = self.service_findings(&record)?;
                let said = found.into_iter().find(|found| found.name == service.name);
                let ended = matches!(view.seen, Seen::Ended { .. });
                break Unready {
                    waited: began.elapsed(),
                    ends: view.run.number.saturating_sub(run) + u32::from(ended && view.run.number >= run),
                    exit: match &view.seen {
                        Seen::Ended { exit, .. } => *exit,
                        _ => None,
                    },
                    said: said.and_then(|found| found.message),
                    words: Vec::new(),
                };
            }
            std::thread::sleep(PAUSE);
        };
        self.take_back(cell, service, request)?;
        // Read after its end, when the log is complete. An unreadable log must not hide the rest of the error.
        let query = LogQuery { tail: Some(LAST_LINES), since: Some(since), contains: None };
        let lines = self.logs(cell, &service.name, &query).unwrap_or_default();
        let words = lines.into_iter().map(|line| line.text).collect();
        refused(format!("{} did not become ready {}", service.name, Unready { words, ..why }.told()))
    }

    /// Withdraws a failed request, and kills its processes: a failed start must not succeed later.
    fn take_back(&self, cell: CellId, service: &Service, request: &Request<'_>) -> CellResult<()> {
        let turn = self.turn(cell);
        let _turn = turn.lock();
        let mut record = (*self.running_as(cell, request.incarnation)?).clone();
        let wish = Wish { run: None, by: request.by.to_owned() };
        record.wishes.insert(service.name.clone(), wish);
        self.save(&record)?;
        self.kill(&record, &service.name)
    }

    /// Stops a service, and kills its processes after its time limit. Runs from `before` on are not affected.
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

    /// Waits until the monitor has recorded the end, so that the service does not count as running.
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

    /// Kills all processes of a service, and waits for their end.
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

    /// Returns the processes of a service: its first, all descendants, and all with its mark.
    fn processes_of(&self, record: &Record, service: &str) -> Vec<Process> {
        let namespace = record.namespaces.get("pid").copied();
        let run = Run::read(&self.place(record.cell_id), service).ok().flatten().unwrap_or_default().number;
        let main = self.service_monitor(record, service, run).process(namespace).map(|main| main.pid);
        self.processes_with(record, main, &format!("{MARK}={service}"))
    }
}

/// Description of a service that did not become ready.
struct Unready {
    waited: Duration,
    /// Number of exits meanwhile.
    ends: u32,
    /// Last exit status, if it has ended.
    exit: Option<i32>,
    /// The platform's observation: the result of its probe, or why it is not running.
    said: Option<String>,
    /// Last lines of its log.
    words: Vec<String>,
}

impl Unready {
    fn told(&self) -> String {
        let mut told = format!("in {} s", self.waited.as_secs().max(1));
        if let Some(said) = &self.said {
            told.push_str(&format!("; {said}"));
        }
        // The end and the last words stand together: the words explain the end.
        let last = self.exit.map(|exit| exit.to_string());
        match (self.ends, last) {
            (0, _) => {}
            (1, Some(last)) => told.push_str(&format!("; it ended with {last}")),
            (1, None) => told.push_str("; it ended"),
            (often, Some(last)) => told.push_str(&format!("; it ended {often} times, last with {last}")),
            (often, None) => told.push_str(&format!("; it ended {often} times")),
        }
        let words = self.words.join(" | ");
        let words: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let over = words.chars().count().saturating_sub(LAST_WORDS);
        match (words.trim(), over) {
            ("", _) => told.push_str("; it wrote nothing"),
            (words, 0) => told.push_str(&format!("; its last output: {words}")),
            (words, over) => {
                told.push_str("; its last output: …");
                told.extend(words.chars().skip(over));
            }
        }
        told
    }
}

fn service<'a>(record: &'a Record, name: &str) -> CellResult<&'a Service> {
    record.spec.services.iter().find(|service| service.name == name).map_or_else(
        || {
            let names: Vec<&str> = record.spec.services.iter().map(|service| service.name.as_str()).collect();
            let names = if names.is_empty() { "it has none".to_owned() } else { names.join(", ") };
            refused(format!("no service of the cell is named {name}: {names}"))
        },
        Ok,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unready_service_error_names_its_cause_and_last_output() {
        let of = |ends, exit, said: Option<&str>, words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            Unready { waited: Duration::from_secs(30), ends, exit, said: said.map(str::to_owned), words }
                .told()
        };
        assert_eq!(
            of(4, Some(1), None, &["error: no such file", "bye"]),
            "in 30 s; it ended 4 times, last with 1; its last output: error: no such file | bye"
        );
        assert_eq!(
            of(4, Some(1), Some("nothing listens on port 82"), &["no such disk"]),
            "in 30 s; nothing listens on port 82; it ended 4 times, last with 1; its last output: no such disk"
        );
        assert_eq!(of(1, Some(3), None, &[]), "in 30 s; it ended with 3; it wrote nothing");
        assert_eq!(
            of(0, None, Some("nothing listens on port 81"), &["a\u{1b}[31m"]),
            "in 30 s; nothing listens on port 81; its last output: a [31m"
        );
        let long = of(0, None, None, &["x".repeat(5000).as_str(), "the end"]);
        assert!(long.chars().count() < 700 && long.ends_with("the end"), "{long}");
    }
}
