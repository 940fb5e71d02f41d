//! List a project's networks.

use muster_api::network::NetworkList;
use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `network_list`.
pub async fn list(cx: &Cx, project: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::NetworkList, scope, "project")?;
    let mut items = Vec::new();
    for network in cx.platform.store.network_list(project).await? {
        items.push(view(cx, &network).await?);
    }
    Ok(Answer::new(&NetworkList { items }))
}
