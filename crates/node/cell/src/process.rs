//! Processes as reported by the kernel. A PID alone proves nothing: it may have been reused.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

/// Namespaces that each cell has of its own.
pub(crate) const NAMESPACES: &[&str] = &["user", "pid", "mnt", "uts", "ipc", "net", "cgroup"];

/// A process, identified by PID, start time and boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In ticks since the machine's start.
    pub(crate) started: u64,
    pub(crate) boot: String,
}

impl Process {
    /// Returns the process with this PID, unless it is dead.
    pub(crate) fn find(pid: u32) -> Option<Self> {
        let stat = stat(pid)?;
        (!stat.dead).then(|| Self { pid, started: stat.started, boot: boot() })
    }

    pub(crate) fn alive(&self) -> bool {
        Self::find(self.pid).as_ref() == Some(self)
    }

    /// Signals exactly this process, never one that reused its PID.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // Verified with the handle open: the PID cannot be reused from here on.
        self.alive() && rustix::process::pidfd_send_signal(&handle, signal).is_ok()
    }
}

/// Content of `/proc/PID/stat`.
pub(crate) struct Stat {
    pub(crate) dead: bool,
    pub(crate) parent: u32,
    pub(crate) started: u64,
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain blanks and brackets; the rest after the last bracket does not.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Returns the boot id of the machine.
pub(crate) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Returns the number of a namespace of a process.
pub(crate) fn namespace(pid: u32, kind: &str) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()?;
    link.to_str()?.split_once(":[")?.1.strip_suffix(']')?.parse().ok()
}

/// Returns the namespaces of a process that differ from ours.
pub(crate) fn namespaces(pid: u32) -> BTreeMap<String, u64> {
    let own = std::process::id();
    NAMESPACES
        .iter()
        .filter_map(|kind| {
            let number = namespace(pid, kind)?;
            (namespace(own, kind) != Some(number)).then(|| ((*kind).to_owned(), number))
        })
        .collect()
}

/// Returns the processes outside any other container in the namespace `kind` with this number.
///
/// The kernel reuses the number of a removed namespace. While one of a cell's is held open that is impossible, and the
/// result is exact. Later `until` helps: a process started after the cell's end cannot be a remnant of it.
pub(crate) fn holders(kind: &str, number: u64, until: Option<u64>) -> Vec<u32> {
    let own = std::process::id();
    let ours = namespace(own, "pid");
    all()
        .into_iter()
        .filter(|pid| *pid != own && namespace(*pid, kind) == Some(number))
        .filter(|pid| kind == "pid" || until.is_none() || namespace(*pid, "pid") == ours)
        .filter(|pid| until.is_none_or(|until| stat(*pid).is_some_and(|stat| stat.started <= until)))
        .collect()
}

/// Returns the uptime of the machine, in the ticks of process start times.
pub(crate) fn ticks() -> Option<u64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let (seconds, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?)
}

/// Lists every living process.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| stat(*pid).is_some_and(|stat| !stat.dead))
        .collect()
}

/// Returns the arguments of a process.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// Reads a PID from a file written by another program.
pub(crate) fn pid_in(path: &std::path::Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_another_start_is_another_process() {
        let me = Process::find(std::process::id()).unwrap();
        assert!(me.alive());
        assert!(!Process { started: me.started + 1, ..me.clone() }.alive());
        assert!(!Process { boot: "another".to_owned(), ..me }.alive());
    }

    #[test]
    fn a_signal_never_reaches_a_process_that_took_the_id() {
        let mut child = std::process::Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(!Process { started: process.started + 1, ..process.clone() }.signal(Signal::KILL));
        assert!(process.alive());
        assert!(process.signal(Signal::KILL));
        child.wait().unwrap();
        assert!(!process.signal(Signal::KILL));
    }
}
