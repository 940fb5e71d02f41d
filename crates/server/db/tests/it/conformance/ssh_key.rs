//! SSH keys: their owners, and the cells that get them.

use jiff::Timestamp;
use muster_db::{KEYS_OF_PROJECT, LOGINS_OF_PROJECT, People, Result, Store};
use muster_ids::{CellId, NodeId, RoleBindingId};
use muster_model::cell::SshKey;
use muster_model::{Login, Project, Role, Scope, User};

use super::cell::{Place, asked, cell, gone, place, request};
use crate::made::{self, at, fleet, is_conflict, is_gone, put, same};

on_both![
    a_key_needs_its_project_and_its_owner,
    a_persons_keys_differ_in_name_and_in_substance,
    keys_are_counted_by_one_transaction_at_a_time,
    a_cell_gets_the_keys_of_those_who_may_work_in_its_project,
    a_key_ends_with_its_owners_place_in_the_project,
    keys_of_a_viewer_are_not_admitted_to_a_cell,
    only_living_cells_that_ask_for_keys_get_any,
    keys_go_with_their_project_their_tenant_or_their_owner,
    a_key_of_one_allocation_counts_in_its_cells_until_it_expires,
    a_grant_gives_a_person_without_a_role_a_login_until_it_expires,
    a_guest_has_keys_of_the_project_where_the_grant_is,
    a_project_has_so_many_logins_and_keys_on_a_node,
    a_grant_without_an_allocation_or_an_end_is_refused_by_the_schema,
];

pub(super) fn key(project: &Project, user: &User, name: &str) -> SshKey {
    SshKey {
        id: made::id(),
        tenant_id: project.tenant_id,
        project_id: project.id,
        user_id: user.id,
        name: name.to_owned(),
        public_key: format!("ssh-ed25519 {name}-of-{}", user.email),
        fingerprint: format!("SHA256:{name}-of-{}", user.email),
        allocation_id: None,
        expires_at: None,
        granted_by: None,
        created_at: at(0),
        version: 1,
    }
}

async fn insert(store: &Store, key: &SshKey) -> Result<()> {
    put(store, async |tx| tx.insert_record(key).await).await
}

async fn added(store: &Store, project: &Project, user: &User, name: &str) -> SshKey {
    let key = key(project, user, name);
    insert(store, &key).await.unwrap();
    key
}

/// Creates a user of the tenant, with a role there or without one.
async fn person(
    store: &Store,
    place: &Place,
    email: &str,
    role: Option<(Role, Scope)>,
) -> (User, RoleBindingId) {
    let user = made::user(Some(&place.tenant), email);
    let binding = role.map(|(role, scope)| made::binding(&user, role, scope));
    put(store, async |tx| {
        tx.user_insert(&user).await?;
        match &binding {
            Some(binding) => tx.role_binding_insert(binding).await,
            None => Ok(()),
        }
    })
    .await
    .unwrap();
    (user, binding.map_or_else(made::id, |binding| binding.id))
}

/// Returns a role that may open a terminal in the project's cells.
fn admin(place: &Place) -> Option<(Role, Scope)> {
    Some((Role::ProjectAdmin, place.project.scope()))
}

/// Creates a live cell that accepts keys.
async fn open(store: &Store, place: &Place, name: &str, host: i64) -> CellId {
    let mut cell = cell(place, name, host);
    cell.people = true;
    request(store, &cell).await.unwrap();
    cell.id
}

async fn keys(store: &Store, place: &Place, cell: CellId) -> Vec<String> {
    people(store, place, cell).await.into_iter().flat_map(|(_, keys)| keys).collect()
}

/// Returns the users of each cell on a node.
async fn people_of_node(store: &Store, node: NodeId, time: Timestamp) -> Vec<(CellId, People)> {
    let mut found = Vec::new();
    for cell in store.people_cells(node).await.unwrap() {
        let people = store.people_of_project(cell.tenant_id, cell.project_id, time).await.unwrap();
        found.push((cell.cell_id, people.of_allocation(cell.allocation_id)));
    }
    found
}

async fn people(store: &Store, place: &Place, cell: CellId) -> Vec<(Login, Vec<String>)> {
    let found = people_of_node(store, place.node, at(0)).await;
    found.into_iter().find(|(of, _)| *of == cell).map(|(_, people)| people).unwrap_or_default()
}

async fn a_key_needs_its_project_and_its_owner(store: Store) {
    let place = place(&store).await;
    let (ada, _) = person(&store, &place, "ada@acme.example", None).await;
    let nobody = made::user(Some(&place.tenant), "nobody@acme.example");
    is_gone(insert(&store, &key(&place.project, &nobody, "laptop")).await);
    is_gone(insert(&store, &key(&made::project(&place.tenant, "never-made"), &ada, "laptop")).await);
}

