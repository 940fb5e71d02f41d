//! A project's own secrets: sealed, replaced as a whole, and kept while a live cell uses them.

use muster_db::{Result, Store};
use muster_model::cell::Cell;
use muster_model::secret::ProjectSecret;
use muster_model::{Project, Tenant};
use serde_json::json;

use super::cell::{Place, cell, gone, place, request};
use crate::made::{self, at, fleet, is_conflict, is_gone, is_stale, put, same};

on_both![
    the_secrets_of_a_tenant_are_those_of_its_projects,
    a_secret_needs_its_project_and_a_name_of_its_own,
    a_content_is_sealed_anew_unless_it_changed,
    a_secret_is_removed_on_the_version_that_was_seen,
    removing_a_secret_returns_the_live_cells_that_name_it,
    a_cell_names_no_missing_secret,
    the_removal_of_a_secret_waits_for_a_cell_that_names_it,
    a_cell_waits_for_the_removal_of_a_secret_that_it_names,
    secrets_go_with_their_project_or_tenant,
];

pub(super) fn secret(project: &Project, name: &str) -> ProjectSecret {
    ProjectSecret {
        id: made::id(),
        tenant_id: project.tenant_id,
        project_id: project.id,
        name: name.to_owned(),
        registry: Some("registry.example:5000".to_owned()),
        revision: 1,
        size: 3,
        sealed: vec![0, 1, 255],
        created_at: at(0),
        updated_at: at(1),
        version: 1,
    }
}

async fn insert(store: &Store, secret: &ProjectSecret) -> Result<()> {
    put(store, async |tx| tx.insert_record(secret).await).await
}

async fn added(store: &Store, project: &Project, name: &str) -> ProjectSecret {
    let secret = secret(project, name);
    insert(store, &secret).await.unwrap();
    secret
}

async fn stored(store: &Store, secret: &ProjectSecret) -> ProjectSecret {
    store.find(secret.id).await.unwrap().unwrap()
}

