//! Isolation: the limits of a cell with root processes.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use muster_cell::{Device, Make, RootSource};
use muster_ids::CellId;
use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;

use crate::site::{Site, service, spec_of};

fn secret(site: &Site, name: &str) -> PathBuf {
    let path = site.folder.path().join(name);
    fs::write(&path, "TOP-SECRET").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn root_in_a_cell_reads_neither_the_nodes_files_nor_another_cells() {
    let site = Site::new();
    let secret = secret(&site, "secret");
    let one = site.run(1, json!({ "state": ["/data"] }));
    let two = site.run(2, json!({ "state": ["/data"] }));
    site.say(two, "echo TOP-SECRET > /of-two; echo TOP-SECRET > /data/of-two");
    let layer = site.storage().join(format!("layer/{two}/upper/of-two"));
    assert!(layer.exists(), "the test looks for it where it is");
    let (host, layer, run) = (secret.display(), layer.display(), site.settings.run.display());
    for path in [
        format!("{host}"),
        format!("{layer}"),
        format!("{run}/cells/{two}/rootfs/of-two"),
        "/etc/shadow".to_owned(),
        "/of-two".to_owned(),
        "/data/of-two".to_owned(),
    ] {
        for before in ["", "/proc/1/root", "/proc/*/root", "/proc/self/cwd", "/../../..", "/proc/1/cwd"] {
            let (code, text) = site.shell(one, &format!("cat {before}{path}"));
            assert!(code != 0 && !text.contains("TOP-SECRET"), "{before}{path}: {text}");
        }
    }
    // The mount list names no folder of the node for the root.
    assert!(!site.say(one, "head -1 /proc/mounts").contains(&site.folder.path().display().to_string()));
}

#[test]
fn root_in_a_cell_is_nobody_on_the_node_and_in_other_cells() {
    let site = Site::new();
    let (one, two) = (site.run(1, json!({})), site.run(2, json!({})));
    let owner = |cell| fs::metadata(format!("/proc/{}", site.cells.look(cell).unwrap().pid)).unwrap().uid();
    assert!(owner(one) > site.settings.id_base && owner(two) > site.settings.id_base);
    assert!(owner(one).abs_diff(owner(two)) >= 65_536);
    let namespaces = |pid: u32| {
        ["user", "pid", "mnt", "uts", "ipc", "net", "cgroup"]
            .map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap())
    };
    let all = [std::process::id(), site.cells.look(one).unwrap().pid, site.cells.look(two).unwrap().pid]
        .map(namespaces);
    let [ours, first, second] = all;
    for ((ours, first), second) in ours.iter().zip(&first).zip(&second) {
        assert!(ours != first && first != second && ours != second, "{first:?}");
    }
    let processes = site.say(one, "ps");
    assert!(processes.lines().count() <= 4, "it sees its own processes only: {processes}");
}

#[test]
fn directories_of_the_node_show_root_in_a_cell_nothing_that_is_roots_alone() {
    let site = Site::new();
    let shared = site.folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::copy("/bin/busybox", shared.join("busybox")).unwrap();
    fs::write(shared.join("all"), "public").unwrap();
    secret(&site, "shared/root");
    let cell = site.cell_id(1);
    site.cells
        .make(&Make {
            cell_id: cell,
            allocation_id: site.allocation,
            incarnation: 1,
            name: "host",
            spec: &spec_of(json!({ "root": { "host": [shared] } })),
            root: RootSource::Host {
                directories: vec![
                    shared.clone(),
                    "/usr".into(),
                    "/bin".into(),
                    "/lib".into(),
                    "/lib64".into(),
                ],
            },
            storage: &site.storage(),
            share: None,
            devices: Vec::new(),
            hosts: "",
            secrets: &[],
        })
        .unwrap();
    site.cells.start(cell).unwrap();
    let shared = shared.display();
    assert_eq!(site.say(cell, &format!("cat {shared}/all")), "public");
    let (code, text) =
        site.shell(cell, &format!("cat {shared}/root; chmod 777 {shared}/root; cat {shared}/root"));
    assert!(code != 0 && !text.contains("TOP-SECRET"), "{text}");
    assert_ne!(site.shell(cell, &format!("echo x > {shared}/all")).0, 0);
    // Nor does a copy out of the cell by the agent.
    let mut text = String::new();
    site.cells.file_read(cell, &format!("{shared}/all")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "public");
    assert!(site.cells.file_read(cell, &format!("{shared}/root")).is_err());
    let mut archive = Vec::new();
    let _ = site.cells.folder_read(cell, &shared.to_string(), &mut archive);
    assert!(!String::from_utf8_lossy(&archive).contains("TOP-SECRET"));
}

