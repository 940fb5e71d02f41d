//! Renewal of a node's certificate before it expires.

use jiff::Timestamp;
use muster_db::StoreError;
use muster_ids::NodeId;
use muster_keys::{CertificateRequest, Issued};
use muster_wire::wire::{Renew, Renewed};

use super::admit::{Admitted, look_up, replaced};
use crate::{Cx, Error, Platform, Result};

/// Returns half of the lifetime: a server outage of hours must not cost a node its identity.
pub(super) fn after(platform: &Platform) -> u64 {
    u64::try_from(platform.options.node_certificate.as_secs() / 2).unwrap_or(0)
}

/// Issues a node's certificate for the key of a certificate request.
pub(super) async fn issue(platform: &Platform, csr: &str, node: NodeId, now: Timestamp) -> Result<Issued> {
    let request = CertificateRequest::parse(csr)?;
    let lifetime = platform.options.node_certificate;
    let issued = platform.authority.issue_node(platform.custody(), &request, node, (now, lifetime));
    issued.await.map_err(Error::from)
}

/// Handles `renew`. It needs no session: an agent may renew before its hello.
pub async fn renew(cx: &Cx, agent: &Admitted, body: Renew) -> Result<Renewed> {
    let platform = &cx.platform;
    let issued = issue(platform, &body.csr, agent.node, cx.now).await?;
    let mut tx = platform.store.begin().await?;
    match tx.node_renewed(agent.node, agent.key, issued.key, issued.until).await {
        Ok(()) => tx.commit().await?,
        Err(StoreError::Fenced) => {
            tx.rollback().await;
            // The node was retired or has another certificate; return the matching error.
            return Err(look_up(platform, agent.node, agent.key).await.err().unwrap_or_else(replaced));
        }
        Err(error) => return Err(Error::from(error)),
    }
    tracing::debug!(node = %agent.node, until = %issued.until, "a node's certificate was renewed");
    Ok(Renewed {
        certificate: issued.certificate,
        authority: issued.authority,
        renew_after_seconds: after(platform),
    })
}
