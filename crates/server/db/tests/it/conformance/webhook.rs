//! Webhooks.

use muster_db::{Page, Store};
use muster_model::webhook::{Webhook, WebhookState};
use muster_model::{Project, Scope, Tenant};

use crate::made::{self, FIRST, put, same};

on_both![
    a_webhook_reads_back_as_it_was_made,
    a_name_is_unique_in_its_scope,
    lists_hold_exactly_their_scope,
    due_webhook_is_enabled_behind_and_past_its_attempt_time,
    an_update_needs_the_version_before,
    progress_is_fenced_by_where_it_was_found,
    only_an_enabled_webhook_fails,
    a_secret_is_sealed_anew_unless_it_changed,
    webhooks_go_one_by_one_with_the_project_and_with_the_tenant,
    a_webhook_can_be_deleted_while_a_delivery_is_recorded,
];

struct Place {
    acme: Tenant,
    train: Project,
}

async fn place(store: &Store) -> Place {
    let acme = made::tenant("acme");
    let train = made::project(&acme, "train");
    put(store, async |tx| {
        tx.tenant_insert(&acme).await?;
        tx.project_insert(&train).await
    })
    .await
    .unwrap();
    Place { acme, train }
}

async fn insert(store: &Store, hooks: &[&Webhook]) -> muster_db::Result<()> {
    put(store, async |tx| {
        for hook in hooks {
            tx.webhook_insert(hook).await?;
        }
        Ok(())
    })
    .await
}

async fn stored(store: &Store, hook: &Webhook) -> Webhook {
    store.webhook_lookup(hook.id).await.unwrap().unwrap()
}

async fn a_webhook_reads_back_as_it_was_made(store: Store) {
    let place = place(&store).await;
    let mut hook = made::webhook("hook", place.train.scope());
    hook.labels = made::labels([("a", "b")]);
    hook.state = WebhookState::Disabled;
    hook.cursor = 41;
    let all = Webhook { event_types: Vec::new(), ..made::webhook("all", Scope::Platform) };
    insert(&store, &[&hook, &all]).await.unwrap();
    same(&stored(&store, &hook).await, &hook);
    same(&stored(&store, &all).await, &all);
    assert!(store.webhook_lookup(made::id()).await.unwrap().is_none());
    made::is_gone(insert(&store, &[&made::webhook("x", Scope::Tenant(made::id()))]).await);
    made::is_gone(insert(&store, &[&made::webhook("x", Scope::Project(place.acme.id, made::id()))]).await);
}

async fn a_name_is_unique_in_its_scope(store: Store) {
    let place = place(&store).await;
    for scope in [Scope::Platform, Scope::Tenant(place.acme.id), place.train.scope()] {
        insert(&store, &[&made::webhook("hook", scope)]).await.unwrap();
        made::is_conflict(insert(&store, &[&made::webhook("hook", scope)]).await);
    }
}

async fn lists_hold_exactly_their_scope(store: Store) {
    let place = place(&store).await;
    let platform = [made::webhook("a", Scope::Platform), made::webhook("b", Scope::Platform)];
    let tenant = made::webhook("a", Scope::Tenant(place.acme.id));
    let project = made::webhook("a", place.train.scope());
    insert(&store, &[&platform[0], &tenant, &project, &platform[1]]).await.unwrap();
    let list = async |page: Page, scope: Scope| store.webhook_list(page, scope).await.unwrap();
    same(&list(FIRST, Scope::Platform).await, &platform);
    same(&list(FIRST, Scope::Tenant(place.acme.id)).await, &[&tenant]);
    same(&list(FIRST, place.train.scope()).await, &[&project]);
    same(&list(Page { size: 1, ..FIRST }, Scope::Platform).await, &platform[..1]);
    same(&list(made::page(platform[0].id, 1), Scope::Platform).await, &platform[1..]);
    assert!(list(FIRST, Scope::Tenant(made::id())).await.is_empty());
    same(&store.webhook_of_tenant(place.acme.id).await.unwrap(), &[&tenant, &project]);
    assert!(store.webhook_of_tenant(made::id()).await.unwrap().is_empty());
}

