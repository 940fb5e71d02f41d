//! The agent dies at any point, and another one continues.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use muster_cell::{Cells, POINTS};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::site::{Folder, Site, service};

fn spec() -> Value {
    json!({ "state": ["/data"], "services": [
        { "name": "one", "command": ["/bin/sleep", "1000"] },
        { "name": "late", "command": ["/bin/sleep", "1000"], "after": ["gate"] },
        { "name": "gate", "command": ["/bin/sleep", "1000"], "ready": { "by": { "command": ["/bin/test", "-f", "/open"] } } },
    ] })
}

/// Starts another process that acts as the agent, and dies at `point`.
fn agent(site: &Site, point: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::the_agent_of_these_tests", "--nocapture"])
        .env("MUSTER_CELL_TEST_FOLDER", site.folder.path())
        .env("MUSTER_TEST_NUMBER", site.number.to_string())
        .env("MUSTER_TEST_POINT", point)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Not a test of its own: the others start it as a separate process, to kill it.
#[test]
fn the_agent_of_these_tests() {
    let Ok(folder) = std::env::var("MUSTER_CELL_TEST_FOLDER") else { return };
    let number = std::env::var("MUSTER_TEST_NUMBER").unwrap().parse().unwrap();
    let point = std::env::var("MUSTER_TEST_POINT").unwrap();
    let mut settings = crate::site::settings(Path::new(&folder), number);
    settings.reach = Arc::new(move |reached| {
        if reached == point {
            rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
        }
    });
    // The parent process owns the folder.
    let mut site = std::mem::ManuallyDrop::new(Site::at(Folder::Other(folder.into()), number));
    site.cells = Cells::open(settings).unwrap();
    let cell = site.run(1, spec());
    site.until(cell, |seen| service(seen, "one").pid != 0 && service(seen, "gate").pid != 0);
    println!("\nAGENT-READY");
    std::io::stdout().flush().unwrap();
    if std::env::var("MUSTER_TEST_POINT").unwrap().starts_with("cell_destroy") {
        site.destroy(cell);
    }
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_killed_agent_leaves_cells_and_services_running_and_the_next_goes_on_with_them() {
    let site = Site::new();
    let mut agent = agent(&site, "never");
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("AGENT-READY")));
    let cell = site.cell_id(1);
    let before = site.cells.look(cell).unwrap();
    let group = Pid::from_raw(i32::try_from(agent.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    agent.wait().unwrap();

    let cells = Cells::open(site.settings.clone()).unwrap();
    let after = cells.look(cell).unwrap();
    assert!(after.present && after.pid == before.pid);
    for name in ["one", "gate"] {
        assert_eq!(service(&after, name).pid, service(&before, name).pid, "{name}");
        assert_ne!(service(&after, name).pid, 0);
        assert_eq!(service(&after, name).restarts, 0);
    }
    assert_eq!(service(&after, "late").pid, 0);
    site.say(cell, "touch /open");
    let last = site.until(cell, |seen| service(seen, "late").ready);
    assert_eq!(service(&last, "one").pid, service(&before, "one").pid);
    site.destroy(cell);
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
}

#[test]
fn an_agent_that_dies_while_it_makes_a_cell_makes_it_again_or_removes_it() {
    for point in POINTS.iter().filter(|point| point.starts_with("cell_create")) {
        let site = Site::new();
        let cell = site.cell_id(1);
        let status = agent(&site, point).wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{point} was not reached");
        site.make(1, spec());
        site.cells.start(cell).unwrap();
        site.until(cell, |seen| seen.present && service(seen, "one").pid != 0);
        site.destroy(cell);
        assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new(), "{point}");

        let status = agent(&site, point).wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{point} was not reached");
        site.destroy(cell);
        assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new(), "{point}");
    }
}

#[test]
fn an_agent_that_dies_while_it_destroys_a_cell_is_followed_by_one_that_ends_it() {
    for point in POINTS.iter().filter(|point| point.starts_with("cell_destroy")) {
        let site = Site::new();
        let cell = site.cell_id(1);
        let status = agent(&site, point).wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{point} was not reached");
        let left = site.cells.leftovers(cell).unwrap();
        assert_eq!(left.is_empty(), *point == "cell_destroy:forgotten", "{point}: {left:?}");
        site.destroy(cell);
        assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new(), "{point}");
        assert!(std::fs::read_dir(site.storage()).unwrap().next().is_none(), "{point}");
    }
}
