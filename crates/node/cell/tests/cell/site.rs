//! A test node: its own folders, control group and range of ids, a tiny image, and cells that are removed at the end of the
//! test in any case.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use muster_cell::{
    Cells, CheckLimits, Command, DestroyOptions, Device, Limits, LogLimits, Made, Make, Patience, RootSource,
    Secret, Settings, Share, Streams, Tools,
};
use muster_ids::{AllocationId, CellId, Clock, SystemClock};
use muster_wire::cell::{CellFindings, CellSpec, ServiceFindings};
use serde_json::{Value, json};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A test node.
pub(crate) struct Site {
    pub(crate) cells: Cells,
    pub(crate) settings: Settings,
    pub(crate) folder: Folder,
    pub(crate) allocation: AllocationId,
    pub(crate) number: u32,
    /// Directory that its cells share with those of other nodes.
    pub(crate) share: Option<Share>,
}

/// Folder of a node.
pub(crate) enum Folder {
    /// Removed with the node.
    Own(tempfile::TempDir),
    /// Removed by its owner.
    Other(PathBuf),
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Other(folder) => folder,
        }
    }
}

/// Returns an id that no other test uses at the same time.
fn id(prefix: &str, first: u32, second: u32) -> String {
    format!("{prefix}_0{first:013}{second:012}")
}

