//! Settings for the cells of a node.

use std::path::PathBuf;
use std::sync::Arc;

use crate::check_limits::CheckLimits;
use crate::error::{CellError, CellResult, refused};
use muster_exec::{PATH, Required};

/// Callback for each point of [`POINTS`]; a test can end the process there.
pub type Reach = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Every crash point of creating and destroying a cell, in order.
pub const POINTS: &[&str] = &[
    "cell_create:range-taken",
    "cell_create:recorded",
    "cell_create:root-mounted",
    "cell_create:bundle-written",
    "cell_create:container-created",
    "cell_create:secrets-written",
    "cell_create:made",
    "cell_create:started",
    "cell_destroy:recorded",
    "cell_destroy:services-stopped",
    "cell_destroy:container-deleted",
    "cell_destroy:monitors-gone",
    "cell_destroy:groups-removed",
    "cell_destroy:unmounted",
    "cell_destroy:folders-removed",
    "cell_destroy:range-freed",
    "cell_destroy:forgotten",
];

/// Settings for the cells of a node.
#[derive(Clone)]
pub struct Settings {
    /// Directory that survives a reboot: records, logs, exit statuses. Readable by root only.
    pub folder: PathBuf,
    /// Directory that need not survive one: bundles and mount points. Cells may traverse but not list it.
    pub run: PathBuf,
    /// Parent control group of the allocations, such as `muster/node-1`.
    pub cgroup_root: String,
    /// Limits of all checks on the node together.
    pub checks: CheckLimits,
    /// First id of the node for cells. The first 65536 own files at rest; cells take the following ranges.
    pub id_base: u32,
    /// Required programs.
    pub tools: Tools,
    /// Log limits of services.
    pub logs: LogLimits,
    /// Callback for each point of [`POINTS`].
    pub reach: Reach,
}

/// Paths of the required programs.
#[derive(Debug, Clone)]
pub struct Tools {
    /// Creates containers.
    pub runc: PathBuf,
    /// Monitors each service, and keeps its output and exit status.
    pub conmon: PathBuf,
    /// Static program that is the first process of each cell and reaps orphans.
    pub init: PathBuf,
    /// Creates user namespaces for id-mapped mounts.
    pub unshare: PathBuf,
    /// Runs until its input ends, to hold such a namespace for a moment.
    pub cat: PathBuf,
    /// Enters a cell's PID namespace, to mount its `/proc` for a check.
    pub nsenter: PathBuf,
    /// Mounts it.
    pub mount: PathBuf,
}

/// Required programs: name, Debian package, purpose.
pub const PROGRAMS: &[Required] = &[
    ("runc", "runc", "creates cells"),
    ("conmon", "conmon", "watches services of cells, also while no agent runs"),
    ("catatonit", "catatonit", "is the first process of every cell"),
    ("unshare", "util-linux", "creates namespaces"),
    ("cat", "coreutils", "holds a namespace for a moment"),
    ("nsenter", "util-linux", "enters namespaces"),
    ("mount", "mount", "mounts the process list of a check"),
];

impl Default for Tools {
    /// Returns the programs on the search path.
    fn default() -> Self {
        let find = |name: &str| {
            let places = PATH.split(':').map(|folder| PathBuf::from(folder).join(name));
            places
                .into_iter()
                .find(|path| path.is_file())
                .unwrap_or_else(|| PathBuf::from("/usr/bin").join(name))
        };
        Self {
            runc: find("runc"),
            conmon: find("conmon"),
            init: find("catatonit"),
            unshare: find("unshare"),
            cat: find("cat"),
            nsenter: find("nsenter"),
            mount: find("mount"),
        }
    }
}

/// Log limits of a service.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    /// Size in bytes at which a log is rotated.
    pub size: u64,
    /// Number of rotated files kept.
    pub count: u32,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { size: 8 << 20, count: 4 }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> CellResult<()> {
        if !rustix::process::geteuid().is_root() {
            return refused("cells need root: they are made of namespaces, mounts and control groups");
        }
        let tools = &self.tools;
        for (path, package) in [
            (&tools.runc, "runc"),
            (&tools.conmon, "conmon"),
            (&tools.init, "catatonit"),
            (&tools.unshare, "util-linux"),
            (&tools.cat, "coreutils"),
            (&tools.nsenter, "util-linux"),
            (&tools.mount, "mount"),
        ] {
            if !path.is_absolute() || !path.is_file() {
                return Err(CellError::NoTool { path: path.clone(), package });
            }
        }
        for path in [&self.folder, &self.run] {
            if !path.is_absolute() {
                return refused(format!("{} must be an absolute path", path.display()));
            }
            // The monitor parses a prefix before a colon as a log driver.
            if path.to_str().is_none_or(|text| text.contains(':')) {
                return refused(format!("{} must be plain text without a colon", path.display()));
            }
        }
        if self.cgroup_root.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
            return refused(format!(
                "'{}' is not the path of a control group; use something like muster/node-1",
                self.cgroup_root
            ));
        }
        if self.id_base < 65_536 {
            return refused(
                "the first id of cells must be 65536 or more, or a cell's root would be a user of the node",
            );
        }
        Ok(())
    }
}
