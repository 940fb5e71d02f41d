//! Whether an agent is listened to. Asked of the store with every request: a retired node is refused at once, whatever its
//! certificate says, and so is a certificate that was replaced.

use muster_api::{Code, Problem};
use muster_db::{KeyHash, Standing};
use muster_ids::NodeId;

use crate::authority::Identity;
use crate::refuse::{Result, refuse};
use crate::{Cx, Platform};

/// An agent that is listened to.
#[derive(Debug, Clone, Copy)]
pub struct Admitted {
    /// Whose.
    pub node: NodeId,
    /// With which key.
    pub(super) key: KeyHash,
    pub(super) standing: Standing,
}

/// Lets an agent with this certificate in.
pub async fn admit(cx: &Cx, identity: Identity) -> Result<Admitted> {
    // The handshake held it to the clock, but a connection may outlive the certificate it was made with.
    if identity.until <= cx.now {
        return Err(Problem::new(
            Code::Unauthenticated,
            "the node's certificate has ended: it is renewed while it lasts; join again with a fresh token",
        ));
    }
    look_up(&cx.platform, identity.node, identity.key).await
}

pub(super) async fn look_up(platform: &Platform, node: NodeId, key: KeyHash) -> Result<Admitted> {
    let standing = platform.store.node_standing(node, platform.world.now()).await.map_err(refuse)?;
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

/// The answer to a renewal has arrived, and what it carried is in use: the certificate before it is over.
async fn settle(platform: &Platform, node: NodeId, key: KeyHash) -> Result<()> {
    let mut tx = platform.store.begin().await.map_err(refuse)?;
    tx.node_settled(node, key).await.map_err(refuse)?;
    tx.commit().await.map_err(refuse)
}

pub(super) fn replaced() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "this certificate was replaced: the node has another one now, which is on the machine that joined last",
    )
}

pub(super) fn retired() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "the node is retired or was never here: this machine is not ours any more, and what it may still hold is its \
         owner's to remove",
    )
}

impl Admitted {
    /// Goes on only with the agent that said hello last.
    pub(super) fn current(&self, session: i64) -> Result<()> {
        if session == self.standing.session {
            return Ok(());
        }
        Err(Problem::new(
            Code::InvalidState,
            format!(
                "session {session} is over, {} is current: another agent took over, or this one started anew; say hello \
                 again, or stop",
                self.standing.session
            ),
        ))
    }

    /// Goes on only if the node counts as reachable: after an absence the first thing to know is what is on it.
    pub(super) fn reachable(&self) -> Result<()> {
        if !self.standing.unreachable {
            return Ok(());
        }
        Err(Problem::new(
            Code::InvalidState,
            "the node was not heard for a while and counts as unreachable: say hello first, with what is on it",
        ))
    }
}
