//! Publishers' keys and a project's trust policy: trusted signatures, by edition.

use muster_db::{Result, Store};
use muster_model::Project;
use muster_model::artifact::{ArtifactState, PublisherKey, TrustPolicy};

use crate::made::{self, at, fleet, is_conflict, is_gone, is_stale, put, same};

on_both![
    a_key_is_found_by_fingerprint,
    a_key_needs_its_project,
    keys_of_a_project_differ_in_name_and_in_substance,
    rules_are_there_once_somebody_changed_them_or_a_key,
    rules_are_set_on_the_version_that_was_seen,
    every_change_begins_another_edition,
    rules_that_make_no_sense_are_refused,
    keys_and_rules_go_with_their_project_or_tenant,
];

pub(super) fn key(project: &Project, name: &str) -> PublisherKey {
    PublisherKey {
        id: made::id(),
        tenant_id: project.tenant_id,
        project_id: project.id,
        name: name.to_owned(),
        public_key: format!("PEM of {name}"),
        fingerprint: format!("SHA256:{name}"),
        algorithm: "ecdsa-p256".to_owned(),
        created_at: at(0),
        revoked_at: None,
        revoked_reason: None,
        version: 1,
    }
}

async fn insert(store: &Store, key: &PublisherKey) -> Result<()> {
    put(store, async |tx| tx.insert_record(key).await).await
}

async fn added(store: &Store, project: &Project, name: &str) -> PublisherKey {
    let key = key(project, name);
    insert(store, &key).await.unwrap();
    key
}

async fn raise(store: &Store, project: &Project) -> Result<()> {
    put(store, async |tx| tx.trust_policy_raise(project.id).await).await
}

async fn set(store: &Store, project: &Project, rules: &TrustPolicy) -> Result<TrustPolicy> {
    put(store, async |tx| tx.trust_policy_set(project.id, rules).await).await
}

async fn rules(store: &Store, project: &Project) -> Option<TrustPolicy> {
    store.trust_policy_lookup(project.id).await.unwrap()
}

