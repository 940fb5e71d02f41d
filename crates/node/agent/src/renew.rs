//! Renews the certificate at two thirds of its lifetime, or at the start if that has passed.

use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_wire::wire::{Renew, Renewed};

use crate::AgentError;
use crate::backoff::Backoff;
use crate::identity::Identity;
use crate::link::Link;
use crate::node::{Running, unless_retired};
use crate::{paths, trust};

const PATIENCE: Duration = Duration::from_secs(30);
/// Longest sleep: a machine that was suspended, or had its clock set, notices within this time.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Returns the time at two thirds of the lifetime.
fn due_at((from, until): (Timestamp, Timestamp)) -> Timestamp {
    from + (until.duration_since(from) * 2) / 3
}

/// Fails if the certificate has expired.
pub(crate) fn check(identity: &Identity, now: Timestamp) -> Result<(), AgentError> {
    let (_, until) = identity.validity()?;
    if until <= now { Err(AgentError::CertificateEnded(until)) } else { Ok(()) }
}

pub(crate) async fn renewing(node: &Running) -> Result<Infallible, AgentError> {
    let identity = || node.identity.lock().clone();
    let mut due = due_at(identity().validity()?);
    let mut backoff = Backoff::new(&node.env);
    loop {
        let left = Duration::try_from(due.duration_since(node.env.now())).unwrap_or_default();
        if !left.is_zero() {
            tokio::time::sleep(left.min(LOOK_EVERY)).await;
            continue;
        }
        let present = identity();
        check(&present, node.env.now())?;
        // A connection of its own, closed afterwards: this happens once in many hours.
        let mut link = Link::new(&node.dial);
        let question = Renew { csr: present.request()? };
        match unless_retired(link.call::<_, Renewed>(paths::RENEW, &question, PATIENCE).await)? {
            Ok(renewed) => match take(node, present, renewed) {
                Ok(next) => {
                    due = next;
                    backoff.reset();
                    tracing::info!(next = %due, "the certificate was renewed");
                }
                // A disk that is full now is no reason to leave the node alone: the present certificate is valid.
                Err(error) => {
                    tracing::warn!(%error, "the new certificate was not saved; trying again");
                    backoff.pause().await;
                }
            },
            Err(error) => {
                tracing::warn!(%error, "the certificate was not renewed; retrying");
                backoff.pause().await;
            }
        }
    }
}

/// Saves the new certificate and uses it from now on. Returns the time of its own renewal.
fn take(node: &Running, present: Identity, renewed: Renewed) -> Result<Timestamp, AgentError> {
    let next = Identity { certificate: renewed.certificate, authority: renewed.authority, ..present };
    let config = trust::joined(&next, &node.env)?;
    next.save_certificate(&node.folder)?;
    let due = due_at(next.validity()?);
    let asked = SignedDuration::from_secs(i64::try_from(renewed.renew_after_seconds).unwrap_or(i64::MAX));
    let asked = node.env.now().checked_add(asked).unwrap_or(due);
    *node.identity.lock() = next;
    node.dial.replace(config);
    Ok(due.min(asked))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::due_at;

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(due_at((at(1000), at(1300))), at(1200));
    }
}
