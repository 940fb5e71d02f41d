//! Checks beside a cell: its processes cannot influence their result. Where possible, the same attack first succeeds on a
//! command inside the cell, which proves that it is one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use muster_cell::{CellResult, CheckLimits, Make, RootSource, Streams};
use muster_ids::CellId;
use muster_wire::task::{ProbeOrder, Ran};
use serde_json::json;

use crate::site::{Folder, Site, patience, shell, spec_of};

fn order(command: &[&str], sees: &[&str]) -> ProbeOrder {
    serde_json::from_value(json!({ "command": command, "sees": sees })).unwrap()
}

fn witness(site: &Site, cell: CellId, command: &[&str], sees: &[&str]) -> CellResult<Ran> {
    site.cells.run_check(cell, 1, &order(command, sees), &patience(60))
}

/// Returns the output of a check, which must succeed.
fn says(site: &Site, cell: CellId, script: &str, sees: &[&str]) -> String {
    let ran = witness(site, cell, &["/bin/sh", "-c", script], sees).unwrap();
    assert_eq!(ran.exit, 0, "{script}: {ran:?}");
    ran.stdout.trim().to_owned()
}

/// Asserts that nothing of any check is left on the node.
fn assert_cleared(site: &Site, cell: CellId) {
    assert!(!site.settings.run.join(format!("cells/{cell}/witness")).exists());
    for name in ["cpu", "memory", "pids", "unified", "."] {
        let folder = Path::new("/sys/fs/cgroup").join(name).join(&site.settings.cgroup_root);
        let checks = folder.join("checks").join(site.allocation.to_string());
        for entry in
            [folder, checks].into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten()
        {
            assert!(!entry.file_name().to_string_lossy().contains(".w"), "{:?}", entry.path());
        }
    }
    for entry in fs::read_dir(site.settings.run.join("runc")).into_iter().flatten().flatten() {
        assert!(!entry.file_name().to_string_lossy().contains(".w"), "{:?}", entry.path());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&format!("{cell}/witness")), "{mounts}");
}

#[test]
fn a_forged_program_a_preload_and_a_forged_shell_deceive_a_command_and_no_check() {
    let site = Site::new();
    let cell = site.run(1, json!({ "state": ["/data"] }));
    site.say(cell, "echo true > /data/word; mkdir /srv; echo layer > /srv/word");
    let command = ["/bin/cat", "/data/word"];
    assert_eq!(witness(&site, cell, &command, &["/data"]).unwrap().stdout, "true\n");

    site.say(cell, "rm /bin/cat; printf '#!/bin/busybox sh\\necho forged\\n' > /bin/cat; chmod 755 /bin/cat");
    site.say(cell, "echo /evil.so > /etc/ld.so.preload; mkdir -p /data/bin; ln -s /bin/cat /data/bin/cat");
    assert_eq!(site.say(cell, "/bin/cat /data/word"), "forged", "the attack works where a command runs");
    assert_eq!(witness(&site, cell, &command, &["/data"]).unwrap().stdout, "true\n");
    assert_eq!(
        says(&site, cell, "cat /srv/word", &["/srv"]),
        "layer",
        "it sees the cell's layer where it is let"
    );
    assert_eq!(
        says(&site, cell, "ls /etc/ld.so.preload /srv 2>/dev/null; true", &[]),
        "",
        "and nowhere else"
    );

    // All programs at once; none of them runs inside afterwards.
    site.say(
        cell,
        "mkdir /kept; cp /bin/busybox /kept/busybox; printf '#!/kept/busybox sh\\necho forged\\n' > /tmp/forged; \
         chmod 755 /tmp/forged; /kept/busybox mv /tmp/forged /bin/busybox",
    );
    assert_eq!(site.say(cell, "true"), "forged");
    assert_eq!(witness(&site, cell, &command, &["/data"]).unwrap().stdout, "true\n");

    // A search path into the cell finds files that are readable and not executable.
    let mut order = order(&["/bin/sh", "-c", "cat /data/word"], &["/data"]);
    order.environment.insert("PATH".into(), "/data/bin:/bin".into());
    let ran = site.cells.run_check(cell, 1, &order, &patience(60)).unwrap();
    assert_eq!(ran.stdout, "true\n", "{ran:?}");
    assert_cleared(&site, cell);
}