async fn keys_are_counted_by_one_transaction_at_a_time(store: Store) {
    let place = place(&store).await;
    let (ada, _) = person(&store, &place, "ada@acme.example", None).await;
    let (bob, _) = person(&store, &place, "bob@acme.example", None).await;
    added(&store, &place.project, &ada, "laptop").await;
    added(&store, &place.project, &bob, "laptop").await;
    let mut first = store.begin().await.unwrap();
    assert_eq!(first.ssh_key_count(place.project.id, ada.id).await.unwrap(), (1, 2));
    let (other, project, user) = (store.clone(), place.project.id, ada.id);
    let second =
        tokio::spawn(async move { put(&other, async |tx| tx.ssh_key_count(project, user).await).await });
    for _ in 0..20 {
        assert!(!second.is_finished(), "it did not wait");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    first.insert_record(&key(&place.project, &ada, "desktop")).await.unwrap();
    first.commit().await.unwrap();
    assert_eq!(second.await.unwrap().unwrap(), (2, 3));
}

async fn a_persons_keys_differ_in_name_and_in_substance(store: Store) {
    let place = place(&store).await;
    let (ada, _) = person(&store, &place, "ada@acme.example", None).await;
    let (bob, _) = person(&store, &place, "bob@acme.example", None).await;
    let first = added(&store, &place.project, &ada, "laptop").await;
    let same_name = SshKey { fingerprint: "SHA256:other".to_owned(), ..key(&place.project, &ada, "laptop") };
    is_conflict(insert(&store, &same_name).await);
    let same_key = SshKey { fingerprint: first.fingerprint.clone(), ..key(&place.project, &ada, "desk") };
    is_conflict(insert(&store, &same_key).await);
    let of_another = SshKey { fingerprint: first.fingerprint.clone(), ..key(&place.project, &bob, "laptop") };
    insert(&store, &of_another).await.unwrap();
}

async fn a_cell_gets_the_keys_of_those_who_may_work_in_its_project(store: Store) {
    let place = place(&store).await;
    let serve = made::project(&place.tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    let tenant = Some((Role::TenantAdmin, Scope::Tenant(place.tenant.id)));
    let (ada, _) = person(&store, &place, "ada@acme.example", admin(&place)).await;
    let (bob, _) = person(&store, &place, "bob@acme.example", tenant).await;
    let elsewhere = Some((Role::ProjectAdmin, serve.scope()));
    let (eve, _) = person(&store, &place, "eve@acme.example", elsewhere).await;
    let (mallory, _) = person(&store, &place, "mallory@acme.example", None).await;
    let cell = open(&store, &place, "a", 2).await;
    let logins = [&ada, &bob].map(|user| (user.login.clone().unwrap(), Vec::new()));
    assert_eq!(people(&store, &place, cell).await, logins, "without keys they are there too");
    for user in [&ada, &bob, &eve, &mallory] {
        added(&store, &place.project, user, "laptop").await;
        added(&store, &serve, user, "desk").await;
    }
    let theirs = [&ada, &bob].map(|user| format!("ssh-ed25519 laptop-of-{}", user.email));
    assert_eq!(keys(&store, &place, cell).await, theirs);
    assert!(people_of_node(&store, made::id(), at(0)).await.is_empty());
}

async fn a_key_ends_with_its_owners_place_in_the_project(store: Store) {
    let place = place(&store).await;
    let (ada, binding) = person(&store, &place, "ada@acme.example", admin(&place)).await;
    let (mut bob, _) = person(&store, &place, "bob@acme.example", admin(&place)).await;
    let cell = open(&store, &place, "a", 2).await;
    added(&store, &place.project, &ada, "laptop").await;
    added(&store, &place.project, &bob, "laptop").await;
    assert_eq!(keys(&store, &place, cell).await.len(), 2);
    put(&store, async |tx| tx.role_binding_delete(binding).await).await.unwrap();
    assert_eq!(keys(&store, &place, cell).await, ["ssh-ed25519 laptop-of-bob@acme.example"]);
    (bob.disabled, bob.version) = (true, bob.version + 1);
    put(&store, async |tx| tx.user_update(&bob).await).await.unwrap();
    assert!(keys(&store, &place, cell).await.is_empty());
    (bob.disabled, bob.version) = (false, bob.version + 1);
    put(&store, async |tx| tx.user_update(&bob).await).await.unwrap();
    assert_eq!(keys(&store, &place, cell).await.len(), 1);
}

async fn keys_of_a_viewer_are_not_admitted_to_a_cell(store: Store) {
    let place = place(&store).await;
    let viewer = Some((Role::ProjectViewer, place.project.scope()));
    let (ada, _) = person(&store, &place, "ada@acme.example", viewer).await;
    let cell = open(&store, &place, "a", 2).await;
    added(&store, &place.project, &ada, "laptop").await;
    assert!(keys(&store, &place, cell).await.is_empty());
    let (role, scope) = admin(&place).unwrap();
    let binding = made::binding(&ada, role, scope);
    put(&store, async |tx| tx.role_binding_insert(&binding).await).await.unwrap();
    assert_eq!(keys(&store, &place, cell).await.len(), 1);
    put(&store, async |tx| tx.role_binding_delete(binding.id).await).await.unwrap();
    assert!(keys(&store, &place, cell).await.is_empty(), "who was an admin once is not any more");
}

async fn only_living_cells_that_ask_for_keys_get_any(store: Store) {
    let place = place(&store).await;
    let (ada, binding) = person(&store, &place, "ada@acme.example", admin(&place)).await;
    added(&store, &place.project, &ada, "laptop").await;
    added(&store, &place.project, &ada, "desk").await;
    asked(&store, &place, "closed", 2).await;
    let (b, c) = (open(&store, &place, "b", 3).await, open(&store, &place, "c", 4).await);
    let over = store.cell_lookup(b).await.unwrap().unwrap();
    gone(&store, &over).await;
    let found = people_of_node(&store, place.node, at(0)).await;
    assert_eq!(found.iter().map(|(cell, people)| (*cell, people.len())).collect::<Vec<_>>(), [(c, 1)]);
    put(&store, async |tx| tx.role_binding_delete(binding).await).await.unwrap();
    assert_eq!(people_of_node(&store, place.node, at(0)).await, [(c, Vec::new())], "it has an empty list");
}

async fn keys_go_with_their_project_their_tenant_or_their_owner(store: Store) {
    let place = place(&store).await;
    let (ada, _) = person(&store, &place, "ada@acme.example", None).await;
    let (bob, _) = person(&store, &place, "bob@acme.example", None).await;
    let (tenant, project) = (place.tenant.id, place.project.id);
    let both = async || {
        added(&store, &place.project, &ada, "laptop").await;
        added(&store, &place.project, &bob, "laptop").await;
    };
    both().await;
    is_gone(put(&store, async |tx| tx.user_delete(ada.id, ada.version).await).await);
    assert_eq!(put(&store, async |tx| tx.ssh_key_delete_of_user(ada.id).await).await.unwrap(), 1);
    assert_eq!(put(&store, async |tx| tx.ssh_key_delete_of_project(project).await).await.unwrap(), 1);
    both().await;
    assert_eq!(put(&store, async |tx| tx.ssh_key_delete_of_tenant(made::id()).await).await.unwrap(), 0);
    assert_eq!(put(&store, async |tx| tx.ssh_key_delete_of_tenant(tenant).await).await.unwrap(), 2);
}

async fn a_key_of_one_allocation_counts_in_its_cells_until_it_expires(store: Store) {
    let place = place(&store).await;
    let (ada, binding) = person(&store, &place, "ada@acme.example", admin(&place)).await;
    let cell = open(&store, &place, "a", 2).await;
    let here = SshKey {
        allocation_id: Some(place.allocation),
        expires_at: Some(at(60)),
        ..key(&place.project, &ada, "here")
    };
    let other = fleet::requested(&store, &place.project, "b").await.id;
    let there = SshKey { allocation_id: Some(other), ..key(&place.project, &ada, "there") };
    for key in [&here, &there] {
        insert(&store, key).await.unwrap();
        same(&store.find::<SshKey>(key.id).await.unwrap().unwrap(), key);
    }
    let keys_at = async |time| {
        let found = people_of_node(&store, place.node, time).await;
        let (of, people) = found.into_iter().next().unwrap();
        assert_eq!(of, cell);
        people.into_iter().flat_map(|(_, keys)| keys).collect::<Vec<_>>()
    };
    assert_eq!(keys_at(at(59)).await, std::slice::from_ref(&here.public_key));
    assert!(keys_at(at(60)).await.is_empty());
    assert!(store.ssh_key_expired(at(59), 10).await.unwrap().is_empty());
    same(&store.ssh_key_expired(at(60), 10).await.unwrap(), &[&here]);
    put(&store, async |tx| tx.role_binding_delete(binding).await).await.unwrap();
    assert!(keys_at(at(59)).await.is_empty(), "a key of one's own ends with the role, whatever its expiry");
    let same_again = SshKey { id: made::id(), name: "again".to_owned(), ..here.clone() };
    is_conflict(insert(&store, &same_again).await);
    let elsewhere = SshKey { allocation_id: Some(other), ..same_again };
    insert(&store, &elsewhere).await.unwrap();
}

async fn a_grant_gives_a_person_without_a_role_a_login_until_it_expires(store: Store) {
    let place = place(&store).await;
    let (ada, _) = person(&store, &place, "ada@acme.example", None).await;
    let (mut bob, _) = person(&store, &place, "bob@acme.example", None).await;
    let cell = open(&store, &place, "a", 2).await;
    let grant = SshKey {
        allocation_id: Some(place.allocation),
        expires_at: Some(at(60)),
        granted_by: Some(ada.id),
        ..key(&place.project, &bob, "grant")
    };
    insert(&store, &grant).await.unwrap();
    let login = bob.login.clone().unwrap();
    let in_cell = async |time| people_of_node(&store, place.node, time).await;
    assert_eq!(in_cell(at(59)).await, [(cell, vec![(login, vec![grant.public_key.clone()])])]);
    assert_eq!(in_cell(at(60)).await, [(cell, Vec::new())]);
    (bob.disabled, bob.version) = (true, bob.version + 1);
    put(&store, async |tx| tx.user_update(&bob).await).await.unwrap();
    assert_eq!(in_cell(at(59)).await, [(cell, Vec::new())]);
}

async fn a_guest_has_keys_of_the_project_where_the_grant_is(store: Store) {
    let place = place(&store).await;
    let (ada, _) = person(&store, &place, "ada@acme.example", admin(&place)).await;
    let (bob, _) = person(&store, &place, "bob@acme.example", None).await;
    let other = fleet::requested(&store, &place.project, "b").await.id;
    let everywhere = added(&store, &place.project, &bob, "laptop").await;
    let own = SshKey { allocation_id: Some(other), ..key(&place.project, &bob, "own") };
    let grant = SshKey {
        allocation_id: Some(place.allocation),
        expires_at: Some(at(60)),
        granted_by: Some(ada.id),
        ..key(&place.project, &bob, "grant")
    };
    let limited = SshKey { allocation_id: Some(place.allocation), ..key(&place.project, &ada, "limited") };
    for key in [&own, &grant, &limited] {
        insert(&store, key).await.unwrap();
    }
    let found = store.people_of_project(place.tenant.id, place.project.id, at(0)).await.unwrap();
    let (ada, bob) = (ada.login.unwrap(), bob.login.unwrap());
    assert_eq!(found.everywhere, [(ada.clone(), vec![])]);
    let here = found.of_allocation(place.allocation);
    let of = |people: &People, login: &Login| {
        let found = people.iter().find(|(known, _)| known == login);
        found.map(|(_, keys)| keys.iter().cloned().collect::<std::collections::BTreeSet<_>>())
    };
    assert_eq!(of(&here, &ada).unwrap(), [limited.public_key].into());
    assert_eq!(of(&here, &bob).unwrap(), [grant.public_key, everywhere.public_key].into());
    assert_eq!(of(&found.of_allocation(other), &bob), None, "a key alone is no login");
    assert_eq!(of(&found.of_allocation(other), &ada).unwrap(), [].into());
}

async fn a_project_has_so_many_logins_and_keys_on_a_node(store: Store) {
    let place = place(&store).await;
    let users: Vec<User> = (0..LOGINS_OF_PROJECT + 5)
        .map(|number| made::user(Some(&place.tenant), &format!("u{number}@acme.example")))
        .collect();
    put(&store, async |tx| {
        for user in &users {
            tx.user_insert(user).await?;
            tx.role_binding_insert(&made::binding(user, Role::ProjectAdmin, place.project.scope())).await?;
        }
        for user in &users[..usize::try_from(KEYS_OF_PROJECT).unwrap() + 5] {
            tx.insert_record(&key(&place.project, user, "laptop")).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let found = store.people_of_project(place.tenant.id, place.project.id, at(0)).await.unwrap();
    assert_eq!(i64::try_from(found.everywhere.len()).unwrap(), LOGINS_OF_PROJECT);
    let keys: usize = found.everywhere.iter().map(|(_, keys)| keys.len()).sum();
    assert_eq!(i64::try_from(keys).unwrap(), KEYS_OF_PROJECT);
}

async fn a_grant_without_an_allocation_or_an_end_is_refused_by_the_schema(store: Store) {
    let place = place(&store).await;
    let (ada, _) = person(&store, &place, "ada@acme.example", None).await;
    let grant = SshKey { granted_by: Some(ada.id), ..key(&place.project, &ada, "grant") };
    let for_ever = SshKey { allocation_id: Some(place.allocation), ..grant.clone() };
    let everywhere = SshKey { expires_at: Some(at(60)), ..grant.clone() };
    for key in [grant, for_ever, everywhere] {
        assert!(insert(&store, &key).await.is_err(), "{key:?}");
    }
}
