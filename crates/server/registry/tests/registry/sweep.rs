//! Leftovers are found; content in use is not.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_ids::{Env, ManualClock, SeededEntropy};
use muster_registry::Blobs;

use crate::shelf::{MOST, body, digest, nothing};

fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

async fn at(seconds: i64, folder: &std::path::Path) -> Blobs {
    let now = start() + SignedDuration::from_secs(seconds);
    let env = Env::new(Arc::new(ManualClock::at(now)), Arc::new(SeededEntropy::new(seconds as u64)));
    Blobs::open(folder, env).await.unwrap()
}

#[tokio::test]
async fn an_upload_s_age_counts_from_its_last_bytes_by_the_given_clock() {
    let folder = tempfile::tempdir().unwrap();
    let (early, late) = (at(0, folder.path()).await, at(3600, folder.path()).await);
    let env = Env::for_tests(3);
    let (owner, idle, busy) = (env.uuid(), env.uuid(), env.uuid());
    early.upload_start(owner, idle).await.unwrap();
    early.upload_start(owner, busy).await.unwrap();
    late.upload_append(owner, busy, None, MOST, body(b"x")).await.unwrap();
    let now = start() + SignedDuration::from_secs(3700);
    let older = |seconds| early.uploads_older_than(Duration::from_secs(seconds), now);
    assert_eq!(older(3800).await.unwrap(), []);
    assert_eq!(older(3600).await.unwrap(), [(owner, idle)]);
    let mut both = vec![(owner, idle), (owner, busy)];
    both.sort();
    assert_eq!(older(10).await.unwrap(), both);
    // Foreign files are left alone.
    std::fs::write(folder.path().join("uploads").join(owner.to_string()).join("notes"), b"").unwrap();
    std::fs::create_dir(folder.path().join("uploads/lost+found")).unwrap();
    assert_eq!(older(10).await.unwrap(), both);
}

#[tokio::test]
async fn the_folder_of_an_owner_without_uploads_goes() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = at(0, folder.path()).await;
    let env = Env::for_tests(3);
    let (owner, upload) = (env.uuid(), env.uuid());
    blobs.upload_start(owner, upload).await.unwrap();
    let home = folder.path().join("uploads").join(owner.to_string());
    blobs.uploads_older_than(Duration::ZERO, start()).await.unwrap();
    assert!(home.exists());
    assert!(blobs.upload_cancel(owner, upload).await.unwrap());
    blobs.uploads_older_than(Duration::ZERO, start()).await.unwrap();
    assert!(!home.exists());
    blobs.upload_start(owner, env.uuid()).await.unwrap();
    assert!(home.exists());
}

#[tokio::test]
async fn finished_files_are_listed_in_pages_with_their_facts() {
    let folder = tempfile::tempdir().unwrap();
    let (early, late) = (at(0, folder.path()).await, at(3600, folder.path()).await);
    let env = Env::for_tests(3);
    let (owner, upload) = (env.uuid(), env.uuid());
    early.upload_start(owner, upload).await.unwrap();
    early.upload_append(owner, upload, None, MOST, body(b"old")).await.unwrap();
    // Finishing updates the file's time: it became content just now, however long the upload took.
    let slow = late.upload_finish(owner, upload, &digest(b"old"), None, MOST, nothing()).await.unwrap();
    let mut names = vec![slow.file.clone()];
    for number in 0..30_u8 {
        let content = vec![number; usize::from(number)];
        names.push(early.put(&digest(&content), MOST, body(&content)).await.unwrap().file);
    }
    names.push(early.put(&digest(b"old"), MOST, body(b"old")).await.unwrap().file);
    names.sort();
    std::fs::write(folder.path().join("blobs/00/rubbish"), b"x").unwrap();
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = early.files(after.as_deref(), 7).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 7);
        after = Some(last.name.clone());
        found.extend(page);
    }
    assert_eq!(found.iter().map(|file| file.name.clone()).collect::<Vec<_>>(), names);
    let slow = found.iter().find(|file| file.name == slow.file).unwrap();
    assert_eq!((slow.digest, slow.size), (digest(b"old"), 3));
    assert_eq!(slow.modified, start() + SignedDuration::from_secs(3600));
    assert_eq!(early.files(None, 0).await.unwrap(), []);
}
