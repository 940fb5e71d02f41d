//! Blobs of a repository: looking, reading, removing.

use std::ops::Range;

use muster_model::event::EventType;
use muster_registry::error::{Code, Refusal};
use muster_registry::path::Name;
use muster_registry::{Digest, Reading, StorageError};
use muster_store::StoreError;
use serde_json::json;

use super::{Answered, Guest, Right, storage, stored, told, visit};
use crate::commit::target;
use crate::{Answer, Command, Commit, Cx, execute};

/// A blob that can be read.
#[derive(Debug, Clone)]
pub struct Content {
    /// How long it is.
    pub size: u64,
    file: String,
}

fn unknown(digest: &Digest) -> Refusal {
    Refusal::new(Code::BlobUnknown, format!("the repository has no blob {digest}"))
}

/// Looks for a blob. What only other repositories have is not there, and takes as long to be not there.
pub async fn blob_look(cx: &Cx, guest: &Guest, name: &Name, digest: &Digest) -> Answered<Content> {
    let visit = visit(cx, guest, name, Right::Pull).await?;
    let id = visit.repository()?;
    let found = cx.platform.store.repository_blob(id, &digest.to_string()).await.map_err(stored)?;
    let found = found.ok_or_else(|| unknown(digest))?;
    let file = match found.file {
        Some(file) => file,
        None => crate::artifact::external::fetch(cx, &visit, digest, found.size).await?,
    };
    // A row without its file is no content: whoever pushes it again mends that.
    match cx.platform.blobs.length(&file).await {
        Ok(size) => Ok(Content { size, file }),
        Err(StorageError::Missing(_)) => Err(unknown(digest)),
        Err(error) => Err(storage(&error)),
    }
}

/// Reads a part of a blob.
pub async fn blob_read(cx: &Cx, content: &Content, range: Range<u64>) -> Answered<Reading> {
    cx.platform.blobs.read(&content.file, range).await.map_err(|error| storage(&error))
}

/// Removes a blob from a repository that no manifest needs.
pub async fn blob_delete(cx: &Cx, guest: &Guest, name: &Name, digest: &Digest) -> Answered<()> {
    let visit = visit(cx, guest, name, Right::Delete).await?;
    let id = visit.repository()?;
    let text = digest.to_string();
    let there = cx.platform.store.repository_blob(id, &text).await.map_err(stored)?;
    there.ok_or_else(|| unknown(digest))?;
    let path = format!("/v1/projects/{}/repositories/{id}", visit.project);
    let told_of = json!({"repository": visit.name, "blob": text});
    let commit = Commit::new(visit.scope(), target("repository", id, &visit.name), move |tx| {
        Box::pin(async move {
            match tx.repository_blob_delete(id, &text).await {
                Err(StoreError::Gone(_)) => Err(muster_api::Problem::new(
                    muster_api::Code::InvalidState,
                    "a manifest needs it: remove that first",
                )
                .into()),
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
    execute(cx, &command, Ok(commit)).await.map(drop).map_err(told)
}
