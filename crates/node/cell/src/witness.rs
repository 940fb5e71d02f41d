//! Checks beside a cell: they verify the cell for the platform, so nothing in the cell may influence their result.
//!
//! A check is a container of its own. Its root is the image as unpacked, never the cell's layer; its environment is exactly
//! as ordered; directories of the cell are mounted readable and not executable. It shares the cell's network, processes and
//! host name, because those are its subject.
//!
//! It does *not* share the cell's user namespace, but has one with the same ids. In a shared one the cell's root could
//! become the check's user and write into its memory or its output through `/proc`; across two namespaces the kernel denies
//! that, while owners of files and of socket peers appear as in the cell. A process of the same user can only kill the check
//! or slow it down: the check then fails, and counts as failed.
//!
//! It has no capabilities, and its own limits instead of the cell's, so that a cell that has used up its memory or its
//! processes can still be checked. All concurrent checks of an allocation share one such limit, and all checks on the node
//! another ([`crate::CheckLimits`]), so that neither many checks nor many allocations gain anything.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use muster_ids::{AllocationId, CellId};
use muster_wire::task::{ProbeOrder, Ran};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bundle;
use crate::cells::Cells;
use crate::check;
use crate::document;
use crate::error::{CellError, CellResult, Doing, refused};
use crate::file;
use crate::mount_attr;
use crate::patience::Patience;
use crate::process::{self, Process};
use crate::record::{Place, Record};
use crate::root;
use crate::tail::Tail;
use crate::tool;

/// Maximum bytes kept of each stream: its end.
const OUTPUT: usize = 16 << 10;
const PROCESSES: u64 = 128;
const CPU_PERIOD: u64 = 100_000;
/// Timeout for killed processes to end.
const GONE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Paths of one check, and its name in the runtime.
struct Stand {
    name: String,
    folder: PathBuf,
    group: String,
    memory_mb: u64,
}

impl Stand {
    fn rootfs(&self) -> PathBuf {
        self.folder.join("rootfs")
    }

    /// Written by the runtime when the program is about to start.
    fn pid_file(&self) -> PathBuf {
        self.folder.join("pid")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("runc.log")
    }

    fn seen(&self, number: usize) -> PathBuf {
        self.folder.join(format!("sees-{number}"))
    }
}

impl Cells {
    /// Runs a check beside a cell and returns its result. The caller has verified the image.
    pub fn run_check(
        &self,
        cell: CellId,
        incarnation: i64,
        order: &ProbeOrder,
        patience: &Patience<'_>,
    ) -> CellResult<Ran> {
        check::validate_probe(order)?;
        let record = self.running_as(cell, incarnation)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let stand = self.stand(record.allocation_id, cell, &format!("w{}-{number}", std::process::id()));
        let ran = self.raise(&record, &stand, order);
        let ran = ran.and_then(|child| self.wait(&stand, child, (order, patience)));
        // Removed in every case.
        let cleared = self.clear(&stand);
        let ran = ran?;
        cleared.map(|()| ran)
    }

    fn stand(&self, allocation: AllocationId, cell: CellId, name: &str) -> Stand {
        Stand {
            folder: self.place(cell).witnesses().join(name),
            group: format!("{}/{cell}.{name}", self.checks_group(allocation)),
            name: format!("{cell}.{name}"),
            memory_mb: self.settings.checks.allocation_memory_mb(),
        }
    }

