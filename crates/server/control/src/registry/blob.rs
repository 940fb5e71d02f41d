//! Blobs of a repository: lookup, read and delete.

use std::ops::Range;

use bytes::Bytes;
use muster_db::StoreError;
use muster_model::event::EventType;
use muster_registry::error::{Code, Refusal};
use muster_registry::path::Name;
use muster_registry::{Digest, Reading};
use serde_json::json;

use super::damage::{Checked, Unsound};
use super::{Answered, Guest, Right, storage, stored, visit};
use crate::commit::target;
use crate::{Answer, Command, Cx, Error, PreparedCommand, execute};

/// A readable blob.
#[derive(Debug, Clone)]
pub struct Content {
    /// Size in bytes.
    pub size: u64,
    file: String,
    /// Full content, where it is short and verified.
    verified: Option<Bytes>,
}

/// A range of a blob.
pub enum ContentPart {
    /// In memory.
    Bytes(Bytes),
    /// Streamed from storage.
    Stream(Reading),
}

fn unknown(digest: &Digest) -> Refusal {
    Refusal::new(Code::BlobUnknown, format!("the repository has no blob {digest}"))
}

fn damaged(digest: &Digest) -> Refusal {
    let why =
        format!("the blob {digest} was damaged on the registry's disk and was quarantined: push it again");
    Refusal::new(Code::BlobUnknown, why)
}

/// Looks a blob up and verifies it. A blob of other repositories only is reported as unknown, with the same timing.
pub async fn blob_look(cx: &Cx, guest: &Guest, name: &Name, digest: &Digest) -> Answered<Content> {
    let visit = visit(cx, guest, name, Right::Pull).await?;
    let id = visit.repository()?;
    let found = cx.platform.store.repository_blob(id, &digest.to_string()).await.map_err(stored)?;
    let found = found.ok_or_else(|| unknown(digest))?;
    if let Some(file) = found.file
        && let Some(content) = checked(cx, digest, found.size, file).await?
    {
        return Ok(content);
    }
    // It is external, or was damaged: its source registry may still have it.
    let fetched = crate::artifact::external::fetch(cx, &visit, digest, found.size).await?;
    let Some((size, file)) = fetched.and_then(|place| Some((place.size, place.file?))) else {
        return Err(damaged(digest));
    };
    checked(cx, digest, size, file).await?.ok_or_else(|| damaged(digest))
}

/// Returns servable content; none if it is damaged.
async fn checked(cx: &Cx, digest: &Digest, size: i64, file: String) -> Answered<Option<Content>> {
    let size = u64::try_from(size).unwrap_or_default();
    match cx.platform.check_blob(digest, size, &file).await {
        Ok(Checked::Whole(bytes)) => Ok(Some(Content { size, file, verified: Some(bytes) })),
        Ok(Checked::Long) => Ok(Some(Content { size, file, verified: None })),
        Err(Unsound::Damaged) => Ok(None),
        Err(Unsound::Storage(error)) => Err(storage(&error)),
        Err(Unsound::Store(error)) => Err(stored(error)),
    }
}

/// Reads a range of a blob.
pub async fn blob_read(cx: &Cx, content: &Content, range: Range<u64>) -> Answered<ContentPart> {
    if let Some(bytes) = &content.verified {
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
        return Ok(ContentPart::Bytes(bytes.slice(start..end)));
    }
    let reading = cx.platform.blobs.read(&content.file, range).await;
    reading.map(ContentPart::Stream).map_err(|error| storage(&error))
}

/// Deletes a blob from a repository; no manifest may reference it.
pub async fn blob_delete(cx: &Cx, guest: &Guest, name: &Name, digest: &Digest) -> Answered<()> {
    let visit = visit(cx, guest, name, Right::Delete).await?;
    let id = visit.repository()?;
    let text = digest.to_string();
    let there = cx.platform.store.repository_blob(id, &text).await.map_err(stored)?;
    there.ok_or_else(|| unknown(digest))?;
    let path = format!("/v1/projects/{}/repositories/{id}", visit.project);
    let told_of = json!({"repository": visit.name, "blob": text});
    let commit = PreparedCommand::new(visit.scope(), target("repository", id, &visit.name), move |tx| {
        Box::pin(async move {
            match tx.repository_blob_delete(id, &text).await {
                Err(StoreError::Gone(_)) => Err(Error::new(
                    muster_api::Code::InvalidState,
                    "a manifest references it: remove that first",
                )),
                Err(error) => Err(error.into()),
                Ok(_) => Ok(Answer::new(&json!({}))),
            }
        })
    });
    let commit = commit.event(cx, EventType::ManifestDeleted, path, told_of);
    let command = Command {
        action: "blob.delete".to_owned(),
        route: format!("DELETE /v2/{}/blobs/{digest}", visit.path),
        key: None,
        request_hash: [0; 32],
        status: 202,
    };
    execute(cx, &command, Ok(commit)).await.map(drop).map_err(Refusal::from)
}
