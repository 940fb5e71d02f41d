//! Interface of the streams to the driver.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_ids::CellId;
use muster_wire::stream::{Command, FileAt, Logs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;

use super::process::Process;

/// Starts work inside cells. Each function may block for a moment, and returns its error as a sentence. A cell in another
/// incarnation than requested counts as missing.
pub trait Inside: Send + Sync {
    /// Starts a command. A `terminal` becomes its standard input, output and error; otherwise they are pipes. It should lead
    /// a session of its own, because ending it signals its process group.
    fn command(
        &self,
        cell: CellId,
        incarnation: i64,
        command: &Command,
        terminal: Option<OwnedFd>,
    ) -> Result<StartedProcess, String>;

    /// Reads the logs of services.
    fn logs(&self, cell: CellId, incarnation: i64, logs: &Logs) -> Result<StartedProcess, String>;

    /// Reads a file, or a directory as a tar archive if the path ends in a slash. The path alone decides: a directory
    /// requested as a file is refused, and vice versa.
    fn read(&self, cell: CellId, incarnation: i64, file: &FileAt) -> Result<StartedProcess, String>;

    /// Writes a file.
    fn write(&self, cell: CellId, incarnation: i64, file: &FileAt) -> Result<StartedProcess, String>;
}

/// Started work. Dropping it ends it.
#[derive(Debug)]
pub enum StartedProcess {
    /// A process, with pipes or a terminal.
    Process(Process),
    /// A thread of the agent.
    Work(Work),
}

/// Handle of a worker thread.
#[derive(Debug)]
pub struct Work {
    /// Input of the thread, and the flag that the input is complete.
    pub(super) input: Option<(PipeWriter, Arc<AtomicBool>)>,
    /// Output of the thread.
    pub(super) output: Option<PipeReader>,
    /// Outcome: an exit status, or an error.
    pub(super) ended: oneshot::Receiver<Result<i32, String>>,
}

impl StartedProcess {
    /// Runs a thread that writes the stream's output. If the stream ends first, the next write fails; a thread that waits
    /// for data must check [`is_wanted`](Download::is_wanted).
    pub fn source(
        work: impl FnOnce(Download) -> Result<(), String> + Send + 'static,
    ) -> Result<Self, String> {
        let (output, writer) = pipe().map_err(no_pipe)?;
        let ended = on_a_thread(move || work(Download(writer)).map(|()| 0))?;
        Ok(Self::Work(Work { input: None, output: Some(output), ended }))
    }

    /// Runs a thread that reads the stream's input.
    pub fn sink(work: impl FnOnce(Upload) -> Result<(), String> + Send + 'static) -> Result<Self, String> {
        let (upload, input) = upload()?;
        let ended = on_a_thread(move || work(upload).map(|()| 0))?;
        Ok(Self::Work(Work { input: Some(input), output: None, ended }))
    }

    /// Runs a thread that does both, like a program.
    pub fn both(
        work: impl FnOnce(Upload, PipeWriter) -> Result<i32, String> + Send + 'static,
    ) -> Result<Self, String> {
        let (upload, input) = upload()?;
        let (output, writer) = pipe().map_err(no_pipe)?;
        let ended = on_a_thread(move || work(upload, writer))?;
        Ok(Self::Work(Work { input: Some(input), output: Some(output), ended }))
    }

    /// Runs a thread with descriptors of its own.
    pub fn alone(work: impl FnOnce() -> Result<i32, String> + Send + 'static) -> Result<Self, String> {
        Ok(Self::Work(Work { input: None, output: None, ended: on_a_thread(work)? }))
    }
}

fn no_pipe(error: std::io::Error) -> String {
    format!("no pipe can be created: {error}")
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
        // The receiver may have been dropped.
        let _ = said.send(work());
    };
    let thread = std::thread::Builder::new().name("stream".to_owned());
    thread.spawn(run).map_err(|error| format!("no thread can be started: {error}"))?;
    Ok(heard)
}

/// Output of a download.
#[derive(Debug)]
pub struct Download(PipeWriter);

impl Download {
    /// Reports whether the reader is still there. A thread that waits for data has no other sign that its stream ended.
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

/// Input of an upload.
#[derive(Debug)]
pub struct Upload {
    reader: PipeReader,
    whole: Arc<AtomicBool>,
}

impl Upload {
    /// Reports whether the upload is complete. End of input alone does not imply it: a broken connection ends it too. A
    /// partial upload must not replace an existing file.
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

    use super::StartedProcess;

    #[test]
    fn waiting_writer_detects_that_its_reader_has_closed() {
        let (said, heard) = std::sync::mpsc::channel();
        let begun = StartedProcess::source(move |output| {
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
