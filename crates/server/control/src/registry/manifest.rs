//! Manifests: read, push and delete. A push is a command: it is audited, emits events, and publishes tagged content as an
//! artifact.

use std::collections::HashMap;
use std::sync::Arc;

use muster_api::Code as Problems;
use muster_authz::{Permission, decide};
use muster_db::{ManifestContent, StoreError};
use muster_ids::RepositoryId;
use muster_model::artifact::{Artifact, ArtifactKind, ArtifactState, Change, Manifest as Row};
use muster_model::event::EventType;
use muster_registry::Digest;
use muster_registry::error::{Code, Refusal};
use muster_registry::manifest::Manifest;
use muster_registry::path::{Name, Reference};
use muster_trust::bundle;
use serde_json::json;

use super::{Answered, Guest, Right, Visit, stored, visit};
use crate::commit::target;
use crate::{Answer, Command, Cx, Error, PreparedCommand, execute};

/// Config media types of images; a manifest with any other config is a file artifact.
const IMAGE_CONFIGS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
/// Default line of pushed content.
pub(crate) const MAIN: &str = "main";

fn absent(reference: &str) -> Refusal {
    Refusal::new(Code::ManifestUnknown, format!("the repository has no manifest {reference}"))
}

fn text(reference: &Reference) -> String {
    match reference {
        Reference::Tag(tag) => tag.as_str().to_owned(),
        Reference::Digest(digest) => digest.to_string(),
    }
}

/// Returns a manifest, by digest or by tag.
pub async fn get(
    cx: &Cx,
    guest: &Guest,
    name: &Name,
    reference: &Reference,
) -> Answered<Arc<ManifestContent>> {
    let id = visit(cx, guest, name, Right::Pull).await?.repository()?;
    let store = &cx.platform.store;
    let key = (id, text(reference));
    // Another server may have moved a tag just now.
    let alone = store.kind() == "sqlite" || matches!(reference, Reference::Digest(_));
    let edition = match cx.platform.manifests.recall(&key) {
        Ok(found) if alone => return Ok(found),
        Ok(_) => None,
        Err(edition) => alone.then_some(edition),
    };
    let found = match reference {
        Reference::Tag(tag) => store.manifest_by_tag(id, tag.as_str()).await,
        Reference::Digest(_) => store.manifest_lookup(id, &key.1).await,
    };
    let found = Arc::new(found.map_err(stored)?.ok_or_else(|| absent(&key.1))?);
    if let Some(edition) = edition {
        cx.platform.manifests.remember(edition, key, found.clone());
    }
    Ok(found)
}

/// Maximum number and total bytes of accepted signatures per artifact.
const SIGNATURES_TAKEN: i64 = muster_trust::MOST_SIGNATURES as i64 - 96;
const SIGNATURE_BYTES_TAKEN: i64 = muster_trust::MOST_SIGNATURE_BYTES as i64 - (4 << 20);

/// Result of a push.
pub struct Pushed {
    /// Digest of the manifest.
    pub digest: Digest,
    /// Digest of the manifest that it refers to.
    pub subject: Option<Digest>,
}

