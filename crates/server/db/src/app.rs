//! Apps of the catalog, as visible to a project.

use muster_ids::{AppId, ProjectId, TenantId};
use muster_model::LabelSelector;
use muster_model::app::{App, Audience};

use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

/// The columns of an app from the point of view of project `$1`.
macro_rules! columns {
    () => {
        "SELECT a.id, a.tenant_id, a.project_id, a.slug, a.display_name, a.description, a.audience, a.labels, a.created_at,
                a.updated_at, a.version,
                (SELECT v.name FROM app_versions v WHERE v.app_id = a.id AND v.state = 'active') AS active_version,
                (SELECT v.name FROM app_versions v WHERE v.app_id = a.id AND v.state = 'canary') AS canary_version,
                EXISTS (SELECT 1 FROM entitlements e WHERE e.project_id = $1 AND e.app_id = a.id AND e.revoked_at IS NULL)
                    AS entitled
         FROM apps a "
    };
}

/// The condition for an app to be visible to project `$1` of tenant `$2`. An app stays visible to every project that was
/// ever entitled to it.
macro_rules! found {
    () => {
        "(a.project_id = $1 OR a.audience = 'everyone' OR (a.audience = 'tenant' AND a.tenant_id = $2)
            OR EXISTS (SELECT 1 FROM entitlements e WHERE e.project_id = $1 AND e.app_id = a.id)) "
    };
}

