//! Supervised services.

use std::fs;
use std::path::Path;
use std::time::Instant;

use muster_wire::cell::ServiceState;
use serde_json::json;

use crate::site::{Site, service};

#[test]
fn services_start_in_order_when_those_before_them_are_ready() {
    let site = Site::new();
    let cell = site.run(
        1,
        json!({ "services": [
            { "name": "last", "command": ["/bin/sleep", "1000"], "after": ["web", "once"] },
            { "name": "once", "command": ["/bin/sh", "-c", "echo done > /tmp/once"] },
            { "name": "web", "command": ["/bin/sh", "-c", "sleep 0.5; exec httpd -f -p 8080 -h /etc"],
              "ready": { "by": { "http": { "port": 8080, "path": "/passwd" } } } },
        ] }),
    );
    let seen = site.until(cell, |seen| {
        service(seen, "web").state == ServiceState::Running && service(seen, "web").message.is_some()
    });
    assert!(!service(&seen, "web").ready);
    assert_eq!(service(&seen, "last").state, ServiceState::Waiting);
    assert!(service(&seen, "last").message.as_ref().unwrap().contains("web, once"));
    let seen = site.until(cell, |seen| service(seen, "last").ready);
    assert!(service(&seen, "web").ready && service(&seen, "web").message.is_none());
    assert_eq!((service(&seen, "once").state, service(&seen, "once").exit), (ServiceState::Ended, Some(0)));
    assert!(service(&seen, "once").ready, "it had one thing to do and did it");
}

#[test]
fn probes_ask_by_connection_by_request_and_by_command() {
    let site = Site::new();
    let web = |name: &str, by: serde_json::Value| json!({ "name": name, "command": ["/bin/sleep", "1000"], "ready": { "by": by, "timeout_seconds": 1 } });
    let cell = site.run(
        1,
        json!({ "services": [
            { "name": "web", "command": ["/bin/httpd", "-f", "-p", "80", "-h", "/etc"], "uid": 0 },
            web("tcp", json!({ "tcp": 80 })),
            web("tcp-no", json!({ "tcp": 81 })),
            web("http", json!({ "http": { "port": 80, "path": "/passwd" } })),
            web("http-no", json!({ "http": { "port": 80, "path": "/nothing" } })),
            web("command", json!({ "command": ["/bin/test", "-f", "/etc/passwd"] })),
            web("command-no", json!({ "command": ["/bin/test", "-f", "/nothing"] })),
            web("slow", json!({ "command": ["/bin/sleep", "777"] })),
        ] }),
    );
    let seen = site.until(cell, |seen| {
        ["tcp", "http", "command"].iter().all(|name| service(seen, name).ready)
            && ["tcp-no", "http-no", "command-no", "slow"]
                .iter()
                .all(|name| service(seen, name).message.is_some())
    });
    let said = |name: &str| service(&seen, name).message.clone().unwrap();
    assert!(said("tcp-no").contains("refused") && said("http-no").contains("404"));
    assert!(said("command-no").contains("exit status: 1") && said("slow").contains("after 1 seconds"));
    assert!(["tcp-no", "http-no", "command-no", "slow"].iter().all(|name| !service(&seen, name).ready));
    assert!(
        site.say(cell, "ps").matches("sleep 777").count() <= 1,
        "a probe that took too long does not stay"
    );
}

#[test]
fn a_service_that_ends_is_started_again_as_its_policy_says() {
    let site = Site::new();
    let ends = |name: &str, restart: &str, code: u8| json!({ "name": name, "command": ["/bin/sh", "-c", format!("echo run; exit {code}")], "restart": restart });
    let cell = site.run(1, json!({ "services": [ends("never", "never", 3), ends("fails", "on_failure", 4), ends("done", "on_failure", 0), ends("always", "always", 0)] }));
    let seen = site.until(cell, |seen| {
        service(seen, "fails").restarts >= 1
            && service(seen, "always").restarts >= 1
            && service(seen, "fails").exit.is_some()
    });
    assert_eq!((service(&seen, "never").state, service(&seen, "never").exit), (ServiceState::Ended, Some(3)));
    assert_eq!((service(&seen, "done").state, service(&seen, "done").exit), (ServiceState::Ended, Some(0)));
    assert_eq!((service(&seen, "never").restarts, service(&seen, "done").restarts), (0, 0));
    assert_eq!(
        (service(&seen, "fails").state, service(&seen, "fails").exit),
        (ServiceState::Restarting, Some(4))
    );
    let lines = site.cells.logs(cell, "fails", &muster_cell::LogQuery::default()).unwrap();
    assert!(lines.len() >= 2, "the log goes on across restarts");
}

#[test]
fn a_service_whose_monitor_is_killed_is_started_again_and_never_runs_twice() {
    let site = Site::new();
    let cell = site.run(1, json!({ "services": [{ "name": "one", "command": ["/bin/sleep", "1000"] }] }));
    let first = service(&site.until(cell, |seen| service(seen, "one").ready), "one").pid;
    let monitor: u32 =
        fs::read_to_string(site.settings.folder.join(format!("cells/{cell}/service/one/run-1/conmon.pid")))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
    let monitor = rustix::process::Pid::from_raw(i32::try_from(monitor).unwrap()).unwrap();
    rustix::process::kill_process(monitor, rustix::process::Signal::KILL).unwrap();
    let seen = site.until(cell, |seen| service(seen, "one").restarts == 1 && service(seen, "one").ready);
    assert_ne!(service(&seen, "one").pid, first);
    assert_eq!(site.say(cell, "ps").matches("sleep 1000").count(), 1);
}

