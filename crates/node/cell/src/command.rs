//! Commands that run to completion once: a repeated request with the same id returns the first result, also after a crash.
//!
//! The monitor stays with a command when the agent dies. When the command has ended, its result is stored and its log
//! removed; that short document is kept until its cell is destroyed.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use muster_ids::CellId;
use muster_wire::task::{CommandOrder, Ran};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;

use crate::bundle::{self, Started};
use crate::cells::Cells;
use crate::check;
use crate::document;
use crate::error::{CellResult, Doing, refused};
use crate::log;
use crate::monitor::{Monitor, Seen};
use crate::patience::Patience;
use crate::process::Process;
use crate::record::Record;
use crate::settings::LogLimits;

/// Maximum bytes kept of each stream: its end.
const OUTPUT: usize = 16 << 10;
/// Maximum remembered commands per cell.
const REMEMBERED: usize = 512;
/// Large enough to contain the end of the output, whenever the log was last rotated.
const LOGS: LogLimits = LogLimits { size: 1 << 20, count: 1 };
const PAUSE: Duration = Duration::from_millis(10);
/// Timeout for killed processes to end.
const GONE: Duration = Duration::from_secs(10);
/// Size that a monitor reads at once.
const CHUNK: usize = 8 << 10;
/// Environment variable that marks every process of a command; its value is the command's id.
const MARK: &str = "MUSTER_COMMAND";

/// A command, and how long the caller waits for it.
pub struct Once<'a> {
    /// Incarnation of the cell.
    pub incarnation: i64,
    /// Id of the command, for repeated requests.
    pub id: &'a str,
    /// Command to run.
    pub order: &'a CommandOrder,
    /// How long the caller waits: the command is killed then, whatever its own timeout.
    pub patience: &'a Patience<'a>,
}

impl Cells {
    /// Runs a command in a cell to completion, or returns the earlier result with the same id.
    pub fn command_once(&self, cell: CellId, once: &Once<'_>) -> CellResult<Ran> {
        check::command_id(once.id)?;
        check::once(once.order)?;
        let until = once.patience.until();
        let record = self.running_as(cell, once.incarnation)?;
        let folder = self.place(cell).command(once.id);
        if let Some(ran) = document::read(&folder.join("ran.json"))? {
            return Ok(ran);
        }
        let monitor = self.monitor(cell, folder.clone(), folder.join("log"));
        if self.launch(&record, &monitor, once)? {
            let patience = Duration::from_secs(u64::from(once.order.timeout_seconds.max(1)));
            let patience = patience.min(once.patience.within);
            // A command may end without reading all of its input; that is no error.
            if let Err(error) = give(&folder, once.order.stdin.as_bytes(), patience) {
                tracing::debug!(%cell, id = once.id, %error, "a command did not read its input");
            }
            document::write(&folder.join("given"), &true)?;
        }
        let timeout = SignedDuration::from_secs(i64::from(once.order.timeout_seconds.max(1)));
        let (exit, why) = loop {
            let seen = monitor.look();
            // Destroying the cell ends its commands; such an end is not a result.
            self.running_as(cell, once.incarnation)?;
            match seen {
                Seen::Ended { exit: None, why, .. } if !folder.join("pid").exists() => {
                    let why = why.unwrap_or_default();
                    return refused(format!("{} could not be run: {why}", once.order.command[0]));
                }
                Seen::Ended { exit, why, .. } => break (exit, why),
                Seen::Running { since, .. } if (once.patience.now)().duration_since(since) >= timeout => {
                    self.cut_short(&record, &monitor, once.id)?;
                }
                _ if Instant::now() >= until => self.cut_short(&record, &monitor, once.id)?,
                Seen::Absent => return refused("its monitor could not be started"),
                Seen::Starting | Seen::Running { .. } => {}
            }
            once.patience.check()?;
            log::rotate(&monitor.log, &monitor.folder, LOGS)?;
            std::thread::sleep(PAUSE);
        };
        let (stdout, stderr) = log::tails(&monitor.log, OUTPUT)?;
        let mut ran = Ran {
            exit: exit.unwrap_or(255),
            truncated: stdout.is_cut() || stderr.is_cut(),
            stdout: stdout.text(),
            stderr: stderr.text(),
            timed_out: folder.join("cut-short").exists(),
        };
        // Unknown results are explained in standard error, where users look.
        ran.stderr.extend(why);
        document::write(&folder.join("ran.json"), &ran)?;
        log::remove(&monitor.log)?;
        self.forget_commands(cell);
        Ok(ran)
    }