statements! {
    APP_PUT = both(
        "INSERT INTO apps (id, tenant_id, project_id, slug, display_name, description, audience, labels, created_at, updated_at,
                           version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
    APP_FOUND = both(concat!(columns!(), "WHERE ", found!(), "AND a.id = $3"));
    APP_FOUND_BY_SLUG = both(concat!(columns!(), "WHERE ", found!(), "AND a.slug = $3"));
    // $3 after, $4 limit, $5 and $6 labels, $7 own apps only.
    APP_LIST = pair(
        concat!("SELECT * FROM (", columns!(), "WHERE ", found!(), "AND a.id > $3 AND (NOT $7 OR a.project_id = $1)) AS found
            WHERE ", labels_match!(pg "$5" "$6"), "ORDER BY id LIMIT $4"),
        concat!("SELECT * FROM (", columns!(), "WHERE ", found!(), "AND a.id > $3 AND (NOT $7 OR a.project_id = $1)) AS found
            WHERE ", labels_match!(sqlite "$5" "$6"), "ORDER BY id LIMIT $4"));
    APP_UPDATE = both(
        "UPDATE apps SET display_name = $2, description = $3, audience = $4, labels = $5, updated_at = $6, version = version + 1
         WHERE id = $1 AND version = $7");
    APP_DELETE = both("DELETE FROM apps WHERE id = $1 AND version = $2");
    APP_DELETE_OF_PROJECT = both("DELETE FROM apps WHERE project_id = $1");
    APP_DELETE_OF_TENANT = both("DELETE FROM apps WHERE tenant_id = $1");
    // Entitlements and instances that others have of a publisher's apps; deleting the publisher must not cascade to them.
    APP_HELD_BY_OTHERS = both(
        "SELECT (SELECT COUNT(*) FROM entitlements e JOIN apps a ON a.id = e.app_id
                 WHERE a.project_id = $1 AND e.project_id <> $1 AND e.revoked_at IS NULL),
                (SELECT COUNT(*) FROM instances i JOIN apps a ON a.id = i.app_id
                 WHERE a.project_id = $1 AND i.project_id <> $1)");
    APP_HELD_BY_OTHER_TENANTS = both(
        "SELECT (SELECT COUNT(*) FROM entitlements e JOIN apps a ON a.id = e.app_id
                 WHERE a.tenant_id = $1 AND e.tenant_id <> $1 AND e.revoked_at IS NULL),
                (SELECT COUNT(*) FROM instances i JOIN apps a ON a.id = i.app_id
                 WHERE a.tenant_id = $1 AND i.tenant_id <> $1)");
    APP_HELD = both(
        "SELECT (SELECT COUNT(*) FROM entitlements WHERE app_id = $1 AND revoked_at IS NULL),
                (SELECT COUNT(*) FROM instances WHERE app_id = $1)");
}

/// An app, with the details that concern the requesting project.
#[derive(Debug, Clone)]
pub struct FoundApp {
    /// The app.
    pub app: App,
    /// The name of its active release.
    pub active_version: Option<String>,
    /// The name of its canary.
    pub canary_version: Option<String>,
    /// Whether that project can launch it.
    pub entitled: bool,
}

/// The entitlements and instances that block the removal of apps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppHolds {
    /// Entitlements that are not revoked.
    pub entitlements: i64,
    /// Instances, including stopped ones, which are part of a project's history.
    pub instances: i64,
}

fn found_app(row: &Row) -> Result<FoundApp> {
    let audience = Audience::parse(&row.get::<String>(6)?).ok_or(StoreError::Corrupt("an audience"))?;
    Ok(FoundApp {
        app: App {
            id: row.get(0)?,
            tenant_id: row.get(1)?,
            project_id: row.get(2)?,
            slug: row.get(3)?,
            display_name: row.get(4)?,
            description: row.get(5)?,
            audience,
            labels: row.get(7)?,
            created_at: row.get(8)?,
            updated_at: row.get(9)?,
            version: row.get(10)?,
        },
        active_version: row.get(11)?,
        canary_version: row.get(12)?,
        entitled: row.get(13)?,
    })
}

fn holds(rows: &[Row]) -> Result<AppHolds> {
    let row = rows.first().ok_or(StoreError::Corrupt("a count"))?;
    Ok(AppHolds { entitlements: row.get(0)?, instances: row.get(1)? })
}

impl Store {
    /// Returns the app with this id if it is visible to a project of a tenant.
    pub async fn app_found(
        &self,
        project: ProjectId,
        tenant: TenantId,
        id: AppId,
    ) -> Result<Option<FoundApp>> {
        let row = self.fetch_optional(&APP_FOUND, args![project, tenant, id]).await?;
        row.as_ref().map(found_app).transpose()
    }

    /// Returns the app with this slug if it is visible to a project of a tenant.
    pub async fn app_found_by_slug(
        &self,
        project: ProjectId,
        tenant: TenantId,
        slug: &str,
    ) -> Result<Option<FoundApp>> {
        let row = self.fetch_optional(&APP_FOUND_BY_SLUG, args![project, tenant, slug]).await?;
        row.as_ref().map(found_app).transpose()
    }

    /// Returns the apps visible to a project of a tenant in creation order; `own` restricts the list to apps it publishes.
    pub async fn app_list(
        &self,
        page: Page,
        labels: &LabelSelector,
        project: ProjectId,
        tenant: TenantId,
        own: bool,
    ) -> Result<Vec<FoundApp>> {
        let args =
            args![project, tenant, page.after, page.size, labels.equal_json(), labels.not_equal_json(), own];
        self.fetch_all(&APP_LIST, args).await?.iter().map(found_app).collect()
    }
}

impl Tx {
    /// Adds an app.
    pub async fn app_insert(&mut self, app: &App) -> Result<()> {
        let args = args![
            app.id,
            app.tenant_id,
            app.project_id,
            &app.slug,
            &app.display_name,
            &app.description,
            app.audience.as_str(),
            &app.labels,
            app.created_at,
            app.updated_at,
            app.version
        ];
        self.execute(&APP_PUT, args).await.map(drop)
    }

    /// Updates an app that still has the version before `app.version`.
    pub async fn app_update(&mut self, app: &App) -> Result<()> {
        let args = args![
            app.id,
            &app.display_name,
            &app.description,
            app.audience.as_str(),
            &app.labels,
            app.updated_at,
            app.version - 1
        ];
        self.execute_one(&APP_UPDATE, args, StoreError::Stale).await
    }

    /// Counts the live entitlements and the instances of an app.
    pub async fn app_held(&mut self, id: AppId) -> Result<AppHolds> {
        holds(&self.fetch_all(&APP_HELD, args![id]).await?)
    }

    /// Counts the live entitlements and the instances that other projects have of a project's apps.
    pub async fn app_held_by_others(&mut self, project: ProjectId) -> Result<AppHolds> {
        holds(&self.fetch_all(&APP_HELD_BY_OTHERS, args![project]).await?)
    }

    /// Counts the live entitlements and the instances that other tenants have of a tenant's apps.
    pub async fn app_held_by_other_tenants(&mut self, tenant: TenantId) -> Result<AppHolds> {
        holds(&self.fetch_all(&APP_HELD_BY_OTHER_TENANTS, args![tenant]).await?)
    }

    /// Removes an app with its releases and its revoked entitlements; returns the number of releases. Returns `Gone` if the
    /// app is in use.
    pub async fn app_delete(&mut self, id: AppId, version: i64) -> Result<u64> {
        self.entitlement_delete_of_app(id).await?;
        let releases = self.app_version_delete_of_app(id).await?;
        self.execute_one(&APP_DELETE, args![id, version], StoreError::Stale).await?;
        Ok(releases)
    }

    /// Removes the apps of a project like `app_delete` and returns how many there were.
    pub async fn app_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.entitlement_delete_to_project(project).await?;
        self.app_version_delete_of_project(project).await?;
        self.execute(&APP_DELETE_OF_PROJECT, args![project]).await
    }

    /// Removes the apps of a tenant and returns how many there were.
    pub async fn app_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.entitlement_delete_to_tenant(tenant).await?;
        self.app_version_delete_of_tenant(tenant).await?;
        self.execute(&APP_DELETE_OF_TENANT, args![tenant]).await
    }
}
