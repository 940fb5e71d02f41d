//! Uploads: in chunks, interrupted, out of order, too large, concurrent.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::future::join_all;
use futures::{SinkExt, stream};
use muster_ids::Env;
use muster_registry::{Blobs, UploadError};

use crate::shelf::{MOST, Shelf, body, broken, digest, noise, nothing, parts};

#[tokio::test]
async fn an_upload_in_chunks_is_the_whole() {
    let shelf = Shelf::new().await;
    let content = noise(3_000_000);
    let (owner, upload) = shelf.start().await;
    assert_eq!(shelf.blobs.upload_length(owner, upload).await.unwrap(), Some(0));
    let append = |offset, bytes: &[u8]| {
        shelf.blobs.upload_append(owner, upload, Some(offset), MOST, parts(bytes.chunks(10_000)))
    };
    assert_eq!(append(0, &content[..1_000_000]).await.unwrap(), 1_000_000);
    assert_eq!(append(1_000_000, &content[1_000_000..2_500_000]).await.unwrap(), 2_500_000);
    assert_eq!(shelf.blobs.upload_length(owner, upload).await.unwrap(), Some(2_500_000));
    let (name, rest) = (digest(&content), body(&content[2_500_000..]));
    let finish = shelf.blobs.upload_finish(owner, upload, &name, Some(2_500_000), MOST, rest).await;
    let finished = finish.unwrap();
    assert_eq!(finished.size, 3_000_000);
    assert!(finished.file.starts_with(&name.hex()));
    assert_eq!(shelf.content(&finished).await, content);
    assert_eq!(shelf.blobs.upload_length(owner, upload).await.unwrap(), None);
    let (uploads, blobs) = shelf.files();
    assert!(uploads.is_empty());
    assert_eq!(blobs.len(), 1);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&blobs[0]), 0o444);
    assert_eq!(mode(&shelf.root()), 0o700);
    assert_eq!(mode(blobs[0].parent().unwrap()), 0o700);
}

#[tokio::test]
async fn an_upload_goes_on_at_another_server() {
    let shelf = Shelf::new().await;
    let content = noise(700_000);
    let (owner, upload) = shelf.start().await;
    let other = shelf.another_server().await;
    assert_eq!(other.identity(), shelf.blobs.identity());
    let servers: [&Blobs; 2] = [&shelf.blobs, &other];
    for (at, part) in content.chunks(100_000).enumerate() {
        let offset = Some(at as u64 * 100_000);
        servers[at % 2].upload_append(owner, upload, offset, MOST, body(part)).await.unwrap();
    }
    let finish = shelf.blobs.upload_finish(owner, upload, &digest(&content), None, MOST, nothing()).await;
    assert_eq!(shelf.content(&finish.unwrap()).await, content);
}

#[tokio::test]
async fn bytes_at_the_wrong_offset_are_not_taken() {
    let shelf = Shelf::new().await;
    let (owner, upload) = shelf.start().await;
    shelf.blobs.upload_append(owner, upload, Some(0), MOST, body(b"abc")).await.unwrap();
    for offset in [0, 2, 4, u64::MAX] {
        let append = shelf.blobs.upload_append(owner, upload, Some(offset), MOST, body(b"x"));
        assert!(matches!(append.await, Err(UploadError::Offset { length: 3 })), "{offset}");
        let finish =
            shelf.blobs.upload_finish(owner, upload, &digest(b"abcx"), Some(offset), MOST, body(b"x")).await;
        assert!(matches!(finish, Err(UploadError::Offset { length: 3 })), "{offset}");
    }
    let finish = shelf.blobs.upload_finish(owner, upload, &digest(b"abc"), Some(3), MOST, nothing()).await;
    assert_eq!(finish.unwrap().size, 3);
}

#[tokio::test]
async fn bytes_of_a_broken_body_are_kept_and_the_upload_resumes() {
    let shelf = Shelf::new().await;
    let content = noise(1_500_000);
    let (owner, upload) = shelf.start().await;
    let append = shelf.blobs.upload_append(owner, upload, None, MOST, broken(&content[..1_100_000]));
    let error = append.await.unwrap_err();
    assert!(matches!(&error, UploadError::Broken { why } if why.contains("dead")), "{error}");
    assert_eq!(shelf.blobs.upload_length(owner, upload).await.unwrap(), Some(1_100_000));
    let name = digest(&content);
    let rest = broken(&content[1_100_000..1_200_000]);
    let finish = shelf.blobs.upload_finish(owner, upload, &name, Some(1_100_000), MOST, rest).await;
    assert!(matches!(finish, Err(UploadError::Broken { .. })));
    let rest = body(&content[1_200_000..]);
    let finish = shelf.blobs.upload_finish(owner, upload, &name, Some(1_200_000), MOST, rest).await;
    assert_eq!(shelf.content(&finish.unwrap()).await, content);
}

