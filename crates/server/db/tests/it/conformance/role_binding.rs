//! Role bindings, per scope.

use muster_db::{Page, Store};
use muster_model::{Project, Role, RoleBinding, Scope, Tenant, User};

use crate::made::{self, FIRST, put, same};

on_both![
    a_binding_is_found_by_id_and_by_person,
    each_role_has_exactly_one_level,
    a_role_is_held_once_per_scope,
    a_binding_needs_what_it_names,
    lists_keep_to_their_scope,
    a_binding_is_deleted_once,
    bindings_go_with_the_person_the_project_and_the_tenant,
];

struct Place {
    acme: Tenant,
    globex: Tenant,
    train: Project,
    lab: Project,
    ada: User,
    bob: User,
}

async fn place(store: &Store) -> Place {
    let (acme, globex) = (made::tenant("acme"), made::tenant("globex"));
    let (train, lab) = (made::project(&acme, "train"), made::project(&globex, "lab"));
    let (ada, bob) = (made::user(Some(&acme), "ada@acme.example"), made::user(None, "bob@example.com"));
    put(store, async |tx| {
        tx.tenant_insert(&acme).await?;
        tx.tenant_insert(&globex).await?;
        tx.project_insert(&train).await?;
        tx.project_insert(&lab).await?;
        tx.user_insert(&ada).await?;
        tx.user_insert(&bob).await
    })
    .await
    .unwrap();
    Place { acme, globex, train, lab, ada, bob }
}

async fn bind(store: &Store, bindings: &[&RoleBinding]) -> muster_db::Result<()> {
    put(store, async |tx| {
        for binding in bindings {
            tx.role_binding_insert(binding).await?;
        }
        Ok(())
    })
    .await
}

async fn a_binding_is_found_by_id_and_by_person(store: Store) {
    let place = place(&store).await;
    let platform = made::binding(&place.bob, Role::PlatformOperator, Scope::Platform);
    let tenant = made::binding(&place.bob, Role::TenantAdmin, Scope::Tenant(place.acme.id));
    let project = made::binding(&place.bob, Role::ProjectViewer, place.lab.scope());
    let other = made::binding(&place.ada, Role::ProjectAdmin, place.train.scope());
    bind(&store, &[&platform, &tenant, &project, &other]).await.unwrap();
    for binding in [&platform, &tenant, &project, &other] {
        same(&store.role_binding_lookup(binding.id).await.unwrap(), &Some(binding));
    }
    same(&store.role_bindings_of_user(place.bob.id).await.unwrap(), &[&platform, &tenant, &project]);
    same(&store.role_bindings_of_user(place.ada.id).await.unwrap(), &[&other]);
    assert!(store.role_bindings_of_user(made::id()).await.unwrap().is_empty());
    let count = async |role, scope| store.role_binding_count(role, scope).await.unwrap();
    assert_eq!(count(Role::TenantAdmin, Scope::Tenant(place.acme.id)).await, 1);
    assert_eq!(count(Role::TenantAdmin, Scope::Tenant(place.globex.id)).await, 0);
    assert_eq!(count(Role::ProjectAdmin, place.train.scope()).await, 1);
    assert_eq!(count(Role::ProjectViewer, place.train.scope()).await, 0);
    assert!(store.role_binding_lookup(made::id()).await.unwrap().is_none());
}

async fn each_role_has_exactly_one_level(store: Store) {
    let place = place(&store).await;
    for role in Role::ALL {
        for scope in [Scope::Platform, Scope::Tenant(place.acme.id), place.train.scope()] {
            let bound = bind(&store, &[&made::binding(&place.bob, role, scope)]).await;
            if role.fits(scope) {
                bound.unwrap();
            } else {
                made::is_conflict(bound);
            }
        }
    }
}

async fn a_role_is_held_once_per_scope(store: Store) {
    let place = place(&store).await;
    let levels = [
        (Role::PlatformOperator, Scope::Platform),
        (Role::TenantAdmin, Scope::Tenant(place.acme.id)),
        (Role::ProjectAdmin, place.train.scope()),
    ];
    for (role, scope) in levels {
        bind(&store, &[&made::binding(&place.bob, role, scope)]).await.unwrap();
        made::is_conflict(bind(&store, &[&made::binding(&place.bob, role, scope)]).await);
        bind(&store, &[&made::binding(&place.ada, role, scope)]).await.unwrap();
    }
    bind(&store, &[&made::binding(&place.bob, Role::TenantAdmin, Scope::Tenant(place.globex.id))])
        .await
        .unwrap();
    bind(&store, &[&made::binding(&place.bob, Role::ProjectViewer, place.train.scope())]).await.unwrap();
    bind(&store, &[&made::binding(&place.bob, Role::ProjectAdmin, place.lab.scope())]).await.unwrap();
    assert_eq!(store.role_bindings_of_user(place.bob.id).await.unwrap().len(), 6);
}

