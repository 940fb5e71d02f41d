//! Admission of agents, checked in the store on every request: a retired node is rejected at once, whatever its certificate,
//! and so is a replaced certificate.
use muster_api::Code;
use muster_db::{KeyHash, NodeStanding};
use muster_ids::NodeId;
use muster_keys::Identity;

use crate::{Cx, Error, Platform, Result};

/// An admitted agent.
#[derive(Debug, Clone, Copy)]
pub struct Admitted {
    /// Its node.
    pub node: NodeId,
    /// Hash of its key.
    pub(super) key: KeyHash,
    pub(super) standing: NodeStanding,
}

/// Admits an agent with this certificate.
pub async fn admit(cx: &Cx, identity: Identity) -> Result<Admitted> {
    // The handshake checked the expiry, but a connection may outlive its certificate.
    if identity.until <= cx.now {
        return Err(Error::new(
            Code::Unauthenticated,
            "the node's certificate has expired: agents renew it before; join again with a fresh token",
        ));
    }
    look_up(&cx.platform, identity.node, identity.key).await
}

/// Admits an agent again whose request takes long, such as a download.
pub async fn admit_again(platform: &Platform, agent: &Admitted) -> Result<()> {
    look_up(platform, agent.node, agent.key).await.map(drop)
}

pub(super) async fn look_up(platform: &Platform, node: NodeId, key: KeyHash) -> Result<Admitted> {
    let standing = platform.store.node_standing(node, platform.env.now()).await?;
    let standing = standing.filter(|standing| !standing.retired).ok_or_else(retired)?;
    if standing.key == Some(key) {
        if standing.previous_key.is_some() {
            settle(platform, node, key).await?;
        }
    } else if standing.previous_key != Some(key) {
        return Err(replaced());
    }
    Ok(Admitted { node, key, standing })
}

/// Completes a renewal: the new certificate is in use, so the previous one becomes invalid.
async fn settle(platform: &Platform, node: NodeId, key: KeyHash) -> Result<()> {
    let mut tx = platform.store.begin().await?;
    tx.node_settled(node, key).await?;
    tx.commit().await.map_err(Error::from)
}

pub(super) fn replaced() -> Error {
    Error::new(
        Code::Unauthenticated,
        "this certificate was replaced: the current one is on the machine that joined last",
    )
}

pub(super) fn retired() -> Error {
    Error::new(
        Code::Unauthenticated,
        "the node is retired or unknown: this machine is not part of the platform; its owner removes what it \
         still holds",
    )
}

impl Admitted {
    /// Ensures that the request comes from the agent with the newest session.
    pub(super) fn current(&self, session: i64) -> Result<()> {
        if session == self.standing.session {
            return Ok(());
        }
        Err(Error::new(
            Code::InvalidState,
            format!(
                "session {session} is over, {} is current: another agent replaced this one, or it restarted; \
                 send hello again, or stop",
                self.standing.session
            ),
        ))
    }

    /// Ensures that the node is reachable: after an absence its inventory must be reported first.
    pub(super) fn reachable(&self) -> Result<()> {
        if !self.standing.unreachable {
            return Ok(());
        }
        Err(Error::new(
            Code::InvalidState,
            "the node missed its heartbeats and counts as unreachable: send hello first, with its contents",
        ))
    }
}
