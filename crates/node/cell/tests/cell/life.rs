//! The life cycle of a cell.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use crate::site::{Site, spec_of};
use muster_cell::DestroyOptions;
use muster_wire::cell::Person;
use rustix::fs::{Mode, OFlags};
use serde_json::json;

#[test]
fn a_cell_is_made_started_looked_at_and_leaves_nothing() {
    let site = Site::new();
    let made = site.make(1, json!({}));
    let cell = site.cell_id(1);
    assert!(!site.cells.look(cell).unwrap().present, "it is not there before it runs");
    assert_eq!(site.make(1, json!({})), made, "making it again changes nothing");
    site.cells.start(cell).unwrap();
    site.cells.start(cell).unwrap();
    let seen = site.cells.look(cell).unwrap();
    assert!(seen.present);
    assert_eq!((seen.pid, seen.incarnation), (made.pid, 1));
    assert_eq!(
        site.say(cell, "id -u; hostname; cat /etc/hosts /etc/hostname"),
        "0\ncell-1\n127.0.0.1 localhost\ncell-1"
    );
    assert_eq!(site.cells.list().unwrap().len(), 1);
    assert!(site.cells.leftovers(cell).unwrap().len() > 5, "of a cell that runs there is much");

    site.destroy(cell);
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
    let gone = site.cells.look(cell).unwrap();
    assert!(!gone.present && gone.left.is_empty() && !gone.checked.is_empty());
    assert!(
        fs::read_dir(site.storage()).unwrap().next().is_none(),
        "the private layer and the state are gone"
    );
    site.destroy(cell);
}

/// Attack: a cell nests directories until its agent has no descriptors or no stack left to remove them.
#[test]
fn a_cell_whose_directories_are_nested_without_end_is_destroyed() {
    let site = Site::new();
    let cell = site.run(1, json!({ "state": ["/data"] }));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let few = rustix::process::Rlimit { current: Some(1_024), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let open = |above: &dyn AsFd, name: &Path| {
        rustix::fs::openat(above.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    };
    site.say(cell, "mkdir /top /data/top");
    let mut folders = vec![site.storage()];
    let mut tops = Vec::new();
    while let Some(folder) = folders.pop() {
        folders.extend(
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()),
        );
        tops.extend(Some(folder).filter(|folder| folder.ends_with("top")));
    }
    assert_eq!(tops.len(), 2, "in the private layer, and in the state: {tops:?}");
    for top in tops {
        let mut folder = open(&rustix::fs::CWD, &top);
        for _ in 0..5_000 {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = open(&folder, Path::new("d"));
        }
    }
    site.destroy(cell);
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
    assert!(fs::read_dir(site.storage()).unwrap().next().is_none());
}

#[test]
fn writes_of_a_cell_do_not_reach_the_image() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    site.say(cell, "cat /etc/only-root; echo changed > /etc/only-root; touch /new");
    let image = site.folder.path().join("image");
    assert_eq!(fs::read_to_string(image.join("etc/only-root")).unwrap(), "of the image\n");
    assert!(!image.join("new").exists());
}

#[test]
fn the_files_of_etc_that_are_ours_can_be_rewritten_while_it_runs_but_not_by_the_cell() {
    let site = Site::new();
    let cell = site.run(1, json!({ "people": true }));
    site.cells.write_hosts(cell, "10.0.0.9 other\n").unwrap();
    let me = Person { name: "me".to_owned(), uid: 30_000, keys: vec!["ssh-ed25519 AAAA".to_owned()] };
    site.cells.write_people(cell, std::slice::from_ref(&me)).unwrap();
    assert_eq!(
        site.say(cell, "cat /etc/hosts /etc/muster/authorized_keys"),
        "10.0.0.9 other\nssh-ed25519 AAAA me"
    );
    assert_eq!(
        site.say(cell, "cat /etc/muster/passwd /etc/muster/group"),
        "me:x:30000:30000::/home/me:/bin/bash\nme:x:30000:"
    );
    assert_eq!(site.say(cell, "stat -c '%u %a' /etc/muster /etc/muster/authorized_keys"), "0 755\n0 644");
    assert_ne!(site.shell(cell, "echo x > /etc/hosts").0, 0);
    assert_ne!(site.shell(cell, "echo x >> /etc/muster/authorized_keys").0, 0);
    let other = site.run(2, json!({}));
    assert!(site.cells.write_people(other, &[me]).is_err(), "it did not ask for people");
}

