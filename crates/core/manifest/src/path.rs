//! Paths in a cell, and which of them an app may own.

/// Directories that the platform creates in every cell.
const OURS: [&str; 5] = ["/proc", "/sys", "/dev", "/etc/muster", "/run/muster"];

/// Explains why a text is not a normalized absolute path.
pub(crate) fn path_fault(path: &str) -> Option<String> {
    let Some(rest) = path.strip_prefix('/') else {
        return Some("a path must begin with /: write it in full".to_owned());
    };
    if path.chars().any(char::is_control) || path.len() > 4096 {
        return Some(
            "a path must have no control characters and at most 4096 bytes: choose another".to_owned(),
        );
    }
    let odd = rest.split('/').any(|part| part.is_empty() || part == "." || part == ".." || part.len() > 255);
    odd.then(|| {
        "a path must have no empty parts, no . and .., and no part longer than 255 bytes: rewrite it"
            .to_owned()
    })
}

/// Reports whether `path` is `parent` or lies in it.
pub(crate) fn within(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Explains why an app cannot own a directory.
pub(crate) fn state_fault(path: &str) -> Option<String> {
    path_fault(path).or_else(|| {
        let kept = OURS.iter().find(|ours| within(path, ours) || within(ours, path))?;
        Some(format!("{kept} is reserved for the platform: choose another directory"))
    })
}

/// Explains why a directory of a cell cannot be mounted for a check. A check runs the programs of the image, and nothing
/// that could replace them, or the machine, may come from the cell.
pub(crate) fn sees_fault(path: &str) -> Option<String> {
    if path == "/" {
        return Some("a check can access single directories: name the one it needs".to_owned());
    }
    if path == "/etc" {
        let why = "files in /etc control what a program loads: name the directory in it that the check needs";
        return Some(why.to_owned());
    }
    path_fault(path).or_else(|| {
        let first = path.split('/').nth(1).unwrap_or_default();
        let machine = matches!(first, "proc" | "sys" | "dev");
        let programs = matches!(first, "bin" | "sbin" | "usr") || first.starts_with("lib");
        (machine || programs).then(|| {
            format!(
                "/{first} comes from the image or the machine, never from the cell: name a directory of data"
            )
        })
    })
}

/// Explains why the first argument of a command is not a program.
pub(crate) fn program_fault(program: &str) -> Option<String> {
    path_fault(program).map(|_| {
        "name the program by its absolute path, as no shell resolves it: write it like /usr/bin/true"
            .to_owned()
    })
}
