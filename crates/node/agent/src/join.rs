//! Joining: the machine generates a key, authenticates with a one-time token, and receives its certificate.

use std::time::Duration;

use muster_ids::Env;
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
/// Attempts after a lost response or a server error.
const ATTEMPTS: u32 = 4;
/// Time to retry for while the server is busy with other joins.
const QUEUE_FOR: Duration = Duration::from_secs(120);

/// Data from the operator that lets a machine join.
#[derive(Debug, Clone)]
pub struct Invitation {
    /// The server's listener for nodes.
    pub server: Address,
    /// The one-time token.
    pub token: String,
    /// Method to authenticate the server.
    pub trust: Trust,
    /// Preferred name.
    pub name: String,
}

/// Fails if the folder's machine has joined already, unless `force` is set.
pub fn check_fresh(folder: &Folder, force: bool) -> Result<(), AgentError> {
    match Identity::lookup(folder) {
        // With force, the contents are replaced, and so may be unreadable.
        _ if force => Ok(()),
        Ok(None) => Ok(()),
        Ok(Some(identity)) => Err(AgentError::Refused(format!(
            "{} has already joined, as {} ({}): run it with `muster agent run`, or start over with --force",
            folder.path().display(),
            identity.node.name,
            identity.node.node_id
        ))),
        Err(error) => Err(error),
    }
}

/// Joins, and saves the identity in the folder.
pub async fn join(
    folder: &Folder,
    invitation: &Invitation,
    inventory: Inventory,
    force: bool,
    env: &Env,
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
    let joined = ask(invitation, &request, env).await?;
    // The authority in the response must be the one that the operator gave, as on the connection.
    let authorities = identity::certificates(&joined.authority)?;
    if !authorities.iter().any(|authority| invitation.trust.accepts(authority)) {
        return Err(AgentError::Refused(
            "the server's authority does not match the given fingerprint".to_owned(),
        ));
    }
    let identity = Identity {
        node: Node { node_id: joined.node_id, name: joined.name, server: invitation.server.to_string() },
        key,
        certificate: joined.certificate,
        authority: joined.authority,
    };
    // Verified before saving: a certificate that does not match the key would only fail at the next start.
    trust::joined(&identity, env)?;
    identity.save(folder)?;
    tracing::info!(node = %identity.node.name, id = %identity.node.node_id, "joined");
    Ok(identity)
}

async fn ask(invitation: &Invitation, request: &Join, env: &Env) -> Result<Joined, AgentError> {
    let (_switch, uncut) = tokio::sync::watch::channel(false);
    let config = trust::joining(invitation.trust, env)?;
    let dial = Dial::new(invitation.server.clone(), config, env.clone(), uncut);
    let mut link = Link::new(&dial);
    let mut backoff = Backoff::new(env);
    let (mut attempt, began) = (1, tokio::time::Instant::now());
    loop {
        match link.call(paths::JOIN, request, PATIENCE).await {
            Ok(joined) => return Ok(joined),
            Err(CallError::Refused { status: 429, .. }) if began.elapsed() < QUEUE_FOR => {}
            Err(error @ (CallError::Lost(_) | CallError::Refused { status: 500.., .. }))
                if attempt < ATTEMPTS =>
            {
                tracing::warn!(%error, attempt, "no answer to the join request; retrying");
                attempt += 1;
            }
            // The first attempt may have succeeded, with its response lost.
            Err(CallError::Refused { status: 401, code, detail }) if attempt > 1 => {
                let detail =
                    format!("{detail}; an earlier attempt, whose response was lost, may have used it up");
                return Err(AgentError::Join(CallError::Refused { status: 401, code, detail }));
            }
            Err(error) => return Err(AgentError::Join(error)),
        }
        backoff.pause().await;
    }
}

/// Returns the SHA-256 of the authority that an identity trusts, for operators to compare.
pub fn authority_fingerprint(identity: &Identity) -> Result<String, AgentError> {
    let authorities = identity::certificates(&identity.authority)?;
    Ok(trust::sha256(&authorities[0]).iter().map(|byte| format!("{byte:02x}")).collect())
}
