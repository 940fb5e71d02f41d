//! OCI runtime configuration of a cell's container and of its processes. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::check;
use crate::people;
use crate::range::SIZE;
use crate::record::{Place, Record, RootSource};
use crate::seccomp;
use crate::secret;
use crate::settings::Tools;

/// Capabilities of root in a cell. Ordinary daemons change owners and users, stop their children and listen at low ports;
/// sshd chroots its network-facing part into an empty directory. None of them reaches out of the cell's user namespace. Raw
/// sockets, device nodes and file capabilities are not included.
const CAPABILITIES: &[&str] = &[
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Path of a cell's first process in the cell.
pub(crate) const INIT: &str = "/run/muster/init";

pub(crate) const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

const READ_ONLY: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// A process to run in a cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Started<'a> {
    pub(crate) arguments: &'a [String],
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) environment: Option<&'a BTreeMap<String, String>>,
    pub(crate) working_directory: Option<&'a str>,
    pub(crate) terminal: bool,
}

/// Returns the description of a process in a cell.
pub(crate) fn process(record: &Record, started: &Started<'_>) -> Value {
    // Capabilities come with root: no other user has any, now or through another program.
    let held: &[&str] = if started.uid == 0 { CAPABILITIES } else { &[] };
    json!({
        "terminal": started.terminal,
        "user": { "uid": started.uid, "gid": started.gid, "umask": 0o022 },
        "args": started.arguments,
        "env": environment(record, started.environment, started.terminal),
        "cwd": started.working_directory.unwrap_or_else(|| home(record)),
        "capabilities": { "bounding": CAPABILITIES, "effective": held, "permitted": held },
        "noNewPrivileges": true,
    })
}

/// Returns the default working directory: the image's, if valid.
fn home(record: &Record) -> &str {
    match &record.root {
        RootSource::Image { working_directory: Some(directory), .. }
            if check::working_directory(directory).is_ok() =>
        {
            directory
        }
        _ => "/",
    }
}

/// Merges the environments: the image's, overridden by the cell's, overridden by the process's own.
fn environment(record: &Record, own: Option<&BTreeMap<String, String>>, terminal: bool) -> Vec<String> {
    let mut all: BTreeMap<&str, &str> = BTreeMap::new();
    let image: &[String] = match &record.root {
        RootSource::Image { environment, .. } => environment,
        RootSource::Host { .. } => &[],
    };
    let first = [PATH, if terminal { "TERM=xterm" } else { "LANG=C.UTF-8" }];
    all.extend(first.iter().filter_map(|pair| pair.split_once('=')));
    all.extend(image.iter().filter(|pair| !pair.contains('\0')).filter_map(|pair| pair.split_once('=')));
    all.extend(record.spec.environment.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    all.extend(own.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())));
    all.iter().filter(|(key, _)| !key.is_empty()).map(|(key, value)| format!("{key}={value}")).collect()
}

/// Returns the platform's files in `/etc`, and their paths in the cell.
pub(crate) fn etc_files(record: &Record) -> Vec<(&'static str, &'static str)> {
    let mut files =
        vec![("hosts", "/etc/hosts"), ("hostname", "/etc/hostname"), ("resolv.conf", "/etc/resolv.conf")];
    if record.spec.people {
        files.extend(people::PLACES);
    }
    files
}

/// Returns the mapping of the cell's ids to the node's.
pub(crate) fn ids(record: &Record) -> Value {
    json!([{ "containerID": 0, "hostID": record.ids, "size": SIZE }])
}

/// Returns the configuration of the container.
pub(crate) fn config(tools: &Tools, place: &Place, record: &Record, group: &str) -> Value {
    let init = [INIT.to_owned(), "-P".to_owned()];
    let first = Started { arguments: &init, working_directory: Some("/"), ..Started::default() };
    let ids = ids(record);
    let namespaces: Vec<Value> = ["user", "pid", "mount", "uts", "ipc", "network", "cgroup"]
        .iter()
        .map(|kind| json!({ "type": kind }))
        .collect();
    json!({
        "ociVersion": "1.0.2",
        "hostname": record.name,
        "process": process(record, &first),
        "root": { "path": place.rootfs(), "readonly": false },
        "mounts": mounts(tools, place, record),
        "linux": {
            "namespaces": namespaces,
            "uidMappings": ids,
            "gidMappings": ids,
            "cgroupsPath": format!("/{group}"),
            "resources": { "devices": devices(record) },
            "seccomp": seccomp::profile(),
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
    })
}

/// Denies all devices except the listed ones. The runtime adds the harmless ones (null, zero, full, random, urandom, tty,
/// ptmx).
fn devices(record: &Record) -> Vec<Value> {
    let mut rules = vec![json!({ "allow": false, "access": "rwm" })];
    rules.extend(record.devices.iter().map(|device| {
        json!({ "allow": true, "type": "c", "major": device.major, "minor": device.minor, "access": "rw" })
    }));
    rules
}

fn mounts(tools: &Tools, place: &Place, record: &Record) -> Vec<Value> {
    let made = |target: &str, kind: &str, options: &[&str]| json!({ "destination": target, "type": kind, "source": kind, "options": options });
    let bound = |source: &std::path::Path, target: &str, options: &[&str]| {
        let options: Vec<&str> = ["bind"].iter().chain(options).copied().collect();
        json!({ "destination": target, "type": "bind", "source": source, "options": options })
    };
    let mut mounts = vec![
        made("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        made("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        made(
            "/dev/pts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        made("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777"]),
        made("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        made("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        made("/sys/fs/cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]),
        bound(&tools.init, INIT, &["ro", "nosuid", "nodev"]),
    ];
    for (file, target) in etc_files(record) {
        mounts.push(bound(&place.etc(file), target, &["ro", "nosuid", "nodev", "noexec"]));
    }
    for (source, target) in place.lasting(record) {
        mounts.push(bound(&source, target, &["rw", "nosuid", "nodev"]));
    }
    // After the others, so that none of them can hide it.
    mounts.push(bound(&place.secrets(), secret::TARGET, &["ro", "nosuid", "nodev", "noexec"]));
    for device in &record.devices {
        mounts.push(bound(&device.source, &device.target, &["nosuid", "noexec"]));
    }
    mounts
}