#[tokio::test]
async fn upload_of_a_disconnected_caller_can_be_resumed() {
    let shelf = Shelf::new().await;
    let content = noise(2_000_000);
    let (owner, upload) = shelf.start().await;
    let (mut send, receive) = mpsc::channel::<Result<Bytes, String>>(0);
    let blobs = shelf.blobs.clone();
    let request = tokio::spawn(async move { blobs.upload_append(owner, upload, None, MOST, receive).await });
    for part in content[..1_200_000].chunks(50_000) {
        send.send(Ok(Bytes::copy_from_slice(part))).await.unwrap();
    }
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    // Bytes on their way to the disk may still be written; the lock is free afterwards.
    let kept = loop {
        match shelf.blobs.upload_append(owner, upload, None, MOST, nothing()).await {
            Ok(length) => break usize::try_from(length).unwrap(),
            Err(UploadError::Busy) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert!((100_000..=1_200_000).contains(&kept), "{kept}");
    let name = digest(&content);
    let finish = shelf.blobs.upload_finish(owner, upload, &name, None, MOST, body(&content[kept..])).await;
    assert_eq!(shelf.content(&finish.unwrap()).await, content);
}

#[tokio::test]
async fn content_with_another_digest_leaves_nothing() {
    let shelf = Shelf::new().await;
    let (owner, upload) = shelf.start().await;
    let finish =
        shelf.blobs.upload_finish(owner, upload, &digest(b"right"), None, MOST, body(b"wrong")).await;
    match finish {
        Err(UploadError::Mismatch { found }) => assert_eq!(found, digest(b"wrong")),
        other => panic!("{other:?}"),
    }
    let put = shelf.blobs.put(&digest(b"right"), MOST, body(b"wrong")).await;
    assert!(matches!(put, Err(UploadError::Mismatch { .. })));
    let put = shelf.blobs.put(&digest(b"right"), MOST, broken(b"rig")).await;
    assert!(matches!(put, Err(UploadError::Broken { .. })));
    assert_eq!(shelf.files(), (vec![], vec![]));
    let append = shelf.blobs.upload_append(owner, upload, None, MOST, body(b"x")).await;
    assert!(matches!(append, Err(UploadError::Unknown)));
}

#[tokio::test]
async fn a_spoiled_file_is_found_out_though_a_hash_was_kept() {
    let shelf = Shelf::new().await;
    let (owner, upload) = shelf.start().await;
    shelf.blobs.upload_append(owner, upload, None, MOST, body(b"abc")).await.unwrap();
    let (uploads, _) = shelf.files();
    std::fs::write(&uploads[0], b"abX").unwrap();
    // The same length: only a server that did not write it reads it again.
    let other = shelf.another_server().await;
    let finish = other.upload_finish(owner, upload, &digest(b"abc"), None, MOST, nothing()).await;
    assert!(matches!(finish, Err(UploadError::Mismatch { found }) if found == digest(b"abX")));
    // Another length: the cached hash is not used.
    let (owner, upload) = shelf.start().await;
    shelf.blobs.upload_append(owner, upload, None, MOST, body(b"abc")).await.unwrap();
    let (uploads, _) = shelf.files();
    std::fs::write(&uploads[0], b"abXd").unwrap();
    let finish = shelf.blobs.upload_finish(owner, upload, &digest(b"abXd"), None, MOST, nothing()).await;
    assert_eq!(finish.unwrap().size, 4);
}

#[tokio::test]
async fn oversized_upload_is_refused_and_nothing_is_written_beyond_the_limit() {
    let shelf = Shelf::new().await;
    let (owner, upload) = shelf.start().await;
    let append =
        |most, bytes: &[u8]| shelf.blobs.upload_append(owner, upload, None, most, parts(bytes.chunks(4)));
    assert_eq!(append(8, b"12345678").await.unwrap(), 8);
    assert!(matches!(append(8, b"9").await, Err(UploadError::TooLarge { most: 8 })));
    assert!(matches!(append(11, b"90123456").await, Err(UploadError::TooLarge { most: 11 })));
    assert_eq!(shelf.blobs.upload_length(owner, upload).await.unwrap(), Some(8));
    assert!(matches!(append(7, b"").await, Err(UploadError::TooLarge { most: 7 })));
    let finish = shelf.blobs.upload_finish(owner, upload, &digest(b"12345678"), None, 7, nothing()).await;
    assert!(matches!(finish, Err(UploadError::TooLarge { most: 7 })));
    assert!(matches!(
        shelf.blobs.put(&digest(b"ab"), 1, body(b"ab")).await,
        Err(UploadError::TooLarge { .. })
    ));
    assert_eq!(shelf.files().1.len(), 0);
    let finish = shelf.blobs.upload_finish(owner, upload, &digest(b"12345678"), None, 8, nothing()).await;
    assert_eq!(finish.unwrap().size, 8);
}

#[tokio::test]
async fn two_requests_never_write_to_one_upload_at_once() {
    let shelf = Shelf::new().await;
    let (owner, upload) = shelf.start().await;
    let (mut send, receive) = mpsc::channel::<Result<Bytes, String>>(0);
    let blobs = shelf.blobs.clone();
    let first = tokio::spawn(async move { blobs.upload_append(owner, upload, None, MOST, receive).await });
    send.send(Ok(Bytes::from_static(b"abc"))).await.unwrap();
    // The channel has no buffer, so the first request has locked the upload by now.
    send.send(Ok(Bytes::from_static(b"def"))).await.unwrap();
    let other = shelf.another_server().await;
    for server in [&shelf.blobs, &other] {
        let append = server.upload_append(owner, upload, None, MOST, body(b"x")).await;
        assert!(matches!(append, Err(UploadError::Busy)));
        let finish = server.upload_finish(owner, upload, &digest(b"x"), None, MOST, nothing()).await;
        assert!(matches!(finish, Err(UploadError::Busy)));
        assert!(matches!(server.upload_cancel(owner, upload).await, Err(UploadError::Busy)));
    }
    drop(send);
    assert_eq!(first.await.unwrap().unwrap(), 6);
    assert_eq!(other.upload_append(owner, upload, Some(6), MOST, body(b"g")).await.unwrap(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_uploads_of_the_same_content_at_once_are_sixteen_files() {
    let shelf = Arc::new(Shelf::new().await);
    let content = Arc::new(noise(900_000));
    let one = |number: usize| {
        let (shelf, content) = (shelf.clone(), content.clone());
        tokio::spawn(async move {
            let name = digest(&content);
            if number % 4 == 3 {
                return shelf.blobs.put(&name, MOST, parts(content.chunks(33_000))).await.unwrap();
            }
            let (owner, upload) = shelf.start().await;
            for part in content.chunks(200_000 + number * 1000) {
                shelf
                    .blobs
                    .upload_append(owner, upload, None, MOST, parts(part.chunks(7_000)))
                    .await
                    .unwrap();
            }
            shelf.blobs.upload_finish(owner, upload, &name, None, MOST, nothing()).await.unwrap()
        })
    };
    let finished = join_all((0..16).map(one)).await;
    let finished: Vec<_> = finished.into_iter().map(Result::unwrap).collect();
    let (uploads, blobs) = shelf.files();
    assert_eq!((uploads.len(), blobs.len()), (0, 16));
    for (at, file) in finished.iter().enumerate() {
        assert!(finished[..at].iter().all(|earlier| earlier.file != file.file));
        let damage = shelf.blobs.check_content(&file.file, &digest(&content), file.size).await.unwrap();
        assert_eq!(damage, None);
    }
    // Removing one does not affect the others.
    assert!(shelf.blobs.remove(&finished[0].file).await.unwrap());
    assert!(!shelf.blobs.remove(&finished[0].file).await.unwrap());
    assert_eq!(shelf.content(&finished[15]).await, *content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_finishes_of_one_upload_one_succeeds() {
    for _ in 0..20 {
        let shelf = Shelf::new().await;
        let other = shelf.another_server().await;
        let (owner, upload) = shelf.start().await;
        shelf.blobs.upload_append(owner, upload, None, MOST, body(b"content")).await.unwrap();
        let finish = |number: usize| {
            let blobs = if number < 4 { shelf.blobs.clone() } else { other.clone() };
            tokio::spawn(async move {
                // The even ones send an extra byte: if one of them were admitted after the others had finished, it would
                // corrupt a finished file.
                let more = if number.is_multiple_of(2) { body(b"!") } else { nothing() };
                blobs.upload_finish(owner, upload, &digest(b"content"), Some(7), MOST, more).await
            })
        };
        for result in join_all((0..8).map(finish)).await {
            match result.unwrap() {
                Ok(_) | Err(UploadError::Busy | UploadError::Unknown | UploadError::Mismatch { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let (uploads, blobs) = shelf.files();
        assert!(blobs.len() <= 1 && uploads.len() + blobs.len() <= 1);
        for file in blobs {
            assert_eq!(std::fs::read(file).unwrap(), b"content");
        }
    }
}

/// Between opening an upload and locking it, another server may finish it: the open file is then a finished one, even if the
/// upload's name is in use again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_finished_between_opening_and_locking_it_is_left_alone() {
    for name_comes_again in [false, true] {
        let shelf = Shelf::new().await;
        let (owner, upload) = shelf.start().await;
        shelf.blobs.upload_append(owner, upload, None, MOST, body(b"content")).await.unwrap();
        let (opened, wait_opened) = std::sync::mpsc::channel();
        let (go_on, wait_go_on) = std::sync::mpsc::channel();
        let wait_go_on = parking_lot::Mutex::new(wait_go_on);
        let reach = move |point: &'static str| {
            if point == "blob:opened" {
                opened.send(()).unwrap();
                wait_go_on.lock().recv().unwrap();
            }
        };
        let late = Blobs::open_reaching(shelf.root(), Env::for_tests(9), Arc::new(reach)).await.unwrap();
        let more = body(b"spoiled");
        let late = tokio::spawn(async move { late.upload_append(owner, upload, None, MOST, more).await });
        tokio::task::spawn_blocking(move || wait_opened.recv().unwrap()).await.unwrap();
        let name = digest(b"content");
        let finished = shelf.blobs.upload_finish(owner, upload, &name, None, MOST, nothing()).await.unwrap();
        if name_comes_again {
            shelf.blobs.upload_start(owner, upload).await.unwrap();
        }
        go_on.send(()).unwrap();
        assert!(matches!(late.await.unwrap(), Err(UploadError::Unknown)));
        let damage = shelf.blobs.check_content(&finished.file, &name, finished.size).await.unwrap();
        assert_eq!(damage, None);
    }
}

#[tokio::test]
async fn upload_never_started_or_cancelled_is_unknown() {
    let shelf = Shelf::new().await;
    let (owner, upload) = (shelf.env.uuid(), shelf.env.uuid());
    assert_eq!(shelf.blobs.upload_length(owner, upload).await.unwrap(), None);
    assert!(matches!(
        shelf.blobs.upload_append(owner, upload, None, MOST, body(b"x")).await,
        Err(UploadError::Unknown)
    ));
    assert!(!shelf.blobs.upload_cancel(owner, upload).await.unwrap());
    let (owner, upload) = shelf.start().await;
    // An upload does not exist under another owner.
    let stranger = shelf.env.uuid();
    let append = shelf.blobs.upload_append(stranger, upload, None, MOST, body(b"x")).await;
    assert!(matches!(append, Err(UploadError::Unknown)));
    assert!(shelf.blobs.upload_start(owner, upload).await.is_err(), "an upload is started once");
    assert!(shelf.blobs.upload_cancel(owner, upload).await.unwrap());
    assert_eq!(shelf.files(), (vec![], vec![]));
    let finish = shelf.blobs.upload_finish(owner, upload, &digest(b""), None, MOST, nothing()).await;
    assert!(matches!(finish, Err(UploadError::Unknown)));
}

#[tokio::test]
async fn the_empty_blob_is_a_blob() {
    let shelf = Shelf::new().await;
    let finished = shelf.blobs.put(&digest(b""), 0, nothing()).await.unwrap();
    assert_eq!(finished.size, 0);
    assert_eq!(shelf.content(&finished).await, b"");
    let empty =
        shelf.blobs.put(&digest(b"{}"), 2, stream::iter([Ok::<_, String>(Bytes::from_static(b"{}"))])).await;
    assert_eq!(shelf.content(&empty.unwrap()).await, b"{}");
}
