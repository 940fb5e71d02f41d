//! The file system that holds the agent's data.

use std::path::Path;

/// Its size in MiB. The folder may not be there yet; then its nearest parent tells.
pub(super) fn size_mb(data_dir: &Path, notes: &mut Vec<String>) -> i64 {
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
    use super::size_mb;

    #[test]
    fn a_folder_that_is_not_there_yet_is_measured_by_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Vec::new();
        let there = size_mb(folder.path(), &mut notes);
        assert!(there > 0);
        assert_eq!(size_mb(&folder.path().join("not/yet"), &mut notes), there);
        assert!(notes.is_empty(), "{notes:?}");
    }
}
