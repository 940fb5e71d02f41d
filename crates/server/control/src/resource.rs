//! The common verbs, generic over nouns: get and list for every record, and all five for a platform-level resource.

use std::collections::BTreeMap;

use muster_api::PageQuery;
use muster_api::resource::ResourcePage;
use muster_authz::Permission;
use muster_ids::{ProjectId, TypedId as _};
use muster_model::{Record, Resource, Scope};
use serde::Serialize;
use serde_json::{Value, json};

use crate::commit::changed;
use crate::tenant::removed_view;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Returns a record inside `parent`, by id or, where names are unique, by name.
pub(crate) async fn find<R>(cx: &Cx, parent: R::Parent, reference: &str) -> Result<R>
where
    R: Record<Parent: PartialEq>,
{
    let store = &cx.platform.store;
    let found = match reference.parse::<R::Id>() {
        Ok(id) => store.find::<R>(id).await,
        Err(_) => store.find_by_name(parent, reference).await,
    };
    let found = found?.filter(|record| record.parent() == parent);
    found.ok_or_else(|| Error::not_found(R::TITLE))
}

async fn page<R: Record + Serialize>(
    cx: &Cx,
    list: String,
    parent: R::Parent,
    query: PageQuery,
) -> Result<Answer> {
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.list::<R>(page, parent).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |record| record.id().uuid()).await?;
    Ok(Answer::new(&ResourcePage { items, next_page_token }))
}

/// Handles `get` of a project's noun.
pub async fn get_in_project<R>(cx: &Cx, project: &str, reference: &str) -> Result<Answer>
where
    R: Record<Parent = ProjectId> + Serialize,
{
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(permission::<R>("get"), scope, R::TITLE)?;
    Ok(Answer::new(&find::<R>(cx, project, reference).await?))
}

/// Handles `list` of a project's noun.
pub async fn list_in_project<R>(cx: &Cx, project: &str, query: PageQuery) -> Result<Answer>
where
    R: Record<Parent = ProjectId> + Serialize,
{
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(permission::<R>("list"), scope, "project")?;
    page::<R>(cx, format!("{} {project}", R::NOUN), project, query).await
}

/// Handles `get` of a resource: every authenticated actor reads it.
pub async fn get<R: Resource>(cx: &Cx, reference: &str) -> Result<Answer> {
    cx.authenticated()?;
    Ok(Answer::new(&find::<R>(cx, (), reference).await?))
}

/// Handles `list` of a resource.
pub async fn list<R: Resource>(cx: &Cx, query: PageQuery) -> Result<Answer> {
    cx.authenticated()?;
    page::<R>(cx, R::NOUN.to_owned(), (), query).await
}

/// Returns the permission for a verb, which every noun that is served here has; a test ensures it.
fn permission<R: Record>(verb: &str) -> Permission {
    let name = format!("{}.{verb}", R::NOUN);
    Permission::parse(&name).unwrap_or_else(|| panic!("no permission {name}"))
}

/// Prepares `create` of a resource.
pub async fn create<R: Resource>(cx: &Cx, body: R::Create) -> Result<PreparedCommand> {
    cx.authorize(permission::<R>("create"), Scope::Platform, R::TITLE)?;
    let record = R::create(cx.platform.env.id(), body, cx.now);
    let (subject, target, data) = (record.path(), record.target(), json!(record));
    let commit = PreparedCommand::new(Scope::Platform, target, move |tx| {
        Box::pin(async move {
            tx.insert_record(&record).await?;
            Ok(Answer::new(&record))
        })
    });
    Ok(commit.event(cx, R::EVENTS.created, subject, data))
}

/// Prepares `update` of a resource.
pub async fn update<R: Resource>(cx: &Cx, reference: &str, body: R::Update) -> Result<PreparedCommand> {
    cx.authorize(permission::<R>("update"), Scope::Platform, R::TITLE)?;
    let mut record = find::<R>(cx, (), reference).await?;
    cx.expect_version(record.version())?;
    let fields = json!(body);
    let fields: Vec<(&str, Option<Value>)> = fields
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), Some(value.clone()).filter(|value| !value.is_null())))
        .collect();
    let data = changed(&record, &fields);
    record.update(body, cx.now);
    let commit = PreparedCommand::new(Scope::Platform, record.target(), {
        let record = record.clone();
        move |tx| {
            Box::pin(async move {
                tx.update_record(&record).await?;
                Ok(Answer::new(&record))
            })
        }
    });
    Ok(commit.event(cx, R::EVENTS.updated, record.path(), data))
}

/// Prepares `delete` of a resource.
pub async fn delete<R: Resource>(cx: &Cx, reference: &str) -> Result<PreparedCommand> {
    cx.authorize(permission::<R>("delete"), Scope::Platform, R::TITLE)?;
    let record = find::<R>(cx, (), reference).await?;
    cx.expect_version(record.version())?;
    let (subject, data) = (record.path(), json!({"name": record.name()}));
    let before = json!(record);
    let commit = PreparedCommand::new(Scope::Platform, record.target(), move |tx| {
        Box::pin(async move {
            tx.delete_record(&record).await?;
            Ok(Answer::new(&removed_view(&record.id(), BTreeMap::new())))
        })
    });
    Ok(commit.before(&before).event(cx, R::EVENTS.deleted, subject, data))
}

#[cfg(test)]
mod tests {
    use muster_model::artifact::PublisherKey;
    use muster_model::cell::SshKey;
    use muster_model::secret::ProjectSecret;
    use muster_model::{ResourceVisitor, visit_resources};

    use super::*;

    #[test]
    fn every_resource_has_its_permissions() {
        struct Check;
        impl ResourceVisitor for Check {
            fn visit<R: Resource>(&mut self) {
                for verb in ["create", "update", "delete"] {
                    permission::<R>(verb);
                }
            }
        }
        visit_resources(&mut Check);
        for verb in ["get", "list"] {
            permission::<SshKey>(verb);
            permission::<PublisherKey>(verb);
            permission::<ProjectSecret>(verb);
        }
    }
}
