//! Lists of tags, referrers and the catalog, each limited to a page.

use muster_db::Referrer;
use muster_registry::Digest;
use muster_registry::path::Name;

use super::{Answered, Guest, Right, stored, unknown, visit};
use crate::Cx;

/// Returns the tags of a repository after `last`, up to `most`.
pub async fn tags(cx: &Cx, guest: &Guest, name: &Name, last: &str, most: usize) -> Answered<Vec<String>> {
    let id = visit(cx, guest, name, Right::Pull).await?.repository()?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let tags = cx.platform.store.tag_list(id, last, most).await.map_err(stored)?;
    Ok(tags.into_iter().map(|tag| tag.name).collect())
}

/// Returns a page of the manifests that refer to this one, and whether more follow.
pub async fn referrers(
    cx: &Cx,
    guest: &Guest,
    name: &Name,
    digest: &Digest,
    kind: Option<&str>,
    last: &str,
    most: u32,
) -> Answered<(Vec<Referrer>, bool)> {
    let id = visit(cx, guest, name, Right::Pull).await?.repository()?;
    let (store, subject) = (&cx.platform.store, digest.to_string());
    let found = store.referrers(id, &subject, kind, last, most.into()).await.map_err(stored)?;
    // A page may end early at its byte limit, so query whether more follow.
    let more = match found.last() {
        Some(last) => !store.referrers(id, &subject, kind, &last.digest, 1).await.map_err(stored)?.is_empty(),
        None => false,
    };
    Ok((found, more))
}

/// Returns the repositories of a service account's project after `last`. It is empty for users: this endpoint has no way to
/// name one of their projects; `muster repository list` does.
pub async fn catalog(cx: &Cx, guest: &Guest, last: &str, most: usize) -> Answered<Vec<String>> {
    let Guest::Actor { actor, .. } = guest else { return Err(unknown("_catalog")) };
    let muster_authz::PrincipalKind::ServiceAccount { project, tenant, .. } = actor.principal.kind else {
        return Ok(Vec::new());
    };
    let scope = muster_model::Scope::Project(tenant, project);
    cx.authorize(muster_authz::Permission::RepositoryList, scope, "project")?;
    let Some(named) = cx.platform.store.project_lookup(project).await.map_err(stored)? else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}.{}/", named.tenant_slug, named.name);
    let after = last.strip_prefix(&prefix).unwrap_or_default();
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let names = cx.platform.store.repository_names(project, after, most).await.map_err(stored)?;
    Ok(names.into_iter().map(|name| format!("{prefix}{name}")).collect())
}
