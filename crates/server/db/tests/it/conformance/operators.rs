//! The operators that can still act: the platform must never lose its last one.

use muster_db::Store;
use muster_model::{Role, Scope, User};

use crate::made::{self, put};

on_both![operators_are_those_with_the_role_who_are_not_disabled];

async fn operators_are_those_with_the_role_who_are_not_disabled(store: Store) {
    let acme = made::tenant("acme");
    let mut users: Vec<User> = (0..4).map(|n| made::user(None, &format!("u{n}@example.com"))).collect();
    users[2].disabled = true;
    let binding = made::binding(&users[0], Role::PlatformOperator, Scope::Platform);
    put(&store, async |tx| {
        tx.tenant_insert(&acme).await?;
        for user in &users {
            tx.user_insert(user).await?;
        }
        tx.role_binding_insert(&binding).await?;
        for user in &users[1..3] {
            tx.role_binding_insert(&made::binding(user, Role::PlatformOperator, Scope::Platform)).await?;
        }
        tx.role_binding_insert(&made::binding(&users[3], Role::TenantAdmin, Scope::Tenant(acme.id))).await
    })
    .await
    .unwrap();
    let operators = put(&store, async |tx| tx.operators_locked().await).await.unwrap();
    assert_eq!(operators, [users[0].id, users[1].id]);

    // Bindings removed in the same transaction no longer count.
    let left = put(&store, async |tx| {
        tx.role_binding_delete(binding.id).await?;
        tx.operators_locked().await
    });
    assert_eq!(left.await.unwrap(), [users[1].id]);
    let disabled = User { disabled: true, version: 2, ..users[1].clone() };
    put(&store, async |tx| tx.user_update(&disabled).await).await.unwrap();
    assert!(put(&store, async |tx| tx.operators_locked().await).await.unwrap().is_empty());
}
