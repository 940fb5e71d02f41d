//! Sealed audit entries.

use muster_db::{AuditFilter, Store};
use muster_model::Scope;
use muster_model::audit::{GENESIS, Head, Sealed};

use crate::made::{self, same};
use crate::sealer::Sealer;

on_both![a_chain_is_listed_in_order_and_by_filter, a_head_is_the_end_of_its_chain];

async fn a_chain_is_listed_in_order_and_by_filter(store: Store) {
    let tenant = made::id();
    let (train, serve) = (Scope::Project(tenant, made::id()), Scope::Project(tenant, made::id()));
    let mut sealer = Sealer::default();
    let entries = [
        sealer.entry(Scope::Tenant(tenant), "usr_1", "project.create", 1),
        sealer.entry(train, "usr_1", "webhook.create", 2),
        sealer.entry(train, "usr_2", "webhook.create", 3),
        sealer.entry(serve, "usr_2", "webhook.delete", 4),
    ];
    let other = sealer.entry(Scope::Platform, "usr_1", "project.create", 5);
    sealer.seal(&store).await;
    let late = sealer.entry(train, "usr_1", "webhook.create", 6);
    sealer.seal(&store).await;

    let all: Vec<&Sealed> = entries.iter().chain([&late]).collect();
    let base = AuditFilter { limit: 100, ..AuditFilter::default() };
    let list = async |filter: AuditFilter| store.audit_list(&tenant.to_string(), &filter).await.unwrap();
    same(&list(base.clone()).await, &all);
    same(&list(AuditFilter { after: 2, ..base.clone() }).await, &all[2..]);
    same(&list(AuditFilter { after: 1, limit: 2, ..base.clone() }).await, &all[1..3]);
    assert!(list(AuditFilter { after: 5, ..base.clone() }).await.is_empty());
    let created = AuditFilter { action: Some("webhook.create".to_owned()), ..base.clone() };
    same(&list(created.clone()).await, &[all[1], all[2], all[4]]);
    same(&list(AuditFilter { after: 2, limit: 1, ..created.clone() }).await, &[all[2]]);
    let mine = AuditFilter { actor: Some("usr_1".to_owned()), ..base.clone() };
    same(&list(mine.clone()).await, &[all[0], all[1], all[4]]);
    same(&list(AuditFilter { project: train.project(), ..base.clone() }).await, &[all[1], all[2], all[4]]);
    let narrow = AuditFilter { actor: Some("usr_2".to_owned()), project: train.project(), ..created };
    same(&list(narrow).await, &[all[2]]);
    assert!(list(AuditFilter { project: Some(made::id()), ..base.clone() }).await.is_empty());
    assert!(list(AuditFilter { actor: Some(String::new()), ..base.clone() }).await.is_empty());

    // A portion ends at its number of entries or of bytes, and has at least one entry.
    let length = |at: usize| i64::try_from(all[at].entry_text.len()).unwrap();
    let portion = async |after, limit, bytes| {
        store.audit_portion(&tenant.to_string(), after, limit, bytes).await.unwrap()
    };
    same(&portion(0, 100, i64::MAX).await, &all);
    same(&portion(1, 2, i64::MAX).await, &all[1..3]);
    same(&portion(1, 100, 1).await, &all[1..2]);
    same(&portion(1, 100, length(1)).await, &all[1..2]);
    same(&portion(1, 100, length(1) + 1).await, &all[1..3]);
    assert!(portion(5, 100, i64::MAX).await.is_empty());

    same(&store.audit_list("platform", &base).await.unwrap(), &[&other]);
    assert!(store.audit_list("ten_nobody", &base).await.unwrap().is_empty());
    // Each entry builds on the one before.
    assert_eq!(all[0].previous_hash, GENESIS);
    assert!(all.windows(2).all(|pair| pair[1].previous_hash == pair[0].hash));
}

async fn a_head_is_the_end_of_its_chain(store: Store) {
    let genesis = Head {
        chain: "platform".to_owned(),
        sequence: 0,
        hash: GENESIS.to_owned(),
        pruned_sequence: 0,
        pruned_hash: GENESIS.to_owned(),
    };
    same(&store.audit_head("platform").await.unwrap(), &genesis);
    let mut sealer = Sealer::default();
    sealer.entry(Scope::Platform, "usr_1", "tenant.create", 1);
    let last = sealer.entry(Scope::Platform, "usr_1", "tenant.delete", 2);
    sealer.entry(Scope::Tenant(made::id()), "usr_1", "tenant.update", 3);
    sealer.seal(&store).await;
    let head = Head { sequence: 2, hash: last.hash, ..genesis };
    same(&store.audit_head("platform").await.unwrap(), &head);
    let all = store.audit_heads().await.unwrap();
    same(&all.iter().find(|other| other.chain == "platform").unwrap(), &&head);
    assert_eq!(all.len(), 2, "each chain has one, and streams of events have none: {all:?}");
}