    /// Starts the command unless it was started; returns whether it waits for its input.
    fn launch(&self, record: &Record, monitor: &Monitor<'_>, once: &Once<'_>) -> CellResult<bool> {
        let turn = self.turn(record.cell_id);
        let _turn = turn.lock();
        self.running_as(record.cell_id, once.incarnation)?;
        let order = once.order;
        if monitor.began() {
            monitor.settle();
            // An agent died while it wrote the input. How much the command received is unknown, and it waits for the rest.
            if !order.stdin.is_empty() && !monitor.folder.join("given").exists() {
                self.cut_short(record, monitor, once.id)?;
            }
            return Ok(false);
        }
        document::folder(&monitor.folder, 0o700)?;
        let mut environment = order.environment.clone();
        environment.insert(MARK.to_owned(), once.id.to_owned());
        let started = Started {
            arguments: &order.command,
            uid: order.uid,
            gid: order.gid,
            environment: Some(&environment),
            working_directory: None,
            terminal: false,
        };
        let process = bundle::process(record, &started);
        if order.stdin.is_empty() {
            monitor.start(&process, LOGS)?;
        } else {
            monitor.start_with_input(&process, LOGS)?;
        }
        Ok(!order.stdin.is_empty())
    }

    /// Kills a command and its descendants, and records that it was cut short.
    fn cut_short(&self, record: &Record, monitor: &Monitor<'_>, id: &str) -> CellResult<()> {
        document::write(&monitor.folder.join("cut-short"), &true)?;
        let since = Instant::now();
        loop {
            let main = monitor.process(record.namespaces.get("pid").copied());
            let left = self.processes_with(record, main.map(|main| main.pid), &format!("{MARK}={id}"));
            if left.is_empty() {
                return Ok(());
            }
            if since.elapsed() > GONE {
                return refused(format!("{} processes of a command do not end", left.len()));
            }
            for process in &left {
                process.signal(Signal::KILL);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Removes the oldest ended commands beyond the limit.
    fn forget_commands(&self, cell: CellId) {
        let folder = self.place(cell).folder.join("command");
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut ended: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let told = fs::metadata(entry.path().join("ran.json")).ok()?;
                Some((told.modified().ok()?, entry.path()))
            })
            .collect();
        if ended.len() > REMEMBERED {
            ended.sort();
            for (_, path) in &ended[..ended.len() - REMEMBERED] {
                let _ = document::remove_folder(path);
            }
        }
    }
}

/// Writes the input to a command through its monitor, and closes it.
fn give(folder: &Path, input: &[u8], patience: Duration) -> CellResult<()> {
    let doing = || "pass a command its input".to_owned();
    let here: OwnedFd =
        rustix::fs::openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .doing(doing)?;
    // A socket path is limited to about a hundred characters, and a folder's is longer.
    let path = format!("/proc/self/fd/{}/attach", std::os::fd::AsRawFd::as_raw_fd(&here));
    let address = SocketAddrUnix::new(path).doing(doing)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .doing(doing)?;
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(patience))
        .doing(doing)?;
    let since = Instant::now();
    // The monitor opens the socket after it has detached.
    while let Err(error) = rustix::net::connect(&socket, &address) {
        if !matches!(error, Errno::NOENT | Errno::CONNREFUSED) || since.elapsed() > GONE {
            return Err(error).doing(doing);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    for chunk in input.chunks(CHUNK) {
        rustix::net::send(&socket, chunk, SendFlags::NOSIGNAL).doing(doing)?;
    }
    rustix::net::shutdown(&socket, Shutdown::Write).doing(doing)
}

impl Cells {
    /// Returns the processes of a cell that are `main`, descend from it, or have a mark in their environment, with their
    /// descendants.
    pub(crate) fn processes_with(&self, record: &Record, main: Option<u32>, mark: &str) -> Vec<Process> {
        use crate::process;
        let namespace = record.namespaces.get("pid").copied();
        let inside: Vec<u32> = self.layout.processes(&self.cell_group(record));
        let marked = |pid: u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
        };
        let mut found: Vec<u32> =
            inside.iter().copied().filter(|pid| main == Some(*pid) || marked(*pid)).collect();
        // Adds children until there are no more.
        let mut from = 0;
        while from < found.len() {
            let parent = found[from];
            let child = |pid: &&u32| process::stat(**pid).is_some_and(|stat| stat.parent == parent);
            let more: Vec<u32> =
                inside.iter().filter(child).copied().filter(|pid| !found.contains(pid)).collect();
            found.extend(more);
            from += 1;
        }
        let ours = |pid: &u32| process::namespace(*pid, "pid") == namespace;
        found.into_iter().filter(ours).filter_map(Process::find).collect()
    }
}
