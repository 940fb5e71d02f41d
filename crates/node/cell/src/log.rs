//! Logs of services: lines with time and stream, in a rotated file.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use muster_ids::CellId;
use serde::{Deserialize, Serialize};

use crate::cells::Cells;
use crate::check;
use crate::error::{CellResult, Doing};
use crate::settings::LogLimits;
use crate::tail::Tail;

/// Stream of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A log line of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Time.
    pub at: Timestamp,
    /// Stream.
    pub stream: Stream,
    /// Text.
    pub text: String,
}

/// Selection of lines; all by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Maximum number of last lines.
    pub tail: Option<usize>,
    /// Earliest time.
    pub since: Option<Timestamp>,
    /// Text that a line must contain.
    pub contains: Option<String>,
}

/// Read position in a log. It stays valid across rotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCursor {
    /// The file, by the time of its first line: its name changes, and its inode number is reused.
    file: Option<Timestamp>,
    offset: u64,
    /// Time of the last line, in case the file was removed.
    last: Option<Timestamp>,
}

/// Maximum bytes read at once when following a log.
const AT_ONCE: u64 = 1 << 20;

/// Number of the second name of the current file.
const HELD: u32 = 0;

/// Maximum length of a line; longer ones are split.
const LINE: usize = 256 << 10;

impl Cells {
    /// Returns lines of a service's log, oldest first.
    pub fn logs(&self, cell: CellId, service: &str, query: &LogQuery) -> CellResult<Vec<LogLine>> {
        check::name(service)?;
        read(&self.place(cell).service(service).join("log"), query)
    }

    /// Passes lines of a service's log one by one, oldest first, without buffering: a log can exceed the agent's memory
    /// limit.
    pub fn logs_each(
        &self,
        cell: CellId,
        service: &str,
        query: &LogQuery,
        each: &mut dyn FnMut(LogLine) -> std::io::Result<()>,
    ) -> CellResult<()> {
        check::name(service)?;
        visit(&self.place(cell).service(service).join("log"), query, each)
    }

    /// Returns the lines after `cursor`, and the new cursor; from the end of the log without a cursor.
    pub fn logs_after(
        &self,
        cell: CellId,
        service: &str,
        cursor: Option<LogCursor>,
    ) -> CellResult<(Vec<LogLine>, LogCursor)> {
        check::name(service)?;
        after(&self.place(cell).service(service).join("log"), cursor)
    }

    /// Returns the last lines of each service, at most `bytes` each, to keep before a cell is destroyed.
    pub fn logs_keep(&self, cell: CellId, bytes: usize) -> CellResult<Vec<(String, Vec<LogLine>)>> {
        let record = self.record(cell)?;
        let keep = |name: &String| -> CellResult<(String, Vec<LogLine>)> {
            let (mut lines, mut length) = (VecDeque::new(), 0);
            self.logs_each(cell, name, &LogQuery::default(), &mut |line| {
                length += line.text.len() + 1;
                lines.push_back(line);
                while length > bytes
                    && let Some(oldest) = lines.pop_front()
                {
                    length -= oldest.text.len() + 1;
                }
                Ok(())
            })?;
            Ok((name.clone(), lines.into()))
        };
        record.spec.services.iter().map(|service| keep(&service.name)).collect()
    }
}

fn aside(log: &Path, number: u32) -> PathBuf {
    log.with_extension(number.to_string())
}

/// Returns the files of a log, oldest first.
fn files(log: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        (1..).map(|number| aside(log, number)).take_while(|path| path.exists()).collect();
    files.reverse();
    // The monitor replaced this file, and it is not rotated yet.
    if inode(&aside(log, HELD)).is_some_and(|held| inode(log) != Some(held)) {
        files.push(aside(log, HELD));
    }
    files.push(log.to_path_buf());
    files
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|seen| seen.ino())
}

fn open(path: &Path) -> CellResult<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).doing(|| format!("read {}", path.display())),
    }
}

pub(crate) fn read(log: &Path, query: &LogQuery) -> CellResult<Vec<LogLine>> {
    let mut lines = Vec::new();
    visit(log, query, &mut |line| {
        lines.push(line);
        Ok(())
    })?;
    Ok(lines)
}

