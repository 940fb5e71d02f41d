//! Entitlements: one per project and app, with an account each, and their revocation.

use muster_db::{Page, Store};
use muster_model::app::{App, Audience, Entitlement};
use muster_model::{Project, ServiceAccount};

use crate::made::catalog::{granted, launched, offered, published, stopped};
use crate::made::{self, FIRST, at, fleet, is_conflict, is_gone, is_stale, put, same};

on_both![
    an_entitlement_reads_back_as_it_was_granted,
    a_project_has_one_for_an_app_and_an_account_one_in_all,
    both_sides_find_it_in_their_lists,
    it_changes_on_the_version_that_was_seen,
    a_revoked_one_starts_nothing_and_rests_its_account_once_nothing_lives,
    an_account_is_cut_off_although_something_lives_once_it_is_revoked,
    an_account_takes_a_revoked_one_along_and_no_other,
    entitlements_go_with_their_project_or_tenant,
];

async fn shelf(store: &Store) -> (Project, Project, App) {
    let (tenant, publisher) = fleet::place(store).await;
    let consumer = made::project(&tenant, "serve");
    put(store, async |tx| tx.project_insert(&consumer).await).await.unwrap();
    let app = offered(store, &publisher, "notebook", Audience::Everyone).await;
    (publisher, consumer, app)
}

async fn look(store: &Store, entitlement: &Entitlement) -> Entitlement {
    store.entitlement_lookup(entitlement.id).await.unwrap().unwrap().entitlement
}

async fn revoked(store: &Store, entitlement: &Entitlement) {
    let seen = look(store, entitlement).await;
    let after = Entitlement { revoked_at: Some(at(5)), version: seen.version + 1, ..seen };
    put(store, async |tx| tx.entitlement_update(&after).await).await.unwrap();
}

async fn an_entitlement_reads_back_as_it_was_granted(store: Store) {
    let (_, consumer, app) = shelf(&store).await;
    let (entitlement, account) = granted(&store, &consumer, &app).await;
    let found = store.entitlement_lookup(entitlement.id).await.unwrap().unwrap();
    same(&found.entitlement, &entitlement);
    assert_eq!(found.app, "notebook");
    same(&store.entitlement_of_app(consumer.id, app.id).await.unwrap().unwrap(), &found);
    same(&store.entitlement_of_account(account.id).await.unwrap().unwrap(), &found);
    assert!(store.entitlement_lookup(made::id()).await.unwrap().is_none());
    assert!(store.entitlement_of_app(made::id(), app.id).await.unwrap().is_none());
    assert!(store.entitlement_of_account(made::id()).await.unwrap().is_none());
}

async fn a_project_has_one_for_an_app_and_an_account_one_in_all(store: Store) {
    let (publisher, consumer, app) = shelf(&store).await;
    let (entitlement, account) = granted(&store, &consumer, &app).await;
    let other = made::service_account(&consumer, "another");
    let again = Entitlement { id: made::id(), operator_account_id: other.id, ..entitlement.clone() };
    is_conflict(
        put(&store, async |tx| {
            tx.service_account_insert(&other).await?;
            tx.entitlement_insert(&again).await
        })
        .await,
    );
    let second = offered(&store, &publisher, "second", Audience::Everyone).await;
    let shared = Entitlement { id: made::id(), app_id: second.id, ..entitlement.clone() };
    is_conflict(put(&store, async |tx| tx.entitlement_insert(&shared).await).await);
    let nobodys = Entitlement { operator_account_id: made::id(), ..shared };
    is_gone(put(&store, async |tx| tx.entitlement_insert(&nobodys).await).await);
    // The account cannot be removed while the entitlement exists.
    is_gone(put(&store, async |tx| tx.service_account_delete(account.id, account.version).await).await);
}

async fn both_sides_find_it_in_their_lists(store: Store) {
    let (publisher, consumer, app) = shelf(&store).await;
    let (one, _) = granted(&store, &consumer, &app).await;
    let (two, _) = granted(&store, &publisher, &app).await;
    let ids = |found: Vec<muster_db::FoundEntitlement>| {
        found.into_iter().map(|found| found.entitlement.id).collect::<Vec<_>>()
    };
    let own = async |by: &Project, page| ids(store.entitlement_list(page, by.id).await.unwrap());
    let to_its = async |by: &Project, page| ids(store.entitlement_list_published(page, by.id).await.unwrap());
    assert_eq!((own(&consumer, FIRST).await, own(&publisher, FIRST).await), (vec![one.id], vec![two.id]));
    assert_eq!(to_its(&publisher, FIRST).await, [one.id, two.id]);
    assert_eq!(to_its(&publisher, Page { size: 1, ..FIRST }).await, [one.id]);
    assert_eq!(to_its(&publisher, made::page(one.id, 9)).await, [two.id]);
    assert_eq!(to_its(&consumer, FIRST).await, []);
}

