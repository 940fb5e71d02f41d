//! Damaged content on disk: never served as valid, repaired by a push of the right bytes, detected in the background.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use muster_testkit::{Database, Fixture, Kit};
use serde_json::Value;

use super::{Image, Remote, digest};

/// Returns the files of a blob.
fn files(kit: &Kit, bytes: &[u8]) -> Vec<PathBuf> {
    let hex = digest(bytes).trim_start_matches("sha256:").to_owned();
    let folder = kit.database.folder().join("registry/blobs").join(&hex[..2]);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&hex)).collect()
}

fn writable(path: &PathBuf) -> std::fs::File {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::File::options().write(true).open(path).unwrap()
}

/// Changes one byte of a blob's file.
fn flip(kit: &Kit, bytes: &[u8]) {
    for path in files(kit, bytes) {
        let mut file = writable(&path);
        file.seek(SeekFrom::Start(bytes.len() as u64 / 2)).unwrap();
        file.write_all(&[bytes[bytes.len() / 2] ^ 1]).unwrap();
    }
}

/// Truncates a blob's file.
fn cut(kit: &Kit, bytes: &[u8]) {
    for path in files(kit, bytes) {
        writable(&path).set_len(bytes.len() as u64 / 2).unwrap();
    }
}

fn quarantined(kit: &Kit) -> usize {
    std::fs::read_dir(kit.database.folder().join("registry/quarantine")).map_or(0, Iterator::count)
}

