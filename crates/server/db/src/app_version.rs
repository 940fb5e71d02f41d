//! Releases of apps: their artifacts, their states and their use.

use jiff::Timestamp;
use muster_ids::{AppId, AppVersionId, ArtifactId, ProjectId, TenantId};
use muster_model::app::AppVersion;
use muster_model::artifact::{ArtifactState, Change};

use serde_json::Value as Json;

use crate::sql::{Row, args, both, statements};
use crate::{Page, Result, Store, StoreError, Tx};

/// A release, with the number of live instances that run it or can roll back to it: all instances for the publisher's
/// project, only its own for another project (`$1`).
macro_rules! columns {
    () => {
        "SELECT v.id, v.tenant_id, v.project_id, v.app_id, v.name, v.manifest, v.digest, v.state, v.canary_percent,
                v.superseded_by, v.deprecated_at, v.created_at, v.updated_at, v.version,
                (SELECT COUNT(*) FROM instances i WHERE i.state <> 'stopped'
                    AND (i.app_version_id = v.id OR i.previous_version_id = v.id)
                    AND (v.project_id = $1 OR i.project_id = $1))
         FROM app_versions v "
    };
}

/// Drafts are visible only to the publisher.
macro_rules! shown {
    () => {
        "(v.project_id = $1 OR v.state <> 'draft') "
    };
}

