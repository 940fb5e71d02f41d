//! The history of instances is removed with the project or the tenant; live instances are not.

use muster_db::Store;
use muster_model::app::Audience;
use muster_model::assess::AdapterReport;
use muster_model::instance::Health;

use crate::made::catalog::{adapter_step, granted, launched, member, offered, published, stopped};
use crate::made::{at, fleet, is_gone, put};

on_both![history_goes_with_its_project, history_goes_with_its_tenant];

/// Creates a project with a live and a stopped instance, with a member and a step each.
async fn history(
    store: &Store,
) -> (muster_model::Tenant, muster_model::Project, muster_model::instance::Instance) {
    let (tenant, project) = fleet::place(store).await;
    let app = offered(store, &project, "notebook", Audience::Project).await;
    let version = published(store, &app, "1").await;
    let (_, account) = granted(store, &project, &app).await;
    let lives = launched(store, &project, &version, &account, "lives").await;
    let ended = launched(store, &project, &version, &account, "ended").await;
    for instance in [&lives, &ended] {
        let member = member(store, instance, &version, &format!("{}-worker-1", instance.name)).await;
        let report =
            AdapterReport { incarnation: member.incarnation, health: Health::Healthy, message: None };
        assert!(put(store, async |tx| tx.member_report(member.id, &report, at(1)).await).await.unwrap());
        put(store, async |tx| tx.adapter_step_queue(&adapter_step(instance, "join")).await).await.unwrap();
    }
    stopped(store, &ended).await;
    (tenant, project, lives)
}

async fn history_goes_with_its_project(store: Store) {
    let (_, project, lives) = history(&store).await;
    let live =
        async || put(&store, async |tx| tx.instance_live_of_project_now(project.id).await).await.unwrap();
    let delete =
        async || put(&store, async |tx| tx.instance_delete_of_project(project.id).await).await.unwrap();
    assert_eq!(live().await, 1);
    assert_eq!(delete().await, 1);
    assert!(store.instance_lookup(lives.id).await.unwrap().is_some(), "what lives is not removed with a row");
    is_gone(put(&store, async |tx| tx.app_delete_of_project(project.id).await).await);
    stopped(&store, &lives).await;
    assert_eq!((live().await, delete().await, delete().await), (0, 1, 0));
}

async fn history_goes_with_its_tenant(store: Store) {
    let (tenant, _, lives) = history(&store).await;
    let live =
        async || put(&store, async |tx| tx.instance_live_of_tenant_now(tenant.id).await).await.unwrap();
    let delete =
        async || put(&store, async |tx| tx.instance_delete_of_tenant(tenant.id).await).await.unwrap();
    assert_eq!((live().await, delete().await), (1, 1));
    assert!(store.instance_lookup(lives.id).await.unwrap().is_some());
    stopped(&store, &lives).await;
    assert_eq!((live().await, delete().await, delete().await), (0, 1, 0));
}
