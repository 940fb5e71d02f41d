//! Looks a program up as the kernel will, before it is started: a command without one ends as a shell has it end, with a sentence that
//! names the program. What cannot be decided from outside is left to the start itself.

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{CellError, CellResult, Doing};
use crate::file::{as_reader_of, inside, root};
use crate::record::Record;

/// A command that cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unstartable {
    /// The exit status that shells give it.
    pub(crate) status: u8,
    /// Why, in a sentence.
    pub(crate) why: String,
}

/// Where a program is looked for, and as whom it runs.
pub(crate) struct Lookup<'l> {
    pub(crate) program: &'l str,
    pub(crate) working_directory: &'l str,
    pub(crate) path: &'l str,
    pub(crate) uid: u32,
}

/// Why the program of a command surely cannot be started in a running cell.
pub(crate) fn find_obstacle(record: &Record, lookup: &Lookup<'_>) -> CellResult<Option<Unstartable>> {
    let init = record.init.as_ref().ok_or(CellError::NoCell(record.cell_id))?;
    as_reader_of(record, || {
        let root = root(init)?;
        let mut is_found = false;
        for candidate in candidates(lookup) {
            match inside(&root, &candidate, OFlags::PATH) {
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(_) => return Ok(None),
                Ok(file) => {
                    let stat = rustix::fs::fstat(&file).doing(|| format!("inspect {candidate}"))?;
                    if can_execute(&stat, lookup.uid, record.ids) {
                        return Ok(None);
                    }
                    is_found = true;
                }
            }
        }
        let program = lookup.program;
        Ok(Some(match is_found {
            true => Unstartable { status: 126, why: format!("program is not executable: {program}") },
            false => Unstartable { status: 127, why: format!("program not found in the cell: {program}") },
        }))
    })
}

/// The paths at which the program may lie, in the order of the search. Only a bare name is looked for in the search path.
fn candidates(lookup: &Lookup<'_>) -> Vec<String> {
    let absolute = |path: &str| match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{}/{path}", lookup.working_directory),
    };
    if lookup.program.contains('/') {
        return vec![absolute(lookup.program)];
    }
    let in_folder = |folder: &str| match folder {
        "" => absolute(lookup.program),
        folder => absolute(&format!("{folder}/{}", lookup.program)),
    };
    lookup.path.split(':').map(in_folder).collect()
}

/// Whether a user of the cell may be able to execute it. The user's groups are known only in the cell, so that each of them may be
/// the file's.
fn can_execute(stat: &Stat, uid: u32, ids: u32) -> bool {
    let bits = match uid {
        0 => 0o111,
        uid if stat.st_uid == ids + uid => 0o100,
        _ => 0o011,
    };
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & bits != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_looked_for_in_the_search_path_and_a_path_from_the_working_directory() {
        let look = |program, path| candidates(&Lookup { program, working_directory: "/srv", path, uid: 0 });
        assert_eq!(look("sh", "/usr/bin:/bin"), ["/usr/bin/sh", "/bin/sh"]);
        assert_eq!(look("sh", "tools::/bin"), ["/srv/tools/sh", "/srv/sh", "/bin/sh"]);
        assert_eq!(look("/bin/sh", "/usr/bin"), ["/bin/sh"]);
        assert_eq!(look("./run", "/usr/bin"), ["/srv/./run"]);
    }
}
