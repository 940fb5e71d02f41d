//! What a stream needs of whoever makes cells.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_ids::CellId;
use muster_wire::stream::{Command, FileAt, Logs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;

use super::process::Process;

/// Begins things inside cells. Each of its functions may block for a moment, and says in a sentence why it cannot.
/// A cell that is there in another incarnation than the one that is asked for is not there.
pub trait Inside: Send + Sync {
    /// Starts a command. With a `terminal`, that is its standard input, output and error; without one they are pipes. It is
    /// best started as the leader of a session of its own, because whoever ends it signals its group.
    fn command(
        &self,
        cell: CellId,
        incarnation: i64,
        command: &Command,
        terminal: Option<OwnedFd>,
    ) -> Result<Begun, String>;

    /// Reads what services wrote.
    fn logs(&self, cell: CellId, incarnation: i64, logs: &Logs) -> Result<Begun, String>;

    /// Reads a file, or, where the path ends in a slash, a directory as a tar archive. Which of the two comes is the reader's
    /// choice alone: a directory that is asked for as a file is refused, and the other way round.
    fn read(&self, cell: CellId, incarnation: i64, file: &FileAt) -> Result<Begun, String>;

    /// Writes a file.
    fn write(&self, cell: CellId, incarnation: i64, file: &FileAt) -> Result<Begun, String>;
}

/// Something that has begun. Dropping it ends it.
#[derive(Debug)]
pub enum Begun {
    /// A process, with pipes or a terminal.
    Process(Process),
    /// A thread of the agent's own.
    Work(Work),
}

/// What a thread does, seen from outside.
#[derive(Debug)]
pub struct Work {
    /// Where it reads from, and how it is told that all of it came.
    pub(super) input: Option<(PipeWriter, Arc<AtomicBool>)>,
    /// Where it writes to.
    pub(super) output: Option<PipeReader>,
    /// How it ended: with an exit status, or in a sentence.
    pub(super) ended: oneshot::Receiver<Result<i32, String>>,
}

impl Begun {
    /// Has a thread write what the other end is to get. When the stream ends first, its next write fails; one that waits for
    /// something to write has to look whether it [is still wanted](Download::is_wanted).
    pub fn source(
        work: impl FnOnce(Download) -> Result<(), String> + Send + 'static,
    ) -> Result<Self, String> {
        let (output, writer) = pipe().map_err(no_pipe)?;
        let ended = on_a_thread(move || work(Download(writer)).map(|()| 0))?;
        Ok(Self::Work(Work { input: None, output: Some(output), ended }))
    }

    /// Has a thread read what the other end sends.
    pub fn sink(work: impl FnOnce(Upload) -> Result<(), String> + Send + 'static) -> Result<Self, String> {
        let (upload, input) = upload()?;
        let ended = on_a_thread(move || work(upload).map(|()| 0))?;
        Ok(Self::Work(Work { input: Some(input), output: None, ended }))
    }

    /// Has a thread do both, as a program would.
    pub(super) fn both(
        work: impl FnOnce(Upload, PipeWriter) -> Result<i32, String> + Send + 'static,
    ) -> Result<Self, String> {
        let (upload, input) = upload()?;
        let (output, writer) = pipe().map_err(no_pipe)?;
        let ended = on_a_thread(move || work(upload, writer))?;
        Ok(Self::Work(Work { input: Some(input), output: Some(output), ended }))
    }

    /// Has a thread do something that has descriptors of its own.
    pub(super) fn alone(work: impl FnOnce() -> Result<i32, String> + Send + 'static) -> Result<Self, String> {
        Ok(Self::Work(Work { input: None, output: None, ended: on_a_thread(work)? }))
    }
}

fn no_pipe(error: std::io::Error) -> String {
    format!("no pipe can be made: {error}")
}

fn upload() -> Result<(Upload, (PipeWriter, Arc<AtomicBool>)), String> {
    let (reader, writer) = pipe().map_err(no_pipe)?;
    let whole = Arc::new(AtomicBool::new(false));
    Ok((Upload { reader, whole: whole.clone() }, (writer, whole)))
}

fn on_a_thread(
    work: impl FnOnce() -> Result<i32, String> + Send + 'static,
) -> Result<oneshot::Receiver<Result<i32, String>>, String> {
    let (said, heard) = oneshot::channel();
    let run = move || {
        // Who asked may have gone meanwhile.
        let _ = said.send(work());
    };
    let thread = std::thread::Builder::new().name("stream".to_owned());
    thread.spawn(run).map_err(|error| format!("no thread can be started: {error}"))?;
    Ok(heard)
}

/// Where what somebody wants to read is written to.
#[derive(Debug)]
pub struct Download(PipeWriter);

impl Download {
    /// Whether anybody still reads. Nothing else tells a thread that waits for something to write that its stream is over.
    pub fn is_wanted(&self) -> bool {
        let mut look = [PollFd::new(&self.0, PollFlags::empty())];
        let looked = poll(&mut look, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        looked.is_err() || !look[0].revents().contains(PollFlags::ERR)
    }
}

impl Write for Download {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// What somebody sends to be written.
#[derive(Debug)]
pub struct Upload {
    reader: PipeReader,
    whole: Arc<AtomicBool>,
}

impl Upload {
    /// Whether all of it came. An end alone does not say so: a connection that broke ends it too. What is not whole must not
    /// be put in the place of what was there.
    pub fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }
}

impl Read for Upload {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Begun;

    #[test]
    fn who_waits_for_something_to_write_can_see_that_nobody_reads() {
        let (said, heard) = std::sync::mpsc::channel();
        let begun = Begun::source(move |output| {
            let _ = said.send(output.is_wanted());
            let began = Instant::now();
            while output.is_wanted() && began.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = said.send(output.is_wanted());
            Ok(())
        });
        let begun = begun.unwrap();
        assert!(heard.recv().unwrap(), "somebody reads");
        drop(begun);
        assert!(!heard.recv().unwrap(), "nobody does any more");
    }
}
