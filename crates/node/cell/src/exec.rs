//! Commands in cells: attached, or detached and run once.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use muster_ids::CellId;
use rustix::process::Signal;

use crate::bundle::{self, Started};
use crate::cells::Cells;
use crate::check;
use crate::document;
use crate::error::{CellError, CellResult, Doing, refused};
use crate::file;
use crate::log::{self, LogLine, LogQuery};
use crate::monitor::Seen;
use crate::process::{self, Process};
use crate::program::{self, Lookup, Unstartable};
use crate::record::{Phase, Record};

/// A command to run in a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments. No shell interprets them.
    pub arguments: Vec<String>,
    /// User in the cell.
    pub uid: u32,
    /// Group in the cell.
    pub gid: u32,
    /// Environment variables in addition to the cell's.
    pub environment: BTreeMap<String, String>,
    /// Working directory.
    pub working_directory: Option<String>,
}

impl Command {
    fn check(&self) -> CellResult<()> {
        check::arguments(&self.arguments)?;
        check::environment(&self.environment)?;
        check::owner(self.uid)?;
        check::owner(self.gid)?;
        self.working_directory.as_deref().map_or(Ok(()), check::working_directory)
    }

    fn started(&self, terminal: bool) -> Started<'_> {
        Started {
            arguments: &self.arguments,
            uid: self.uid,
            gid: self.gid,
            environment: Some(&self.environment),
            working_directory: self.working_directory.as_deref(),
            terminal,
        }
    }
}

/// Targets of the standard streams of a command.
pub enum Streams {
    /// None.
    Nowhere,
    /// Pipes, in the child's fields.
    Pipes,
    /// The slave side of a terminal that the caller opened. The cell gets a terminal of its own behind it.
    Terminal(OwnedFd),
}

/// An attached command.
pub struct Attached {
    /// The node's program that carries the streams; its exit status is the command's.
    pub child: Child,
    spec: PathBuf,
    pid_file: PathBuf,
    pid_namespace: Option<u64>,
}

impl Attached {
    /// Signals a terminal resize.
    pub fn resized(&self) {
        if let Some(child) = Process::find(self.child.id()) {
            child.signal(Signal::WINCH);
        }
    }

