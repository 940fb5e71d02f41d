//! Issued secrets: for a purpose, in the form that it requires, and no longer valid than their subject.

use muster_db::{Page, Result, Store};
use muster_ids::{RepositoryId, TypedId as _};
use muster_model::cell::{Cell, CellState};
use muster_model::secret::{Purpose, RuntimeSecret};

use super::cell::{Place, asked, gone, in_project, place};
use crate::made::{self, FIRST, at, is_conflict, is_fenced, is_gone, is_stale, put, same};

on_both![
    material_reads_back_and_is_listed_by_page_and_purpose,
    a_purpose_has_its_form,
    material_needs_everything_that_it_refers_to,
    material_is_revoked_once_and_what_was_sealed_is_erased,
    an_earlier_credential_of_the_same_incarnation_and_repository_is_revoked,
    secret_issued_to_a_cell_is_revoked_with_it,
    secret_issued_to_an_incarnation_is_revoked_with_it,
    only_what_lives_and_is_this_incarnation_is_held,
    nothing_is_issued_to_a_cell_behind_its_end,
    material_is_sealed_anew_unless_it_changed_or_was_erased,
    rows_ended_before_the_cutoff_are_pruned,
    material_goes_with_its_repository_its_project_or_its_tenant,
];

fn bootstrap(place: &Place, name: &str) -> RuntimeSecret {
    RuntimeSecret {
        id: made::id(),
        tenant_id: place.tenant.id,
        project_id: place.project.id,
        purpose: Purpose::ClusterBootstrap,
        name: name.to_owned(),
        repository_id: None,
        cell_id: None,
        incarnation: None,
        instance_id: None,
        hash: None,
        sealed: Some(vec![0, 1, 255]),
        expires_at: None,
        revoked_at: None,
        created_at: at(0),
        version: 1,
    }
}

fn pull(place: &Place, cell: &Cell, repository: RepositoryId) -> RuntimeSecret {
    let id = made::id();
    let mut hash = [7; 32];
    hash[..16].copy_from_slice(muster_ids::RuntimeSecretId::uuid(id).as_bytes());
    RuntimeSecret {
        id,
        purpose: Purpose::ArtifactPull,
        repository_id: Some(repository),
        cell_id: Some(cell.id),
        incarnation: Some(cell.incarnation),
        instance_id: None,
        hash: Some(hash),
        sealed: None,
        expires_at: Some(at(3600)),
        ..bootstrap(place, &cell.name)
    }
}

async fn insert(store: &Store, secret: &RuntimeSecret) -> Result<()> {
    put(store, async |tx| tx.runtime_secret_insert(secret).await).await
}

async fn added(store: &Store, secret: RuntimeSecret) -> RuntimeSecret {
    insert(store, &secret).await.unwrap();
    secret
}

async fn stored(store: &Store, secret: &RuntimeSecret) -> RuntimeSecret {
    store.runtime_secret_lookup(secret.id).await.unwrap().unwrap()
}

async fn revoked(store: &Store, secret: &RuntimeSecret) -> bool {
    stored(store, secret).await.revoked_at.is_some()
}

/// Creates the repositories `base` and `other` of every project, as a push would.
async fn repositories(store: &Store, place: &Place) -> (RepositoryId, RepositoryId) {
    for statement in [
        "INSERT INTO repositories (id, tenant_id, project_id, name, created_at, version)
         SELECT '01900000-0000-7000-9000-000000000001', tenant_id, id, 'base', created_at, 1 FROM projects ORDER BY id LIMIT 1",
        "INSERT INTO repositories (id, tenant_id, project_id, name, created_at, version)
         SELECT '01900000-0000-7000-9000-000000000002', tenant_id, id, 'other', created_at, 1 FROM projects ORDER BY id LIMIT 1",
    ] {
        store.sabotage(statement).await.unwrap();
    }
    let found = async |name| store.repository_by_name(place.project.id, name).await.unwrap().unwrap().id;
    (found("base").await, found("other").await)
}

