//! Control groups v1 and v2. An allocation has a group with its limits; each of its cells has a group below it.

use std::fs;
use std::io::ErrorKind;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{CellResult, Doing, refused};

/// Resource limits shared by the cells of an allocation. "No limit" cannot be expressed: an allocation of nothing would
/// otherwise be one of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    cpus: NonZeroU32,
    memory_mb: NonZeroU64,
}

impl Limits {
    /// Returns limits in logical CPUs and MiB of memory; fails on zero.
    pub fn new(cpus: u32, memory_mb: u64) -> CellResult<Self> {
        match (NonZeroU32::new(cpus), NonZeroU64::new(memory_mb)) {
            (Some(cpus), Some(memory_mb)) => Ok(Self { cpus, memory_mb }),
            (None, _) => refused("an allocation needs at least 1 CPU"),
            (_, None) => refused("an allocation needs at least 1 MiB of memory"),
        }
    }
}

/// The kernel's values for the group of an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFindings {
    /// Whether the group exists.
    pub present: bool,
    /// CPU limit in thousandths of a CPU; none if unlimited.
    pub millicpus: Option<u64>,
    /// Memory limit in bytes; none if unlimited.
    pub memory: Option<u64>,
    /// Used memory in bytes, without file pages that the kernel can drop.
    pub memory_used: u64,
    /// Process limit; none if unlimited.
    pub processes: Option<u64>,
}

const PERIOD: u64 = 100_000;
/// Limit of memory and swap together, version 1.
const MEMORY_AND_SWAP: &str = "memory.memsw.limit_in_bytes";

/// Low enough that a fork bomb does not starve the node, high enough for a busy daemon.
fn most_processes(limits: Limits) -> u64 {
    (u64::from(limits.cpus.get()) * 2_048).clamp(4_096, 262_144)
}

/// The control group hierarchies of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// v1: one hierarchy per controller, perhaps with a v2 mount beside them that limits nothing.
    Split {
        controllers: Vec<(String, PathBuf)>,
        others: Vec<PathBuf>,
    },
    Unified(PathBuf),
}

