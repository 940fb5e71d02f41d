//! Id-mapped mounts: files on disk with one range of ids appear with another.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};

use crate::error::{CellResult, Doing, refused};
use crate::mount_attr;
use crate::range::SIZE;
use crate::settings::Tools;

/// Access of a mount, beside its ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read-only, without devices and setuid.
    ReadOnly,
    /// Writable, without devices and setuid.
    Private,
}

impl Access {
    fn attributes(self) -> u64 {
        let both = libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID;
        match self {
            Self::ReadOnly => both | libc::MOUNT_ATTR_RDONLY,
            Self::Private => both,
        }
    }
}

/// Returns a user namespace that maps the ids from `on_disk` to those from `seen` on the node.
pub(crate) fn mapping(tools: &Tools, on_disk: u32, seen: u32) -> CellResult<OwnedFd> {
    let doing = || "create a user namespace that maps a cell's ids".to_owned();
    let mut command = muster_exec::command(&tools.unshare);
    command.arg("--user").arg(&tools.cat).stdin(Stdio::piped());
    // The holder ends with its input, and so with this process in any case.
    let mut holder = command.spawn().doing(doing)?;
    let result = map(holder.id(), on_disk, seen);
    drop(holder.stdin.take());
    let _ = holder.kill();
    holder.wait().doing(doing)?;
    result
}

fn map(pid: u32, on_disk: u32, seen: u32) -> CellResult<OwnedFd> {
    let link = format!("/proc/{pid}/ns/user");
    let own =
        fs::read_link("/proc/self/ns/user").doing(|| "read the agent's own user namespace".to_owned())?;
    let since = Instant::now();
    while fs::read_link(&link).doing(|| "inspect a new user namespace".to_owned())? == own {
        if since.elapsed() > Duration::from_secs(10) {
            return refused(
                "no user namespace was created within 10 seconds; is /proc/sys/user/max_user_namespaces zero?",
            );
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    for file in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{pid}/{file}"), format!("{on_disk} {seen} {SIZE}\n"))
            .doing(|| format!("write the {file} of a new user namespace"))?;
    }
    Ok(File::open(&link).doing(|| "open a new user namespace".to_owned())?.into())
}

/// Attaches an open folder at `target`, writable, with its ids mapped by `namespace`. `source` is its name in messages.
pub(crate) fn attach_folder(
    folder: &OwnedFd,
    source: &Path,
    target: &Path,
    namespace: &OwnedFd,
) -> CellResult<()> {
    let doing = || format!("mount {} at {}", source.display(), target.display());
    let clone =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = rustix::mount::open_tree(folder, "", clone).doing(doing)?;
    mount_attr::set(tree.as_fd(), Access::Private.attributes(), Some(namespace.as_fd())).doing(doing)?;
    rustix::mount::move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing(doing)
}

/// Attaches the folder `source` at `target`, with its ids mapped by `namespace` if given. Nested mounts are not included.
pub(crate) fn attach(
    source: &Path,
    target: &Path,
    access: Access,
    namespace: Option<&OwnedFd>,
) -> CellResult<()> {
    let doing = || format!("mount {} at {}", source.display(), target.display());
    let tree = rustix::mount::open_tree(
        CWD,
        source,
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW,
    )
    .doing(doing)?;
    mount_attr::set(tree.as_fd(), access.attributes(), namespace.map(AsFd::as_fd)).doing(doing)?;
    rustix::mount::move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing(doing)
}
