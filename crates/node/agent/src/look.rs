//! Reads the inventory every ten minutes, and reports changes to the server.

use std::convert::Infallible;
use std::time::Duration;

use muster_wire::wire::{Changed, Noted};

use crate::AgentError;
use crate::backoff::Backoff;
use crate::link::Link;
use crate::node::{Running, unless_retired};
use crate::paths;

const EVERY: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn looking(node: &Running) -> Result<Infallible, AgentError> {
    if !node.machine.can_change() {
        std::future::pending::<()>().await;
    }
    loop {
        tokio::time::sleep(EVERY).await;
        let inventory = node.machine.look().await;
        let digest = inventory.hardware_digest();
        let mut backoff = Backoff::new(&node.env);
        // A hello in the meantime has already reported it.
        while digest != *node.told_digest.lock() {
            let session = node.session().await;
            let question = Changed { session, inventory: inventory.clone() };
            let answer = Link::new(&node.dial).call::<_, Noted>(paths::INVENTORY, &question, PATIENCE).await;
            match unless_retired(answer)? {
                Ok(noted) => {
                    tracing::warn!(
                        needs_approval = noted.needs_approval,
                        "the machine's hardware has changed"
                    );
                    *node.told_digest.lock() = digest.clone();
                }
                Err(error) if error.status() == Some(409) => node.session_lost(session),
                Err(error) => {
                    tracing::warn!(%error, "the changed hardware was not reported; retrying");
                    backoff.pause().await;
                }
            }
        }
    }
}
