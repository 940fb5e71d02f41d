//! Joining: the machine makes a key, proves with a one-time token that it may, and gets its certificate.

use std::time::Duration;

use muster_ids::World;
use muster_wire::inventory::Inventory;
use muster_wire::wire::{Join, Joined};

use crate::AgentError;
use crate::address::Address;
use crate::backoff::Backoff;
use crate::dial::Dial;
use crate::folder::Folder;
use crate::identity::{self, Identity, Node};
use crate::link::{CallError, Link};
use crate::paths;
use crate::trust::{self, Trust};

const PATIENCE: Duration = Duration::from_secs(30);
/// An answer that was lost, or that the server could not give, is asked for again so often.
const ATTEMPTS: u32 = 4;
/// A server that is busy with others who join is asked again for so long.
const QUEUE_FOR: Duration = Duration::from_secs(120);

/// What an operator gives a machine so that it can join.
#[derive(Debug, Clone)]
pub struct Invitation {
    /// The server's listener for nodes.
    pub server: Address,
    /// The one-time token.
    pub token: String,
    /// How the server is known.
    pub trust: Trust,
    /// The name it would like.
    pub name: String,
}

/// Refuses a folder whose machine has joined already, unless it should start anew.
pub fn check_fresh(folder: &Folder, force: bool) -> Result<(), AgentError> {
    match Identity::lookup(folder) {
        // With force, whatever is there goes, and so may be unreadable.
        _ if force => Ok(()),
        Ok(None) => Ok(()),
        Ok(Some(identity)) => Err(AgentError::Refused(format!(
            "{} has joined already, as {} ({}): run it with `muster agent run`, or start anew with --force",
            folder.path().display(),
            identity.node.name,
            identity.node.node_id
        ))),
        Err(error) => Err(error),
    }
}

/// Joins, and keeps the identity in the folder.
pub async fn join(
    folder: &Folder,
    invitation: &Invitation,
    inventory: Inventory,
    force: bool,
    world: &World,
) -> Result<Identity, AgentError> {
    folder.make()?;
    check_fresh(folder, force)?;
    if force {
        identity::forget(folder)?;
    }
    let key = identity::ensure_key(folder)?;
    let request = Join {
        token: invitation.token.trim().to_owned(),
        csr: identity::request(&key)?,
        name: invitation.name.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        inventory,
    };
    let joined = ask(invitation, &request, world).await?;
    // What signs our server must be what the operator meant, in the answer as on the wire.
    let authorities = identity::certificates(&joined.authority)?;
    if !authorities.iter().any(|authority| invitation.trust.accepts(authority)) {
        return Err(AgentError::Refused(
            "the server answered with another authority than the one whose fingerprint was given".to_owned(),
        ));
    }
    let identity = Identity {
        node: Node { node_id: joined.node_id, name: joined.name, server: invitation.server.to_string() },
        key,
        certificate: joined.certificate,
        authority: joined.authority,
    };
    // Before it is kept: a certificate that does not fit the key would only be found out at the next start.
    trust::joined(&identity, world)?;
    identity.save(folder)?;
    tracing::info!(node = %identity.node.name, id = %identity.node.node_id, "joined");
    Ok(identity)
}

async fn ask(invitation: &Invitation, request: &Join, world: &World) -> Result<Joined, AgentError> {
    let (_switch, uncut) = tokio::sync::watch::channel(false);
    let config = trust::joining(invitation.trust, world)?;
    let dial = Dial::new(invitation.server.clone(), config, world.clone(), uncut);
    let mut link = Link::new(&dial);
    let mut backoff = Backoff::new(world);
    let (mut attempt, began) = (1, tokio::time::Instant::now());
    loop {
        match link.call(paths::JOIN, request, PATIENCE).await {
            Ok(joined) => return Ok(joined),
            Err(CallError::Refused { status: 429, .. }) if began.elapsed() < QUEUE_FOR => {}
            Err(error @ (CallError::Lost(_) | CallError::Refused { status: 500.., .. }))
                if attempt < ATTEMPTS =>
            {
                tracing::warn!(%error, attempt, "no answer to the request to join; asking again");
                attempt += 1;
            }
            // The first attempt may have been heard after all, and only its answer lost.
            Err(CallError::Refused { status: 401, code, detail }) if attempt > 1 => {
                let detail = format!(
                    "{detail}; an attempt before this one, whose answer was lost, may have used it up"
                );
                return Err(AgentError::Join(CallError::Refused { status: 401, code, detail }));
            }
            Err(error) => return Err(AgentError::Join(error)),
        }
        backoff.pause().await;
    }
}

/// The SHA-256 of the authority that an identity trusts, for people to compare.
pub fn authority_fingerprint(identity: &Identity) -> Result<String, AgentError> {
    let authorities = identity::certificates(&identity.authority)?;
    Ok(trust::sha256(&authorities[0]).iter().map(|byte| format!("{byte:02x}")).collect())
}
