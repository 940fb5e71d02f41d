//! Programs of the node that are run for cells: by their path, with arguments and no shell, and with an environment of our
//! own, so that nothing an image says of `LD_PRELOAD` and the like reaches a program outside a cell.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{CellError, CellResult, Doing};

/// Where programs are found, whatever the agent's own environment says.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How much of what a program wrote goes into an error.
const SAID: usize = 2_000;

/// A program with a clean environment and no input.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a program that inherits its output to nobody, and gives what it wrote into its log if it fails.
pub(crate) fn run(mut command: Command, log: &Path, doing: impl Fn() -> String) -> CellResult<()> {
    let status = command.status().doing(&doing)?;
    if status.success() {
        return Ok(());
    }
    let said = match last_words(log) {
        said if said.is_empty() => format!("it ended with {status}"),
        said => said,
    };
    Err(CellError::Tool { doing: doing(), said })
}

/// What runc wrote into its log at last: the text of the last message.
pub(crate) fn last_words(log: &Path) -> String {
    let mut text = String::new();
    if let Ok(file) = std::fs::File::open(log) {
        // What a log holds before its last error does not matter, and it is short by its nature.
        let _ = file.take(1 << 16).read_to_string(&mut text);
    }
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let said = line.split_once("msg=").map_or(line, |(_, message)| message);
    let said = serde_json::from_str::<String>(said).unwrap_or_else(|_| said.to_owned());
    said.chars().take(SAID).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_log_are_its_last_message_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert_eq!(last_words(&log), "");
        std::fs::write(
            &log,
            "time=\"t\" level=warning msg=one\ntime=\"t\" level=error msg=\"no \\\"x\\\"\"\n",
        )
        .unwrap();
        assert_eq!(last_words(&log), "no \"x\"");
        std::fs::write(&log, "y".repeat(9_000)).unwrap();
        assert_eq!(last_words(&log).len(), SAID);
    }
}