/// Returns a number from `memory.stat`.
fn stated(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

impl Layout {
    pub(crate) fn detect() -> CellResult<Self> {
        let text =
            fs::read_to_string("/proc/self/mountinfo").doing(|| "read the list of mounts".to_owned())?;
        Self::parse(&text)
    }

    fn parse(mountinfo: &str) -> CellResult<Self> {
        let (mut controllers, mut unified) = (Vec::new(), Vec::new());
        for line in mountinfo.lines() {
            let Some((mount, source)) = line.split_once(" - ") else { continue };
            let Some(point) = mount.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut source = source.split(' ');
            match source.next() {
                Some("cgroup") => {
                    let options = source.nth(1).unwrap_or_default();
                    for option in
                        options.split(',').filter(|option| !matches!(*option, "rw" | "ro" | "xattr"))
                    {
                        controllers.push((option.to_owned(), point.clone()));
                    }
                }
                Some("cgroup2") => unified.push(point),
                _ => {}
            }
        }
        if ["cpu", "memory", "pids"].iter().all(|wanted| controllers.iter().any(|(name, _)| name == wanted)) {
            return Ok(Self::Split { controllers, others: unified });
        }
        match unified.into_iter().next() {
            Some(point) => Ok(Self::Unified(point)),
            None => refused("no control groups are mounted on this node; mount cgroup2 at /sys/fs/cgroup"),
        }
    }

    /// Returns every hierarchy, with or without limits.
    pub(crate) fn mounts(&self) -> Vec<&Path> {
        let mut mounts: Vec<&Path> = match self {
            Self::Split { controllers, others } => controllers
                .iter()
                .map(|(_, path)| path.as_path())
                .chain(others.iter().map(PathBuf::as_path))
                .collect(),
            Self::Unified(path) => vec![path],
        };
        mounts.sort();
        mounts.dedup();
        mounts
    }

    /// Returns the folder of `group` in the hierarchy of `controller`.
    pub(crate) fn folder(&self, controller: &str, group: &str) -> Option<PathBuf> {
        match self {
            Self::Unified(mount) => Some(mount.join(group)),
            Self::Split { controllers, .. } => {
                controllers.iter().find(|(name, _)| name == controller).map(|(_, mount)| mount.join(group))
            }
        }
    }

    /// Returns the file writes that set these limits on `group`.
    fn writes(&self, group: &str, limits: Limits) -> Vec<(PathBuf, String)> {
        let quota = u64::from(limits.cpus.get()) * PERIOD;
        let memory = limits.memory_mb.get() << 20;
        let values = match self {
            Self::Unified(_) => vec![
                ("cpu", "cpu.max", format!("{} {PERIOD}", quota)),
                ("memory", "memory.max", memory.to_string()),
                ("memory", "memory.swap.max", "0".to_owned()),
                ("pids", "pids.max", most_processes(limits).to_string()),
            ],
            Self::Split { .. } => vec![
                ("cpu", "cpu.cfs_period_us", PERIOD.to_string()),
                ("cpu", "cpu.cfs_quota_us", quota.to_string()),
                ("memory", "memory.limit_in_bytes", memory.to_string()),
                // Memory and swap together: with the same value there is no swap.
                ("memory", MEMORY_AND_SWAP, memory.to_string()),
                ("pids", "pids.max", most_processes(limits).to_string()),
            ],
        };
        values
            .into_iter()
            .filter_map(|(controller, file, value)| Some((self.folder(controller, group)?.join(file), value)))
            .collect()
    }

    /// Creates `group` with these limits, or updates them.
    pub(crate) fn make(&self, group: &str, limits: Limits) -> CellResult<()> {
        for mount in self.mounts() {
            let mut folder = mount.to_path_buf();
            for part in group.split('/') {
                self.delegate(&folder)?;
                let parent = folder.clone();
                folder.push(part);
                match fs::create_dir(&folder) {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                        return Err(error).doing(|| format!("create the control group {}", folder.display()));
                    }
                    _ => inherit_cpus(&parent, &folder)?,
                }
            }
            self.delegate(&folder)?;
        }
        for (file, value) in in_order_of_swap(self.writes(group, limits)) {
            // A kernel without swap accounting has no such file, and nothing to limit.
            let is_of_swap = file.ends_with("memory.swap.max") || file.ends_with(MEMORY_AND_SWAP);
            if is_of_swap && !file.exists() {
                continue;
            }
            fs::write(&file, &value).doing(|| format!("write {value} to {}", file.display()))?;
        }
        Ok(())
    }

    /// Enables controllers for the groups below `folder`, which v2 requires.
    fn delegate(&self, folder: &Path) -> CellResult<()> {
        let Self::Unified(_) = self else { return Ok(()) };
        let there = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        for (controller, needed) in
            [("cpu", true), ("memory", true), ("pids", true), ("cpuset", false), ("io", false)]
        {
            if there.split_whitespace().any(|name| name == controller) {
                let file = folder.join("cgroup.subtree_control");
                let result = fs::write(&file, format!("+{controller}"));
                // Our limits do not need the others; cells may use them if the machine allows it.
                if needed {
                    result.doing(|| format!("write +{controller} to {}", file.display()))?;
                }
            }
        }
        Ok(())
    }

    /// Revokes rules that runc adds to every container: creating device nodes, and tunnels. In v2 runc owns the list, and a
    /// cell can neither create a node nor find one.
    pub(crate) fn deny_extra_devices(&self, group: &str) -> CellResult<()> {
        let Self::Split { .. } = self else { return Ok(()) };
        let Some(folder) = self.folder("devices", group) else { return Ok(()) };
        let file = folder.join("devices.deny");
        for rule in ["b *:* m", "c *:* m", "c 10:200 rwm"] {
            fs::write(&file, rule).doing(|| format!("deny the devices {rule} to {}", folder.display()))?;
        }
        Ok(())
    }

    /// Returns the devices that `group` may open; none if the kernel does not report them, as in v2.
    pub(crate) fn device_rules(&self, group: &str) -> Option<Vec<String>> {
        let Self::Split { .. } = self else { return None };
        let text = fs::read_to_string(self.folder("devices", group)?.join("devices.list")).ok()?;
        Some(text.lines().map(str::to_owned).collect())
    }

    /// Returns the kernel's current values for `group`.
    pub(crate) fn look(&self, group: &str) -> GroupFindings {
        let read = |controller: &str, file: &str| -> Option<String> {
            fs::read_to_string(self.folder(controller, group)?.join(file))
                .ok()
                .map(|text| text.trim().to_owned())
        };
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
        let present = self.mounts().iter().any(|mount| mount.join(group).is_dir());
        let (quota, memory, used) = match self {
            Self::Unified(_) => {
                let quota = read("cpu", "cpu.max").and_then(|text| text.split(' ').next()?.parse().ok());
                (quota, number(read("memory", "memory.max")), read("memory", "memory.current"))
            }
            Self::Split { .. } => {
                // In v1 the largest page-aligned number means "no limit".
                let memory = number(read("memory", "memory.limit_in_bytes")).filter(|bytes| *bytes < 1 << 60);
                (number(read("cpu", "cpu.cfs_quota_us")), memory, read("memory", "memory.usage_in_bytes"))
            }
        };
        let droppable: u64 = match self {
            Self::Unified(_) => ["inactive_file", "active_file"],
            Self::Split { .. } => ["total_inactive_file", "total_active_file"],
        }
        .iter()
        .filter_map(|name| stated(&read("memory", "memory.stat")?, name))
        .sum();
        GroupFindings {
            present,
            millicpus: quota.map(|quota| quota * 1_000 / PERIOD),
            memory,
            memory_used: number(used).unwrap_or_default().saturating_sub(droppable),
            processes: number(read("pids", "pids.max")),
        }
    }

    /// Returns the processes in `group` and below it.
    pub(crate) fn processes(&self, group: &str) -> Vec<u32> {
        let mut pids: Vec<u32> = Vec::new();
        for mount in self.mounts() {
            for folder in below(&mount.join(group)) {
                let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            }
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Removes `group` and those below it, deepest first.
    pub(crate) fn remove(&self, group: &str) -> CellResult<()> {
        self.mounts().iter().try_for_each(|mount| self.remove_folder(&mount.join(group)))
    }

    /// Removes a group of one hierarchy and those below it. Retries, because the last process may need a moment to leave.
    pub(crate) fn remove_folder(&self, folder: &Path) -> CellResult<()> {
        let since = Instant::now();
        for folder in below(folder).into_iter().rev() {
            loop {
                match fs::remove_dir(&folder) {
                    Ok(()) => break,
                    Err(error) if error.kind() == ErrorKind::NotFound => break,
                    Err(_) if since.elapsed() < Duration::from_secs(3) => {
                        std::thread::sleep(Duration::from_millis(5))
                    }
                    Err(error) => {
                        return Err(error).doing(|| format!("remove the control group {}", folder.display()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns every folder named `name` below `root`, in every hierarchy.
    pub(crate) fn find(&self, root: &str, name: &str) -> Vec<PathBuf> {
        let all = self.mounts().into_iter().flat_map(|mount| below(&mount.join(root)));
        all.filter(|folder| folder.file_name().is_some_and(|last| last == name)).collect()
    }
}

/// Returns `folder` and all folders below it, parents first.
fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut all = vec![folder.to_path_buf()];
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        all.extend(below(&entry.path()));
    }
    all
}

/// Copies the parent's CPUs: in v1 a new cpuset is empty, and nothing can run in it.
fn inherit_cpus(parent: &Path, folder: &Path) -> CellResult<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let Ok(now) = fs::read_to_string(folder.join(file)) else { continue };
        // In v2 an empty cpuset inherits the parent's, and the root has no such file.
        let Ok(above) = fs::read_to_string(parent.join(file)) else { continue };
        if now.trim().is_empty() && !above.trim().is_empty() {
            fs::write(folder.join(file), above.trim())
                .doing(|| format!("write {} of {}", file, folder.display()))?;
        }
    }
    Ok(())
}

/// The kernel keeps the limit of memory below that of memory and swap together, so a higher one of both is written first.
fn in_order_of_swap(mut writes: Vec<(PathBuf, String)>) -> Vec<(PathBuf, String)> {
    let Some(at) = writes.iter().position(|(file, _)| file.ends_with(MEMORY_AND_SWAP)) else { return writes };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (file, value) = &writes[at];
    let current = fs::read_to_string(file).ok().and_then(|text| number(&text));
    if at > 0 && current < number(value) {
        writes.swap(at - 1, at);
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPLIT: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_version_2_mount_beside_controllers_of_version_1_confuses_nobody() {
        let layout = Layout::parse(SPLIT).unwrap();
        assert_eq!(layout.folder("cpuacct", "a"), Some("/sys/fs/cgroup/cpu/a".into()));
        assert_eq!(layout.folder("hugetlb", "a"), None);
        assert_eq!(layout.mounts().len(), 4);
    }

    #[test]
    fn a_machine_with_version_2_alone_gets_the_files_of_version_2() {
        let layout =
            Layout::parse("29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n").unwrap();
        assert_eq!(layout, Layout::Unified("/sys/fs/cgroup".into()));
        let writes = layout.writes("m/a", Limits::new(2, 64).unwrap());
        assert_eq!(writes[0], ("/sys/fs/cgroup/m/a/cpu.max".into(), "200000 100000".to_owned()));
        assert_eq!(writes[1], ("/sys/fs/cgroup/m/a/memory.max".into(), "67108864".to_owned()));
    }

    #[test]
    fn on_version_1_memory_and_swap_have_one_limit_where_the_kernel_counts_swap() {
        let folder = tempfile::tempdir().unwrap();
        let controllers = ["cpu", "memory", "pids"].map(|name| (name.to_owned(), folder.path().join(name)));
        for (_, mount) in &controllers {
            fs::create_dir(mount).unwrap();
        }
        let layout = Layout::Split { controllers: controllers.to_vec(), others: Vec::new() };
        let memory = folder.path().join("memory/g");
        let read = |file: &str| fs::read_to_string(memory.join(file)).ok();
        layout.make("g", Limits::new(1, 32).unwrap()).unwrap();
        assert_eq!(read(MEMORY_AND_SWAP), None, "a kernel without swap accounting");
        fs::write(memory.join(MEMORY_AND_SWAP), "9223372036854771712\n").unwrap();
        layout.make("g", Limits::new(1, 32).unwrap()).unwrap();
        assert_eq!(read(MEMORY_AND_SWAP).unwrap(), (32_u64 << 20).to_string());
        // A higher limit of both is written first, a lower one last.
        let order = |memory_mb: u64| {
            let writes = in_order_of_swap(layout.writes("g", Limits::new(1, memory_mb).unwrap()));
            writes.iter().position(|(file, _)| file.ends_with(MEMORY_AND_SWAP)).unwrap()
        };
        assert_eq!((order(16), order(64)), (3, 2));
    }

    #[test]
    fn limits_of_nothing_are_refused_and_never_mean_no_limit() {
        for (cpus, memory_mb) in [(0, 64), (1, 0), (0, 0)] {
            assert!(Limits::new(cpus, memory_mb).is_err(), "{cpus} CPUs, {memory_mb} MiB");
        }
    }

    #[test]
    fn version_2_group_is_read_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::Unified(folder.path().to_path_buf());
        assert!(!layout.look("g").present);
        layout.make("g", Limits::new(3, 10).unwrap()).unwrap();
        let seen = layout.look("g");
        assert!(seen.present);
        assert_eq!((seen.millicpus, seen.memory, seen.processes), (Some(3_000), Some(10 << 20), Some(6_144)));
    }

    #[test]
    fn on_this_machines_kernel_a_group_is_made_limited_seen_and_removed() {
        struct Made(Layout, String);
        impl Drop for Made {
            fn drop(&mut self) {
                let _ = self.0.remove(&self.1);
            }
        }
        let made = Made(Layout::detect().unwrap(), format!("muster-unit-{}", std::process::id()));
        let (layout, group) = (&made.0, format!("{}/inner", made.1));
        layout.make(&group, Limits::new(1, 32).unwrap()).expect("run the tests of cells as root");
        layout.make(&group, Limits::new(2, 64).unwrap()).unwrap();
        let seen = layout.look(&group);
        assert_eq!((seen.present, seen.millicpus, seen.memory), (true, Some(2_000), Some(64 << 20)));
        let both = layout.folder("memory", &group).unwrap().join(MEMORY_AND_SWAP);
        assert!(!both.exists() || fs::read_to_string(both).unwrap().trim() == (64 << 20).to_string());
        let mut child = std::process::Command::new("/bin/sleep").arg("60").spawn().unwrap();
        // Like a cell's own group: in v2 a group with controllers for children has no processes itself.
        let leaf = layout.folder("pids", &group).unwrap().join("leaf");
        fs::create_dir(&leaf).unwrap();
        fs::write(leaf.join("cgroup.procs"), child.id().to_string()).unwrap();
        assert_eq!(layout.processes(&made.1), vec![child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!layout.find(&made.1, "inner").is_empty());
        layout.remove(&made.1).unwrap();
        assert!(!layout.look(&made.1).present);
    }

    #[test]
    fn no_control_groups_at_all_is_said_in_a_sentence() {
        assert!(Layout::parse("").unwrap_err().to_string().contains("mount cgroup2"));
    }
}