async fn a_binding_needs_what_it_names(store: Store) {
    let place = place(&store).await;
    let nobody = made::user(None, "nobody@example.com");
    let nowhere = made::project(&place.acme, "nowhere");
    let strays = [
        made::binding(&nobody, Role::PlatformOperator, Scope::Platform),
        made::binding(&place.bob, Role::TenantAdmin, Scope::Tenant(made::id())),
        made::binding(&place.bob, Role::ProjectAdmin, nowhere.scope()),
    ];
    for stray in strays {
        made::is_gone(bind(&store, &[&stray]).await);
    }
}

async fn lists_keep_to_their_scope(store: Store) {
    let place = place(&store).await;
    let all = [
        made::binding(&place.bob, Role::PlatformOperator, Scope::Platform),
        made::binding(&place.bob, Role::TenantAdmin, Scope::Tenant(place.acme.id)),
        made::binding(&place.ada, Role::ProjectAdmin, place.train.scope()),
        made::binding(&place.bob, Role::ProjectViewer, place.train.scope()),
        made::binding(&place.bob, Role::ProjectViewer, place.lab.scope()),
    ];
    bind(&store, &all.each_ref()).await.unwrap();
    let list = async |page: Page, scope: Scope| store.role_binding_list(page, scope).await.unwrap();
    same(&list(FIRST, Scope::Platform).await, &all);
    same(&list(FIRST, Scope::Tenant(place.acme.id)).await, &all[1..4]);
    same(&list(FIRST, place.train.scope()).await, &all[2..4]);
    same(&list(FIRST, place.lab.scope()).await, &all[4..]);
    same(&list(Page { size: 2, ..FIRST }, Scope::Platform).await, &all[..2]);
    same(&list(made::page(all[2].id, 2), Scope::Platform).await, &all[3..]);
    same(&list(made::page(all[2].id, 2), place.train.scope()).await, &all[3..4]);
    assert!(list(FIRST, Scope::Tenant(made::id())).await.is_empty());
}

async fn a_binding_is_deleted_once(store: Store) {
    let place = place(&store).await;
    let binding = made::binding(&place.bob, Role::PlatformOperator, Scope::Platform);
    bind(&store, &[&binding]).await.unwrap();
    put(&store, async |tx| tx.role_binding_delete(binding.id).await).await.unwrap();
    assert!(store.role_binding_lookup(binding.id).await.unwrap().is_none());
    made::is_stale(put(&store, async |tx| tx.role_binding_delete(binding.id).await).await);
}

async fn bindings_go_with_the_person_the_project_and_the_tenant(store: Store) {
    let place = place(&store).await;
    let bindings = [
        made::binding(&place.ada, Role::TenantAdmin, Scope::Tenant(place.acme.id)),
        made::binding(&place.ada, Role::ProjectAdmin, place.train.scope()),
        // A user of acme with a role at globex: removed with acme, because the user is.
        made::binding(&place.ada, Role::ProjectViewer, place.lab.scope()),
        made::binding(&place.bob, Role::ProjectAdmin, place.train.scope()),
        made::binding(&place.bob, Role::PlatformOperator, Scope::Platform),
    ];
    bind(&store, &bindings.each_ref()).await.unwrap();
    made::is_gone(put(&store, async |tx| tx.user_delete(place.ada.id, 1).await).await);
    made::is_gone(put(&store, async |tx| tx.project_delete(place.train.id, 1).await).await);

    // Each is tried and rolled back, so that all start from the same rows.
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.role_binding_delete_of_user(place.ada.id).await.unwrap(), 3);
    assert_eq!(tx.role_binding_delete_of_user(place.ada.id).await.unwrap(), 0);
    tx.user_delete(place.ada.id, 1).await.unwrap();
    tx.rollback().await;
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.role_binding_delete_of_project(place.train.id).await.unwrap(), 2);
    tx.project_delete(place.train.id, 1).await.unwrap();
    tx.rollback().await;
    let gone = put(&store, async |tx| tx.role_binding_delete_of_tenant(place.acme.id).await).await.unwrap();
    assert_eq!(gone, 4);
    same(&store.role_binding_list(FIRST, Scope::Platform).await.unwrap(), &[&bindings[4]]);
}