#[test]
fn nothing_in_what_it_sees_is_ever_run_and_nothing_is_written() {
    let site = Site::new();
    let cell = site.run(1, json!({ "state": ["/data"], "files": [{ "path": "/opt/a", "text": "a" }] }));
    site.say(cell, "cp /bin/busybox /data/busybox; chmod 4755 /data/busybox; mkdir /data/sub; mknod /data/null c 1 3; true");
    assert_eq!(site.say(cell, "/data/busybox echo run"), "run");
    let error = witness(&site, cell, &["/data/busybox", "echo", "run"], &["/data"]).unwrap_err().to_string();
    assert!(error.contains("ermission denied"), "{error}");
    for script in [
        "echo x > /data/new",
        "echo x > /opt/a",
        "echo x > /bin/new",
        "mount -o remount,rw /data",
        "umount /proc",
        "echo x > /proc/sys/kernel/core_pattern",
        "cat /proc/1/root/etc/passwd",
    ] {
        let ran = witness(&site, cell, &["/bin/sh", "-c", script], &["/data", "/opt"]).unwrap();
        assert_ne!(ran.exit, 0, "{script}");
    }
    let line = says(&site, cell, "grep ' /data ' /proc/self/mountinfo", &["/data"]);
    for option in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(line.split([' ', ',']).any(|word| word == option), "{option}: {line}");
    }
    assert_eq!(
        says(&site, cell, "echo x > /tmp/a; cat /tmp/a; ls /data/sub; ls -d /data/sub", &["/data"]),
        "x\n/data/sub"
    );
    assert_cleared(&site, cell);
}

#[test]
fn links_lead_it_nowhere_and_places_of_programs_cannot_be_shown_to_it() {
    let site = Site::new();
    fs::write(site.folder.path().join("of-the-node"), "node").unwrap();
    let cell = site.run(1, json!({ "state": ["/data"] }));
    site.say(cell, "ln -s / /srv; ln -s ../../../../.. /data/up; ln -s /proc/1/root /data/magic; mkdir -p /opt/x; echo f > /data/file");
    for path in ["/srv", "/data/up", "/data/magic", "/data/magic/etc", "/data/file"] {
        let error = witness(&site, cell, &["/bin/true"], &[path]).unwrap_err().to_string();
        assert!(error.contains(path), "{path}: {error}");
    }
    // A missing directory is empty, and a link in its path leads nowhere either.
    for path in ["/data/not-there", "/not/there", "/var/not-there"] {
        let script = format!("ls -A {path}; ls -d {path}");
        assert_eq!(says(&site, cell, &script, &[path]), path, "an empty directory, and nothing else");
    }
    assert_eq!(
        says(&site, cell, "ls /data/not-there || cat /data/file", &["/data/not-there", "/data"]),
        "f",
        "inside another it is missing there"
    );
    let dangling = witness(&site, cell, &["/bin/true"], &["/data/up/not-there"]).unwrap_err().to_string();
    assert!(dangling.contains("/data/up/not-there"), "{dangling}");
    // A link in a mounted directory is resolved in the check's own root, without the cell's files.
    site.say(cell, "ln -s /etc/passwd /data/link; echo forged > /etc/passwd");
    assert!(says(&site, cell, "cat /data/link", &["/data"]).contains("alice"));
    for path in [
        "/", "/bin", "/usr/lib", "/lib64", "/etc", "/etc/", "/proc", "/sys", "/dev/shm", "relative",
        "/a/../b",
    ] {
        let error = witness(&site, cell, &["/bin/true"], &[path]).unwrap_err().to_string();
        assert!(error.contains("not a path") || error.contains("cannot be used"), "{path}: {error}");
    }
    assert!(witness(&site, cell, &["sh"], &[]).is_err(), "a program is named by its path");
    assert!(
        site.cells.run_check(cell, 2, &order(&["/bin/true"], &[]), &patience(60)).is_err(),
        "that incarnation is not there"
    );
    assert_cleared(&site, cell);
}