/// Adds a manifest to a repository that has all of its content, and moves the tag.
pub async fn push(
    cx: &Cx,
    guest: &Guest,
    name: &Name,
    reference: &Reference,
    bytes: Vec<u8>,
    content_type: Option<&str>,
) -> Answered<Pushed> {
    let visit = visit(cx, guest, name, Right::Push).await?;
    let digest = Digest::of(&bytes);
    if let Reference::Digest(said) = reference
        && *said != digest
    {
        let why = format!("the manifest has the digest {digest}, not {said}");
        return Err(Refusal::new(Code::DigestInvalid, why));
    }
    let manifest = Manifest::parse(&bytes, content_type).map_err(|error| error.refusal())?;
    // An index of missing manifests would be its repository's first push; everything else needs blobs, and pushing those has
    // created it.
    let id = visit.repository()?;
    let total = needed(cx, id, &manifest).await? + i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let tag = match reference {
        Reference::Tag(tag) => Some(tag.as_str().to_owned()),
        Reference::Digest(_) => None,
    };
    let row = row(&manifest, &digest, bytes, total);
    ensure_few_signatures(cx, id, &row).await?;
    let subject = manifest.subject.as_ref().map(|subject| subject.digest);
    let publishes = tag.as_deref().is_some_and(|tag| subject.is_none() && !is_signature_tag(tag));
    let artifact = publishes.then(|| draft(cx, &visit, id, &manifest, &row));
    let tagged = match &tag {
        Some(tag) => cx.platform.store.tag_lookup(id, tag).await.map_err(stored)?,
        None => None,
    };
    let commit = commit(cx, &visit, id, row, tag, artifact)?;
    let commit = match tagged {
        Some(digest) => commit.before(&json!({"digest": digest})),
        None => commit,
    };
    let command = Command {
        action: "manifest.push".to_owned(),
        route: format!("PUT /v2/{}/manifests/{}", visit.path, text(reference)),
        key: None,
        request_hash: [0; 32],
        status: 201,
    };
    let done = execute(cx, &command, Ok(commit)).await;
    cx.platform.manifests.forget();
    done.map_err(|error| match error.code {
        // From the foreign keys: referenced content was deleted meanwhile.
        Problems::NotFound => Refusal::new(
            Code::ManifestBlobUnknown,
            "content that the manifest references is not in the repository: push it again",
        ),
        _ => Refusal::from(error),
    })?;
    Ok(Pushed { digest, subject })
}

/// Limits the signatures per artifact to the number that is verified, with a margin for races, so that every accepted valid
/// signature is found. A rejected one is an error for its signer, instead of being lost among invalid ones.
async fn ensure_few_signatures(cx: &Cx, id: RepositoryId, row: &Row) -> Answered<()> {
    let (Some(subject), Some(bundle::MEDIA_TYPE)) = (&row.subject, row.artifact_type.as_deref()) else {
        return Ok(());
    };
    let store = &cx.platform.store;
    if store.manifest_total(id, &row.digest).await.map_err(stored)?.is_some() {
        return Ok(());
    }
    let (count, bytes) = store.referrers_total(id, subject, bundle::MEDIA_TYPE).await.map_err(stored)?;
    if count < SIGNATURES_TAKEN && bytes.saturating_add(row.total_size) <= SIGNATURE_BYTES_TAKEN {
        return Ok(());
    }
    let why = format!(
        "{subject} has {count} signatures of {bytes} bytes, and at most {SIGNATURES_TAKEN} of {SIGNATURE_BYTES_TAKEN} bytes are allowed: delete unneeded ones"
    );
    Err(Refusal::new(Code::Denied, why))
}

fn commit(
    cx: &Cx,
    visit: &Visit,
    id: RepositoryId,
    row: Row,
    tag: Option<String>,
    artifact: Option<(Artifact, Change)>,
) -> Answered<PreparedCommand> {
    let scope = visit.scope();
    let principal = cx.principal()?;
    let may_move = decide(principal, Permission::RepositoryRetag, scope).is_allowed();
    let told_of =
        json!({"repository": visit.name, "digest": row.digest, "tag": tag, "media_type": row.media_type});
    let path = format!("/v1/projects/{}/repositories/{id}", visit.project);
    let now = cx.now;
    let commit = PreparedCommand::new(scope, target("repository", id, &visit.name), move |tx| {
        Box::pin(async move {
            tx.manifest_put(id, &row, now).await?;
            if let Some(tag) = &tag
                && !tx.tag_set(id, tag, &row.digest, may_move, now).await?
            {
                return Err(Error::new(
                    Problems::PermissionDenied,
                    format!(
                        "the tag {tag} names another digest, and moving it needs the permission repository.retag"
                    ),
                ));
            }
            if let Some((artifact, change)) = &artifact {
                tx.artifact_publish(artifact, change).await?;
            }
            Ok(Answer::new(&json!({})))
        })
    });
    Ok(commit.event(cx, EventType::ManifestPushed, path, told_of))
}