async fn due_webhook_is_enabled_behind_and_past_its_attempt_time(store: Store) {
    let hook = |name: &str, cursor: i64, next: i64, state: WebhookState| Webhook {
        cursor,
        next_attempt_at: made::at(next),
        state,
        ..made::webhook(name, Scope::Platform)
    };
    let late = hook("late", 0, 30, WebhookState::Enabled);
    let early = hook("early", 4, 20, WebhookState::Enabled);
    let future = hook("future", 0, 31, WebhookState::Enabled);
    let caught_up = hook("caught-up", 5, 0, WebhookState::Enabled);
    let disabled = hook("disabled", 0, 0, WebhookState::Disabled);
    let failing = hook("failing", 0, 0, WebhookState::Failing);
    insert(&store, &[&late, &early, &future, &caught_up, &disabled, &failing]).await.unwrap();
    same(&store.webhook_due(made::at(30), 5, 9).await.unwrap(), &[&early, &late]);
    same(&store.webhook_due(made::at(30), 5, 1).await.unwrap(), &[&early]);
    same(&store.webhook_due(made::at(31), 4, 9).await.unwrap(), &[&late, &future]);
    same(&store.webhook_due(made::at(0), 6, 9).await.unwrap(), &[&caught_up]);
    assert!(store.webhook_due(made::at(30), 0, 9).await.unwrap().is_empty());
    let count = put(&store, async |tx| tx.webhook_count(None).await).await.unwrap();
    assert_eq!(count, 6, "whatever their state");
    assert_eq!(put(&store, async |tx| tx.webhook_count(Some(made::id())).await).await.unwrap(), 0);
}

async fn an_update_needs_the_version_before(store: Store) {
    let mut hook = made::webhook("hook", Scope::Platform);
    let neighbour = made::webhook("neighbour", Scope::Platform);
    insert(&store, &[&hook, &neighbour]).await.unwrap();
    hook.url = "https://other.example/".to_owned();
    hook.event_types = vec!["dev.muster.user.created.v1".to_owned(), "*".to_owned()];
    hook.state = WebhookState::Disabled;
    hook.labels = made::labels([("x", "y")]);
    (hook.updated_at, hook.next_attempt_at, hook.failing_since) =
        (made::at(5), made::at(6), Some(made::at(7)));
    (hook.cursor, hook.attempts, hook.version) = (17, 3, 2);
    put(&store, async |tx| tx.webhook_update(&hook).await).await.unwrap();
    same(&stored(&store, &hook).await, &hook);
    let late = Webhook { state: WebhookState::Enabled, ..hook.clone() };
    made::is_stale(put(&store, async |tx| tx.webhook_update(&late).await).await);
    same(&stored(&store, &hook).await, &hook);
    same(&stored(&store, &neighbour).await, &neighbour);
}

async fn progress_is_fenced_by_where_it_was_found(store: Store) {
    let found = made::webhook("hook", Scope::Platform);
    let neighbour = made::webhook("neighbour", Scope::Platform);
    insert(&store, &[&found, &neighbour]).await.unwrap();
    let moved = Webhook {
        cursor: 9,
        attempts: 2,
        next_attempt_at: made::at(90),
        failing_since: Some(made::at(80)),
        last_result: Some("503".to_owned()),
        ..found.clone()
    };
    put(&store, async |tx| tx.webhook_progress(&found, &moved).await).await.unwrap();
    same(&stored(&store, &found).await, &moved);
    // A second deliverer with the old position is rejected, by the cursor and by the attempts.
    let ahead = Webhook { cursor: 100, ..found.clone() };
    made::is_fenced(put(&store, async |tx| tx.webhook_progress(&found, &ahead).await).await);
    for elsewhere in [Webhook { attempts: 1, ..moved.clone() }, Webhook { cursor: 8, ..moved.clone() }] {
        made::is_fenced(put(&store, async |tx| tx.webhook_progress(&elsewhere, &ahead).await).await);
    }
    same(&stored(&store, &found).await, &moved);
    // A change by the owner does not stop the deliverer.
    let renamed = Webhook { url: "https://new.example/".to_owned(), version: 2, ..moved.clone() };
    put(&store, async |tx| tx.webhook_update(&renamed).await).await.unwrap();
    let done = Webhook { cursor: 10, attempts: 0, failing_since: None, ..moved.clone() };
    put(&store, async |tx| tx.webhook_progress(&moved, &done).await).await.unwrap();
    let now = stored(&store, &found).await;
    same(&now, &Webhook { url: renamed.url.clone(), version: 2, ..done });
    same(&stored(&store, &neighbour).await, &neighbour);
}

