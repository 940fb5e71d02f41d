//! Requests a secret of a cell that is being created.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_wire::act::CellTarget;
use muster_wire::wire::{SecretAsk, SecretValue, SecretWhat};
use zeroize::{Zeroize as _, Zeroizing};

use super::persist::Persistence;
use crate::link::{CallError, Link};
use crate::node::Running;
use crate::paths;

const PATIENCE: Duration = Duration::from_secs(30);
/// Timeout for a session, which the request needs.
const SESSION_WITHIN: Duration = Duration::from_secs(60);

/// Requests a secret. The buffers of the connection itself cannot be wiped.
pub(super) async fn ask(
    node: &Running,
    cell: CellTarget,
    what: SecretWhat,
) -> Result<Zeroizing<Vec<u8>>, CallError> {
    let mut link = Link::new(&node.dial);
    let mut persistence = Persistence::new(&node.env);
    let mut session_was_lost = false;
    loop {
        let session = tokio::time::timeout(SESSION_WITHIN, node.session());
        let session = session
            .await
            .map_err(|_| CallError::Unreachable("the server has not accepted this node".to_owned()))?;
        let question =
            SecretAsk { session, cell_id: cell.cell_id, incarnation: cell.incarnation, what: what.clone() };
        match link.ask(paths::SECRET, &question, PATIENCE).await {
            Ok(body) => {
                let told = read(&body);
                if let Ok(mut body) = body.try_into_mut() {
                    body.as_mut().zeroize();
                }
                return told;
            }
            // A second conflict, in a new session, is not about the session.
            Err(error) if error.status() == Some(409) && !session_was_lost => {
                session_was_lost = true;
                node.session_lost(session);
            }
            Err(error) => persistence.pause_after(error).await?,
        }
    }
}

fn read(body: &[u8]) -> Result<Zeroizing<Vec<u8>>, CallError> {
    // A parse error may quote the response, so it is not passed on.
    let strange = || CallError::Strange("it is not a secret in base64".to_owned());
    let told: SecretValue = serde_json::from_slice(body).map_err(|_| strange())?;
    let value = Zeroizing::new(told.value);
    // Allocated at full size, so that it is never moved and leaves no copy behind.
    let mut content = Zeroizing::new(Vec::with_capacity(value.len()));
    STANDARD.decode_vec(value.as_bytes(), &mut content).map_err(|_| strange())?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn malformed_secret_response_is_not_quoted() {
        assert_eq!(*read(br#"{"value":"aHVudGVyMg=="}"#).unwrap(), b"hunter2");
        for wrong in [&br#"{"value":["aHVudGVyMg=="]}"#[..], br#"{"value":"hunter2!"}"#, br#""hunter2""#, b""]
        {
            let said = read(wrong).unwrap_err().to_string();
            assert!(!said.contains("hunter2") && !said.contains("aHVudGVyMg"), "{said}");
        }
    }
}
