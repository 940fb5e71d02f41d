//! A process started by a stream. Nothing of it outlives the stream.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getpgid, kill_process, kill_process_group, pidfd_open};

use super::descriptor::watched;

/// Grace period between the hangup and the kill.
const GRACE: Duration = Duration::from_secs(2);

/// A process.
pub struct Process {
    /// None after it was reaped.
    child: Option<Held>,
}

/// Kind of the child.
enum Held {
    Own(Child),
    /// A proxy for a process in a cell: killing only the proxy would leave that process alive.
    Attached(muster_cell::Attached),
}

impl Held {
    fn child(&mut self) -> &mut Child {
        match self {
            Self::Own(child) => child,
            Self::Attached(attached) => &mut attached.child,
        }
    }

    fn id(&self) -> u32 {
        match self {
            Self::Own(child) => child.id(),
            Self::Attached(attached) => attached.child.id(),
        }
    }

    /// Kills it, with the process it is a proxy for, and reaps it.
    fn kill_and_reap(self) {
        match self {
            Self::Own(mut child) => drop(child.wait()),
            Self::Attached(mut attached) => attached.kill(),
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("pid", &self.child.as_ref().map(Held::id)).finish()
    }
}

impl Process {
    /// Wraps a child, with its standard streams as pipes or a terminal.
    pub fn new(child: Child) -> Self {
        Self { child: Some(Held::Own(child)) }
    }

    /// Wraps a proxy for a process in a cell.
    pub(crate) fn attached(attached: muster_cell::Attached) -> Self {
        Self { child: Some(Held::Attached(attached)) }
    }

    pub(super) fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut().map(Held::child)
    }

    /// Waits for its end, and reaps it.
    pub(super) async fn ended(&mut self) -> std::io::Result<i32> {
        let gone = || std::io::Error::other("its end was already handled");
        let child = self.child().ok_or_else(gone)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let end = watched(pidfd_open(pid, PidfdFlags::empty())?)?;
        loop {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                return Ok(code(status));
            }
            end.readable().await?.clear_ready();
        }
    }

    /// Signals a terminal resize. The kernel signals only the terminal's own session.
    pub(super) fn resized(&self) {
        self.signal(Signal::WINCH, false);
    }

    /// Sends a hangup, and kills the process if it does not end.
    pub(super) async fn end(&mut self) {
        if self.child.is_none() {
            return;
        }
        self.signal(Signal::HUP, true);
        if tokio::time::timeout(GRACE, self.ended()).await.is_err() {
            self.kill();
            // Only a stuck kernel survives a kill, and nothing more can be done then.
            let _ = tokio::time::timeout(GRACE, self.ended()).await;
        }
    }

    fn kill(&mut self) {
        match &mut self.child {
            // The proxy ends with its process.
            Some(Held::Attached(attached)) => attached.kill(),
            _ => self.signal(Signal::KILL, true),
        }
    }

    /// Signals the process, or its whole group if it leads one.
    fn signal(&self, signal: Signal, group: bool) {
        let pid = self.child.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
        let Some(pid) = pid else { return };
        let leads = group && getpgid(Some(pid)).is_ok_and(|leader| leader == pid);
        // An ended process needs no signal.
        let _ = if leads { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }
}

impl Drop for Process {
    /// Kills the process, however the stream ends. A thread reaps it, so that no zombie is left.
    fn drop(&mut self) {
        if self.child.is_none() {
            return;
        }
        if matches!(self.child, Some(Held::Own(_))) {
            self.signal(Signal::KILL, true);
        }
        if let Some(held) = self.child.take() {
            let reap = move || held.kill_and_reap();
            let _ = std::thread::Builder::new().name("reaper".to_owned()).spawn(reap);
        }
    }
}

/// Returns the exit status as a shell does: 128 plus the signal number after a signal.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(255)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::Process;

    /// Starts a shell that leads its own group, and returns its `/proc` entry.
    fn shell(script: &str) -> (Process, PathBuf) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().unwrap();
        let entry = PathBuf::from(format!("/proc/{}", child.id()));
        (Process::new(child), entry)
    }

    fn gone(entry: &std::path::Path) -> bool {
        let began = Instant::now();
        while entry.exists() && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        !entry.exists()
    }

    #[tokio::test]
    async fn a_process_ends_with_its_status_and_leaves_no_entry() {
        let (mut process, entry) = shell("exit 7");
        assert_eq!(process.ended().await.unwrap(), 7);
        assert!(gone(&entry));
        let (mut process, _) = shell("kill -TERM $$");
        assert_eq!(process.ended().await.unwrap(), 128 + 15);
    }

    #[tokio::test]
    async fn a_process_is_hung_up_with_its_group_and_killed_if_it_does_not_go() {
        let (mut process, entry) = shell("sleep 100 & wait");
        let began = Instant::now();
        process.end().await;
        assert!(gone(&entry) && began.elapsed() < Duration::from_secs(1));
        let (mut process, entry) = shell("trap '' HUP; while :; do sleep 1; done");
        // The trap must be set first.
        tokio::time::sleep(Duration::from_millis(200)).await;
        process.end().await;
        assert!(gone(&entry));
    }

    #[tokio::test]
    async fn a_process_whose_stream_is_dropped_is_killed_and_reaped() {
        let (process, entry) = shell("trap '' HUP TERM; sleep 100");
        drop(process);
        assert!(gone(&entry));
    }
}
