//! Programs of the machine: started with an argument vector and without a shell, with a clean environment and a timeout.
//!
//! A clean environment keeps the caller's variables, `LD_PRELOAD` and the like, out of programs that run as root.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Search path for programs, independent of the caller's environment.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Maximum length of a program's error output in an error.
const SAID: u64 = 2048;

/// A required program: name, Debian package, purpose.
pub type Required = (&'static str, &'static str, &'static str);

/// A program that did not succeed. It may have had partial effects.
#[derive(Debug, thiserror::Error)]
#[error("`{line}` {why}")]
pub struct Failed {
    /// Program and arguments.
    pub line: String,
    /// Why.
    pub why: Why,
}

/// Why a program did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// It could not be started.
    #[error("could not be started: {0}")]
    Unstartable(io::Error),
    /// It was killed at its timeout.
    #[error("timed out after {} seconds and was killed", .0.as_secs())]
    TimedOut(Duration),
    /// It ended with this status and error output.
    #[error("failed ({status}): {said}")]
    Ended {
        /// Its exit status.
        status: ExitStatus,
        /// Its error output, shortened.
        said: String,
    },
}

/// Returns a command with a clean environment, no input and no output.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a program in the namespaces of the calling thread, and returns its output.
pub fn run(
    program: &str,
    arguments: &[impl AsRef<OsStr>],
    input: Option<&str>,
    timeout: Duration,
) -> Result<String, Failed> {
    let failed = |why: Why| {
        let words = arguments.iter().map(|word| word.as_ref().to_string_lossy().into_owned());
        let line: Vec<String> = std::iter::once(program.to_owned()).chain(words).collect();
        Failed { line: line.join(" "), why }
    };
    let unstartable = |error: io::Error| failed(Why::Unstartable(error));
    // In-memory files instead of pipes: the program never blocks on a reader, so only its end is awaited.
    let mut output = in_memory("output").map_err(unstartable)?;
    let mut complaint = in_memory("complaint").map_err(unstartable)?;
    let mut command = command(program);
    // Errors in one language.
    command.args(arguments).env("LC_ALL", "C");
    command.stdout(output.try_clone().map_err(unstartable)?);
    command.stderr(complaint.try_clone().map_err(unstartable)?);
    if let Some(text) = input {
        command.stdin(holding(text).map_err(unstartable)?);
    }
    let child = command.spawn().map_err(unstartable)?;
    let Some(status) = end_of(child, timeout).map_err(unstartable)? else {
        return Err(failed(Why::TimedOut(timeout)));
    };
    if !status.success() {
        let said = read(&mut complaint, SAID).map_err(unstartable)?;
        return Err(failed(Why::Ended { status, said: said.trim().to_owned() }));
    }
    read(&mut output, u64::MAX).map_err(unstartable)
}

fn in_memory(name: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
}

fn holding(text: &str) -> io::Result<File> {
    let mut file = in_memory("input")?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn read(file: &mut File, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the child's exit status; `None` if it was killed at the timeout.
fn end_of(mut child: Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let began = Instant::now();
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        let wait = left.try_into().map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&wait)) {
            Ok(0) => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            Ok(_) => return child.wait().map(Some),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NONE: [&str; 0] = [];

    #[test]
    fn a_program_gets_its_input_and_nothing_of_our_environment() {
        assert_eq!(run("cat", &NONE, Some("hello"), SECOND).unwrap(), "hello");
        let environment = run("env", &NONE, None, SECOND).unwrap();
        let mut lines: Vec<&str> = environment.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["LC_ALL=C", &format!("PATH={PATH}")]);
    }

    #[test]
    fn error_contains_the_output_of_the_failed_program() {
        let error = run("cat", &["/is/not/there"], None, SECOND).unwrap_err().to_string();
        assert!(error.contains("cat /is/not/there") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_killed_at_its_timeout() {
        let error = run("sleep", &["60"], None, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error.why, Why::TimedOut(_)), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run("is-not-there", &NONE, None, SECOND).unwrap_err();
        assert!(matches!(error.why, Why::Unstartable(_)) && error.line == "is-not-there", "{error}");
    }
}
