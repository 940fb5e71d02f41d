//! Apps: visibility, unique slugs, and the guards against removal.

use muster_db::{AppHolds, FoundApp, Page, Store};
use muster_model::app::{App, Audience};
use muster_model::artifact::ArtifactState;
use muster_model::{LabelSelector, Project, Tenant};
use muster_testkit::Database;

use crate::concurrency::{race, replicas};
use crate::made::catalog::{app, brought, granted, launched, offered, published, stopped};
use crate::made::{self, FIRST, at, fleet, is_conflict, is_gone, is_stale, put, same, selector};

on_both![
    an_app_reads_back_as_it_was_made,
    a_slug_means_one_app_to_everybody,
    audience_and_present_or_past_entitlement_make_an_app_visible,
    app_shows_its_active_and_canary_versions,
    an_app_changes_on_the_version_that_was_seen,
    an_app_goes_with_its_releases_unless_somebody_has_something_of_it,
    holds_of_others_on_a_publishers_apps_are_counted,
    apps_go_with_their_project_or_tenant,
];

async fn found(store: &Store, by: &Project, app: &App) -> Option<FoundApp> {
    let one = store.app_found(by.id, by.tenant_id, app.id).await.unwrap();
    let other = store.app_found_by_slug(by.id, by.tenant_id, &app.slug).await.unwrap();
    same(&one, &other);
    one
}

async fn list(store: &Store, by: &Project, page: Page, labels: &LabelSelector, own: bool) -> Vec<String> {
    let all = store.app_list(page, labels, by.id, by.tenant_id, own).await.unwrap();
    all.into_iter().map(|found| found.app.slug).collect()
}

/// Creates a publisher, a sibling project, and a foreign project.
async fn places(store: &Store) -> (Tenant, [Project; 3]) {
    let (tenant, publisher) = fleet::place(store).await;
    let (other, sibling) = (made::tenant("globex"), made::project(&tenant, "serve"));
    let stranger = made::project(&other, "lab");
    put(store, async |tx| {
        tx.tenant_insert(&other).await?;
        tx.project_insert(&sibling).await?;
        tx.project_insert(&stranger).await
    })
    .await
    .unwrap();
    (tenant, [publisher, sibling, stranger])
}

async fn an_app_reads_back_as_it_was_made(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let app = App {
        description: "a thing".to_owned(),
        labels: made::labels([("team", "ml")]),
        ..app(&project, "notebook")
    };
    put(&store, async |tx| tx.app_insert(&app).await).await.unwrap();
    let shown = found(&store, &project, &app).await.unwrap();
    same(&shown.app, &app);
    assert_eq!((shown.active_version, shown.canary_version, shown.entitled), (None, None, false));
    let absent = made::project(&made::tenant("x"), "y");
    is_gone(
        put(&store, async |tx| tx.app_insert(&crate::made::catalog::app(&absent, "elsewhere")).await).await,
    );
}