    /// Sets up and starts the check. The lock keeps the cell from being destroyed meanwhile.
    fn raise(&self, record: &Record, stand: &Stand, order: &ProbeOrder) -> CellResult<Child> {
        let turn = self.turn(record.cell_id);
        let _turn = turn.lock();
        let place = self.place(record.cell_id);
        let Some(init) = record.init.as_ref().filter(|init| init.alive()) else {
            return Err(CellError::NoCell(record.cell_id));
        };
        document::folder(&place.witnesses(), 0o711)?;
        document::folder(&stand.folder, 0o711)?;
        let sees = sees(record, order);
        root::mount_pristine(&self.settings.tools, record, &stand.folder, &stand.rootfs(), &sees)?;
        self.mount_processes(init, stand)?;
        let mut shown: Vec<&str> = Vec::new();
        for path in &sees {
            let target = stand.seen(shown.len());
            if !show(&place, record, path, &target)? {
                // Inside another directory its absence is visible there, and nothing can be mounted on it.
                if sees.iter().any(|other| other != path && Path::new(path).starts_with(other)) {
                    continue;
                }
                document::folder(&target, 0o755)?;
            }
            shown.push(path);
        }
        let config = config(&place, record, stand, init, (order, &shown));
        document::note(&stand.folder.join("config.json"), &config)?;
        let mut command = muster_exec::command(&self.settings.tools.runc);
        command
            .arg("--root")
            .arg(self.runc_root())
            .arg("--log")
            .arg(stand.log())
            .args(["run", "--pid-file"])
            .arg(stand.pid_file())
            .arg("--bundle")
            .arg(&stand.folder)
            .arg(&stand.name)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().doing(|| format!("run a check beside {}", record.cell_id))
    }

    /// Mounts a `/proc` of the cell's processes. That needs a process in their namespace, and none of the cell's is used.
    fn mount_processes(&self, init: &Process, stand: &Stand) -> CellResult<()> {
        let target = stand.folder.join("proc");
        document::folder(&target, 0o755)?;
        let log = stand.folder.join("mount.log");
        let said = fs::File::create(&log).doing(|| format!("write {}", log.display()))?;
        let mut command = muster_exec::command(&self.settings.tools.nsenter);
        command
            .arg(format!("--pid=/proc/{}/ns/pid", init.pid))
            .arg(&self.settings.tools.mount)
            .args(["-t", "proc", "-o", "ro,nosuid,nodev,noexec", "proc"])
            .arg(&target)
            .stderr(said);
        tool::run(command, &log, || "mount the processes of a cell for a check".to_owned())?;
        // Verified afterwards: the PID was not reused before.
        if init.alive() { Ok(()) } else { refused("the cell is gone") }
    }

