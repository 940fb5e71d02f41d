//! What the members of an instance share to join each other: made by the platform, named by reference, held by cells alone.

use muster_sdk::types::{Purpose, RuntimeSecret, RuntimeSecretIssue};
use serde_json::json;

use crate::StepCx;
use crate::adapter::Failure;
use crate::lease::Lease;
use crate::platform::{Then, then};
use crate::step::Under;

impl StepCx {
    /// The id of the material that the members of this instance share under this name, for [`StepCx::secret_file`]: what was
    /// issued before and was not revoked, or else so many fresh random bytes. It ends with the instance.
    ///
    /// The adapter's account needs `runtime_secret.issue`, `runtime_secret.cluster_bootstrap` and `runtime_secret.list`, so the
    /// manifest lists them.
    pub async fn shared_secret(&self, name: &str, bytes: u16) -> Result<String, Failure> {
        match self.stands_under() {
            Under::Dry(deeds) => {
                let deed = json!({"shared_secret": {"name": name, "bytes": bytes}});
                deeds.lock().expect("no holder of this lock can panic").push(deed);
                Ok(format!("rts_{name}"))
            }
            Under::Lease { lease, .. } => {
                let instance = self.snapshot().instance_id.to_string();
                shared(lease, &instance, name, bytes).await
            }
        }
    }
}

async fn shared(lease: &Lease, instance: &str, name: &str, bytes: u16) -> Result<String, Failure> {
    let mut backoff = lease.backoff();
    loop {
        match found_or_issued(lease, instance, name, bytes).await {
            Ok(secret) => return Ok(secret.id.to_string()),
            Err(error) => match then(&error) {
                Then::Again(after) => {
                    tracing::debug!(step = %lease.step, %error, "shared material was not heard of");
                    backoff.pause(after).await;
                }
                Then::Refused(why) => {
                    lease.must_be_ours().await;
                    return Err(Failure::new("secret_refused", why));
                }
            },
        }
    }
}

async fn found_or_issued(
    lease: &Lease,
    instance: &str,
    name: &str,
    bytes: u16,
) -> Result<RuntimeSecret, muster_sdk::Error> {
    let mut known = lease.platform.bootstrap_secrets().await?;
    known.retain(|secret| {
        secret.name == name && secret.instance_id.as_ref().is_some_and(|id| **id == *instance)
    });
    let revoked = known.iter().filter(|secret| secret.revoked_at.is_some()).count();
    known.retain(|secret| secret.revoked_at.is_none());
    if let Some(secret) = known.into_iter().max_by_key(|secret| secret.created_at) {
        return Ok(secret);
    }
    // Two steps that find none at the same moment must come by the same one, and one that follows a revoked one must not come
    // by that again.
    let key = format!("{instance}-{name}-{revoked}");
    let wish = RuntimeSecretIssue {
        purpose: Purpose::ClusterBootstrap,
        name: name.to_owned(),
        bytes: Some(i64::from(bytes)),
        instance: Some(instance.to_owned().into()),
        cell: None,
        repository: None,
    };
    lease.platform.bootstrap_secret_issue(&wish, key).await
}
