//! Garbage collection: unreferenced content is freed, and content confirmed to a client is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use muster_testkit::{Database, Fixture, Kit};

use super::{Image, Remote, digest};

/// Content is garbage as soon as nothing refers to it.
const AT_ONCE: &[(&str, &str)] = &[("registry.garbage_grace_seconds", "0")];

/// Counts the blob files on disk.
fn files(kit: &Kit) -> usize {
    let blobs = kit.database.folder().join("registry/blobs");
    let folders = std::fs::read_dir(blobs).unwrap().map(|folder| folder.unwrap().path());
    folders.map(|folder| std::fs::read_dir(folder).unwrap().count()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn unreferenced_content_frees_its_disk_space() {
    for database in Database::both() {
        let kit = Kit::start_with(database, 1, AT_ONCE).await;
        let fixture = Fixture::build(&kit).await;
        let platform = &kit.servers[0].platform;
        let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        let other = base.named("acme.train/other");
        let (one, two) = (Image::of("one"), Image::of("two"));
        base.push("v1", &one).await.is(201);
        base.push("v1-too", &one).await.is(201);
        base.push("v2", &two).await.is(201);
        other.push("v1", &one).await.is(201);
        assert_eq!(files(&kit), 4, "each content is once on the disk");
        let found = platform.collect_garbage(None).await.unwrap();
        assert_eq!((found.links, found.blobs, found.files), (0, 0, 0), "everything is needed");

        // Removing a tag frees nothing; removing the manifest frees what only it refers to, in this repository.
        base.send("DELETE", "{}/manifests/v1-too", b"").await.is(202);
        assert_eq!(platform.collect_garbage(None).await.unwrap().links, 0);
        base.send("DELETE", &format!("{{}}/manifests/{}", one.digest()), b"").await.is(202);
        let found = platform.collect_garbage(None).await.unwrap();
        assert_eq!((found.links, found.blobs), (2, 0), "the other repository needs the content");
        base.get(&format!("{{}}/blobs/{}", digest(&one.layer))).await.refused(404, "BLOB_UNKNOWN");
        base.manifest("v1", &one.manifest).await.refused(404, "MANIFEST_BLOB_UNKNOWN");
        other.pulls(&one).await.unwrap();
        base.pulls(&two).await.unwrap();
        assert_eq!(files(&kit), 4);
        other.send("DELETE", &format!("{{}}/manifests/{}", one.digest()), b"").await.is(202);
        let found = platform.collect_garbage(None).await.unwrap();
        assert_eq!((found.links, found.blobs), (2, 2));
        assert_eq!(files(&kit), 2);
        base.pulls(&two).await.unwrap();

        // It can be pushed again; and removing a repository frees everything.
        base.push("v1", &one).await.is(201);
        base.pulls(&one).await.unwrap();
        assert_eq!(files(&kit), 4);
        let path = format!("/v1/projects/{}/repositories/base", fixture.id("train"));
        fixture.client(&kit, "project_admin").delete(&path).await.ok();
        assert_eq!(platform.collect_garbage(None).await.unwrap().blobs, 4);
        assert_eq!(files(&kit), 0);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_push_is_collected_and_fresh_content_is_spared() {
    let kit = Kit::start_with(Database::sqlite(), 1, AT_ONCE).await;
    let fixture = Fixture::build(&kit).await;
    let platform = &kit.servers[0].platform;
    let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
    base.push("v1", &Image::of("one")).await.is(201);
    let upload = base.upload().await;
    base.send("PATCH", &upload, b"part").await.is(202);
    base.blob(b"never named by a manifest").await.is(201);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let found = platform.collect_garbage(None).await.unwrap();
    assert_eq!((found.links, found.blobs, found.uploads), (1, 1, 1));
    base.get(&upload).await.refused(404, "BLOB_UPLOAD_UNKNOWN");
    // A file without a row: a crash leaves it between writing the file and the row.
    let hex = digest(b"orphan").trim_start_matches("sha256:").to_owned();
    let orphan = format!("registry/blobs/{}/{hex}-01900000-0000-7000-8000-000000000001", &hex[..2]);
    let orphan = kit.database.folder().join(orphan);
    std::fs::write(&orphan, b"orphan").unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::options().write(true).open(&orphan).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(platform.collect_garbage(None).await.unwrap().files, 1);
    assert!(!orphan.exists());
    base.pulls(&Image::of("one")).await.unwrap();
    kit.stop().await;

    // Within the grace period, all of that may still be in use.
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
    let upload = base.upload().await;
    base.blob(b"its manifest is on the way").await.is(201);
    let found = kit.servers[0].platform.collect_garbage(None).await.unwrap();
    assert_eq!(found, Default::default());
    base.get(&upload).await.is(204);
    kit.stop().await;
}

/// Four clients push, pull and remove the same content in their own repositories, while two collect continuously. After a
/// confirmed push, every byte can be pulled.
async fn pushes_and_collections(database: Database, replicas: usize, rounds: usize) {
    let kit = Kit::start_with(database, replicas, AT_ONCE).await;
    let fixture = Fixture::build(&kit).await;
    let over = Arc::new(AtomicBool::new(false));
    let collections = Arc::new(AtomicUsize::new(0));
    let collectors: Vec<_> = (0..2)
        .map(|at| {
            let platform = kit.servers[at % replicas].platform.clone();
            let (over, collections) = (over.clone(), collections.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let found = platform.collect_garbage(None).await.unwrap();
                    collections.fetch_add(usize::try_from(found.blobs).unwrap(), Ordering::SeqCst);
                    // A short pause, so that a push completes now and then.
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            })
        })
        .collect();
    let clients = (0..4).map(|n| {
        let remote =
            Remote::new(&kit, n % replicas, fixture.token("project_admin"), &format!("acme.train/r{n}"));
        tokio::spawn(async move {
            let image = Image::of("the same");
            let mut lost = Vec::new();
            for round in 0..rounds {
                // Without a grace period, part of a push may be collected before it completes: it is refused, and pushed
                // again.
                let mut tries = 0;
                loop {
                    let pushed = remote.push("latest", &image).await;
                    if pushed.status == 201 {
                        break;
                    }
                    assert!(matches!(pushed.status, 404 | 409 | 503), "{} {}", pushed.status, pushed.text());
                    tries += 1;
                    assert!(tries < 500, "a push never comes to its end: {}", pushed.text());
                }
                if let Err(why) = remote.pulls(&image).await {
                    lost.push(format!("round {round}: {why}"));
                }
                let gone = remote.send("DELETE", &format!("{{}}/manifests/{}", image.digest()), b"").await;
                gone.is(202);
            }
            lost
        })
    });
    let lost: Vec<String> =
        futures::future::join_all(clients).await.into_iter().flat_map(|lost| lost.unwrap()).collect();
    over.store(true, Ordering::SeqCst);
    for collector in collectors {
        collector.await.unwrap();
    }
    assert!(lost.is_empty(), "acknowledged and lost, {} times: {lost:#?}", lost.len());
    assert!(collections.load(Ordering::SeqCst) > 0, "nothing was ever collected, so nothing was tried");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_push_that_was_acknowledged_is_lost_to_a_collection() {
    pushes_and_collections(Database::sqlite(), 1, 25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_with_two_servers_on_one_folder() {
    pushes_and_collections(Database::postgres(), 2, 25).await;
}