    /// Waits for the end of a check, and kills it on timeout.
    fn wait(
        &self,
        stand: &Stand,
        mut child: Child,
        (order, patience): (&ProbeOrder, &Patience<'_>),
    ) -> CellResult<Ran> {
        let doing = || format!("wait for {}", stand.name);
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let own = Instant::now() + Duration::from_secs(u64::from(order.timeout_seconds.max(1)));
        let until = own.min(patience.until());
        std::thread::scope(|scope| {
            let tail = |stream: Option<Box<dyn std::io::Read + Send>>| {
                scope.spawn(move || stream.map(|stream| Tail::read(stream, OUTPUT)).unwrap_or_default())
            };
            let stdout = tail(out.map(|stream| Box::new(stream) as Box<dyn std::io::Read + Send>));
            let stderr = tail(err.map(|stream| Box::new(stream) as Box<dyn std::io::Read + Send>));
            let mut timed_out = false;
            let status = loop {
                if let Some(status) = child.try_wait().doing(doing)? {
                    break status;
                }
                if Instant::now() >= until || (patience.given_up)() {
                    timed_out = true;
                    self.end(stand)?;
                    // The runtime's child, the check, has ended; it has nothing left to wait for.
                    let _ = child.kill();
                    break child.wait().doing(doing)?;
                }
                std::thread::sleep(PAUSE);
            };
            // Processes it left behind would keep its output open.
            self.end(stand)?;
            patience.check()?;
            let lost = |_| CellError::Refused("the thread that reads a check's output failed".to_owned());
            let (stdout, stderr) = (stdout.join().map_err(lost)?, stderr.join().map_err(lost)?);
            let truncated = stdout.is_cut() || stderr.is_cut();
            let (stdout, stderr) = (stdout.text(), stderr.text());
            if let Some(said) = unbegun(stand, &order.command[0], &stderr).filter(|_| !timed_out) {
                return Err(CellError::Tool { doing: format!("run the check {}", order.command[0]), said });
            }
            Ok(Ran {
                exit: if timed_out { 128 + 9 } else { status.code().unwrap_or(128 + 9) },
                truncated,
                stdout,
                stderr,
                timed_out,
            })
        })
    }

    /// Kills all processes in a check's group.
    fn end(&self, stand: &Stand) -> CellResult<()> {
        let since = Instant::now();
        loop {
            let left: Vec<Process> =
                self.layout.processes(&stand.group).into_iter().filter_map(Process::find).collect();
            if left.is_empty() {
                return Ok(());
            }
            if since.elapsed() > GONE {
                let said = format!("{} processes do not end", left.len());
                return Err(CellError::Tool { doing: format!("end {}", stand.name), said });
            }
            for process in left {
                process.signal(Signal::KILL);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Removes everything of a check, from any state.
    fn clear(&self, stand: &Stand) -> CellResult<()> {
        let _clearing = self.clearing.lock();
        self.end(stand)?;
        if self.runc_root().join(&stand.name).exists() {
            let mut command = muster_exec::command(&self.settings.tools.runc);
            command.arg("--root").arg(self.runc_root()).args(["delete", "--force"]).arg(&stand.name);
            // Anything it cannot delete is removed below.
            let _ = command.status();
            document::remove_folder(&self.runc_root().join(&stand.name))?;
        }
        self.layout.remove(&stand.group)?;
        root::unmount(&stand.folder)?;
        document::remove_folder(&stand.folder)?;
        // Fails if another check uses the folder.
        let _ = stand.folder.parent().map(fs::remove_dir);
        Ok(())
    }

    /// Removes checks beside a cell that a dead agent left, or that are running while the cell is destroyed.
    pub(crate) fn remove_checks(&self, cell: CellId) -> CellResult<()> {
        let Ok(entries) = fs::read_dir(self.place(cell).witnesses()) else { return Ok(()) };
        let Some(trace) = self.trace(cell)? else { return Ok(()) };
        for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            self.clear(&self.stand(trace.allocation_id, cell, &name))?;
        }
        Ok(())
    }
}

/// Returns the directories that a check mounts, parents first: those it names, and the directories in them that outlive the
/// cell, which are mounts of their own.
fn sees<'a>(record: &'a Record, order: &'a ProbeOrder) -> Vec<&'a str> {
    let within = |lasting: &&String| order.sees.iter().any(|seen| Path::new(lasting).starts_with(seen));
    let lasting = record.spec.state.iter().chain(&record.spec.shared).filter(within);
    let mut all: Vec<&str> = order.sees.iter().chain(lasting).map(String::as_str).collect();
    all.sort_unstable();
    all.dedup_by(|one, other| one.trim_end_matches('/') == other.trim_end_matches('/'));
    all
}

/// Mounts a directory of the cell read-only at `target`. Returns false if the cell has none there, which is no error: it may
/// appear later, or be removed.
///
/// It is found in the node's view of the cell's mounts, beneath its root and through no link at all: the cell controls its
/// links.
fn show(place: &Place, record: &Record, path: &str, target: &Path) -> CellResult<bool> {
    let doing = || format!("open {path} in the cell; a check uses directories, and follows no links to them");
    let lasting = place.lasting(record).into_iter();
    let lasting = lasting
        .filter(|(_, lasting)| Path::new(path).starts_with(lasting))
        .max_by_key(|(_, lasting)| lasting.len());
    let (mount, above) = lasting.unwrap_or_else(|| (place.rootfs(), "/"));
    let inside = Path::new(path).strip_prefix(above).unwrap_or(Path::new(path));
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mount = rustix::fs::openat(CWD, &mount, flags | OFlags::NOFOLLOW, Mode::empty()).doing(doing)?;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let folder: OwnedFd = match rustix::fs::openat2(&mount, inside, flags, Mode::empty(), beneath) {
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        opened => opened.doing(doing)?,
    };
    file::foreign(&folder, path)?;
    document::folder(target, 0o711)?;
    let clone =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = rustix::mount::open_tree(&folder, "", clone).doing(doing)?;
    let attributes =
        libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    mount_attr::set(tree.as_fd(), attributes, None).doing(doing)?;
    rustix::mount::move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .doing(doing)?;
    Ok(true)
}

/// Returns the configuration of a check's container.
fn config(
    place: &Place,
    record: &Record,
    stand: &Stand,
    init: &Process,
    (order, sees): (&ProbeOrder, &[&str]),
) -> Value {
    let joined =
        |kind: &str, file: &str| json!({ "type": kind, "path": format!("/proc/{}/ns/{file}", init.pid) });
    let own = |kind: &str| json!({ "type": kind });
    let bound = |source: &Path, target: &str| {
        let options = ["bind", "ro", "nosuid", "nodev", "noexec"];
        json!({ "destination": target, "type": "bind", "source": source, "options": options })
    };
    let memory = |target: &str, options: &[&str]| json!({ "destination": target, "type": "tmpfs", "source": "tmpfs", "options": options });
    let mut mounts = vec![
        bound(&stand.folder.join("proc"), "/proc"),
        memory("/dev", &["nosuid", "noexec", "mode=755", "size=64k"]),
        memory("/tmp", &["nosuid", "nodev", "noexec", "mode=1777", "size=16m"]),
    ];
    for (file, target) in bundle::etc_files(record) {
        mounts.push(bound(&place.etc(file), target));
    }
    mounts.extend(sees.iter().enumerate().map(|(number, path)| bound(&stand.seen(number), path)));
    let environment: Vec<String> =
        order.environment.iter().map(|(key, value)| format!("{key}={value}")).collect();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": order.uid, "gid": order.gid, "umask": 0o022 },
            "args": order.command,
            "env": environment,
            "cwd": "/",
            "capabilities": BTreeMap::<String, Vec<String>>::new(),
            "noNewPrivileges": true,
        },
        "root": { "path": stand.rootfs(), "readonly": true },
        "mounts": mounts,
        "linux": {
            "namespaces": [
                joined("pid", "pid"), joined("network", "net"), joined("uts", "uts"),
                own("user"), own("mount"), own("ipc"), own("cgroup"),
            ],
            "uidMappings": bundle::ids(record),
            "gidMappings": bundle::ids(record),
            "cgroupsPath": format!("/{}", stand.group),
            "resources": {
                "devices": [{ "allow": false, "access": "rwm" }],
                "memory": { "limit": stand.memory_mb << 20 },
                "pids": { "limit": PROCESSES },
                "cpu": { "quota": CPU_PERIOD, "period": CPU_PERIOD },
            },
            "seccomp": crate::seccomp::profile(),
            "maskedPaths": bundle::MASKED,
        },
    })
}

