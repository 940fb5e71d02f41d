//! List a project's instances.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use futures::FutureExt as _;
use muster_api::instance as api;
use muster_api::instance::{InstanceListQuery, InstancePage};
use muster_authz::Permission;
use muster_db::{InstanceFilter, MemberCount};
use muster_ids::{InstanceId, ProjectId, TypedId as _};
use muster_model::instance::{Component, Instance};

use super::{manifest_of, shown};
use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Handles `instance_list`.
pub async fn list(cx: &Cx, project: &str, query: InstanceListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::InstanceList, scope, "project")?;
    let list = format!("instances {project} {:?} {:?}", query.labels, query.state);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let filter = InstanceFilter { state: query.state };
    let store = &cx.platform.store;
    let read = |page| store.instance_list(page, &labels, project, filter).boxed();
    let bytes = |instance: &Instance| {
        let previous = instance.previous_config.as_ref().map_or(0, |config| config.to_string().len());
        instance.config.to_string().len() + previous
    };
    let id = |instance: &Instance| instance.id.uuid();
    let (items, next_page_token) = cx.read_page(&list, page, id, bytes, read).await?;
    Ok(Answer::new(&InstancePage { items: views(cx, project, &items).await?, next_page_token }))
}

/// Returns the views with topologies, read for the whole page at once: many instances run the same few releases.
async fn views(cx: &Cx, project: ProjectId, page: &[Instance]) -> Result<Vec<api::Instance>> {
    let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(Vec::new()) };
    let (store, between) = (&cx.platform.store, (first.id, last.id));
    let (components, counts) = tokio::try_join!(
        store.component_list_between(project, between),
        store.member_count_between(project, between)
    )?;
    let mut parts: BTreeMap<InstanceId, (Vec<Component>, Vec<MemberCount>)> = BTreeMap::new();
    for component in components {
        parts.entry(component.instance_id).or_default().0.push(component);
    }
    for (instance, count) in counts {
        parts.entry(instance).or_default().1.push(count);
    }
    let mut releases = BTreeMap::new();
    let mut views = Vec::with_capacity(page.len());
    for instance in page {
        let version = instance.app_version_id;
        if let Entry::Vacant(place) = releases.entry(version) {
            place.insert(manifest_of(cx, instance, version).await?);
        }
        let (release, manifest) = &releases[&version];
        let (components, counts) = parts.remove(&instance.id).unwrap_or_default();
        views.push(shown(instance, &release.name, manifest, &components, &counts));
    }
    Ok(views)
}
