//! Quotas.

use muster_db::{Quota, Store};
use muster_model::node::Capacity;

use crate::made::{self, fleet, put};

on_both![
    a_project_without_limits_has_none,
    limits_are_set_on_the_version_that_was_seen,
    a_limit_binds_what_grows_and_nothing_else,
    nothing_is_given_back_that_was_not_taken,
    limits_go_with_their_project_and_with_their_tenant,
];

async fn take(store: &Store, project: &muster_model::Project, allocations: i64, amount: Capacity) -> bool {
    put(store, async |tx| tx.quota_take(project.id, allocations, amount).await).await.unwrap()
}

async fn a_project_without_limits_has_none(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let none = Quota::default();
    assert_eq!(store.quota_lookup(project.id).await.unwrap(), none);
    assert!(take(&store, &project, 1, fleet::capacity(1000, 2000, 3000, 4000)).await);
    let used = fleet::capacity(1000, 2000, 3000, 4000);
    let expected = Quota { used_allocations: 1, used, version: 1, ..none };
    assert_eq!(store.quota_lookup(project.id).await.unwrap(), expected);
    assert_eq!(store.quota_lookup(made::id()).await.unwrap(), none);
    made::is_gone(put(&store, async |tx| tx.quota_take(made::id(), 1, Capacity::default()).await).await);
}

async fn limits_are_set_on_the_version_that_was_seen(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let set = async |quota: &Quota| put(&store, async |tx| tx.quota_set(project.id, quota).await).await;
    let limits = Quota {
        max_allocations: Some(1),
        max_gpus: Some(2),
        max_cpus: Some(3),
        max_memory_mb: Some(4),
        max_disk_mb: None,
        ..Quota::default()
    };
    set(&limits).await.unwrap();
    let kept = store.quota_lookup(project.id).await.unwrap();
    assert_eq!(kept, Quota { version: 2, ..limits });
    made::is_stale(set(&limits).await);
    made::is_stale(set(&Quota { version: 3, ..limits }).await);
    set(&Quota { max_gpus: None, used_allocations: 99, ..kept }).await.unwrap();
    let kept = store.quota_lookup(project.id).await.unwrap();
    assert_eq!((kept.max_gpus, kept.used_allocations, kept.version), (None, 0, 3));
    // Usage does not change the version: setting limits does not conflict with allocations.
    assert!(take(&store, &project, 1, Capacity::default()).await);
    set(&kept).await.unwrap();
    made::is_gone(put(&store, async |tx| tx.quota_set(made::id(), &limits).await).await);
}

async fn a_limit_binds_what_grows_and_nothing_else(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let limits = Quota {
        max_allocations: Some(2),
        max_gpus: Some(2),
        max_cpus: Some(2),
        max_memory_mb: Some(2),
        max_disk_mb: Some(2),
        ..Quota::default()
    };
    put(&store, async |tx| tx.quota_set(project.id, &limits).await).await.unwrap();
    let each = fleet::capacity(1, 1, 1, 1);
    assert!(take(&store, &project, 1, each).await && take(&store, &project, 1, each).await);
    let nothing = Capacity::default();
    assert!(!take(&store, &project, 1, nothing).await);
    let why = async |count, amount: Capacity| {
        put(&store, async |tx| tx.quota_excess(project.id, count, &amount).await).await.unwrap()
    };
    let allows = "the project's quota allows";
    assert_eq!(why(1, nothing).await, format!("{allows} 2 allocations: 2 used, 1 more requested"));
    let gpus = Capacity { gpus: 3, ..nothing };
    assert_eq!(why(0, gpus).await, format!("{allows} 2 GPUs: 2 used, 3 more requested"));
    for one in [
        Capacity { gpus: 1, ..nothing },
        Capacity { cpus: 1, ..nothing },
        Capacity { memory_mb: 1, ..nothing },
        Capacity { disk_mb: 1, ..nothing },
    ] {
        assert!(!take(&store, &project, 0, one).await, "{one:?}");
    }
    let full = store.quota_lookup(project.id).await.unwrap();
    assert_eq!(full.excess(0, &fleet::capacity(-1, 0, 0, 0)), None, "what shrinks is always allowed");
    assert_eq!(Quota::default().excess(9, &fleet::capacity(9, 9, 9, 9)), None, "no limit");
    assert_eq!((full.used_allocations, full.used), (2, fleet::capacity(2, 2, 2, 2)));
    // A limit below the usage only prevents growth.
    let none = Quota { max_allocations: Some(0), max_gpus: Some(0), ..full };
    put(&store, async |tx| tx.quota_set(project.id, &none).await).await.unwrap();
    assert!(take(&store, &project, 0, fleet::capacity(-1, 0, 0, 0)).await);
    assert!(!take(&store, &project, 0, fleet::capacity(1, 0, 0, 0)).await);
    assert!(take(&store, &project, -1, fleet::capacity(-1, -1, -1, -1)).await);
    assert_eq!(store.quota_lookup(project.id).await.unwrap().used, fleet::capacity(0, 1, 1, 1));
}

async fn nothing_is_given_back_that_was_not_taken(store: Store) {
    let (_, project) = fleet::place(&store).await;
    for (allocations, amount) in [(-1, Capacity::default()), (0, fleet::capacity(0, 0, 0, -1))] {
        made::is_conflict(put(&store, async |tx| tx.quota_take(project.id, allocations, amount).await).await);
    }
}

async fn limits_go_with_their_project_and_with_their_tenant(store: Store) {
    let (acme, project) = fleet::place(&store).await;
    let (second, globex) = (made::project(&acme, "serve"), made::tenant("globex"));
    let theirs = made::project(&globex, "train");
    put(&store, async |tx| {
        tx.project_insert(&second).await?;
        tx.tenant_insert(&globex).await?;
        tx.project_insert(&theirs).await
    })
    .await
    .unwrap();
    let all = [&project, &second, &theirs];
    let versions = async || {
        let mut versions = Vec::new();
        for project in all {
            versions.push(store.quota_lookup(project.id).await.unwrap().version);
        }
        versions
    };
    for project in all {
        take(&store, project, 1, Capacity::default()).await;
    }
    assert_eq!(versions().await, [1, 1, 1]);
    put(&store, async |tx| tx.quota_delete_of_project(project.id).await).await.unwrap();
    assert_eq!(versions().await, [0, 1, 1]);
    put(&store, async |tx| tx.quota_delete_of_tenant(acme.id).await).await.unwrap();
    assert_eq!(versions().await, [0, 0, 1]);
}
