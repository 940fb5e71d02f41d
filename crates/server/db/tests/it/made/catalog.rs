//! Apps, their releases, entitlements and instances.

use muster_db::{Result, Store};
use muster_model::adapter::{Adapter, AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::app::{App, AppVersion, Audience, Entitlement};
use muster_model::artifact::{ArtifactState, Change};
use muster_model::instance::{Instance, InstanceState, NewInstance};
use muster_model::member::{Member, NewMember};
use muster_model::{Labels, Project, ServiceAccount};
use serde_json::json;

use super::{at, id, put, service_account};

pub(crate) fn app(project: &Project, slug: &str) -> App {
    App {
        id: id(),
        tenant_id: project.tenant_id,
        project_id: project.id,
        slug: slug.to_owned(),
        display_name: slug.to_uppercase(),
        description: String::new(),
        audience: Audience::Project,
        labels: Labels::new(),
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

/// Creates an app.
pub(crate) async fn offered(store: &Store, project: &Project, slug: &str, audience: Audience) -> App {
    let app = App { audience, ..app(project, slug) };
    put(store, async |tx| tx.app_insert(&app).await).await.unwrap();
    app
}

pub(crate) fn version(app: &App, name: &str) -> AppVersion {
    AppVersion {
        id: id(),
        tenant_id: app.tenant_id,
        project_id: app.project_id,
        app_id: app.id,
        name: name.to_owned(),
        manifest: json!({"app": app.slug, "version": name}),
        digest: format!("sha256:{name}"),
        state: ArtifactState::Draft,
        canary_percent: None,
        superseded_by: None,
        deprecated_at: None,
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

pub(crate) fn change(before: Option<ArtifactState>, after: ArtifactState) -> Change {
    Change { before, after, actor_id: "usr_1".to_owned(), reason: "a test".to_owned(), at: at(3) }
}

/// Publishes a release without artifacts.
pub(crate) async fn published(store: &Store, app: &App, name: &str) -> AppVersion {
    let version = version(app, name);
    let first = change(None, ArtifactState::Draft);
    put(store, async |tx| tx.app_version_publish(&version, &[], &first).await).await.unwrap();
    version
}

/// Returns the same release in another state, with everything the state requires.
pub(crate) fn to(before: &AppVersion, state: ArtifactState) -> AppVersion {
    let late = matches!(state, ArtifactState::Deprecated | ArtifactState::Retired);
    AppVersion {
        state,
        canary_percent: (state == ArtifactState::Canary).then_some(10),
        deprecated_at: late.then(|| at(7)),
        ..before.clone()
    }
}

pub(crate) async fn step(store: &Store, before: &AppVersion, after: &AppVersion) -> Result<()> {
    put(store, async |tx| tx.app_version_move(before, after, at(9)).await).await
}

/// Moves a release forward, step by step.
pub(crate) async fn brought(store: &Store, version: &AppVersion, to_state: ArtifactState) -> AppVersion {
    let look =
        async || store.app_version_lookup(version.project_id, version.id).await.unwrap().unwrap().version;
    let mut seen = look().await;
    let from = seen.state;
    for state in ArtifactState::ALL.iter().copied().filter(|state| *state > from && *state <= to_state) {
        step(store, &seen, &to(&seen, state)).await.unwrap();
        seen = look().await;
    }
    assert_eq!(seen.state, to_state);
    seen
}

/// Creates an entitlement with its operator account.
pub(crate) async fn granted(store: &Store, project: &Project, app: &App) -> (Entitlement, ServiceAccount) {
    let account = service_account(project, &format!("app-{}", app.slug));
    let entitlement = Entitlement {
        id: id(),
        tenant_id: project.tenant_id,
        project_id: project.id,
        app_id: app.id,
        publisher_project_id: app.project_id,
        operator_account_id: account.id,
        permissions: vec!["adapter_step.lease".to_owned()],
        revoked_at: None,
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    };
    put(store, async |tx| {
        tx.service_account_insert(&account).await?;
        tx.entitlement_insert(&entitlement).await
    })
    .await
    .unwrap();
    (entitlement, account)
}

/// Creates a requested instance in the network of its project's cells.
pub(crate) async fn launched(
    store: &Store,
    project: &Project,
    version: &AppVersion,
    account: &ServiceAccount,
    name: &str,
) -> Instance {
    let (tenant, place) = (project.tenant_id, project.id);
    let network = put(store, async |tx| tx.network_ensure(id(), tenant, place, "default", at(0)).await);
    let instance = Instance::requested(NewInstance {
        id: id(),
        tenant_id: tenant,
        project_id: place,
        app_id: version.app_id,
        app_version_id: version.id,
        operator_account_id: account.id,
        network_id: network.await.unwrap().id,
        name: name.to_owned(),
        now: at(0),
    });
    put(store, async |tx| tx.instance_request(&instance).await).await.unwrap();
    instance
}

/// Stops an instance, with evidence.
pub(crate) async fn stopped(store: &Store, instance: &Instance) {
    use muster_ids::TypedId as _;
    use muster_model::witness::Transition;
    let evidence = super::fleet::witnessed(store, instance.id.uuid(), Transition::Stopped).await;
    for state in [InstanceState::Stopping, InstanceState::Stopped] {
        let before = store.instance_lookup(instance.id).await.unwrap().unwrap();
        let after = Instance { state, stopped_witness_id: Some(evidence.id), ..before.clone() };
        put(store, async |tx| tx.instance_move(&before, &after, at(9)).await).await.unwrap();
    }
}

/// Creates a member that runs this release, as far as the database knows.
pub(crate) async fn member(store: &Store, instance: &Instance, version: &AppVersion, name: &str) -> Member {
    let new = NewMember {
        id: id(),
        instance,
        component_key: "worker",
        ordinal: 1,
        allocation_id: None,
        operation_id: id(),
        correlation_id: "c-1",
        now: at(0),
    };
    let asked = Member { name: name.to_owned(), operation_id: None, ..Member::requested(new) };
    let runs = Member { app_version_id: Some(version.id), ..asked.clone() };
    put(store, async |tx| {
        tx.member_request(&asked).await?;
        tx.member_move(&asked, &runs, at(1)).await
    })
    .await
    .unwrap();
    store.member_lookup(asked.id).await.unwrap().unwrap()
}

pub(crate) fn adapter(account: &ServiceAccount, name: &str, seconds: i64) -> Adapter {
    Adapter {
        id: id(),
        tenant_id: account.tenant_id,
        project_id: account.project_id,
        service_account_id: account.id,
        name: name.to_owned(),
        adapter_version: "0.1.0".to_owned(),
        contract_version: 1,
        created_at: at(seconds),
        seen_at: at(seconds),
    }
}

/// Builds a queued adapter step.
pub(crate) fn adapter_step(instance: &Instance, key: &str) -> AdapterStep {
    AdapterStep {
        id: id(),
        tenant_id: instance.tenant_id,
        project_id: instance.project_id,
        app_id: instance.app_id,
        instance_id: instance.id,
        member_id: None,
        incarnation: 0,
        operation_id: Some(id()),
        key: key.to_owned(),
        verb: AdapterVerb::Join,
        operator_account_id: instance.operator_account_id,
        input: json!({}),
        state: AdapterStepState::Queued,
        generation: 0,
        holder: String::new(),
        leased_until: None,
        due_at: at(0),
        attempts: 0,
        message: None,
        percent: None,
        reason: None,
        adapter_detail: None,
        correlation_id: "c-1".to_owned(),
        created_at: at(0),
        expires_at: at(600),
        finished_at: None,
    }
}