#[test]
fn escape_attempts_from_a_cell_are_denied() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    for attempt in [
        "mount -t tmpfs none /tmp",
        "mount -o remount,rw /etc/hosts",
        "umount /etc/hosts",
        "unshare -U true",
        "unshare -n true",
        "mknod /tmp/null c 1 3",
        "echo 1 > /proc/sys/kernel/sysrq",
        "echo c > /proc/sysrq-trigger",
        "echo /x > /proc/sys/kernel/core_pattern",
        "if test -d /sys/fs/cgroup/memory; then mkdir /sys/fs/cgroup/memory/mine; else mkdir /sys/fs/cgroup/mine; fi",
        "echo 1 > /sys/kernel/mm/ksm/run",
        "cat /proc/kcore | head -c 1 | test -n \"$(cat)\"",
        "ip link add veth0 type veth",
        "hostname other",
    ] {
        assert_ne!(site.shell(cell, attempt).0, 0, "{attempt}");
    }
    let status = site.say(cell, "cat /proc/self/status");
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
    // CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, NET_BIND_SERVICE, SYS_CHROOT.
    assert!(status.contains("CapBnd:\t00000000000404eb"), "{status}");
    let (_, status) = site.shell_as(cell, 1000, "cat /proc/self/status");
    assert!(
        status.contains("CapEff:\t0000000000000000") && status.contains("CapPrm:\t0000000000000000"),
        "{status}"
    );
}

#[test]
fn only_the_claimed_device_can_be_opened_even_with_another_at_hand() {
    let site = Site::new();
    let major = number_without_driver();
    let node = |minor: u32| {
        let path = site.folder.path().join(format!("gpu{minor}"));
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), device)
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        path
    };
    let (claimed, other) = (node(0), node(1));
    let device = Device { source: claimed.clone(), target: "/dev/gpu0".to_owned(), major, minor: 0 };
    let lie = Device { minor: 1, ..device.clone() };
    assert!(
        site.try_make(1, 1, json!({}), vec![lie]).unwrap_err().to_string().contains(&format!("{major}:1"))
    );
    site.try_make(1, 1, json!({}), vec![device]).unwrap();
    let cell = site.cell_id(1);
    site.cells.start(cell).unwrap();
    assert_eq!(site.cells.look(cell).unwrap().devices, vec![claimed.display().to_string()]);
    // No driver has this number, so "no such device" means that the rules allowed it.
    let said = site.shell(cell, "cat /dev/gpu0").1;
    assert!(said.contains("No such device or address"), "{said}");
    assert!(!site.say(cell, "ls /dev").contains("gpu1"));
    site.say(
        cell,
        "echo x > /dev/null; head -c 1 /dev/zero > /dev/full || head -c 1 /dev/urandom > /dev/null",
    );

    // A process in the cell's group with access to the other node, however obtained.
    for (node, answer) in [(&claimed, "No such device or address"), (&other, "Operation not permitted")] {
        let output = in_group(&site, cell, "exec cat \"$2\"", node);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(answer), "{}: {said}", node.display());
    }
}

/// Returns a local device number that no driver has taken on this machine.
fn number_without_driver() -> u32 {
    let devices = fs::read_to_string("/proc/devices").unwrap();
    let characters = devices.split("Block devices:").next().unwrap();
    let taken: Vec<u32> =
        characters.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    (240..=254).chain(120..=127).chain(60..=63).find(|major| !taken.contains(major)).expect("one is free")
}

