//! Renewal of a node's certificate before it expires.

use muster_db::StoreError;
use muster_wire::wire::{Renew, Renewed};

use super::admit::{Admitted, look_up, replaced};
use crate::authority;
use crate::refuse::{Result, refuse};
use crate::{Cx, Platform};

/// Returns half of the lifetime: a server outage of hours must not cost a node its identity.
pub(super) fn after(platform: &Platform) -> u64 {
    u64::try_from(platform.options.node_certificate.as_secs() / 2).unwrap_or(0)
}

/// Handles `renew`. It needs no session: an agent may renew before its hello.
pub async fn renew(cx: &Cx, agent: &Admitted, body: Renew) -> Result<Renewed> {
    let platform = &cx.platform;
    let issued = authority::issue_node(platform, &body.csr, agent.node, cx.now).await?;
    let mut tx = platform.store.begin().await.map_err(refuse)?;
    match tx.node_renewed(agent.node, agent.key, issued.key, issued.until).await {
        Ok(()) => tx.commit().await.map_err(refuse)?,
        Err(StoreError::Fenced) => {
            tx.rollback().await;
            // The node was retired or has another certificate; return the matching error.
            return Err(look_up(platform, agent.node, agent.key).await.err().unwrap_or_else(replaced));
        }
        Err(error) => return Err(refuse(error)),
    }
    tracing::debug!(node = %agent.node, until = %issued.until, "a node's certificate was renewed");
    Ok(Renewed {
        certificate: issued.certificate,
        authority: issued.authority,
        renew_after_seconds: after(platform),
    })
}