/// Ensures that the repository has all content of a manifest; returns its total size.
async fn needed(cx: &Cx, id: RepositoryId, manifest: &Manifest) -> Answered<i64> {
    let store = &cx.platform.store;
    let blobs: HashMap<String, u64> =
        manifest.needs_blobs().into_iter().map(|blob| (blob.digest.to_string(), blob.size)).collect();
    let names: Vec<String> = blobs.keys().cloned().collect();
    let had: HashMap<String, i64> = match names.is_empty() {
        true => HashMap::new(),
        false => store.repository_blobs_had(id, &names).await.map_err(stored)?.into_iter().collect(),
    };
    let mut total = 0_i64;
    for (digest, size) in &blobs {
        let found = had.get(digest).ok_or_else(|| missing(digest, "blob"))?;
        // Content that is only referenced was never measured here.
        if *found >= 0 && u64::try_from(*found).ok() != Some(*size) {
            let why = format!("the blob {digest} has {found} bytes, but {size} in the manifest");
            return Err(Refusal::new(Code::SizeInvalid, why));
        }
        total = total.saturating_add(i64::try_from(*size).unwrap_or(i64::MAX));
    }
    let children: Vec<String> =
        manifest.needs_manifests().into_iter().map(|child| child.digest.to_string()).collect();
    if !children.is_empty() {
        let had: HashMap<String, i64> =
            store.manifest_sizes(id, &children).await.map_err(stored)?.into_iter().collect();
        for child in &children {
            total = total.saturating_add(*had.get(child).ok_or_else(|| missing(child, "manifest"))?);
        }
    }
    Ok(total)
}

fn missing(digest: &str, what: &str) -> Refusal {
    Refusal::new(
        Code::ManifestBlobUnknown,
        format!(
            "the manifest references the {what} {digest}, which the repository does not have: push it first"
        ),
    )
    .with_detail(json!({"digest": digest}))
}

pub(crate) fn row(manifest: &Manifest, digest: &Digest, content: Vec<u8>, total_size: i64) -> Row {
    Row {
        digest: digest.to_string(),
        media_type: manifest.media_type.as_str().to_owned(),
        artifact_type: manifest.artifact_type.clone(),
        subject: manifest.subject.as_ref().map(|subject| subject.digest.to_string()),
        annotations: json!(manifest.annotations),
        content,
        total_size,
        blobs: manifest.needs_blobs().into_iter().map(|blob| blob.digest.to_string()).collect(),
        children: manifest.needs_manifests().into_iter().map(|child| child.digest.to_string()).collect(),
    }
}