#[test]
fn state_survives_incarnations_with_its_owners_and_the_rest_does_not() {
    let site = Site::new();
    let spec = json!({ "state": ["/data", "/var/deep/er"] });
    let cell = site.run(1, spec.clone());
    site.say(cell, "echo kept > /data/file; chown 1000:1001 /data/file; chmod 640 /data/file; touch /var/deep/er/x /lost");
    let first = site.say(cell, "cat /proc/self/uid_map");
    site.cells.destroy(cell, DestroyOptions { keep_state: true }).unwrap();
    assert_eq!(
        site.cells.leftovers(cell).unwrap(),
        Vec::<String>::new(),
        "state that is kept is not left over"
    );

    // Another cell takes the range, so the next incarnation has another one.
    site.run(2, json!({}));
    site.try_make(1, 2, spec, Vec::new()).unwrap();
    site.cells.start(cell).unwrap();
    assert_ne!(site.say(cell, "cat /proc/self/uid_map"), first);
    assert_eq!(
        site.say(cell, "cat /data/file; stat -c '%u %g %a' /data/file; ls /var/deep/er"),
        "kept\n1000 1001 640\nx"
    );
    assert_ne!(site.shell(cell, "ls /lost").0, 0);
    assert_eq!(site.shell_as(cell, 1000, "cat /data/file").1.trim(), "kept");
    assert_ne!(site.shell_as(cell, 1002, "cat /data/file").0, 0);
    site.destroy(cell);
    assert!(!site.storage().join("state").exists());
}

#[test]
fn cells_of_two_nodes_share_a_directory_with_the_same_owners_and_nobody_else_sees_it() {
    let (mut one, mut two) = (Site::new(), Site::new());
    let folder = tempfile::tempdir().unwrap();
    let share = |name: &str| {
        let folder = folder.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        Some(muster_cell::Share { folder, first_id: 1_900_000_000 })
    };
    (one.share, two.share) = (share("a"), share("a"));
    let spec = json!({ "shared": ["/home", "/opt/common"], "state": ["/var/kept"] });
    let here = one.run(1, spec.clone());
    // Another cell lists fewer, in another order: directories are shared by path.
    let there = two.run(2, json!({ "shared": ["/opt/common", "/home"] }));
    assert_ne!(one.say(here, "cat /proc/self/uid_map"), two.say(there, "cat /proc/self/uid_map"));
    one.say(here, "mkdir /home/me && chown 30000:30000 /home/me && chmod 700 /home/me; touch /var/kept/mine");
    assert_eq!(one.shell_as(here, 30_000, "echo mine > /home/me/file").0, 0);
    assert_eq!(
        two.say(there, "stat -c '%u %g %a' /home/me /home/me/file"),
        "30000 30000 700\n30000 30000 644"
    );
    assert_eq!(two.shell_as(there, 30_000, "cat /home/me/file").1.trim(), "mine");
    assert_ne!(two.shell_as(there, 30_001, "cat /home/me/file").0, 0, "somebody else's");
    assert_eq!(two.shell_as(there, 30_000, "echo theirs >> /home/me/file").0, 0);
    assert_eq!(one.say(here, "cat /home/me/file; ls /opt/common | wc -l"), "mine\ntheirs\n0");
    // No user of the node owns any of it, and setuid has no effect.
    use std::os::unix::fs::MetadataExt as _;
    let file = fs::metadata(folder.path().join("a/home/me/file")).unwrap();
    assert_eq!((file.uid(), file.gid()), (1_900_030_000, 1_900_030_000));
    assert!(one.say(here, "grep ' /home ' /proc/self/mounts").contains("nosuid,nodev"));

    // A cell of another network, and one without shared directories, have no access.
    two.share = share("b");
    let other = two.run(3, spec);
    assert_eq!(two.say(other, "ls /home | wc -l"), "0");
    let bare = one.run(4, json!({}));
    assert_ne!(one.shell(bare, "ls /home/me").0, 0);

    // The share outlives all of them, with their state or without.
    one.destroy(here);
    two.destroy(there);
    two.share = share("a");
    let again = two.run(5, json!({ "shared": ["/home"] }));
    assert_eq!(two.say(again, "cat /home/me/file"), "mine\ntheirs");
    assert!(two.try_make(6, 1, json!({ "shared": ["/etc"] }), Vec::new()).is_err());
    assert!(two.try_make(6, 1, json!({ "shared": ["/a"], "state": ["/a"] }), Vec::new()).is_err());
    two.share = None;
    let lost = two.try_make(6, 1, json!({ "shared": ["/home"] }), Vec::new()).unwrap_err();
    assert!(lost.to_string().contains("/home"), "{lost}");
}

