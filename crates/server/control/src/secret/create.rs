//! Create a secret for a project's apps.

use muster_api::Code;
use muster_api::secret::SecretCreate;
use muster_authz::Permission;
use muster_ids::{ProjectId, SecretId};
use muster_model::Record as _;
use muster_model::event::EventType;
use muster_model::secret::ProjectSecret;
use serde_json::json;

use super::content::content;
use crate::artifact::credential::RegistryHost;
use crate::tenant::counted;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `secret_create`.
pub async fn create(cx: &Cx, project: &str, body: SecretCreate) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::SecretCreate, scope, "project")?;
    let content = content(body.value, body.encoding)?;
    let registry = match &body.registry {
        None => None,
        Some(registry) => Some(RegistryHost::parse(registry).ok_or_else(|| {
            let why = "name a host, with a port if it is not the default: registry.example:5000";
            Error::field("/registry", why)
        })?),
    };
    refuse_taken(cx, project_id, &body.name).await?;
    let tenant_id = scope.tenant().ok_or_else(|| Error::not_found("project"))?;
    let platform = &cx.platform;
    let id: SecretId = platform.env.id();
    let context = ProjectSecret::context(id, 1);
    let sealed = platform.envelope.seal(&platform.store, &scope.chain(), &context, &content).await?;
    let secret = ProjectSecret {
        id,
        tenant_id,
        project_id,
        name: body.name,
        registry: registry.map(|registry| registry.as_str().to_owned()),
        revision: 1,
        size: counted(content.len() as u64),
        sealed,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let (subject, named) = (secret.path(), secret.target());
    let told = json!({"name": secret.name, "revision": secret.revision, "registry": secret.registry});
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.insert_record(&secret).await?;
            Ok(Answer::new(&secret))
        })
    });
    Ok(commit.event(cx, EventType::SecretCreated, subject, told))
}

/// Rejects a taken name with a hint: the unique index decides, but its error cannot explain that a second create usually
/// means a rotation.
async fn refuse_taken(cx: &Cx, project: ProjectId, name: &str) -> Result<()> {
    match cx.platform.store.find_by_name::<ProjectSecret>(project, name).await? {
        None => Ok(()),
        Some(_) => Err(Error::new(
            Code::NameTaken,
            format!(
                "a secret {name} already exists: rotate it with `muster secret rotate {name}`, or choose another name"
            ),
        )),
    }
}
