//! A machine joins with a one-time token and becomes a node with a certificate: a new node, or one that the token names
//! because its machine has lost its certificate.

use std::time::Duration;

use muster_api::Code;
use muster_db::{Enrolment, Joining, KeyHash, StoreError};
use muster_ids::NodeId;
use muster_model::event::EventType;
use muster_model::token::{Secret, TokenKind};
use muster_wire::wire::{Join, Joined};
use serde_json::json;

use super::{renew, slots, tell};
use muster_keys::{CertificateRequest, Issued};

use crate::{Cx, Error, Result};

/// Maximum number of attempts to find a free name or the winner of a race, before the machine must retry.
const ATTEMPTS: u32 = 30;
/// Typical duration of a concurrent commit.
const COMMITTED: Duration = Duration::from_millis(5);

/// Returns the one error for unknown, used and expired tokens, so that guessing reveals nothing.
fn refused() -> Error {
    Error::new(
        Code::Unauthenticated,
        "the token is not valid: it works once and for a limited time; ask an operator for a fresh one",
    )
}

/// Handles `join`. A machine that did not receive the response retries: the same token with the same key yields the same
/// node until the token expires.
pub async fn join(cx: &Cx, body: Join) -> Result<Joined> {
    let secret =
        Secret::parse(&body.token).filter(|secret| secret.is(TokenKind::Join)).ok_or_else(refused)?;
    let platform = &cx.platform;
    let fresh: NodeId = platform.env.id();
    let mut issued: Option<Issued> = None;
    let mut names = 1;
    for attempt in 1..=ATTEMPTS {
        let enrolment = platform.store.enrolment_by_hash(&secret.hash(), cx.now).await?;
        let enrolment = enrolment.ok_or_else(refused)?;
        if let (Some(key), Some(node)) = (enrolment.used_with, enrolment.node_id) {
            return repeated(cx, node, key, &body).await;
        }
        let node = enrolment.node_id.unwrap_or(fresh);
        let certificate = match issued.take() {
            Some(issued) => issued,
            // Sign only for a valid token, so that unauthenticated clients cannot cause that work.
            None => renew::issue(platform, &body.csr, node, cx.now).await?,
        };
        let name = enrolment.node_name.clone().unwrap_or_else(|| {
            numbered(&fitting(&body.name), names, || muster_model::hex::encode(&platform.env.bytes::<3>()))
        });
        let written = match enrolment.node_id {
            Some(_) => join_again(cx, node, &enrolment, &certificate).await,
            None => write(cx, node, &name, &enrolment, &body, &certificate).await.map(|()| name.clone()),
        };
        match written {
            Ok(name) => {
                platform.sealer_wake.notify_one();
                return Ok(joined(cx, node, name, certificate));
            }
            // A concurrent request used the same token. The next read shows its result once committed; it may have been this
            // very machine.
            Err(StoreError::Fenced) => {
                issued = Some(certificate);
                tokio::time::sleep(COMMITTED * attempt).await;
            }
            Err(StoreError::Conflict(_)) if enrolment.node_name.is_some() => {
                return Err(Error::new(
                    Code::NameTaken,
                    format!(
                        "the token sets the name {name}, which a node already has: retire that node first"
                    ),
                ));
            }
            Err(StoreError::Conflict(_)) => {
                issued = Some(certificate);
                names += 1;
            }
            Err(StoreError::Gone(_)) => {
                return Err(Error::new(
                    Code::InvalidState,
                    "the token's node was retired: ask an operator for a token without a node",
                ));
            }
            Err(error) => return Err(unheard(error)),
        }
    }
    Err(Error::new(Code::Unavailable, "too many machines join under this name at once; retry in a moment"))
}

fn unheard(error: StoreError) -> Error {
    match error {
        StoreError::Unheard => Error::new(
            Code::Unavailable,
            "the database was lost during the commit: repeat with the same token and key, and the response \
             is the same node",
        ),
        error => Error::from(error),
    }
}

fn joined(cx: &Cx, node: NodeId, name: String, issued: Issued) -> Joined {
    let platform = &cx.platform;
    platform.fleet.hear(node);
    // Ends a poll of the previous machine of this node.
    platform.fleet.wake(node);
    let Issued { certificate, authority, .. } = issued;
    Joined { node_id: node, name, certificate, authority, renew_after_seconds: renew::after(platform) }
}

