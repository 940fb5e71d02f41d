//! File system of the agent's data.

use std::path::Path;

/// Disk space not offered to allocations: for images, logs, the agent's own state, and a server's database beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskReserve {
    /// A tenth of the file system, at least 2 GiB and at most 100 GiB, but never more than a quarter.
    Default,
    /// A fixed number of MiB.
    Mib(u64),
}

impl DiskReserve {
    /// Returns the reserve of a file system of this size, in MiB.
    fn of(self, size: i64) -> i64 {
        match self {
            Self::Default => (size / 10).clamp(2 << 10, 100 << 10).min(size / 4),
            Self::Mib(reserve) => i64::try_from(reserve).unwrap_or(i64::MAX).min(size),
        }
    }

    /// Returns the reserve for each of several nodes on one file system, so that they share the space that one would offer.
    pub fn among(nodes: u8, data_dir: &Path) -> Self {
        let size = size_mb(data_dir, &mut Vec::new());
        let share = (size - Self::Default.of(size)) / i64::from(nodes.max(1));
        Self::Mib(u64::try_from(size - share).unwrap_or(0))
    }
}

/// Returns the space offered to allocations, in MiB.
pub(super) fn offered_mb(data_dir: &Path, reserve: DiskReserve, notes: &mut Vec<String>) -> i64 {
    let size = size_mb(data_dir, notes);
    size - reserve.of(size)
}

/// Returns the size in MiB. If the folder is missing, its nearest existing parent is measured.
fn size_mb(data_dir: &Path, notes: &mut Vec<String>) -> i64 {
    let there = data_dir.ancestors().find(|path| path.exists()).unwrap_or(data_dir);
    match rustix::fs::statvfs(there) {
        Ok(system) => {
            let mb = u128::from(system.f_blocks) * u128::from(system.f_frsize) / (1 << 20);
            i64::try_from(mb).unwrap_or(i64::MAX)
        }
        Err(error) => {
            notes.push(format!("The size of the file system at {} is unknown: {error}.", there.display()));
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskReserve, offered_mb, size_mb};

    #[test]
    fn a_folder_that_is_not_there_yet_is_measured_by_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Vec::new();
        let there = size_mb(folder.path(), &mut notes);
        assert!(there > 0);
        assert_eq!(size_mb(&folder.path().join("not/yet"), &mut notes), there);
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn a_part_of_the_file_system_is_never_offered() {
        let gib = 1 << 10;
        let cases =
            [(400, 100), (4 * gib, gib), (10 * gib, 2 * gib), (500 * gib, 50 * gib), (9000 * gib, 100 * gib)];
        for (size, reserve) in cases {
            assert_eq!(DiskReserve::Default.of(size), reserve, "{size}");
        }
        assert_eq!((DiskReserve::Mib(7).of(400), DiskReserve::Mib(500).of(400)), (7, 400));
    }

    #[test]
    fn nodes_on_one_file_system_share_what_one_would_offer() {
        let folder = tempfile::tempdir().unwrap();
        let offered = |reserve| offered_mb(folder.path(), reserve, &mut Vec::new());
        let alone = offered(DiskReserve::Default);
        let third = offered(DiskReserve::among(3, folder.path()));
        assert!((third * 3..=third * 3 + 3).contains(&alone), "{alone} {third}");
    }
}