fn visit(
    log: &Path,
    query: &LogQuery,
    each: &mut dyn FnMut(LogLine) -> std::io::Result<()>,
) -> CellResult<()> {
    // All files are opened before any is read, so that a concurrent rotation loses and repeats nothing.
    let opened = files(log).iter().map(|path| open(path)).collect::<CellResult<Vec<_>>>()?;
    let opened: Vec<File> = opened.into_iter().flatten().collect();
    let doing = || format!("read {}", log.display());
    let (mut left_out, mut count) = (0, usize::MAX);
    if let Some(tail) = query.tail {
        // Counted first and passed on second, so that none is buffered.
        count = 0;
        scan(&opened, query, &mut |_| {
            count += 1;
            Ok(())
        })
        .doing(doing)?;
        left_out = count.saturating_sub(tail);
    }
    let mut number = 0;
    scan(&opened, query, &mut |line| {
        number += 1;
        if number > left_out && number <= count { each(line) } else { Ok(()) }
    })
    .doing(doing)
}

fn scan(
    opened: &[File],
    query: &LogQuery,
    each: &mut dyn FnMut(LogLine) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut joined = Joined::default();
    for mut file in opened {
        file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(file);
        while let Some((raw, _)) = next(&mut reader)? {
            let Some(line) = joined.add(&raw) else { continue };
            if query.since.is_none_or(|since| line.at >= since)
                && query.contains.as_ref().is_none_or(|text| line.text.contains(text.as_str()))
            {
                each(line)?;
            }
        }
    }
    Ok(())
}

/// Returns the end of each stream exactly as written: an unterminated line stays unterminated.
pub(crate) fn tails(log: &Path, most: usize) -> CellResult<(Tail, Tail)> {
    let (mut out, mut err) = (Tail::default(), Tail::default());
    for path in files(log) {
        let Some(file) = open(&path)? else { continue };
        let mut reader = BufReader::new(file);
        loop {
            let mut raw = Vec::new();
            let read = reader.read_until(b'\n', &mut raw).doing(|| format!("read {}", log.display()))?;
            if read == 0 {
                break;
            }
            // Time, stream, full or partial, then the text.
            let mut fields = raw.splitn(4, |byte| *byte == b' ');
            let (_, stream, part, text) = (fields.next(), fields.next(), fields.next(), fields.next());
            let (Some(stream), Some(part), Some(text)) = (stream, part, text) else { continue };
            let text = if part == b"P" { text.strip_suffix(b"\n").unwrap_or(text) } else { text };
            if stream == b"stderr" { &mut err } else { &mut out }.add(text, most);
        }
    }
    Ok((out, err))
}

/// Removes a log with its rotated files.
pub(crate) fn remove(log: &Path) -> CellResult<()> {
    files(log).iter().chain([&aside(log, HELD)]).try_for_each(|path| crate::document::remove(path))
}

fn after(log: &Path, cursor: Option<LogCursor>) -> CellResult<(Vec<LogLine>, LogCursor)> {
    let doing = || format!("read {}", log.display());
    let mut opened = Vec::new();
    for path in files(log) {
        let Some(mut file) = open(&path)? else { continue };
        let mut reader = BufReader::new(&mut file);
        let first = next(&mut reader)
            .doing(doing)?
            .and_then(|(raw, _)| raw.split(' ').next()?.parse::<Timestamp>().ok());
        // A file without a line has nothing to read, and no identity for the cursor.
        if let Some(first) = first {
            opened.push((file, first));
        }
    }
    let Some(mut cursor) = cursor else {
        let Some((mut file, first)) = opened.pop() else { return Ok((Vec::new(), LogCursor::default())) };
        let lines = read(log, &LogQuery { tail: Some(1), ..LogQuery::default() })?;
        let offset = file.seek(SeekFrom::End(0)).doing(doing)?;
        return Ok((
            Vec::new(),
            LogCursor { file: Some(first), offset, last: lines.last().map(|line| line.at) },
        ));
    };
    // The file was rotated out, or replaced by its monitor: continue with the lines newer than the last one.
    let found = opened.iter().position(|(_, first)| cursor.file == Some(*first));
    let seen = if found.is_none() { cursor.last } else { None };
    let (mut lines, mut read) = (Vec::new(), 0);
    for (mut file, first) in opened.into_iter().skip(found.unwrap_or(0)) {
        let mut offset = if cursor.file == Some(first) { cursor.offset } else { 0 };
        cursor = LogCursor { file: Some(first), offset, ..cursor };
        file.seek(SeekFrom::Start(offset)).doing(doing)?;
        let (mut reader, mut joined) = (BufReader::new(file), Joined::default());
        while let Some((raw, count)) = next(&mut reader).doing(doing)? {
            offset += count;
            read += count;
            if let Some(line) = joined.add(&raw) {
                cursor = LogCursor { offset, last: Some(line.at), ..cursor };
                lines.push(line);
            }
            if read > AT_ONCE {
                break;
            }
        }
        if read > AT_ONCE {
            break;
        }
    }
    lines.retain(|line| seen.is_none_or(|seen| line.at > seen));
    Ok((lines, cursor))
}