async fn it_changes_on_the_version_that_was_seen(store: Store) {
    let (_, consumer, app) = shelf(&store).await;
    let (entitlement, _) = granted(&store, &consumer, &app).await;
    let after = Entitlement {
        permissions: vec!["a.b".to_owned(), "c.d".to_owned()],
        revoked_at: Some(at(4)),
        updated_at: at(4),
        version: 2,
        ..entitlement
    };
    put(&store, async |tx| tx.entitlement_update(&after).await).await.unwrap();
    same(&look(&store, &after).await, &after);
    is_stale(put(&store, async |tx| tx.entitlement_update(&after).await).await);
}

async fn a_revoked_one_starts_nothing_and_rests_its_account_once_nothing_lives(store: Store) {
    let (_, consumer, app) = shelf(&store).await;
    let version = published(&store, &app, "1").await;
    let (entitlement, account) = granted(&store, &consumer, &app).await;
    let instance = launched(&store, &consumer, &version, &account, "mine").await;
    let starts = async || put(&store, async |tx| tx.entitlement_start(entitlement.id).await).await.unwrap();
    let rests =
        async || put(&store, async |tx| tx.entitlement_account_rest(account.id, at(6)).await).await.unwrap();
    let live = async || {
        let now = put(&store, async |tx| tx.entitlement_instances(account.id).await).await.unwrap();
        assert_eq!(store.entitlement_instances(account.id).await.unwrap(), now);
        now
    };
    let disabled = async || store.service_account_lookup(account.id).await.unwrap().unwrap().disabled;
    assert_eq!((starts().await, rests().await, live().await), (true, false, 1));
    revoked(&store, &entitlement).await;
    assert_eq!((starts().await, rests().await, disabled().await), (false, false, false));
    stopped(&store, &instance).await;
    assert_eq!((live().await, rests().await, disabled().await), (0, true, true));
    assert!(!rests().await, "only once");
    let fresh = store.service_account_lookup(account.id).await.unwrap().unwrap();
    assert_eq!(fresh.version, account.version + 1, "whoever changes it by hand must look again");
    // An account without an entitlement is never changed.
    let bystander = made::service_account(&consumer, "bystander");
    put(&store, async |tx| tx.service_account_insert(&bystander).await).await.unwrap();
    assert!(!put(&store, async |tx| tx.entitlement_account_rest(bystander.id, at(6)).await).await.unwrap());
}

async fn an_account_is_cut_off_although_something_lives_once_it_is_revoked(store: Store) {
    let (_, consumer, app) = shelf(&store).await;
    let version = published(&store, &app, "1").await;
    let (entitlement, account) = granted(&store, &consumer, &app).await;
    launched(&store, &consumer, &version, &account, "mine").await;
    let cut = async || {
        put(&store, async |tx| tx.entitlement_account_cut_off(account.id, at(6)).await).await.unwrap()
    };
    assert!(!cut().await, "not before it is revoked");
    revoked(&store, &entitlement).await;
    assert!(cut().await);
    assert!(store.service_account_lookup(account.id).await.unwrap().unwrap().disabled);
    assert!(!cut().await, "only once");
}

async fn an_account_takes_a_revoked_one_along_and_no_other(store: Store) {
    let (_, consumer, app) = shelf(&store).await;
    let (entitlement, account) = granted(&store, &consumer, &app).await;
    let taken =
        async || put(&store, async |tx| tx.entitlement_delete_of_account(account.id).await).await.unwrap();
    assert!(!taken().await);
    revoked(&store, &entitlement).await;
    assert!(taken().await);
    assert!(store.entitlement_lookup(entitlement.id).await.unwrap().is_none());
}

async fn entitlements_go_with_their_project_or_tenant(store: Store) {
    let (publisher, consumer, app) = shelf(&store).await;
    let accounts: Vec<ServiceAccount> =
        vec![granted(&store, &consumer, &app).await.1, granted(&store, &publisher, &app).await.1];
    is_gone(put(&store, async |tx| tx.app_delete_of_project(publisher.id).await).await);
    let of_project =
        async || put(&store, async |tx| tx.entitlement_delete_of_project(consumer.id).await).await.unwrap();
    assert_eq!((of_project().await, of_project().await), (1, 0));
    let tenant = publisher.tenant_id;
    assert_eq!(put(&store, async |tx| tx.entitlement_delete_of_tenant(tenant).await).await.unwrap(), 1);
    for account in accounts {
        put(&store, async |tx| tx.service_account_delete(account.id, account.version).await).await.unwrap();
    }
}
