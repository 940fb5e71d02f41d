//! Grant a project the right to launch an app, and consent to its operator.

use std::collections::BTreeSet;

use muster_api::entitlement::{EntitlementGrant, Granted};
use muster_api::{Code, FieldError, Problem};
use muster_authz::{CONTRACT_PERMISSIONS, Permission};
use muster_db::StoreError;
use muster_ids::{EntitlementId, ProjectId, ServiceAccountId};
use muster_model::app::{App, Entitlement};
use muster_model::artifact::ArtifactState;
use muster_model::event::EventType;
use muster_model::{Scope, ServiceAccount};
use serde_json::json;

use super::{path, view};
use crate::app::found as found_app;
use crate::app_version::manifest_of;
use crate::commit::{WriteError, target};
use crate::refuse::{Result, refuse};
use crate::service_account::allow_list;
use crate::{Answer, Cx, PreparedCommand};

/// Prepares `entitlement_grant`. Granting again renews it: after a revocation, or because a newer release needs other
/// permissions. Until then running instances keep the granted ones.
pub async fn grant(cx: &Cx, project: &str, body: EntitlementGrant) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::EntitlementGrant, scope, "project")?;
    let app = found_app(cx, scope, &body.app).await?.app;
    let asked = asked_for(cx, project, &app).await?;
    // A dry run validates everything that the grant would reject.
    let permissions = allow_list(cx, scope, "/consent", asked.clone())?;
    if body.dry_run.unwrap_or(false) {
        let told = json!({"dry_run": true, "app": app.slug});
        let answer = Answer::new(&Granted { entitlement: None, permissions: asked });
        let commit = PreparedCommand::new(scope, target("app", app.id, &app.slug), move |_| {
            Box::pin(async move { Ok(answer) })
        });
        return Ok(commit.detail(told));
    }
    consented(&asked, body.consent.as_deref())?;
    let known = cx.platform.store.entitlement_of_app(project, app.id).await.map_err(refuse)?;
    match known {
        Some(known) => renew(cx, scope, app, known.entitlement, permissions).await,
        None => make(cx, scope, app, permissions).await,
    }
}

/// Returns the permissions of the app's adapter: those of the contract, and those requested by the release that would start
/// here.
async fn asked_for(cx: &Cx, project: ProjectId, app: &App) -> Result<Vec<String>> {
    let store = &cx.platform.store;
    let active = store.app_version_in_state(project, app.id, ArtifactState::Active).await.map_err(refuse)?;
    let version = match active {
        Some(active) => Some(active),
        None => store.app_version_newest(project, app.id).await.map_err(refuse)?,
    };
    let version = version.ok_or_else(|| {
        let says = format!("{} has no release yet, so its permissions are unknown: wait for one", app.slug);
        Problem::new(Code::InvalidState, says)
    })?;
    let manifest = manifest_of(&version.version)?;
    let contract = CONTRACT_PERMISSIONS.iter().map(|permission| permission.as_str().to_owned());
    let all: BTreeSet<String> = contract.chain(manifest.permissions).collect();
    Ok(all.into_iter().collect())
}

/// Ensures that the consent matches the requested permissions exactly: a longer or shorter list was not read by the user.
fn consented(asked: &[String], consent: Option<&[String]>) -> Result<()> {
    let given = consent.unwrap_or_default();
    let mut errors: Vec<FieldError> = given
        .iter()
        .enumerate()
        .filter(|(_, word)| !asked.contains(word))
        .map(|(at, word)| FieldError {
            pointer: format!("/consent/{at}"),
            detail: format!("the app does not request `{word}`"),
        })
        .collect();
    let missing = asked.iter().filter(|word| !given.contains(word));
    errors.extend(missing.map(|word| FieldError {
        pointer: "/consent".to_owned(),
        detail: format!("the app requests `{word}`, which is not consented to"),
    }));
    if errors.is_empty() {
        return Ok(());
    }
    let says = format!("/consent: consent to exactly what the app requests: {}", asked.join(", "));
    Err(Problem::new(Code::InvalidRequest, says).with_errors(errors))
}