async fn a_slug_means_one_app_to_everybody(store: Store) {
    let (_, [publisher, _, stranger]) = places(&store).await;
    offered(&store, &publisher, "notebook", Audience::Project).await;
    is_conflict(put(&store, async |tx| tx.app_insert(&app(&stranger, "notebook")).await).await);
    offered(&store, &stranger, "notebooks", Audience::Project).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_take_a_slug_at_once_one_has_it() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let (_, project) = fleet::place(&stores[0]).await;
    for round in 0..5 {
        let project = project.clone();
        let answers = race(&stores, move |_, store| {
            let app = app(&project, &format!("app-{round}"));
            async move { put(&store, async |tx| tx.app_insert(&app).await).await }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        answers.into_iter().filter(|answer| answer.is_err()).for_each(is_conflict);
    }
}

async fn audience_and_present_or_past_entitlement_make_an_app_visible(store: Store) {
    let (_, [publisher, sibling, stranger]) = places(&store).await;
    let shown = async |app: &App| {
        let mut by = Vec::new();
        for project in [&publisher, &sibling, &stranger] {
            by.push(found(&store, project, app).await.is_some());
        }
        by
    };
    let own = offered(&store, &publisher, "own", Audience::Project).await;
    let tenants = offered(&store, &publisher, "tenants", Audience::Tenant).await;
    let everyones = offered(&store, &publisher, "everyones", Audience::Everyone).await;
    assert_eq!(shown(&own).await, [true, false, false]);
    assert_eq!(shown(&tenants).await, [true, true, false]);
    assert_eq!(shown(&everyones).await, [true, true, true]);
    let all = selector("");
    assert_eq!(list(&store, &publisher, FIRST, &all, false).await, ["own", "tenants", "everyones"]);
    assert_eq!(list(&store, &sibling, FIRST, &all, false).await, ["tenants", "everyones"]);
    assert_eq!(list(&store, &stranger, FIRST, &all, false).await, ["everyones"]);
    assert_eq!(list(&store, &stranger, FIRST, &all, true).await, Vec::<String>::new());
    assert_eq!(list(&store, &publisher, Page { size: 2, ..FIRST }, &all, true).await, ["own", "tenants"]);
    assert_eq!(list(&store, &publisher, made::page(tenants.id, 5), &all, true).await, ["everyones"]);
    assert_eq!(list(&store, &publisher, FIRST, &selector("team=ml"), false).await, Vec::<String>::new());
    // An app stays visible to a project that was entitled to it, even after a revocation.
    let (mut entitlement, _) = granted(&store, &stranger, &own).await;
    assert_eq!(shown(&own).await, [true, false, true]);
    assert!(found(&store, &stranger, &own).await.unwrap().entitled);
    assert!(!found(&store, &publisher, &own).await.unwrap().entitled, "entitled is who looks, not anybody");
    entitlement.revoked_at = Some(at(5));
    entitlement.version = 2;
    put(&store, async |tx| tx.entitlement_update(&entitlement).await).await.unwrap();
    assert_eq!(shown(&own).await, [true, false, true]);
    assert!(!found(&store, &stranger, &own).await.unwrap().entitled);
}

async fn app_shows_its_active_and_canary_versions(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let app = offered(&store, &project, "notebook", Audience::Project).await;
    let (one, two) = (published(&store, &app, "1").await, published(&store, &app, "2").await);
    brought(&store, &one, ArtifactState::Active).await;
    brought(&store, &two, ArtifactState::Canary).await;
    let shown = found(&store, &project, &app).await.unwrap();
    assert_eq!((shown.active_version.as_deref(), shown.canary_version.as_deref()), (Some("1"), Some("2")));
}

async fn an_app_changes_on_the_version_that_was_seen(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let app = offered(&store, &project, "notebook", Audience::Project).await;
    let after = App {
        display_name: "Notebook".to_owned(),
        description: "new".to_owned(),
        audience: Audience::Everyone,
        labels: made::labels([("team", "ml")]),
        updated_at: at(4),
        version: 2,
        ..app.clone()
    };
    put(&store, async |tx| tx.app_update(&after).await).await.unwrap();
    same(&found(&store, &project, &app).await.unwrap().app, &after);
    is_stale(put(&store, async |tx| tx.app_update(&after).await).await);
    assert_eq!(list(&store, &project, FIRST, &selector("team=ml"), true).await, ["notebook"]);
}

async fn an_app_goes_with_its_releases_unless_somebody_has_something_of_it(store: Store) {
    let (_, [publisher, _, stranger]) = places(&store).await;
    let app = offered(&store, &publisher, "notebook", Audience::Everyone).await;
    let (one, two) = (published(&store, &app, "1").await, published(&store, &app, "2").await);
    let one = brought(&store, &one, ArtifactState::Active).await;
    let old = muster_model::app::AppVersion {
        superseded_by: Some(two.id),
        ..made::catalog::to(&one, ArtifactState::Deprecated)
    };
    made::catalog::step(&store, &one, &old).await.unwrap();
    let (mut entitlement, account) = granted(&store, &stranger, &app).await;
    let held = async || put(&store, async |tx| tx.app_held(app.id).await).await.unwrap();
    let delete = async || put(&store, async |tx| tx.app_delete(app.id, app.version).await).await;
    assert_eq!(held().await, AppHolds { entitlements: 1, instances: 0 });
    is_gone(delete().await);
    let instance = launched(&store, &stranger, &two, &account, "mine").await;
    assert_eq!(held().await, AppHolds { entitlements: 1, instances: 1 });
    entitlement.revoked_at = Some(at(5));
    entitlement.version = 2;
    put(&store, async |tx| tx.entitlement_update(&entitlement).await).await.unwrap();
    is_gone(delete().await);
    stopped(&store, &instance).await;
    assert_eq!(held().await, AppHolds { entitlements: 0, instances: 1 }, "a record is somebody's");
    is_gone(delete().await);
    put(&store, async |tx| tx.instance_delete_of_project(stranger.id).await).await.unwrap();
    is_stale(put(&store, async |tx| tx.app_delete(app.id, 7).await).await);
    assert!(found(&store, &publisher, &app).await.is_some(), "refused, it takes nothing along");
    assert_eq!(delete().await.unwrap(), 2);
    assert!(found(&store, &publisher, &app).await.is_none());
    assert!(store.entitlement_lookup(entitlement.id).await.unwrap().is_none());
    assert!(
        store.service_account_lookup(account.id).await.unwrap().is_some(),
        "the account is the consumer's"
    );
}

async fn holds_of_others_on_a_publishers_apps_are_counted(store: Store) {
    let (tenant, [publisher, sibling, stranger]) = places(&store).await;
    let app = offered(&store, &publisher, "notebook", Audience::Everyone).await;
    let version = published(&store, &app, "1").await;
    let (_, own) = granted(&store, &publisher, &app).await;
    launched(&store, &publisher, &version, &own, "own").await;
    let of_project =
        async || put(&store, async |tx| tx.app_held_by_others(publisher.id).await).await.unwrap();
    let of_tenant =
        async || put(&store, async |tx| tx.app_held_by_other_tenants(tenant.id).await).await.unwrap();
    let none = AppHolds { entitlements: 0, instances: 0 };
    assert_eq!((of_project().await, of_tenant().await), (none, none), "one's own do not count");
    let (_, theirs) = granted(&store, &sibling, &app).await;
    launched(&store, &sibling, &version, &theirs, "theirs").await;
    let one = AppHolds { entitlements: 1, instances: 1 };
    assert_eq!((of_project().await, of_tenant().await), (one, none));
    granted(&store, &stranger, &app).await;
    assert_eq!(of_project().await, AppHolds { entitlements: 2, instances: 1 });
    assert_eq!(of_tenant().await, AppHolds { entitlements: 1, instances: 0 });
}

async fn apps_go_with_their_project_or_tenant(store: Store) {
    let (tenant, [publisher, sibling, stranger]) = places(&store).await;
    for (project, slug) in
        [(&publisher, "one"), (&publisher, "two"), (&sibling, "three"), (&stranger, "four")]
    {
        let app = offered(&store, project, slug, Audience::Everyone).await;
        published(&store, &app, "1").await;
    }
    let of_project =
        async || put(&store, async |tx| tx.app_delete_of_project(publisher.id).await).await.unwrap();
    assert_eq!((of_project().await, of_project().await), (2, 0));
    assert_eq!(put(&store, async |tx| tx.app_delete_of_tenant(tenant.id).await).await.unwrap(), 1);
    assert_eq!(list(&store, &publisher, FIRST, &selector(""), false).await, ["four"]);
}