/// Attack: the cell's root becomes the user of other processes in its namespace, and writes into their output and memory.
#[test]
fn its_output_and_memory_are_out_of_reach_for_the_root_of_the_cell() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let attack = "while :; do for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || echo forged > $p/fd/1; done; done 2>/dev/null";
    site.cells.command_start(cell, "attack", &shell(0, attack)).unwrap();
    let slow = "sleep 1; echo true";
    let mut attached = site.cells.exec(cell, &shell(0, slow), Streams::Pipes).unwrap();
    drop(attached.child.stdin.take());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut attached.child.stdout.take().unwrap(), &mut text).unwrap();
    assert!(text.contains("forged"), "the attack works where a command runs");
    for uid in [0, 1000] {
        let mut order = order(&["/bin/sh", "-c", slow], &[]);
        (order.uid, order.gid) = (uid, uid);
        assert_eq!(site.cells.run_check(cell, 1, &order, &patience(60)).unwrap().stdout, "true\n");
    }
    site.cells.command_kill(cell, "attack").unwrap();
    // Nor can it read anything of the check, as any user that it can become.
    let mut order = order(&["/bin/sleep", "50"], &[]);
    (order.uid, order.gid, order.timeout_seconds) = (1000, 1000, 60);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| site.cells.run_check(cell, 1, &order, &patience(60)).unwrap());
        let find =
            "for p in /proc/[0-9]*; do grep -q '^.bin.sleep' $p/cmdline 2>/dev/null && echo $p; done; true";
        let mut found = String::new();
        while found.is_empty() && !running.is_finished() {
            found = site.say(cell, find);
        }
        for part in ["environ", "maps", "mem", "fd/0", "root/bin/sh", "cwd/bin/sh"] {
            for uid in [0, 1000] {
                assert_ne!(
                    site.shell_as(cell, uid, &format!("head -c 1 {found}/{part} > /tmp/x.$$")).0,
                    0,
                    "{uid} {part}"
                );
            }
        }
        // It can kill the check, which then fails.
        assert_eq!(
            site.shell_as(cell, 1000, &format!("kill -9 {}", found.trim_start_matches("/proc/"))).0,
            0
        );
        let ran = running.join().unwrap();
        assert_eq!((ran.exit, ran.timed_out), (137, false));
    });
    assert_cleared(&site, cell);
}

#[test]
fn it_is_among_the_cell_s_processes_and_in_its_network_with_no_rights_and_a_clean_environment() {
    let site = Site::new();
    let cell = site.run(1, json!({ "environment": { "CELL": "yes" } }));
    site.say(cell, "mkdir /srv; echo from-the-cell > /srv/word");
    site.cells.command_start(cell, "listen", &shell(0, "exec httpd -f -p 7001 -h /srv")).unwrap();
    let since = Instant::now();
    let listening = "printf 'GET /word HTTP/1.0\\r\\n\\r\\n' | nc 127.0.0.1 7001";
    while !site.shell(cell, listening).1.contains("from-the-cell") {
        assert!(since.elapsed() < Duration::from_secs(10), "{}", site.shell(cell, listening).1);
    }
    assert!(says(&site, cell, listening, &[]).contains("from-the-cell"));
    let processes = says(&site, cell, "cat /proc/[0-9]*/cmdline", &[]);
    assert!(processes.contains("httpd\0-f"), "the cell's processes are there: {processes}");
    let link = site.shell(cell, "ip link").1;
    assert_eq!(says(&site, cell, "ip link", &[]), link.trim(), "the same links, by the same numbers");
    assert_eq!(says(&site, cell, "hostname; cat /etc/hosts", &[]), "cell-1\n127.0.0.1 localhost");
    // The runtime sets HOME from the image's own users; there is nothing else.
    assert_eq!(witness(&site, cell, &["/bin/env"], &[]).unwrap().stdout, "HOME=/\n");
    let status = says(&site, cell, "cat /proc/self/status", &[]);
    for line in [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let mut order = order(&["/bin/sh", "-c", "id -u; id -g; cat /etc/only-root"], &[]);
    (order.uid, order.gid) = (1000, 1001);
    let ran = site.cells.run_check(cell, 1, &order, &patience(60)).unwrap();
    assert_eq!((ran.exit, ran.stdout.as_str()), (1, "1000\n1001\n"), "{ran:?}");
    let missing = witness(&site, cell, &["/bin/nothing"], &[]).unwrap_err().to_string();
    assert!(missing.contains("/bin/nothing"), "{missing}");
    assert_cleared(&site, cell);
}

#[test]
fn its_time_its_output_and_its_processes_are_bounded() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let bounded = |script: &str| {
        let mut order = order(&["/bin/sh", "-c", script], &[]);
        order.timeout_seconds = 2;
        let began = Instant::now();
        let ran = site.cells.run_check(cell, 1, &order, &patience(60)).unwrap();
        assert!(began.elapsed() < Duration::from_secs(15), "{script}: {:?}", began.elapsed());
        ran
    };
    let slow = bounded("echo before; sleep 1000");
    assert_eq!((slow.exit, slow.timed_out, slow.stdout.as_str()), (137, true, "before\n"));
    let bomb = bounded("b() { b | b & }; b; while :; do :; done");
    assert!(bomb.timed_out, "{bomb:?}");
    let much = bounded("seq 1 200000; echo complaint >&2; exit 3");
    assert_eq!((much.exit, much.timed_out, much.truncated), (3, false, true));
    assert!(much.stdout.len() <= 16 << 10 && much.stdout.ends_with("\n200000\n"), "{}", much.stdout.len());
    assert_eq!(much.stderr, "complaint\n");
    let left = bounded("sleep 1000 & echo done");
    assert_eq!(
        (left.exit, left.timed_out, left.stdout.as_str()),
        (0, false, "done\n"),
        "what it left behind does not hold it up"
    );
    assert_cleared(&site, cell);
    assert!(!site.say(cell, "ps").contains("sleep 1000"));
}

