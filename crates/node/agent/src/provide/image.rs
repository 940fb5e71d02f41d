//! Pulls an image by digest: the documents first, then the blobs they reference.
//!
//! Only digests are requested, and every response is verified against its digest, so neither tags nor the responding server
//! need to be trusted.

use std::io::Write as _;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use muster_image::{Blob, Digest, Lead, Limits};
use muster_wire::act::CellTarget;
use muster_wire::cell::{Pull, Root};
use muster_wire::task::Refusal;

use super::blob::{blocking, fetch, other};
use super::connection::RegistryConnection;
use super::given::Pulled;
use super::registry::Registry;
use super::verdict;
use crate::driver::{ImageOwner, Supply, Undone};
use crate::node::Running;

/// Blobs fetched in parallel.
const AT_ONCE: usize = 3;
/// Maximum depth of documents that reference each other.
const NESTING: usize = 5;

/// Ensures that the image of a cell, or its blobs, are on the node, and only if it may run.
pub(super) async fn pull(
    node: &Running,
    cell: CellTarget,
    owner: ImageOwner,
    (root, pull): (&Root, &Pull),
) -> Result<Option<Pulled>, Undone> {
    let refused = |why: String| Undone::because(Refusal::ArtifactPull, why);
    let digest: Digest = pull.digest.parse().map_err(|error| refused(format!("{error}")))?;
    match root {
        Root::Image(named) if *named == pull.digest => {}
        _ => return Err(refused(format!("{digest} should be pulled, but the cell does not use it"))),
    }
    let registry = Registry::new(node, cell, &pull.repository)?;
    // Before the lookup, so that an image found here is not evicted.
    let image = node.driver.hold_image(&digest);
    let supply = node.driver.supply(&digest).map_err(|error| Undone::from(error.to_string()))?;
    let nothing = |image| Pulled { hold: node.store.hold(Vec::new()), _image: image, _reservation: None };
    if supply == Supply::Simulated {
        registry.token(None).await.map_err(|error| registry.failed(&error))?;
        return Ok(Some(nothing(image)));
    }
    verdict::examine(&registry, Some(owner.tenant), &pull.trust, &digest).await?;
    if supply == Supply::There {
        return Ok(Some(nothing(image)));
    }
    let (store, now) = (node.store.clone(), node.env.now());
    blocking(move || {
        store.make()?;
        store.sweep(now);
        Ok(())
    })
    .await?;
    let layers = documents(&registry, &digest).await?;
    let packed = layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    let reservation = node.driver.clone().reserve_image(digest, packed, owner).await?;
    let hold = node.store.hold(layers.iter().map(|layer| layer.digest).collect());
    if node.store.has_room(&layers).is_err() {
        let store = node.store.clone();
        blocking(move || {
            store.remove_unheld_layers();
            Ok(())
        })
        .await?;
        node.driver.clone().evict_for(node.store.needed_for(&layers)).await;
        node.store.has_room(&layers).map_err(refused)?;
    }
    let mut waiting = layers.iter();
    let mut under_way = FuturesUnordered::new();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(layer) = waiting.next()
        {
            under_way.push(fetch(&registry, layer));
        }
        match under_way.next().await {
            Some(fetched) => fetched?,
            None => break,
        }
    }
    drop(under_way);
    Ok(Some(Pulled { hold, _image: image, _reservation: reservation }))
}

/// Fetches index, manifest and configuration, and returns the distinct layers.
async fn documents(registry: &Registry<'_>, digest: &Digest) -> Result<Vec<Blob>, Undone> {
    let limits = Limits::default();
    let unusable = |error: muster_image::Error| Undone::because(Refusal::ArtifactPull, error);
    let mut line = RegistryConnection::new(&registry.node.dial);
    let (mut at, mut size) = (*digest, None);
    for _ in 0..NESTING {
        let bytes = document(registry, &mut line, "manifests", &at, size, &limits).await?;
        match muster_image::lead(&at, &bytes, &limits).map_err(unusable)? {
            Lead::On(next) => (at, size) = (next.digest, Some(next.size)),
            Lead::To { config, mut layers } => {
                document(registry, &mut line, "blobs", &config.digest, Some(config.size), &limits).await?;
                layers.sort_by_key(|layer| layer.digest);
                layers.dedup();
                // Limited to the maximum unpacked size.
                let bytes = layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
                if bytes > limits.bytes {
                    let why = format!("{digest} has {bytes} bytes, at most {} are allowed", limits.bytes);
                    return Err(Undone::because(Refusal::ArtifactPull, why));
                }
                return Ok(layers);
            }
        }
    }
    let why = format!("{digest} leads through more than {NESTING} documents and to no manifest");
    Err(Undone::because(Refusal::ArtifactPull, why))
}

/// Returns a document from the layout, otherwise from the registry, verified against its digest.
async fn document(
    registry: &Registry<'_>,
    line: &mut RegistryConnection,
    kind: &str,
    digest: &Digest,
    size: Option<u64>,
    limits: &Limits,
) -> Result<Vec<u8>, Undone> {
    let most = limits.document_bytes;
    if size.is_some_and(|size| size > most) {
        let why = format!("{digest} is announced as longer than {most} bytes");
        return Err(Undone::because(Refusal::ArtifactPull, why));
    }
    let (place, wanted) = (registry.node.store.blob(digest), *digest);
    let kept =
        blocking(move || Ok(std::fs::read(place).ok().filter(|kept| Digest::of(kept) == wanted))).await?;
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let found = registry.read(line, &format!("{kind}/{digest}"), most).await;
    let bytes = found.map_err(|error| registry.failed(&error))?.to_vec();
    if Digest::of(&bytes) != *digest {
        return Err(other(registry, &Digest::of(&bytes), digest));
    }
    if let Some(size) = size.filter(|size| *size != bytes.len() as u64) {
        let why = format!("{digest} has {} bytes, but its descriptor has {size}", bytes.len());
        return Err(Undone::because(Refusal::ArtifactDamaged, why));
    }
    let (partial, place) = (registry.node.store.partial(digest), registry.node.store.blob(digest));
    let turn = registry.node.store.turn(digest);
    let _turn = turn.lock().await;
    blocking(move || {
        let mut file = std::fs::File::create(&partial)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&partial, &place)?;
        Ok(bytes)
    })
    .await
}
