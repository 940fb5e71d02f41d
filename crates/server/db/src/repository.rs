//! Repositories, their blobs and their tags.

use jiff::Timestamp;
use muster_ids::{NodeId, ProjectId, RepositoryId, TenantId};
use muster_model::artifact::Repository;

use crate::sql::{Row, args, both, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, name, created_at, version"
    };
}

statements! {
    // Returns the existing row, or the one created now.
    REPOSITORY_ENSURE = both(concat!("INSERT INTO repositories (", columns!(), ") VALUES ($1, $2, $3, $4, $5, 1)
         ON CONFLICT (project_id, name) DO UPDATE SET version = repositories.version RETURNING ", columns!()));
    REPOSITORY_GET = both(concat!("SELECT ", columns!(), " FROM repositories WHERE id = $1"));
    REPOSITORY_BY_NAME = both(concat!("SELECT ", columns!(), " FROM repositories WHERE project_id = $1 AND name = $2"));
    REPOSITORY_LIST = both(concat!("SELECT ", columns!(), " FROM repositories WHERE id > $1 AND project_id = $3
         ORDER BY id LIMIT $2"));
    REPOSITORY_NAMES = both("SELECT name FROM repositories WHERE project_id = $1 AND name > $2 ORDER BY name LIMIT $3");
    REPOSITORY_CONTENT = both(
        "SELECT (SELECT COUNT(*) FROM manifests m WHERE m.repository_id = $1),
                (SELECT CAST(COALESCE(SUM(b.size), 0) AS BIGINT) FROM repository_blobs r JOIN blobs b ON b.digest = r.digest
                 WHERE r.repository_id = $1 AND NOT r.by_reference)");
    REPOSITORY_DELETE = both("DELETE FROM repositories WHERE id = $1 AND version = $2");
    REPOSITORY_DELETE_OF_PROJECT = both("DELETE FROM repositories WHERE project_id = $1");
    REPOSITORY_DELETE_OF_TENANT = both("DELETE FROM repositories WHERE tenant_id = $1");

    // The row decides which file is authoritative: of two pushes of the same content, the first wins.
    BLOB_PUT = both(
        "INSERT INTO blobs (digest, size, file, created_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (digest) DO UPDATE SET file = COALESCE(blobs.file, excluded.file),
            size = CASE WHEN blobs.file IS NULL AND excluded.file IS NOT NULL THEN excluded.size ELSE blobs.size END
         RETURNING file");
    BLOB_LOST = both("UPDATE blobs SET file = NULL WHERE digest = $1 AND file = $2");
    BLOB_LACKS_FILE = both("SELECT 1 FROM blobs WHERE digest = $1 AND file IS NULL");
    BLOB_RESTORE = both("UPDATE blobs SET file = $2, size = $3 WHERE digest = $1 AND file IS NULL");
    BLOB_FILES = both("SELECT digest, size, file FROM blobs WHERE digest > $1 AND file IS NOT NULL ORDER BY digest LIMIT $2");
    // A pull right is valid only for the incarnation of the cell that it was issued to.
    PULL_RIGHT = both(
        "SELECT s.tenant_id, s.project_id, s.repository_id, c.node_id FROM runtime_secrets s JOIN cells c ON c.id = s.cell_id
         WHERE s.hash = $1 AND s.purpose = 'artifact_pull' AND s.revoked_at IS NULL AND s.expires_at > $2
            AND c.incarnation = s.incarnation AND c.state NOT IN ('destroying', 'destroyed', 'failed')");
    // A blob that was once pushed to a repository stays there, even if a manifest later refers to another registry.
    REPOSITORY_BLOB_PUT = both(
        "INSERT INTO repository_blobs (repository_id, digest, by_reference, size, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (repository_id, digest) DO UPDATE SET created_at = excluded.created_at,
            size = COALESCE(excluded.size, repository_blobs.size),
            by_reference = CASE WHEN excluded.by_reference THEN repository_blobs.by_reference ELSE excluded.by_reference END");
    REPOSITORY_BLOB_GET = both(
        "SELECT CASE WHEN r.by_reference THEN COALESCE(r.size, 0) ELSE b.size END,
                CASE WHEN r.by_reference THEN NULL ELSE b.file END FROM repository_blobs r
         JOIN blobs b ON b.digest = r.digest WHERE r.repository_id = $1 AND r.digest = $2");
    REPOSITORY_BLOBS_HAD = pair(
        "SELECT r.digest, CASE WHEN r.by_reference THEN -1 ELSE b.size END FROM jsonb_array_elements_text($2) AS wanted (digest)
         JOIN repository_blobs r ON r.repository_id = $1 AND r.digest = wanted.digest JOIN blobs b ON b.digest = r.digest",
        "SELECT r.digest, CASE WHEN r.by_reference THEN -1 ELSE b.size END FROM json_each($2) AS wanted
         JOIN repository_blobs r ON r.repository_id = $1 AND r.digest = wanted.value JOIN blobs b ON b.digest = r.digest");
    REPOSITORY_BLOB_DELETE = both("DELETE FROM repository_blobs WHERE repository_id = $1 AND digest = $2");
    EXTERNAL_PUT = both(
        "INSERT INTO external_sources (repository_id, digest, registry, external_repository, secret_id) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (repository_id, digest) DO UPDATE SET registry = excluded.registry,
            external_repository = excluded.external_repository, secret_id = excluded.secret_id");
    EXTERNAL_GET = both(
        "SELECT registry, external_repository, secret_id FROM external_sources WHERE repository_id = $1 AND digest = $2");

    // Content that no manifest needs. Recent content is spared, because its manifest may still be on the way.
    GARBAGE_LINKS = both(
        "SELECT r.repository_id, r.digest FROM repository_blobs r WHERE r.created_at < $1
            AND NOT EXISTS (SELECT 1 FROM manifest_blobs m WHERE m.repository_id = r.repository_id AND m.blob = r.digest)
         ORDER BY r.created_at LIMIT $2");
    GARBAGE_LINK_DELETE = both(
        "DELETE FROM repository_blobs WHERE repository_id = $1 AND digest = $2 AND created_at < $3
            AND NOT EXISTS (SELECT 1 FROM manifest_blobs m WHERE m.repository_id = $1 AND m.blob = $2)");
    GARBAGE_EXTERNAL_DELETE = both(
        "DELETE FROM external_sources WHERE NOT EXISTS (SELECT 1 FROM repository_blobs r
            WHERE r.repository_id = external_sources.repository_id AND r.digest = external_sources.digest)");
    GARBAGE_BLOBS = both(
        "SELECT b.digest FROM blobs b WHERE NOT EXISTS (SELECT 1 FROM repository_blobs r WHERE r.digest = b.digest)
         ORDER BY b.digest LIMIT $1");
    GARBAGE_BLOB_DELETE = both(
        "DELETE FROM blobs WHERE digest = $1 AND NOT EXISTS (SELECT 1 FROM repository_blobs r WHERE r.digest = $1)
         RETURNING file");
    BLOB_FILES_KNOWN = pair(
        "SELECT b.file FROM jsonb_array_elements_text($1) AS wanted (file) JOIN blobs b ON b.file = wanted.file",
        "SELECT b.file FROM json_each($1) AS wanted JOIN blobs b ON b.file = wanted.value");
    STORAGE_CLAIM = both(
        "INSERT INTO blob_storage (one, storage_id, database_id) VALUES (1, $1, $2) ON CONFLICT (one) DO NOTHING");
    STORAGE_GET = both("SELECT storage_id, database_id FROM blob_storage WHERE one = 1");

    // $5: whether a tag that names another digest may be moved. No row affected means that it may not.
    TAG_SET = pair(
        "INSERT INTO tags (repository_id, name, digest, updated_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (repository_id, name) DO UPDATE SET digest = excluded.digest, updated_at = excluded.updated_at
            WHERE $5 OR tags.digest = excluded.digest",
        "INSERT INTO tags (repository_id, name, digest, updated_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (repository_id, name) DO UPDATE SET digest = excluded.digest, updated_at = excluded.updated_at
            WHERE $5 = 1 OR tags.digest = excluded.digest");
    TAG_GET = both("SELECT digest FROM tags WHERE repository_id = $1 AND name = $2");
    TAG_LIST = both("SELECT name, digest, updated_at FROM tags WHERE repository_id = $1 AND name > $2 ORDER BY name LIMIT $3");
    TAG_OF_DIGEST = both("SELECT name FROM tags WHERE repository_id = $1 AND digest = $2 ORDER BY name");
    TAG_DELETE = both("DELETE FROM tags WHERE repository_id = $1 AND name = $2");
    TAG_DELETE_OF_DIGEST = both("DELETE FROM tags WHERE repository_id = $1 AND digest = $2");

    REPOSITORY_TAGS_DELETE = both("DELETE FROM tags WHERE repository_id = $1");
    REPOSITORY_CHILDREN_DELETE = both("DELETE FROM manifest_children WHERE repository_id = $1");
    REPOSITORY_MANIFEST_BLOBS_DELETE = both("DELETE FROM manifest_blobs WHERE repository_id = $1");
    REPOSITORY_MANIFESTS_DELETE = both("DELETE FROM manifests WHERE repository_id = $1");
    REPOSITORY_BLOBS_DELETE = both("DELETE FROM repository_blobs WHERE repository_id = $1");
    REPOSITORY_EXTERNALS_DELETE = both("DELETE FROM external_sources WHERE repository_id = $1");
    REPOSITORY_RUNTIME_SECRETS_DELETE = both("DELETE FROM runtime_secrets WHERE repository_id = $1");
    REPOSITORY_IDS_OF_PROJECT = both("SELECT id FROM repositories WHERE project_id = $1");
    REPOSITORY_IDS_OF_TENANT = both("SELECT id FROM repositories WHERE tenant_id = $1");
}

fn repository(row: &Row) -> Result<Repository> {
    Ok(Repository {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        name: row.get(3)?,
        created_at: row.get(4)?,
        version: row.get(5)?,
    })
}

/// A blob from the point of view of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobPlace {
    /// Its size: the measured one, or for a reference the size that this repository's manifest declares.
    pub size: i64,
    /// Its file; absent if only another registry has the content so far.
    pub file: Option<String>,
}

/// A blob with a local file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobFile {
    /// Its digest.
    pub digest: String,
    /// Its measured size.
    pub size: i64,
    /// The file.
    pub file: String,
}

/// Another registry that holds a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalSource {
    /// Its host.
    pub registry: String,
    /// The repository on that registry.
    pub repository: String,
    /// The project's secret for reading it.
    pub secret_id: Option<muster_ids::SecretId>,
}

/// The right to read one repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullRight {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// The repository.
    pub repository_id: RepositoryId,
    /// The node of the cell that it was issued to; no other node can use it.
    pub node_id: NodeId,
}

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagRow {
    /// Its name.
    pub name: String,
    /// The digest it names.
    pub digest: String,
    /// Time of its last update.
    pub updated_at: Timestamp,
}

impl Store {
    /// Returns the repository with this id.
    pub async fn repository_lookup(&self, id: RepositoryId) -> Result<Option<Repository>> {
        self.fetch_optional(&REPOSITORY_GET, args![id]).await?.as_ref().map(repository).transpose()
    }

    /// Returns the repository of this name.
    pub async fn repository_by_name(&self, project: ProjectId, name: &str) -> Result<Option<Repository>> {
        let found = self.fetch_optional(&REPOSITORY_BY_NAME, args![project, name]).await?;
        found.as_ref().map(repository).transpose()
    }

    /// Returns a project's repositories in creation order.
    pub async fn repository_list(&self, page: Page, project: ProjectId) -> Result<Vec<Repository>> {
        let rows = self.fetch_all(&REPOSITORY_LIST, args![page.after, page.size, project]).await?;
        rows.iter().map(repository).collect()
    }

    /// Returns the names of a project's repositories after this one, sorted.
    pub async fn repository_names(&self, project: ProjectId, after: &str, limit: i64) -> Result<Vec<String>> {
        let rows = self.fetch_all(&REPOSITORY_NAMES, args![project, after, limit]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the number of manifests in a repository and the total bytes of its blobs.
    pub async fn repository_content(&self, id: RepositoryId) -> Result<(i64, i64)> {
        let row = self.fetch_optional(&REPOSITORY_CONTENT, args![id]).await?;
        row.map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns a blob of a repository; `None` if only other repositories have it.
    pub async fn repository_blob(&self, id: RepositoryId, digest: &str) -> Result<Option<BlobPlace>> {
        let row = self.fetch_optional(&REPOSITORY_BLOB_GET, args![id, digest]).await?;
        row.map(|row| Ok(BlobPlace { size: row.get(0)?, file: row.get(1)? })).transpose()
    }

    /// Returns which of these blobs a repository has, with their sizes; -1 for blobs by reference, for which it never had
    /// the content.
    pub async fn repository_blobs_had(
        &self,
        id: RepositoryId,
        digests: &[String],
    ) -> Result<Vec<(String, i64)>> {
        let rows = self.fetch_all(&REPOSITORY_BLOBS_HAD, args![id, serde_json::json!(digests)]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns the external source of a blob.
    pub async fn external_source(&self, id: RepositoryId, digest: &str) -> Result<Option<ExternalSource>> {
        let row = self.fetch_optional(&EXTERNAL_GET, args![id, digest]).await?;
        row.map(|row| {
            Ok(ExternalSource { registry: row.get(0)?, repository: row.get(1)?, secret_id: row.get(2)? })
        })
        .transpose()
    }

    /// Returns the scope of a pull right while it is valid.
    pub async fn pull_right(&self, hash: [u8; 32], now: Timestamp) -> Result<Option<PullRight>> {
        let row = self.fetch_optional(&PULL_RIGHT, args![hash, now]).await?;
        row.map(|row| {
            Ok(PullRight {
                tenant_id: row.get(0)?,
                project_id: row.get(1)?,
                repository_id: row.get(2)?,
                node_id: row.get(3)?,
            })
        })
        .transpose()
    }

    /// Returns the digest that a tag names.
    pub async fn tag_lookup(&self, id: RepositoryId, name: &str) -> Result<Option<String>> {
        self.fetch_optional(&TAG_GET, args![id, name]).await?.map(|row| row.get(0)).transpose()
    }

    /// Returns the tags of a repository after this one, sorted by name.
    pub async fn tag_list(&self, id: RepositoryId, after: &str, limit: i64) -> Result<Vec<TagRow>> {
        let rows = self.fetch_all(&TAG_LIST, args![id, after, limit]).await?;
        rows.iter()
            .map(|row| Ok(TagRow { name: row.get(0)?, digest: row.get(1)?, updated_at: row.get(2)? }))
            .collect()
    }

    /// Returns the tags that name a digest.
    pub async fn tags_of(&self, id: RepositoryId, digest: &str) -> Result<Vec<String>> {
        let rows = self.fetch_all(&TAG_OF_DIGEST, args![id, digest]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns links from repositories to blobs that no manifest has needed since `before`.
    pub async fn garbage_links(&self, before: Timestamp, limit: i64) -> Result<Vec<(RepositoryId, String)>> {
        let rows = self.fetch_all(&GARBAGE_LINKS, args![before, limit]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns blobs that no repository has.
    pub async fn garbage_blobs(&self, limit: i64) -> Result<Vec<String>> {
        self.fetch_all(&GARBAGE_BLOBS, args![limit]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Returns which of these files belong to a blob.
    pub async fn blob_files_known(&self, files: &[String]) -> Result<Vec<String>> {
        let rows = self.fetch_all(&BLOB_FILES_KNOWN, args![serde_json::json!(files)]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Whether a blob has a row and no file.
    pub async fn blob_lacks_file(&self, digest: &str) -> Result<bool> {
        Ok(self.fetch_optional(&BLOB_LACKS_FILE, args![digest]).await?.is_some())
    }

    /// Blobs after this digest that are in a file, in the order of their digests.
    pub async fn blob_files(&self, after: &str, limit: i64) -> Result<Vec<BlobFile>> {
        let rows = self.fetch_all(&BLOB_FILES, args![after, limit]).await?;
        rows.iter()
            .map(|row| Ok(BlobFile { digest: row.get(0)?, size: row.get(1)?, file: row.get(2)? }))
            .collect()
    }

    /// Returns the blob folder that belongs to this database and the id by which the folder knows it; the first caller
    /// claims it.
    pub async fn storage_claim(
        &self,
        folder: uuid::Uuid,
        fresh: uuid::Uuid,
    ) -> Result<(uuid::Uuid, uuid::Uuid)> {
        let mut tx = self.begin().await?;
        tx.execute(&STORAGE_CLAIM, args![folder, fresh]).await?;
        tx.commit().await?;
        let row = self.fetch_optional(&STORAGE_GET, args![]).await?;
        let row = row.ok_or(StoreError::Corrupt("the blobs' folder"))?;
        Ok((row.get(0)?, row.get(1)?))
    }
}

impl Tx {
    /// Returns the repository of this name, created if missing.
    pub async fn repository_ensure(
        &mut self,
        id: RepositoryId,
        tenant: TenantId,
        project: ProjectId,
        name: &str,
        at: Timestamp,
    ) -> Result<Repository> {
        let rows = self.fetch_all(&REPOSITORY_ENSURE, args![id, tenant, project, name, at]).await?;
        repository(rows.first().ok_or(StoreError::Corrupt("a repository"))?)
    }

    /// Records the file of a blob; returns the authoritative file, which may be that of an earlier push of the same content.
    pub async fn blob_put(
        &mut self,
        digest: &str,
        size: i64,
        file: Option<&str>,
        at: Timestamp,
    ) -> Result<Option<String>> {
        let rows = self.fetch_all(&BLOB_PUT, args![digest, size, file, at]).await?;
        rows.first().ok_or(StoreError::Corrupt("a blob"))?.get(0)
    }

    /// Records that a blob's file is damaged or missing, so the content has to be pushed again. Returns `false` if the blob
    /// has another file.
    pub async fn blob_lost(&mut self, digest: &str, file: &str) -> Result<bool> {
        Ok(self.execute(&BLOB_LOST, args![digest, file]).await? == 1)
    }

    /// Records a verified file for a blob that has none. False if the blob has a file, or is gone.
    pub async fn blob_restore(&mut self, digest: &str, file: &str, size: i64) -> Result<bool> {
        Ok(self.execute(&BLOB_RESTORE, args![digest, file, size]).await? == 1)
    }

    /// Lets a repository have a blob whose content it was shown.
    pub async fn repository_blob_put(&mut self, id: RepositoryId, digest: &str, at: Timestamp) -> Result<()> {
        self.execute(&REPOSITORY_BLOB_PUT, args![id, digest, false, None::<i64>, at]).await.map(drop)
    }

    /// Links a blob to a repository by reference to another registry. Content pushed to other repositories is not served for
    /// it.
    pub async fn repository_blob_refer(
        &mut self,
        id: RepositoryId,
        digest: &str,
        size: i64,
        at: Timestamp,
    ) -> Result<()> {
        self.execute(&REPOSITORY_BLOB_PUT, args![id, digest, true, Some(size), at]).await.map(drop)
    }

    /// Unlinks a blob from a repository. Returns `Gone` if a manifest needs it, `false` if it was not linked.
    pub async fn repository_blob_delete(&mut self, id: RepositoryId, digest: &str) -> Result<bool> {
        Ok(self.execute(&REPOSITORY_BLOB_DELETE, args![id, digest]).await? == 1)
    }

    /// Records which other registry has a blob.
    pub async fn external_put(
        &mut self,
        id: RepositoryId,
        digest: &str,
        source: &ExternalSource,
    ) -> Result<()> {
        let args = args![id, digest, &source.registry, &source.repository, source.secret_id];
        self.execute(&EXTERNAL_PUT, args).await.map(drop)
    }

    /// Points a tag at a digest. Returns `false` if it names another one and must not be moved.
    pub async fn tag_set(
        &mut self,
        id: RepositoryId,
        name: &str,
        digest: &str,
        may_move: bool,
        at: Timestamp,
    ) -> Result<bool> {
        Ok(self.execute(&TAG_SET, args![id, name, digest, at, may_move]).await? == 1)
    }

    /// Removes a tag; returns `false` if there was none.
    pub async fn tag_delete(&mut self, id: RepositoryId, name: &str) -> Result<bool> {
        Ok(self.execute(&TAG_DELETE, args![id, name]).await? == 1)
    }

    /// Removes the tags that name a digest.
    pub async fn tag_delete_of(&mut self, id: RepositoryId, digest: &str) -> Result<u64> {
        self.execute(&TAG_DELETE_OF_DIGEST, args![id, digest]).await
    }

    /// Removes a link that no manifest needs and that was not renewed since `before`.
    pub async fn garbage_link_delete(
        &mut self,
        id: RepositoryId,
        digest: &str,
        before: Timestamp,
    ) -> Result<bool> {
        Ok(self.execute(&GARBAGE_LINK_DELETE, args![id, digest, before]).await? == 1)
    }

    /// Deletes external sources of content that no repository has any more.
    pub async fn garbage_external_delete(&mut self) -> Result<u64> {
        self.execute(&GARBAGE_EXTERNAL_DELETE, args![]).await
    }

    /// Deletes a blob that no repository has. Returns its file, which the caller removes after the commit.
    pub async fn garbage_blob_delete(&mut self, digest: &str) -> Result<Option<String>> {
        let rows = self.fetch_all(&GARBAGE_BLOB_DELETE, args![digest]).await?;
        rows.first().map_or(Ok(None), |row| row.get(0))
    }

    /// Removes a repository and its contents; its artifacts must already be removed.
    pub async fn repository_delete(&mut self, id: RepositoryId, version: i64) -> Result<()> {
        self.repository_empty(id).await?;
        self.execute_one(&REPOSITORY_DELETE, args![id, version], StoreError::Stale).await
    }

    async fn repository_empty(&mut self, id: RepositoryId) -> Result<()> {
        for sql in [
            &REPOSITORY_RUNTIME_SECRETS_DELETE,
            &REPOSITORY_TAGS_DELETE,
            &REPOSITORY_CHILDREN_DELETE,
            &REPOSITORY_MANIFEST_BLOBS_DELETE,
            &REPOSITORY_MANIFESTS_DELETE,
            &REPOSITORY_BLOBS_DELETE,
            &REPOSITORY_EXTERNALS_DELETE,
        ] {
            self.execute(sql, args![id]).await?;
        }
        Ok(())
    }

    /// Removes a project's repositories with their artifacts and returns how many there were.
    pub async fn repository_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.artifact_delete_of_project(project).await?;
        for row in self.fetch_all(&REPOSITORY_IDS_OF_PROJECT, args![project]).await? {
            self.repository_empty(row.get(0)?).await?;
        }
        self.execute(&REPOSITORY_DELETE_OF_PROJECT, args![project]).await
    }

    /// Does the same for all projects of a tenant.
    pub async fn repository_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.artifact_delete_of_tenant(tenant).await?;
        for row in self.fetch_all(&REPOSITORY_IDS_OF_TENANT, args![tenant]).await? {
            self.repository_empty(row.get(0)?).await?;
        }
        self.execute(&REPOSITORY_DELETE_OF_TENANT, args![tenant]).await
    }
}