#[test]
fn a_cell_that_has_used_up_what_it_may_have_can_still_be_looked_at() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let group = format!("{}/{}/pids.max", site.settings.cgroup_root, site.allocation);
    let files = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(|mount| Path::new(mount).join(&group));
    let file = files.iter().find(|file| file.exists()).unwrap();
    fs::write(file, "1").unwrap();
    assert_ne!(site.shell(cell, "sleep 0 && echo inside").1.trim(), "inside", "nothing more starts in it");
    assert_eq!(says(&site, cell, "sleep 0 && echo beside", &[]), "beside");
    fs::write(file, "max").unwrap();
}

const LONG: [&str; 3] = ["/bin/sh", "-c", "sleep 9; echo x"];

/// Waits until the long check is running.
fn until_it_runs(site: &Site, cell: CellId) {
    let since = Instant::now();
    while !site.say(cell, "ps").contains("sleep 9") {
        assert!(since.elapsed() < Duration::from_secs(10));
    }
}

/// Not a test of its own: the next one starts it as a separate process, to kill it.
#[test]
fn the_agent_of_the_next_test() {
    let Ok(folder) = std::env::var("MUSTER_TEST_WITNESS") else { return };
    let number = std::env::var("MUSTER_TEST_NUMBER").unwrap().parse().unwrap();
    // The parent process owns the folder.
    let site = std::mem::ManuallyDrop::new(Site::at(Folder::Other(folder.into()), number));
    let _ = witness(&site, site.cell_id(1), &LONG, &[]);
}

#[test]
fn check_left_by_a_dead_agent_is_removed_at_the_next_start() {
    let mut site = Site::new();
    let cell = site.run(1, json!({}));
    let mut agent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "witness::the_agent_of_the_next_test"])
        .env("MUSTER_TEST_WITNESS", site.folder.path())
        .env("MUSTER_TEST_NUMBER", site.number.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until_it_runs(&site, cell);
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(site.say(cell, "ps").contains("sleep 9"), "nobody has ended it");
    site.reopen();
    assert_cleared(&site, cell);
    assert!(!site.say(cell, "ps").contains("sleep 9"));
    assert_eq!(says(&site, cell, "echo next", &[]), "next");
}

