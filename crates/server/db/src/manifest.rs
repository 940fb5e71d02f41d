//! Manifests and their dependencies. Foreign keys enforce that no manifest exists without its blobs.

use jiff::Timestamp;
use muster_ids::RepositoryId;
use muster_model::artifact::Manifest;
use serde_json::{Value as Json, json};

use crate::sql::{Row, args, both, pair, statements};
use crate::{Result, Store, Tx};

statements! {
    MANIFEST_PUT = both(
        "INSERT INTO manifests (repository_id, digest, media_type, artifact_type, subject, annotations, content, total_size,
                                created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (repository_id, digest) DO NOTHING");
    MANIFEST_BLOBS_PUT = pair(
        "INSERT INTO manifest_blobs (repository_id, manifest, blob)
         SELECT $1, $2, digest FROM jsonb_array_elements_text($3) AS needed (digest) ON CONFLICT DO NOTHING",
        "INSERT INTO manifest_blobs (repository_id, manifest, blob)
         SELECT $1, $2, value FROM json_each($3) WHERE true ON CONFLICT DO NOTHING");
    MANIFEST_CHILDREN_PUT = pair(
        "INSERT INTO manifest_children (repository_id, manifest, child)
         SELECT $1, $2, digest FROM jsonb_array_elements_text($3) AS needed (digest) ON CONFLICT DO NOTHING",
        "INSERT INTO manifest_children (repository_id, manifest, child)
         SELECT $1, $2, value FROM json_each($3) WHERE true ON CONFLICT DO NOTHING");
    MANIFEST_GET = both("SELECT media_type, content FROM manifests WHERE repository_id = $1 AND digest = $2");
    MANIFEST_BY_TAG = both(
        "SELECT m.media_type, m.content, m.digest FROM tags t
         JOIN manifests m ON m.repository_id = t.repository_id AND m.digest = t.digest
         WHERE t.repository_id = $1 AND t.name = $2");
    MANIFEST_SIZES = pair(
        "SELECT m.digest, m.total_size FROM jsonb_array_elements_text($2) AS wanted (digest)
         JOIN manifests m ON m.repository_id = $1 AND m.digest = wanted.digest",
        "SELECT m.digest, m.total_size FROM json_each($2) AS wanted
         JOIN manifests m ON m.repository_id = $1 AND m.digest = wanted.value");
    MANIFEST_TOTAL = both("SELECT total_size FROM manifests WHERE repository_id = $1 AND digest = $2");
    // $3 artifact type or null for all, $4 after this digest, $5 maximum rows, $6 maximum bytes of annotations (at least one
    // row is returned).
    MANIFEST_REFERRERS = pair(
        "SELECT digest, media_type, artifact_type, annotations, size FROM (
            SELECT found.*, (SUM(bytes) OVER (ORDER BY digest))::bigint - bytes AS bytes_before FROM (
                SELECT digest, media_type, artifact_type, annotations, OCTET_LENGTH(content)::bigint AS size,
                    OCTET_LENGTH(annotations::text)::bigint AS bytes FROM manifests
                WHERE repository_id = $1 AND subject = $2 AND ($3::text IS NULL OR artifact_type = $3) AND digest > $4
                ORDER BY digest LIMIT $5) AS found) AS summed
         WHERE bytes_before < $6 ORDER BY digest",
        "SELECT digest, media_type, artifact_type, annotations, size FROM (
            SELECT found.*, SUM(bytes) OVER (ORDER BY digest) - bytes AS bytes_before FROM (
                SELECT digest, media_type, artifact_type, annotations, LENGTH(content) AS size,
                    OCTET_LENGTH(annotations) AS bytes FROM manifests
                WHERE repository_id = $1 AND subject = $2 AND ($3 IS NULL OR artifact_type = $3) AND digest > $4
                ORDER BY digest LIMIT $5) AS found) AS summed
         WHERE bytes_before < $6 ORDER BY digest");
    MANIFEST_REFERRERS_TOTAL = both(
        "SELECT COUNT(*), CAST(COALESCE(SUM(total_size), 0) AS BIGINT) FROM manifests
         WHERE repository_id = $1 AND subject = $2 AND artifact_type = $3");
    MANIFEST_REFERRERS_NEWEST = both(
        "SELECT COUNT(*), MAX(created_at) FROM manifests WHERE repository_id = $1 AND subject = $2 AND artifact_type = $3");
    MANIFEST_PARENTS = both(
        "SELECT manifest FROM manifest_children WHERE repository_id = $1 AND child = $2 ORDER BY manifest");
    MANIFEST_BLOBS = both("SELECT blob FROM manifest_blobs WHERE repository_id = $1 AND manifest = $2 ORDER BY blob");
    MANIFEST_CHILDREN = both(
        "SELECT child FROM manifest_children WHERE repository_id = $1 AND manifest = $2 ORDER BY child");
    MANIFEST_CHILDREN_DELETE = both("DELETE FROM manifest_children WHERE repository_id = $1 AND manifest = $2");
    MANIFEST_BLOBS_DELETE = both("DELETE FROM manifest_blobs WHERE repository_id = $1 AND manifest = $2");
    MANIFEST_DELETE = both("DELETE FROM manifests WHERE repository_id = $1 AND digest = $2");
}

/// Maximum bytes of annotations on one page of referrers. A manifest has at most 64 KiB of them, which bounds the overshoot.
pub const REFERRERS_BYTES: i64 = 4 << 20;

/// The content of a manifest.
#[derive(Debug, Clone)]
pub struct ManifestContent {
    /// Its digest.
    pub digest: String,
    /// Its media type.
    pub media_type: String,
    /// The raw bytes.
    pub content: bytes::Bytes,
}

/// A manifest that refers to another one as its subject.
#[derive(Debug, Clone)]
pub struct Referrer {
    /// Its digest.
    pub digest: String,
    /// Its media type.
    pub media_type: String,
    /// Its artifact type.
    pub artifact_type: Option<String>,
    /// Its annotations.
    pub annotations: Json,
    /// Its size.
    pub size: i64,
}

fn texts(rows: Vec<Row>) -> Result<Vec<String>> {
    rows.iter().map(|row| row.get(0)).collect()
}

impl Store {
    /// Returns a manifest by digest.
    pub async fn manifest_lookup(&self, id: RepositoryId, digest: &str) -> Result<Option<ManifestContent>> {
        let row = self.fetch_optional(&MANIFEST_GET, args![id, digest]).await?;
        row.map(|row| {
            Ok(ManifestContent {
                digest: digest.to_owned(),
                media_type: row.get(0)?,
                content: row.get::<Vec<u8>>(1)?.into(),
            })
        })
        .transpose()
    }

    /// Returns the manifest that a tag names.
    pub async fn manifest_by_tag(&self, id: RepositoryId, tag: &str) -> Result<Option<ManifestContent>> {
        let row = self.fetch_optional(&MANIFEST_BY_TAG, args![id, tag]).await?;
        row.map(|row| {
            Ok(ManifestContent {
                media_type: row.get(0)?,
                content: row.get::<Vec<u8>>(1)?.into(),
                digest: row.get(2)?,
            })
        })
        .transpose()
    }

    /// Returns which of these manifests a repository has, with their total sizes.
    pub async fn manifest_sizes(&self, id: RepositoryId, digests: &[String]) -> Result<Vec<(String, i64)>> {
        let rows = self.fetch_all(&MANIFEST_SIZES, args![id, json!(digests)]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns the total size of a manifest and everything it refers to.
    pub async fn manifest_total(&self, id: RepositoryId, digest: &str) -> Result<Option<i64>> {
        self.fetch_optional(&MANIFEST_TOTAL, args![id, digest]).await?.map(|row| row.get(0)).transpose()
    }

    /// How many manifests of this type refer to a digest, and when the newest came.
    pub async fn referrers_newest(
        &self,
        id: RepositoryId,
        subject: &str,
        kind: &str,
    ) -> Result<(i64, Option<Timestamp>)> {
        let row = self.fetch_optional(&MANIFEST_REFERRERS_NEWEST, args![id, subject, kind]).await?;
        row.map_or(Ok((0, None)), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Manifests that speak of this one, of one kind or all, in the order of their digests. The page ends after `limit` rows or as
    /// soon as their annotations have [`REFERRERS_BYTES`] bytes; more may follow unless it is empty.
    pub async fn referrers(
        &self,
        id: RepositoryId,
        subject: &str,
        kind: Option<&str>,
        after: &str,
        limit: i64,
    ) -> Result<Vec<Referrer>> {
        let args = args![id, subject, kind, after, limit, REFERRERS_BYTES];
        let rows = self.fetch_all(&MANIFEST_REFERRERS, args).await?;
        rows.iter()
            .map(|row| {
                Ok(Referrer {
                    digest: row.get(0)?,
                    media_type: row.get(1)?,
                    artifact_type: row.get(2)?,
                    annotations: row.get(3)?,
                    size: row.get(4)?,
                })
            })
            .collect()
    }

    /// Returns the number of referrers of one artifact type, and their total size.
    pub async fn referrers_total(&self, id: RepositoryId, subject: &str, kind: &str) -> Result<(i64, i64)> {
        let row = self.fetch_optional(&MANIFEST_REFERRERS_TOTAL, args![id, subject, kind]).await?;
        row.map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the indexes that contain a manifest.
    pub async fn manifest_parents(&self, id: RepositoryId, digest: &str) -> Result<Vec<String>> {
        texts(self.fetch_all(&MANIFEST_PARENTS, args![id, digest]).await?)
    }

    /// Returns the blobs that a manifest refers to directly.
    pub async fn manifest_blobs(&self, id: RepositoryId, digest: &str) -> Result<Vec<String>> {
        texts(self.fetch_all(&MANIFEST_BLOBS, args![id, digest]).await?)
    }

    /// Returns the manifests that an index contains.
    pub async fn manifest_children(&self, id: RepositoryId, digest: &str) -> Result<Vec<String>> {
        texts(self.fetch_all(&MANIFEST_CHILDREN, args![id, digest]).await?)
    }
}

impl Tx {
    /// Stores a manifest. Returns `Gone` if the repository lacks a blob or manifest it refers to, `false` if it already
    /// exists.
    pub async fn manifest_put(
        &mut self,
        id: RepositoryId,
        manifest: &Manifest,
        at: Timestamp,
    ) -> Result<bool> {
        let args = args![
            id,
            &manifest.digest,
            &manifest.media_type,
            manifest.artifact_type.as_deref(),
            manifest.subject.as_deref(),
            manifest.annotations.clone(),
            manifest.content.clone(),
            manifest.total_size,
            at
        ];
        if self.execute(&MANIFEST_PUT, args).await? == 0 {
            return Ok(false);
        }
        if !manifest.blobs.is_empty() {
            self.execute(&MANIFEST_BLOBS_PUT, args![id, &manifest.digest, json!(manifest.blobs)]).await?;
        }
        if !manifest.children.is_empty() {
            self.execute(&MANIFEST_CHILDREN_PUT, args![id, &manifest.digest, json!(manifest.children)])
                .await?;
        }
        Ok(true)
    }

    /// Removes a manifest and its tags. Returns `Gone` if an index or an artifact refers to it, `false` if it does not
    /// exist.
    pub async fn manifest_delete(&mut self, id: RepositoryId, digest: &str) -> Result<bool> {
        self.tag_delete_of(id, digest).await?;
        self.execute(&MANIFEST_CHILDREN_DELETE, args![id, digest]).await?;
        self.execute(&MANIFEST_BLOBS_DELETE, args![id, digest]).await?;
        Ok(self.execute(&MANIFEST_DELETE, args![id, digest]).await? == 1)
    }
}
