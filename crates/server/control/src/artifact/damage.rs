//! Detection of content that does not match its digest: it is taken out of use and reported.
use muster_api::Code;
use muster_ids::RepositoryId;
use muster_registry::Digest;

use crate::registry::storage;
use crate::{Cx, Error, Result};

/// Reads a short blob of a repository and verifies its digest; returns none if it is missing, too long or damaged.
pub(super) async fn read_short(
    cx: &Cx,
    repository: RepositoryId,
    digest: &str,
    most: u64,
) -> Result<Option<Vec<u8>>> {
    let place = cx.platform.store.repository_blob(repository, digest).await?;
    let Some((size, file)) = place.and_then(|place| Some((u64::try_from(place.size).ok()?, place.file?)))
    else {
        return Ok(None);
    };
    if size > most {
        return Ok(None);
    }
    let Ok(parsed) = digest.parse::<Digest>() else { return Ok(None) };
    match cx.platform.blobs.read_verified(&file, &parsed, size).await {
        Ok(Ok(bytes)) => Ok(Some(bytes.to_vec())),
        Ok(Err(damage)) => {
            cx.platform.quarantine_blob(&parsed, &file, damage, "read").await?;
            Ok(None)
        }
        Err(error) => Err(Error::new(Code::Unavailable, storage(&error).message)),
    }
}

/// Verifies all content that a manifest references. Damaged blobs are quarantined, so that the next push replaces them.
pub(super) async fn check(cx: &Cx, repository: RepositoryId, digest: &str) -> Result<()> {
    let store = &cx.platform.store;
    let mut waiting = vec![digest.to_owned()];
    let mut seen = std::collections::HashSet::new();
    while let Some(manifest) = waiting.pop() {
        if !seen.insert(manifest.clone()) {
            continue;
        }
        for blob in store.manifest_blobs(repository, &manifest).await? {
            if seen.insert(blob.clone()) {
                check_blob(cx, repository, &blob).await?;
            }
        }
        waiting.extend(store.manifest_children(repository, &manifest).await?);
    }
    Ok(())
}

async fn check_blob(cx: &Cx, repository: RepositoryId, text: &str) -> Result<()> {
    let place = cx.platform.store.repository_blob(repository, text).await?;
    // Content in an external registry is verified when it is fetched.
    let Some((size, file)) = place.and_then(|place| Some((place.size, place.file?))) else { return Ok(()) };
    let Ok(digest) = text.parse::<Digest>() else { return Ok(()) };
    let size = u64::try_from(size).unwrap_or_default();
    let damage = cx.platform.blobs.check_content(&file, &digest, size).await;
    let damage = damage.map_err(|error| Error::new(Code::Unavailable, storage(&error).message))?;
    let Some(damage) = damage else { return Ok(()) };
    cx.platform.quarantine_blob(&digest, &file, damage, "verify").await?;
    Err(Error::new(
        Code::InvalidState,
        format!("the content of {text} is damaged on the registry's disk and was quarantined: push it again"),
    ))
}
