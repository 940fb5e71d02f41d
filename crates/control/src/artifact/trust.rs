//! What a project's keys say of an artifact: the signatures that the registry has for its digest, gathered and decided upon.

use muster_api::{Code, Problem};
use muster_ids::{ProjectId, RepositoryId};
use muster_model::artifact::{Artifact, ArtifactKind, Trust, TrustPolicy, Verdict};
use muster_registry::manifest::Manifest;
use muster_trust::{Digest, Signature, Subject, TrustedKey, bundle, decide, simple};

use crate::Cx;
use crate::refuse::{Result, refuse};

/// What a project demands, also where nobody ever set it.
pub(crate) async fn policy_of(cx: &Cx, project: ProjectId) -> Result<TrustPolicy> {
    Ok(cx.platform.store.trust_policy_lookup(project).await.map_err(refuse)?.unwrap_or_default())
}

/// The verdict on an artifact under the present edition of the project's keys and rules. One that is trusted stays so for as long
/// as that edition does; anything less is looked at again, since a signature may have come.
pub(crate) async fn judged(cx: &Cx, artifact: &Artifact, policy: &TrustPolicy) -> Result<Verdict> {
    if let Some(known) = &artifact.verdict
        && known.trust == Trust::Trusted
        && artifact.policy == Some(policy.policy)
    {
        return Ok(known.clone());
    }
    judge(cx, artifact).await
}

/// The same, without believing anything that was found before.
pub(super) async fn judge(cx: &Cx, artifact: &Artifact) -> Result<Verdict> {
    let mut keys = Vec::new();
    for key in cx.platform.store.key_of_project(artifact.project_id).await.map_err(refuse)? {
        match muster_trust::PublicKey::from_pem(&key.public_key) {
            Ok(parsed) => {
                keys.push(TrustedKey {
                    id: key.id.to_string(),
                    key: parsed,
                    revoked: key.revoked_at.is_some(),
                });
            }
            Err(error) => tracing::error!(key = %key.id, %error, "a publisher's key cannot be read"),
        }
    }
    let Ok(manifest_digest) = artifact.digest.parse::<Digest>() else {
        return Ok(verdict(cx, Trust::Untrusted, Some("malformed"), "its digest cannot be read".to_owned()));
    };
    let files = files(cx, artifact).await?;
    let signatures = gather(cx, artifact.repository_id, &manifest_digest).await?;
    // Strangers may attach long signatures, and each is hashed for each key: not where requests wait for their turn.
    let decided = tokio::task::spawn_blocking(move || {
        decide(&Subject { manifest_digest, files: files.as_deref() }, &signatures, &keys)
    });
    let decided =
        decided.await.map_err(|_| Problem::new(Code::Internal, "signatures could not be looked at"))?;
    Ok(match decided {
        muster_trust::Verdict::Trusted { key_id, signature_digest } => {
            let says = format!("it is signed by the key {key_id}");
            let mut verdict = verdict(cx, Trust::Trusted, None, says);
            verdict.key_id = key_id.parse().ok();
            verdict.signature = Some(signature_digest.to_string());
            verdict
        }
        muster_trust::Verdict::Unsigned => verdict(cx, Trust::Unsigned, None, "nobody signed it".to_owned()),
        muster_trust::Verdict::Untrusted { reason } => {
            verdict(cx, Trust::Untrusted, Some(reason.word()), reason.to_string())
        }
    })
}

fn verdict(cx: &Cx, trust: Trust, reason: Option<&str>, says: String) -> Verdict {
    let reason = reason.map(str::to_owned);
    Verdict { trust, reason, says, key_id: None, signature: None, checked_at: cx.now }
}

/// The files of an artifact that is made of files: names and digests.
async fn files(cx: &Cx, artifact: &Artifact) -> Result<Option<Vec<(String, Digest)>>> {
    if artifact.kind != ArtifactKind::Blob {
        return Ok(None);
    }
    let found = cx.platform.store.manifest_lookup(artifact.repository_id, &artifact.digest).await;
    let Some(found) = found.map_err(refuse)? else { return Ok(None) };
    let Ok(manifest) = Manifest::parse(&found.content, None) else { return Ok(None) };
    Ok(manifest.layers.iter().map(|layer| Some((layer.title()?.to_owned(), layer.digest))).collect())
}

/// Every signature that the repository has for a digest: those that cosign tags, and those that refer to it.
pub(super) async fn gather(cx: &Cx, repository: RepositoryId, digest: &Digest) -> Result<Vec<Signature>> {
    let store = &cx.platform.store;
    let mut signatures = Vec::new();
    let tagged = store.manifest_by_tag(repository, &simple::tag(digest)).await.map_err(refuse)?;
    if let Some(layers) = tagged.and_then(|manifest| simple::layers(&manifest.content).ok()) {
        for layer in layers {
            if let Some(payload) = document(cx, repository, &layer.digest.to_string()).await? {
                signatures.push(Signature::Simple {
                    payload,
                    signature: layer.signature,
                    digest: layer.digest,
                });
            }
        }
    }
    let referrers = store.referrers(repository, &digest.to_string(), Some(bundle::MEDIA_TYPE)).await;
    for referrer in referrers.map_err(refuse)?.into_iter().take(muster_trust::MOST_SIGNATURES) {
        let manifest = store.manifest_lookup(repository, &referrer.digest).await.map_err(refuse)?;
        let Some(layers) = manifest.and_then(|manifest| bundle::layers(&manifest.content).ok()) else {
            continue;
        };
        for layer in layers {
            if let Some(json) = document(cx, repository, &layer.digest.to_string()).await? {
                signatures.push(Signature::Bundle { json, digest: layer.digest });
            }
        }
    }
    Ok(signatures)
}

/// A short blob, whole. What is too long for a signature is none.
async fn document(cx: &Cx, repository: RepositoryId, digest: &str) -> Result<Option<Vec<u8>>> {
    super::damage::read_short(cx, repository, digest, muster_trust::MOST_BUNDLE as u64).await
}
