//! Secrets: in the cell's memory, for their owner only, and nowhere else at any time.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use muster_cell::{DestroyOptions, Secret};
use muster_ids::CellId;
use serde_json::{Value, json};

use crate::site::Site;

const CANARY: &str = "CANARY-e5a1-of-the-secret";

fn spec() -> Value {
    json!({ "state": ["/data"], "secrets": [
        { "secret": "db", "file": "db-password", "uid": 1000, "gid": 1001 },
        { "secret": "sec_0", "file": "root.key" },
    ] })
}

fn secrets(text: &str) -> [Secret<'_>; 2] {
    [
        Secret { file: "db-password", uid: 1000, gid: 1001, content: text.as_bytes() },
        Secret { file: "root.key", uid: 0, gid: 0, content: text.as_bytes() },
    ]
}

fn run(site: &Site, number: u32) -> CellId {
    site.try_make_with(number, 1, spec(), Vec::new(), &secrets(CANARY)).unwrap();
    site.cells.start(site.cell_id(number)).unwrap();
    site.cell_id(number)
}

/// Returns every file in the folder that contains the canary, and every mount of this namespace with the cell's name.
fn found(site: &Site, cell: CellId) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![site.folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(seen) = path.symlink_metadata() else { continue };
            if seen.is_dir() {
                folders.push(path);
            } else if seen.is_file() {
                let bytes = fs::read(&path).unwrap_or_default();
                if bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let tag = format!("tmpfs {cell} ");
    found.extend(mounts.lines().filter(|line| line.contains(&tag)).map(str::to_owned));
    found
}

#[test]
fn a_secret_is_a_file_in_memory_that_its_owner_alone_reads_and_nobody_writes() {
    let site = Site::new();
    let cell = run(&site, 1);
    let at = "/run/muster/secrets";
    assert_eq!(
        site.say(cell, &format!("cd {at}; stat -c '%u %g %a' . db-password root.key; cat root.key")),
        format!("0 0 711\n1000 1001 400\n0 0 400\n{CANARY}")
    );
    assert_eq!(site.shell_as(cell, 1000, &format!("cat {at}/db-password")), (0, CANARY.to_owned()));
    for (uid, what) in [
        (1000, format!("cat {at}/root.key")),
        (1001, format!("cat {at}/db-password")),
        (1000, format!("ls {at}")),
    ] {
        let (code, said) = site.shell_as(cell, uid, &what);
        assert!(code != 0 && !said.contains(CANARY), "{uid} {what}: {said}");
    }
    let line = site.say(cell, &format!("grep ' {at} ' /proc/self/mountinfo"));
    let (options, system) = line.split_once(" - ").unwrap();
    assert!(system.starts_with("tmpfs "), "{line}");
    for option in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(options.split([' ', ',']).any(|word| word == option), "{option}: {line}");
    }
    if fs::read_to_string("/proc/self/uid_map").unwrap().split_whitespace().nth(2) == Some("4294967295") {
        assert!(system.contains("noswap"), "this kernel knows it: {line}");
    }
    // The cell's root is unprivileged here: it can neither write, nor unmount, nor remount it writable.
    for what in [
        format!("echo x > {at}/new"),
        format!("echo x > {at}/root.key"),
        format!("umount {at}"),
        format!("mount -o remount,rw {at}"),
        format!("chmod 644 {at}/db-password"),
    ] {
        assert_ne!(site.shell(cell, &what).0, 0, "{what}");
    }
    let through = muster_cell::NewFile {
        path: "/run/muster/secrets/root.key",
        mode: 0o644,
        uid: 0,
        gid: 0,
        content: &mut "x".as_bytes(),
    };
    assert!(site.cells.file_write(cell, &mut { through }).is_err());
}

#[test]
fn it_is_on_no_disk_in_no_record_and_on_no_command_line_and_gone_with_the_cell() {
    let site = Site::new();
    let cell = run(&site, 1);
    assert_eq!(found(&site, cell), Vec::<String>::new());
    site.say(cell, "cat /run/muster/secrets/root.key > /tmp/copied-by-the-tenant");
    assert_eq!(
        found(&site, cell).len(),
        2,
        "the search finds what there is, in the layer and through its mount"
    );
    site.say(cell, "echo > /tmp/copied-by-the-tenant");
    let pid = site.cells.look(cell).unwrap().pid;
    for file in ["environ", "cmdline"] {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(CANARY));
    }
    let record = fs::read_to_string(site.settings.folder.join(format!("cells/{cell}/record.json"))).unwrap();
    assert!(record.contains("db-password"), "names it has");
    let root = Path::new(&format!("/proc/{pid}/root")).join("run/muster/secrets/root.key");
    assert_eq!(fs::read_to_string(&root).unwrap(), CANARY);
    let held = fs::File::open(root.parent().unwrap()).unwrap();
    drop(held);
    site.destroy(cell);
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
    assert_eq!(found(&site, cell), Vec::<String>::new());
}