/// Returns the next complete line and its length in the file; none for an unfinished line.
fn next(reader: &mut impl BufRead) -> std::io::Result<Option<(String, u64)>> {
    let mut bytes = Vec::new();
    reader.read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Ok(None);
    }
    let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX) + 1;
    Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), count)))
}

/// Joins the parts of a long line, marked with `P`; the last one has an `F`.
#[derive(Default)]
struct Joined(Option<LogLine>);

impl Joined {
    fn add(&mut self, raw: &str) -> Option<LogLine> {
        let mut fields = raw.splitn(4, ' ');
        let (at, stream, part, text) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next().unwrap_or_default());
        let at: Timestamp = at.parse().ok()?;
        let stream = if stream == "stderr" { Stream::Err } else { Stream::Out };
        let mut line = match self.0.take() {
            Some(line) if line.stream == stream => line,
            _ => LogLine { at, stream, text: String::new() },
        };
        line.text.push_str(text);
        if part == "P" && line.text.len() < LINE {
            self.0 = Some(line);
            return None;
        }
        Some(line)
    }
}

/// Rotates a long log, and has its monitor open a new one. `folder` is the monitor's.
///
/// The monitor has a limit of its own, for the time without an agent: it then replaces the file, and the old one would be
/// lost. So the agent holds a second name of the current file, and finds the old one by it.
pub(crate) fn rotate(log: &Path, folder: &Path, limits: LogLimits) -> CellResult<()> {
    match try_rotate(log, folder, limits) {
        // The monitor replaced the file at this moment, by its own limit; the next call handles that.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.doing(|| format!("rotate the log {}", log.display())),
    }
}