/// Prepares the first grant: creates an account for the app's adapter.
async fn make(cx: &Cx, scope: Scope, app: App, permissions: Vec<String>) -> Result<PreparedCommand> {
    let (tenant_id, project_id) =
        scope.tenant().zip(scope.project()).ok_or_else(|| Problem::not_found("project"))?;
    let account = ServiceAccount {
        id: cx.platform.env.id::<ServiceAccountId>(),
        tenant_id,
        project_id,
        name: format!("app-{}", app.slug),
        description: format!("Operates the app {} in this project; created by an entitlement.", app.slug),
        permissions: permissions.clone(),
        disabled: false,
        labels: muster_model::Labels::default(),
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let known = cx.platform.store.service_account_by_name(project_id, &account.name).await.map_err(refuse)?;
    if known.is_some() {
        let says = format!(
            "the project already has a service account {}, the name of this app's operator: remove it first",
            account.name
        );
        return Err(Problem::new(Code::NameTaken, says));
    }
    let entitlement = Entitlement {
        id: cx.platform.env.id::<EntitlementId>(),
        tenant_id,
        project_id,
        app_id: app.id,
        publisher_project_id: app.project_id,
        operator_account_id: account.id,
        permissions,
        revoked_at: None,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    Ok(commit(cx, scope, app, entitlement, Account::Made(account)))
}

/// Prepares a renewal with the permissions consented to now.
async fn renew(
    cx: &Cx,
    scope: Scope,
    app: App,
    entitlement: Entitlement,
    permissions: Vec<String>,
) -> Result<PreparedCommand> {
    let account = cx.platform.store.service_account_lookup(entitlement.operator_account_id).await;
    let account = account
        .map_err(refuse)?
        .ok_or_else(|| refuse(StoreError::Corrupt("the account of an entitlement")))?;
    let account = ServiceAccount {
        permissions: permissions.clone(),
        disabled: false,
        updated_at: cx.now,
        version: account.version + 1,
        ..account
    };
    let before = view(&entitlement, &app.slug);
    let entitlement = Entitlement {
        permissions,
        revoked_at: None,
        updated_at: cx.now,
        version: entitlement.version + 1,
        ..entitlement
    };
    Ok(commit(cx, scope, app, entitlement, Account::Changed(account)).before(&before))
}

/// Account of the app's adapter.
enum Account {
    Made(ServiceAccount),
    Changed(ServiceAccount),
}

fn commit(cx: &Cx, scope: Scope, app: App, entitlement: Entitlement, account: Account) -> PreparedCommand {
    let renewed = matches!(account, Account::Changed(_));
    let told = json!({"app": app.slug, "permissions": entitlement.permissions, "renewed": renewed,
        "operator_account_id": entitlement.operator_account_id});
    let (subject, named) = (path(&entitlement), target("entitlement", entitlement.id, &app.slug));
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            match &account {
                Account::Made(account) => {
                    tx.service_account_insert(account).await.map_err(raced)?;
                    tx.entitlement_insert(&entitlement).await.map_err(raced)?;
                }
                Account::Changed(account) => {
                    tx.service_account_update(account).await.map_err(raced)?;
                    tx.entitlement_update(&entitlement).await.map_err(raced)?;
                }
            }
            let permissions = entitlement.permissions.clone();
            Ok(Answer::new(&Granted { entitlement: Some(view(&entitlement, &app.slug)), permissions }))
        })
    });
    // The account's permissions may have shrunk.
    commit.revokes().event(cx, EventType::EntitlementGranted, subject, told)
}

/// Maps a lost race to an error: the entitlement, its account or the app changed meanwhile.
fn raced(error: StoreError) -> WriteError {
    match error {
        StoreError::Conflict(_) | StoreError::Stale | StoreError::Gone(_) => Problem::new(
            Code::InvalidState,
            "the entitlement, its account or the app changed at this moment: read it again, and repeat",
        )
        .into(),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_is_to_exactly_what_is_asked_for() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let asked = words(&["a.one", "b.two"]);
        assert!(consented(&asked, Some(&words(&["b.two", "a.one"]))).is_ok(), "the order says nothing");
        for (given, pointers) in [
            (None, vec!["/consent", "/consent"]),
            (Some(words(&["a.one"])), vec!["/consent"]),
            (Some(words(&["a.one", "b.two", "c.three"])), vec!["/consent/2"]),
            (Some(words(&["x.y", "a.one"])), vec!["/consent/0", "/consent"]),
        ] {
            let problem = consented(&asked, given.as_deref()).unwrap_err();
            let found: Vec<&str> = problem.errors.iter().map(|error| error.pointer.as_str()).collect();
            assert_eq!(found, pointers);
            assert!(problem.detail.contains("a.one, b.two"), "{}", problem.detail);
        }
    }
}
