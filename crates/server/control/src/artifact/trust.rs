//! Trust in an artifact: verification of the registry's signatures for its digest against the project's keys.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use muster_api::Code;
use muster_ids::{ArtifactId, ProjectId, RepositoryId, TenantId};
use muster_model::artifact::{Artifact, ArtifactKind, Trust, TrustPolicy, Verdict};
use muster_registry::manifest::Manifest;
use muster_trust::{Digest, Examination, Signature, TrustedKey, bundle, simple};
use parking_lot::Mutex;

use crate::keyed_locks::KeyedLocks;
use crate::{Cx, Error, Result};

/// Returns a project's trust policy, or the default if none was set.
pub(crate) async fn policy_of(cx: &Cx, project: ProjectId) -> Result<TrustPolicy> {
    Ok(cx.platform.store.trust_policy_lookup(project).await?.unwrap_or_default())
}

/// The verdict on an artifact under the present edition of the project's keys and rules. One that is trusted stays so for as long
/// as that edition does. Any other is remembered for a short time and for the signatures that were there: anybody who may push
/// adds thousands of bad ones, and each request would examine them all.
pub(crate) async fn judged(cx: &Cx, artifact: &Artifact, policy: &TrustPolicy) -> Result<Verdict> {
    if let Some(known) = &artifact.verdict
        && known.trust == Trust::Trusted
        && artifact.policy == Some(policy.policy)
    {
        return Ok(known.clone());
    }
    // Read before the examination: a signature that comes during it begins another one.
    let examined = Examined { policy: policy.policy, signatures: signatures(cx, artifact).await? };
    let negatives = &cx.platform.negative_verdicts;
    if let Some(verdict) = negatives.get(artifact.id, &examined, cx.now) {
        return Ok(verdict);
    }
    let _alone = cx.platform.examinations.lock(artifact.tenant_id).await;
    // Another request may have examined it during the wait.
    if let Some(verdict) = negatives.get(artifact.id, &examined, cx.now) {
        return Ok(verdict);
    }
    let verdict = examine(cx, artifact).await?;
    if verdict.trust != Trust::Trusted {
        negatives.remember(artifact.id, examined, verdict.clone(), cx.now);
    }
    Ok(verdict)
}

/// Evaluates an artifact's signatures without the cached verdict.
pub(super) async fn judge(cx: &Cx, artifact: &Artifact) -> Result<Verdict> {
    let _alone = cx.platform.examinations.lock(artifact.tenant_id).await;
    examine(cx, artifact).await
}

/// Examinations of a tenant's artifacts go one at a time, so that none takes more than one processor from the others.
pub(crate) type Examinations = KeyedLocks<TenantId>;

/// A negative verdict is remembered for so long: a signature whose file was repaired must not wait longer.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(60);
/// So many negative verdicts are remembered.
const MOST_REMEMBERED: usize = 10_000;
/// So many revoked keys are tried, the newest: they only explain why a signature does not count.
const MOST_REVOKED: usize = 50;

/// The keys, rules and signatures that a verdict was found with.
#[derive(Debug, PartialEq, Eq)]
struct Examined {
    policy: i64,
    signatures: Signatures,
}

/// How many bundles refer to an artifact, when the newest came, and the manifest that its signature tag names.
type Signatures = (i64, Option<Timestamp>, Option<String>);

async fn signatures(cx: &Cx, artifact: &Artifact) -> Result<Signatures> {
    let (store, repository) = (&cx.platform.store, artifact.repository_id);
    let bundles = store.referrers_newest(repository, &artifact.digest, bundle::MEDIA_TYPE).await;
    let (count, newest) = bundles?;
    let tagged = match artifact.digest.parse::<Digest>() {
        Ok(digest) => store.tag_lookup(repository, &simple::tag(&digest)).await?,
        Err(_) => None,
    };
    Ok((count, newest, tagged))
}

/// The negative verdicts of the last moments.
#[derive(Default)]
pub(crate) struct NegativeVerdicts(Mutex<HashMap<ArtifactId, (Examined, Verdict, Timestamp)>>);

