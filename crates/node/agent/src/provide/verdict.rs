//! Verifies whether an image may run: its signatures are collected and verified before it is unpacked, every time a cell is
//! created from it.
//!
//! Positive verdicts are cached by image digest and policy, in memory and on disk, so that a second cell needs no network. A
//! refusal is not cached: the image may be signed before a retry. The server's own verdict is not trusted, because control
//! of the server or its storage would then be control of the code that runs.

use muster_ids::TenantId;
use muster_image::Digest;
use muster_trust::{
    Examination, MOST_BUNDLE, MOST_PAYLOAD, PublicKey, Signature, TrustedKey, Verdict, bundle, simple,
};
use muster_wire::cell::Trust;
use muster_wire::task::Refusal;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::connection::RegistryConnection;
use super::registry::Registry;
use crate::driver::Undone;
use crate::folder::Folder;
use crate::tenant_slots::TenantSlots;

const FILE: &str = "verdicts.json";
/// Maximum cached verdicts; the oldest are evicted first.
const REMEMBERED: usize = 1_000;
/// Maximum size of a signature manifest, and of the list of referrers of an image.
const MOST_DOCUMENT: u64 = 4 << 20;
/// Maximum bytes of signatures held at once.
const HELD: usize = 1 << 20;
/// Images examined in parallel, each with a registry page and its signatures: some 10 MB. A tenant with many leaves a slot to
/// others.
const AT_ONCE: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    digest: Digest,
    policy: String,
    verdict: Verdict,
}

/// Cached verdicts by image and policy.
#[derive(Debug)]
pub(crate) struct Verdicts {
    folder: Folder,
    known: Mutex<Option<Vec<Known>>>,
    turns: TenantSlots,
}

impl Verdicts {
    pub(crate) fn new(folder: &Folder) -> Self {
        Self { folder: folder.clone(), known: Mutex::default(), turns: TenantSlots::new(AT_ONCE) }
    }

    fn lookup(&self, digest: &Digest, policy: &str) -> Option<Verdict> {
        self.with(|known| {
            let found = known.iter().find(|known| known.digest == *digest && known.policy == policy);
            found.map(|known| known.verdict.clone())
        })
    }

    fn keep(&self, digest: &Digest, policy: &str, verdict: &Verdict) {
        self.with(|known| {
            known.retain(|known| known.digest != *digest || known.policy != policy);
            known.push(Known { digest: *digest, policy: policy.to_owned(), verdict: verdict.clone() });
            known.drain(..known.len().saturating_sub(REMEMBERED));
            if let Err(error) = self.folder.write_document(FILE, known) {
                tracing::warn!(%error, "a verdict could not be stored");
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<Known>) -> T) -> T {
        let mut known = self.known.lock();
        let known = known.get_or_insert_with(|| {
            // An unreadable cache is rebuilt.
            let read = self.folder.read_document(FILE).inspect_err(|error| {
                tracing::warn!(%error, "stored verdicts were discarded");
            });
            read.ok().flatten().unwrap_or_default()
        });
        act(known)
    }
}

/// Ensures that an image may run.
pub(super) async fn examine(
    registry: &Registry<'_>,
    tenant: Option<TenantId>,
    trust: &Trust,
    digest: &Digest,
) -> Result<(), Undone> {
    let verdicts = &registry.node.verdicts;
    let known = verdicts.lookup(digest, &trust.policy);
    if known.is_some_and(|verdict| refusal(&verdict, trust, digest).is_none()) {
        return Ok(());
    }
    let _turn = verdicts.turns.acquire(tenant).await;
    let examination = Examination::new(same(digest), None, keys(trust));
    let line = RegistryConnection::new(&registry.node.dial);
    let mut examiner = Examiner { registry, line, examination, waiting: Vec::new() };
    let examined = examiner.examine_all(digest).await;
    examined.map_err(|error| registry.failed(&error))?;
    let verdict = examiner.examination.verdict();
    match refusal(&verdict, trust, digest) {
        Some(why) => Err(Undone::because(Refusal::ArtifactUntrusted, why)),
        None => {
            tracing::info!(%digest, policy = trust.policy, ?verdict, "an image may run");
            verdicts.keep(digest, &trust.policy, &verdict);
            Ok(())
        }
    }
}

/// Returns the reason why a verdict keeps the image from running, if any.
fn refusal(verdict: &Verdict, trust: &Trust, digest: &Digest) -> Option<String> {
    match verdict {
        Verdict::Trusted { .. } => None,
        Verdict::Unsigned if !trust.required => None,
        Verdict::Unsigned => Some(format!(
            "{digest} has no signature, and only signed images run here: sign it with a key of its publisher"
        )),
        Verdict::Untrusted { reason } => Some(format!("{digest} may not run: {reason}")),
    }
}

/// Parses the keys. An unreadable key is skipped: it verifies no signature.
fn keys(trust: &Trust) -> Vec<TrustedKey> {
    let read = |key: &muster_wire::cell::TrustKey| match PublicKey::from_pem(&key.public_key) {
        Ok(public) => Some(TrustedKey { id: key.id.clone(), key: public, revoked: key.revoked }),
        Err(error) => {
            tracing::warn!(key = key.id, %error, "a trusted key is invalid and does not count");
            None
        }
    };
    trust.keys.iter().filter_map(read).collect()
}

/// Converts between the digest types of the two crates, which share one text format.
fn same(digest: &Digest) -> muster_trust::Digest {
    digest.to_string().parse().expect("a digest is a digest")
}

/// Verifies the signatures of an image, until one is good.
struct Examiner<'r> {
    registry: &'r Registry<'r>,
    line: RegistryConnection,
    examination: Examination,
    waiting: Vec<Signature>,
}

type Examined<T> = Result<T, crate::link::CallError>;

impl Examiner<'_> {
    async fn examine_all(&mut self, digest: &Digest) -> Examined<()> {
        self.examine_tagged(digest).await?;
        self.examine_bundles(digest).await
    }