/// Reports whether a tag is one of cosign's for artifacts that refer to a manifest: `sha256-….sig`, `.att`, `.sbom`;
/// `sha256-…` alone is the referrers tag of older clients.
fn is_signature_tag(tag: &str) -> bool {
    let Some(rest) = tag.strip_prefix("sha256-") else { return false };
    let hex = rest.split('.').next().unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn draft(cx: &Cx, visit: &Visit, id: RepositoryId, manifest: &Manifest, row: &Row) -> (Artifact, Change) {
    let artifact = published(cx, visit.scope(), (id, &visit.name), manifest, row);
    let change = Change {
        before: None,
        after: ArtifactState::Draft,
        actor_id: cx.actor_id(),
        reason: "it was pushed with a tag".to_owned(),
        at: cx.now,
    };
    (artifact, change)
}

/// Returns a newly published artifact for a manifest.
pub(crate) fn published(
    cx: &Cx,
    scope: muster_model::Scope,
    repository: (RepositoryId, &str),
    manifest: &Manifest,
    row: &Row,
) -> Artifact {
    let image = manifest.media_type.is_index()
        || manifest.config.as_ref().is_some_and(|config| IMAGE_CONFIGS.contains(&config.media_type.as_str()));
    let (Some(tenant_id), Some(project_id)) = (scope.tenant(), scope.project()) else {
        unreachable!("a repository belongs to a project")
    };
    Artifact {
        id: cx.platform.env.id(),
        tenant_id,
        project_id,
        repository_id: repository.0,
        repository: repository.1.to_owned(),
        digest: row.digest.clone(),
        kind: if image { ArtifactKind::Oci } else { ArtifactKind::Blob },
        media_type: row.media_type.clone(),
        size: row.total_size,
        line: MAIN.to_owned(),
        state: ArtifactState::Draft,
        canary_percent: None,
        verdict: None,
        policy: None,
        smoke_witness_id: None,
        superseded_by: None,
        deprecated_at: None,
        labels: muster_model::Labels::default(),
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    }
}

/// Deletes a tag, or a manifest with all of its tags; no index may reference it and no artifact in use may be made of it.
pub async fn delete(cx: &Cx, guest: &Guest, name: &Name, reference: &Reference) -> Answered<()> {
    let visit = visit(cx, guest, name, Right::Delete).await?;
    let id = visit.repository()?;
    let named = text(reference);
    let (digest, tag) = match reference {
        Reference::Tag(tag) => (None, Some(tag.as_str().to_owned())),
        Reference::Digest(digest) => (Some(digest.to_string()), None),
    };
    let artifact = match &digest {
        Some(digest) => cx.platform.store.artifact_by_digest(id, digest).await.map_err(stored)?,
        None => None,
    };
    if let Some(used) = artifact
        .as_ref()
        .filter(|artifact| !matches!(artifact.state, ArtifactState::Draft | ArtifactState::Retired))
    {
        let why =
            format!("it is an artifact that is {}: only drafts and retired ones can be removed", used.state);
        return Err(Refusal::new(Code::Denied, why).with_status(409));
    }
    let path = format!("/v1/projects/{}/repositories/{id}", visit.project);
    let told_of = json!({"repository": visit.name, "digest": digest, "tag": tag});
    let missing = absent(&named);
    let tagged = match &tag {
        Some(tag) => cx.platform.store.tag_lookup(id, tag).await.map_err(stored)?,
        None => None,
    };
    let commit = PreparedCommand::new(visit.scope(), target("repository", id, &visit.name), move |tx| {
        Box::pin(async move {
            if let Some(artifact) = &artifact {
                tx.artifact_delete(artifact.id, artifact.version).await.map_err(needed_by)?;
            }
            let there = match (&digest, &tag) {
                (Some(digest), _) => tx.manifest_delete(id, digest).await.map_err(needed_by)?,
                (None, Some(tag)) => tx.tag_delete(id, tag).await?,
                (None, None) => false,
            };
            if !there {
                return Err(Error::not_found("manifest"));
            }
            Ok(Answer::new(&json!({})))
        })
    });
    let commit = match tagged {
        Some(digest) => commit.before(&json!({"digest": digest})),
        None => commit,
    };
    let commit = commit.event(cx, EventType::ManifestDeleted, path, told_of);
    let command = Command {
        action: "manifest.delete".to_owned(),
        route: format!("DELETE /v2/{}/manifests/{named}", visit.path),
        key: None,
        request_hash: [0; 32],
        status: 202,
    };
    let done = execute(cx, &command, Ok(commit)).await.map(drop);
    cx.platform.manifests.forget();
    done.map_err(|error| if error.code == Problems::NotFound { missing } else { Refusal::from(error) })
}

/// Maps a foreign key error: a referenced row cannot be deleted.
fn needed_by(error: StoreError) -> Error {
    match error {
        StoreError::Gone(_) => Error::new(
            Problems::InvalidState,
            "it is in use: by an index that contains it, a cell created from it, or a release of an app",
        ),
        error => error.into(),
    }
}