    /// Ends the command in the cell, and reaps the program that carried its streams.
    pub fn kill(&mut self) {
        let since = Instant::now();
        // The command may be starting; killing only the carrier would leave it running.
        while process::pid_in(&self.pid_file).is_none()
            && matches!(self.child.try_wait(), Ok(None))
            && since.elapsed() < Duration::from_secs(1)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        let inside = process::pid_in(&self.pid_file).and_then(Process::find);
        match inside.filter(|inside| process::namespace(inside.pid, "pid") == self.pid_namespace) {
            Some(inside) => drop(inside.signal(Signal::KILL)),
            None => drop(self.child.kill()),
        }
        let _ = self.child.wait();
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
        for file in [&self.spec, &self.pid_file] {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Parameters for running commands in one cell.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    runc: PathBuf,
    runc_root: PathBuf,
    folder: PathBuf,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Runner {
    pub(crate) fn attach(
        &self,
        record: &Record,
        started: &Started<'_>,
        streams: Streams,
    ) -> CellResult<Attached> {
        document::folder(&self.folder, 0o700)?;
        let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (spec, pid_file) =
            (self.folder.join(format!("{name}.json")), self.folder.join(format!("{name}.pid")));
        let process = bundle::process(record, started);
        document::note(&spec, &process)?;
        let mut command = match obstacle(record, started, &process) {
            Some(obstacle) => refusal(&obstacle),
            None => {
                let mut command = muster_exec::command(&self.runc);
                command.arg("--root").arg(&self.runc_root).args(["exec", "--pid-file"]).arg(&pid_file);
                command.arg("--process").arg(&spec).arg(record.cell_id.to_string());
                command
            }
        };
        match streams {
            Streams::Nowhere => {}
            Streams::Pipes => {
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            }
            Streams::Terminal(slave) => {
                let copy = || slave.try_clone().doing(|| "share a terminal".to_owned());
                command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
            }
        }
        let child = command.spawn().doing(|| format!("run a command in {}", record.cell_id))?;
        Ok(Attached { child, spec, pid_file, pid_namespace: record.namespaces.get("pid").copied() })
    }
}

/// Why a process surely cannot be started. Where the lookup fails, runc decides.
fn obstacle(record: &Record, started: &Started<'_>, process: &serde_json::Value) -> Option<Unstartable> {
    let variables = process["env"].as_array().into_iter().flatten();
    let path = variables.filter_map(|variable| variable.as_str()?.strip_prefix("PATH=")).next();
    let lookup = Lookup {
        program: started.arguments.first()?,
        working_directory: process["cwd"].as_str()?,
        path: path.unwrap_or_default(),
        uid: started.uid,
    };
    program::find_obstacle(record, &lookup).ok().flatten()
}

/// A program of the node that ends in place of the command, as a shell in the cell would: in its streams and with its exit status.
fn refusal(obstacle: &Unstartable) -> std::process::Command {
    let mut command = muster_exec::command(Path::new("/bin/sh"));
    command.args(["-c", r#"printf '%s\n' "$1" >&2; exit "$2""#, "muster", &obstacle.why]);
    command.arg(obstacle.status.to_string());
    command
}

/// Status of a detached command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFindings {
    /// State.
    pub state: CommandState,
    /// End of its output.
    pub output: Vec<LogLine>,
}

/// State of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandState {
    /// Running or starting.
    Running,
    /// Ended with this exit status.
    Ended(i32),
    /// Not started, or ended with an unknown status, with the reason.
    Lost(String),
}

/// Maximum returned output lines of a command.
const LINES: usize = 10_000;

impl Cells {
    pub(crate) fn runner(&self, cell: CellId) -> Runner {
        Runner {
            runc: self.settings.tools.runc.clone(),
            runc_root: self.runc_root().to_path_buf(),
            // Useless after a reboot, and on a full disk commands should run too.
            folder: self.place(cell).run.join("attached"),
        }
    }

    /// Runs an attached command. Dropping the returned value ends it.
    pub fn exec(&self, cell: CellId, command: &Command, streams: Streams) -> CellResult<Attached> {
        command.check()?;
        let record = self.running(cell)?;
        let terminal = matches!(streams, Streams::Terminal(_));
        let mut started = command.started(terminal);
        // Starts in the home directory, if it exists.
        started.working_directory = started.working_directory.or_else(|| {
            command.environment.get("HOME").map(String::as_str).filter(|home| file::is_folder(&record, home))
        });
        self.runner(cell).attach(&record, &started, streams)
    }

    /// Runs a detached command under an id. The same id runs once, regardless of retries and crashes.
    pub fn command_start(&self, cell: CellId, id: &str, command: &Command) -> CellResult<()> {
        check::command_id(id)?;
        command.check()?;
        let turn = self.turn(cell);
        let _turn = turn.lock();
        let record = self.running(cell)?;
        let folder = self.place(cell).command(id);
        let monitor = self.monitor(cell, folder.clone(), folder.join("log"));
        if monitor.began() {
            monitor.settle();
            return Ok(());
        }
        document::folder(&folder, 0o700)?;
        monitor.start(&bundle::process(&record, &command.started(false)), self.settings.logs)
    }

    /// Returns the observations of the command with this id, if there is one.
    pub fn command_look(&self, cell: CellId, id: &str) -> CellResult<Option<CommandFindings>> {
        check::command_id(id)?;
        let folder = self.place(cell).command(id);
        let monitor = self.monitor(cell, folder.clone(), folder.join("log"));
        let state = match monitor.look() {
            Seen::Absent => return Ok(None),
            Seen::Starting | Seen::Running { .. } => CommandState::Running,
            Seen::Ended { exit: Some(exit), .. } => CommandState::Ended(exit),
            Seen::Ended { why, .. } => CommandState::Lost(why.unwrap_or_default()),
        };
        let output = log::read(&folder.join("log"), &LogQuery { tail: Some(LINES), ..LogQuery::default() })?;
        Ok(Some(CommandFindings { state, output }))
    }

    /// Kills the command with this id, if it is running.
    pub fn command_kill(&self, cell: CellId, id: &str) -> CellResult<()> {
        check::command_id(id)?;
        let record = self.record(cell)?;
        let folder = self.place(cell).command(id);
        let monitor = self.monitor(cell, folder.clone(), folder.join("log"));
        if let Some(process) = monitor.process(record.namespaces.get("pid").copied()) {
            process.signal(Signal::KILL);
        }
        Ok(())
    }

    /// Reports whether this incarnation was started and its first process, and so every other, has ended.
    pub(crate) fn is_dead(&self, cell: CellId, incarnation: i64) -> CellResult<bool> {
        let record = self.record(cell)?;
        let alive = record.init.as_ref().is_some_and(Process::alive);
        Ok(record.incarnation == incarnation && record.phase == Phase::Started && !alive)
    }

    pub(crate) fn running(&self, cell: CellId) -> CellResult<std::sync::Arc<Record>> {
        let record = self.record(cell)?;
        match record.phase {
            Phase::Started if record.init.as_ref().is_some_and(Process::alive) => Ok(record),
            Phase::Started => Err(CellError::Dead(cell)),
            _ => refused(format!("{cell} does not run; start it first")),
        }
    }
}
