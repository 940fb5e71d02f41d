//! System programs: started with an argument vector, a clean environment and a timeout.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::NetworkError;

/// Search path for programs, independent of the agent's environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Required programs: name, Debian package, purpose.
pub const PROGRAMS: &[(&str, &str, &str)] = &[
    ("ip", "iproute2", "creates links"),
    ("bridge", "iproute2", "fills forwarding tables"),
    ("nft", "nftables", "creates rules"),
    ("unshare", "util-linux", "creates namespaces"),
];
/// Timeout: the programs wait only for the kernel, so one that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum length of a program's error output in an error.
const SAID: u64 = 2048;

/// Runs a program in the namespace of the calling thread, and returns its output.
pub(crate) fn run(program: &str, args: &[&str], input: Option<&str>) -> Result<String, NetworkError> {
    debug_assert!(PROGRAMS.iter().any(|(name, ..)| *name == program), "{program} is not in PROGRAMS");
    run_any(program, args, input)
}

fn run_any(program: &str, args: &[&str], input: Option<&str>) -> Result<String, NetworkError> {
    let failed =
        |said: String| NetworkError::Program { program: format!("{program} {}", args.join(" ")), said };
    let unable = |error: io::Error| failed(format!("it could not be started: {error}"));
    // In-memory files instead of pipes: the program never blocks on a reader, so only its end is awaited.
    let (mut output, mut complaint) =
        (in_memory("output").map_err(unable)?, in_memory("complaint").map_err(unable)?);
    let stdin = match input {
        Some(text) => Stdio::from(holding(text).map_err(unable)?),
        None => Stdio::null(),
    };
    let child = Command::new(program)
        .args(args)
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(stdin)
        .stdout(output.try_clone().map_err(unable)?)
        .stderr(complaint.try_clone().map_err(unable)?)
        .spawn()
        .map_err(unable)?;
    let status = end_of(child).map_err(|error| failed(format!("its end could not be awaited: {error}")))?;
    let Some(status) = status else {
        return Err(failed(format!("it timed out after {} seconds and was killed", PATIENCE.as_secs())));
    };
    let mut text = String::new();
    if !status.success() {
        complaint.rewind().and_then(|()| complaint.take(SAID).read_to_string(&mut text)).map_err(unable)?;
        return Err(failed(format!("{status}: {}", text.trim())));
    }
    output.rewind().and_then(|()| output.read_to_string(&mut text)).map_err(unable)?;
    Ok(text)
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

/// Returns the child's exit status; `None` if it was killed.
fn end_of(mut child: Child) -> io::Result<Option<ExitStatus>> {
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let began = Instant::now();
    loop {
        let left = PATIENCE.saturating_sub(began.elapsed());
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

    #[test]
    fn a_program_gets_its_input_and_nothing_of_our_environment() {
        assert_eq!(run_any("cat", &[], Some("hello")).unwrap(), "hello");
        assert_eq!(run_any("env", &[], None).unwrap(), format!("PATH={PATH}\n"));
    }

    #[test]
    fn error_contains_the_output_of_the_failed_program() {
        let error = run_any("cat", &["/is/not/there"], None).unwrap_err().to_string();
        assert!(error.contains("cat /is/not/there") && error.contains("No such file"), "{error}");
    }
}