async fn two_projects(store: &Store) -> (Tenant, Project, Project) {
    let (tenant, train) = fleet::place(store).await;
    let serve = made::project(&tenant, "serve");
    put(store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    (tenant, train, serve)
}

async fn the_secrets_of_a_tenant_are_those_of_its_projects(store: Store) {
    let (tenant, train, serve) = two_projects(&store).await;
    let first = added(&store, &train, "token").await;
    let second = added(&store, &train, "password").await;
    let other = added(&store, &serve, "token").await;
    same(&store.secret_of_tenant(tenant.id).await.unwrap(), &[&first, &second, &other]);
    assert!(store.secret_of_tenant(made::id()).await.unwrap().is_empty());
}

async fn a_secret_needs_its_project_and_a_name_of_its_own(store: Store) {
    let (tenant, train, serve) = two_projects(&store).await;
    is_gone(insert(&store, &secret(&made::project(&tenant, "never-made"), "token")).await);
    added(&store, &train, "token").await;
    is_conflict(insert(&store, &secret(&train, "token")).await);
    added(&store, &serve, "token").await;
    is_conflict(insert(&store, &ProjectSecret { revision: 0, ..secret(&train, "other") }).await);
    is_conflict(insert(&store, &ProjectSecret { version: 0, ..secret(&train, "other") }).await);
}

async fn a_content_is_sealed_anew_unless_it_changed(store: Store) {
    let (_, train, _) = two_projects(&store).await;
    let (first, neighbour) = (added(&store, &train, "token").await, added(&store, &train, "other").await);
    let reseal = async |before: Vec<u8>| {
        put(&store, async |tx| tx.secret_reseal(first.id, vec![7, 0, 7], before).await).await
    };
    is_stale(reseal(vec![1]).await);
    reseal(first.sealed.clone()).await.unwrap();
    // Resealing does not change the version, so it does not conflict with other changes.
    same(&stored(&store, &first).await, &ProjectSecret { sealed: vec![7, 0, 7], ..first.clone() });
    is_stale(reseal(first.sealed.clone()).await);
    same(&stored(&store, &neighbour).await, &neighbour);
}

async fn a_secret_is_removed_on_the_version_that_was_seen(store: Store) {
    let (_, train, _) = two_projects(&store).await;
    let first = added(&store, &train, "token").await;
    let delete = async |secret: &ProjectSecret| put(&store, async |tx| tx.secret_delete(secret).await).await;
    is_stale(delete(&ProjectSecret { version: 2, ..first.clone() }).await);
    assert!(delete(&first).await.unwrap().is_empty());
    assert!(store.find::<ProjectSecret>(first.id).await.unwrap().is_none());
    is_stale(delete(&first).await);
    added(&store, &train, "token").await;
}

/// Creates a cell that uses these secrets.
async fn naming(store: &Store, place: &Place, name: &str, host: i64, secrets: &[&str]) -> Cell {
    let files: Vec<_> = secrets
        .iter()
        .enumerate()
        .map(|(index, secret)| json!({"secret": secret, "file": format!("f{index}"), "uid": 0, "gid": 0}))
        .collect();
    let mut cell = cell(place, name, host);
    cell.spec["secrets"] = json!(files);
    request(store, &cell).await.unwrap();
    cell
}

async fn removing_a_secret_returns_the_live_cells_that_name_it(store: Store) {
    let place = place(&store).await;
    let secret = added(&store, &place.project, "token").await;
    let other = added(&store, &place.project, "tok").await;
    for similar in ["tokens", "to"] {
        added(&store, &place.project, similar).await;
    }
    // Specs without secrets, with an empty list, and with other secrets.
    request(&store, &cell(&place, "silent", 2)).await.unwrap();
    naming(&store, &place, "without", 3, &[]).await;
    naming(&store, &place, "other", 4, &["tokens", "to"]).await;
    let named = async || {
        let mut tx = store.begin().await.unwrap();
        let named = tx.secret_delete(&secret).await.unwrap();
        tx.rollback().await;
        named
    };
    assert!(named().await.is_empty());
    let by_name = naming(&store, &place, "by-name", 5, &["tokens", "token"]).await;
    let by_id = naming(&store, &place, "by-id", 6, &[&secret.id.to_string()]).await;
    assert_eq!(named().await, ["by-name", "by-id"]);
    gone(&store, &by_name).await;
    assert_eq!(named().await, ["by-id"]);
    gone(&store, &by_id).await;
    assert!(named().await.is_empty());
    assert!(put(&store, async |tx| tx.secret_delete(&other).await).await.unwrap().is_empty());
}

/// A new cell, and a cell that is recreated, names only secrets that exist.
async fn a_cell_names_no_missing_secret(store: Store) {
    let place = place(&store).await;
    let secret = added(&store, &place.project, "token").await;
    let request = async |name: &str, host: i64, reference: &str| {
        let cell = naming_cell(&place, name, host, reference);
        put(&store, async |tx| tx.cell_request(&cell).await).await.map(|()| cell)
    };
    is_gone(request("none", 2, "tokens").await);
    request("runtime", 2, &made::id::<muster_ids::RuntimeSecretId>().to_string()).await.unwrap();
    let before = request("by-name", 3, "token").await.unwrap();
    request("by-id", 4, &secret.id.to_string()).await.unwrap();
    let remake = async |reference: &str| {
        let spec = naming_cell(&place, "by-name", 3, reference).spec;
        put(&store, async |tx| tx.cell_remake(&before, &spec, None, at(3)).await).await
    };
    is_gone(remake("tokens").await);
    remake("token").await.unwrap();
}

/// Neither side of the race can miss the other: the removal finds the cell, or the cell finds the secret removed.
async fn the_removal_of_a_secret_waits_for_a_cell_that_names_it(store: Store) {
    let place = place(&store).await;
    let secret = added(&store, &place.project, "token").await;
    let mut making = store.begin().await.unwrap();
    making.cell_request(&naming_cell(&place, "shell", 2, "token")).await.unwrap();
    let (other, doomed) = (store.clone(), secret.clone());
    let removing = tokio::spawn(async move {
        let mut tx = other.begin().await.unwrap();
        let named = tx.secret_delete(&doomed).await.unwrap();
        tx.rollback().await;
        named
    });
    for _ in 0..20 {
        assert!(!removing.is_finished(), "it did not wait");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    making.commit().await.unwrap();
    assert_eq!(removing.await.unwrap(), ["shell"]);
}

async fn a_cell_waits_for_the_removal_of_a_secret_that_it_names(store: Store) {
    let place = place(&store).await;
    let secret = added(&store, &place.project, "token").await;
    let mut removing = store.begin().await.unwrap();
    assert!(removing.secret_delete(&secret).await.unwrap().is_empty());
    let (other, cell) = (store.clone(), naming_cell(&place, "shell", 2, "token"));
    let making = tokio::spawn(async move { put(&other, async |tx| tx.cell_request(&cell).await).await });
    for _ in 0..20 {
        assert!(!making.is_finished(), "it did not wait");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    removing.commit().await.unwrap();
    is_gone(making.await.unwrap());
}

fn naming_cell(place: &Place, name: &str, host: i64, reference: &str) -> Cell {
    let mut cell = cell(place, name, host);
    cell.spec["secrets"] = json!([{"secret": reference, "file": "t"}]);
    cell
}

async fn secrets_go_with_their_project_or_tenant(store: Store) {
    let (tenant, train, serve) = two_projects(&store).await;
    for project in [&train, &serve] {
        added(&store, project, "one").await;
        added(&store, project, "two").await;
    }
    is_gone(put(&store, async |tx| tx.project_delete(train.id, train.version).await).await);
    let of_project =
        async || put(&store, async |tx| tx.secret_delete_of_project(train.id).await).await.unwrap();
    assert_eq!((of_project().await, of_project().await), (2, 0));
    assert_eq!(put(&store, async |tx| tx.secret_delete_of_tenant(made::id()).await).await.unwrap(), 0);
    assert_eq!(put(&store, async |tx| tx.secret_delete_of_tenant(tenant.id).await).await.unwrap(), 2);
}