async fn damages(kit: &Kit) -> Vec<Value> {
    kit.sealed().await;
    let events = kit.operator().get("/v1/events?page_size=200").await.ok().body;
    let damaged = |event: &&Value| event["type"] == "dev.muster.blob.damaged.v1";
    events["items"].as_array().unwrap().iter().filter(damaged).map(|event| event["data"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_content_is_not_served_and_a_push_of_any_tenant_repairs_it() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let ours = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        let theirs = Remote::new(&kit, 0, fixture.token("other_tenant_admin"), "globex.lab/base");
        let image = Image::of("one");
        let path = format!("{{}}/blobs/{}", digest(&image.layer));
        let ways: [fn(&Kit, &[u8]); 2] = [flip, cut];
        for (round, damage) in (1..).zip(ways) {
            ours.push("v1", &image).await.is(201);
            damage(&kit, &image.layer);
            // The first read detects it, and a push is not skipped as already present.
            for method in ["HEAD", "GET"] {
                ours.send(method, &path, b"").await.is(404);
            }
            assert_eq!(quarantined(&kit), 2 * round - 1);
            theirs.push("v1", &image).await.is(201);
            theirs.pulls(&image).await.unwrap();
            ours.pulls(&image).await.unwrap();
            // Damaged again, and pushed before it is read: the push does not trust the existing file.
            damage(&kit, &image.layer);
            theirs.blob(&image.layer).await.is(201);
            assert_eq!(quarantined(&kit), 2 * round);
            ours.pulls(&image).await.unwrap();
            theirs.pulls(&image).await.unwrap();
        }
        // Deleted content is restored the same way.
        for path in files(&kit, &image.layer) {
            std::fs::remove_file(path).unwrap();
        }
        ours.get(&path).await.refused(404, "BLOB_UNKNOWN");
        ours.blob(&image.layer).await.is(201);
        theirs.pulls(&image).await.unwrap();
        let told = damages(&kit).await;
        assert_eq!(told.len(), 5, "{told:#?}");
        assert!(told.iter().all(|data| data["digest"] == digest(&image.layer)));
        let found_by: Vec<&str> = told.iter().map(|data| data["found_by"].as_str().unwrap()).collect();
        assert_eq!(found_by, ["read", "push", "read", "push", "read"]);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_content_is_not_mounted_into_another_repository() {
    let kit = Kit::start(Database::sqlite(), 1).await;
    let fixture = Fixture::build(&kit).await;
    let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
    base.blob(b"some content").await.is(201);
    flip(&kit, b"some content");
    let mount = format!("{{}}/blobs/uploads/?mount={}&from=acme.train/base", digest(b"some content"));
    base.named("acme.train/other").send("POST", &mount, b"").await.is(202);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_content_is_checked_in_length_at_once_and_in_digest_by_the_scrubber() {
    for database in Database::both() {
        let kit = Kit::start_with(database, 1, &[("registry.scrub_bytes_per_second", "0")]).await;
        let fixture = Fixture::build(&kit).await;
        let platform = &kit.servers[0].platform;
        let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        let long: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
        let path = format!("{{}}/blobs/{}", digest(&long));
        base.blob(&long).await.is(201);
        base.blob(b"short").await.is(201);
        let found = platform.scrub_blobs(None, "", None).await.unwrap();
        assert_eq!((found.files, found.bytes, found.damaged), (2, 3_000_005, 0));
        cut(&kit, &long);
        base.send("HEAD", &path, b"").await.is(404);
        base.blob(&long).await.is(201);
        flip(&kit, &long);
        let found = platform.scrub_blobs(None, "", None).await.unwrap();
        assert_eq!((found.files, found.damaged), (2, 1));
        base.get(&path).await.refused(404, "BLOB_UNKNOWN");
        assert_eq!(quarantined(&kit), 2);
        assert_eq!(damages(&kit).await.last().unwrap()["found_by"], "scrubber");
        base.blob(&long).await.is(201);
        assert!(base.get(&path).await.is(200).bytes == long);
        assert_eq!(platform.scrub_blobs(None, "", None).await.unwrap().damaged, 0);
        kit.stop().await;
    }
}

/// Dates a blob's files so far back that the collector does not take them for fresh.
fn age(paths: &[PathBuf]) {
    for path in paths {
        writable(path).set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_folder_that_is_away_is_answered_with_503_and_loses_nothing() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let platform = &kit.servers[0].platform;
        let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        let image = Image::of("one");
        base.push("v1", &image).await.is(201);
        age(&files(&kit, &image.layer));
        let upload = base.upload().await;
        let path = format!("{{}}/blobs/{}", digest(&image.layer));
        let (folder, away) = (kit.database.folder().join("registry"), kit.database.folder().join("away"));
        let other = kit.database.folder().join("other");
        std::fs::rename(&folder, &away).unwrap();
        // Another storage, with a file that no row of this database names.
        let shelf = muster_registry::Blobs::open(&other, muster_ids::Env::system()).await.unwrap();
        let foreign = format!("blobs/00/{:064}-01900000-0000-7000-8000-000000000001", 0);
        std::fs::write(other.join(&foreign), b"foreign").unwrap();
        age(&[other.join(&foreign)]);
        // No folder, an empty mount point, another storage, and a storage whose blobs are not mounted.
        for round in 0..4 {
            match round {
                0 => {}
                1 => std::fs::create_dir(&folder).unwrap(),
                2 => {
                    std::fs::remove_dir(&folder).unwrap();
                    std::fs::rename(&other, &folder).unwrap();
                }
                _ => {
                    std::fs::rename(&folder, &other).unwrap();
                    std::fs::create_dir(&folder).unwrap();
                    for mark in ["storage.id", "database.id"] {
                        std::fs::copy(away.join(mark), folder.join(mark)).unwrap();
                    }
                }
            }
            for method in ["HEAD", "GET"] {
                base.send(method, &path, b"").await.is(503);
            }
            base.blob(b"content that comes meanwhile").await.is(503);
            if round < 3 {
                base.get(&upload).await.is(503);
            }
            let mount = format!("{{}}/blobs/uploads/?mount={}&from=acme.train/base", digest(&image.layer));
            base.named("acme.train/other").send("POST", &mount, b"").await.is(503);
            assert_eq!(platform.scrub_blobs(None, "", None).await.unwrap().damaged, 0, "round {round}");
            assert_eq!(platform.collect_garbage(None).await.unwrap(), Default::default(), "round {round}");
        }
        assert!(other.join(&foreign).exists(), "the other storage keeps its files");
        drop(shelf);
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::rename(&away, &folder).unwrap();
        base.get(&upload).await.is(204);
        assert_eq!(platform.collect_garbage(None).await.unwrap(), Default::default());
        base.pulls(&image).await.unwrap();
        assert_eq!(damages(&kit).await, Vec::<Value>::new());
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scrubber_stops_at_many_missing_files_and_the_collector_restores_those_that_reappear() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let platform = &kit.servers[0].platform;
        let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        let blobs: Vec<Vec<u8>> = (0..15).map(|number| format!("content {number}").into_bytes()).collect();
        let mut moved = Vec::new();
        for blob in &blobs {
            base.blob(blob).await.is(201);
            let paths = files(&kit, blob);
            age(&paths);
            moved.extend(paths);
        }
        let away = kit.database.folder().join("away");
        std::fs::create_dir(&away).unwrap();
        for path in &moved {
            std::fs::rename(path, away.join(path.file_name().unwrap())).unwrap();
        }
        let found = platform.scrub_blobs(None, "", None).await.unwrap();
        assert_eq!((found.missing, found.damaged), (10, 10));
        for path in &moved {
            std::fs::rename(away.join(path.file_name().unwrap()), path).unwrap();
        }
        // One of them comes back damaged: it is put aside, not served and not deleted.
        let lost = |blob: &&Vec<u8>| digest(blob) <= sorted(&blobs)[9];
        let spoiled = blobs.iter().find(lost).unwrap();
        flip(&kit, spoiled);
        age(&files(&kit, spoiled));
        let found = platform.collect_garbage(None).await.unwrap();
        assert_eq!((found.restored, found.files), (9, 0));
        assert_eq!(quarantined(&kit), 1);
        for blob in &blobs {
            let status = if blob == spoiled { 404 } else { 200 };
            base.get(&format!("{{}}/blobs/{}", digest(blob))).await.is(status);
        }
        assert_eq!(platform.scrub_blobs(None, "", None).await.unwrap().damaged, 0);
        kit.stop().await;
    }
}

/// The digests in the order in which the scrubber reads them.
fn sorted(blobs: &[Vec<u8>]) -> Vec<String> {
    let mut digests: Vec<String> = blobs.iter().map(|blob| digest(blob)).collect();
    digests.sort();
    digests
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_the_disk_cannot_read_is_put_aside_and_repaired_by_a_push() {
    for database in Database::both() {
        let kit = Kit::start_with(database, 1, &[("registry.scrub_bytes_per_second", "0")]).await;
        let fixture = Fixture::build(&kit).await;
        let platform = &kit.servers[0].platform;
        let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        // A directory in the place of the file is opened and not read, like a file on a broken disk. Its length is the system's.
        let blobs = kit.database.folder().join("registry/blobs");
        let length = usize::try_from(std::fs::metadata(blobs.join("00")).unwrap().len()).unwrap();
        let content = vec![7; length];
        let path = format!("{{}}/blobs/{}", digest(&content));
        base.blob(&content).await.is(201);
        let spoil = || {
            let file = files(&kit, &content).pop().unwrap();
            std::fs::remove_file(&file).unwrap();
            std::fs::create_dir(&file).unwrap();
        };
        spoil();
        base.get(&path).await.refused(404, "BLOB_UNKNOWN");
        assert_eq!(quarantined(&kit), 1);
        base.blob(&content).await.is(201);
        assert!(base.get(&path).await.is(200).bytes == content);
        // Found by the push itself, and by the scrubber.
        spoil();
        base.blob(&content).await.is(201);
        assert!(base.get(&path).await.is(200).bytes == content);
        spoil();
        assert_eq!(platform.scrub_blobs(None, "", None).await.unwrap().damaged, 1);
        base.blob(&content).await.is(201);
        let told = damages(&kit).await;
        let found_by: Vec<&str> = told.iter().map(|data| data["found_by"].as_str().unwrap()).collect();
        assert_eq!(found_by, ["read", "push", "scrubber"]);
        assert!(told.iter().all(|data| data["damage"] == "the disk cannot read it"), "{told:#?}");
        kit.stop().await;
    }
}
