//! Adapters: one row per name and account, with the number of leased steps.

use jiff::SignedDuration;
use muster_db::{Page, Store};
use muster_model::adapter::Adapter;
use muster_model::app::Audience;

use crate::made::catalog::{adapter, adapter_step, granted, launched, offered, published};
use crate::made::{self, FIRST, at, fleet, is_gone, put, same};

on_both![
    an_adapter_is_known_from_its_first_asking_and_keeps_its_id,
    the_steps_that_it_holds_are_counted_by_name_and_account,
    adapters_go_with_their_account_project_or_tenant,
];

async fn seen(store: &Store, adapter: &Adapter) {
    put(store, async |tx| tx.adapter_seen(adapter).await).await.unwrap();
}

async fn an_adapter_is_known_from_its_first_asking_and_keeps_its_id(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let account = made::service_account(&project, "operator");
    put(&store, async |tx| tx.service_account_insert(&account).await).await.unwrap();
    let first = adapter(&account, "one", 1);
    seen(&store, &first).await;
    let later =
        Adapter { adapter_version: "0.2.0".to_owned(), contract_version: 2, ..adapter(&account, "one", 9) };
    seen(&store, &later).await;
    let other = adapter(&account, "two", 3);
    seen(&store, &other).await;
    let found = store.adapter_list(FIRST, project.id).await.unwrap();
    let kept = Adapter { id: first.id, created_at: at(1), ..later };
    same(&found.iter().map(|found| found.adapter.clone()).collect::<Vec<_>>(), &[kept, other.clone()]);
    assert!(found.iter().all(|found| found.leases == 0));
    assert_eq!(store.adapter_list(Page { size: 1, ..FIRST }, project.id).await.unwrap().len(), 1);
    let rest = store.adapter_list(made::page(first.id, 9), project.id).await.unwrap();
    same(&rest[0].adapter, &other);
    assert!(store.adapter_list(FIRST, made::id()).await.unwrap().is_empty());
    let nobodys = adapter(&made::service_account(&project, "absent"), "x", 0);
    is_gone(put(&store, async |tx| tx.adapter_seen(&nobodys).await).await);
}

async fn the_steps_that_it_holds_are_counted_by_name_and_account(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let app = offered(&store, &project, "notebook", Audience::Project).await;
    let version = published(&store, &app, "1").await;
    let (_, account) = granted(&store, &project, &app).await;
    let other = made::service_account(&project, "other");
    put(&store, async |tx| tx.service_account_insert(&other).await).await.unwrap();
    let instance = launched(&store, &project, &version, &account, "mine").await;
    for (account, name) in [(&account, "one"), (&account, "two"), (&other, "one")] {
        seen(&store, &adapter(account, name, 1)).await;
    }
    put(&store, async |tx| {
        for key in ["a", "b", "c"] {
            tx.adapter_step_queue(&adapter_step(&instance, key)).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let lease = async |holder: &str, most: i64| {
        let length = SignedDuration::from_secs(600);
        put(&store, async |tx| tx.adapter_step_lease(account.id, holder, at(1), length, most).await)
            .await
            .unwrap()
    };
    assert_eq!(lease("one", 2).await.len(), 2);
    let leases: Vec<i64> =
        store.adapter_list(FIRST, project.id).await.unwrap().iter().map(|found| found.leases).collect();
    assert_eq!(leases, [2, 0, 0], "neither another name nor another account holds them");
}

async fn adapters_go_with_their_account_project_or_tenant(store: Store) {
    let (tenant, project) = fleet::place(&store).await;
    let accounts = ["one", "two", "three"].map(|name| made::service_account(&project, name));
    for account in &accounts {
        put(&store, async |tx| tx.service_account_insert(account).await).await.unwrap();
        seen(&store, &adapter(account, "a", 1)).await;
    }
    assert_eq!(put(&store, async |tx| tx.adapter_delete_of_account(accounts[0].id).await).await.unwrap(), 1);
    assert_eq!(put(&store, async |tx| tx.adapter_delete_of_project(project.id).await).await.unwrap(), 2);
    seen(&store, &adapter(&accounts[1], "a", 1)).await;
    assert_eq!(put(&store, async |tx| tx.adapter_delete_of_tenant(tenant.id).await).await.unwrap(), 1);
}