/// Attack: a process keeps a copy of the cell's mount namespace past the cell's end.
#[test]
fn secrets_kept_mounted_by_a_process_are_found_in_any_namespace() {
    let site = Site::new();
    let cell = run(&site, 1);
    let pid = site.cells.look(cell).unwrap().pid;
    let mut kept = Command::new("/usr/bin/nsenter")
        .args(["-t", &pid.to_string(), "-m", "/bin/unshare", "-m", "/bin/sleep", "1000"])
        .process_group(0)
        .spawn()
        .unwrap();
    let own = fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
    let first = fs::read_link("/proc/self/ns/mnt").unwrap();
    let away = || {
        let now = fs::read_link(format!("/proc/{}/ns/mnt", kept.id())).unwrap();
        now != own && now != first
    };
    while !away() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    site.destroy(cell);
    let left = site.cells.leftovers(cell).unwrap();
    kept.kill().unwrap();
    kept.wait().unwrap();
    assert!(left.iter().any(|text| text == "mount at /run/muster/secrets"), "{left:?}");
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
}

#[test]
fn a_half_made_cell_loses_its_secrets_when_the_agent_starts_and_is_made_anew_with_others() {
    use std::sync::Arc;
    let mut site = Site::new();
    let cell = site.cell_id(1);
    for point in
        ["cell_create:bundle-written", "cell_create:container-created", "cell_create:secrets-written"]
    {
        // An agent that dies here: nothing after this point runs, and nothing is cleaned up.
        let mut settings = site.settings.clone();
        settings.reach = Arc::new(move |reached| {
            if reached == point {
                std::panic::resume_unwind(Box::new("the agent died"));
            }
        });
        site.cells = muster_cell::Cells::open(settings).unwrap();
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            site.try_make_with(1, 1, spec(), Vec::new(), &secrets(CANARY))
        }));
        assert!(died.is_err(), "{point} was not reached");
        let left = site.cells.leftovers(cell).unwrap();
        assert!(!left.is_empty());
        if point == "cell_create:secrets-written" {
            assert!(left.iter().any(|text| text == "mount at /run/muster/secrets"), "{left:?}");
        }
        site.reopen();
        assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new(), "{point}");
        assert_eq!(found(&site, cell), Vec::<String>::new(), "{point}");
        site.try_make_with(1, 1, spec(), Vec::new(), &secrets("another")).unwrap();
        site.cells.start(cell).unwrap();
        assert_eq!(site.say(cell, "cat /run/muster/secrets/root.key"), "another");
        site.cells.destroy(cell, DestroyOptions { keep_state: true }).unwrap();
    }
}

#[test]
fn a_cell_that_runs_keeps_its_secrets_when_the_agent_starts_again() {
    let mut site = Site::new();
    let cell = run(&site, 1);
    site.reopen();
    assert_eq!(site.cells.runs(cell).unwrap(), Some(1));
    assert_eq!(site.say(cell, "cat /run/muster/secrets/root.key"), CANARY);
    site.destroy(cell);
    assert_eq!(site.cells.runs(cell).unwrap(), None);
}

#[test]
fn mismatched_secrets_are_refused_without_residue_or_disclosure() {
    let site = Site::new();
    let long = "x".repeat((1 << 20) + 1);
    let [one, two] = secrets(CANARY);
    let cases: Vec<(Value, Vec<Secret<'_>>, &str)> = vec![
        (spec(), vec![one], "root.key is missing"),
        (spec(), vec![one, two, two], "is missing"),
        (json!({}), vec![one], "does not use"),
        (spec(), vec![Secret { uid: 7, ..one }, two], "db-password is missing"),
        (spec(), vec![one, Secret { content: long.as_bytes(), ..two }], "longer than"),
        (json!({ "secrets": [{ "secret": "s", "file": "../x" }] }), vec![], "not a file name"),
        (json!({ "secrets": [{ "secret": "s", "file": "a/b" }] }), vec![], "not a file name"),
        (json!({ "secrets": [{ "secret": "s", "file": "" }] }), vec![], "not a file name"),
        (
            json!({ "secrets": [{ "secret": "s", "file": "a" }, { "secret": "t", "file": "a" }] }),
            vec![Secret { file: "a", uid: 0, gid: 0, content: b"" }],
            "two secrets",
        ),
        (
            json!({ "secrets": [{ "secret": "s", "file": "a", "uid": 65536 }] }),
            vec![Secret { file: "a", uid: 65_536, gid: 0, content: b"" }],
            "not an id in a cell",
        ),
    ];
    for (spec, told, says) in cases {
        let error = site.try_make_with(1, 1, spec, Vec::new(), &told).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains(CANARY), "{says}: {error}");
        assert_eq!(site.cells.leftovers(site.cell_id(1)).unwrap(), Vec::<String>::new());
    }
    assert!(!format!("{one:?}").contains(CANARY));
}