impl NegativeVerdicts {
    fn get(&self, artifact: ArtifactId, examined: &Examined, now: Timestamp) -> Option<Verdict> {
        let verdicts = self.0.lock();
        let (known, verdict, until) = verdicts.get(&artifact)?;
        (known == examined && now < *until).then(|| verdict.clone())
    }

    fn remember(&self, artifact: ArtifactId, examined: Examined, verdict: Verdict, now: Timestamp) {
        let mut verdicts = self.0.lock();
        if verdicts.len() >= MOST_REMEMBERED {
            verdicts.retain(|_, (_, _, until)| now < *until);
        }
        if verdicts.len() < MOST_REMEMBERED {
            verdicts.insert(artifact, (examined, verdict, now + REMEMBERED));
        }
    }
}

async fn examine(cx: &Cx, artifact: &Artifact) -> Result<Verdict> {
    let mut keys = Vec::new();
    let mut known = cx.platform.store.key_of_project(artifact.project_id).await?;
    let revoked = known.iter().filter(|key| key.revoked_at.is_some()).count();
    let mut skipped = revoked.saturating_sub(MOST_REVOKED);
    known.retain(|key| {
        let is_skipped = key.revoked_at.is_some() && skipped > 0;
        skipped -= usize::from(is_skipped);
        !is_skipped
    });
    for key in known {
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
        return Ok(verdict(cx, Trust::Untrusted, Some("malformed"), "its digest is invalid".to_owned()));
    };
    let files = files(cx, artifact).await?;
    let examination = Examination::new(manifest_digest, files, keys);
    let mut examiner = Examiner { cx, repository: artifact.repository_id, examination, waiting: Vec::new() };
    examiner.examine_bundles(&manifest_digest).await?;
    examiner.examine_tagged(&manifest_digest).await?;
    let decided = examiner.examination.verdict();
    Ok(match decided {
        muster_trust::Verdict::Trusted { key_id, signature_digest } => {
            let message = format!("it is signed by the key {key_id}");
            let mut verdict = verdict(cx, Trust::Trusted, None, message);
            verdict.key_id = key_id.parse().ok();
            verdict.signature = Some(signature_digest.to_string());
            verdict
        }
        muster_trust::Verdict::Unsigned => {
            verdict(cx, Trust::Unsigned, None, "it has no signature".to_owned())
        }
        muster_trust::Verdict::Untrusted { reason } => {
            verdict(cx, Trust::Untrusted, Some(reason.word()), reason.to_string())
        }
    })
}

fn verdict(cx: &Cx, trust: Trust, reason: Option<&str>, message: String) -> Verdict {
    let reason = reason.map(str::to_owned);
    Verdict { trust, reason, message, key_id: None, signature: None, checked_at: cx.now }
}

/// Returns names and digests of the files of a file artifact.
async fn files(cx: &Cx, artifact: &Artifact) -> Result<Option<Vec<(String, Digest)>>> {
    if artifact.kind != ArtifactKind::Blob {
        return Ok(None);
    }
    let found = cx.platform.store.manifest_lookup(artifact.repository_id, &artifact.digest).await;
    let Some(found) = found? else { return Ok(None) };
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
            let page = store.referrers(self.repository, &digest, kind, &after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.digest);
            for referrer in page {
                let manifest = store.manifest_lookup(self.repository, &referrer.digest).await;
                let layers = manifest?.and_then(|found| bundle::layers(&found.content).ok());
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
        let layers = tagged?.and_then(|manifest| simple::layers(&manifest.content).ok());
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
        let failed = |_| Error::new(Code::Internal, "signatures could not be verified");
        self.examination = examined.await.map_err(failed)?;
        Ok(())
    }
}

/// Reads a short blob. A blob that is too long to be a signature counts as none.
async fn document(cx: &Cx, repository: RepositoryId, digest: &str) -> Result<Option<Vec<u8>>> {
    super::damage::read_short(cx, repository, digest, muster_trust::MOST_BUNDLE as u64).await
}