impl Site {
    pub(crate) fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "the tests of cells make namespaces and mounts: run them as root"
        );
        let number = std::process::id() + 4_194_304 * COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
        image(&folder.path().join("image"));
        fs::create_dir(folder.path().join("storage")).unwrap();
        fs::set_permissions(folder.path().join("storage"), fs::Permissions::from_mode(0o700)).unwrap();
        Self::at(Folder::Own(folder), number)
    }

    /// Opens the node in this folder, which may belong to another process.
    pub(crate) fn at(folder: Folder, number: u32) -> Self {
        let settings = settings(folder.path(), number);
        let cells = Cells::open(settings.clone()).unwrap();
        let allocation: AllocationId = id("alc", number, 0).parse().unwrap();
        let site = Self { cells, settings, folder, allocation, number, share: None };
        site.cells.group_make(allocation, Limits::new(2, 256).unwrap()).unwrap();
        site
    }

    pub(crate) fn cell_id(&self, number: u32) -> CellId {
        id("cel", self.number, number).parse().unwrap()
    }

    pub(crate) fn storage(&self) -> PathBuf {
        self.folder.path().join("storage")
    }

    pub(crate) fn image(&self) -> RootSource {
        let folder = self.folder.path().join("image");
        let environment = vec!["PATH=/bin".to_owned(), "LD_PRELOAD=/evil.so".to_owned()];
        RootSource::Image { folder, environment, working_directory: None }
    }

    /// Creates a cell without starting it.
    pub(crate) fn make(&self, number: u32, spec: Value) -> Made {
        self.try_make(number, 1, spec, Vec::new()).unwrap()
    }

    pub(crate) fn try_make(
        &self,
        number: u32,
        incarnation: i64,
        spec: Value,
        devices: Vec<Device>,
    ) -> Result<Made, muster_cell::CellError> {
        self.try_make_with(number, incarnation, spec, devices, &[])
    }

    /// Like `try_make`, with secrets.
    pub(crate) fn try_make_with(
        &self,
        number: u32,
        incarnation: i64,
        spec: Value,
        devices: Vec<Device>,
        secrets: &[Secret<'_>],
    ) -> Result<Made, muster_cell::CellError> {
        let spec = spec_of(spec);
        self.cells.make(&Make {
            cell_id: self.cell_id(number),
            allocation_id: self.allocation,
            incarnation,
            name: &format!("cell-{number}"),
            spec: &spec,
            root: self.image(),
            storage: &self.storage(),
            share: self.share.clone(),
            devices,
            hosts: "127.0.0.1 localhost\n",
            secrets,
        })
    }

    /// Creates a cell and starts it.
    pub(crate) fn run(&self, number: u32, spec: Value) -> CellId {
        self.make(number, spec);
        self.cells.start(self.cell_id(number)).unwrap();
        self.cell_id(number)
    }

    /// Starts a cell in an allocation of its own.
    pub(crate) fn run_apart(&self, number: u32) -> CellId {
        let allocation_id: AllocationId = id("alc", self.number, number).parse().unwrap();
        self.cells.group_make(allocation_id, Limits::new(1, 64).unwrap()).unwrap();
        let (cell_id, spec) = (self.cell_id(number), spec_of(json!({})));
        let make = Make {
            cell_id,
            allocation_id,
            incarnation: 1,
            name: &format!("cell-{number}"),
            spec: &spec,
            root: self.image(),
            storage: &self.storage(),
            share: None,
            devices: Vec::new(),
            hosts: "127.0.0.1 localhost\n",
            secrets: &[],
        };
        self.cells.make(&make).unwrap();
        self.cells.start(cell_id).unwrap();
        cell_id
    }

    /// Runs a shell script in a cell as root; returns its exit status and output.
    pub(crate) fn shell(&self, cell: CellId, script: &str) -> (i32, String) {
        self.shell_as(cell, 0, script)
    }

    pub(crate) fn shell_as(&self, cell: CellId, uid: u32, script: &str) -> (i32, String) {
        self.whole(cell, &shell(uid, script))
    }

    /// Returns the exit status and output of a command.
    pub(crate) fn whole(&self, cell: CellId, command: &Command) -> (i32, String) {
        let mut attached = self.cells.exec(cell, command, Streams::Pipes).unwrap();
        drop(attached.child.stdin.take());
        let mut text = String::new();
        attached.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        attached.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (attached.child.wait().unwrap().code().unwrap_or(-1), text)
    }

    /// Returns the output of a script, which must succeed.
    pub(crate) fn say(&self, cell: CellId, script: &str) -> String {
        let (code, text) = self.shell(cell, script);
        assert_eq!(code, 0, "{script}: {text}");
        text.trim().to_owned()
    }

    /// Supervises until the observations of a cell satisfy `done`.
    pub(crate) fn until(&self, cell: CellId, done: impl Fn(&CellFindings) -> bool) -> CellFindings {
        let since = Instant::now();
        loop {
            let failed = self.cells.supervise(now());
            assert!(failed.is_empty(), "{failed:?}");
            let seen = self.cells.look(cell).unwrap();
            if done(&seen) {
                return seen;
            }
            assert!(since.elapsed() < Duration::from_secs(20), "{seen:#?}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Reopens the cells, like a restarted agent.
    pub(crate) fn reopen(&mut self) {
        self.cells = Cells::open(self.settings.clone()).unwrap();
    }

    pub(crate) fn destroy(&self, cell: CellId) {
        self.cells.destroy(cell, DestroyOptions { keep_state: false }).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for place in self.cells.list().unwrap_or_default() {
            let _ = self.cells.destroy(place.cell_id, DestroyOptions { keep_state: false });
            let _ = self.cells.group_remove(place.allocation_id);
        }
        let _ = self.cells.group_remove(self.allocation);
        let _ = self.cells.remove_own_groups();
        for hierarchy in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = fs::remove_dir(hierarchy.path().join(&self.settings.cgroup_root));
        }
        let _ = fs::remove_dir(Path::new("/sys/fs/cgroup").join(&self.settings.cgroup_root));
    }
}

/// Returns the settings of a test's cells.
pub(crate) fn settings(folder: &Path, number: u32) -> Settings {
    Settings {
        folder: folder.join("node"),
        run: folder.join("run"),
        cgroup_root: format!("muster-test-{number}"),
        checks: CheckLimits::new(2, 2_048).unwrap(),
        // Each test has eight ranges of its own, so that an id identifies the test of a process. All are below those of the
        // agent's tests and of `muster up`, which other suites start meanwhile.
        id_base: 524_288 * (1 + number % 1_900),
        tools: Tools::default(),
        logs: LogLimits { size: 4_096, count: 3 },
        reach: Arc::new(|_| {}),
    }
}

/// Returns the system time, which tests may use.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// Returns a timeout of `seconds`.
pub(crate) fn patience(seconds: u64) -> Patience<'static> {
    Patience { within: Duration::from_secs(seconds), now: &now, given_up: &|| false }
}

pub(crate) fn shell(uid: u32, script: &str) -> Command {
    Command {
        arguments: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        uid,
        gid: uid,
        environment: BTreeMap::new(),
        working_directory: None,
    }
}

pub(crate) fn spec_of(mut spec: Value) -> CellSpec {
    let whole = spec.as_object_mut().unwrap();
    whole.entry("root").or_insert(json!({ "image": "sha256:0" }));
    serde_json::from_value(spec).unwrap()
}

pub(crate) fn service<'a>(seen: &'a CellFindings, name: &str) -> &'a ServiceFindings {
    seen.services.iter().find(|service| service.name == name).unwrap()
}

/// Creates an image with busybox only.
fn image(folder: &Path) {
    for name in ["bin", "etc", "tmp", "var", "run"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::set_permissions(folder.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::copy("/bin/busybox", folder.join("bin/busybox"))
        .expect("the tests of cells need a static /bin/busybox");
    for name in [
        "sh", "ls", "cat", "id", "sleep", "stat", "touch", "mkdir", "mount", "dd", "nc", "httpd", "env",
        "pwd", "chmod", "chown", "ln", "hostname", "mknod", "echo", "test", "head", "readlink", "unshare",
        "ip", "seq", "true", "kill", "tty", "stty", "ps", "umount", "grep", "df",
    ] {
        symlink("busybox", folder.join("bin").join(name)).unwrap();
    }
    fs::write(folder.join("etc/passwd"), "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n").unwrap();
    fs::write(folder.join("etc/only-root"), "of the image\n").unwrap();
    fs::set_permissions(folder.join("etc/only-root"), fs::Permissions::from_mode(0o600)).unwrap();
}