#[test]
fn an_older_incarnation_is_refused_and_another_one_waits_for_the_destruction() {
    let site = Site::new();
    site.try_make(1, 3, json!({}), Vec::new()).unwrap();
    site.cells.start(site.cell_id(1)).unwrap();
    assert!(site.try_make(1, 2, json!({}), Vec::new()).unwrap_err().to_string().contains("older"));
    assert!(site.try_make(1, 4, json!({}), Vec::new()).unwrap_err().to_string().contains("destroy it"));
    site.destroy(site.cell_id(1));
    assert!(site.try_make(1, 2, json!({}), Vec::new()).unwrap_err().to_string().contains("older"));
    site.try_make(1, 4, json!({}), Vec::new()).unwrap();
}

#[test]
fn a_root_of_the_nodes_directories_is_read_only_and_has_an_etc_of_its_own() {
    let site = Site::new();
    let spec = spec_of(json!({ "root": { "host": ["/usr", "/bin", "/lib", "/lib64"] } }));
    let cell = site.cell_id(1);
    let directories = ["/usr", "/bin", "/lib", "/lib64"].map(Into::into).to_vec();
    site.cells
        .make(&muster_cell::Make {
            cell_id: cell,
            allocation_id: site.allocation,
            incarnation: 1,
            name: "shell",
            spec: &spec,
            root: muster_cell::RootSource::Host { directories },
            storage: &site.storage(),
            share: None,
            devices: Vec::new(),
            hosts: "127.0.0.1 localhost\n",
            secrets: &[],
        })
        .unwrap();
    site.cells.start(cell).unwrap();
    assert_eq!(site.say(cell, "/usr/bin/id -un"), "root");
    assert_ne!(site.shell(cell, "touch /usr/bin/x").0, 0);
    assert_eq!(
        site.say(cell, "touch /var/tmp/x /etc/x && ls /etc | tr '\\n' ' '").trim(),
        "group hostname hosts nsswitch.conf passwd resolv.conf x"
    );
    assert_ne!(site.shell(cell, "ls /opt /srv /home/*").0, 0);
    site.destroy(cell);
    assert_eq!(site.cells.leftovers(cell).unwrap(), Vec::<String>::new());
    assert!(std::path::Path::new("/usr/bin/id").exists(), "the node's directories are untouched");
}

#[test]
fn a_cell_that_cannot_be_made_leaves_nothing() {
    let site = Site::new();
    // A state directory in place of a file: runc cannot mount it.
    let error = site.try_make(1, 1, json!({ "state": ["/bin/busybox"] }), Vec::new()).unwrap_err();
    assert!(error.to_string().contains("busybox"), "{error}");
    assert_eq!(site.cells.leftovers(site.cell_id(1)).unwrap(), Vec::<String>::new());
}
