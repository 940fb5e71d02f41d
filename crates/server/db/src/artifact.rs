//! Artifacts and the history of their states.

use jiff::Timestamp;
use muster_ids::{ArtifactId, CellId, ProjectId, RepositoryId, TenantId};
use muster_model::LabelSelector;
use muster_model::artifact::{Artifact, ArtifactKind, ArtifactState, Change, Verdict};

use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT a.id, a.tenant_id, a.project_id, a.repository_id, r.name, a.digest, a.kind, a.media_type, a.size, a.line, a.state,
                a.canary_percent, a.verdict, a.policy, a.smoke_witness_id, a.superseded_by, a.deprecated_at, a.labels,
                a.created_at, a.updated_at, a.version
         FROM artifacts a JOIN repositories r ON r.id = a.repository_id "
    };
}

statements! {
    ARTIFACT_PUBLISH = both(
        "INSERT INTO artifacts (id, tenant_id, project_id, repository_id, digest, kind, media_type, size, line, state, labels,
                                created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'draft', $10, $11, $11, 1)
         ON CONFLICT (repository_id, digest) DO NOTHING");
    ARTIFACT_GET = both(concat!(columns!(), "WHERE a.id = $1"));
    ARTIFACT_BY_DIGEST = both(concat!(columns!(), "WHERE a.repository_id = $1 AND a.digest = $2"));
    // If several repositories have the content, the one with the most advanced state is authoritative.
    ARTIFACT_OF_PROJECT = both(concat!(columns!(), "WHERE a.project_id = $1 AND a.digest = $2
         ORDER BY CASE a.state WHEN 'active' THEN 0 WHEN 'canary' THEN 1 WHEN 'staged' THEN 2 WHEN 'draft' THEN 3
            WHEN 'deprecated' THEN 4 ELSE 5 END, a.id LIMIT 1"));
    ARTIFACT_ACTIVE = both(concat!(columns!(), "WHERE a.repository_id = $1 AND a.line = $2 AND a.state = 'active'"));
    // $1 after, $2 limit, $3 and $4 labels, $5 project, $6 state or null, $7 repository or null, $8 digest or null.
    ARTIFACT_LIST = pair(
        concat!("SELECT * FROM (", columns!(), "WHERE a.id > $1 AND a.project_id = $5 AND ($6::text IS NULL OR a.state = $6)
            AND ($7::uuid IS NULL OR a.repository_id = $7) AND ($8::text IS NULL OR a.digest = $8)) AS found WHERE ",
            labels_match!(pg "$3" "$4"), " ORDER BY id LIMIT $2"),
        concat!("SELECT * FROM (", columns!(), "WHERE a.id > $1 AND a.project_id = $5 AND ($6 IS NULL OR a.state = $6)
            AND ($7 IS NULL OR a.repository_id = $7) AND ($8 IS NULL OR a.digest = $8)) AS found WHERE ",
            labels_match!(sqlite "$3" "$4"), " ORDER BY id LIMIT $2"));
    ARTIFACT_MOVE = both(
        "UPDATE artifacts SET state = $2, canary_percent = $3, verdict = $4, policy = $5, smoke_witness_id = $6,
            superseded_by = $7, deprecated_at = $8, labels = $9, line = $10, updated_at = $11, version = version + 1
         WHERE id = $1 AND version = $12");
    // A verdict caches the result of signature verification and does not change the artifact: the version stays.
    ARTIFACT_JUDGED = both("UPDATE artifacts SET verdict = $2, policy = $3 WHERE id = $1 AND version = $4");
    // Only locks the row: a concurrent transaction that retires the artifact waits, and then finds the new cell.
    ARTIFACT_START = both(
        "UPDATE artifacts SET updated_at = updated_at WHERE id = $1 AND state NOT IN ('deprecated', 'retired')");
    // The same for a release in state $2 (from draft as 0 to active as 3): its artifacts must be at least as far, and stay
    // so.
    ARTIFACT_SERVES = both(
        "UPDATE artifacts SET updated_at = updated_at WHERE id = $1
            AND CASE state WHEN 'draft' THEN 0 WHEN 'staged' THEN 1 WHEN 'canary' THEN 2 WHEN 'active' THEN 3 ELSE -1 END >= $2");
    ARTIFACT_SUPERSEDES = both("SELECT id FROM artifacts WHERE superseded_by = $1 ORDER BY id");
    ARTIFACT_CELLS = both(
        "SELECT id, name, state, incarnation FROM cells WHERE artifact_id = $1 AND state NOT IN ('destroyed', 'failed') ORDER BY id");
    ARTIFACT_CHANGE_PUT = both(
        "INSERT INTO artifact_changes (artifact_id, number, before_state, after_state, actor_id, reason, at)
         SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4, $5, $6 FROM artifact_changes WHERE artifact_id = $1");
    ARTIFACT_CHANGES = both(
        "SELECT before_state, after_state, actor_id, reason, at FROM artifact_changes WHERE artifact_id = $1 ORDER BY number");
    ARTIFACT_CHANGES_DELETE = both("DELETE FROM artifact_changes WHERE artifact_id = $1");
    ARTIFACT_CELLS_FORGET = both(
        "UPDATE cells SET artifact_id = NULL WHERE artifact_id = $1 AND state IN ('destroyed', 'failed')");
    ARTIFACT_SUPERSEDED_FORGET = both("UPDATE artifacts SET superseded_by = NULL WHERE superseded_by = $1");
    ARTIFACT_DELETE = both("DELETE FROM artifacts WHERE id = $1 AND version = $2");
    ARTIFACT_DELETE_OF_PROJECT = both("DELETE FROM artifacts WHERE project_id = $1");
    ARTIFACT_CHANGES_DELETE_OF_PROJECT = both(
        "DELETE FROM artifact_changes WHERE artifact_id IN (SELECT id FROM artifacts WHERE project_id = $1)");
    ARTIFACT_DELETE_OF_TENANT = both("DELETE FROM artifacts WHERE tenant_id = $1");
    ARTIFACT_CHANGES_DELETE_OF_TENANT = both(
        "DELETE FROM artifact_changes WHERE artifact_id IN (SELECT id FROM artifacts WHERE tenant_id = $1)");
    ARTIFACT_HELD_IN = both(
        "SELECT digest FROM artifacts WHERE repository_id = $1 AND state NOT IN ('draft', 'retired') ORDER BY id LIMIT 5");
    ARTIFACT_IDS_IN = both("SELECT id, version FROM artifacts WHERE repository_id = $1");
}

fn artifact(row: &Row) -> Result<Artifact> {
    let verdict: Option<serde_json::Value> = row.get(12)?;
    let kind =
        ArtifactKind::parse(&row.get::<String>(6)?).ok_or(StoreError::Corrupt("a kind of artifact"))?;
    Ok(Artifact {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        repository_id: row.get(3)?,
        repository: row.get(4)?,
        digest: row.get(5)?,
        kind,
        media_type: row.get(7)?,
        size: row.get(8)?,
        line: row.get(9)?,
        state: state(&row.get::<String>(10)?)?,
        canary_percent: row.get(11)?,
        verdict: verdict
            .map(serde_json::from_value)
            .transpose()
            .map_err(|_| StoreError::Corrupt("a verdict"))?,
        policy: row.get(13)?,
        smoke_witness_id: row.get(14)?,
        superseded_by: row.get(15)?,
        deprecated_at: row.get(16)?,
        labels: row.get(17)?,
        created_at: row.get(18)?,
        updated_at: row.get(19)?,
        version: row.get(20)?,
    })
}

fn state(text: &str) -> Result<ArtifactState> {
    ArtifactState::parse(text).ok_or(StoreError::Corrupt("a state of an artifact"))
}

/// Filter for lists of artifacts.
#[derive(Debug, Clone, Default)]
pub struct ArtifactFilter {
    /// Only artifacts in this state.
    pub state: Option<ArtifactState>,
    /// Only artifacts in this repository.
    pub repository: Option<RepositoryId>,
    /// Only artifacts with this digest.
    pub digest: Option<String>,
}

/// A live cell that was created from an artifact.
#[derive(Debug, Clone)]
pub struct ArtifactCell {
    /// The cell.
    pub id: CellId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Its incarnation.
    pub incarnation: i64,
}

impl Store {
    /// Returns the artifact with this id.
    pub async fn artifact_lookup(&self, id: ArtifactId) -> Result<Option<Artifact>> {
        self.fetch_optional(&ARTIFACT_GET, args![id]).await?.as_ref().map(artifact).transpose()
    }

    /// Returns the artifact of this digest in a repository.
    pub async fn artifact_by_digest(&self, id: RepositoryId, digest: &str) -> Result<Option<Artifact>> {
        self.fetch_optional(&ARTIFACT_BY_DIGEST, args![id, digest]).await?.as_ref().map(artifact).transpose()
    }

    /// Returns the artifact of this digest in a project, from the repository with the most advanced state.
    pub async fn artifact_of_project(&self, project: ProjectId, digest: &str) -> Result<Option<Artifact>> {
        let row = self.fetch_optional(&ARTIFACT_OF_PROJECT, args![project, digest]).await?;
        row.as_ref().map(artifact).transpose()
    }

    /// Returns the active artifact of a line.
    pub async fn artifact_active(&self, id: RepositoryId, line: &str) -> Result<Option<Artifact>> {
        self.fetch_optional(&ARTIFACT_ACTIVE, args![id, line]).await?.as_ref().map(artifact).transpose()
    }

    /// Returns a project's artifacts in publishing order.
    pub async fn artifact_list(
        &self,
        page: Page,
        labels: &LabelSelector,
        project: ProjectId,
        filter: &ArtifactFilter,
    ) -> Result<Vec<Artifact>> {
        let args = args![
            page.after,
            page.size,
            labels.equal_json(),
            labels.not_equal_json(),
            project,
            filter.state.map(ArtifactState::as_str),
            filter.repository,
            filter.digest.as_deref()
        ];
        self.fetch_all(&ARTIFACT_LIST, args).await?.iter().map(artifact).collect()
    }

    /// Returns the artifacts that this one superseded.
    pub async fn artifact_supersedes(&self, id: ArtifactId) -> Result<Vec<ArtifactId>> {
        self.fetch_all(&ARTIFACT_SUPERSEDES, args![id]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the live cells that were created from it.
    pub async fn artifact_cells(&self, id: ArtifactId) -> Result<Vec<ArtifactCell>> {
        let rows = self.fetch_all(&ARTIFACT_CELLS, args![id]).await?;
        rows.iter()
            .map(|row| {
                Ok(ArtifactCell {
                    id: row.get(0)?,
                    name: row.get(1)?,
                    state: row.get(2)?,
                    incarnation: row.get(3)?,
                })
            })
            .collect()
    }

    /// Returns its state changes, oldest first.
    pub async fn artifact_changes(&self, id: ArtifactId) -> Result<Vec<Change>> {
        let rows = self.fetch_all(&ARTIFACT_CHANGES, args![id]).await?;
        rows.iter()
            .map(|row| {
                let before: Option<String> = row.get(0)?;
                Ok(Change {
                    before: before.as_deref().map(state).transpose()?,
                    after: state(&row.get::<String>(1)?)?,
                    actor_id: row.get(2)?,
                    reason: row.get(3)?,
                    at: row.get(4)?,
                })
            })
            .collect()
    }

    /// Returns some digests in a repository that are in use: staged, canary, active or deprecated.
    pub async fn artifact_held_in(&self, id: RepositoryId) -> Result<Vec<String>> {
        self.fetch_all(&ARTIFACT_HELD_IN, args![id]).await?.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// Caches the result of signature verification under an edition of the policy; returns `false` if the artifact changed
    /// meanwhile.
    pub async fn artifact_judged(
        &mut self,
        artifact: &Artifact,
        verdict: &Verdict,
        policy: i64,
    ) -> Result<bool> {
        let verdict = serde_json::to_value(verdict).map_err(|_| StoreError::Corrupt("a verdict"))?;
        let args = args![artifact.id, verdict, policy, artifact.version];
        Ok(self.execute(&ARTIFACT_JUDGED, args).await? == 1)
    }

    /// Publishes content as a draft with the first entry of its history; returns `false` if it is already published.
    pub async fn artifact_publish(&mut self, artifact: &Artifact, change: &Change) -> Result<bool> {
        let args = args![
            artifact.id,
            artifact.tenant_id,
            artifact.project_id,
            artifact.repository_id,
            &artifact.digest,
            artifact.kind.as_str(),
            &artifact.media_type,
            artifact.size,
            &artifact.line,
            &artifact.labels,
            artifact.created_at
        ];
        if self.execute(&ARTIFACT_PUBLISH, args).await? == 0 {
            return Ok(false);
        }
        self.artifact_change(artifact.id, change).await?;
        Ok(true)
    }

    /// Reports whether cells can be created from an artifact, and locks it until the transaction ends.
    pub async fn artifact_start(&mut self, id: ArtifactId) -> Result<bool> {
        Ok(self.execute(&ARTIFACT_START, args![id]).await? == 1)
    }

    /// Reports whether an artifact has reached at least this state and is still in use, and locks it until the transaction
    /// ends.
    pub async fn artifact_serves(&mut self, id: ArtifactId, at_least: ArtifactState) -> Result<bool> {
        let rank: i64 = match at_least {
            ArtifactState::Draft => 0,
            ArtifactState::Staged => 1,
            ArtifactState::Canary => 2,
            ArtifactState::Active => 3,
            // Artifacts that are deprecated or retired cannot be used for anything new.
            ArtifactState::Deprecated | ArtifactState::Retired => return Ok(false),
        };
        Ok(self.execute(&ARTIFACT_SERVES, args![id, rank]).await? == 1)
    }

    /// Returns the names of the live cells that were created from an artifact, as read by this transaction.
    pub async fn artifact_cells_now(&mut self, id: ArtifactId) -> Result<Vec<String>> {
        self.fetch_all(&ARTIFACT_CELLS, args![id]).await?.iter().map(|row| row.get(1)).collect()
    }

    /// Updates an artifact. `before` is the row the caller read; returns `Stale` if it changed since.
    pub async fn artifact_move(&mut self, before: &Artifact, after: &Artifact, at: Timestamp) -> Result<()> {
        if !before.state.can_become(after.state) {
            let message = format!("an artifact that is {} cannot become {}", before.state, after.state);
            return Err(StoreError::Conflict(message));
        }
        let verdict = after.verdict.as_ref().map(|verdict| serde_json::json!(verdict));
        let args = args![
            after.id,
            after.state.as_str(),
            after.canary_percent,
            verdict,
            after.policy,
            after.smoke_witness_id,
            after.superseded_by,
            after.deprecated_at,
            &after.labels,
            &after.line,
            at,
            before.version
        ];
        self.execute_one(&ARTIFACT_MOVE, args, StoreError::Stale).await
    }

    /// Adds an entry to an artifact's history.
    pub async fn artifact_change(&mut self, id: ArtifactId, change: &Change) -> Result<()> {
        let args = args![
            id,
            change.before.map(ArtifactState::as_str),
            change.after.as_str(),
            &change.actor_id,
            &change.reason,
            change.at
        ];
        self.execute(&ARTIFACT_CHANGE_PUT, args).await.map(drop)
    }

    /// Removes an artifact; its content stays in the repository. Returns `Gone` if a live cell or a release that is not
    /// retired refers to it.
    pub async fn artifact_delete(&mut self, id: ArtifactId, version: i64) -> Result<()> {
        self.execute(&ARTIFACT_CELLS_FORGET, args![id]).await?;
        self.execute(&ARTIFACT_SUPERSEDED_FORGET, args![id]).await?;
        self.artifact_releases_forget(id).await?;
        self.execute(&ARTIFACT_CHANGES_DELETE, args![id]).await?;
        self.execute_one(&ARTIFACT_DELETE, args![id, version], StoreError::Stale).await
    }

    /// Removes the artifacts of a repository and returns how many there were.
    pub async fn artifact_delete_in(&mut self, repository: RepositoryId) -> Result<u64> {
        let rows = self.fetch_all(&ARTIFACT_IDS_IN, args![repository]).await?;
        for row in &rows {
            self.artifact_delete(row.get(0)?, row.get(1)?).await?;
        }
        Ok(rows.len() as u64)
    }

    pub(crate) async fn artifact_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&ARTIFACT_CHANGES_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&ARTIFACT_DELETE_OF_PROJECT, args![project]).await
    }

    pub(crate) async fn artifact_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&ARTIFACT_CHANGES_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&ARTIFACT_DELETE_OF_TENANT, args![tenant]).await
    }
}
