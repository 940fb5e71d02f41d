//! Projects.

use muster_ids::{ProjectId, TenantId, UserId};
use muster_model::{LabelSelector, Project};

use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT p.id, p.tenant_id, t.slug, p.name, p.display_name, p.labels, p.created_at, p.updated_at, p.version
         FROM (SELECT * FROM projects) p JOIN tenants t ON t.id = p.tenant_id "
    };
}

/// The projects visible to a user: those with a role binding, and all projects of a tenant on which the user has one.
macro_rules! visible {
    () => {
        "($2 OR p.id = $4 OR EXISTS (SELECT 1 FROM role_bindings b WHERE b.user_id = $3
            AND (b.project_id = p.id OR (b.tenant_id = p.tenant_id AND b.project_id IS NULL)))) "
    };
}

statements! {
    PROJECT_INSERT = both(
        "INSERT INTO projects (id, tenant_id, name, display_name, labels, created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
    PROJECT_GET = both(concat!(columns!(), "WHERE p.id = $1"));
    PROJECT_BY_QUALIFIED_NAME = both(concat!(columns!(), "WHERE t.slug = $1 AND p.name = $2"));
    PROJECT_BY_NAME = both(concat!(columns!(), "WHERE p.name = $1 AND ", visible!(), "ORDER BY p.id LIMIT 3"));
    // $1 after, $2 to $4 visibility, $5 limit, $6 and $7 labels.
    PROJECT_LIST = pair(
        concat!("SELECT * FROM (", columns!(), "WHERE p.id > $1 AND ", visible!(), ") AS found (id, tenant_id, slug, name,
            display_name, labels, created_at, updated_at, version) WHERE ", labels_match!(pg "$6" "$7"),
            "ORDER BY id LIMIT $5"),
        concat!("SELECT * FROM (", columns!(), "WHERE p.id > $1 AND ", visible!(), ") AS found WHERE ",
            labels_match!(sqlite "$6" "$7"), "ORDER BY id LIMIT $5"));
    PROJECT_UPDATE = both(
        "UPDATE projects SET display_name = $2, labels = $3, updated_at = $4, version = version + 1
         WHERE id = $1 AND version = $5");
    PROJECT_DELETE = both("DELETE FROM projects WHERE id = $1 AND version = $2");
    PROJECT_DELETE_OF_TENANT = both("DELETE FROM projects WHERE tenant_id = $1");
}

fn project(row: &Row) -> Result<Project> {
    Ok(Project {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        tenant_slug: row.get(2)?,
        name: row.get(3)?,
        display_name: row.get(4)?,
        labels: row.get(5)?,
        created_at: row.get(6)?,
        updated_at: row.get(7)?,
        version: row.get(8)?,
    })
}

/// The set of visible projects.
#[derive(Debug, Clone, Copy)]
pub enum ProjectsOf {
    /// All projects.
    All,
    /// Projects on which a user has a role.
    User(UserId),
    /// A single project.
    Only(ProjectId),
}

impl ProjectsOf {
    fn parts(self) -> (bool, Option<UserId>, Option<ProjectId>) {
        match self {
            ProjectsOf::All => (true, None, None),
            ProjectsOf::User(user) => (false, Some(user), None),
            ProjectsOf::Only(project) => (false, None, Some(project)),
        }
    }
}

impl Store {
    /// Returns the project with this id.
    pub async fn project_lookup(&self, id: ProjectId) -> Result<Option<Project>> {
        self.fetch_optional(&PROJECT_GET, args![id]).await?.as_ref().map(project).transpose()
    }

    /// Returns the project `name` of the tenant `slug`.
    pub async fn project_by_qualified_name(&self, slug: &str, name: &str) -> Result<Option<Project>> {
        self.fetch_optional(&PROJECT_BY_QUALIFIED_NAME, args![slug, name])
            .await?
            .as_ref()
            .map(project)
            .transpose()
    }

    /// Returns the visible projects with this unqualified name: at most three, enough to detect ambiguity.
    pub async fn project_by_name(&self, name: &str, of: ProjectsOf) -> Result<Vec<Project>> {
        let (all, user, only) = of.parts();
        self.fetch_all(&PROJECT_BY_NAME, args![name, all, user, only]).await?.iter().map(project).collect()
    }

    /// Returns the visible projects in creation order.
    pub async fn project_list(
        &self,
        page: Page,
        of: ProjectsOf,
        labels: &LabelSelector,
    ) -> Result<Vec<Project>> {
        let (all, user, only) = of.parts();
        let args =
            args![page.after, all, user, only, page.size, labels.equal_json(), labels.not_equal_json()];
        self.fetch_all(&PROJECT_LIST, args).await?.iter().map(project).collect()
    }
}

impl Tx {
    /// Adds a project.
    pub async fn project_insert(&mut self, project: &Project) -> Result<()> {
        let args = args![
            project.id,
            project.tenant_id,
            &project.name,
            &project.display_name,
            &project.labels,
            project.created_at,
            project.updated_at,
            project.version
        ];
        self.insert(&PROJECT_INSERT, args).await
    }

    /// Updates a project that still has the version before `project.version`.
    pub async fn project_update(&mut self, project: &Project) -> Result<()> {
        let args = args![
            project.id,
            &project.display_name,
            &project.labels,
            project.updated_at,
            project.version - 1
        ];
        self.execute_one(&PROJECT_UPDATE, args, StoreError::Stale).await
    }

    /// Removes a project. Its contents must already be removed.
    pub async fn project_delete(&mut self, id: ProjectId, version: i64) -> Result<()> {
        self.execute_one(&PROJECT_DELETE, args![id, version], StoreError::Stale).await
    }

    /// Removes all projects of a tenant. Their contents must already be removed.
    pub async fn project_delete_of_tenant(&mut self, tenant: TenantId) -> Result<i64> {
        self.execute(&PROJECT_DELETE_OF_TENANT, args![tenant]).await.map(|count| count as i64)
    }
}
