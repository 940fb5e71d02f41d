//! Uploads: content arrives in one or several requests, and becomes a blob of a repository.
//!
//! An upload is a file under its repository's id and a random id of its own. It has no row: its length is the file's, and
//! leftovers of a crash are removed by age. The row is written with the blob, in one commit.

use bytes::Bytes;
use futures::Stream;
use jiff::Timestamp;
use muster_ids::TypedId as _;
use muster_model::event::EventType;
use muster_registry::error::{Code, Refusal};
use muster_registry::path::Name;
use muster_registry::{Digest, Finished, UploadError};
use serde_json::json;
use uuid::Uuid;

use super::damage::Unsound;
use super::{Answered, Guest, Right, TransferGuard, Visit, storage, stored, visit};
use crate::commit::target;
use crate::{Answer, Command, Cx, Error, PreparedCommand, Result, execute};

/// Result of starting an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// The upload waits for content.
    Upload(Uuid),
    /// The content was mounted from a repository that the actor may read.
    Mounted,
}

/// Content of one upload request.
pub struct Chunk<S> {
    /// Offset, if the client sends one.
    pub offset: Option<u64>,
    /// The bytes.
    pub body: S,
    /// Permission of the sender, which may end while they arrive.
    pub guard: TransferGuard,
}

/// Starts an upload; with `mount` (a digest and its repository) it mounts the content from there if the actor may read it.
/// Missing and unreadable content yield the same response.
pub async fn start(
    cx: &Cx,
    guest: &Guest,
    name: &Name,
    mount: Option<(Digest, Option<Name>)>,
) -> Answered<Started> {
    let visit = ensured(cx, visit(cx, guest, name, Right::Push).await?).await?;
    if let Some((digest, Some(from))) = mount
        && taken_over(cx, guest, &visit, &digest, &from).await?
    {
        return Ok(Started::Mounted);
    }
    // Fully random: a known id must not help to guess another.
    let upload = uuid::Builder::from_random_bytes(cx.platform.env.bytes()).into_uuid();
    let owner = visit.repository()?.uuid();
    cx.platform.blobs.upload_start(owner, upload).await.map_err(|error| storage(&error))?;
    Ok(Started::Upload(upload))
}

/// Creates the repository on the first push.
async fn ensured(cx: &Cx, mut visit: Visit) -> Answered<Visit> {
    if visit.id.is_none() {
        let mut tx = cx.platform.store.begin().await.map_err(stored)?;
        let id = cx.platform.env.id();
        let made = tx.repository_ensure(id, visit.tenant, visit.project, &visit.name, cx.now).await;
        let made = made.map_err(stored)?;
        tx.commit().await.map_err(stored)?;
        cx.platform.names.remember(visit.project, &visit.name, made.id);
        visit.id = Some(made.id);
    }
    Ok(visit)
}

async fn taken_over(cx: &Cx, guest: &Guest, visit: &Visit, digest: &Digest, from: &Name) -> Answered<bool> {
    let Ok(source) = super::visit(cx, guest, from, Right::Pull).await else { return Ok(false) };
    let Some(source_id) = source.id else { return Ok(false) };
    let (parsed, digest) = (digest, digest.to_string());
    let there = cx.platform.store.repository_blob(source_id, &digest).await.map_err(stored)?;
    let Some(there) = there else { return Ok(false) };
    let Some(file) = &there.file else { return Ok(false) };
    // Damaged content is not mounted: the client uploads the right bytes.
    let size = u64::try_from(there.size).unwrap_or_default();
    match cx.platform.check_blob(parsed, size, file).await {
        Ok(_) => {}
        Err(Unsound::Damaged) => return Ok(false),
        Err(Unsound::Storage(error)) => return Err(storage(&error)),
        Err(Unsound::Store(error)) => return Err(stored(error)),
    }
    let id = visit.repository()?;
    let (now, digest_text) = (cx.now, digest.clone());
    let detail = json!({"digest": digest, "from": source.path, "size": there.size});
    let commit = PreparedCommand::new(visit.scope(), target("repository", id, &visit.name), move |tx| {
        Box::pin(async move {
            // The source may delete it concurrently; the foreign key decides.
            tx.repository_blob_put(id, &digest_text, now).await?;
            Ok(Answer::new(&json!({})))
        })
    });
    let path = format!("/v1/projects/{}/repositories/{id}", visit.project);
    let commit = commit.event(cx, EventType::BlobMounted, path, detail);
    let command = Command {
        action: "blob.mount".to_owned(),
        route: format!("POST /v2/{}/blobs/uploads", visit.path),
        key: None,
        request_hash: [0; 32],
        status: 201,
    };
    match execute(cx, &command, Ok(commit)).await {
        Ok(_) => Ok(true),
        Err(Error { code: muster_api::Code::NotFound, .. }) => Ok(false),
        Err(error) => Err(Refusal::from(error)),
    }
}

fn owner(visit: &Visit) -> Answered<Uuid> {
    visit.id.map(|id| id.uuid()).ok_or_else(no_upload)
}

fn no_upload() -> Refusal {
    Refusal::new(Code::BlobUploadUnknown, "there is no such upload: start a new one")
}