#[test]
fn services_that_cannot_be_started_say_why() {
    let site = Site::new();
    let cell = site.run(1, json!({ "services": [{ "name": "one", "command": ["/no/such/program"] }] }));
    let seen = site.until(cell, |seen| service(seen, "one").message.is_some());
    assert!(service(&seen, "one").message.as_ref().unwrap().contains("/no/such/program"));
    assert_eq!(service(&seen, "one").state, ServiceState::Restarting);
}

#[test]
fn after_the_agent_is_opened_anew_the_same_processes_run_on() {
    let mut site = Site::new();
    let cell = site.run(
        1,
        json!({ "services": [
        { "name": "one", "command": ["/bin/sleep", "1000"] },
        { "name": "two", "command": ["/bin/sleep", "1000"], "after": ["one"] },
    ] }),
    );
    let before = site.until(cell, |seen| service(seen, "two").ready);
    site.reopen();
    let after = site.until(cell, |seen| service(seen, "two").ready);
    assert_eq!(before.pid, after.pid);
    assert_eq!(before.services, after.services);
}

#[test]
fn services_stop_in_reverse_order_and_who_does_not_is_killed_in_time() {
    let site = Site::new();
    let script = |name: &str| {
        format!("trap 'echo {name} >> /data/order; exit 0' TERM; echo up; while true; do sleep 0.02; done")
    };
    let cell = site.run(1, json!({ "state": ["/data"], "services": [
        { "name": "low", "command": ["/bin/sh", "-c", script("low")] },
        { "name": "high", "command": ["/bin/sh", "-c", script("high")], "after": ["low"] },
        { "name": "deaf", "command": ["/bin/sh", "-c", "trap '' TERM; while true; do sleep 0.05; done"], "stop_seconds": 1 },
    ] }));
    site.until(cell, |seen| seen.services.iter().all(|service| service.ready));
    let since = Instant::now();
    site.cells.destroy(cell, muster_cell::DestroyOptions { keep_state: true }).unwrap();
    assert!(since.elapsed().as_secs() < 9, "{:?}", since.elapsed());
    assert_eq!(fs::read_to_string(site.storage().join("state/cell-1/0/order")).unwrap(), "high\nlow\n");
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
    assert!(Path::new(&site.storage()).join("state").exists());
}

#[test]
fn a_service_with_the_longest_name_starts() {
    let site = Site::new();
    let name = "n".repeat(63);
    let cell = site.run(1, json!({ "services": [{ "name": name, "command": ["/bin/sleep", "1000"], "uid": 1000, "gid": 1000 }] }));
    site.until(cell, |seen| service(seen, &name).ready);
}

#[test]
fn a_probe_goes_on_for_as_long_as_its_service_runs() {
    let site = Site::new();
    let ready = json!({ "by": { "command": ["/bin/test", "-f", "/tmp/ok"] } });
    let spec = json!({ "services": [{ "name": "web", "command": ["/bin/sleep", "1000"], "ready": ready }] });
    let cell = site.run(1, spec);
    let of_web = || site.cells.observe().unwrap().remove(0).services.remove(0);
    site.say(cell, "echo >/tmp/ok");
    site.until(cell, |seen| service(seen, "web").ready);
    assert!(of_web().ready);
    site.say(cell, "busybox rm /tmp/ok");
    let since = Instant::now();
    let seen = site.until(cell, |seen| !service(seen, "web").ready);
    assert!(since.elapsed() < std::time::Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(service(&seen, "web").state, ServiceState::Running, "it runs, and is not ready");
    assert!(!of_web().ready && of_web().message.is_some(), "and that is what is reported");
    site.say(cell, "echo >/tmp/ok");
    let seen = site.until(cell, |seen| service(seen, "web").ready);
    assert_eq!(service(&seen, "web").restarts, 0);
}

#[test]
fn a_cell_of_another_start_of_the_machine_is_reported_as_ended_with_the_reason() {
    let mut site = Site::new();
    let cell = site.run(1, json!({ "services": [{ "name": "web", "command": ["/bin/sleep", "1000"] }] }));
    let status = site.cells.observe().unwrap().remove(0);
    assert!(status.alive && status.message.is_none());
    // Its record after a reboot: with a process of another boot.
    let file = site.settings.folder.join("cells").join(cell.to_string()).join("record.json");
    let own = std::fs::read_to_string(&file).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    std::fs::write(&file, own.replace(boot.trim(), "00000000-0000-0000-0000-000000000000")).unwrap();
    site.reopen();
    let status = site.cells.observe().unwrap().remove(0);
    assert!(!status.alive && status.services.is_empty());
    assert_eq!(status.message.as_deref(), Some("its node was rebooted"));
    std::fs::write(&file, own).unwrap();
    site.reopen();
    assert!(site.cells.observe().unwrap().remove(0).alive);
}
