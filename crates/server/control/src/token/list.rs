//! List tokens: the caller's own, a service account's, or another user's.
use muster_api::token::{TokenListQuery, TokenPage};
use muster_authz::{Permission, PrincipalKind};
use muster_ids::TypedId as _;
use muster_model::token::Subject;

use super::view;
use crate::{Answer, Cx, Error, Result};

/// Handles `token_list`.
pub async fn list(cx: &Cx, query: TokenListQuery) -> Result<Answer> {
    let subject = match (&query.service_account, &query.user, &cx.principal()?.kind) {
        (Some(_), Some(_), _) => {
            return Err(Error::field("query/user", "give a service account or a person, not both"));
        }
        (Some(reference), None, _) => {
            let account = cx.service_account_anywhere(reference).await?;
            cx.authorize(Permission::TokenList, account.scope(), "service account")?;
            Subject::ServiceAccount(account.id)
        }
        (None, Some(reference), _) => {
            let user = cx.user(reference).await?;
            if cx.user_id() != Some(user.id) {
                cx.authorize(Permission::TokenList, user.scope(), "person")?;
            }
            Subject::User(user.id)
        }
        (None, None, PrincipalKind::User { id, .. }) => Subject::User(*id),
        (None, None, PrincipalKind::ServiceAccount { id, .. }) => Subject::ServiceAccount(*id),
    };
    let list = format!("tokens {subject:?}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.token_list(page, subject).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |token| token.id.uuid()).await?;
    Ok(Answer::new(&TokenPage { items: items.iter().map(view).collect(), next_page_token }))
}