async fn only_an_enabled_webhook_fails(store: Store) {
    let hook = made::webhook("hook", Scope::Platform);
    let neighbour = made::webhook("neighbour", Scope::Platform);
    let disabled = Webhook { state: WebhookState::Disabled, ..made::webhook("off", Scope::Platform) };
    insert(&store, &[&hook, &disabled, &neighbour]).await.unwrap();
    put(&store, async |tx| tx.webhook_failing(hook.id).await).await.unwrap();
    same(&stored(&store, &hook).await, &Webhook { state: WebhookState::Failing, version: 2, ..hook.clone() });
    made::is_stale(put(&store, async |tx| tx.webhook_failing(hook.id).await).await);
    made::is_stale(put(&store, async |tx| tx.webhook_failing(disabled.id).await).await);
    same(&stored(&store, &disabled).await, &disabled);
    same(&stored(&store, &neighbour).await, &neighbour);
}

async fn a_secret_is_sealed_anew_unless_it_changed(store: Store) {
    let hook = made::webhook("hook", Scope::Platform);
    let neighbour = made::webhook("neighbour", Scope::Platform);
    insert(&store, &[&hook, &neighbour]).await.unwrap();
    let reseal = async |fresh: &[u8], before: &[u8]| {
        put(&store, async |tx| tx.webhook_reseal(hook.id, fresh.to_vec(), before.to_vec()).await).await
    };
    reseal(&[7, 0, 7], &hook.secret_sealed).await.unwrap();
    same(&stored(&store, &hook).await, &Webhook { secret_sealed: vec![7, 0, 7], ..hook.clone() });
    made::is_stale(reseal(&[8], &hook.secret_sealed).await);
    assert_eq!(stored(&store, &hook).await.secret_sealed, [7, 0, 7]);
    same(&stored(&store, &neighbour).await, &neighbour);
}

async fn webhooks_go_one_by_one_with_the_project_and_with_the_tenant(store: Store) {
    let place = place(&store).await;
    let platform = made::webhook("p", Scope::Platform);
    let tenant = made::webhook("t", Scope::Tenant(place.acme.id));
    let (first, second) = (made::webhook("a", place.train.scope()), made::webhook("b", place.train.scope()));
    let hooks = [&platform, &tenant, &first, &second];
    insert(&store, &hooks).await.unwrap();
    put(&store, async |tx| {
        for hook in hooks {
            tx.delivery_insert(hook.id, &made::delivery(1, 1)).await?;
            tx.delivery_insert(hook.id, &made::delivery(1, 2)).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    made::is_stale(put(&store, async |tx| tx.webhook_delete(first.id, 2).await).await);
    assert_eq!(
        store.delivery_list(first.id, FIRST).await.unwrap().len(),
        2,
        "refused, it takes nothing with it"
    );
    assert_eq!(put(&store, async |tx| tx.webhook_delete(first.id, 1).await).await.unwrap(), 2);
    assert!(store.webhook_lookup(first.id).await.unwrap().is_none());

    let delete =
        async || put(&store, async |tx| tx.webhook_delete_of_project(place.train.id).await).await.unwrap();
    assert_eq!((delete().await, delete().await), (1, 0));
    assert!(store.webhook_lookup(second.id).await.unwrap().is_none());
    assert_eq!(store.delivery_list(tenant.id, FIRST).await.unwrap().len(), 2);
    insert(&store, &[&made::webhook("c", place.train.scope())]).await.unwrap();
    assert_eq!(put(&store, async |tx| tx.webhook_delete_of_tenant(place.acme.id).await).await.unwrap(), 2);
    assert!(store.webhook_of_tenant(place.acme.id).await.unwrap().is_empty());
    assert!(store.delivery_list(tenant.id, FIRST).await.unwrap().is_empty());
    assert_eq!(store.delivery_list(platform.id, FIRST).await.unwrap().len(), 2);
}

async fn a_webhook_can_be_deleted_while_a_delivery_is_recorded(store: Store) {
    let place = place(&store).await;
    let hook = made::webhook("hook", place.train.scope());
    insert(&store, &[&hook]).await.unwrap();
    let pause = |millis| tokio::time::sleep(std::time::Duration::from_millis(millis));
    let recording = put(&store, async |tx| {
        tx.delivery_insert(hook.id, &made::delivery(1, 1)).await?;
        pause(400).await;
        Ok(())
    });
    let deleting = async {
        pause(150).await;
        put(&store, async |tx| tx.webhook_delete(hook.id, 1).await).await
    };
    let (recorded, deleted) = tokio::join!(recording, deleting);
    recorded.unwrap();
    deleted.unwrap();
    assert!(store.webhook_lookup(hook.id).await.unwrap().is_none());
}
