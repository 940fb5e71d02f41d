//! Service accounts.

use muster_db::{Page, Store};
use muster_model::{LabelSelector, Project, ServiceAccount, Tenant};

use crate::made::{self, FIRST, put, same};

on_both![
    an_account_is_found_by_id_and_by_name,
    a_name_is_unique_in_its_project,
    an_account_needs_its_project,
    an_update_needs_the_version_before,
    accounts_are_deleted_one_by_one_by_project_and_by_tenant,
    lists_page_and_select,
];

struct Place {
    acme: Tenant,
    train: Project,
    serve: Project,
}

async fn place(store: &Store) -> Place {
    let acme = made::tenant("acme");
    let (train, serve) = (made::project(&acme, "train"), made::project(&acme, "serve"));
    put(store, async |tx| {
        tx.tenant_insert(&acme).await?;
        tx.project_insert(&train).await?;
        tx.project_insert(&serve).await
    })
    .await
    .unwrap();
    Place { acme, train, serve }
}

async fn insert(store: &Store, accounts: &[&ServiceAccount]) -> muster_db::Result<()> {
    put(store, async |tx| {
        for account in accounts {
            tx.service_account_insert(account).await?;
        }
        Ok(())
    })
    .await
}

async fn an_account_is_found_by_id_and_by_name(store: Store) {
    let place = place(&store).await;
    let mut account = made::service_account(&place.train, "ci");
    account.description = "builds; ships".to_owned();
    account.disabled = true;
    account.labels = made::labels([("a", "b")]);
    let bare = ServiceAccount { permissions: Vec::new(), ..made::service_account(&place.train, "bare") };
    insert(&store, &[&account, &bare]).await.unwrap();
    same(&store.service_account_lookup(account.id).await.unwrap(), &Some(&account));
    same(&store.service_account_by_name(place.train.id, "ci").await.unwrap(), &Some(&account));
    same(&store.service_account_by_name(place.train.id, "bare").await.unwrap(), &Some(&bare));
    assert!(store.service_account_by_name(place.serve.id, "ci").await.unwrap().is_none());
    assert!(store.service_account_lookup(made::id()).await.unwrap().is_none());
}

async fn a_name_is_unique_in_its_project(store: Store) {
    let place = place(&store).await;
    insert(&store, &[&made::service_account(&place.train, "ci")]).await.unwrap();
    made::is_conflict(insert(&store, &[&made::service_account(&place.train, "ci")]).await);
    insert(&store, &[&made::service_account(&place.serve, "ci")]).await.unwrap();
}

async fn an_account_needs_its_project(store: Store) {
    let place = place(&store).await;
    let nowhere = made::project(&place.acme, "nowhere");
    made::is_gone(insert(&store, &[&made::service_account(&nowhere, "ci")]).await);
}

async fn an_update_needs_the_version_before(store: Store) {
    let place = place(&store).await;
    let (mut account, other) =
        (made::service_account(&place.train, "ci"), made::service_account(&place.train, "cd"));
    insert(&store, &[&account, &other]).await.unwrap();
    account.description = "new".to_owned();
    account.permissions = vec!["webhook.create".to_owned()];
    account.disabled = true;
    account.labels = made::labels([("x", "y")]);
    account.updated_at = made::at(5);
    account.version = 2;
    put(&store, async |tx| tx.service_account_update(&account).await).await.unwrap();
    same(&store.service_account_lookup(account.id).await.unwrap(), &Some(&account));
    let late = ServiceAccount { disabled: false, permissions: Vec::new(), ..account.clone() };
    made::is_stale(put(&store, async |tx| tx.service_account_update(&late).await).await);
    same(&store.service_account_lookup(account.id).await.unwrap(), &Some(&account));
    same(&store.service_account_lookup(other.id).await.unwrap(), &Some(&other));
}

async fn accounts_are_deleted_one_by_one_by_project_and_by_tenant(store: Store) {
    let place = place(&store).await;
    let (first, second) =
        (made::service_account(&place.train, "a"), made::service_account(&place.train, "b"));
    let globex = made::tenant("globex");
    let lab = made::project(&globex, "lab");
    let (third, foreign) = (made::service_account(&place.serve, "c"), made::service_account(&lab, "d"));
    put(&store, async |tx| {
        tx.tenant_insert(&globex).await?;
        tx.project_insert(&lab).await
    })
    .await
    .unwrap();
    insert(&store, &[&first, &second, &third, &foreign]).await.unwrap();
    made::is_stale(put(&store, async |tx| tx.service_account_delete(first.id, 2).await).await);
    put(&store, async |tx| tx.service_account_delete(first.id, 1).await).await.unwrap();
    assert!(store.service_account_lookup(first.id).await.unwrap().is_none());

    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.service_account_delete_of_project(place.train.id).await.unwrap(), 1);
    assert_eq!(tx.service_account_delete_of_project(place.train.id).await.unwrap(), 0);
    tx.rollback().await;
    assert_eq!(
        put(&store, async |tx| tx.service_account_delete_of_tenant(place.acme.id).await).await.unwrap(),
        2
    );
    assert!(store.service_account_lookup(third.id).await.unwrap().is_none());
    same(&store.service_account_lookup(foreign.id).await.unwrap(), &Some(&foreign));
}

async fn lists_page_and_select(store: Store) {
    let place = place(&store).await;
    let accounts: Vec<ServiceAccount> = (0..4)
        .map(|n| ServiceAccount {
            labels: made::labels([("app.example/kind", if n < 2 { "bot" } else { "job" })]),
            ..made::service_account(&place.train, &format!("a{n}"))
        })
        .collect();
    insert(&store, &accounts.iter().collect::<Vec<_>>()).await.unwrap();
    insert(&store, &[&made::service_account(&place.serve, "other")]).await.unwrap();
    let list = async |page: Page, selector: &LabelSelector| {
        store.service_account_list(page, place.train.id, selector).await.unwrap()
    };
    let any = LabelSelector::default();
    same(&list(FIRST, &any).await, &accounts);
    same(&list(Page { size: 3, ..FIRST }, &any).await, &accounts[..3]);
    same(&list(made::page(accounts[2].id, 3), &any).await, &accounts[3..]);
    same(&list(FIRST, &made::selector("app.example/kind=bot")).await, &accounts[..2]);
    same(&list(FIRST, &made::selector("app.example/kind!=bot")).await, &accounts[2..]);
}
