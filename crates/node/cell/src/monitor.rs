//! Processes in cells that outlive the agent: each is started by its own conmon, which keeps its output and exit status. Its
//! folder contains all of its state, so a restarted agent finds it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use muster_ids::CellId;
use serde_json::Value;

use crate::document;
use crate::error::{CellError, CellResult, Doing};
use crate::process::{self, Process};
use crate::settings::{LogLimits, Tools};
use crate::tool;

/// Observed state of a monitored process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Not started.
    Absent,
    /// Its monitor runs, and the process is starting.
    Starting,
    Running {
        pid: u32,
        since: Timestamp,
    },
    Ended {
        /// None if unknown: it could not be started, or its monitor was killed.
        exit: Option<i32>,
        at: Timestamp,
        ran: Duration,
        why: Option<String>,
    },
}

/// A monitored process, by its state folder.
pub(crate) struct Monitor<'a> {
    pub(crate) cell: CellId,
    pub(crate) folder: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) tools: &'a Tools,
    pub(crate) runc_root: &'a Path,
}

impl Monitor<'_> {
    fn exit_file(&self) -> PathBuf {
        self.folder.join("exit").join(self.cell.to_string())
    }

    /// Reports whether a process was ever started in this folder.
    pub(crate) fn began(&self) -> bool {
        ["conmon.pid", "pid", "runc.log"].iter().any(|name| self.folder.join(name).exists())
            || self.exit_file().exists()
            || monitors(&self.folder).next().is_some()
    }

    /// Starts the process, and returns when its monitor has detached.
    pub(crate) fn start(&self, process: &Value, limits: LogLimits) -> CellResult<()> {
        self.start_monitor(process, limits, &[])
    }

    /// Like `start`, for a process that reads its input from the monitor's socket until it is closed.
    pub(crate) fn start_with_input(&self, process: &Value, limits: LogLimits) -> CellResult<()> {
        self.start_monitor(process, limits, &["--stdin"])
    }

    fn start_monitor(&self, process: &Value, limits: LogLimits, more: &[&str]) -> CellResult<()> {
        document::folder(&self.folder.join("exit"), 0o700)?;
        document::folder(&self.folder, 0o700)?;
        let spec = self.folder.join("process.json");
        document::note(&spec, process)?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut command = muster_exec::command(&self.tools.conmon);
        command
            .args(["--api-version", "1", "--exec", "--full-attach", "--cid", &self.cell.to_string()])
            .args(["--cuuid", &self.cell.to_string()])
            .arg("--runtime")
            .arg(&self.tools.runc)
            .args(["--runtime-arg", "--root", "--runtime-arg", &text(self.runc_root)])
            .args(["--runtime-arg", "--log", "--runtime-arg", &text(&self.folder.join("runc.log"))])
            .arg("--bundle")
            .arg(&self.folder)
            .arg("--socket-dir-path")
            .arg(&self.folder)
            .arg("--container-pidfile")
            .arg(self.folder.join("pid"))
            .arg("--conmon-pidfile")
            .arg(self.folder.join("conmon.pid"))
            .arg("--exec-process-spec")
            .arg(&spec)
            .arg("--exit-dir")
            .arg(self.folder.join("exit"))
            .arg("--log-path")
            .arg(&self.log)
            // Limit for the time without an agent to rotate logs: twice the agent's own.
            .args(["--log-size-max", &(limits.size.saturating_mul(2)).to_string()])
            // A power loss may cost the end of a log; flushing every line would slow services down.
            .arg("--no-sync-log")
            .args(more)
            .current_dir(&self.folder)
            .process_group(0);
        let doing = || format!("start the monitor of a process in {}", self.cell);
        let output = command.stderr(std::process::Stdio::piped()).output().doing(doing)?;
        if output.status.success() {
            return Ok(());
        }
        let said: String = String::from_utf8_lossy(&output.stderr).chars().take(2_000).collect();
        Err(CellError::Tool { doing: doing(), said })
    }

    /// Returns the current state from the kernel and the folder.
    pub(crate) fn look(&self) -> Seen {
        if let Some(ended) = self.ended() {
            return ended;
        }
        let pid_file = self.folder.join("pid");
        let conmon = process::pid_in(&self.folder.join("conmon.pid"));
        match conmon {
            None => Seen::Absent,
            Some(conmon) if self.is_monitor(conmon) => match process::pid_in(&pid_file) {
                Some(pid) => {
                    Seen::Running { pid, since: changed(&pid_file).unwrap_or(Timestamp::UNIX_EPOCH) }
                }
                None => Seen::Starting,
            },
            // The exit status may have been written between the two reads.
            Some(_) => self.ended().unwrap_or_else(|| self.lost()),
        }
    }

    fn ended(&self) -> Option<Seen> {
        let exit = fs::read_to_string(self.exit_file()).ok()?.trim().parse().ok()?;
        let at = changed(&self.exit_file())?;
        let since = changed(&self.folder.join("pid")).unwrap_or(at);
        let ran = Duration::try_from(at.duration_since(since)).unwrap_or_default();
        Some(Seen::Ended { exit: Some(exit), at, ran, why: None })
    }

    fn lost(&self) -> Seen {
        let said = tool::last_words(&self.folder.join("runc.log"));
        let why = if self.folder.join("pid").exists() {
            "its monitor was killed, so its exit status is unknown".to_owned()
        } else if said.is_empty() {
            "it could not be started".to_owned()
        } else {
            said
        };
        let at = changed(&self.folder.join("conmon.pid")).unwrap_or(Timestamp::UNIX_EPOCH);
        Seen::Ended { exit: None, at, ran: Duration::ZERO, why: Some(why) }
    }

    fn is_monitor(&self, pid: u32) -> bool {
        process::stat(pid).is_some_and(|stat| !stat.dead) && watches(pid, &self.folder)
    }

    /// Returns the process if it is running and verified to be the one started here.
    pub(crate) fn process(&self, pid_namespace: Option<u64>) -> Option<Process> {
        let pid = process::pid_in(&self.folder.join("pid"))?;
        let process = Process::find(pid)?;
        (pid_namespace.is_some() && process::namespace(pid, "pid") == pid_namespace).then_some(process)
    }

    /// Waits until a starting monitor has written its PID.
    pub(crate) fn settle(&self) {
        let since = Instant::now();
        while self.look() == Seen::Absent && self.began() && since.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns the monitors of `folder` or a folder below it, from the list of all processes.
pub(crate) fn monitors(folder: &Path) -> impl Iterator<Item = u32> {
    let folder = folder.to_path_buf();
    process::all().into_iter().filter(move |pid| watches(*pid, &folder))
}

fn watches(pid: u32, folder: &Path) -> bool {
    let arguments = process::arguments(pid);
    arguments
        .iter()
        .zip(arguments.iter().skip(1))
        .any(|(key, value)| key == "--bundle" && Path::new(value).starts_with(folder))
}

fn changed(path: &Path) -> Option<Timestamp> {
    Timestamp::try_from(fs::metadata(path).ok()?.modified().ok()?).ok()
}