/// A check that expects an exit status of 1 must not succeed if nothing ran at all.
#[test]
fn failure_to_start_is_never_reported_as_an_exit_status() {
    let mut site = Site::new();
    for (name, text) in [("garbage", "neither a program nor a script\n"), ("lost", "#!/bin/nothing\n")] {
        let file = site.folder.path().join("image/bin").join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let cell = site.run(1, json!({}));
    for program in ["/bin/garbage", "/bin/lost"] {
        let ran = witness(&site, cell, &[program], &[]);
        assert!(ran.is_err(), "{program}: {ran:?}");
    }
    // A runtime that exits like a program would, with and without a readable log.
    let runc = site.settings.tools.runc.clone();
    let script = site.folder.path().join("runc");
    for before in ["", "rm -rf \"$log\"; mkdir \"$log\";", "printf '\\377' > \"$log\";"] {
        let text = format!(
            "#!/bin/sh\nfor word; do\n  [ \"$last\" = --log ] && log=$word\n  last=$word\n  case $word in run|create) {before} exit 1;; esac\ndone\nexec {} \"$@\"\n",
            runc.display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        site.settings.tools.runc.clone_from(&script);
        site.reopen();
        let ran = witness(&site, cell, &["/bin/true"], &[]);
        assert!(ran.is_err(), "{before}: {ran:?}");
    }
    site.settings.tools.runc = runc;
    site.reopen();
    assert_eq!(witness(&site, cell, &["/bin/sh", "-c", "exit 1"], &[]).unwrap().exit, 1);
    assert_cleared(&site, cell);
}

/// Otherwise an allocation would gain memory with every check.
#[test]
fn checks_of_an_allocation_that_run_at_once_share_one_limit() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let hog = ["/bin/sh", "-c", "dd if=/dev/zero of=/dev/null bs=300M count=12"];
    assert_eq!(witness(&site, cell, &hog, &[]).unwrap().exit, 0, "one alone has room");
    let ends = std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..4).map(|_| scope.spawn(|| witness(&site, cell, &hog, &[]).unwrap().exit)).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(ends.contains(&137), "four at once do not: {ends:?}");
    assert_cleared(&site, cell);
}

