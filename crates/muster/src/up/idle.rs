//! Waits until no process of an earlier `muster up` works in a data folder, however it ended.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use muster_agent::Folder;
use rustix::process::{Pid, Signal, kill_process};

/// A stopping agent ends within 15 seconds.
const AGENT_ENDS_WITHIN: Duration = Duration::from_secs(30);
/// A stopping server finishes its requests first.
const SERVER_ENDS_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until no agent works in the folder. The caller holds the lock of the nodes' folder, so a running agent has lost
/// its `muster up`, and is stopped.
pub(crate) async fn agent_ended(folder: &Folder) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let agents = agents_in(folder.path());
        // An agent holds the lock until its process ends. One that is just starting has no lock yet, hence both checks.
        let locked = match folder.lock() {
            Ok(_) if agents.is_empty() => return Ok(()),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if began.elapsed() > AGENT_ENDS_WITHIN {
            return match locked {
                Some(error) => Err(error.into()),
                None => bail!("processes {agents:?} run in {} and do not end", folder.path().display()),
            };
        }
        for pid in agents.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::TERM);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until no server uses the database of the data folder.
pub(crate) async fn server_ended(data: &Path) -> anyhow::Result<()> {
    let began = Instant::now();
    // Without the file no server ever ran here.
    while let Ok(lock) = File::open(data.join("muster.lock")) {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if began.elapsed() < SERVER_ENDS_WITHIN => {}
            Err(TryLockError::WouldBlock) => bail!("a server runs with {}: stop it first", data.display()),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Returns processes that run, or are about to run, an agent in this folder.
fn agents_in(folder: &Path) -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let runs =
        |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_agent_in(&line, folder));
    pids.filter(runs).collect()
}

fn is_agent_in(command_line: &[u8], folder: &Path) -> bool {
    let words: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    let pair = |first: &str, second: &OsStr| {
        words.windows(2).any(|pair| pair[0] == first.as_bytes() && pair[1] == second.as_bytes())
    };
    pair("agent", OsStr::new("run")) && pair("--data-dir", folder.as_os_str())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_agent_in;

    #[test]
    fn an_agent_is_known_by_its_command_line_also_before_it_is_one() {
        let line = |words: &str| words.replace(' ', "\0").into_bytes();
        let folder = Path::new("/d/nodes/n1");
        assert!(is_agent_in(&line("muster agent run --data-dir /d/nodes/n1 --driver cells"), folder));
        assert!(is_agent_in(&line("setpriv -- nsenter -- muster agent run --data-dir /d/nodes/n1"), folder));
        for other in [
            "muster agent run --data-dir /d/nodes/n10",
            "muster agent clean --data-dir /d/nodes/n1",
            "tail /d/nodes/n1/agent.log",
        ] {
            assert!(!is_agent_in(&line(other), folder), "{other}");
        }
    }
}
