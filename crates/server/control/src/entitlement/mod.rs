//! Entitlements: a project's right to launch an app, and its consent to the app's operator there.

mod get;
mod grant;
mod list;
mod revoke;

pub use get::get;
pub use grant::grant;
pub(crate) use grant::{New, admits, first, has_adapter};
pub use list::list;
pub use revoke::revoke;

use muster_api::Code;
use muster_api::entitlement as api;
use muster_db::FoundEntitlement;
use muster_ids::{EntitlementId, ServiceAccountId};
use muster_model::app::Entitlement;

use crate::{Cx, Error, Result};

/// Returns its path, under the consumer's project.
pub(crate) fn path(entitlement: &Entitlement) -> String {
    format!("/v1/projects/{}/entitlements/{}", entitlement.project_id, entitlement.id)
}

fn view(entitlement: &Entitlement, app: &str) -> api::Entitlement {
    api::Entitlement {
        id: entitlement.id,
        tenant_id: entitlement.tenant_id,
        project_id: entitlement.project_id,
        app_id: entitlement.app_id,
        app: app.to_owned(),
        operator_account_id: entitlement.operator_account_id,
        permissions: entitlement.permissions.clone(),
        revoked_at: entitlement.revoked_at,
        created_at: entitlement.created_at,
        updated_at: entitlement.updated_at,
        version: entitlement.version,
    }
}

/// Returns an entitlement by id from any project: the caller checks which projects may access it.
pub(crate) async fn anywhere(cx: &Cx, reference: &str) -> Result<FoundEntitlement> {
    let absent = || Error::not_found("entitlement");
    let id: EntitlementId = reference.parse().map_err(|_| absent())?;
    cx.platform.store.entitlement_lookup(id).await?.ok_or_else(absent)
}

/// Rejects manual changes to an account that an entitlement created: its allow list is the granted consent, and its tokens
/// are the short-lived ones minted by the publisher's adapter. A revoked entitlement keeps its account while something that
/// it operates lives.
pub(crate) async fn not_by_hand(cx: &Cx, account: ServiceAccountId) -> Result<()> {
    let Some(found) = cx.platform.store.entitlement_of_account(account).await? else {
        return Ok(());
    };
    let (app, entitlement) = (&found.app, &found.entitlement);
    if entitlement.revoked_at.is_none() {
        let says = format!(
            "the account operates the app {app} here, by the entitlement {}: grant that again to change its \
             permissions, or revoke it",
            entitlement.id
        );
        return Err(Error::new(Code::InvalidState, says));
    }
    let live = cx.platform.store.entitlement_instances(account).await?;
    if live == 0 {
        return Ok(());
    }
    let says =
        format!("the account operates {live} live instances of the app {app}: decommission them first");
    Err(Error::new(Code::InvalidState, says))
}

/// Rejects a token of an operator's account that was not minted: minted tokens live for 15 minutes, and nothing may bypass
/// that.
pub(crate) async fn not_minted_by_hand(cx: &Cx, account: ServiceAccountId) -> Result<()> {
    match cx.platform.store.entitlement_of_account(account).await? {
        None => Ok(()),
        Some(found) => {
            let says = format!(
                "the account operates the app {} here: the publisher's adapter mints its tokens, for at most \
                 15 minutes; they cannot be issued or rotated",
                found.app
            );
            Err(Error::new(Code::InvalidState, says))
        }
    }
}
