//! Cache of the manifests of releases: a published release never changes, and every step of a member needs it.

use std::sync::Arc;

use moka::sync::Cache;
use muster_db::{Result, Store, StoreError};
use muster_ids::AppVersionId;
use muster_manifest::Manifest;

/// Maximum number of cached releases.
const MOST: u64 = 1_000;

/// Manifests by release.
#[derive(Debug)]
pub struct Releases(Cache<AppVersionId, Arc<Manifest>>);

impl Default for Releases {
    fn default() -> Self {
        Self(Cache::new(MOST))
    }
}

impl Releases {
    /// Returns the manifest of a release.
    pub async fn manifest(&self, store: &Store, id: AppVersionId) -> Result<Arc<Manifest>> {
        if let Some(known) = self.0.get(&id) {
            return Ok(known);
        }
        let found = store.app_version_manifest(id).await?;
        let (_, document) = found.ok_or(StoreError::Gone("app version".to_owned()))?;
        let manifest: Manifest =
            serde_json::from_value(document).map_err(|_| StoreError::Corrupt("a manifest"))?;
        let manifest = Arc::new(manifest);
        self.0.insert(id, manifest.clone());
        Ok(manifest)
    }
}