async fn material_reads_back_and_is_listed_by_page_and_purpose(store: Store) {
    let place = place(&store).await;
    let (base, _) = repositories(&store, &place).await;
    let cell = asked(&store, &place, "a", 2).await;
    let first = added(&store, bootstrap(&place, "gossip")).await;
    let second = added(&store, pull(&place, &cell, base)).await;
    same(&stored(&store, &first).await, &first);
    same(&stored(&store, &second).await, &second);
    same(&store.runtime_secret_by_hash(&second.hash.unwrap()).await.unwrap().unwrap(), &second);
    assert!(store.runtime_secret_by_hash(&[0; 32]).await.unwrap().is_none());
    assert!(store.runtime_secret_lookup(made::id()).await.unwrap().is_none());
    let project = place.project.id;
    let list = async |page, purpose| store.runtime_secret_list(page, project, purpose, None).await.unwrap();
    same(&list(FIRST, None).await, &[&first, &second]);
    same(&list(FIRST, Some(Purpose::ArtifactPull)).await, &[&second]);
    same(&list(FIRST, Some(Purpose::ClusterBootstrap)).await, &[&first]);
    same(&list(Page { size: 1, ..FIRST }, None).await, &[&first]);
    same(&list(made::page(first.id, 10), None).await, &[&second]);
    assert!(store.runtime_secret_list(FIRST, made::id(), None, None).await.unwrap().is_empty());
    same(&store.runtime_secret_of_tenant(place.tenant.id).await.unwrap(), &[&first]);
    assert!(store.runtime_secret_of_tenant(made::id()).await.unwrap().is_empty());
}

async fn a_purpose_has_its_form(store: Store) {
    let place = place(&store).await;
    let (base, _) = repositories(&store, &place).await;
    let cell = asked(&store, &place, "a", 2).await;
    let pulls = [
        RuntimeSecret { hash: None, ..pull(&place, &cell, base) },
        RuntimeSecret { sealed: Some(vec![1]), ..pull(&place, &cell, base) },
        RuntimeSecret { repository_id: None, ..pull(&place, &cell, base) },
        RuntimeSecret { cell_id: None, ..pull(&place, &cell, base) },
        RuntimeSecret { incarnation: None, ..pull(&place, &cell, base) },
        RuntimeSecret { expires_at: None, ..pull(&place, &cell, base) },
        RuntimeSecret { version: 0, ..pull(&place, &cell, base) },
    ];
    let bootstraps = [
        RuntimeSecret { hash: Some([1; 32]), ..bootstrap(&place, "b") },
        RuntimeSecret { sealed: None, ..bootstrap(&place, "b") },
    ];
    for wrong in pulls.iter().chain(&bootstraps) {
        is_conflict(insert(&store, wrong).await);
    }
    let first = added(&store, pull(&place, &cell, base)).await;
    is_conflict(insert(&store, &RuntimeSecret { hash: first.hash, ..pull(&place, &cell, base) }).await);
}

async fn material_needs_everything_that_it_refers_to(store: Store) {
    let place = place(&store).await;
    let (base, _) = repositories(&store, &place).await;
    let cell = asked(&store, &place, "a", 2).await;
    is_gone(insert(&store, &pull(&place, &cell, made::id())).await);
    is_gone(insert(&store, &RuntimeSecret { cell_id: Some(made::id()), ..pull(&place, &cell, base) }).await);
    is_gone(insert(&store, &RuntimeSecret { project_id: made::id(), ..bootstrap(&place, "b") }).await);
}

async fn material_is_revoked_once_and_what_was_sealed_is_erased(store: Store) {
    let place = place(&store).await;
    let (base, _) = repositories(&store, &place).await;
    let cell = asked(&store, &place, "a", 2).await;
    let first = added(&store, bootstrap(&place, "gossip")).await;
    let second = added(&store, pull(&place, &cell, base)).await;
    let revoke = async |secret: &RuntimeSecret, version: i64| {
        put(&store, async |tx| tx.runtime_secret_revoke(secret.id, version, at(5)).await).await
    };
    is_stale(revoke(&first, 2).await);
    revoke(&first, 1).await.unwrap();
    is_stale(revoke(&first, 1).await);
    is_stale(revoke(&first, 2).await);
    let over = RuntimeSecret { sealed: None, revoked_at: Some(at(5)), version: 2, ..first.clone() };
    same(&stored(&store, &first).await, &over);
    assert!(store.runtime_secret_of_tenant(place.tenant.id).await.unwrap().is_empty());
    same(&stored(&store, &second).await, &second);
    revoke(&second, 1).await.unwrap();
    // Its hash stays, to distinguish a revoked credential from an unknown one.
    let over = RuntimeSecret { revoked_at: Some(at(5)), version: 2, ..second.clone() };
    same(&store.runtime_secret_by_hash(&second.hash.unwrap()).await.unwrap().unwrap(), &over);
}