statements! {
    APP_VERSION_PUBLISH = both(
        "INSERT INTO app_versions (id, tenant_id, project_id, app_id, name, manifest, digest, state, created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 'draft', $8, $8, 1)");
    APP_VERSION_ARTIFACT_PUT = both(
        "INSERT INTO app_version_artifacts (app_version_id, name, artifact_id) VALUES ($1, $2, $3)");
    APP_VERSION_ARTIFACTS = both(
        "SELECT name, artifact_id FROM app_version_artifacts WHERE app_version_id = $1 ORDER BY name");
    APP_VERSION_GET = both(concat!(columns!(), "WHERE ", shown!(), "AND v.id = $2"));
    // For work on an instance, which reads it often: without counts.
    APP_VERSION_OF_INSTANCE = both(
        "SELECT v.id, v.tenant_id, v.project_id, v.app_id, v.name, v.manifest, v.digest, v.state, v.canary_percent,
                v.superseded_by, v.deprecated_at, v.created_at, v.updated_at, v.version
         FROM app_versions v WHERE v.id = $1");
    APP_VERSION_MANIFEST = both("SELECT name, manifest FROM app_versions WHERE id = $1");
    APP_VERSION_BY_NAME = both(concat!(columns!(), "WHERE ", shown!(), "AND v.app_id = $2 AND v.name = $3"));
    APP_VERSION_IN_STATE = both(concat!(columns!(), "WHERE ", shown!(), "AND v.app_id = $2 AND v.state = $3
         ORDER BY v.id DESC LIMIT 1"));
    APP_VERSION_NEWEST = both(concat!(columns!(), "WHERE ", shown!(), "AND v.app_id = $2 AND v.state <> 'retired'
         ORDER BY v.id DESC LIMIT 1"));
    APP_VERSION_LIST = both(concat!(columns!(), "WHERE ", shown!(), "AND v.app_id = $2 AND v.id > $3 ORDER BY v.id LIMIT $4"));
    APP_VERSION_MOVE = both(
        "UPDATE app_versions SET state = $2, canary_percent = $3, superseded_by = $4, deprecated_at = $5, updated_at = $6,
            version = version + 1
         WHERE id = $1 AND version = $7");
    // Both only lock the row: a concurrent transaction that retires the release waits, and then finds the new instance.
    APP_VERSION_START = both(
        "UPDATE app_versions SET updated_at = updated_at WHERE id = $1 AND state NOT IN ('deprecated', 'retired')");
    APP_VERSION_RETURN = both("UPDATE app_versions SET updated_at = updated_at WHERE id = $1 AND state <> 'retired'");
    APP_VERSION_INSTANCES = both(
        "SELECT COUNT(*) FROM instances WHERE state <> 'stopped' AND (app_version_id = $1 OR previous_version_id = $1)");
    APP_VERSION_MEMBERS = both("SELECT COUNT(*) FROM members WHERE app_version_id = $1 AND state <> 'removed'");
    APP_VERSION_CHANGE_PUT = both(
        "INSERT INTO app_version_changes (app_version_id, number, before_state, after_state, actor_id, reason, at)
         SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4, $5, $6 FROM app_version_changes WHERE app_version_id = $1");
    #[cfg(feature = "test-api")]
    APP_VERSION_CHANGES = both(
        "SELECT before_state, after_state, actor_id, reason, at FROM app_version_changes WHERE app_version_id = $1
         ORDER BY number");
    ARTIFACT_RELEASES = both(
        "SELECT a.slug, v.name, v.state FROM app_version_artifacts x JOIN app_versions v ON v.id = x.app_version_id
            JOIN apps a ON a.id = v.app_id
         WHERE x.artifact_id = $1 AND v.state <> 'retired' ORDER BY v.id");
    ARTIFACT_RELEASES_FORGET = both(
        "DELETE FROM app_version_artifacts WHERE artifact_id = $1
            AND app_version_id IN (SELECT id FROM app_versions WHERE state = 'retired')");
    APP_VERSION_ARTIFACTS_DELETE_OF_APP = both(
        "DELETE FROM app_version_artifacts WHERE app_version_id IN (SELECT id FROM app_versions WHERE app_id = $1)");
    APP_VERSION_CHANGES_DELETE_OF_APP = both(
        "DELETE FROM app_version_changes WHERE app_version_id IN (SELECT id FROM app_versions WHERE app_id = $1)");
    APP_VERSION_SUPERSEDED_FORGET_OF_APP = both("UPDATE app_versions SET superseded_by = NULL WHERE app_id = $1");
    APP_VERSION_DELETE_OF_APP = both("DELETE FROM app_versions WHERE app_id = $1");
    APP_VERSION_ARTIFACTS_DELETE_OF_PROJECT = both(
        "DELETE FROM app_version_artifacts WHERE app_version_id IN (SELECT id FROM app_versions WHERE project_id = $1)");
    APP_VERSION_CHANGES_DELETE_OF_PROJECT = both(
        "DELETE FROM app_version_changes WHERE app_version_id IN (SELECT id FROM app_versions WHERE project_id = $1)");
    APP_VERSION_SUPERSEDED_FORGET_OF_PROJECT = both("UPDATE app_versions SET superseded_by = NULL WHERE project_id = $1");
    APP_VERSION_DELETE_OF_PROJECT = both("DELETE FROM app_versions WHERE project_id = $1");
    APP_VERSION_ARTIFACTS_DELETE_OF_TENANT = both(
        "DELETE FROM app_version_artifacts WHERE app_version_id IN (SELECT id FROM app_versions WHERE tenant_id = $1)");
    APP_VERSION_CHANGES_DELETE_OF_TENANT = both(
        "DELETE FROM app_version_changes WHERE app_version_id IN (SELECT id FROM app_versions WHERE tenant_id = $1)");
    APP_VERSION_SUPERSEDED_FORGET_OF_TENANT = both("UPDATE app_versions SET superseded_by = NULL WHERE tenant_id = $1");
    APP_VERSION_DELETE_OF_TENANT = both("DELETE FROM app_versions WHERE tenant_id = $1");
}

/// A release, with the usage that is visible to the requesting project.
#[derive(Debug, Clone)]
pub struct FoundVersion {
    /// The release.
    pub version: AppVersion,
    /// Number of live instances that run it or can roll back to it.
    pub instances: i64,
}

/// The remaining use of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppVersionUse {
    /// Live instances that run it or can roll back to it.
    pub instances: i64,
    /// Live members that run it.
    pub members: i64,
}

/// A release that contains an artifact and is not retired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRelease {
    /// The app's slug.
    pub app: String,
    /// The release's name.
    pub name: String,
    /// Its state.
    pub state: ArtifactState,
}

fn state(text: &str) -> Result<ArtifactState> {
    ArtifactState::parse(text).ok_or(StoreError::Corrupt("a state of a release"))
}

fn app_version(row: &Row) -> Result<AppVersion> {
    Ok(AppVersion {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        app_id: row.get(3)?,
        name: row.get(4)?,
        manifest: row.get(5)?,
        digest: row.get(6)?,
        state: state(&row.get::<String>(7)?)?,
        canary_percent: row.get(8)?,
        superseded_by: row.get(9)?,
        deprecated_at: row.get(10)?,
        created_at: row.get(11)?,
        updated_at: row.get(12)?,
        version: row.get(13)?,
    })
}

fn found_version(row: &Row) -> Result<FoundVersion> {
    Ok(FoundVersion { version: app_version(row)?, instances: row.get(14)? })
}

fn in_use(instances: &[Row], members: &[Row]) -> Result<AppVersionUse> {
    let count = |rows: &[Row]| rows.first().map_or(Ok(0), |row| row.get(0));
    Ok(AppVersionUse { instances: count(instances)?, members: count(members)? })
}

fn release(row: &Row) -> Result<ArtifactRelease> {
    Ok(ArtifactRelease { app: row.get(0)?, name: row.get(1)?, state: state(&row.get::<String>(2)?)? })
}

impl Store {
    /// Returns the release with this id as visible to a project, which excludes drafts of other projects.
    pub async fn app_version_lookup(
        &self,
        project: ProjectId,
        id: AppVersionId,
    ) -> Result<Option<FoundVersion>> {
        let row = self.fetch_optional(&APP_VERSION_GET, args![project, id]).await?;
        row.as_ref().map(found_version).transpose()
    }

    /// Returns the release that an instance runs, ran or will run.
    pub async fn app_version_of_instance(&self, id: AppVersionId) -> Result<Option<AppVersion>> {
        let row = self.fetch_optional(&APP_VERSION_OF_INSTANCE, args![id]).await?;
        row.as_ref().map(app_version).transpose()
    }

    /// Returns the name and the manifest of a release, for work on an instance of it.
    pub async fn app_version_manifest(&self, id: AppVersionId) -> Result<Option<(String, Json)>> {
        let row = self.fetch_optional(&APP_VERSION_MANIFEST, args![id]).await?;
        row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
    }

    /// Returns the release of an app with this name, as visible to a project.
    pub async fn app_version_by_name(
        &self,
        project: ProjectId,
        app: AppId,
        name: &str,
    ) -> Result<Option<FoundVersion>> {
        let row = self.fetch_optional(&APP_VERSION_BY_NAME, args![project, app, name]).await?;
        row.as_ref().map(found_version).transpose()
    }

    /// Returns the newest release of an app in a state; there is at most one active release and one canary.
    pub async fn app_version_in_state(
        &self,
        project: ProjectId,
        app: AppId,
        state: ArtifactState,
    ) -> Result<Option<FoundVersion>> {
        let row = self.fetch_optional(&APP_VERSION_IN_STATE, args![project, app, state.as_str()]).await?;
        row.as_ref().map(found_version).transpose()
    }

    /// Returns the newest release of an app that is not retired, as visible to a project.
    pub async fn app_version_newest(&self, project: ProjectId, app: AppId) -> Result<Option<FoundVersion>> {
        let row = self.fetch_optional(&APP_VERSION_NEWEST, args![project, app]).await?;
        row.as_ref().map(found_version).transpose()
    }

    /// Returns the releases of an app in publishing order, as visible to a project.
    pub async fn app_version_list(
        &self,
        page: Page,
        project: ProjectId,
        app: AppId,
    ) -> Result<Vec<FoundVersion>> {
        let args = args![project, app, page.after, page.size];
        self.fetch_all(&APP_VERSION_LIST, args).await?.iter().map(found_version).collect()
    }

    /// Returns the artifacts of a release by their names in the manifest.
    pub async fn app_version_artifacts(&self, id: AppVersionId) -> Result<Vec<(String, ArtifactId)>> {
        let rows = self.fetch_all(&APP_VERSION_ARTIFACTS, args![id]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns its state changes, oldest first.
    #[cfg(feature = "test-api")]
    pub async fn app_version_changes(&self, id: AppVersionId) -> Result<Vec<Change>> {
        let rows = self.fetch_all(&APP_VERSION_CHANGES, args![id]).await?;
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

    /// Returns the remaining use of a release.
    pub async fn app_version_use(&self, id: AppVersionId) -> Result<AppVersionUse> {
        let instances = self.fetch_all(&APP_VERSION_INSTANCES, args![id]).await?;
        in_use(&instances, &self.fetch_all(&APP_VERSION_MEMBERS, args![id]).await?)
    }

    /// Returns the releases that contain an artifact and are not retired.
    pub async fn artifact_releases(&self, id: ArtifactId) -> Result<Vec<ArtifactRelease>> {
        self.fetch_all(&ARTIFACT_RELEASES, args![id]).await?.iter().map(release).collect()
    }
}

impl Tx {
    /// Publishes a release as a draft, with its artifacts and the first entry of its history. Returns `Conflict` if the app
    /// has one of this name.
    pub async fn app_version_publish(
        &mut self,
        version: &AppVersion,
        artifacts: &[(String, ArtifactId)],
        change: &Change,
    ) -> Result<()> {
        let args = args![
            version.id,
            version.tenant_id,
            version.project_id,
            version.app_id,
            &version.name,
            version.manifest.clone(),
            &version.digest,
            version.created_at
        ];
        self.execute(&APP_VERSION_PUBLISH, args).await?;
        for (name, artifact) in artifacts {
            self.execute(&APP_VERSION_ARTIFACT_PUT, args![version.id, name, *artifact]).await?;
        }
        self.app_version_change(version.id, change).await
    }

    /// Changes the state of a release. `before` is the row the caller read: returns `Stale` if it changed since, `Conflict`
    /// if another release already has the exclusive state.
    pub async fn app_version_move(
        &mut self,
        before: &AppVersion,
        after: &AppVersion,
        at: Timestamp,
    ) -> Result<()> {
        if !before.state.can_become(after.state) {
            let message = format!("a release that is {} cannot become {}", before.state, after.state);
            return Err(StoreError::Conflict(message));
        }
        let args = args![
            after.id,
            after.state.as_str(),
            after.canary_percent,
            after.superseded_by,
            after.deprecated_at,
            at,
            before.version
        ];
        self.execute_one(&APP_VERSION_MOVE, args, StoreError::Stale).await
    }

    /// Adds an entry to a release's history.
    pub async fn app_version_change(&mut self, id: AppVersionId, change: &Change) -> Result<()> {
        let args = args![
            id,
            change.before.map(ArtifactState::as_str),
            change.after.as_str(),
            &change.actor_id,
            &change.reason,
            change.at
        ];
        self.execute(&APP_VERSION_CHANGE_PUT, args).await.map(drop)
    }

    /// Reports whether instances can be launched from a release, and locks it until the transaction ends.
    pub async fn app_version_start(&mut self, id: AppVersionId) -> Result<bool> {
        Ok(self.execute(&APP_VERSION_START, args![id]).await? == 1)
    }

    /// Reports whether instances can roll back to a release, and locks it until the transaction ends.
    pub async fn app_version_return(&mut self, id: AppVersionId) -> Result<bool> {
        Ok(self.execute(&APP_VERSION_RETURN, args![id]).await? == 1)
    }

    /// Returns the remaining use of a release, as read by this transaction.
    pub async fn app_version_use(&mut self, id: AppVersionId) -> Result<AppVersionUse> {
        let instances = self.fetch_all(&APP_VERSION_INSTANCES, args![id]).await?;
        in_use(&instances, &self.fetch_all(&APP_VERSION_MEMBERS, args![id]).await?)
    }

    /// Returns the releases that contain an artifact and are not retired, as read by this transaction.
    pub async fn artifact_releases_now(&mut self, id: ArtifactId) -> Result<Vec<ArtifactRelease>> {
        self.fetch_all(&ARTIFACT_RELEASES, args![id]).await?.iter().map(release).collect()
    }

    /// Deletes the references of retired releases to an artifact, which do not keep it alive.
    pub(crate) async fn artifact_releases_forget(&mut self, id: ArtifactId) -> Result<()> {
        self.execute(&ARTIFACT_RELEASES_FORGET, args![id]).await.map(drop)
    }

    pub(crate) async fn app_version_delete_of_app(&mut self, app: AppId) -> Result<u64> {
        self.execute(&APP_VERSION_ARTIFACTS_DELETE_OF_APP, args![app]).await?;
        self.execute(&APP_VERSION_CHANGES_DELETE_OF_APP, args![app]).await?;
        self.execute(&APP_VERSION_SUPERSEDED_FORGET_OF_APP, args![app]).await?;
        self.execute(&APP_VERSION_DELETE_OF_APP, args![app]).await
    }

    pub(crate) async fn app_version_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&APP_VERSION_ARTIFACTS_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&APP_VERSION_CHANGES_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&APP_VERSION_SUPERSEDED_FORGET_OF_PROJECT, args![project]).await?;
        self.execute(&APP_VERSION_DELETE_OF_PROJECT, args![project]).await
    }

    pub(crate) async fn app_version_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&APP_VERSION_ARTIFACTS_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&APP_VERSION_CHANGES_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&APP_VERSION_SUPERSEDED_FORGET_OF_TENANT, args![tenant]).await?;
        self.execute(&APP_VERSION_DELETE_OF_TENANT, args![tenant]).await
    }
}
