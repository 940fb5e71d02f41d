//! Add a trusted publisher key.

use muster_api::Code;
use muster_api::key::KeyCreate;
use muster_authz::Permission;
use muster_model::Record as _;
use muster_model::artifact::PublisherKey;
use muster_model::event::EventType;
use serde_json::json;

use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// So many keys a project trusts at once: each signature of an artifact is tried with each of them.
const MOST_TRUSTED: i64 = 50;

fn too_many() -> Error {
    let detail =
        format!("the project trusts {MOST_TRUSTED} keys, the maximum: revoke one first (muster key revoke)");
    Error::new(Code::QuotaExceeded, detail)
}

/// Prepares `key_create`.
pub async fn create(cx: &Cx, project: &str, body: KeyCreate) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::KeyCreate, scope, "project")?;
    let parsed = muster_trust::PublicKey::from_pem(&body.public_key)
        .map_err(|why| Error::field("/public_key", why.to_string()))?;
    let fingerprint = parsed.fingerprint();
    let tenant_id = scope.tenant().ok_or_else(|| Error::not_found("project"))?;
    let known = cx.platform.store.key_by_fingerprint(project_id, &fingerprint).await?;
    if let Some(known) = known {
        return Err(taken(&known));
    }
    let key = PublisherKey {
        id: cx.platform.env.id(),
        tenant_id,
        project_id,
        name: body.name,
        public_key: parsed.to_pem(),
        fingerprint,
        algorithm: parsed.algorithm().word().to_owned(),
        created_at: cx.now,
        revoked_at: None,
        revoked_reason: None,
        version: 1,
    };
    let (subject, named) = (key.path(), key.target());
    let told = json!({"name": key.name, "fingerprint": key.fingerprint, "algorithm": key.algorithm});
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            // First, to serialize changes of a project's keys.
            tx.trust_policy_raise(project_id).await?;
            if tx.key_count_trusted(project_id).await? >= MOST_TRUSTED {
                return Err(too_many());
            }
            tx.insert_record(&key).await?;
            Ok(Answer::new(&key))
        })
    });
    Ok(commit.event(cx, EventType::KeyCreated, subject, told))
}

/// Returns the error for a key that is already known. Under two names it could be revoked under one and still count under
/// the other.
fn taken(known: &PublisherKey) -> Error {
    let detail = match known.revoked_at {
        None => format!("the project already trusts this key, as {}", known.name),
        Some(_) => format!(
            "this key was revoked in the project, as {}, and stays revoked: generate another pair and sign with that",
            known.name
        ),
    };
    Error::new(Code::NameTaken, detail)
}
