//! Bootstrap secrets shared by the members of an instance: issued by the platform, referenced by id, and only held by
//! cells.

use jiff::Timestamp;
use muster_sdk::types::{InstanceId, Purpose, RuntimeSecret, RuntimeSecretIssue};
use serde_json::json;

use crate::StepCx;
use crate::adapter::Failure;
use crate::backoff::Backoff;
use crate::lease::Lease;
use crate::platform::{RetryDecision, classify};
use crate::step::Under;

impl StepCx {
    /// Returns the id of the secret that the members of this instance share under this name, for [`StepCx::secret_file`]:
    /// an existing one that is not revoked, otherwise a new one with this many random bytes. It ends with the instance.
    ///
    /// The adapter's account needs `runtime_secret.issue`, `runtime_secret.cluster_bootstrap` and `runtime_secret.list`,
    /// so the manifest must list them.
    pub async fn shared_secret(&self, name: &str, bytes: u16) -> Result<String, Failure> {
        self.shared_secret_after(name, bytes, None).await
    }

    /// The same, but never a secret issued before this time, since it may have leaked. With the snapshot's
    /// `unwitnessed_at`, the adapter gets a new one as soon as a member left without witnessed evidence. The adapter must
    /// then deliver it to every member, and revoke the old one afterwards: [`StepCx::shared_secret_only`].
    pub async fn shared_secret_after(
        &self,
        name: &str,
        bytes: u16,
        after: Option<Timestamp>,
    ) -> Result<String, Failure> {
        match self.stands_under() {
            Under::Dry(deeds) => {
                let deed = json!({"shared_secret": {"name": name, "bytes": bytes}});
                deeds.lock().push(deed);
                Ok(format!("rts_{name}"))
            }
            Under::Lease { lease, .. } => {
                let instance = self.snapshot().instance_id.to_string();
                let wish = Wish { instance: &instance, name, bytes, after };
                let mut backoff = lease.backoff();
                loop {
                    match found_or_issued(lease, &wish).await {
                        Ok(secret) => return Ok(secret.id.to_string()),
                        Err(error) => again(lease, &mut backoff, &error).await?,
                    }
                }
            }
        }
    }

    /// Revokes all secrets of this name except this one. The adapter's account needs `runtime_secret.revoke`.
    pub async fn shared_secret_only(&self, name: &str, keep: &str) -> Result<(), Failure> {
        match self.stands_under() {
            Under::Dry(deeds) => {
                let deed = json!({"shared_secret_only": {"name": name, "keep": keep}});
                deeds.lock().push(deed);
                Ok(())
            }
            Under::Lease { lease, .. } => {
                let instance = self.snapshot().instance_id.to_string();
                let mut backoff = lease.backoff();
                while let Err(error) = revoke_others(lease, &instance, name, keep).await {
                    again(lease, &mut backoff, &error).await?;
                }
                Ok(())
            }
        }
    }
}

/// Waits before a retry; fails on a refusal.
async fn again(lease: &Lease, backoff: &mut Backoff, error: &muster_sdk::Error) -> Result<(), Failure> {
    match classify(error) {
        RetryDecision::Again(after) => {
            tracing::debug!(step = %lease.step, %error, "the state of shared material could not be read");
            backoff.pause(after).await;
            Ok(())
        }
        RetryDecision::Refused(why) => {
            lease.must_be_ours().await;
            Err(Failure::new("secret_refused", why))
        }
    }
}

/// Parameters of a request.
struct Wish<'w> {
    instance: &'w str,
    name: &'w str,
    bytes: u16,
    after: Option<Timestamp>,
}

/// Returns all secrets ever issued to the instance under this name.
async fn known(lease: &Lease, instance: &str, name: &str) -> Result<Vec<RuntimeSecret>, muster_sdk::Error> {
    let mut known = lease.platform.bootstrap_secrets().await?;
    known.retain(|secret| {
        secret.name == name && secret.instance_id.as_ref().is_some_and(|id| **id == *instance)
    });
    Ok(known)
}

async fn revoke_others(
    lease: &Lease,
    instance: &str,
    name: &str,
    keep: &str,
) -> Result<(), muster_sdk::Error> {
    for secret in known(lease, instance, name).await? {
        if secret.revoked_at.is_none() && *secret.id != *keep {
            lease.platform.bootstrap_secret_revoke(&secret.id).await?;
        }
    }
    Ok(())
}

async fn found_or_issued(lease: &Lease, wish: &Wish<'_>) -> Result<RuntimeSecret, muster_sdk::Error> {
    let Wish { instance, name, bytes, after } = *wish;
    let mut known = known(lease, instance, name).await?;
    let issued = known.len();
    known.retain(|secret| secret.revoked_at.is_none() && after.is_none_or(|after| secret.created_at > after));
    if let Some(secret) = known.into_iter().max_by_key(|secret| secret.created_at) {
        return Ok(secret);
    }
    // Two concurrent steps that find none must get the same one, and a later step must not get an earlier one again.
    let key = format!("{instance}-{name}-{issued}");
    let wish = RuntimeSecretIssue {
        purpose: Purpose::ClusterBootstrap,
        name: name.to_owned(),
        bytes: Some(i64::from(bytes)),
        instance: Some(InstanceId(instance.to_owned())),
        cell: None,
        repository: None,
    };
    lease.platform.bootstrap_secret_issue(&wish, key).await
}
