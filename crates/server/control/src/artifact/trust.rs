//! Trust in an artifact: verification of the registry's signatures for its digest against the project's keys.

use muster_api::{Code, Problem};
use muster_ids::{ProjectId, RepositoryId};
use muster_model::artifact::{Artifact, ArtifactKind, Trust, TrustPolicy, Verdict};
use muster_registry::manifest::Manifest;
use muster_trust::{Digest, Examination, Signature, TrustedKey, bundle, simple};

use crate::Cx;
use crate::refuse::{Result, refuse};

/// Returns a project's trust policy, or the default if none was set.
pub(crate) async fn policy_of(cx: &Cx, project: ProjectId) -> Result<TrustPolicy> {
    Ok(cx.platform.store.trust_policy_lookup(project).await.map_err(refuse)?.unwrap_or_default())
}

/// Returns the verdict on an artifact under the project's current keys and rules. A trusted verdict is cached until these
/// change; any other is evaluated again, since a signature may have been added.
pub(crate) async fn judged(cx: &Cx, artifact: &Artifact, policy: &TrustPolicy) -> Result<Verdict> {
    if let Some(known) = &artifact.verdict
        && known.trust == Trust::Trusted
        && artifact.policy == Some(policy.policy)
    {
        return Ok(known.clone());
    }
    judge(cx, artifact).await
}

/// Evaluates an artifact's signatures without the cached verdict.
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
    let examination = Examination::new(manifest_digest, files, keys);
    let mut examiner = Examiner { cx, repository: artifact.repository_id, examination, waiting: Vec::new() };
    examiner.examine_bundles(&manifest_digest).await?;
    examiner.examine_tagged(&manifest_digest).await?;
    let decided = examiner.examination.verdict();
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

/// Returns names and digests of the files of a file artifact.
async fn files(cx: &Cx, artifact: &Artifact) -> Result<Option<Vec<(String, Digest)>>> {
    if artifact.kind != ArtifactKind::Blob {
        return Ok(None);
    }
    let found = cx.platform.store.manifest_lookup(artifact.repository_id, &artifact.digest).await;
    let Some(found) = found.map_err(refuse)? else { return Ok(None) };
    let Ok(manifest) = Manifest::parse(&found.content, None) else { return Ok(None) };
    Ok(manifest.layers.iter().map(|layer| Some((layer.title()?.to_owned(), layer.digest))).collect())
}

/// Number of signature rows read at once.
const PAGE: i64 = 100;
/// Maximum bytes of signatures held in memory.
const HELD: usize = 4 << 20;

/// Verifies a repository's signatures for a digest until one of them is valid.
struct Examiner<'c> {
    cx: &'c Cx,
    repository: RepositoryId,
    examination: Examination,
    waiting: Vec<Signature>,
}

impl Examiner<'_> {
    /// Verifies the referrers. It reads all of them: any client with push permission can add invalid ones, in any order.
    async fn examine_bundles(&mut self, digest: &Digest) -> Result<()> {
        let (store, digest) = (&self.cx.platform.store, digest.to_string());
        let mut after = String::new();
        while self.examination.wants_bundles() {
            let kind = Some(bundle::MEDIA_TYPE);
            let page = store.referrers(self.repository, &digest, kind, &after, PAGE).await.map_err(refuse)?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.digest);
            for referrer in page {
                let manifest = store.manifest_lookup(self.repository, &referrer.digest).await;
                let layers = manifest.map_err(refuse)?.and_then(|found| bundle::layers(&found.content).ok());
                // A signature has one layer, and the node reads no other.
                let Some(layer) = layers.and_then(|layers| layers.into_iter().next()) else { continue };
                let found = document(self.cx, self.repository, &layer.digest.to_string()).await?;
                if let Some(json) = found {
                    self.add(Signature::Bundle { json, digest: layer.digest }).await?;
                }
            }
            self.examine_waiting().await?;
        }
        Ok(())
    }

    /// Verifies the signatures under the cosign tag. Moving that tag needs a permission of its own, so only its holders can
    /// add to them.
    async fn examine_tagged(&mut self, digest: &Digest) -> Result<()> {
        let tagged = self.cx.platform.store.manifest_by_tag(self.repository, &simple::tag(digest)).await;
        let layers = tagged.map_err(refuse)?.and_then(|manifest| simple::layers(&manifest.content).ok());
        for layer in layers.unwrap_or_default() {
            if !self.examination.wants_simple() {
                break;
            }
            let found = document(self.cx, self.repository, &layer.digest.to_string()).await?;
            if let Some(payload) = found {
                let (signature, digest) = (layer.signature, layer.digest);
                self.add(Signature::Simple { payload, signature, digest }).await?;
            }
        }
        self.examine_waiting().await
    }

    async fn add(&mut self, signature: Signature) -> Result<()> {
        self.waiting.push(signature);
        let bytes: usize = self.waiting.iter().map(Signature::len).sum();
        if bytes < HELD { Ok(()) } else { self.examine_waiting().await }
    }

    /// Verifies on a blocking thread: untrusted clients may attach long signatures, and each is hashed once per key.
    async fn examine_waiting(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let empty = Examination::new(Digest::of(b""), None, Vec::new());
        let mut examination = std::mem::replace(&mut self.examination, empty);
        let examined = tokio::task::spawn_blocking(move || {
            waiting.iter().for_each(|signature| examination.examine(signature));
            examination
        });
        let failed = |_| Problem::new(Code::Internal, "signatures could not be looked at");
        self.examination = examined.await.map_err(failed)?;
        Ok(())
    }
}

/// Reads a short blob. A blob that is too long to be a signature counts as none.
async fn document(cx: &Cx, repository: RepositoryId, digest: &str) -> Result<Option<Vec<u8>>> {
    super::damage::read_short(cx, repository, digest, muster_trust::MOST_BUNDLE as u64).await
}
