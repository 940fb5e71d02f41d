//! Id ranges of cells on the node: 65536 each, never shared by two cells at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_ids::CellId;

use crate::document;
use crate::error::{CellResult, refused};

/// Number of ids of a cell.
pub(crate) const SIZE: u32 = 65_536;

/// Document with the range of each cell. The caller serializes the changes.
pub(crate) struct Ranges {
    file: PathBuf,
    base: u32,
}

impl Ranges {
    pub(crate) fn new(folder: &Path, base: u32) -> Self {
        Self { file: folder.join("ranges.json"), base }
    }

    /// Returns the ids that own files at rest: those of state directories. No cell runs with them.
    pub(crate) fn at_rest(&self) -> u32 {
        self.base
    }

    /// Returns the first id of the range of `cell`, allocated if needed.
    pub(crate) fn take(&self, cell: CellId) -> CellResult<u32> {
        let mut held = self.held()?;
        if let Some(first) = held.get(&cell) {
            return Ok(*first);
        }
        let Some(first) = free(self.base, &held) else {
            return refused("every range of ids of this node is in use; destroy a cell first");
        };
        held.insert(cell, first);
        document::write(&self.file, &held)?;
        Ok(first)
    }

    pub(crate) fn free(&self, cell: CellId) -> CellResult<()> {
        let mut held = self.held()?;
        if held.remove(&cell).is_some() {
            document::write(&self.file, &held)?;
        }
        Ok(())
    }

    pub(crate) fn held(&self) -> CellResult<BTreeMap<CellId, u32>> {
        Ok(document::read(&self.file)?.unwrap_or_default())
    }
}

/// Returns the lowest free range above `base`.
fn free(base: u32, held: &BTreeMap<CellId, u32>) -> Option<u32> {
    // The kernel reserves the last id as invalid, so its range is not used.
    let last = u32::MAX - SIZE;
    (1..)
        .map_while(|number: u32| base.checked_add(number.checked_mul(SIZE)?).filter(|first| *first < last))
        .find(|first| {
            // Overlaps count as taken: the base may have changed between two starts.
            held.values().all(|other| first.abs_diff(*other) >= SIZE)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(number: u8) -> CellId {
        format!("cel_01h455vb4pex5vsknk084sn0{number:02}").parse().unwrap()
    }

    #[test]
    fn a_range_is_kept_until_it_is_freed_and_is_never_shared() {
        let folder = tempfile::tempdir().unwrap();
        let ranges = Ranges::new(folder.path(), 1_000_000);
        let first = ranges.take(cell(1)).unwrap();
        assert_eq!(first, 1_000_000 + SIZE, "the first range owns files at rest");
        assert_eq!(Ranges::new(folder.path(), 1_000_000).take(cell(1)).unwrap(), first);
        assert_eq!(ranges.take(cell(2)).unwrap(), first + SIZE);
        ranges.free(cell(1)).unwrap();
        assert_eq!(ranges.take(cell(3)).unwrap(), first);
    }

    #[test]
    fn a_changed_base_never_gives_ids_that_overlap_with_a_living_cells() {
        let held = BTreeMap::from([(cell(1), 1_000_000 + SIZE)]);
        assert_eq!(free(1_000_100, &held), Some(1_000_100 + 3 * SIZE - SIZE));
    }

    #[test]
    fn the_end_of_the_ids_is_an_end_and_no_wrap() {
        assert_eq!(free(u32::MAX - SIZE, &BTreeMap::new()), None);
    }
}
