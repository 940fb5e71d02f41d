//! Show a member.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `member_get`.
pub async fn get(cx: &Cx, project: &str, instance: &str, reference: &str) -> Result<Answer> {
    let instance = cx.instance(project, instance).await?;
    cx.authorize(Permission::MemberGet, instance.scope(), "instance")?;
    let member = cx.member(&instance, reference).await?;
    let store = &cx.platform.store;
    let (network, places) = tokio::try_join!(
        store.network_lookup(instance.network_id),
        store.member_places_between(instance.id, (member.id, member.id))
    )?;
    let place = places.first();
    Ok(Answer::new(&view(&member, network.as_ref(), place)))
}
