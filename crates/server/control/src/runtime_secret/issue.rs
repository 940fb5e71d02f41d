//! Issue a runtime secret for a purpose.
//!
//! A credential to pull from a repository is stored only as a hash, and expires with its cell's incarnation. A secret that
//! members share to join each other is also needed by later cells, so it is stored, sealed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use muster_api::Code;
use muster_api::secret::RuntimeSecretIssue;
use muster_authz::Permission;
use muster_db::StoreError;
use muster_ids::{Env, InstanceId, ProjectId, RepositoryId, RuntimeSecretId};
use muster_model::Scope;
use muster_model::cell::{Cell, CellState};
use muster_model::event::EventType;
use muster_model::instance::{Instance, InstanceState};
use muster_model::secret::{Purpose, RuntimeSecret};
use muster_model::token::{Secret, TokenKind};
use zeroize::Zeroizing;

use super::{facts, path, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Lifetime of a pull credential.
const PULL_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Default size of a shared bootstrap secret in bytes.
const BOOTSTRAP_BYTES: i64 = 32;

/// Prepares `runtime_secret_issue`.
pub async fn issue(cx: &Cx, project: &str, body: RuntimeSecretIssue) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::RuntimeSecretIssue, scope, "project")?;
    match body.purpose {
        Purpose::ArtifactPull => {
            cx.authorize(Permission::RuntimeSecretArtifactPull, scope, "project")?;
            artifact_pull(cx, project, project_id, body).await
        }
        Purpose::ClusterBootstrap => {
            cx.authorize(Permission::RuntimeSecretClusterBootstrap, scope, "project")?;
            cluster_bootstrap(cx, project_id, scope, body).await
        }
    }
}

async fn artifact_pull(
    cx: &Cx,
    project: &str,
    project_id: ProjectId,
    body: RuntimeSecretIssue,
) -> Result<PreparedCommand> {
    if body.bytes.is_some() {
        return Err(Error::field("/bytes", "it is only for cluster_bootstrap"));
    }
    if body.instance.is_some() {
        return Err(Error::field("/instance", "it is only for cluster_bootstrap"));
    }
    let named = body.repository.ok_or_else(|| Error::field("/repository", "artifact_pull needs one"))?;
    let cell = body.cell.ok_or_else(|| Error::field("/cell", "artifact_pull is for a cell: name it"))?;
    let repository_id = crate::repository::found(cx, project_id, &named).await?.id;
    let cell = cx.cell(project, &cell).await?;
    if !matches!(cell.state, CellState::Requested | CellState::Provisioning | CellState::Running) {
        return Err(over(&cell));
    }
    let Pull { secret, token } = pull(&cx.platform.env, &cell, body.name, repository_id, cx.now);
    let (subject, target) = (path(&secret), target("runtime_secret", secret.id, &secret.name));
    let told = facts(&secret, None);
    let commit = PreparedCommand::new(cell.scope(), target, move |tx| {
        Box::pin(async move {
            match tx.cell_hold(cell.id, cell.incarnation).await {
                Ok(()) => {}
                Err(StoreError::Fenced) => return Err(over(&cell)),
                Err(error) => return Err(error.into()),
            }
            tx.runtime_secret_insert(&secret).await?;
            Ok(Answer::new(&view(&secret)).with_secret("value", token.reveal()))
        })
    });
    Ok(commit.event(cx, EventType::RuntimeSecretIssued, subject, told))
}

fn over(cell: &Cell) -> Error {
    let detail = format!(
        "its purpose no longer exists: cell {} is {} or was restarted; read it again",
        cell.name, cell.state
    );
    Error::new(Code::InvalidState, detail)
}

/// A new pull credential.
pub(crate) struct Pull {
    /// Its row.
    pub(crate) secret: RuntimeSecret,
    /// The token, returned once.
    pub(crate) token: Secret,
}

