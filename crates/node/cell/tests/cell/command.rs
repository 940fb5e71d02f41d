//! Commands in a cell.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use muster_cell::{Command, CommandFindings, CommandState, Streams};
use muster_ids::CellId;
use serde_json::json;

use crate::site::{Site, shell};

fn finished(site: &Site, cell: CellId, id: &str) -> CommandFindings {
    let since = Instant::now();
    loop {
        let seen = site.cells.command_look(cell, id).unwrap().unwrap();
        if seen.state != CommandState::Running {
            return seen;
        }
        assert!(since.elapsed() < Duration::from_secs(10), "{seen:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_that_runs_by_itself_runs_once_and_is_found_again() {
    let mut site = Site::new();
    let cell = site.run(1, json!({}));
    let command = shell(0, "echo out; echo err >&2; echo x >> /count; exit 7");
    site.cells.command_start(cell, "task-1", &command).unwrap();
    let seen = finished(&site, cell, "task-1");
    assert_eq!(seen.state, CommandState::Ended(7));
    let texts: Vec<&str> = seen.output.iter().map(|line| line.text.as_str()).collect();
    assert!(texts.contains(&"out") && texts.contains(&"err"), "{texts:?}");
    site.reopen();
    site.cells.command_start(cell, "task-1", &command).unwrap();
    assert_eq!(finished(&site, cell, "task-1"), seen);
    assert_eq!(site.say(cell, "cat /count"), "x");
    assert_eq!(site.cells.command_look(cell, "task-2").unwrap(), None);
}

#[test]
fn a_command_that_cannot_be_started_says_why_and_one_that_lasts_can_be_killed() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let missing = Command { arguments: vec!["/nothing".to_owned()], ..Command::default() };
    site.cells.command_start(cell, "missing", &missing).unwrap();
    let seen = finished(&site, cell, "missing");
    assert!(matches!(&seen.state, CommandState::Lost(why) if why.contains("/nothing")), "{seen:?}");

    site.cells.command_start(cell, "long", &shell(0, "sleep 1000")).unwrap();
    while site.say(cell, "ps").lines().all(|line| !line.contains("sleep 1000")) {}
    site.cells.command_kill(cell, "long").unwrap();
    assert_eq!(finished(&site, cell, "long").state, CommandState::Ended(137));
}

#[test]
fn a_command_without_an_executable_program_ends_as_a_shell_has_it_end() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    site.say(
        cell,
        "echo text >/tmp/plain; echo '#!/bin/sh' >/tmp/own; chmod 700 /tmp/own; mkdir /tmp/folder",
    );
    let run = |program: &str, uid: u32| {
        let arguments = vec![program.to_owned(), "an argument".to_owned()];
        site.whole(cell, &Command { arguments, uid, gid: uid, ..Command::default() })
    };
    let missing = |program: &str| (127, format!("program not found in the cell: {program}\n"));
    for program in ["nothing", "/nothing", "bin/nothing", "/tmp/plain/nothing", "$(id) 'x'"] {
        assert_eq!(run(program, 0), missing(program));
    }
    let refused = |program: &str| (126, format!("program is not executable: {program}\n"));
    for (program, uid) in [("/tmp/plain", 0), ("tmp/plain", 0), ("/tmp/folder", 0), ("/tmp/own", 1000)] {
        assert_eq!(run(program, uid), refused(program), "as {uid}");
    }
    assert_eq!(run("/tmp/own", 0), (0, String::new()));
    assert_eq!(run("true", 1000), (0, String::new()));
    let elsewhere = Command {
        arguments: vec!["true".to_owned()],
        environment: BTreeMap::from([("PATH".to_owned(), "/tmp".to_owned())]),
        ..Command::default()
    };
    assert_eq!(site.whole(cell, &elsewhere), missing("true"));
}

