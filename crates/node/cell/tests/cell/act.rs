//! Actions in a running cell on request: files, services, commands. Each is for one incarnation, and idempotent.

use std::time::{Duration, Instant};

use muster_cell::{CellError, CellResult, Cells, Once, Patience, Request, Secret};
use muster_ids::CellId;
use muster_wire::cell::ServiceState;
use muster_wire::task::{FilesOrder, Ran};
use serde_json::{Value, json};

use crate::site::{Site, now, patience, service};

fn files(site: &Site, cell: CellId, order: Value, secrets: &[Secret<'_>]) -> CellResult<()> {
    let order: FilesOrder = serde_json::from_value(order).unwrap();
    site.cells.files_apply(cell, 1, &order, secrets)
}

fn ask(cells: &Cells, cell: CellId, name: &str, action: &str, by: &str, seconds: u64) -> CellResult<()> {
    let order = serde_json::from_value(json!({ "name": name, "action": action })).unwrap();
    let patience = patience(seconds);
    cells.service_request(cell, &Request { incarnation: 1, order: &order, by, patience: &patience })
}

fn once(cells: &Cells, cell: CellId, id: &str, order: Value) -> CellResult<Ran> {
    let order = serde_json::from_value(order).unwrap();
    cells.command_once(cell, &Once { incarnation: 1, id, order: &order, patience: &patience(60) })
}

fn script(text: &str) -> Value {
    json!({ "command": ["/bin/sh", "-c", text], "timeout_seconds": 20 })
}

#[test]
fn files_are_written_and_removed_as_their_owners_and_never_through_a_link_out_of_the_cell() {
    let site = Site::new();
    let cell = site.run(1, json!({ "state": ["/data"] }));
    site.say(cell, "mkdir /full /empty; touch /full/a /gone; ln -s / /data/out; ln -s /etc/passwd /link");
    let order = json!({
        "write": [
            { "path": "/etc/made/deep", "text": "one", "mode": "640", "uid": 1000, "gid": 1001 },
            { "path": "/data/kept", "text": "two" },
            { "path": "/link", "text": "three" },
            { "path": "/data/out/tmp/through", "text": "inside" },
        ],
        "remove": ["/gone", "/empty", "/not/there", "/gone/deeper"],
    });
    files(&site, cell, order.clone(), &[]).unwrap();
    files(&site, cell, order, &[]).unwrap();
    assert_eq!(site.say(cell, "stat -c '%u %g %a' /etc/made/deep; cat /etc/made/deep"), "1000 1001 640\none");
    assert_eq!(
        site.say(cell, "cat /link; echo; cat /data/kept; ls /gone /empty 2>&1 | grep -c 'No such'"),
        "three\ntwo2"
    );
    assert!(site.say(cell, "cat /etc/passwd").contains("alice"), "a link is replaced, and not followed");
    assert_eq!(
        site.say(cell, "cat /tmp/through"),
        "inside",
        "a link is followed inside the cell, and no further"
    );
    assert!(!std::path::Path::new("/tmp/through").exists());
    for (order, says) in [
        (json!({ "remove": ["/full"] }), "is not empty"),
        (json!({ "remove": ["/"] }), "cannot be removed"),
        (json!({ "remove": ["/data"] }), "mount"),
        (json!({ "remove": ["/proc/1/root/etc/passwd"] }), "remove"),
        (json!({ "remove": ["/a/../b"] }), "not a path"),
        (json!({ "write": [{ "path": "/etc/hosts", "text": "x" }] }), "platform"),
        (json!({ "write": [{ "path": "/proc/sys/kernel/x", "text": "x" }] }), "belongs to the kernel"),
        (json!({ "write": [{ "path": "/run/muster/secrets/x", "text": "x" }] }), "write"),
        (json!({ "write": [{ "path": "/x", "text": "x", "mode": "9" }] }), "mode"),
        (json!({ "write": [{ "path": "/x", "text": "x", "uid": 70000 }] }), "not an id"),
    ] {
        let error = files(&site, cell, order.clone(), &[]).unwrap_err().to_string();
        assert!(error.contains(says), "{order}: {error}");
    }
    let order: FilesOrder = serde_json::from_value(json!({ "remove": ["/full/a"] })).unwrap();
    assert!(site.cells.files_apply(cell, 2, &order, &[]).is_err(), "that incarnation is not there");
    assert_eq!(site.say(cell, "ls /full"), "a");
}

/// Attack: the cell moves the mount of its secrets and puts a directory of its own there, to get them written to its disk.
#[test]
fn secrets_come_to_a_cell_that_runs_in_memory_alone_wherever_it_has_moved_their_place() {
    const CANARY: &str = "CANARY-71-while-it-runs";
    let mut site = Site::new();
    let cell = site.run(1, json!({}));
    let named = json!({ "secrets": [{ "secret": "s", "file": "key", "uid": 1000, "gid": 1001 }] });
    let told =
        |content: &'static str| Secret { file: "key", uid: 1000, gid: 1001, content: content.as_bytes() };
    assert!(files(&site, cell, named.clone(), &[]).unwrap_err().to_string().contains("is missing"));
    files(&site, cell, named.clone(), &[told("first")]).unwrap();
    site.reopen();
    files(&site, cell, named.clone(), &[told(CANARY)]).unwrap();
    let at = "/run/muster/secrets";
    assert_eq!(
        site.say(cell, &format!("cd {at}; stat -c '%u %g %a' key; cat key; ls -a")),
        format!("1000 1001 400\n{CANARY}.\n..\nkey")
    );
    assert_ne!(site.shell(cell, &format!("echo x > {at}/key")).0, 0, "it is as unwritable as before");
    site.say(cell, "mv /run/muster /run/moved; mkdir -p /run/muster/secrets");
    files(&site, cell, named, &[told("CANARY-72-third")]).unwrap();
    assert_eq!(site.say(cell, "cat /run/moved/secrets/key; ls /run/muster/secrets"), "CANARY-72-third");
    let found = std::process::Command::new("/usr/bin/grep")
        .args(["-rlaE", "CANARY-7"])
        .arg(site.folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
    site.destroy(cell);
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
}

#[test]
fn a_service_on_request_is_idle_until_it_is_asked_for_and_again_after() {
    let mut site = Site::new();
    let spec = json!({ "services": [
        { "name": "main", "command": ["/bin/sleep", "1000"] },
        { "name": "web", "start": "on_request", "restart": "always", "stop_seconds": 5,
          "command": ["/bin/sh", "-c", "echo run >> /runs; sleep 1001 & exec httpd -f -p 8080 -h /etc"],
          "ready": { "by": { "http": { "port": 8080, "path": "/passwd" } } } },
    ] });
    let cell = site.run(1, spec.clone());
    let seen = site.until(cell, |seen| service(seen, "main").ready);
    let web = service(&seen, "web");
    assert_eq!((web.state, web.ready, web.pid, web.message.clone()), (ServiceState::Idle, false, 0, None));
    ask(&site.cells, cell, "web", "stop", "t0", 10).unwrap();

    ask(&site.cells, cell, "web", "start", "t1", 10).unwrap();
    let first = service(&site.cells.look(cell).unwrap(), "web").clone();
    assert!(first.ready && first.pid > 0);
    // Repeated by the same task and by another, and after the agent died: it is the same run.
    ask(&site.cells, cell, "web", "start", "t1", 10).unwrap();
    site.reopen();
    ask(&site.cells, cell, "web", "start", "t1", 10).unwrap();
    ask(&site.cells, cell, "web", "start", "t2", 10).unwrap();
    assert_eq!(service(&site.cells.look(cell).unwrap(), "web").pid, first.pid);
    ask(&site.cells, cell, "web", "restart", "t3", 10).unwrap();
    ask(&site.cells, cell, "web", "restart", "t3", 10).unwrap();
    let second = service(&site.cells.look(cell).unwrap(), "web").clone();
    assert!(second.ready && second.pid != first.pid);
    assert_eq!(site.say(cell, "cat /runs"), "run\nrun", "each asked for once");

    ask(&site.cells, cell, "web", "stop", "t4", 10).unwrap();
    assert!(!site.say(cell, "ps").contains("sleep 1001"), "what it started is gone too");
    for _ in 0..5 {
        assert!(site.cells.supervise(now()).is_empty());
    }
    site.reopen();
    assert!(site.cells.supervise(now()).is_empty());
    let seen = site.cells.look(cell).unwrap();
    assert_eq!(
        (service(&seen, "web").state, service(&seen, "main").state),
        (ServiceState::Idle, ServiceState::Running)
    );
    // A service that starts with its cell can be stopped too, and stays stopped.
    ask(&site.cells, cell, "main", "stop", "t5", 10).unwrap();
    assert!(site.cells.supervise(now()).is_empty());
    assert_eq!(service(&site.cells.look(cell).unwrap(), "main").state, ServiceState::Idle);
    ask(&site.cells, cell, "main", "start", "t6", 10).unwrap();
    assert!(
        ask(&site.cells, cell, "other", "start", "t7", 10).unwrap_err().to_string().contains("main, web")
    );

    // Another incarnation has no requests.
    ask(&site.cells, cell, "web", "start", "t8", 10).unwrap();
    site.destroy(cell);
    site.try_make(1, 2, spec, Vec::new()).unwrap();
    site.cells.start(cell).unwrap();
    let seen = site.until(cell, |seen| service(seen, "main").ready);
    assert_eq!(service(&seen, "web").state, ServiceState::Idle);
    assert!(ask(&site.cells, cell, "web", "start", "t9", 10).is_err(), "the first incarnation is gone");
}

#[test]
fn service_in_a_dead_cell_is_stopped_and_cannot_start() {
    let site = Site::new();
    let spec =
        json!({ "services": [{ "name": "main", "restart": "always", "command": ["/bin/sleep", "1000"] }] });
    let cell = site.run(1, spec);
    let pid = site.until(cell, |seen| service(seen, "main").ready).pid;
    let first = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    site.until(cell, |seen| !seen.present);
    ask(&site.cells, cell, "main", "stop", "t1", 10).unwrap();
    assert!(ask(&site.cells, cell, "main", "start", "t2", 10).is_err());
    assert!(ask(&site.cells, cell, "nothing", "stop", "t3", 10).is_ok(), "nothing of it is left either");
}

#[test]
fn service_that_never_becomes_ready_is_ended_and_its_fault_reported() {
    let site = Site::new();
    let cell = site.run(1, json!({ "services": [
        { "name": "ends", "start": "on_request", "restart": "never", "command": ["/bin/sh", "-c", "exit 3"] },
        { "name": "mute", "start": "on_request", "command": ["/bin/sleep", "1003"], "ready": { "by": { "tcp": 81 } } },
        { "name": "once", "start": "on_request", "restart": "never", "command": ["/bin/sh", "-c", "echo x >> /once"] },
        { "name": "stubborn", "start": "on_request", "stop_seconds": 1,
          "command": ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1004; done"] },
        { "name": "again", "start": "on_request", "restart": "always", "ready": { "by": { "tcp": 82 } },
          "command": ["/bin/sh", "-c", "echo no such disk >&2; exit 1"] },
    ] }));
    let error = ask(&site.cells, cell, "ends", "start", "t1", 10).unwrap_err().to_string();
    assert!(error.contains("it ended with 3; it wrote nothing"), "{error}");
    // A service that ends again and again is given up before the timeout.
    let began = Instant::now();
    let error = ask(&site.cells, cell, "again", "start", "t0", 60).unwrap_err().to_string();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(error.contains("it ended 4 times, last with 1; its last output: no such disk"), "{error}");
    assert_eq!(service(&site.cells.look(cell).unwrap(), "again").state, ServiceState::Idle);
    let began = Instant::now();
    let error = ask(&site.cells, cell, "mute", "start", "t2", 6).unwrap_err().to_string();
    let took = began.elapsed();
    assert!(error.contains("mute did not become ready in ") && error.contains("port 81"), "{error}");
    let (_, seconds) = error.split_once("become ready in ").unwrap();
    let seconds: u64 = seconds.split_once(" s;").unwrap().0.parse().unwrap();
    // Never less than it was given; never more than it took, which a busy machine lengthens a little.
    assert!((6..=took.as_secs()).contains(&seconds), "{error}, after {took:?}");
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert!(!site.say(cell, "ps").contains("sleep 1003"), "what failed does not come about later");
    assert_eq!(service(&site.cells.look(cell).unwrap(), "mute").state, ServiceState::Idle);
    assert!(
        ask(&site.cells, cell, "mute", "start", "t2", 6).is_err(),
        "the same task failed, and does not begin anew"
    );
    ask(&site.cells, cell, "once", "start", "t3", 10).unwrap();
    ask(&site.cells, cell, "once", "start", "t3", 10).unwrap();
    assert_eq!(site.say(cell, "cat /once"), "x", "what had one thing to do has done it once a task");
    ask(&site.cells, cell, "once", "start", "t4", 10).unwrap();
    assert_eq!(site.say(cell, "cat /once"), "x\nx");
    ask(&site.cells, cell, "stubborn", "start", "t5", 10).unwrap();
    ask(&site.cells, cell, "stubborn", "stop", "t6", 10).unwrap();
    assert!(!site.say(cell, "ps").contains("1004"));
}

#[test]
fn a_command_runs_once_to_its_end_and_says_what_it_wrote() {
    let mut site = Site::new();
    let cell = site.run(1, json!({ "environment": { "CELL": "yes" } }));
    let order = json!({ "command": ["/bin/sh", "-c", "echo x >> /count; echo $CELL $OWN $(id -u); printf end; echo err >&2; exit 7"],
        "environment": { "OWN": "too" }, "uid": 0 });
    let ran = once(&site.cells, cell, "tsk_1", order.clone()).unwrap();
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (7, "yes too 0\nend", "err\n"));
    assert!(!ran.truncated && !ran.timed_out);
    site.reopen();
    assert_eq!(once(&site.cells, cell, "tsk_1", order).unwrap(), ran);
    assert_eq!(site.say(cell, "cat /count"), "x");

    let much = once(&site.cells, cell, "tsk_2", script("seq 1 1000000; echo e >&2")).unwrap();
    assert!(
        much.truncated && much.stdout.len() <= 16 << 10 && much.stdout.ends_with("\n1000000\n"),
        "{}",
        much.stdout.len()
    );
    assert_eq!(much.stderr, "e\n");
    let missing =
        once(&site.cells, cell, "tsk_3", json!({ "command": ["/nothing"] })).unwrap_err().to_string();
    assert!(missing.contains("/nothing"), "{missing}");

    // All of its input and nothing more, whatever its size and whether or not it is read.
    let input = "line\n".repeat(50_000);
    let read = json!({ "command": ["/bin/sh", "-c", "n=0; while read -r l; do n=$((n+1)); done; echo $n"], "stdin": input });
    assert_eq!(once(&site.cells, cell, "tsk_4", read).unwrap().stdout, "50000\n");
    let unread = json!({ "command": ["/bin/true"], "stdin": "x".repeat(100_000) });
    assert_eq!(once(&site.cells, cell, "tsk_5", unread).unwrap().exit, 0);
    assert_eq!(
        once(&site.cells, cell, "tsk_6", script("cat")).unwrap().stdout,
        "",
        "and none where none is given"
    );

    let wrong = Once {
        incarnation: 2,
        id: "tsk_7",
        order: &serde_json::from_value(script("true")).unwrap(),
        patience: &patience(1),
    };
    assert!(site.cells.command_once(cell, &wrong).is_err());
}

#[test]
fn a_command_is_found_again_by_the_next_agent_and_killed_when_its_time_is_over() {
    let mut site = Site::new();
    let cell = site.run(1, json!({}));
    // The first agent dies at its first look at the started process.
    let order = serde_json::from_value(script("echo x >> /count; sleep 2; echo done")).unwrap();
    let minute = patience(60);
    let dies = || -> jiff::Timestamp { std::panic::resume_unwind(Box::new("the agent died")) };
    let dying = Patience { now: &dies, ..patience(60) };
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let once = Once { incarnation: 1, id: "tsk_1", order: &order, patience: &dying };
        site.cells.command_once(cell, &once)
    }));
    assert!(died.is_err());
    site.reopen();
    let again = Once { incarnation: 1, id: "tsk_1", order: &order, patience: &minute };
    let ran = site.cells.command_once(cell, &again).unwrap();
    assert_eq!((ran.exit, ran.stdout.as_str()), (0, "done\n"));
    assert_eq!(site.say(cell, "cat /count"), "x");

    // A graceful stop leaves the command running, and the next agent gets its result.
    let leaves = Patience { given_up: &|| true, ..patience(60) };
    let order = serde_json::from_value(script("sleep 1; echo later")).unwrap();
    let left = Once { incarnation: 1, id: "tsk_6", order: &order, patience: &leaves };
    assert!(matches!(site.cells.command_once(cell, &left), Err(CellError::GivenUp)));
    let found = Once { patience: &minute, ..left };
    assert_eq!(site.cells.command_once(cell, &found).unwrap().stdout, "later\n");

    // An agent that died before it had written a command's input leaves no command waiting for the rest.
    let order = serde_json::from_value(json!({ "command": ["/bin/cat"], "stdin": "all of it" })).unwrap();
    let once_more = Once { incarnation: 1, id: "tsk_4", order: &order, patience: &minute };
    assert_eq!(site.cells.command_once(cell, &once_more).unwrap().stdout, "all of it");
    let folder = site.settings.folder.join(format!("cells/{cell}/command"));
    std::fs::create_dir(folder.join("tsk_5")).unwrap();
    std::fs::copy(folder.join("tsk_4/conmon.pid"), folder.join("tsk_5/conmon.pid")).unwrap();
    let began = Instant::now();
    let half = Once { incarnation: 1, id: "tsk_5", order: &order, patience: &minute };
    assert!(site.cells.command_once(cell, &half).is_err() && began.elapsed() < Duration::from_secs(20));

    let slow =
        json!({ "command": ["/bin/sh", "-c", "echo before; sleep 1005 & sleep 1005"], "timeout_seconds": 1 });
    let ran = once(&site.cells, cell, "tsk_2", slow.clone()).unwrap();
    assert_eq!((ran.exit, ran.timed_out, ran.stdout.as_str()), (137, true, "before\n"));
    assert!(!site.say(cell, "ps").contains("1005"), "nor does what it started live on");
    assert_eq!(once(&site.cells, cell, "tsk_2", slow).unwrap(), ran);

    // The caller waits no longer than the task lasts.
    let order = serde_json::from_value(json!({ "command": ["/bin/sleep", "1006"], "timeout_seconds": 3600 }))
        .unwrap();
    let brief = Once { incarnation: 1, id: "tsk_3", order: &order, patience: &patience(1) };
    let ran = site.cells.command_once(cell, &brief).unwrap();
    assert!(ran.timed_out && ran.exit == 137, "{ran:?}");
}

#[test]
fn destroying_a_cell_ends_its_processes_and_fails_waiting_calls() {
    let site = Site::new();
    let cell = site.run(1, json!({ "services": [
        { "name": "mute", "start": "on_request", "command": ["/bin/sleep", "1003"], "ready": { "by": { "tcp": 81 } } },
    ] }));
    std::thread::scope(|scope| {
        let command = scope.spawn(|| once(&site.cells, cell, "tsk_1", script("touch /began; sleep 1007")));
        let start = scope.spawn(|| ask(&site.cells, cell, "mute", "start", "t1", 60));
        let since = Instant::now();
        while site.shell(cell, "test -e /began").0 != 0 || !site.say(cell, "ps").contains("1003") {
            assert!(since.elapsed() < Duration::from_secs(10));
        }
        site.destroy(cell);
        assert!(start.join().unwrap().is_err());
        assert!(command.join().unwrap().is_err());
    });
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
}
