//! Tenants.

use muster_db::{Page, Store};
use muster_model::{LabelSelector, Role, Scope, Tenant};

use crate::made::{self, FIRST, put, same};

on_both![
    a_tenant_is_found_by_id_and_by_slug,
    a_slug_is_unique,
    a_version_is_positive,
    an_update_needs_the_version_before,
    a_deletion_needs_the_version,
    a_tenant_with_parts_cannot_be_deleted,
    lists_page_in_order_of_making,
    lists_show_what_a_person_administers,
    selectors_match_equal_and_unequal_labels,
    keys_with_dots_slashes_and_digits_are_no_paths,
];

async fn insert(store: &Store, tenants: &[Tenant]) {
    put(store, async |tx| {
        for tenant in tenants {
            tx.tenant_insert(tenant).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
}

async fn found(store: &Store, selector: &str) -> Vec<String> {
    let tenants = store.tenant_list(FIRST, None, &made::selector(selector)).await.unwrap();
    tenants.into_iter().map(|tenant| tenant.slug).collect()
}

async fn a_tenant_is_found_by_id_and_by_slug(store: Store) {
    let mut tenant = made::tenant("acme");
    tenant.display_name = "Ácmé \"GmbH\" \\ 漢字 🚀".to_owned();
    tenant.labels = made::labels([("team", "ml"), ("note", "it's \"quoted\"\n")]);
    insert(&store, &[tenant.clone(), made::tenant("globex")]).await;
    same(&store.tenant_lookup(tenant.id).await.unwrap(), &Some(&tenant));
    same(&store.tenant_by_slug("acme").await.unwrap(), &Some(&tenant));
    assert!(store.tenant_lookup(made::id()).await.unwrap().is_none());
    assert!(store.tenant_by_slug("Acme").await.unwrap().is_none());
    assert!(store.tenant_by_slug("acm%").await.unwrap().is_none());
}

async fn a_slug_is_unique(store: Store) {
    let tenant = made::tenant("acme");
    insert(&store, std::slice::from_ref(&tenant)).await;
    made::is_conflict(put(&store, async |tx| tx.tenant_insert(&made::tenant("acme")).await).await);
    let mut again = made::tenant("other");
    again.id = tenant.id;
    made::is_conflict(put(&store, async |tx| tx.tenant_insert(&again).await).await);
    assert_eq!(found(&store, "").await, ["acme"]);
}

async fn a_version_is_positive(store: Store) {
    let mut tenant = made::tenant("acme");
    tenant.version = 0;
    made::is_conflict(put(&store, async |tx| tx.tenant_insert(&tenant).await).await);
}

async fn an_update_needs_the_version_before(store: Store) {
    let mut tenant = made::tenant("acme");
    insert(&store, std::slice::from_ref(&tenant)).await;
    tenant.display_name = "New".to_owned();
    tenant.labels = made::labels([("a", "b")]);
    tenant.updated_at = made::at(9);
    tenant.version = 2;
    put(&store, async |tx| tx.tenant_update(&tenant).await).await.unwrap();
    same(&store.tenant_lookup(tenant.id).await.unwrap(), &Some(&tenant));

    let mut late = tenant.clone();
    late.display_name = "Late".to_owned();
    made::is_stale(put(&store, async |tx| tx.tenant_update(&late).await).await);
    late.version = 4;
    made::is_stale(put(&store, async |tx| tx.tenant_update(&late).await).await);
    (late.id, late.version) = (made::id(), 3);
    made::is_stale(put(&store, async |tx| tx.tenant_update(&late).await).await);
    same(&store.tenant_lookup(tenant.id).await.unwrap(), &Some(&tenant));
}

async fn a_deletion_needs_the_version(store: Store) {
    let tenant = made::tenant("acme");
    insert(&store, &[tenant.clone(), made::tenant("globex")]).await;
    made::is_stale(put(&store, async |tx| tx.tenant_delete(tenant.id, 2).await).await);
    assert!(store.tenant_lookup(tenant.id).await.unwrap().is_some());
    put(&store, async |tx| tx.tenant_delete(tenant.id, 1).await).await.unwrap();
    assert!(store.tenant_lookup(tenant.id).await.unwrap().is_none());
    made::is_stale(put(&store, async |tx| tx.tenant_delete(tenant.id, 1).await).await);
    assert_eq!(found(&store, "").await, ["globex"]);
    insert(&store, &[made::tenant("acme")]).await;
}

async fn a_tenant_with_parts_cannot_be_deleted(store: Store) {
    let tenant = made::tenant("acme");
    let project = made::project(&tenant, "train");
    insert(&store, std::slice::from_ref(&tenant)).await;
    put(&store, async |tx| tx.project_insert(&project).await).await.unwrap();
    made::is_gone(put(&store, async |tx| tx.tenant_delete(tenant.id, 1).await).await);
    assert!(store.tenant_lookup(tenant.id).await.unwrap().is_some());
}

async fn lists_page_in_order_of_making(store: Store) {
    let tenants: Vec<Tenant> = (0..5).map(|n| made::tenant(&format!("t{}", 9 - n))).collect();
    insert(&store, &tenants).await;
    let any = LabelSelector::default();
    let list = async |page: Page| store.tenant_list(page, None, &any).await.unwrap();
    same(&list(FIRST).await, &tenants);
    same(&list(Page { size: 2, ..FIRST }).await, &tenants[..2]);
    same(&list(made::page(tenants[1].id, 2)).await, &tenants[2..4]);
    same(&list(made::page(tenants[3].id, 2)).await, &tenants[4..]);
    assert!(list(made::page(tenants[4].id, 2)).await.is_empty());
}

async fn lists_show_what_a_person_administers(store: Store) {
    let (mine, theirs, seen) = (made::tenant("mine"), made::tenant("theirs"), made::tenant("seen"));
    insert(&store, &[mine.clone(), theirs.clone(), seen.clone()]).await;
    let (person, nobody) = (made::user(Some(&mine), "ada@mine.example"), made::user(None, "bob@example.com"));
    let project = made::project(&seen, "train");
    put(&store, async |tx| {
        tx.user_insert(&person).await?;
        tx.user_insert(&nobody).await?;
        tx.project_insert(&project).await?;
        tx.role_binding_insert(&made::binding(&person, Role::TenantAdmin, Scope::Tenant(mine.id))).await?;
        // A role in a project does not make its tenant visible.
        tx.role_binding_insert(&made::binding(&person, Role::ProjectAdmin, project.scope())).await
    })
    .await
    .unwrap();
    let any = LabelSelector::default();
    same(&store.tenant_list(FIRST, Some(person.id), &any).await.unwrap(), &[&mine]);
    assert!(store.tenant_list(FIRST, Some(nobody.id), &any).await.unwrap().is_empty());
    assert_eq!(store.tenant_list(FIRST, None, &any).await.unwrap().len(), 3);
    assert!(store.tenant_list(FIRST, Some(person.id), &made::selector("a=b")).await.unwrap().is_empty());
}

async fn selectors_match_equal_and_unequal_labels(store: Store) {
    let with = |slug, labels| Tenant { labels, ..made::tenant(slug) };
    insert(
        &store,
        &[
            with("bare", made::labels([])),
            with("ml", made::labels([("team", "ml"), ("stage", "prod")])),
            with("test", made::labels([("team", "ml"), ("stage", "test")])),
            with("web", made::labels([("team", "web"), ("empty", "")])),
        ],
    )
    .await;
    assert_eq!(found(&store, "").await, ["bare", "ml", "test", "web"]);
    assert_eq!(found(&store, "team=ml").await, ["ml", "test"]);
    assert_eq!(found(&store, "team=ml,stage=test").await, ["test"]);
    assert_eq!(found(&store, "team=ml,stage!=test").await, ["ml"]);
    // A missing key passes `!=`, and differs from an empty value.
    assert_eq!(found(&store, "team!=ml").await, ["bare", "web"]);
    assert_eq!(found(&store, "empty=").await, ["web"]);
    assert_eq!(found(&store, "empty!=").await, ["bare", "ml", "test"]);
    assert_eq!(found(&store, "team!=ml,stage!=test,empty!=").await, ["bare"]);
    assert_eq!(found(&store, "team=ML").await, Vec::<String>::new());
    assert_eq!(found(&store, "absent=x").await, Vec::<String>::new());
}

async fn keys_with_dots_slashes_and_digits_are_no_paths(store: Store) {
    let keys = ["a.b", "example.com/team", "a-b", "a_b", "0", "12", "1e3", "a.0", "-1", "true", "null"];
    for (n, key) in keys.into_iter().enumerate() {
        let tenant = Tenant {
            labels: made::labels([(key, "yes"), ("decoy", "no")]),
            ..made::tenant(&format!("t{n}"))
        };
        insert(&store, &[tenant]).await;
    }
    for (n, key) in keys.into_iter().enumerate() {
        assert_eq!(found(&store, &format!("{key}=yes")).await, [format!("t{n}")], "{key}");
        let others = found(&store, &format!("{key}!=yes")).await;
        assert_eq!((others.len(), others.contains(&format!("t{n}"))), (keys.len() - 1, false), "{key}");
    }
    // Values that look like numbers or JSON are text.
    let odd = Tenant {
        labels: made::labels([("n", "1"), ("j", "{\"a\":1}"), ("t", "true")]),
        ..made::tenant("odd")
    };
    insert(&store, &[odd]).await;
    for term in ["n=1", "j={\"a\":1}", "t=true"] {
        assert_eq!(found(&store, term).await, ["odd"], "{term}");
    }
    assert_eq!(found(&store, "n=1.0").await, Vec::<String>::new());
}
