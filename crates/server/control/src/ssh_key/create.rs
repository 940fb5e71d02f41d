//! Add an SSH key to a project, or grant a user access to the cells of one allocation.

use muster_api::Code;
use muster_api::ssh_key::SshKeyCreate;
use muster_authz::{Permission, PrincipalKind};
use muster_db::KEYS_OF_PROJECT;
use muster_ids::{AllocationId, UserId};
use muster_model::cell::SshKey;
use muster_model::event::EventType;
use muster_model::{Record as _, Scope};
use serde_json::json;

use super::public_key::parse;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Maximum number of keys per user: every node with a cell of the project receives them.
const MOST_OF_PERSON: i64 = 20;

fn too_many(whose: &str, count: i64) -> Error {
    let detail =
        format!("{whose} {count} SSH keys here, the maximum: delete one first (muster ssh-key delete)");
    Error::new(Code::QuotaExceeded, detail)
}

/// Prepares `ssh_key_create`.
pub async fn create(cx: &Cx, project: &str, body: SshKeyCreate) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::SshKeyCreate, scope, "project")?;
    let PrincipalKind::User { id: caller, .. } = cx.principal()?.kind else {
        return Err(Error::new(Code::PermissionDenied, "only a person has keys: a service account has none"));
    };
    let parsed = parse(&body.public_key).map_err(|why| Error::field("/public_key", why))?;
    if body.expires_at.is_some_and(|time| time <= cx.now) {
        return Err(Error::field("/expires_at", "it is in the past"));
    }
    let allocation_id = match &body.allocation {
        Some(reference) => Some(living_allocation(cx, project, reference).await?),
        None => None,
    };
    let user_id = owner(cx, scope, caller, &body).await?;
    let person = if user_id == caller { "you have" } else { "this person has" };
    let tenant_id = scope.tenant().ok_or_else(|| Error::not_found("project"))?;
    let key = SshKey {
        id: cx.platform.env.id(),
        tenant_id,
        project_id,
        user_id,
        name: body.name,
        public_key: parsed.line,
        fingerprint: parsed.fingerprint,
        allocation_id,
        expires_at: body.expires_at,
        granted_by: (user_id != caller).then_some(caller),
        created_at: cx.now,
        version: 1,
    };
    let (subject, named) = (key.path(), key.target());
    let told = json!({"name": key.name, "user_id": user_id, "fingerprint": key.fingerprint,
                      "allocation_id": key.allocation_id, "expires_at": key.expires_at});
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            // Counted here: parallel requests would all find room before the first of them is carried out.
            let (of_person, all) = tx.ssh_key_count(project_id, user_id).await?;
            if of_person >= MOST_OF_PERSON {
                return Err(too_many(person, of_person));
            }
            if all >= KEYS_OF_PROJECT {
                return Err(too_many("the project has", all));
            }
            tx.insert_record(&key).await?;
            tx.bump_desired_people(tenant_id).await?;
            Ok(Answer::new(&key))
        })
    });
    Ok(commit.event(cx, EventType::SshKeyCreated, subject, told))
}

/// Returns the user that the key is for. A grant to another user is limited to an allocation and a time, and requires the
/// permission to bind a role.
async fn owner(cx: &Cx, scope: Scope, caller: UserId, body: &SshKeyCreate) -> Result<UserId> {
    let Some(reference) = &body.user else { return Ok(caller) };
    let absent = || Error::field("/user", "no such person in this tenant");
    let user = cx.user(reference).await.map_err(|_| absent())?;
    if user.id == caller {
        return Ok(caller);
    }
    if user.tenant_id != scope.tenant() {
        return Err(absent());
    }
    cx.authorize(Permission::RoleBindingCreate, scope, "project")?;
    for (field, is_given) in
        [("/allocation", body.allocation.is_some()), ("/expires_at", body.expires_at.is_some())]
    {
        if !is_given {
            return Err(Error::field(field, "required in a grant for another person"));
        }
    }
    Ok(user.id)
}

async fn living_allocation(cx: &Cx, project: &str, reference: &str) -> Result<AllocationId> {
    let found = cx.allocation(project, reference).await;
    let allocation = found.map_err(|_| Error::field("/allocation", "no such allocation in this project"))?;
    if allocation.state.is_final() {
        let why = format!("the allocation is {}", allocation.state.as_str());
        return Err(Error::field("/allocation", why));
    }
    Ok(allocation.id)
}
