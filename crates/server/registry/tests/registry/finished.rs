//! Finished files: reading parts of them, and invalid names.

use futures::StreamExt;
use muster_ids::Env;
use muster_registry::blobs::Damage;
use muster_registry::{Blobs, StorageError};

use crate::shelf::{MOST, Shelf, body, digest, gather, noise};

#[tokio::test]
async fn any_part_of_a_file_can_be_read() {
    let shelf = Shelf::new().await;
    let content = noise(1_200_000);
    let finished = shelf.blobs.put(&digest(&content), MOST, body(&content)).await.unwrap();
    assert_eq!(shelf.blobs.length(&finished.file).await.unwrap(), 1_200_000);
    for range in [0..0, 0..1, 5..5, 1_199_999..1_200_000, 100..300_000, 262_143..524_289, 0..1_200_000] {
        let reading = shelf.blobs.read(&finished.file, range.clone()).await.unwrap();
        assert_eq!(reading.left(), range.end - range.start);
        let expected = &content[range.start as usize..range.end as usize];
        assert!(gather(reading).await == expected, "{range:?}");
    }
    let beyond = shelf.blobs.read(&finished.file, 0..1_200_001).await;
    assert!(matches!(beyond, Err(StorageError::Short { length: 1_200_000, .. })));
    let mut reading = shelf.blobs.read(&finished.file, 0..1_200_000).await.unwrap();
    while let Some(part) = reading.next().await {
        assert!(part.unwrap().len() <= 1 << 20);
    }
}

#[tokio::test]
async fn a_file_that_is_removed_while_it_is_read_is_read_to_its_end() {
    let shelf = Shelf::new().await;
    let content = noise(2_000_000);
    let finished = shelf.blobs.put(&digest(&content), MOST, body(&content)).await.unwrap();
    let reading = shelf.blobs.read(&finished.file, 0..finished.size).await.unwrap();
    assert!(shelf.blobs.remove(&finished.file).await.unwrap());
    assert!(gather(reading).await == content);
    assert!(matches!(shelf.blobs.read(&finished.file, 0..1).await, Err(StorageError::Missing(_))));
    assert!(matches!(shelf.blobs.length(&finished.file).await, Err(StorageError::Missing(_))));
    let checked = shelf.blobs.check_content(&finished.file, &digest(&content), finished.size).await.unwrap();
    assert_eq!(checked, Some(Damage::Missing));
}

#[tokio::test]
async fn a_file_that_lost_bytes_under_us_is_an_error_and_not_a_short_blob() {
    let shelf = Shelf::new().await;
    let content = noise(1_000_000);
    let finished = shelf.blobs.put(&digest(&content), MOST, body(&content)).await.unwrap();
    let (_, blobs) = shelf.files();
    let mut reading = shelf.blobs.read(&finished.file, 0..finished.size).await.unwrap();
    reading.next().await.unwrap().unwrap();
    std::fs::remove_file(&blobs[0]).unwrap();
    std::fs::write(&blobs[0], &content[..10]).unwrap();
    let reading = shelf.blobs.read(&finished.file, 0..finished.size).await;
    assert!(matches!(reading, Err(StorageError::Short { length: 10, .. })));
    let damage = shelf.blobs.check_content(&finished.file, &digest(&content), finished.size).await.unwrap();
    assert_eq!(damage, Some(Damage::Length { expected: 1_000_000, found: 10 }));
}

#[tokio::test]
async fn names_that_are_none_reach_no_file() {
    let shelf = Shelf::new().await;
    let finished = shelf.blobs.put(&digest(b"content"), MOST, body(b"content")).await.unwrap();
    std::fs::write(shelf.folder.path().join("outside"), b"canary").unwrap();
    for name in [
        "../outside".to_owned(),
        format!("../{}", finished.file),
        format!("{}/../../outside", finished.file),
        shelf.folder.path().join("outside").display().to_string(),
        "storage.id".to_owned(),
        finished.file.to_uppercase(),
        String::new(),
    ] {
        assert!(matches!(shelf.blobs.read(&name, 0..1).await, Err(StorageError::Name(_))), "{name}");
        assert!(matches!(shelf.blobs.length(&name).await, Err(StorageError::Name(_))), "{name}");
        assert!(matches!(shelf.blobs.remove(&name).await, Err(StorageError::Name(_))), "{name}");
        assert!(
            matches!(shelf.blobs.check_content(&name, &digest(b""), 0).await, Err(StorageError::Name(_))),
            "{name}"
        );
        assert!(matches!(shelf.blobs.files(Some(&name), 1).await, Err(StorageError::Name(_))), "{name}");
    }
    assert_eq!(std::fs::read(shelf.folder.path().join("outside")).unwrap(), b"canary");
    assert_eq!(shelf.content(&finished).await, b"content");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_open_a_folder_at_once_agree_which_storage_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("deep/blobs");
    let open = |seed: u64| {
        let root = root.clone();
        tokio::spawn(async move { Blobs::open(root, Env::for_tests(seed)).await.unwrap().identity() })
    };
    let identities = futures::future::join_all((0..12).map(open)).await;
    let identities: Vec<_> = identities.into_iter().map(Result::unwrap).collect();
    assert!(identities.iter().all(|identity| *identity == identities[0]), "{identities:?}");
    let again = Blobs::open(&root, Env::for_tests(99)).await.unwrap();
    assert_eq!(again.identity(), identities[0]);
    let other = Blobs::open(folder.path().join("other"), Env::for_tests(100)).await.unwrap();
    assert_ne!(other.identity(), identities[0]);
    let names: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "no draft stays: {names:?}");
}

#[tokio::test]
async fn a_folder_whose_identity_is_spoiled_is_not_opened() {
    let shelf = Shelf::new().await;
    for spoiled in ["", "not a uuid"] {
        std::fs::write(shelf.root().join("storage.id"), spoiled).unwrap();
        let opened = Blobs::open(shelf.root(), Env::for_tests(1)).await;
        assert!(matches!(opened, Err(StorageError::Identity { .. })), "{spoiled:?}");
    }
}