/// With a device that a driver serves, on any machine, and with a real GPU where there is one.
#[test]
fn a_device_with_a_driver_opens_in_the_cell_that_claimed_it_and_in_no_other() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (node, gpu) = (folder.path().join("device"), Path::new("/dev/nvidia0"));
    // The driver of loop devices: disks of allocations need it, and every user may open this node.
    let loops = rustix::fs::makedev(10, 237);
    rustix::fs::mknodat(CWD, &node, FileType::CharacterDevice, Mode::from_raw_mode(0o666), loops).unwrap();
    fs::set_permissions(&node, fs::Permissions::from_mode(0o666)).unwrap();
    assert_opens_where_it_is_claimed(&node);
    if gpu.exists() {
        assert_opens_where_it_is_claimed(gpu);
    } else {
        println!("NOT RUN with a real GPU: there is no {} on this machine", gpu.display());
    }
}

fn assert_opens_where_it_is_claimed(node: &Path) {
    let facts = rustix::fs::stat(node).unwrap();
    let (major, minor) = (rustix::fs::major(facts.st_rdev), rustix::fs::minor(facts.st_rdev));
    let device = Device { source: node.into(), target: "/dev/nvidia0".to_owned(), major, minor };
    let site = Site::new();
    site.try_make(1, 1, json!({}), vec![device]).unwrap();
    site.try_make(2, 1, json!({}), vec![]).unwrap();
    let (with, without) = (site.cell_id(1), site.cell_id(2));
    for cell in [with, without] {
        site.cells.start(cell).unwrap();
    }
    assert_eq!(site.shell(with, "exec 3</dev/nvidia0 && echo opened"), (0, "opened\n".to_owned()));
    assert_ne!(site.shell(without, "exec 3</dev/nvidia0").0, 0);
    // With access to the node itself, however obtained, the rules decide.
    for (cell, opens) in [(with, true), (without, false)] {
        let output = in_group(&site, cell, "exec 3<\"$2\"", node);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), opens, "{}: {said}", node.display());
        assert!(opens || said.contains("Operation not permitted"), "{said}");
    }
}

/// Runs a script of the node's shell in the control group of a cell; the script's second argument is `node`.
fn in_group(site: &Site, cell: CellId, script: &str, node: &Path) -> std::process::Output {
    let groups = ["/sys/fs/cgroup/devices", "/sys/fs/cgroup"].map(|mount| {
        Path::new(mount)
            .join(&site.settings.cgroup_root)
            .join(site.allocation.to_string())
            .join(cell.to_string())
    });
    let group = groups.iter().find(|group| group.is_dir()).unwrap().join("cgroup.procs");
    let script = format!("echo $$ > \"$1\" && {script}");
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &script, "sh"]).arg(&group).arg(node).output().unwrap()
}

