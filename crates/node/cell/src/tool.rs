//! Programs of the node that run for cells: by path, with arguments and without a shell, and with a clean environment, so
//! that no image's `LD_PRELOAD` and the like reaches a program outside a cell.

use std::io::Read;
use std::path::Path;
use std::process::Command;

use crate::error::{CellError, CellResult, Doing};

/// Maximum length of program output in an error.
const SAID: usize = 2_000;

/// Runs a program with its output discarded, and returns its log's last message on failure.
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

/// Returns the last message of runc's log.
pub(crate) fn last_words(log: &Path) -> String {
    let mut text = String::new();
    if let Ok(file) = std::fs::File::open(log) {
        // Only the last error matters, and the log is short.
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