/// Creates a credential for a cell's current incarnation to pull from a repository.
pub(crate) fn pull(
    env: &Env,
    cell: &Cell,
    name: String,
    repository_id: RepositoryId,
    now: Timestamp,
) -> Pull {
    let token = Secret::make(TokenKind::Pull, env);
    let secret = RuntimeSecret {
        id: env.id(),
        tenant_id: cell.tenant_id,
        project_id: cell.project_id,
        purpose: Purpose::ArtifactPull,
        name,
        repository_id: Some(repository_id),
        cell_id: Some(cell.id),
        incarnation: Some(cell.incarnation),
        instance_id: None,
        hash: Some(token.hash()),
        sealed: None,
        expires_at: Some(now + PULL_LIFETIME),
        revoked_at: None,
        created_at: now,
        version: 1,
    };
    Pull { secret, token }
}

async fn cluster_bootstrap(
    cx: &Cx,
    project_id: ProjectId,
    scope: Scope,
    body: RuntimeSecretIssue,
) -> Result<PreparedCommand> {
    for (field, given) in [("/repository", &body.repository), ("/cell", &body.cell)] {
        if given.is_some() {
            return Err(Error::field(field, "it is only for artifact_pull"));
        }
    }
    let tenant_id = scope.tenant().ok_or_else(|| Error::not_found("project"))?;
    let instance = match body.instance {
        Some(id) => Some(operated(cx, project_id, id).await?),
        None if cx.operates().is_some() => {
            return Err(Error::field("/instance", "an operator account must name the instance"));
        }
        None => None,
    };
    let platform = &cx.platform;
    let id: RuntimeSecretId = platform.env.id();
    let material = random(&platform.env, body.bytes.unwrap_or(BOOTSTRAP_BYTES));
    let context = RuntimeSecret::context(id);
    let sealed = platform.envelope.seal(&platform.store, &scope.chain(), &context, &material).await?;
    let secret = RuntimeSecret {
        id,
        tenant_id,
        project_id,
        purpose: Purpose::ClusterBootstrap,
        name: body.name,
        repository_id: None,
        cell_id: None,
        incarnation: None,
        instance_id: instance.map(|instance| instance.id),
        hash: None,
        sealed: Some(sealed),
        expires_at: None,
        revoked_at: None,
        created_at: cx.now,
        version: 1,
    };
    let value = Zeroizing::new(STANDARD.encode(&*material));
    let (subject, target) = (path(&secret), target("runtime_secret", id, &secret.name));
    let told = facts(&secret, None);
    let commit = PreparedCommand::new(scope, target, move |tx| {
        Box::pin(async move {
            tx.runtime_secret_insert(&secret).await?;
            Ok(Answer::new(&view(&secret)).with_secret("value", &value))
        })
    });
    Ok(commit.event(cx, EventType::RuntimeSecretIssued, subject, told))
}

/// Returns a live instance of the project that the caller operates; any other is reported as missing.
async fn operated(cx: &Cx, project: ProjectId, id: InstanceId) -> Result<Instance> {
    let found = cx.platform.store.instance_lookup(id).await?;
    let found = found.filter(|instance| {
        let operates = instance.operator_account_id.to_string() == cx.actor_id();
        instance.project_id == project && operates && instance.state != InstanceState::Stopped
    });
    found.ok_or_else(|| Error::field("/instance", "you operate no such instance in this project"))
}

fn random(env: &Env, bytes: i64) -> Zeroizing<Vec<u8>> {
    let length = usize::try_from(bytes).unwrap_or_default();
    // Allocate the full length at once: a growing buffer leaves copies behind.
    let mut material = Zeroizing::new(Vec::with_capacity(length + 32));
    while material.len() < length {
        material.extend_from_slice(&*Zeroizing::new(env.bytes::<32>()));
    }
    material.truncate(length);
    material
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_as_much_randomness_as_was_asked_for() {
        let env = Env::for_tests(1);
        for length in [16, 31, 32, 33, 4096] {
            let material = random(&env, length);
            assert_eq!(material.len(), usize::try_from(length).unwrap());
            assert!(
                material.chunks(16).skip(1).all(|chunk| chunk != &material[..16]),
                "{length} repeats itself"
            );
        }
        assert_ne!(*random(&env, 32), *random(&env, 32));
    }
}