#[test]
fn nothing_that_the_agent_has_open_reaches_a_cell_and_nothing_of_an_image_reaches_a_monitor() {
    let site = Site::new();
    let open = fs::File::open(secret(&site, "secret")).unwrap();
    // The worst case: a descriptor that is not closed on exec.
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let cell = site.run(
        1,
        json!({ "services": [{ "name": "list", "command": ["/bin/sh", "-c", "ls /proc/self/fd; sleep 1000"],
                               "environment": { "LD_PRELOAD": "/also-evil.so" } }] }),
    );
    let seen = site.until(cell, |seen| service(seen, "list").ready);
    // The fourth is the listing itself.
    assert_eq!(site.say(cell, "ls /proc/self/fd"), "0\n1\n2\n3");
    let lines = site.cells.logs(cell, "list", &muster_cell::LogQuery::default()).unwrap();
    assert_eq!(lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    assert!(
        !fs::read_dir(format!("/proc/{}/fd", seen.pid)).unwrap().flatten().any(|entry| entry
            .file_name()
            .to_str()
            .unwrap()
            .len()
            > 1)
    );

    let status = fs::read_to_string(format!("/proc/{}/stat", service(&seen, "list").pid)).unwrap();
    let monitor = status.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().to_owned();
    let environment = fs::read_to_string(format!("/proc/{monitor}/environ")).unwrap();
    assert!(
        environment.starts_with("PATH=/usr/local/sbin") && !environment.contains("evil"),
        "{environment}"
    );
}

#[test]
fn names_and_paths_that_climb_are_refused_before_anything_is_made() {
    let site = Site::new();
    let refused = |spec| {
        let error = site.try_make(1, 1, spec, Vec::new()).unwrap_err();
        assert!(matches!(error, muster_cell::CellError::Refused(_)), "{error}");
    };
    for name in ["../x", "a/b", "", ".."] {
        refused(json!({ "services": [{ "name": name, "command": ["/bin/true"] }] }));
    }
    for path in ["/../data", "data", "/", "/proc/x", "/dev", "/run/muster", "/etc"] {
        refused(json!({ "state": [path] }));
    }
    refused(json!({ "files": [{ "path": "/a/../../b", "text": "" }] }));
    refused(
        json!({ "services": [{ "name": "a", "command": ["/x"], "working_directory": "/proc/self/fd/5" }] }),
    );
    refused(json!({ "environment": { "A=B": "c" } }));
    let mut make = Make {
        cell_id: site.cell_id(1),
        allocation_id: site.allocation,
        incarnation: 1,
        name: "../../escape",
        spec: &spec_of(json!({})),
        root: site.image(),
        storage: &site.storage(),
        share: None,
        devices: Vec::new(),
        hosts: "",
        secrets: &[],
    };
    assert!(site.cells.make(&make).is_err());
    make.name = "fine";
    make.devices =
        vec![Device { source: "/dev/null".into(), target: "/dev/../etc/x".to_owned(), major: 1, minor: 3 }];
    assert!(site.cells.make(&make).is_err());
    make.devices = Vec::new();
    make.root = RootSource::Host { directories: vec!["/etc".into()] };
    assert!(site.cells.make(&make).is_err());
    assert_eq!(site.cells.leftovers(site.cell_id(1)).unwrap(), Vec::<String>::new());
}

#[test]
fn a_process_in_the_agents_group_is_no_process_of_the_cell() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let mut child = std::process::Command::new("/bin/sleep").arg("1000").process_group(0).spawn().unwrap();
    let (_, text) = site.shell(cell, &format!("kill -9 {}", child.id()));
    assert!(child.try_wait().unwrap().is_none(), "{text}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Data of a cell can outlive the cell's record, on a disk that outlives both. The next cell must not be created through its
/// links.
#[test]
fn links_in_a_layer_that_outlived_its_record_are_not_followed() {
    let site = Site::new();
    let victim = site.folder.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("passwd"), "untouched").unwrap();
    let upper = site.storage().join("layer").join(site.cell_id(1).to_string()).join("upper");
    fs::create_dir_all(upper.join("etc")).unwrap();
    for (link, to) in
        [("home", victim.clone()), ("etc/passwd", victim.join("passwd")), ("usr", victim.clone())]
    {
        symlink(to, upper.join(link)).unwrap();
    }
    let spec = spec_of(json!({"root": {"host": ["/usr"]}}));
    let made = site.cells.make(&Make {
        cell_id: site.cell_id(1),
        allocation_id: site.allocation,
        incarnation: 1,
        name: "cell-1",
        spec: &spec,
        root: RootSource::Host { directories: vec!["/usr".into()] },
        storage: &site.storage(),
        share: None,
        devices: Vec::new(),
        hosts: "127.0.0.1 localhost\n",
        secrets: &[],
    });
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!((owner(&victim), owner(&victim.join("passwd"))), (0, 0));
    assert_eq!(fs::read_to_string(victim.join("passwd")).unwrap(), "untouched");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(victim.to_str().unwrap()), "{mounts}");
    made.unwrap();
    assert!(upper.join("home").symlink_metadata().unwrap().is_dir());
}
