//! Files written into a cell and read from it.

use std::fs;
use std::io::Read;

use muster_cell::NewFile;
use muster_ids::CellId;
use serde_json::json;

use crate::site::Site;

fn write(site: &Site, cell: CellId, path: &str, text: &str) -> Result<(), muster_cell::CellError> {
    site.cells.file_write(
        cell,
        &mut NewFile { path, mode: 0o640, uid: 1000, gid: 1001, content: &mut text.as_bytes() },
    )
}

fn read(site: &Site, cell: CellId, path: &str) -> Result<String, muster_cell::CellError> {
    let mut text = String::new();
    site.cells.file_read(cell, path)?.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn files_of_the_spec_are_there_before_anything_runs_with_their_owner_and_mode() {
    let site = Site::new();
    let cell = site.run(
        1,
        json!({
            "state": ["/data"],
            "files": [
                { "path": "/opt/deep/er/conf", "text": "hello\n", "mode": "0400", "uid": 1000, "gid": 1000 },
                { "path": "/data/in-state", "text": "kept\n", "uid": 7 },
                { "path": "/bin/tool", "text": "#!/bin/sh\necho ran\n", "mode": "755" },
            ],
        }),
    );
    assert_eq!(
        site.say(cell, "stat -c '%u %g %a' /opt/deep/er/conf /data/in-state /opt /opt/deep"),
        "1000 1000 400\n7 0 644\n0 0 755\n0 0 755"
    );
    assert_eq!(site.say(cell, "cat /opt/deep/er/conf /data/in-state; tool"), "hello\nkept\nran");
    let record = fs::read_to_string(site.settings.folder.join(format!("cells/{cell}/record.json"))).unwrap();
    assert!(!record.contains("hello"), "what a file says may be secret, and is written once");
}

#[test]
fn files_are_written_and_read_while_it_runs() {
    let site = Site::new();
    let cell = site.run(1, json!({ "state": ["/data"] }));
    for path in ["/etc/new", "/data/new", "/tmp/a/b"] {
        write(&site, cell, path, "text").unwrap();
        assert_eq!(site.say(cell, &format!("cat {path}; stat -c '%u %g %a' {path}")), "text1000 1001 640");
        assert_eq!(read(&site, cell, path).unwrap(), "text");
    }
    assert!(read(&site, cell, "/nothing").is_err());
    assert!(write(&site, cell, "/etc/hosts", "x").is_err(), "a file that is ours is not theirs to write");
}

#[test]
fn a_link_of_the_cells_leads_nowhere_outside_it() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let outside = site.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "TOP-SECRET").unwrap();
    let out = outside.display();
    site.say(
        cell,
        &format!(
            "ln -s {out} /absolute; ln -s ../../../../../../../..{out} /climbing; ln -s /proc/1/root{out} /magic; \
             ln -s /proc/self/cwd /cwd; ln -s {out}/secret /file"
        ),
    );
    for path in
        ["/absolute/secret", "/climbing/secret", "/magic/secret", "/file", "/cwd/secret", "/proc/1/root/file"]
    {
        assert!(read(&site, cell, path).is_err(), "{path}");
    }
    for path in ["/absolute/new", "/climbing/new", "/magic/new", "/cwd/new"] {
        let _ = write(&site, cell, path, "x");
    }
    // A link in place of the file is replaced, not followed.
    write(&site, cell, "/file", "mine").unwrap();
    assert_eq!(site.say(cell, "cat /file; readlink /file || echo plain"), "mineplain");
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "TOP-SECRET");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn file_that_is_not_plain_is_neither_read_nor_written() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    site.say(cell, "mknod /pipe p; ln -s /proc/sys/kernel /kernel; ln -s /sys /system");
    for path in [
        "/pipe",
        "/dev/zero",
        "/etc",
        "/proc/self/status",
        "/proc/1/environ",
        "/kernel/hostname",
        "/system/kernel/notes",
    ] {
        assert!(read(&site, cell, path).is_err(), "{path}");
    }
    for path in
        ["/kernel/hostname", "/kernel/new", "/system/new", "/proc/new", "/sys/fs/cgroup/memory/new", "/etc/"]
    {
        assert!(write(&site, cell, path, "x").is_err(), "{path}");
    }
    for path in ["relative", "/../x", "/a/../../x", "/a\nb"] {
        assert!(write(&site, cell, path, "x").is_err() && read(&site, cell, path).is_err(), "{path}");
    }
}

#[test]
fn a_folder_comes_as_an_archive_without_anything_from_outside() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    site.say(
        cell,
        "mkdir -p /data/sub && echo one > /data/a && echo two > /data/sub/b && ln -s /etc/passwd /data/link && mkfifo /data/pipe",
    );
    let mut archive = Vec::new();
    site.cells.folder_read(cell, "/data/", &mut archive).unwrap();
    let mut seen = Vec::new();
    for entry in tar::Archive::new(archive.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let (path, kind) = (entry.path().unwrap().display().to_string(), entry.header().entry_type());
        let owner = entry.header().uid().unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        seen.push((path, kind, text, owner));
    }
    let file = |path: &str, text: &str| (path.to_owned(), tar::EntryType::Regular, text.to_owned(), 0);
    let empty = |path: &str, kind| (path.to_owned(), kind, String::new(), 0);
    let wanted = vec![
        file("a", "one\n"),
        empty("link", tar::EntryType::Symlink),
        empty("sub/", tar::EntryType::Directory),
        file("sub/b", "two\n"),
    ];
    assert_eq!(seen, wanted);
    // A link in place of the folder is resolved inside the cell or not at all.
    site.say(cell, "ln -s /proc/1/root /out");
    assert!(site.cells.folder_read(cell, "/out/", &mut Vec::new()).is_err());
    assert!(site.cells.folder_read(cell, "/proc/", &mut Vec::new()).is_err());
}