async fn a_key_is_found_by_fingerprint(store: Store) {
    let (tenant, project) = fleet::place(&store).await;
    let serve = made::project(&tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    let first = added(&store, &project, "build").await;
    let revoked = PublisherKey {
        revoked_at: Some(at(5)),
        revoked_reason: Some("lost".to_owned()),
        ..key(&project, "old")
    };
    insert(&store, &revoked).await.unwrap();
    added(&store, &serve, "build").await;
    same(&store.key_by_fingerprint(project.id, "SHA256:old").await.unwrap().unwrap(), &revoked);
    assert!(store.key_by_fingerprint(serve.id, "SHA256:old").await.unwrap().is_none());
    same(&store.key_of_project(project.id).await.unwrap(), &[&first, &revoked]);
}

async fn a_key_needs_its_project(store: Store) {
    let (tenant, _) = fleet::place(&store).await;
    let never = made::project(&tenant, "never-made");
    is_gone(insert(&store, &key(&never, "build")).await);
    is_gone(raise(&store, &never).await);
    is_gone(set(&store, &never, &TrustPolicy::default()).await);
}

async fn keys_of_a_project_differ_in_name_and_in_substance(store: Store) {
    let (tenant, project) = fleet::place(&store).await;
    let first = added(&store, &project, "build").await;
    let same_name = PublisherKey { fingerprint: "SHA256:other".to_owned(), ..key(&project, "build") };
    is_conflict(insert(&store, &same_name).await);
    let same_key = PublisherKey { fingerprint: first.fingerprint.clone(), ..key(&project, "other") };
    is_conflict(insert(&store, &same_key).await);
    let revoked = PublisherKey {
        revoked_at: Some(at(5)),
        revoked_reason: Some("lost".to_owned()),
        version: 2,
        ..first
    };
    put(&store, async |tx| tx.update_record(&revoked).await).await.unwrap();
    is_conflict(insert(&store, &same_key).await);
    is_conflict(insert(&store, &PublisherKey { version: 0, ..key(&project, "third") }).await);
    let serve = made::project(&tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    added(&store, &serve, "build").await;
}

async fn rules_are_there_once_somebody_changed_them_or_a_key(store: Store) {
    let (_, project) = fleet::place(&store).await;
    assert_eq!(rules(&store, &project).await, None);
    raise(&store, &project).await.unwrap();
    assert_eq!(rules(&store, &project).await, Some(TrustPolicy { policy: 2, ..TrustPolicy::default() }));
    assert_eq!(store.trust_policy_lookup(made::id()).await.unwrap(), None);
}

async fn rules_are_set_on_the_version_that_was_seen(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let wanted = TrustPolicy {
        unsigned_up_to: ArtifactState::Draft,
        smoke_to_stage: true,
        grace_hours: 0,
        ..TrustPolicy::default()
    };
    is_stale(set(&store, &project, &TrustPolicy { version: 2, ..wanted }).await);
    assert_eq!(rules(&store, &project).await, None, "refused, it leaves nothing");
    let kept = set(&store, &project, &wanted).await.unwrap();
    assert_eq!(kept, TrustPolicy { policy: 2, version: 2, ..wanted });
    assert_eq!(rules(&store, &project).await, Some(kept));
    is_stale(set(&store, &project, &wanted).await);
    let again = set(&store, &project, &TrustPolicy { grace_hours: 1, ..kept }).await.unwrap();
    assert_eq!(again, TrustPolicy { grace_hours: 1, policy: 3, version: 3, ..kept });
}

async fn every_change_begins_another_edition(store: Store) {
    let (_, project) = fleet::place(&store).await;
    raise(&store, &project).await.unwrap();
    let seen = rules(&store, &project).await.unwrap();
    raise(&store, &project).await.unwrap();
    // A concurrently added key does not block other rules, and its edition is not lost.
    let kept = set(&store, &project, &seen).await.unwrap();
    assert_eq!((kept.policy, kept.version), (4, 2));
    raise(&store, &project).await.unwrap();
    assert_eq!(rules(&store, &project).await, Some(TrustPolicy { policy: 5, ..kept }));
}

async fn rules_that_make_no_sense_are_refused(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let first = TrustPolicy::default();
    for state in [ArtifactState::Deprecated, ArtifactState::Retired] {
        is_conflict(set(&store, &project, &TrustPolicy { unsigned_up_to: state, ..first }).await);
    }
    is_conflict(set(&store, &project, &TrustPolicy { grace_hours: -1, ..first }).await);
    assert_eq!(rules(&store, &project).await, None);
}

async fn keys_and_rules_go_with_their_project_or_tenant(store: Store) {
    let (tenant, project) = fleet::place(&store).await;
    let serve = made::project(&tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    for project in [&project, &serve] {
        added(&store, project, "one").await;
        added(&store, project, "two").await;
        raise(&store, project).await.unwrap();
    }
    is_gone(put(&store, async |tx| tx.project_delete(project.id, project.version).await).await);
    let of_project =
        async || put(&store, async |tx| tx.key_delete_of_project(project.id).await).await.unwrap();
    assert_eq!((of_project().await, of_project().await), (2, 0));
    assert_eq!(rules(&store, &project).await, None);
    assert!(rules(&store, &serve).await.is_some());
    put(&store, async |tx| tx.project_delete(project.id, project.version).await).await.unwrap();
    assert_eq!(put(&store, async |tx| tx.key_delete_of_tenant(made::id()).await).await.unwrap(), 0);
    assert!(rules(&store, &serve).await.is_some());
    assert_eq!(put(&store, async |tx| tx.key_delete_of_tenant(tenant.id).await).await.unwrap(), 2);
    assert_eq!(rules(&store, &serve).await, None);
}
