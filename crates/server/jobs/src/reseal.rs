//! Reseals data that is sealed under a superseded key; only then is that key deleted.

use jiff::SignedDuration;
use muster_db::{StoreError, Tx};
use muster_ids::{RuntimeSecretId, SecretId, TenantId, WebhookId};
use muster_model::secret::{ProjectSecret, RuntimeSecret};

use muster_control::Platform;

/// Sealed data and its location.
struct Sealed {
    kept: Kept,
    context: String,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Kept {
    Webhook(WebhookId),
    Secret(SecretId),
    RuntimeSecret(RuntimeSecretId),
}

impl Kept {
    /// Replaces the sealed bytes, if they are unchanged since they were read.
    async fn replace(self, tx: &mut Tx, fresh: Vec<u8>, before: Vec<u8>) -> Result<(), StoreError> {
        match self {
            Kept::Webhook(id) => tx.webhook_reseal(id, fresh, before).await,
            Kept::Secret(id) => tx.secret_reseal(id, fresh, before).await,
            Kept::RuntimeSecret(id) => tx.runtime_secret_reseal(id, fresh, before).await,
        }
    }
}

/// Reseals data under each owner's newest key; then deletes the older ones.
pub async fn reseal(platform: &Platform) -> Result<(), StoreError> {
    for (owner, newest) in platform.store.sealing_keys_superseded().await? {
        let Ok(tenant) = owner.parse::<TenantId>() else { continue };
        for sealed in sealed_of(platform, tenant).await? {
            if muster_keys::key_version(&sealed.bytes) == Some(newest) {
                continue;
            }
            if !reseal_one(platform, &owner, sealed).await? {
                return Ok(());
            }
        }
        let mut tx = platform.store.begin().await?;
        tx.sealing_key_delete_older(&owner, newest, platform.env.now() - SignedDuration::from_hours(1))
            .await?;
        tx.commit().await?;
        platform.envelope.forget(&owner);
    }
    Ok(())
}

/// Returns all sealed data of a tenant. Anything missing here is lost with the next rotation.
async fn sealed_of(platform: &Platform, tenant: TenantId) -> Result<Vec<Sealed>, StoreError> {
    let webhooks = platform.store.webhook_of_tenant(tenant).await?.into_iter().map(|webhook| Sealed {
        kept: Kept::Webhook(webhook.id),
        context: format!("webhook {}", webhook.id),
        bytes: webhook.secret_sealed,
    });
    let secrets = platform.store.secret_of_tenant(tenant).await?.into_iter().map(|secret| Sealed {
        kept: Kept::Secret(secret.id),
        context: ProjectSecret::context(secret.id, secret.revision),
        bytes: secret.sealed,
    });
    let issued = platform.store.runtime_secret_of_tenant(tenant).await?.into_iter().filter_map(|secret| {
        let bytes = secret.sealed?;
        let context = RuntimeSecret::context(secret.id);
        Some(Sealed { kept: Kept::RuntimeSecret(secret.id), context, bytes })
    });
    Ok(webhooks.chain(secrets).chain(issued).collect())
}

/// Reseals one item. Returns `false` if it cannot be opened, or was changed or deleted meanwhile; the next sweep
/// retries.
async fn reseal_one(platform: &Platform, owner: &str, sealed: Sealed) -> Result<bool, StoreError> {
    let Sealed { kept, context, bytes } = sealed;
    let opened = platform.envelope.open(&platform.store, owner, &context, &bytes).await;
    let Ok(plain) = opened else { return Ok(false) };
    let Ok(fresh) = platform.envelope.seal(&platform.store, owner, &context, &plain).await else {
        return Ok(false);
    };
    let mut tx = platform.store.begin().await?;
    match kept.replace(&mut tx, fresh, bytes).await {
        Ok(()) => tx.commit().await.map(|()| true),
        Err(StoreError::Stale) => {
            tx.rollback().await;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
