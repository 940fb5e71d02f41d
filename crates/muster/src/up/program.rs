//! System programs that create and remove network namespaces and links.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Search path for programs, independent of the environment.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Programs that nodes on one machine need beside those of agents: name, Debian package, purpose.
pub(crate) const PROGRAMS: &[(&str, &str, &str)] = &[
    ("setpriv", "util-linux", "ties agents to `muster up`"),
    ("nsenter", "util-linux", "enters namespaces"),
    ("unshare", "util-linux", "creates namespaces"),
    ("ip", "iproute2", "creates links"),
    ("umount", "mount", "removes namespaces"),
];
/// Maximum length of a program's error output in an error.
const SAID: usize = 2048;

/// Returns the words that run a program in a network namespace. `ip netns exec` would mount a new `/sys`, without control
/// groups.
pub(crate) fn inside(namespace: &Path) -> [OsString; 3] {
    let mut net = OsString::from("--net=");
    net.push(namespace);
    ["nsenter".into(), net, "--".into()]
}

/// Runs a program to its end and returns its output.
pub(crate) fn run(words: &[impl AsRef<OsStr>]) -> anyhow::Result<String> {
    let Some((program, args)) = words.split_first() else { bail!("there is no program to run") };
    let shown = || words.iter().map(|word| word.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
    let ended = Command::new(program)
        .args(args)
        .env_clear()
        .env("PATH", PATH)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{}` could not be started", shown()))?;
    if !ended.status.success() {
        let said = ended.stderr.get(..SAID).unwrap_or(&ended.stderr);
        bail!("`{}` failed ({}): {}", shown(), ended.status, String::from_utf8_lossy(said).trim());
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn error_contains_the_output_of_the_failed_program() {
        let error = run(&["cat", "/is/not/there"]).unwrap_err().to_string();
        assert!(error.contains("cat /is/not/there") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_program_gets_nothing_of_our_environment() {
        assert_eq!(run(&["env"]).unwrap(), format!("PATH={}\n", super::PATH));
    }
}
