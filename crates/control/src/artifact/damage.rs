//! Content that is not what its digest says: found by reading, taken out of use, and said.

use futures::StreamExt as _;
use muster_api::{Code, Problem};
use muster_ids::RepositoryId;
use muster_registry::Digest;

use crate::Cx;
use crate::refuse::{Result, refuse};
use crate::registry::storage;

/// A short blob of a repository, whole and compared with its digest; none if it is not there, too long or damaged.
pub(super) async fn read_short(
    cx: &Cx,
    repository: RepositoryId,
    digest: &str,
    most: u64,
) -> Result<Option<Vec<u8>>> {
    let place = cx.platform.store.repository_blob(repository, digest).await.map_err(refuse)?;
    let Some((size, file)) = place.and_then(|place| Some((u64::try_from(place.size).ok()?, place.file?)))
    else {
        return Ok(None);
    };
    if size > most {
        return Ok(None);
    }
    let Ok(mut reading) = cx.platform.blobs.read(&file, 0..size).await else { return Ok(None) };
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    while let Some(part) = reading.next().await {
        let Ok(part) = part else { return Ok(None) };
        bytes.extend_from_slice(&part);
    }
    Ok((Digest::of(&bytes).to_string() == digest).then_some(bytes))
}

/// Reads every byte that a manifest leads to. What is damaged is taken out of use, so that a push brings it anew.
pub(super) async fn check(cx: &Cx, repository: RepositoryId, digest: &str) -> Result<()> {
    let store = &cx.platform.store;
    let mut waiting = vec![digest.to_owned()];
    let mut seen = std::collections::HashSet::new();
    while let Some(manifest) = waiting.pop() {
        if !seen.insert(manifest.clone()) {
            continue;
        }
        for blob in store.manifest_blobs(repository, &manifest).await.map_err(refuse)? {
            if seen.insert(blob.clone()) {
                check_blob(cx, repository, &blob).await?;
            }
        }
        waiting.extend(store.manifest_children(repository, &manifest).await.map_err(refuse)?);
    }
    Ok(())
}

async fn check_blob(cx: &Cx, repository: RepositoryId, text: &str) -> Result<()> {
    let place = cx.platform.store.repository_blob(repository, text).await.map_err(refuse)?;
    // What another registry has is compared when it comes.
    let Some(file) = place.and_then(|place| place.file) else { return Ok(()) };
    let Ok(digest) = text.parse::<Digest>() else { return Ok(()) };
    let whole = match cx.platform.blobs.verify(&file, &digest).await {
        Ok(whole) => whole,
        Err(muster_registry::StorageError::Missing(_)) => false,
        Err(error) => return Err(Problem::new(Code::Unavailable, storage(&error).message)),
    };
    if whole {
        return Ok(());
    }
    tracing::error!(blob = text, file, "content is not what its digest says; it is taken out of use");
    let mut tx = cx.platform.store.begin().await.map_err(refuse)?;
    tx.blob_lost(text, &file).await.map_err(refuse)?;
    tx.commit().await.map_err(refuse)?;
    if let Err(error) = cx.platform.blobs.remove(&file).await {
        tracing::warn!(%error, "a damaged file stays until it is swept");
    }
    Err(Problem::new(
        Code::InvalidState,
        format!(
            "the content of {text} is damaged on the registry's disk, and was taken out of use: push it again"
        ),
    ))
}