fn refused(error: UploadError) -> Refusal {
    let says = error.to_string();
    match error {
        UploadError::Unknown => no_upload(),
        UploadError::Busy => Refusal::new(Code::BlobUploadInvalid, says).with_status(409),
        UploadError::Offset { length } => Refusal::new(Code::BlobUploadInvalid, says)
            .with_status(416)
            .with_detail(json!({"length": length})),
        UploadError::Broken { .. } => Refusal::new(Code::BlobUploadInvalid, says),
        UploadError::TooLarge { .. } => Refusal::new(Code::SizeInvalid, says).with_status(413),
        UploadError::Full => Refusal::new(Code::Unsupported, says).with_status(507),
        UploadError::Mismatch { .. } => Refusal::new(Code::DigestInvalid, says),
        UploadError::Storage(error) => storage(&error),
    }
}

/// Returns the length of an upload so far.
pub async fn length(cx: &Cx, guest: &Guest, name: &Name, upload: Uuid) -> Answered<u64> {
    let visit = visit(cx, guest, name, Right::Push).await?;
    let found = cx.platform.blobs.upload_length(owner(&visit)?, upload).await;
    found.map_err(|error| storage(&error))?.ok_or_else(no_upload)
}

/// Appends to an upload; returns its new length.
pub async fn append<S, E>(cx: &Cx, guest: &Guest, name: &Name, upload: Uuid, chunk: Chunk<S>) -> Answered<u64>
where
    S: Stream<Item = Result<Bytes, E>> + Send,
    E: std::fmt::Display,
{
    let visit = visit(cx, guest, name, Right::Push).await?;
    let most = cx.platform.options.largest_blob;
    let (blobs, Chunk { offset, body, mut guard }) = (&cx.platform.blobs, chunk);
    let appended = blobs.upload_append(owner(&visit)?, upload, offset, most, guard.guarded(body)).await;
    guard.refusal()?;
    let length = appended.map_err(refused)?;
    guard.authorize().await?;
    Ok(length)
}

/// Finishes an upload, or uploads in a single request: the content becomes a blob of the repository if its digest matches.
pub async fn finish<S, E>(
    cx: &Cx,
    guest: &Guest,
    name: &Name,
    upload: Option<Uuid>,
    digest: &Digest,
    chunk: Chunk<S>,
) -> Answered<()>
where
    S: Stream<Item = Result<Bytes, E>> + Send,
    E: std::fmt::Display,
{
    let visit = visit(cx, guest, name, Right::Push).await?;
    let (blobs, most) = (&cx.platform.blobs, cx.platform.options.largest_blob);
    let Chunk { offset, body, mut guard } = chunk;
    let body = guard.guarded(body);
    let finished = match upload {
        Some(upload) => blobs.upload_finish(owner(&visit)?, upload, digest, offset, most, body).await,
        None => blobs.put(digest, most, body).await,
    };
    guard.refusal()?;
    let finished = finished.map_err(refused)?;
    // The credential may have been revoked since the last check.
    let visit = match guard.authorize().await {
        Ok(visit) if upload.is_none() => ensured(cx, visit).await?,
        Ok(visit) => visit,
        Err(refusal) => {
            if let Err(error) = blobs.remove(&finished.file).await {
                tracing::warn!(%error, "the content of a refused push stays until the next collection");
            }
            return Err(refusal);
        }
    };
    keep(cx, &visit, digest, finished).await
}

/// Records the content's file, and that the repository has it. Of two files with the same content the later one is removed:
/// no row ever named it. The recorded file is verified first: if it is lost or damaged, the new file replaces it for every
/// repository that has it.
pub(crate) async fn keep(cx: &Cx, visit: &Visit, digest: &Digest, finished: Finished) -> Answered<()> {
    settle(cx, visit.repository()?, digest, finished).await
}

/// Records the content for a repository given by id.
pub(crate) async fn settle(
    cx: &Cx,
    id: muster_ids::RepositoryId,
    digest: &Digest,
    finished: Finished,
) -> Answered<()> {
    let blobs = &cx.platform.blobs;
    for _ in 0..2 {
        let counts = record(cx, id, digest, &finished, cx.platform.env.now()).await.map_err(stored)?;
        let counts = counts.unwrap_or_default();
        let damage = match counts == finished.file {
            // Its content was verified on upload.
            true => blobs.check_length(&counts, finished.size).await,
            false => blobs.check_content(&counts, digest, finished.size).await,
        };
        match damage.map_err(|error| storage(&error))? {
            None if counts == finished.file => return Ok(()),
            None => {
                if let Err(error) = blobs.remove(&finished.file).await {
                    tracing::warn!(%error, "a duplicate file of the same content stays until the next collection");
                }
                return Ok(());
            }
            Some(damage) => {
                cx.platform.quarantine_blob(digest, &counts, damage, "push").await.map_err(stored)?;
            }
        }
    }
    Err(Refusal::new(Code::Unsupported, "the content was lost during the commit: push it again")
        .with_status(503))
}

async fn record(
    cx: &Cx,
    id: muster_ids::RepositoryId,
    digest: &Digest,
    finished: &Finished,
    now: Timestamp,
) -> muster_db::Result<Option<String>> {
    let (digest, size) = (digest.to_string(), i64::try_from(finished.size).unwrap_or(i64::MAX));
    let mut tx = cx.platform.store.begin().await?;
    let counts = tx.blob_put(&digest, size, Some(&finished.file), now).await?;
    tx.repository_blob_put(id, &digest, now).await?;
    tx.commit().await?;
    Ok(counts)
}

/// Cancels an upload.
pub async fn cancel(cx: &Cx, guest: &Guest, name: &Name, upload: Uuid) -> Answered<()> {
    let visit = visit(cx, guest, name, Right::Push).await?;
    match cx.platform.blobs.upload_cancel(owner(&visit)?, upload).await.map_err(refused)? {
        true => Ok(()),
        false => Err(no_upload()),
    }
}
