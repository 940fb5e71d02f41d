//! The inside of a simulated cell, so that the complete path can be used and tested without a real one: `echo` prints its
//! arguments, `exit N` ends with N, `yes` does not end, `size` prints the size of its terminal after each line of input, and
//! everything else echoes its input. A file read is as long as its name states; a written one is discarded. Nothing of it
//! runs on the machine.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use muster_agent::stream::{Inside, StartedProcess};
use muster_ids::CellId;
use muster_wire::stream::{Command, FileAt, Logs};
use rustix::termios::tcgetwinsize;

/// Streams inside simulated cells.
#[derive(Debug)]
pub(crate) struct SimulatedStreams;

const LINE: &str = "2026-01-01T00:00:00Z stdout a simulated service wrote this\n";

impl Inside for SimulatedStreams {
    fn command(
        &self,
        _: CellId,
        _: i64,
        command: &Command,
        terminal: Option<OwnedFd>,
    ) -> Result<StartedProcess, String> {
        let words = command.command.clone();
        if words.first().is_some_and(|word| word == "missing") {
            return Err("there is no program `missing` in the cell".to_owned());
        }
        match terminal {
            None => StartedProcess::both(move |mut input, mut output| act(&words, &mut input, &mut output)),
            Some(terminal) => {
                let output = terminal.try_clone().map_err(|error| error.to_string())?;
                StartedProcess::alone(move || act_on(&words, terminal, output))
            }
        }
    }

    fn logs(&self, _: CellId, _: i64, logs: &Logs) -> Result<StartedProcess, String> {
        let (lines, follow) = (logs.tail.unwrap_or(3), logs.follow);
        StartedProcess::source(move |mut output| {
            for _ in 0..lines {
                output.write_all(LINE.as_bytes()).map_err(|error| error.to_string())?;
            }
            while follow && output.is_wanted() {
                std::thread::sleep(std::time::Duration::from_millis(100));
                output.write_all(LINE.as_bytes()).map_err(|error| error.to_string())?;
            }
            Ok(())
        })
    }

    fn read(&self, _: CellId, _: i64, file: &FileAt) -> Result<StartedProcess, String> {
        let length = file.path.rsplit('/').next().and_then(|name| name.parse::<u64>().ok());
        let length = length.ok_or_else(|| format!("there is no file {}", file.path))?;
        StartedProcess::source(move |mut output| {
            let copied = std::io::copy(&mut std::io::repeat(b'x').take(length), &mut output);
            copied.map(drop).map_err(|error| error.to_string())
        })
    }

    fn write(&self, _: CellId, _: i64, _: &FileAt) -> Result<StartedProcess, String> {
        StartedProcess::sink(|mut input| {
            std::io::copy(&mut input, &mut std::io::sink()).map_err(|error| error.to_string())?;
            if input.is_whole() { Ok(()) } else { Err("it broke off, and was not written".to_owned()) }
        })
    }
}

fn act(words: &[String], input: &mut impl Read, output: &mut impl Write) -> Result<i32, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["echo", ..] => output.write_all(format!("{}\n", words[1..].join(" ")).as_bytes()),
        ["exit", status] => return status.parse().map_err(|_| format!("{status} is not an exit status")),
        ["yes", ..] => loop {
            if let Err(error) = output.write_all(&b"y\n".repeat(4096)) {
                break Err(error);
            }
        },
        _ => std::io::copy(input, output).map(drop),
    };
    done.map(|()| 0).map_err(|error| error.to_string())
}

fn act_on(words: &[String], terminal: OwnedFd, output: OwnedFd) -> Result<i32, String> {
    let (mut input, mut output) = (File::from(terminal), File::from(output));
    if words.first().is_none_or(|word| word != "size") {
        return act(words, &mut input, &mut output);
    }
    let mut buffer = [0; 256];
    loop {
        // The terminal's other end is closed: a program would get a hangup.
        let Ok(1..) = input.read(&mut buffer) else { return Ok(0) };
        let size = tcgetwinsize(&output).map_err(|error| error.to_string())?;
        let line = format!("{} columns, {} rows\n", size.ws_col, size.ws_row);
        output.write_all(line.as_bytes()).map_err(|error| error.to_string())?;
    }
}
