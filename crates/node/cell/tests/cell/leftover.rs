//! Remains are found, whatever their origin.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use rustix::mount::UnmountFlags;
use serde_json::json;

use crate::site::Site;

/// A process that ends with the test, with its children.
struct Planted(Child);

impl Planted {
    fn start(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// A mount that ends with the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A control group that ends with the test.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                let _ = self.0.parent().map(fs::remove_dir);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn bind(source: &Path, target: &Path) -> Mounted {
    rustix::mount::mount_bind(source, target).unwrap();
    Mounted(target.to_path_buf())
}

#[test]
fn every_kind_of_thing_that_is_left_is_found() {
    let site = Site::new();
    let cell = site.run(1, json!({ "state": ["/data"] }));
    let pid = site.cells.look(cell).unwrap().pid;
    let here = site.folder.path();

    // Holders of a namespace must be planted while it exists.
    let name = here.join("held");
    fs::write(&name, "").unwrap();
    let held = bind(Path::new(&format!("/proc/{pid}/ns/net")), &name);
    let uts = format!("--uts=/proc/{pid}/ns/uts");
    let inside = Planted::start(Command::new("/usr/bin/nsenter").args([&uts, "/bin/sleep", "1000"]));
    let user = fs::read_to_string(format!("/proc/{pid}/uid_map"))
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u32>()
        .unwrap();
    while fs::read_link(format!("/proc/{}/ns/uts", inside.0.id())).unwrap()
        != fs::read_link(format!("/proc/{pid}/ns/uts")).unwrap()
    {}
    site.destroy(cell);
    let left = site.cells.leftovers(cell).unwrap();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().any(|text| text.contains("mount at") && text.contains("held")), "{left:?}");
    assert!(
        left.iter().any(|text| text.contains("uts namespace") && text.contains(&inside.0.id().to_string())),
        "{left:?}"
    );
    assert_eq!(site.cells.look(cell).unwrap().left, left);
    drop((held, inside));
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());

    let found = |wanted: &str, what: &str| {
        // A starting program has no arguments for a moment.
        let since = Instant::now();
        loop {
            let left = site.cells.leftovers(cell).unwrap();
            if left.iter().any(|text| text.contains(wanted)) {
                return;
            }
            assert!(since.elapsed().as_secs() < 5, "{what}: {left:?}");
        }
    };
    {
        // In v2 the mount is itself the root group; in v1 each hierarchy is a folder of it.
        let root = Path::new("/sys/fs/cgroup");
        let mount = if root.join("cgroup.procs").exists() { root.to_owned() } else { root.join("memory") };
        let folder = mount.join(&site.settings.cgroup_root).join("elsewhere").join(cell.to_string());
        fs::create_dir_all(&folder).unwrap();
        let group = Group(folder);
        found("control group", "a group in another allocation");
        let process = Planted::start(Command::new("/bin/sleep").arg("1000"));
        fs::write(group.0.join("cgroup.procs"), process.0.id().to_string()).unwrap();
        found(&format!("process {}", process.0.id()), "a process in a group");
    }
    {
        let process = Planted::start(Command::new("/bin/sleep").arg("1000").uid(user + 33).gid(user));
        found(&format!("process {}", process.0.id()), "a process with the cell's ids");
    }
    {
        let bundle = format!("/x/{cell}/service/a");
        let arguments = ["-c", "sleep 1000; true", "conmon", "--bundle", &bundle];
        let process = Planted::start(Command::new("/bin/sh").arg0("conmon").args(arguments));
        found(&format!("process {}", process.0.id()), "a monitor");
    }
    {
        let target = here.join("elsewhere").join(cell.to_string());
        fs::create_dir_all(&target).unwrap();
        let _mounted = bind(&here.join("image"), &target);
        found("mount at", "a mount");
    }
    for folder in [
        site.settings.folder.join(format!("cells/{cell}")),
        site.settings.run.join(format!("cells/{cell}")),
        site.settings.run.join(format!("runc/{cell}")),
        site.storage().join(format!("layer/{cell}")),
    ] {
        fs::create_dir_all(&folder).unwrap();
        found(&format!("folder {}", folder.display()), "a folder");
        fs::remove_dir(&folder).unwrap();
    }
    let ranges = site.settings.folder.join("ranges.json");
    fs::write(&ranges, json!({ cell.to_string(): user }).to_string()).unwrap();
    found("range of ids", "a range");
    site.destroy(cell);
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
}

