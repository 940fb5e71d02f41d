//! List tenants: all of them for operators, their own for admins.

use muster_api::Code;
use muster_api::ListQuery;
use muster_api::tenant::TenantPage;
use muster_authz::PrincipalKind;
use muster_ids::TypedId as _;

use super::selector;
use crate::{Answer, Cx, Error, Result};

/// Handles `tenant_list`. An actor that administers no tenant gets an error rather than an empty list.
pub async fn list(cx: &Cx, query: ListQuery) -> Result<Answer> {
    let visible_to = match &cx.principal()?.kind {
        PrincipalKind::User { .. } if cx.is_operator() => None,
        PrincipalKind::User { id, grants, .. }
            if grants.iter().any(|grant| grant.role == muster_model::Role::TenantAdmin) =>
        {
            Some(*id)
        }
        PrincipalKind::User { .. } | PrincipalKind::ServiceAccount { .. } => {
            return Err(Error::new(Code::PermissionDenied, "tenant.list is only for tenant admins"));
        }
    };
    let list = format!("tenants {visible_to:?} {:?}", query.labels);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let mut items = cx.platform.store.tenant_list(page, visible_to, &labels).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |tenant| tenant.id.uuid()).await?;
    Ok(Answer::new(&TenantPage { items, next_page_token }))
}
