//! Webhook delivery attempts.

use muster_db::{Delivery, Page, Store};
use muster_model::Scope;

use crate::made::{self, FIRST, put, same};

on_both![attempts_are_listed_by_webhook_oldest_first, an_attempt_needs_its_webhook_and_is_noted_once];

async fn attempts_are_listed_by_webhook_oldest_first(store: Store) {
    let (hook, other) = (made::webhook("a", Scope::Platform), made::webhook("b", Scope::Platform));
    let deliveries: Vec<Delivery> = (1..=4).map(|n| made::delivery(n, n)).collect();
    put(&store, async |tx| {
        tx.webhook_insert(&hook).await?;
        tx.webhook_insert(&other).await?;
        for delivery in deliveries.iter().rev() {
            tx.delivery_insert(hook.id, delivery).await?;
        }
        tx.delivery_insert(other.id, &made::delivery(1, 1)).await
    })
    .await
    .unwrap();
    let list = async |page: Page| store.delivery_list(hook.id, page).await.unwrap();
    same(&list(FIRST).await, &deliveries);
    same(&list(Page { size: 3, ..FIRST }).await, &deliveries[..3]);
    same(&list(made::page(deliveries[1].id, 1)).await, &deliveries[2..3]);
    assert!(list(made::page(deliveries[3].id, 1)).await.is_empty());
    assert_eq!(store.delivery_list(other.id, FIRST).await.unwrap().len(), 1);
}

async fn an_attempt_needs_its_webhook_and_is_noted_once(store: Store) {
    let (hook, delivery) = (made::webhook("a", Scope::Platform), made::delivery(1, 1));
    made::is_gone(put(&store, async |tx| tx.delivery_insert(hook.id, &delivery).await).await);
    put(&store, async |tx| {
        tx.webhook_insert(&hook).await?;
        tx.delivery_insert(hook.id, &delivery).await
    })
    .await
    .unwrap();
    made::is_conflict(put(&store, async |tx| tx.delivery_insert(hook.id, &delivery).await).await);
}
