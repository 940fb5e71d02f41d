//! The root of a cell, as mounted on the node before the container is created.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags};

use crate::document;
use crate::error::{CellResult, Doing, refused};
use crate::idmap::{self, Access};
use crate::lasting::Lasting;
use crate::record::{Place, Record, RootSource};
use crate::settings::Tools;

/// Directories of a constructed root beside those of the node. `/tmp` is world-writable.
const MADE: &[(&str, u32)] = &[
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];

const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n";
const NSSWITCH: &str =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n";

/// Mounts the root and the state directories of a cell. `at_rest` is the first of the ids that own state on disk.
pub(crate) fn mount(tools: &Tools, place: &Place, record: &Record, at_rest: u32) -> CellResult<()> {
    let layer = record.layer();
    // A crash can leave a layer without its record. The cell may have put links into it that lead to directories of the
    // node, and its content is obsolete. The removal follows no links.
    document::remove_folder(&layer)?;
    document::folder(&layer, 0o700)?;
    document::folder(&place.rootfs(), 0o711)?;
    match &record.root {
        RootSource::Image { folder, .. } => mount_image(tools, place, record, folder)?,
        RootSource::Host { directories } => mount_directories(place, record, directories)?,
    }
    let state = |number: usize| {
        let kept = record.state(number);
        if let Some(above) = kept.parent().filter(|above| !above.exists()) {
            document::folder(above, 0o711)?;
        }
        Ok((Lasting::below_parent(&kept), place.state_mount(number)))
    };
    let states = (0..record.spec.state.len()).map(state).collect::<CellResult<_>>()?;
    attach_lasting(tools, states, at_rest, record.ids)?;
    let Some(share) = &record.share else {
        return match record.spec.shared.first() {
            Some(path) => refused(format!("the shared directory of {path} is missing")),
            None => Ok(()),
        };
    };
    let shared = record.spec.shared.iter().enumerate();
    let shared = shared.map(|(number, path)| (share.directory(path), place.shared_mount(number)));
    attach_lasting(tools, shared.collect(), share.first_id, record.ids)
}

/// Mounts directories that outlive the cell, each created if missing. `at_rest` is the first of the ids that own them on
/// disk.
fn attach_lasting(
    tools: &Tools,
    directories: Vec<(Lasting, PathBuf)>,
    at_rest: u32,
    ids: u32,
) -> CellResult<()> {
    if directories.is_empty() {
        return Ok(());
    }
    let namespace = idmap::mapping(tools, at_rest, ids)?;
    for (kept, target) in directories {
        let folder = kept.open(at_rest)?;
        document::folder(&target, 0o711)?;
        idmap::attach_folder(&folder, &kept.path(), &target, &namespace).or_else(|error| {
            if !kept.is_shared {
                return Err(error);
            }
            refused(format!(
                "{error}; the file system that the nodes share must be one on which owners can be mapped, like ext4, XFS, Btrfs or CephFS"
            ))
        })?;
    }
    Ok(())
}

/// Mounts the source of a cell's root at `rootfs`, read-only and without the cell's own writes. Temporary files are created
/// in `folder`; `points` are directories that must exist.
pub(crate) fn mount_pristine(
    tools: &Tools,
    record: &Record,
    folder: &Path,
    rootfs: &Path,
    points: &[&str],
) -> CellResult<()> {
    let made = folder.join("made");
    document::folder(&made, 0o755)?;
    for name in ["proc", "dev", "tmp", "etc", "etc/muster"] {
        document::folder(&made.join(name), 0o755)?;
    }
    for (_, target) in crate::bundle::etc_files(record) {
        let path = made.join(target.trim_start_matches('/'));
        fs::write(&path, "").doing(|| format!("write {}", path.display()))?;
    }
    for point in points {
        document::folder(&made.join(point.trim_start_matches('/')), 0o755)?;
    }
    document::folder(rootfs, 0o711)?;
    match &record.root {
        RootSource::Image { folder: image, .. } => {
            let lower = folder.join("lower");
            document::folder(&lower, 0o711)?;
            let namespace = idmap::mapping(tools, 0, record.ids)?;
            idmap::attach(image, &lower, Access::ReadOnly, Some(&namespace))?;
            // The created directories are below the image, so they only fill gaps.
            overlay(&[&lower, &made], None, rootfs)?;
            rustix::mount::unmount(&lower, UnmountFlags::DETACH)
                .doing(|| format!("unmount {}", lower.display()))
        }
        RootSource::Host { directories } => {
            furnish(&made, record.ids)?;
            attach_directories(&made, rootfs, directories)
        }
    }
}

fn mount_image(tools: &Tools, place: &Place, record: &Record, image: &Path) -> CellResult<()> {
    let (upper, work) = (record.layer().join("upper"), record.layer().join("work"));
    document::folder(&upper, 0o755)?;
    document::folder(&work, 0o700)?;
    // Before the mount: overlayfs caches the layer's owner.
    owned(&upper, record.ids)?;
    document::folder(&place.lower(), 0o711)?;
    let namespace = idmap::mapping(tools, 0, record.ids)?;
    idmap::attach(image, &place.lower(), Access::ReadOnly, Some(&namespace))?;
    overlay(&[&place.lower()], Some((&upper, &work)), &place.rootfs())?;
    // The overlay holds a copy of the mount; this one is no longer needed.
    rustix::mount::unmount(place.lower(), UnmountFlags::DETACH)
        .doing(|| format!("unmount {}", place.lower().display()))
}