/// Returns what the checks of all cells printed that ran at once, with their exits.
fn at_once(site: &Site, cells: &[CellId], script: &str) -> Vec<Ran> {
    let command = ["/bin/sh", "-c", script];
    std::thread::scope(|scope| {
        let running: Vec<_> = cells
            .iter()
            .map(|cell| scope.spawn(move || witness(site, *cell, &command, &[]).unwrap()))
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Attack: many small allocations, each with checks beside it, use more of the node than they hold.
#[test]
fn checks_of_many_allocations_together_stay_within_the_memory_of_the_node() {
    let mut site = Site::new();
    site.settings.checks = CheckLimits::new(1, 512).unwrap();
    site.reopen();
    let cells: Vec<CellId> = (1..=4).map(|number| site.run_apart(number)).collect();
    // Each alone is within the limit of its allocation, 256 MiB; together they are 800 MiB.
    let hog = "dd if=/dev/zero of=/dev/null bs=200M count=12";
    for one in &cells {
        assert_eq!(witness(&site, *one, &["/bin/sh", "-c", hog], &[]).unwrap().exit, 0, "one alone has room");
    }
    let ends: Vec<i32> = at_once(&site, &cells, hog).iter().map(|ran| ran.exit).collect();
    assert!(ends.contains(&137), "four at once do not: {ends:?}");
    let small = at_once(&site, &cells, "dd if=/dev/zero of=/dev/null bs=50M count=12");
    assert!(small.iter().all(|ran| ran.exit == 0), "what fits runs: {small:?}");
    for cell in cells {
        assert_cleared(&site, cell);
    }
}

/// Returns the number of allocations with a process in the group of the node's checks that limits CPUs.
fn allocations_checked(site: &Site) -> usize {
    let group = format!("{}/checks", site.settings.cgroup_root);
    let limited = |mount: &&str| {
        let folder = Path::new(mount).join(&group);
        folder.join("cpu.cfs_quota_us").exists() || folder.join("cpu.max").exists()
    };
    let mount = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].into_iter().find(limited).unwrap();
    let below =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_busy = |check: std::path::PathBuf| {
        fs::read_to_string(check.join("cgroup.procs")).is_ok_and(|pids| !pids.is_empty())
    };
    below(&Path::new(mount).join(group)).filter(|allocation| below(allocation).any(is_busy)).count()
}

#[test]
fn checks_of_many_allocations_together_stay_within_the_cpus_of_the_node() {
    let mut site = Site::new();
    site.settings.checks = CheckLimits::new(1, 1_024).unwrap();
    site.reopen();
    let cells: Vec<CellId> = (1..=4).map(|number| site.run_apart(number)).collect();
    let busy = "end=$(($(busybox date +%s) + 4)); while [ $(busybox date +%s) -lt $end ]; do :; done; times";
    let began = Instant::now();
    let ended = std::thread::scope(|scope| {
        let running = scope.spawn(|| at_once(&site, &cells, busy));
        // A busy machine may leave them less than one CPU, so the group with the limit must hold them all.
        while allocations_checked(&site) < cells.len() {
            assert!(!running.is_finished(), "not all are in the group of the node's checks");
            std::thread::sleep(Duration::from_millis(20));
        }
        running.join().unwrap()
    });
    let elapsed = began.elapsed().as_secs_f64();
    // Two lines, of the shell and of its children: "0m0.120s 0m0.340s".
    let seconds = |word: &str| -> f64 {
        let (minutes, rest) = word.split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + rest.trim_end_matches('s').parse::<f64>().unwrap()
    };
    let used: f64 = ended.iter().flat_map(|ran| ran.stdout.split_whitespace()).map(seconds).sum();
    assert!(used > 0.5, "they work: {ended:?}");
    assert!(used <= elapsed * 1.1 + 0.3, "{used} CPU seconds in {elapsed} seconds, with one CPU: {ended:?}");
}

/// A limit that an operator lowers holds from the agent's next start on.
#[test]
fn the_limit_of_the_checks_of_a_node_follows_its_setting() {
    let mut site = Site::new();
    let limit = |site: &Site| {
        let file = |path: &str| {
            let path = path.replace("GROUP", &format!("{}/checks", site.settings.cgroup_root));
            fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok()
        };
        let memory = file("memory/GROUP/memory.limit_in_bytes").or_else(|| file("GROUP/memory.max")).unwrap();
        let cpus = file("cpu/GROUP/cpu.cfs_quota_us").or_else(|| file("GROUP/cpu.max")).unwrap();
        let number = |text: String| text.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        (number(cpus) / 100_000, number(memory) >> 20)
    };
    for (cpus, memory_mb) in [(4, 4_096), (1, 300)] {
        site.settings.checks = CheckLimits::new(cpus, memory_mb).unwrap();
        site.reopen();
        assert_eq!(limit(&site), (u64::from(cpus), memory_mb));
    }
    let cell = site.run(1, json!({}));
    assert_eq!(says(&site, cell, "echo small", &[]), "small");
}

#[test]
fn the_end_of_a_cell_ends_a_check_beside_it() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| witness(&site, cell, &LONG, &[]));
        until_it_runs(&site, cell);
        site.destroy(cell);
        assert!(!running.join().unwrap().is_ok_and(|ran| ran.exit == 0));
    });
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
    assert_cleared(&site, cell);
}

#[test]
fn a_cell_of_the_node_s_directories_is_checked_with_those() {
    let site = Site::new();
    let spec = spec_of(json!({ "root": { "host": ["/bin", "/usr", "/lib", "/lib64"] }, "state": ["/data"] }));
    let directories = ["/bin", "/usr", "/lib", "/lib64"].map(Into::into).to_vec();
    let make = Make {
        cell_id: site.cell_id(1),
        allocation_id: site.allocation,
        incarnation: 1,
        name: "cell-1",
        spec: &spec,
        root: RootSource::Host { directories },
        storage: &site.storage(),
        share: None,
        devices: Vec::new(),
        hosts: "127.0.0.1 localhost\n",
        secrets: &[],
    };
    site.cells.make(&make).unwrap();
    let cell = site.cell_id(1);
    site.cells.start(cell).unwrap();
    site.say(cell, "echo true > /data/word; mkdir /opt; echo /data/evil.so > /etc/ld.so.preload");
    let ran = witness(&site, cell, &["/usr/bin/cat", "/data/word", "/etc/hosts"], &["/data"]).unwrap();
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (0, "true\n127.0.0.1 localhost\n", ""));
    let gone = witness(&site, cell, &["/usr/bin/cat", "/etc/ld.so.preload"], &[]).unwrap();
    assert_eq!(gone.exit, 1, "{gone:?}");
    assert_cleared(&site, cell);
}
