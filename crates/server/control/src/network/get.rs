//! Show a network.
use muster_authz::Permission;
use muster_ids::NetworkId;

use super::view;
use crate::{Answer, Cx, Error, Result};

/// Handles `network_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::NetworkGet, scope, "network")?;
    let store = &cx.platform.store;
    let found = match reference.parse::<NetworkId>() {
        Ok(id) => store.network_lookup(id).await,
        Err(_) => store.network_by_name(project, reference).await,
    };
    let network = found?.filter(|network| network.project_id == project);
    let network = network.ok_or_else(|| Error::not_found("network"))?;
    Ok(Answer::new(&view(cx, &network).await?))
}
