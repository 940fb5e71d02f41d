//! List a project's SSH keys.

use muster_api::ssh_key::{SshKeyListQuery, SshKeyPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// Handles `ssh_key_list`.
pub async fn list(cx: &Cx, project: &str, query: SshKeyListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::SshKeyList, scope, "project")?;
    let list = format!("ssh keys {project}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.ssh_key_list(page, project).await.map_err(refuse)?;
    let next_page_token = cx.next_page(&list, page, &mut items, |key| key.id.uuid()).await?;
    Ok(Answer::new(&SshKeyPage { items: items.iter().map(view).collect(), next_page_token }))
}
