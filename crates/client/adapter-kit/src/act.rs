//! What can be done in a cell, in the shortest words.

use muster_sdk::types::{CommandOrder, File, ProbeOrder};

/// A file of mode 644 that belongs to the cell's root. Whoever wants another mode or owner sets the fields.
pub fn file(path: impl Into<String>, text: impl Into<String>) -> File {
    File { path: path.into(), text: text.into(), mode: None, uid: None, gid: None }
}

/// A command: the program by its path, and its arguments. No shell looks at them.
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

/// A check from the image's own files. It sees these directories of the cell, to read.
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
