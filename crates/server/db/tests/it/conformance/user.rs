//! Users.

use muster_db::{Page, Store};
use muster_model::{LabelSelector, Tenant, User};

use crate::made::{self, FIRST, put, same};

on_both![
    a_person_is_found_by_id_and_by_address,
    an_address_is_unique_in_its_tenant_and_among_the_platforms_people,
    a_person_needs_the_tenant,
    an_update_needs_the_version_before,
    a_deletion_needs_the_version,
    the_people_of_a_tenant_are_deleted_together,
    lists_page_select_and_keep_to_a_tenant,
    a_number_is_given_once_in_a_tenant,
];

async fn insert(store: &Store, tenants: &[&Tenant], users: &[&User]) {
    put(store, async |tx| {
        for tenant in tenants {
            tx.tenant_insert(tenant).await?;
        }
        for user in users {
            tx.user_insert(user).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
}

async fn a_person_is_found_by_id_and_by_address(store: Store) {
    let acme = made::tenant("acme");
    let mut ada = made::user(Some(&acme), "ada@acme.example");
    ada.password_hash = Some("$argon2id$v=19$…".to_owned());
    ada.disabled = true;
    ada.labels = made::labels([("team", "ml")]);
    let operator = made::user(None, "op@example.com");
    insert(&store, &[&acme], &[&ada, &operator]).await;
    same(&store.user_lookup(ada.id).await.unwrap(), &Some(&ada));
    same(&store.user_by_email(Some(acme.id), "ada@acme.example").await.unwrap(), &Some(&ada));
    same(&store.user_lookup(operator.id).await.unwrap(), &Some(&operator));
    same(&store.user_by_email(None, "op@example.com").await.unwrap(), &Some(&operator));
    assert!(store.user_by_email(Some(acme.id), "Ada@acme.example").await.unwrap().is_none());
    assert!(store.user_by_email(None, "ada@acme.example").await.unwrap().is_none());
    assert!(store.user_lookup(made::id()).await.unwrap().is_none());
}

async fn an_address_is_unique_in_its_tenant_and_among_the_platforms_people(store: Store) {
    let (acme, globex) = (made::tenant("acme"), made::tenant("globex"));
    let same_address = [Some(&acme), Some(&globex), None].map(|tenant| made::user(tenant, "ada@example.com"));
    insert(&store, &[&acme, &globex], &same_address.each_ref()).await;
    for tenant in [Some(&acme), Some(&globex), None] {
        let again = made::user(tenant, "ada@example.com");
        made::is_conflict(put(&store, async |tx| tx.user_insert(&again).await).await);
    }
    assert_eq!(store.users_by_email("ada@example.com", 10).await.unwrap().len(), 3);
    assert_eq!(store.users_by_email("ada@example.com", 2).await.unwrap().len(), 2);
    assert!(store.users_by_email("eve@example.com", 2).await.unwrap().is_empty());
}

async fn a_person_needs_the_tenant(store: Store) {
    let stray = made::user(Some(&made::tenant("never-made")), "ada@example.com");
    made::is_gone(put(&store, async |tx| tx.user_insert(&stray).await).await);
}

async fn an_update_needs_the_version_before(store: Store) {
    let mut ada = made::user(None, "ada@example.com");
    insert(&store, &[], &[&ada]).await;
    ada.display_name = "Ada".to_owned();
    ada.password_hash = Some("$argon2id$…".to_owned());
    ada.disabled = true;
    ada.labels = made::labels([("a", "b")]);
    ada.updated_at = made::at(77);
    ada.version = 2;
    put(&store, async |tx| tx.user_update(&ada).await).await.unwrap();
    same(&store.user_lookup(ada.id).await.unwrap(), &Some(&ada));
    let late = User { disabled: false, password_hash: None, ..ada.clone() };
    made::is_stale(put(&store, async |tx| tx.user_update(&late).await).await);
    same(&store.user_lookup(ada.id).await.unwrap(), &Some(&ada));
}

async fn a_deletion_needs_the_version(store: Store) {
    let ada = made::user(None, "ada@example.com");
    insert(&store, &[], &[&ada]).await;
    made::is_stale(put(&store, async |tx| tx.user_delete(ada.id, 2).await).await);
    put(&store, async |tx| tx.user_delete(ada.id, 1).await).await.unwrap();
    assert!(store.user_lookup(ada.id).await.unwrap().is_none());
    made::is_stale(put(&store, async |tx| tx.user_delete(ada.id, 1).await).await);
}

async fn the_people_of_a_tenant_are_deleted_together(store: Store) {
    let (acme, globex) = (made::tenant("acme"), made::tenant("globex"));
    let (a, b) = (made::user(Some(&acme), "a@example.com"), made::user(Some(&acme), "b@example.com"));
    let (other, operator) = (made::user(Some(&globex), "c@example.com"), made::user(None, "d@example.com"));
    insert(&store, &[&acme, &globex], &[&a, &b, &other, &operator]).await;
    assert_eq!(put(&store, async |tx| tx.user_delete_of_tenant(acme.id).await).await.unwrap(), 2);
    let left = store.user_list(FIRST, None, &LabelSelector::default()).await.unwrap();
    same(&left, &[&other, &operator]);
    assert_eq!(put(&store, async |tx| tx.user_delete_of_tenant(acme.id).await).await.unwrap(), 0);
}

async fn lists_page_select_and_keep_to_a_tenant(store: Store) {
    let (acme, globex) = (made::tenant("acme"), made::tenant("globex"));
    let people: Vec<User> = (0..6)
        .map(|n| User {
            labels: made::labels([("org.example/shift", if n < 3 { "day" } else { "night" })]),
            ..made::user([Some(&acme), Some(&globex), None][n % 3], &format!("p{n}@example.com"))
        })
        .collect();
    insert(&store, &[&acme, &globex], &people.iter().collect::<Vec<_>>()).await;
    let any = LabelSelector::default();
    same(&store.user_list(FIRST, None, &any).await.unwrap(), &people);
    same(&store.user_list(Page { size: 2, ..FIRST }, None, &any).await.unwrap(), &people[..2]);
    same(&store.user_list(made::page(people[3].id, 9), None, &any).await.unwrap(), &people[4..]);
    same(&store.user_list(FIRST, Some(acme.id), &any).await.unwrap(), &[&people[0], &people[3]]);
    same(&store.user_list(made::page(people[0].id, 9), Some(acme.id), &any).await.unwrap(), &[&people[3]]);
    let night = made::selector("org.example/shift=night");
    same(&store.user_list(FIRST, None, &night).await.unwrap(), &people[3..]);
    let not_night = made::selector("org.example/shift!=night");
    same(&store.user_list(FIRST, Some(globex.id), &not_night).await.unwrap(), &[&people[1]]);
}

async fn a_number_is_given_once_in_a_tenant(store: Store) {
    let (acme, globex) = (made::tenant("acme"), made::tenant("globex"));
    insert(&store, &[&acme, &globex], &[]).await;
    let next =
        async |tenant: &Tenant| put(&store, async |tx| tx.tenant_next_uid(tenant.id).await).await.unwrap();
    assert_eq!(
        (next(&acme).await, next(&acme).await, next(&globex).await),
        (Some(30_000), Some(30_001), Some(30_000))
    );
    assert_eq!(next(&made::tenant("never-made")).await, None);
    let ada = made::user(Some(&acme), "ada@acme.example");
    insert(&store, &[], &[&ada]).await;
    let login = ada.login.clone().unwrap();
    let taken = async |tenant: &Tenant| {
        put(&store, async |tx| tx.user_login_taken(tenant.id, &login.name).await).await.unwrap()
    };
    assert!(taken(&acme).await && !taken(&globex).await);
    let mut other = made::user(Some(&acme), "other@acme.example");
    other.login = Some(login);
    made::is_conflict(put(&store, async |tx| tx.user_insert(&other).await).await);
    // A removed user's uid is not reused.
    put(&store, async |tx| tx.user_delete(ada.id, ada.version).await).await.unwrap();
    assert_eq!(next(&acme).await, Some(30_002));
}
