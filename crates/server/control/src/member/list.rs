//! List the members of an instance.

use std::collections::BTreeMap;

use muster_api::member::{MemberListQuery, MemberPage};
use muster_authz::Permission;
use muster_db::MemberFilter;
use muster_ids::TypedId as _;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `member_list`.
pub async fn list(cx: &Cx, project: &str, instance: &str, query: MemberListQuery) -> Result<Answer> {
    let instance = cx.instance(project, instance).await?;
    cx.authorize(Permission::MemberList, instance.scope(), "instance")?;
    let list = format!("members {} {:?} {:?}", instance.id, query.component, query.state);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let filter = MemberFilter { component: query.component.as_deref(), state: query.state };
    let store = &cx.platform.store;
    let (mut items, network) = tokio::try_join!(
        store.member_list(page, instance.id, filter),
        store.network_lookup(instance.network_id)
    )?;
    let next_page_token = cx.next_page(&list, page, &mut items, |member| member.id.uuid()).await?;
    let places = match (items.first(), items.last()) {
        (Some(first), Some(last)) => store.member_places_between(instance.id, (first.id, last.id)).await?,
        _ => Vec::new(),
    };
    let places: BTreeMap<_, _> = places.iter().map(|place| (place.member_id, place)).collect();
    let items =
        items.iter().map(|member| view(member, network.as_ref(), places.get(&member.id).copied())).collect();
    Ok(Answer::new(&MemberPage { items, next_page_token }))
}