async fn an_earlier_credential_of_the_same_incarnation_and_repository_is_revoked(store: Store) {
    let place = place(&store).await;
    let (base, other) = repositories(&store, &place).await;
    let (cell, neighbour) = (asked(&store, &place, "a", 2).await, asked(&store, &place, "b", 3).await);
    let first = added(&store, pull(&place, &cell, base)).await;
    let elsewhere = added(&store, pull(&place, &cell, other)).await;
    let of_another = added(&store, pull(&place, &neighbour, base)).await;
    let later = added(&store, RuntimeSecret { incarnation: Some(1), ..pull(&place, &cell, base) }).await;
    let earlier = async || {
        put(&store, async |tx| tx.runtime_secret_revoke_earlier(cell.id, 0, base, at(5)).await).await.unwrap()
    };
    assert_eq!((earlier().await, earlier().await), (1, 0));
    assert!(revoked(&store, &first).await);
    for kept in [&elsewhere, &of_another, &later] {
        same(&stored(&store, kept).await, kept);
    }
}

async fn secret_issued_to_a_cell_is_revoked_with_it(store: Store) {
    let place = place(&store).await;
    let (base, _) = repositories(&store, &place).await;
    let (cell, neighbour) = (asked(&store, &place, "a", 2).await, asked(&store, &place, "b", 3).await);
    let mine = added(&store, pull(&place, &cell, base)).await;
    let theirs = added(&store, pull(&place, &neighbour, base)).await;
    let shared = added(&store, bootstrap(&place, "gossip")).await;
    gone(&store, &cell).await;
    same(
        &stored(&store, &mine).await,
        &RuntimeSecret { revoked_at: Some(at(9)), version: 2, ..mine.clone() },
    );
    same(&stored(&store, &theirs).await, &theirs);
    same(&stored(&store, &shared).await, &shared);
    let failed = Cell {
        state: CellState::Failed,
        reason: Some(muster_model::cell::CellFailure::MakeFailed),
        message: Some("why".to_owned()),
        ..neighbour.clone()
    };
    put(&store, async |tx| tx.cell_move(&neighbour, &failed, at(11)).await).await.unwrap();
    assert!(revoked(&store, &theirs).await);
    // The first revocation counts.
    assert_eq!(stored(&store, &mine).await.revoked_at, Some(at(9)));
}

async fn secret_issued_to_an_incarnation_is_revoked_with_it(store: Store) {
    let place = place(&store).await;
    let (base, _) = repositories(&store, &place).await;
    let cell = asked(&store, &place, "a", 2).await;
    let before = added(&store, pull(&place, &cell, base)).await;
    let made = Cell { state: CellState::Provisioning, incarnation: 1, ..cell.clone() };
    put(&store, async |tx| tx.cell_move(&cell, &made, at(9)).await).await.unwrap();
    assert!(revoked(&store, &before).await);
    let made = store.cell_lookup(cell.id).await.unwrap().unwrap();
    let present = added(&store, pull(&place, &made, base)).await;
    // A state change within an incarnation revokes nothing.
    let going = Cell { state: CellState::Destroying, ..made.clone() };
    put(&store, async |tx| tx.cell_move(&made, &going, at(10)).await).await.unwrap();
    same(&stored(&store, &present).await, &present);
}

async fn only_what_lives_and_is_this_incarnation_is_held(store: Store) {
    let place = place(&store).await;
    let cell = asked(&store, &place, "a", 2).await;
    let hold =
        async |incarnation: i64| put(&store, async |tx| tx.cell_hold(cell.id, incarnation).await).await;
    hold(0).await.unwrap();
    is_fenced(hold(1).await);
    is_fenced(put(&store, async |tx| tx.cell_hold(made::id(), 0).await).await);
    let made = Cell { state: CellState::Provisioning, incarnation: 1, ..cell.clone() };
    put(&store, async |tx| tx.cell_move(&cell, &made, at(9)).await).await.unwrap();
    is_fenced(hold(0).await);
    hold(1).await.unwrap();
    let made = store.cell_lookup(cell.id).await.unwrap().unwrap();
    let going = Cell { state: CellState::Destroying, ..made.clone() };
    put(&store, async |tx| tx.cell_move(&made, &going, at(10)).await).await.unwrap();
    is_fenced(hold(1).await);
    let going = store.cell_lookup(cell.id).await.unwrap().unwrap();
    gone(&store, &going).await;
    is_fenced(hold(1).await);
}

