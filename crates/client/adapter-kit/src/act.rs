//! Short constructors for actions in a cell.

use muster_sdk::types::{CommandOrder, File, ProbeOrder};

/// Returns a file with mode 644 owned by the cell's root. Set the fields for another mode or owner.
pub fn file(path: impl Into<String>, text: impl Into<String>) -> File {
    File { path: path.into(), text: text.into(), mode: None, uid: None, gid: None }
}

/// Returns a command: the program's path and its arguments. No shell interprets them.
pub fn command<W: Into<String>>(words: impl IntoIterator<Item = W>) -> CommandOrder {
    CommandOrder {
        command: words.into_iter().map(Into::into).collect(),
        environment: Default::default(),
        gid: None,
        stdin: None,
        timeout_seconds: None,
        uid: None,
    }
}

/// Returns a check that runs from the image's own files, with these directories of the cell mounted read-only.
pub fn probe<W: Into<String>>(
    words: impl IntoIterator<Item = W>,
    sees: impl IntoIterator<Item = W>,
) -> ProbeOrder {
    ProbeOrder {
        command: words.into_iter().map(Into::into).collect(),
        environment: Default::default(),
        gid: None,
        sees: sees.into_iter().map(Into::into).collect(),
        timeout_seconds: None,
        uid: None,
    }
}
