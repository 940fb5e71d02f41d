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