/// A credential that is written while its cell ends is revoked with the others.
async fn nothing_is_issued_to_a_cell_behind_its_end(store: Store) {
    let place = place(&store).await;
    let (base, _) = repositories(&store, &place).await;
    let cell = asked(&store, &place, "a", 2).await;
    let mut issuing = store.begin().await.unwrap();
    issuing.cell_hold(cell.id, 0).await.unwrap();
    let (other, going) = (store.clone(), cell.clone());
    let ending = tokio::spawn(async move {
        let failed = Cell {
            state: CellState::Failed,
            reason: Some(muster_model::cell::CellFailure::MakeFailed),
            message: Some("why".to_owned()),
            ..going.clone()
        };
        put(&other, async |tx| tx.cell_move(&going, &failed, at(9)).await).await
    });
    for _ in 0..20 {
        assert!(!ending.is_finished(), "it did not wait");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let late = pull(&place, &cell, base);
    issuing.runtime_secret_insert(&late).await.unwrap();
    issuing.commit().await.unwrap();
    ending.await.unwrap().unwrap();
    assert!(revoked(&store, &late).await);
}

async fn material_is_sealed_anew_unless_it_changed_or_was_erased(store: Store) {
    let place = place(&store).await;
    let (first, neighbour) =
        (added(&store, bootstrap(&place, "a")).await, added(&store, bootstrap(&place, "b")).await);
    let before = first.sealed.clone().unwrap();
    let reseal = async |before: Vec<u8>| {
        put(&store, async |tx| tx.runtime_secret_reseal(first.id, vec![7, 0, 7], before).await).await
    };
    is_stale(reseal(vec![1]).await);
    reseal(before.clone()).await.unwrap();
    same(&stored(&store, &first).await, &RuntimeSecret { sealed: Some(vec![7, 0, 7]), ..first.clone() });
    is_stale(reseal(before).await);
    same(&stored(&store, &neighbour).await, &neighbour);
    put(&store, async |tx| tx.runtime_secret_revoke(first.id, 1, at(5)).await).await.unwrap();
    is_stale(reseal(vec![7, 0, 7]).await);
    assert_eq!(stored(&store, &first).await.sealed, None, "what was erased does not come back");
}

async fn rows_ended_before_the_cutoff_are_pruned(store: Store) {
    let place = place(&store).await;
    let (base, _) = repositories(&store, &place).await;
    let cell = asked(&store, &place, "a", 2).await;
    let lasting = added(&store, bootstrap(&place, "lasting")).await;
    let expired = added(&store, pull(&place, &cell, base)).await;
    let over = RuntimeSecret { revoked_at: Some(at(10)), sealed: None, ..bootstrap(&place, "over") };
    let over = added(&store, over).await;
    let prune = async |before| put(&store, async |tx| tx.runtime_secret_prune(before).await).await.unwrap();
    assert_eq!(prune(at(10)).await, 0);
    assert_eq!(prune(at(11)).await, 1);
    assert!(store.runtime_secret_lookup(over.id).await.unwrap().is_none());
    assert_eq!(prune(at(3600)).await, 0);
    assert_eq!(prune(at(3601)).await, 1);
    assert!(store.runtime_secret_lookup(expired.id).await.unwrap().is_none());
    same(&stored(&store, &lasting).await, &lasting);
}

async fn material_goes_with_its_repository_its_project_or_its_tenant(store: Store) {
    let place = place(&store).await;
    let (base, other) = repositories(&store, &place).await;
    let serve = made::project(&place.tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    let next = in_project(&store, place.tenant.clone(), serve, place.node).await;
    let cell = asked(&store, &place, "a", 2).await;
    added(&store, pull(&place, &cell, base)).await;
    added(&store, pull(&place, &cell, other)).await;
    added(&store, bootstrap(&place, "a")).await;
    added(&store, bootstrap(&next, "b")).await;
    put(&store, async |tx| tx.repository_delete(base, 1).await).await.unwrap();
    assert_eq!(store.runtime_secret_list(FIRST, place.project.id, None, None).await.unwrap().len(), 2);
    // A removed cell stays until the rows that refer to it are removed.
    gone(&store, &cell).await;
    let project = place.project.id;
    is_gone(put(&store, async |tx| tx.cell_delete_of_project(project).await).await);
    let of_project =
        async || put(&store, async |tx| tx.runtime_secret_delete_of_project(project).await).await.unwrap();
    assert_eq!((of_project().await, of_project().await), (2, 0));
    put(&store, async |tx| tx.cell_delete_of_project(project).await).await.unwrap();
    let of_tenant = async |tenant| {
        put(&store, async |tx| tx.runtime_secret_delete_of_tenant(tenant).await).await.unwrap()
    };
    assert_eq!((of_tenant(made::id()).await, of_tenant(place.tenant.id).await), (0, 1));
}
