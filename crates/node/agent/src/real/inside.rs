//! Streams inside cells: commands, logs and files.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use muster_cell::{LogCursor, LogQuery, NewFile, Streams};
use muster_ids::CellId;
use muster_wire::stream::{Command, FileAt, Logs};

use super::cell::line;
use super::{Done, Driver, said};
use crate::stream::{Download, Inside, Process, StartedProcess};

/// Interval at which a followed log is read.
const FOLLOW: Duration = Duration::from_millis(200);
const PLAIN_MODE: u32 = 0o644;

impl Driver {
    /// Fails unless the cell exists in this incarnation.
    fn only(&self, cell: CellId, incarnation: i64) -> Done<()> {
        let cells = self.cells.list().map_err(said)?;
        let there = cells.iter().any(|place| place.cell_id == cell && place.incarnation == incarnation);
        if there {
            Ok(())
        } else {
            Err("the cell no longer exists, or was restarted: read it again".to_owned())
        }
    }
}

/// The driver, shared by streams for their lifetime.
pub(crate) struct Shared(pub(crate) Arc<Driver>);

impl Inside for Shared {
    fn command(
        &self,
        cell: CellId,
        incarnation: i64,
        command: &Command,
        terminal: Option<OwnedFd>,
    ) -> Done<StartedProcess> {
        self.0.only(cell, incarnation)?;
        let wanted = muster_cell::Command {
            arguments: command.command.clone(),
            uid: command.uid.unwrap_or_default(),
            gid: command.gid.unwrap_or_default(),
            environment: command.environment.clone(),
            working_directory: command.working_directory.clone(),
        };
        let streams = terminal.map_or(Streams::Pipes, Streams::Terminal);
        let attached = self.0.cells.exec(cell, &wanted, streams).map_err(said)?;
        Ok(StartedProcess::Process(Process::attached(attached)))
    }

    fn logs(&self, cell: CellId, incarnation: i64, logs: &Logs) -> Done<StartedProcess> {
        self.0.only(cell, incarnation)?;
        let found = self.0.cells.look(cell).map_err(said)?;
        let services: Vec<String> = found.services.into_iter().map(|service| service.name).collect();
        let services = match &logs.service {
            Some(_) if services.is_empty() => return Err("it has no services, and so no logs".to_owned()),
            Some(service) if !services.contains(service) => {
                return Err(format!("there is no service {service}; there are: {}", services.join(", ")));
            }
            Some(service) => vec![service.clone()],
            None => services,
        };
        let query = LogQuery {
            tail: logs.tail.map(|tail| tail as usize),
            since: logs.since,
            contains: logs.search.clone(),
        };
        let (driver, follow) = (self.0.clone(), logs.follow);
        StartedProcess::source(move |mut output| {
            let mut cursors: BTreeMap<String, LogCursor> = BTreeMap::new();
            let several = services.len() > 1;
            let write = |output: &mut Download, service: &str, text: String| {
                let text = if several { format!("{service} {text}") } else { text };
                output.write_all(text.as_bytes()).map_err(said)
            };
            for service in &services {
                // The cursor is taken before the existing lines are read: lines written in between are at worst read twice.
                let (_, cursor) = driver.cells.logs_after(cell, service, None).map_err(said)?;
                cursors.insert(service.clone(), cursor);
                let mut pass = |found: muster_cell::LogLine| {
                    write(&mut output, service, line(&found)).map_err(std::io::Error::other)
                };
                driver.cells.logs_each(cell, service, &query, &mut pass).map_err(said)?;
            }
            while follow && output.is_wanted() && driver.only(cell, incarnation).is_ok() {
                std::thread::sleep(FOLLOW);
                for (service, cursor) in &mut cursors {
                    let (lines, next) =
                        driver.cells.logs_after(cell, service, Some(*cursor)).map_err(said)?;
                    *cursor = next;
                    let wanted = |found: &&muster_cell::LogLine| {
                        query.contains.as_ref().is_none_or(|text| found.text.contains(text))
                    };
                    for found in lines.iter().filter(wanted) {
                        write(&mut output, service, line(found))?;
                    }
                }
            }
            Ok(())
        })
    }

    fn read(&self, cell: CellId, incarnation: i64, file: &FileAt) -> Done<StartedProcess> {
        self.0.only(cell, incarnation)?;
        // A path that ends in / is a folder, returned as an archive.
        if file.path.ends_with('/') {
            let (driver, path) = (self.0.clone(), file.path.clone());
            return StartedProcess::source(move |mut output| {
                driver.cells.folder_read(cell, &path, &mut output).map_err(said)
            });
        }
        let mut source = self.0.cells.file_read(cell, &file.path).map_err(said)?;
        StartedProcess::source(move |mut output| {
            std::io::copy(&mut source, &mut output).map(drop).map_err(said)
        })
    }

    fn write(&self, cell: CellId, incarnation: i64, file: &FileAt) -> Done<StartedProcess> {
        self.0.only(cell, incarnation)?;
        let mode =
            file.mode.as_deref().map_or(Ok(PLAIN_MODE), |mode| u32::from_str_radix(mode, 8)).map_err(said)?;
        let (driver, file) = (self.0.clone(), file.clone());
        StartedProcess::sink(move |mut input| {
            let mut content = Whole(&mut input);
            let mut wanted =
                NewFile { path: &file.path, mode, uid: file.uid, gid: file.gid, content: &mut content };
            driver.cells.file_write(cell, &mut wanted).map_err(said)
        })
    }
}

/// Upload that ends with an error unless it is complete: a partial file must not replace the existing one.
struct Whole<'u>(&'u mut crate::stream::Upload);

impl std::io::Read for Whole<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() && !self.0.is_whole() => {
                Err(std::io::Error::other("it broke off, and was not written"))
            }
            read => Ok(read),
        }
    }
}