    /// Verifies the signatures under cosign's tag.
    async fn examine_tagged(&mut self, digest: &Digest) -> Examined<()> {
        let what = format!("manifests/{}", simple::tag(&same(digest)));
        let Some(manifest) = self.registry.lookup(&mut self.line, &what, MOST_DOCUMENT).await? else {
            return Ok(());
        };
        let Ok(layers) = simple::layers(&manifest) else {
            // An unreadable signature still counts as one: the image is not unsigned.
            let digest = muster_trust::Digest::of(&manifest);
            self.add(Signature::Simple { payload: Vec::new(), signature: Vec::new(), digest }).await?;
            return self.examine_waiting().await;
        };
        for layer in layers {
            if !self.examination.wants_simple() {
                break;
            }
            let payload = self.blob(&layer.digest, layer.size, MOST_PAYLOAD).await?;
            let (signature, digest) = (layer.signature, layer.digest);
            self.add(Signature::Simple { payload, signature, digest }).await?;
        }
        self.examine_waiting().await
    }

    /// Verifies the signatures that refer to the image, on every page: any user with push access can add bad ones, in any
    /// order.
    async fn examine_bundles(&mut self, digest: &Digest) -> Examined<()> {
        let kind = bundle::MEDIA_TYPE.replace('+', "%2B").replace('/', "%2F");
        let mut after: Option<Digest> = None;
        while self.examination.wants_bundles() {
            let last = after.map(|digest| format!("&last={digest}")).unwrap_or_default();
            let what = format!("referrers/{digest}?artifactType={kind}{last}");
            let Some(list) = self.registry.lookup(&mut self.line, &what, MOST_DOCUMENT).await? else {
                break;
            };
            let mut page = serde_json::from_slice::<Referring>(&list).unwrap_or_default().manifests;
            // Pages are sorted by digest. A registry that repeats itself has no more.
            page.retain(|one| one.artifact_type == bundle::MEDIA_TYPE && Some(one.digest) > after);
            let Some(furthest) = page.iter().map(|one| one.digest).max() else { break };
            after = Some(furthest);
            for referring in page {
                if !self.examination.wants_bundles() {
                    break;
                }
                self.read_bundle(&referring.digest).await?;
            }
            self.examine_waiting().await?;
        }
        Ok(())
    }

    async fn read_bundle(&mut self, referring: &Digest) -> Examined<()> {
        let what = format!("manifests/{referring}");
        let manifest = self.registry.lookup(&mut self.line, &what, MOST_DOCUMENT).await?;
        let manifest = manifest.filter(|bytes| Digest::of(bytes) == *referring);
        let layers = manifest.and_then(|bytes| bundle::layers(&bytes).ok()).unwrap_or_default();
        let (json, digest) = match layers.first() {
            Some(layer) => (self.blob(&layer.digest, layer.size, MOST_BUNDLE).await?, layer.digest),
            None => (Vec::new(), same(referring)),
        };
        self.add(Signature::Bundle { json, digest }).await
    }

    async fn add(&mut self, signature: Signature) -> Examined<()> {
        self.waiting.push(signature);
        let bytes: usize = self.waiting.iter().map(Signature::len).sum();
        if bytes < HELD { Ok(()) } else { self.examine_waiting().await }
    }

    async fn examine_waiting(&mut self) -> Examined<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let empty = Examination::new(muster_trust::Digest::of(b""), None, Vec::new());
        let mut examination = std::mem::replace(&mut self.examination, empty);
        let examined = tokio::task::spawn_blocking(move || {
            waiting.iter().for_each(|signature| examination.examine(signature));
            examination
        });
        let failed = |error: tokio::task::JoinError| crate::link::CallError::Strange(error.to_string());
        self.examination = examined.await.map_err(failed)?;
        Ok(())
    }

    /// Returns the blob of a signature. It is empty, and so an unreadable signature, if it is missing or too long.
    async fn blob(&mut self, digest: &muster_trust::Digest, size: u64, most: usize) -> Examined<Vec<u8>> {
        if size > most as u64 {
            return Ok(Vec::new());
        }
        let found = self.registry.lookup(&mut self.line, &format!("blobs/{digest}"), size).await;
        let bytes = match found {
            Ok(bytes) => bytes.unwrap_or_default().to_vec(),
            // Longer than its descriptor declares, so invalid.
            Err(crate::link::CallError::Strange(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(bytes)
    }
}

/// Referrers of an image.
#[derive(Default, Deserialize)]
struct Referring {
    #[serde(default)]
    manifests: Vec<One>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct One {
    digest: Digest,
    #[serde(default)]
    artifact_type: String,
}
