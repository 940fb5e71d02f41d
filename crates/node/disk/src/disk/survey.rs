//! Survey of the disks on this node as reported by the kernel, independent of records.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::disks::{DiskState, Disks};
use super::{DiskId, Error, kernel};

/// All disk resources on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Files.
    pub files: Vec<DiskFile>,
    /// Mounts at the mount points of disks.
    pub mounts: Vec<Mount>,
    /// Loop devices with files of disks.
    pub loops: Vec<LoopDevice>,
    /// Other entries in the folders of disks.
    pub strange: Vec<PathBuf>,
}

/// A file of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFile {
    /// The disk.
    pub id: DiskId,
    /// State of the disk.
    pub state: DiskState,
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes it takes on the node's own disk.
    pub taken: u64,
}

/// A mount at the mount point of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub at: PathBuf,
    /// Mounted device, as `major:minor`.
    pub device: String,
}

/// A loop device with a file of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice {
    /// `loop7`.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// Whether the file was unlinked beneath the device.
    pub deleted: bool,
}

impl Disks {
    /// Lists all disk resources on this node.
    pub fn survey(&self) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        for path in entries(&self.folder)? {
            let named = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            let suffix = path.extension().and_then(|suffix| suffix.to_str());
            let state = DiskState::ALL.into_iter().find(|state| Some(state.suffix()) == suffix);
            let facts = path.symlink_metadata().map_err(Error::at("inspect", &path))?;
            match (named, state) {
                (Some(id), Some(state)) if facts.is_file() => {
                    let (size, taken) = (facts.len(), facts.blocks() * 512);
                    survey.files.push(DiskFile { id, state, path, size, taken });
                }
                _ => survey.strange.push(path),
            }
        }
        let mounts = kernel::mounts()?;
        survey.mounts.extend(
            mounts
                .into_iter()
                .filter(|mount| mount.at.parent() == Some(&self.mounts))
                .map(|mount| Mount { at: mount.at, device: mount.device }),
        );
        for path in entries(&self.mounts)? {
            if !survey.mounts.iter().any(|mount| mount.at == path) {
                survey.strange.push(path);
            }
        }
        for device in kernel::loops()? {
            if device.file.parent() == Some(&self.folder) {
                let kernel::Loop { name, file, deleted, .. } = device;
                survey.loops.push(LoopDevice { name, file, deleted });
            }
        }
        Ok(survey)
    }

    /// Describes the remains of a disk, one sentence each; empty once it is removed.
    pub fn leftovers(&self, id: &DiskId) -> Result<Vec<String>, Error> {
        let Survey { files, mounts, loops, strange } = self.survey()?;
        let at = self.mount_point(id);
        let files = files.into_iter().filter(|file| file.id == *id);
        let mounts = mounts.into_iter().filter(|mount| mount.at == at);
        let own = DiskState::ALL.map(|state| self.path(id, state));
        let loops = loops.into_iter().filter(|device| own.contains(&device.file));
        let strange = strange.into_iter().filter(|path| *path == at || own.contains(path));
        Ok(files
            .map(|file| format!("the file {} ({})", file.path.display(), file.state))
            .chain(mounts.map(|mount| format!("the mount at {}", mount.at.display())))
            .chain(
                loops.map(|device| format!("the loop device {} of {}", device.name, device.file.display())),
            )
            .chain(strange.map(|path| format!("{}, which is not a disk", path.display())))
            .collect())
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::at("list", folder))? {
        paths.push(entry.map_err(Error::at("list", folder))?.path());
    }
    paths.sort();
    Ok(paths)
}