/// Handles a token that was already used. The same key means a retry after a lost response; it gets another certificate,
/// unless the node has a newer key.
async fn repeated(cx: &Cx, node: NodeId, used_with: KeyHash, body: &Join) -> Result<Joined> {
    let platform = &cx.platform;
    if CertificateRequest::parse(&body.csr)?.key_hash() != used_with {
        return Err(refused());
    }
    let known = platform.store.node_lookup(node).await?.ok_or_else(refused)?;
    let issued = renew::issue(platform, &body.csr, node, cx.now).await?;
    let mut tx = platform.store.begin().await?;
    match tx.node_renewed(node, used_with, issued.key, issued.until).await {
        Ok(()) => tx.commit().await.map_err(unheard)?,
        Err(StoreError::Fenced) => {
            tx.rollback().await;
            return Err(refused());
        }
        Err(error) => return Err(Error::from(error)),
    }
    tracing::info!(%node, name = known.name, "a machine joined with a token that it had used; the first response was lost");
    Ok(joined(cx, node, known.name, issued))
}

/// Attaches a machine to an existing node and consumes the token, in one transaction. Returns the node's name.
async fn join_again(
    cx: &Cx,
    node: NodeId,
    enrolment: &Enrolment,
    issued: &Issued,
) -> muster_db::Result<String> {
    let platform = &cx.platform;
    let mut tx = platform.store.begin().await?;
    let written = async {
        tx.enrolment_use(enrolment.id, node, issued.key, cx.now).await?;
        let name = tx.node_rejoin(node, issued.key, issued.until).await?;
        let news = tell::News {
            actor: tell::agent(node, &name),
            action: "node.join",
            target: tell::target(node, &name),
            subject: tell::subject(node),
            events: vec![(EventType::NodeRejoined, json!({"name": name, "enrolment_id": enrolment.id}))],
            correlation_id: &cx.correlation_id,
            at: cx.now,
        };
        platform.outbox_append(&mut tx, news).await.map(|()| name)
    };
    match written.await {
        Ok(name) => tx.commit().await.map(|()| name),
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

/// Creates the node and consumes the token, in one transaction.
async fn write(
    cx: &Cx,
    node: NodeId,
    name: &str,
    enrolment: &Enrolment,
    body: &Join,
    issued: &Issued,
) -> muster_db::Result<()> {
    let platform = &cx.platform;
    let joining = Joining {
        id: node,
        name: name.to_owned(),
        labels: enrolment.labels.clone(),
        inventory: json!(body.inventory),
        inventory_digest: body.inventory.hardware_digest(),
        agent_version: body.agent_version.clone(),
        certificate_until: issued.until,
        at: cx.now,
    };
    let found = slots::discovered(&platform.env, node, &body.inventory, &[]);
    let told = json!({"name": name, "enrolment_id": enrolment.id, "gpus": found.len()});
    let mut tx = platform.store.begin().await?;
    let written = async {
        tx.enrolment_lock(enrolment.id, cx.now).await?;
        tx.node_join_with(&joining, Some(issued.key)).await?;
        tx.enrolment_use(enrolment.id, node, issued.key, cx.now).await?;
        slots::add(&mut tx, &found, cx.now).await?;
        let news = tell::News {
            actor: tell::agent(node, name),
            action: "node.join",
            target: tell::target(node, name),
            subject: tell::subject(node),
            events: vec![(EventType::NodeJoined, told)],
            correlation_id: &cx.correlation_id,
            at: cx.now,
        };
        platform.outbox_append(&mut tx, news).await
    };
    match written.await {
        Ok(()) => tx.commit().await,
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

/// Converts a host name to a valid node name: its first label, in the allowed characters.
fn fitting(text: &str) -> String {
    let label = text.split('.').next().unwrap_or_default().to_lowercase();
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let text: String = label.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect();
    let text = text.trim_start_matches(|letter: char| !letter.is_ascii_lowercase());
    let text = text[..text.len().min(63)].trim_end_matches('-');
    if text.is_empty() { "node".to_owned() } else { text.to_owned() }
}

/// Returns the name itself, then with a number, then with a random suffix: many machines may join under one name at once.
fn numbered(name: &str, attempt: usize, chance: impl FnOnce() -> String) -> String {
    let suffix = match attempt {
        1 => return name.to_owned(),
        2..=9 => format!("-{attempt}"),
        _ => format!("-{}", chance()),
    };
    let kept = name[..name.len().min(63 - suffix.len())].trim_end_matches('-');
    format!("{kept}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::{fitting, numbered};
    use proptest::prelude::*;

    #[test]
    fn a_host_name_becomes_a_name() {
        for (host, name) in [
            ("gpu-7.example.org", "gpu-7"),
            ("GPU_07", "gpu-07"),
            ("7-of-9", "of-9"),
            ("", "node"),
            ("…", "node"),
            ("rack1-", "rack1"),
        ] {
            assert_eq!(fitting(host), name, "{host}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_machine_is_called_a_name_comes_out(host in any::<String>(), attempt in 1_usize..30) {
            let name = numbered(&fitting(&host), attempt, || "c0ffee".to_owned());
            prop_assert!(muster_model::Name::parse(&name).is_some(), "{name:?}");
        }
    }
}