/// Mounts an overlay, read-only without an upper layer. The layers are passed by descriptor, because the cell can read its
/// mount options and must not learn the node's paths.
fn overlay(lowers: &[&Path], written: Option<(&Path, &Path)>, target: &Path) -> CellResult<()> {
    let doing = || format!("mount an overlay at {}", target.display());
    let open = |path: &Path| -> CellResult<(OwnedFd, String)> {
        let folder: OwnedFd = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path)
            .doing(|| format!("open {}", path.display()))?
            .into();
        let name = format!("/proc/self/fd/{}", folder.as_raw_fd());
        Ok((folder, name))
    };
    let lowers = lowers.iter().map(|lower| open(lower)).collect::<CellResult<Vec<_>>>()?;
    let names: Vec<&str> = lowers.iter().map(|(_, name)| name.as_str()).collect();
    let lower = names.join(":");
    let written = written.map(|(upper, work)| Ok((open(upper)?, open(work)?))).transpose()?;
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).doing(doing)?;
    let mut options = vec![("source", "cell"), ("lowerdir", &lower)];
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    match &written {
        Some(((_, upper), (_, work))) => options.extend([("upperdir", upper.as_str()), ("workdir", work)]),
        None => attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY,
    }
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(&context, key, value).doing(doing)?;
    }
    rustix::mount::fsconfig_create(&context).doing(doing)?;
    let tree = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).doing(doing)?;
    rustix::mount::move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing(doing)
}

/// Mounts a root made of directories of the node. Their owners are not mapped: files that only the node's root may read stay
/// unreadable for a cell's root.
fn mount_directories(place: &Place, record: &Record, directories: &[PathBuf]) -> CellResult<()> {
    let upper = record.layer().join("upper");
    document::folder(&upper, 0o755)?;
    furnish(&upper, record.ids)?;
    attach_directories(&upper, &place.rootfs(), directories)
}

/// Creates the parts of a root beside the directories of the node.
fn furnish(upper: &Path, ids: u32) -> CellResult<()> {
    owned(upper, ids)?;
    for (name, mode) in MADE {
        let path = upper.join(name);
        document::folder(&path, *mode)?;
        owned(&path, ids)?;
    }
    for (name, text) in [("passwd", PASSWD), ("group", GROUP), ("nsswitch.conf", NSSWITCH)] {
        let path = upper.join("etc").join(name);
        fs::write(&path, text).doing(|| format!("write {}", path.display()))?;
        owned(&path, ids)?;
    }
    Ok(())
}

fn attach_directories(upper: &Path, rootfs: &Path, directories: &[PathBuf]) -> CellResult<()> {
    idmap::attach(upper, rootfs, Access::Private, None)?;
    for directory in directories {
        let Ok(inside) = directory.strip_prefix("/") else {
            return refused(format!("{} must be an absolute path", directory.display()));
        };
        let target = rootfs.join(inside);
        // On many systems /bin is a symbolic link into /usr: such a link is copied.
        if let Ok(link) = fs::read_link(directory) {
            symlink(&link, &target).doing(|| format!("create the link {}", target.display()))?;
            continue;
        }
        if !directory.is_dir() {
            return refused(format!("{} is not a directory of this node", directory.display()));
        }
        document::folder(&target, 0o755)?;
        idmap::attach(directory, &target, Access::ReadOnly, None)?;
    }
    Ok(())
}

/// Writes a platform file of the cell's `/etc` in place: it is bind-mounted into the cell.
pub(crate) fn write_etc(place: &Place, name: &str, text: &str, ids: u32) -> CellResult<()> {
    let path = place.etc(name);
    fs::write(&path, text).doing(|| format!("write {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
        .doing(|| format!("write {}", path.display()))?;
    // The cell's root owns it, because sshd does not trust keys of other owners; the mount is read-only anyway.
    owned(&path, ids)
}

fn owned(path: &Path, id: u32) -> CellResult<()> {
    chown(path, Some(id), Some(id)).doing(|| format!("change the owner of {} to the cell", path.display()))
}

/// Unmounts everything at or below `folder`.
pub(crate) fn unmount(folder: &Path) -> CellResult<()> {
    let text = fs::read_to_string("/proc/self/mountinfo").doing(|| "read the list of mounts".to_owned())?;
    for point in mount_points(&text).into_iter().rev().filter(|point| point.starts_with(folder)) {
        rustix::mount::unmount(&point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .doing(|| format!("unmount {}", point.display()))?;
    }
    Ok(())
}

/// Returns the mount points in a mountinfo, in mount order.
pub(crate) fn mount_points(mountinfo: &str) -> Vec<PathBuf> {
    mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| PathBuf::from(plain(point)))
        .collect()
}

/// Decodes octal escapes of blanks and the like.
pub(crate) fn plain(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}
