//! List runtime secrets, without their contents.

use muster_api::secret::{RuntimeSecretListQuery, RuntimeSecretPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;
use muster_model::secret::Purpose;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `runtime_secret_list`.
pub async fn list(cx: &Cx, project: &str, query: RuntimeSecretListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::RuntimeSecretList, scope, "project")?;
    let list = format!("runtime secrets {project} {}", query.purpose.map_or("", Purpose::as_str));
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items =
        cx.platform.store.runtime_secret_list(page, project, query.purpose, cx.operates()).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |secret| secret.id.uuid()).await?;
    Ok(Answer::new(&RuntimeSecretPage { items: items.iter().map(view).collect(), next_page_token }))
}