/// Returns the reason why the program may not have started, if any. The runtime exits with 1 when it fails, and so do many
/// programs that search for something: an ambiguous exit is no verdict.
fn unbegun(stand: &Stand, program: &str, stderr: &str) -> Option<String> {
    let log = stand.log();
    // The program's own output is not in that log.
    match fs::read_to_string(&log) {
        Err(error) => return Some(format!("{} cannot be read: {error}", log.display())),
        Ok(text) if text.lines().any(|line| line.contains("level=error") || line.contains("level=fatal")) => {
            return Some(tool::last_words(&log));
        }
        Ok(_) => {}
    }
    if process::pid_in(&stand.pid_file()).is_none() {
        return Some("the runtime ended before the program started, without a reason".to_owned());
    }
    // If the kernel rejects the program, the container's first process reports it on the program's standard error.
    let last = stderr.lines().next_back().unwrap_or_default();
    last.starts_with(&format!("exec {program}: ")).then(|| last.to_owned())
}

impl Cells {
    /// Returns the record of a cell if this incarnation of it is running.
    pub(crate) fn running_as(&self, cell: CellId, incarnation: i64) -> CellResult<std::sync::Arc<Record>> {
        let record = self.running(cell)?;
        if record.incarnation != incarnation {
            return refused(format!("{cell} has incarnation {}, not {incarnation}", record.incarnation));
        }
        // Its first process is in the recorded namespaces.
        let pid = record.init.as_ref().map_or(0, |init| init.pid);
        if process::namespace(pid, "pid") != record.namespaces.get("pid").copied() {
            return refused(format!("{cell} is gone"));
        }
        Ok(record)
    }
}