#[test]
fn a_command_has_its_user_its_directory_and_a_clean_environment() {
    let site = Site::new();
    let cell = site.run(1, json!({ "environment": { "CELL": "yes", "BOTH": "cell" } }));
    let command = Command {
        arguments: ["/bin/sh", "-c", "id -u; id -g; pwd; env"].map(str::to_owned).to_vec(),
        uid: 1000,
        gid: 1001,
        environment: BTreeMap::from([("BOTH".to_owned(), "own".to_owned())]),
        working_directory: Some("/tmp".to_owned()),
    };
    let mut attached = site.cells.exec(cell, &command, Streams::Pipes).unwrap();
    let mut text = String::new();
    attached.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(attached.child.wait().unwrap().success());
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..3], ["1000", "1001", "/tmp"]);
    lines.retain(|line| line.contains('='));
    lines.sort_unstable();
    // The image's preload only affects the cell; the tests of the monitors cover the outside.
    let wanted = [
        "BOTH=own",
        "CELL=yes",
        "HOME=/",
        "LANG=C.UTF-8",
        "LD_PRELOAD=/evil.so",
        "PATH=/bin",
        "PWD=/tmp",
        "SHLVL=1",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn dropping_an_attached_command_ends_it() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let attached = site.cells.exec(cell, &shell(0, "sleep 1234"), Streams::Pipes).unwrap();
    while site.say(cell, "ps").lines().all(|line| !line.contains("sleep 1234")) {}
    drop(attached);
    assert!(!site.say(cell, "ps").contains("sleep 1234"));
}

#[test]
fn a_terminal_is_a_terminal_in_the_cell() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let master =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let slave = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(slave.to_str().unwrap()).unwrap();
    let mut attached =
        site.cells.exec(cell, &shell(0, "tty; exit 3"), Streams::Terminal(slave.into())).unwrap();
    let mut text = Vec::new();
    let mut master = File::from(master);
    while !String::from_utf8_lossy(&text).contains('\n') {
        let mut part = [0; 256];
        let read = master.read(&mut part).unwrap();
        text.extend_from_slice(&part[..read]);
    }
    assert!(String::from_utf8_lossy(&text).contains("/dev/pts/0"), "{}", String::from_utf8_lossy(&text));
    assert_eq!(attached.child.wait().unwrap().code(), Some(3));
}

#[test]
fn commands_that_climb_or_start_in_strange_places_are_refused() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    for place in ["/proc/self/fd/3", "/proc/1/root", "../tmp", "/tmp/../..", ""] {
        let command = Command { working_directory: Some(place.to_owned()), ..shell(0, "true") };
        assert!(site.cells.exec(cell, &command, Streams::Pipes).is_err(), "{place}");
        assert!(site.cells.command_start(cell, "x", &command).is_err(), "{place}");
    }
    for id in ["", ".", "..", "../service", "a/b", "a b"] {
        assert!(site.cells.command_start(cell, id, &shell(0, "true")).is_err(), "{id}");
        assert!(site.cells.command_look(cell, id).is_err(), "{id}");
    }
    assert!(site.cells.exec(cell, &Command::default(), Streams::Pipes).is_err(), "no program");
    assert!(
        site.cells.exec(cell, &shell(65_536, "true"), Streams::Pipes).is_err(),
        "a user outside the range"
    );
    assert!(site.cells.exec(site.cell_id(9), &shell(0, "true"), Streams::Pipes).is_err(), "no such cell");
}

#[test]
fn command_starts_in_its_home_if_it_exists() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    site.say(cell, "mkdir -p /home/ada; touch /home/file; ln -s /home/ada /home/link");
    let started = |home: &str, said: Option<&str>| {
        let mut command = shell(0, "pwd");
        command.environment.insert("HOME".to_owned(), home.to_owned());
        command.working_directory = said.map(str::to_owned);
        let (code, text) = site.whole(cell, &command);
        assert_eq!(code, 0, "{text}");
        text.trim().to_owned()
    };
    assert_eq!(started("/home/ada", None), "/home/ada");
    assert_eq!(started("/home/ada", Some("/etc")), "/etc", "what is said counts");
    assert_eq!((started("/home/bob", None), started("/home/file", None)), ("/".to_owned(), "/".to_owned()));
    assert_eq!(started("home", None), "/", "that is no place");
    assert_eq!(started("/home/link", None), "/home/ada");
}
