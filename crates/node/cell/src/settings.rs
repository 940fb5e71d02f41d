//! What the agent says about cells on its node.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{CellError, CellResult, refused};
use crate::tool::PATH;

/// Called with the name of each point of [`POINTS`] as it is reached; a test can end the process there.
pub type Reach = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Every point that making and destroying a cell passes, in order.
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

/// Where and how cells live on a node.
#[derive(Clone)]
pub struct Settings {
    /// What must survive a restart of the machine: records, logs, exit statuses. Only root may look into it.
    pub folder: PathBuf,
    /// What need not: bundles and mount points. Cells may pass through it, and find nothing they can list.
    pub run: PathBuf,
    /// Under which control group the groups of allocations are made, like `muster/node-1`.
    pub cgroup_root: String,
    /// The first id of the node's that cells use. The first 65536 from here own files at rest; cells take the ranges after it.
    pub id_base: u32,
    /// The programs that cells need.
    pub tools: Tools,
    /// How much of a service's output is kept.
    pub logs: LogLimits,
    /// Called at each point of [`POINTS`].
    pub reach: Reach,
}

/// The programs that cells need, by their paths.
#[derive(Debug, Clone)]
pub struct Tools {
    /// Makes containers.
    pub runc: PathBuf,
    /// Stays with each service, keeps its output and its exit status.
    pub conmon: PathBuf,
    /// A static program that is the first process of each cell and reaps the orphans.
    pub init: PathBuf,
    /// Makes the user namespaces that identity-mapped mounts are made with.
    pub unshare: PathBuf,
    /// Something that lives until its input ends, to hold such a namespace for a moment.
    pub cat: PathBuf,
    /// Goes among a cell's processes, to mount a list of them for a check.
    pub nsenter: PathBuf,
    /// Mounts it.
    pub mount: PathBuf,
}

/// The programs that cells need: name, package of Debian, purpose.
pub const PROGRAMS: &[(&str, &str, &str)] = &[
    ("runc", "runc", "makes cells"),
    ("conmon", "conmon", "watches services of cells, also while no agent runs"),
    ("catatonit", "catatonit", "is the first process of every cell"),
    ("unshare", "util-linux", "makes namespaces"),
    ("cat", "coreutils", "holds a namespace for a moment"),
    ("nsenter", "util-linux", "enters namespaces"),
    ("mount", "mount", "mounts the process list of a check"),
];

impl Default for Tools {
    /// Each where the search path has it.
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

/// How much of a service's output is kept.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    /// A log longer than this is put aside, in bytes.
    pub size: u64,
    /// How many that were put aside are kept.
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
            // The monitor takes what stands before a colon for the name of a way to log.
            if path.to_str().is_none_or(|text| text.contains(':')) {
                return refused(format!("{} must be plain text without a colon", path.display()));
            }
        }
        if self.cgroup_root.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
            return refused(format!(
                "'{}' is no path of a control group; say something like muster/node-1",
                self.cgroup_root
            ));
        }
        if self.id_base < 65_536 {
            return refused(
                "the first id of cells must be 65536 or more, or a cell's root would be somebody on the node",
            );
        }
        Ok(())
    }
}