#[test]
fn a_cell_without_a_readable_record_is_destroyed_all_the_same() {
    let mut site = Site::new();
    let cell = site.run(1, json!({}));
    let first = i32::try_from(site.cells.look(cell).unwrap().pid).ok();
    let first = first.and_then(rustix::process::Pid::from_raw).unwrap();
    fs::write(site.settings.folder.join(format!("cells/{cell}/record.json")), "{ half").unwrap();
    site.reopen();
    assert!(site.cells.look(cell).unwrap_err().to_string().contains("damaged"));
    assert_eq!(site.cells.list().unwrap()[0].cell_id, cell);
    let status = |at: &Site| at.cells.observe().unwrap().remove(0);
    let unread = Some("its record on the node cannot be read".to_owned());
    assert_eq!((status(&site).alive, status(&site).message), (true, unread.clone()));
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    let since = Instant::now();
    while status(&site).alive {
        assert!(since.elapsed().as_secs() < 5, "a dead cell is observed as alive");
    }
    assert_eq!(status(&site).message, unread);
    assert_eq!(
        site.cells.supervise(crate::site::now()).len(),
        1,
        "it is said, and keeps nobody else waiting"
    );
    site.destroy(cell);
    assert!(fs::read_dir(site.storage()).unwrap().next().is_none(), "its layer is gone too");
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
}

/// Otherwise its last status would count as confirmed for as long as the agent runs.
#[test]
fn a_cell_whose_folder_vanished_is_observed_by_its_processes_until_it_is_destroyed() {
    let mut site = Site::new();
    let (cell, other) = (site.run(1, json!({})), site.run(2, json!({})));
    site.destroy(other);
    let first = i32::try_from(site.cells.look(cell).unwrap().pid).ok();
    let first = first.and_then(rustix::process::Pid::from_raw).unwrap();
    let before = site.cells.list().unwrap();
    fs::remove_dir_all(site.settings.folder.join(format!("cells/{cell}"))).unwrap();
    let status = |at: &Site| {
        let found = at.cells.observe().unwrap();
        assert_eq!(found.len(), 1, "a destroyed cell is not observed: {found:?}");
        found.into_iter().next().unwrap()
    };
    let missing = Some("its record on the node is missing".to_owned());
    for reopened in [false, true] {
        if reopened {
            site.reopen();
        }
        assert_eq!((status(&site).alive, status(&site).message), (true, missing.clone()), "{reopened}");
        assert_eq!(status(&site).cell, before[0], "it is reported by its identity");
        assert_eq!(site.cells.list().unwrap(), before, "an agent that starts lists it");
    }
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    let since = Instant::now();
    while status(&site).alive {
        assert!(since.elapsed().as_secs() < 5, "a dead cell is observed as alive");
    }
    assert_eq!(status(&site).message, missing);
    site.destroy(cell);
    assert!(site.cells.observe().unwrap().is_empty() && site.cells.list().unwrap().is_empty());
    site.reopen();
    assert!(site.cells.observe().unwrap().is_empty(), "its end is on record");
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
}

/// Regression: the kernel reused the number of a dead cell's namespace for one of another platform on this machine, and the
/// release of the cell waited for that platform.
#[test]
fn a_namespace_that_got_the_number_of_a_removed_one_is_not_left_of_the_cell() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    site.destroy(cell);

    // Another namespace, held by a process and by a mount, with its number recorded as the cell's.
    let other = Planted::start(Command::new("/usr/bin/unshare").args(["--net", "/bin/sleep", "1000"]));
    let namespace = PathBuf::from(format!("/proc/{}/ns/net", other.0.id()));
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    while fs::read_link(&namespace).unwrap() == own {}
    let point = site.folder.path().join("named");
    fs::write(&point, "").unwrap();
    let _named = bind(&namespace, &point);
    let link = fs::read_link(&namespace).unwrap().to_str().unwrap().to_owned();
    let number: u64 = link.trim_start_matches("net:[").trim_end_matches(']').parse().unwrap();
    let own_user: u64 = {
        let link = fs::read_link("/proc/self/ns/user").unwrap().to_str().unwrap().to_owned();
        link.trim_start_matches("user:[").trim_end_matches(']').parse().unwrap()
    };
    let trace = site.settings.folder.join(format!("trace/{cell}.json"));
    let mut document: serde_json::Value = serde_json::from_slice(&fs::read(&trace).unwrap()).unwrap();
    document["ended"] = serde_json::Value::Null; // a cell without a record has no time of its end

    document["namespaces"] = json!({ "net": number, "user": own_user + 1 });
    fs::write(&trace, document.to_string()).unwrap();
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new(), "another user namespace owns it");

    document["namespaces"] = json!({ "net": number, "user": own_user });
    fs::write(&trace, document.to_string()).unwrap();
    let left = site.cells.leftovers(cell).unwrap();
    assert!(left.iter().any(|text| text.contains("mount at") && text.contains("named")), "{left:?}");
    assert!(left.iter().any(|text| text.starts_with(&format!("net namespace {number}"))), "{left:?}");
}