fn try_rotate(log: &Path, folder: &Path, limits: LogLimits) -> std::io::Result<()> {
    let held = aside(log, HELD);
    let seen = match fs::metadata(log) {
        Ok(seen) => seen,
        // An agent died between the rotation and the reopen: the monitor still writes to the old file.
        Err(error) if error.kind() == ErrorKind::NotFound && aside(log, 1).exists() => {
            return reopen(folder);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match inode(&held) {
        None => fs::hard_link(log, &held),
        Some(number) if number != seen.ino() => {
            shift(log, limits.count)?;
            fs::hard_link(log, &held)
        }
        Some(_) if seen.len() > limits.size => {
            shift(log, limits.count)?;
            fs::remove_file(log)?;
            reopen(folder)
        }
        Some(_) => Ok(()),
    }
}

/// Renames the held file to the first rotated one, and removes the oldest.
fn shift(log: &Path, count: u32) -> std::io::Result<()> {
    let count = count.max(1);
    for number in (1..=count).rev().filter(|number| aside(log, *number).exists()) {
        if number == count {
            fs::remove_file(aside(log, number))?;
        } else {
            fs::rename(aside(log, number), aside(log, number + 1))?;
        }
    }
    fs::rename(aside(log, HELD), aside(log, 1))
}

/// Tells the monitor to reopen its log.
fn reopen(folder: &Path) -> std::io::Result<()> {
    let control = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(folder.join("ctl"));
    match control {
        Ok(mut control) => control.write_all(b"2 0 0\n"),
        // Without a reader the monitor has just ended, and writes nothing more.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) || error.kind() == ErrorKind::NotFound => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32, part: &str, text: &str) -> String {
        format!("2026-01-01T00:00:{second:02}.000000000+00:00 stdout {part} {text}\n")
    }

    fn texts(lines: &[LogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_are_read_across_files_by_tail_time_and_text() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(aside(&log, 2), line(1, "F", "one")).unwrap();
        fs::write(aside(&log, 1), line(2, "F", "two") + &line(3, "P", "thr")).unwrap();
        fs::write(&log, line(3, "F", "ee") + &line(4, "F", "four") + "2026-01-01T00:00:05Z stdout F unfinis")
            .unwrap();
        assert_eq!(texts(&read(&log, &LogQuery::default()).unwrap()), ["one", "two", "three", "four"]);
        let query = LogQuery { tail: Some(1), contains: Some("o".to_owned()), ..LogQuery::default() };
        assert_eq!(texts(&read(&log, &query).unwrap()), ["four"]);
        let since = LogQuery { since: Some("2026-01-01T00:00:03Z".parse().unwrap()), ..LogQuery::default() };
        assert_eq!(texts(&read(&log, &since).unwrap()), ["three", "four"]);
    }

    #[test]
    fn a_log_that_its_monitor_began_anew_is_not_lost_and_the_oldest_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let limits = LogLimits { size: 1_000, count: 2 };
        for second in 1..=5 {
            fs::write(folder.path().join("tmp"), line(second, "F", &second.to_string())).unwrap();
            fs::rename(folder.path().join("tmp"), &log).unwrap();
            rotate(&log, folder.path(), limits).unwrap();
            rotate(&log, folder.path(), limits).unwrap();
        }
        assert_eq!(texts(&read(&log, &LogQuery::default()).unwrap()), ["3", "4", "5"]);
        fs::write(&log, line(6, "F", &"x".repeat(2_000))).unwrap();
        rotate(&log, folder.path(), limits).unwrap();
        assert!(!log.exists(), "the monitor makes the next");
        assert_eq!(read(&log, &LogQuery::default()).unwrap().len(), 2);
    }

    #[test]
    fn lines_are_passed_on_while_the_log_is_read_and_none_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, line(1, "F", "one")).unwrap();
        let mut passed = Vec::new();
        visit(&log, &LogQuery::default(), &mut |found| {
            if passed.len() < 3 {
                let mut file = OpenOptions::new().append(true).open(&log)?;
                file.write_all(line(2, "F", &format!("after {}", found.text)).as_bytes())?;
            }
            passed.push(found.text);
            Ok(())
        })
        .unwrap();
        assert_eq!(passed, ["one", "after one", "after after one", "after after after one"]);
        let ended = visit(&log, &LogQuery::default(), &mut |_| Err(std::io::Error::other("nobody listens")));
        assert!(ended.unwrap_err().to_string().contains("nobody listens"));
    }

    #[test]
    fn log_follower_misses_nothing_across_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, line(1, "F", "old")).unwrap();
        let (lines, cursor) = after(&log, None).unwrap();
        assert!(lines.is_empty());
        let early = cursor;
        let mut file = OpenOptions::new().append(true).open(&log).unwrap();
        file.write_all((line(2, "F", "a") + &line(3, "P", "b")).as_bytes()).unwrap();
        let (lines, cursor) = after(&log, Some(cursor)).unwrap();
        assert_eq!(texts(&lines), ["a"]);
        file.write_all(line(3, "F", "c").as_bytes()).unwrap();
        fs::rename(&log, aside(&log, 1)).unwrap();
        fs::write(&log, line(4, "F", "d")).unwrap();
        let (lines, cursor) = after(&log, Some(cursor)).unwrap();
        assert_eq!(texts(&lines), ["bc", "d"]);
        assert!(after(&log, Some(cursor)).unwrap().0.is_empty());
        fs::remove_file(aside(&log, 1)).unwrap();
        assert_eq!(
            texts(&after(&log, Some(early)).unwrap().0),
            ["d"],
            "what is gone is gone, and nothing comes twice"
        );
    }
}
