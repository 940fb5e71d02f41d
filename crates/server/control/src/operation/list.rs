//! List operations, finished and unfinished.

use futures::FutureExt as _;
use muster_api::operation::{OperationListQuery, OperationPage};
use muster_authz::Permission;
use muster_db::OperationFilter;
use muster_ids::{AllocationId, CellId, InstanceId, MemberId, NodeId, TypedId};
use muster_model::Scope;
use muster_model::operation::Operation;

use super::view_for;
use crate::{Answer, Cx, Error, Result};

/// Handles `operation_list`. Without a project it lists those of the whole platform.
pub async fn list(cx: &Cx, query: OperationListQuery) -> Result<Answer> {
    let (project, scope) = match &query.project {
        Some(project) => {
            let (project, scope) = cx.project_scope(project).await?;
            (Some(project), scope)
        }
        None => (None, Scope::Platform),
    };
    cx.authorize(Permission::OperationList, scope, "project")?;
    let subject = match &query.subject {
        None => None,
        Some(text) => Some(
            uuid_of::<AllocationId>(text)
                .or_else(|| uuid_of::<NodeId>(text))
                .or_else(|| uuid_of::<InstanceId>(text))
                .or_else(|| uuid_of::<MemberId>(text))
                .or_else(|| uuid_of::<CellId>(text))
                .ok_or_else(|| {
                    let why = "it must be the id of an allocation, a node, an instance, a member or a cell";
                    Error::field("query/subject", why)
                })?,
        ),
    };
    let list = format!("operations {project:?} {subject:?} {:?}", query.state);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let filter = OperationFilter { project, subject, state: query.state };
    let store = &cx.platform.store;
    let read = |page| store.operation_list(page, filter).boxed();
    // The input is not in the response, but it is read with the operation, and an upgrade's holds a whole configuration.
    let bytes = |operation: &Operation| serde_json::to_string(operation).map_or(0, |text| text.len());
    let id = |operation: &Operation| operation.id.uuid();
    let (items, next_page_token) = cx.read_page(&list, page, id, bytes, read).await?;
    Ok(Answer::new(&OperationPage {
        items: items.iter().map(|operation| view_for(cx.is_operator(), operation)).collect(),
        next_page_token,
    }))
}

fn uuid_of<I: TypedId + std::str::FromStr>(text: &str) -> Option<uuid::Uuid> {
    text.parse::<I>().ok().map(TypedId::uuid)
}
