//! Grant a project the right to launch an app, and consent to its operator.

use std::collections::BTreeSet;

use muster_api::entitlement::{EntitlementGrant, Granted};
use muster_api::{Code, FieldError};
use muster_authz::{CONTRACT_PERMISSIONS, Permission};
use muster_db::{StoreError, Tx};
use muster_ids::{EntitlementId, ProjectId, ServiceAccountId};
use muster_manifest::{AppKind, Manifest};
use muster_model::app::{App, Entitlement};
use muster_model::artifact::ArtifactState;
use muster_model::event::{EventType, NewEvent};
use muster_model::{Scope, ServiceAccount};
use serde_json::{Value, json};

use super::{path, view};
use crate::app::found as found_app;
use crate::app_version::manifest_of;
use crate::commit::target;
use crate::service_account::allow_list;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `entitlement_grant`. Granting again renews it: after a revocation, or because a newer release needs other
/// permissions. Until then running instances keep the granted ones.
pub async fn grant(cx: &Cx, project: &str, body: EntitlementGrant) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::EntitlementGrant, scope, "project")?;
    let app = found_app(cx, scope, &body.app).await?.app;
    let manifest = startable(cx, project, &app).await?;
    let asked = requested_permissions(&manifest);
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
    if !has_adapter(&manifest) {
        without_consent(&app.slug, body.consent.as_deref())?;
    }
    consented(&asked, body.consent.as_deref())?;
    let known = cx.platform.store.entitlement_of_app(project, app.id).await?;
    match known {
        Some(known) => renew(cx, scope, app, known.entitlement, permissions).await,
        None => make(cx, scope, app, permissions).await,
    }
}

/// Returns the manifest of the release that would start here.
async fn startable(cx: &Cx, project: ProjectId, app: &App) -> Result<Manifest> {
    let store = &cx.platform.store;
    let active = store.app_version_in_state(project, app.id, ArtifactState::Active).await?;
    let version = match active {
        Some(active) => Some(active),
        None => store.app_version_newest(project, app.id).await?,
    };
    let version = version.ok_or_else(|| {
        let says = format!("{} has no release yet, so its permissions are unknown: wait for one", app.slug);
        Error::new(Code::InvalidState, says)
    })?;
    manifest_of(&version.version)
}

/// Reports whether a release has an adapter.
pub(crate) fn has_adapter(manifest: &Manifest) -> bool {
    manifest.artifact_kind != AppKind::Launchable
}

/// Returns the permissions of a release's adapter: those of the contract, and those that it requests. None without an adapter.
fn requested_permissions(manifest: &Manifest) -> Vec<String> {
    if !has_adapter(manifest) {
        return Vec::new();
    }
    let contract = CONTRACT_PERMISSIONS.iter().map(|permission| permission.as_str().to_owned());
    let all: BTreeSet<String> = contract.chain(manifest.permissions.iter().cloned()).collect();
    all.into_iter().collect()
}

/// Reports whether an entitlement lets the adapter of a release work: it does not if it was made for a release without one.
pub(crate) fn admits(entitlement: &Entitlement, manifest: &Manifest) -> bool {
    // Every grant for an adapter has it.
    let lease = Permission::AdapterStepLease.as_str();
    !has_adapter(manifest) || entitlement.permissions.iter().any(|word| word == lease)
}

/// Ensures that nothing is consented to for an app without an adapter.
fn without_consent(app: &str, consent: Option<&[String]>) -> Result<()> {
    if consent.is_none_or(<[String]>::is_empty) {
        return Ok(());
    }
    let says = format!(
        "{app} has no adapter, so there is nothing to consent to: omit it, or launch the app without a grant \
         (`muster instance create {app}`)"
    );
    Err(Error::field("/consent", says))
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
    Err(Error::new(Code::InvalidRequest, says).with_fields(errors))
}

/// Prepares the first grant: creates an account for the app's adapter.
async fn make(cx: &Cx, scope: Scope, app: App, permissions: Vec<String>) -> Result<PreparedCommand> {
    let New { entitlement, account } = first(cx, scope, &app, permissions).await?;
    Ok(commit(cx, scope, app, entitlement, Account::Made(account)))
}

/// An entitlement to insert, with the account of the app's adapter.
pub(crate) struct New {
    pub(crate) entitlement: Entitlement,
    account: ServiceAccount,
}

impl New {
    /// Inserts them with a launch that needs no consent. A concurrent launch or grant makes the command start again.
    pub(crate) async fn insert(&self, tx: &mut Tx, app: &str) -> muster_db::Result<NewEvent> {
        let stale = |error| match error {
            StoreError::Conflict(_) => StoreError::Stale,
            error => error,
        };
        tx.service_account_insert(&self.account).await.map_err(stale)?;
        tx.entitlement_insert(&self.entitlement).await.map_err(stale)?;
        let data = granted_data(app, &self.entitlement, false);
        Ok((EventType::EntitlementGranted, path(&self.entitlement), data))
    }
}

/// Returns the project's first entitlement to an app. Without permissions its account is disabled: no adapter needs it.
pub(crate) async fn first(cx: &Cx, scope: Scope, app: &App, permissions: Vec<String>) -> Result<New> {
    let (tenant_id, project_id) =
        scope.tenant().zip(scope.project()).ok_or_else(|| Error::not_found("project"))?;
    let account = ServiceAccount {
        id: cx.platform.env.id::<ServiceAccountId>(),
        tenant_id,
        project_id,
        name: format!("app-{}", app.slug),
        description: format!("Operates the app {} in this project; created by an entitlement.", app.slug),
        permissions: permissions.clone(),
        disabled: permissions.is_empty(),
        labels: muster_model::Labels::default(),
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let known = cx.platform.store.service_account_by_name(project_id, &account.name).await?;
    if known.is_some() {
        let says = format!(
            "the project already has a service account {}, the name of this app's operator: remove it first",
            account.name
        );
        return Err(Error::new(Code::NameTaken, says));
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
    Ok(New { entitlement, account })
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
    let account =
        account?.ok_or_else(|| Error::from(StoreError::Corrupt("the account of an entitlement")))?;
    let account = ServiceAccount {
        disabled: permissions.is_empty(),
        permissions: permissions.clone(),
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
    let told = granted_data(&app.slug, &entitlement, renewed);
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

/// Returns the data of the event of a grant.
fn granted_data(app: &str, entitlement: &Entitlement, renewed: bool) -> Value {
    json!({"app": app, "permissions": entitlement.permissions, "renewed": renewed,
           "operator_account_id": entitlement.operator_account_id})
}

/// Maps a lost race to an error: the entitlement, its account or the app changed meanwhile.
fn raced(error: StoreError) -> Error {
    match error {
        StoreError::Conflict(_) | StoreError::Stale | StoreError::Gone(_) => Error::new(
            Code::InvalidState,
            "the entitlement, its account or the app changed at this moment: read it again, and repeat",
        ),
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
            let error = consented(&asked, given.as_deref()).unwrap_err();
            let found: Vec<&str> = error.fields.iter().map(|error| error.pointer.as_str()).collect();
            assert_eq!(found, pointers);
            assert!(error.detail.contains("a.one, b.two"), "{}", error.detail);
        }
    }
}
