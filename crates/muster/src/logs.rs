//! Logs go to standard error: JSON for machines, text for people.
//!
//! A log must not stop its program. A write to a full disk fails, and the log library would report that with `eprintln!`, which
//! panics; a write to a pipe that is not read waits, and every thread that logs would wait with it. Here both cost lines, which
//! are counted and reported with the next line that can be written. A queue with a thread of its own would lose the last lines
//! before a crash.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::Context as _;
use muster_http::Settings;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::EnvFilter;

/// A pipe that is ready takes this many bytes without waiting.
const AT_ONCE: usize = 4096;

/// Form of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Text,
}

/// Starts logging according to the settings.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let level = settings.text("log.level");
    // A single word that is not a level would be taken as a module name, and nothing would be logged.
    let is_word = level.chars().all(|letter| letter.is_ascii_alphanumeric());
    if is_word && level.parse::<tracing::level_filters::LevelFilter>().is_err() {
        anyhow::bail!(
            "log.level = `{level}`: it must be error, warn, info, debug, trace or off, or a tracing filter"
        );
    }
    let filter = EnvFilter::try_new(level).with_context(|| format!("log.level = `{level}`"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter);
    match settings.text("log.format") {
        "json" => {
            let logs = logs.with_writer(to_stderr(Form::Json)).json().flatten_event(true);
            logs.with_current_span(false).with_span_list(false).init();
        }
        "text" => logs.with_writer(to_stderr(Form::Text)).compact().with_target(false).init(),
        other => anyhow::bail!("log.format = `{other}`: it must be json or text"),
    }
    Ok(())
}

/// Returns the writer of logs.
pub(crate) fn to_stderr(form: Form) -> Arc<Lines<io::Stderr>> {
    Arc::new(Lines::new(io::stderr(), form))
}

/// Prints a line for people, from a program that must go on whether or not it can be written.
pub(crate) fn complain(text: &str) {
    Lines::new(io::stderr(), Form::Text).put(format!("muster: {text}\n").as_bytes());
}

/// Prints the reason of the end of the program. It waits for its reader, and a full disk does not change the exit code.
pub(crate) fn last_words(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "muster: {error:#}");
}

/// Writes lines that are dropped if they cannot be written now.
#[derive(Debug)]
pub(crate) struct Lines<F> {
    file: F,
    form: Form,
    lost: Mutex<Lost>,
}

/// Lines that could not be written since the last one that could.
#[derive(Debug, Default)]
struct Lost {
    lines: u64,
    /// Whether the last line was written in part.
    torn: bool,
}

impl<F: AsFd> Lines<F> {
    fn new(file: F, form: Form) -> Self {
        Self { file, form, lost: Mutex::default() }
    }

    fn put(&self, line: &[u8]) {
        let mut lost = self.lost.lock();
        if lost.lines > 0 {
            let lines = lost.lines;
            let notice = match self.form {
                Form::Json => {
                    format!("{{\"level\":\"WARN\",\"message\":\"log lines were lost\",\"lines\":{lines}}}\n")
                }
                Form::Text => format!("WARN log lines were lost lines={lines}\n"),
            };
            if self.write_whole(notice.as_bytes(), &mut lost) {
                lost.lines = 0;
            }
        }
        if lost.lines > 0 || !self.write_whole(line, &mut lost) {
            lost.lines += 1;
        }
    }

    /// Writes all of it, without waiting; reports whether that succeeded.
    fn write_whole(&self, text: &[u8], lost: &mut Lost) -> bool {
        let begun = if lost.torn { b"\n".as_slice() } else { b"" };
        let text = [begun, text].concat();
        let mut left = text.as_slice();
        while !left.is_empty() && self.is_ready() {
            match rustix::io::write(&self.file, &left[..left.len().min(AT_ONCE)]) {
                Ok(written) => left = &left[written..],
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if left.len() < text.len() {
            lost.torn = !left.is_empty();
        }
        left.is_empty()
    }

    fn is_ready(&self) -> bool {
        let mut file = [PollFd::new(&self.file, PollFlags::OUT)];
        poll(&mut file, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

impl<F: AsFd> Write for &Lines<F> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Read as _;

    use super::{Form, Lines};

    #[test]
    fn a_pipe_that_is_not_read_costs_lines_and_no_time() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let lines = Lines::new(writer, Form::Text);
        let line = format!("{}\n", "x".repeat(999));
        for _ in 0..1000 {
            lines.put(line.as_bytes());
        }
        let lost = lines.lost.lock().lines;
        assert!((900..1000).contains(&lost), "{lost}");
        let mut read = vec![0; 64 << 10];
        let length = reader.read(&mut read).unwrap();
        assert_eq!(length, usize::try_from(1000 - lost).unwrap() * line.len());
        lines.put(b"again\n");
        let length = reader.read(&mut read).unwrap();
        let text = String::from_utf8_lossy(&read[..length]);
        assert_eq!(text, format!("WARN log lines were lost lines={lost}\nagain\n"));
    }

    #[test]
    fn a_long_line_is_written_whole_and_a_torn_one_ends_before_the_next() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let lines = Lines::new(writer, Form::Json);
        let mut read = vec![0; 256 << 10];
        lines.put(&[b"y".repeat(50_000), b"\n".to_vec()].concat());
        assert_eq!(reader.read(&mut read).unwrap(), 50_001);
        lines.put(&[b"z".repeat(200_000), b"\n".to_vec()].concat());
        let length = reader.read(&mut read).unwrap();
        assert!(length < 200_000);
        lines.put(b"{}\n");
        let length = reader.read(&mut read).unwrap();
        let lost = "\n{\"level\":\"WARN\",\"message\":\"log lines were lost\",\"lines\":1}\n{}\n";
        assert_eq!(String::from_utf8_lossy(&read[..length]), lost);
    }

    #[test]
    fn a_full_disk_costs_lines_and_no_panic() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let lines = std::sync::Arc::new(Lines::new(full, Form::Text));
        let logs = tracing_subscriber::fmt().with_writer(lines.clone()).finish();
        tracing::subscriber::with_default(logs, || {
            tracing::error!("one");
            tracing::error!("two");
        });
        assert_eq!(lines.lost.lock().lines, 2);
    }
}
