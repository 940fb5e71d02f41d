//! List operations, finished and not.

use muster_api::Problem;
use muster_api::operations::{OperationListQuery, OperationPage};
use muster_authz::Permission;
use muster_ids::{AllocationId, NodeId, TypedId as _};
use muster_model::Scope;
use muster_model::operation::OperationState;
use muster_store::OperationFilter;

use super::view;
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// Answers `operation_list`. Without a project it is a question about the whole platform.
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
            text.parse::<AllocationId>()
                .map(AllocationId::uuid)
                .or_else(|_| text.parse::<NodeId>().map(NodeId::uuid))
                .map_err(|_| {
                    Problem::field("query/subject", "it should be the id of an allocation or a node")
                })?,
        ),
    };
    let state = query.state.map(state_of);
    let list = format!("operations {project:?} {subject:?} {state:?}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let filter = OperationFilter { project, subject, state };
    let mut items = cx.platform.store.operation_list(page, filter).await.map_err(refuse)?;
    let next_page_token = cx.next_page(&list, page, &mut items, |operation| operation.id.uuid()).await?;
    Ok(Answer::new(&OperationPage { items: items.iter().map(view).collect(), next_page_token }))
}

fn state_of(state: muster_api::operations::OperationState) -> OperationState {
    OperationState::ALL
        .iter()
        .copied()
        .find(|known| super::state(*known) == state)
        .unwrap_or(OperationState::Accepted)
}
