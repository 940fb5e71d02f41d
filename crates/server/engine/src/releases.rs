//! Cache of the manifests of releases: a published release never changes, and every step of a member needs it.

use std::collections::HashMap;
use std::sync::Arc;

use muster_db::{Result, Store, StoreError};
use muster_ids::AppVersionId;
use muster_manifest::Manifest;
use parking_lot::Mutex;

/// Number of releases at which the cache is cleared.
const MOST: usize = 1_000;

/// Manifests by release.
#[derive(Debug, Default)]
pub struct Releases(Mutex<HashMap<AppVersionId, Arc<Manifest>>>);

impl Releases {
    /// Returns the manifest of a release.
    pub async fn manifest(&self, store: &Store, id: AppVersionId) -> Result<Arc<Manifest>> {
        if let Some(known) = self.0.lock().get(&id) {
            return Ok(known.clone());
        }
        let found = store.app_version_manifest(id).await?;
        let (_, document) = found.ok_or(StoreError::Gone("app version".to_owned()))?;
        let manifest: Manifest =
            serde_json::from_value(document).map_err(|_| StoreError::Corrupt("a manifest"))?;
        let manifest = Arc::new(manifest);
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(id, manifest.clone());
        Ok(manifest)
    }
}
