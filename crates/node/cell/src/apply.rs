//! Writes and removes files in a running cell, on request.

use muster_ids::CellId;
use muster_wire::task::FilesOrder;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::cells::Cells;
use crate::check;
use crate::error::{CellError, CellResult, Doing, refused};
use crate::file::{self, NewFile};
use crate::process::Process;
use crate::secret::{self, Secret};

impl Cells {
    /// Removes and writes files in this incarnation of a cell, and adds exactly the secrets that the order names.
    /// Idempotent: unchanged files are written again.
    pub fn files_apply(
        &self,
        cell: CellId,
        incarnation: i64,
        order: &FilesOrder,
        secrets: &[Secret<'_>],
    ) -> CellResult<()> {
        check::files(order)?;
        check::validate_secrets(&order.secrets, secrets)?;
        // The lock keeps the cell from being destroyed and recreated meanwhile.
        let turn = self.turn(cell);
        let _turn = turn.lock();
        let record = self.running_as(cell, incarnation)?;
        let Some(init) = &record.init else { return Err(CellError::NoCell(cell)) };
        for path in &order.remove {
            remove(init, record.ids, path)?;
        }
        for file in &order.write {
            let mode = check::mode(&file.mode)?;
            let (path, uid, gid) = (file.path.as_str(), file.uid, file.gid);
            let mut content = file.text.as_bytes();
            file::write(init, record.ids, &mut NewFile { path, mode, uid, gid, content: &mut content })?;
        }
        if secrets.is_empty() { Ok(()) } else { secret::add(&record, init, secrets) }
    }
}

/// Removes a file, a link or an empty directory. A missing one is ignored.
fn remove(init: &Process, ids: u32, path: &str) -> CellResult<()> {
    let path = path.trim_end_matches('/');
    let Some((folder, name)) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty()) else {
        return refused("/ cannot be removed");
    };
    file::as_root_of(ids, || {
        let doing = || format!("remove {path}");
        let root = file::root(init)?;
        let folder = if folder.is_empty() { "/" } else { folder };
        let folder = match file::inside(&root, folder, OFlags::PATH | OFlags::DIRECTORY) {
            // A missing folder is empty.
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            result => result.doing(doing)?,
        };
        file::foreign(&folder, path)?;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
        let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat2(&folder, name, look, Mode::empty(), beneath) {
            Err(Errno::XDEV) => {
                return refused(format!("{path} belongs to the platform, or is a mount of the cell's"));
            }
            Err(Errno::NOENT) => return Ok(()),
            _ => {}
        }
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => match rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => {
                    refused(format!("{path} is a directory that is not empty"))
                }
                result => result.doing(doing),
            },
            Err(Errno::NOENT) => Ok(()),
            result => result.doing(doing),
        }
    })
}
