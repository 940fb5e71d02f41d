//! The statements that every record has, for every record: insert, get, by name, list by page, update, stale version, delete.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_db::{Page, Result, Store};
use muster_model::{Record, RecordVisitor, Resource, ResourceVisitor, visit_records, visit_resources};

use super::{key, secret, ssh_key};
use crate::made::{self, FIRST, at, is_conflict, is_stale, put, same};

on_both![every_record_conforms];

async fn every_record_conforms(store: Store) {
    let place = super::cell::place(&store).await;
    let project = &place.project;
    let user = made::user(Some(&place.tenant), "ada@acme.example");
    put(&store, async |tx| tx.user_insert(&user).await).await.unwrap();
    let elsewhere = Some(made::id());
    let mut covered = BTreeSet::new();
    let make = |name: &str| ssh_key::key(project, &user, name);
    covered.insert(conforms(&store, make, |key| key.version += 1, elsewhere).await);
    let revoke = |key: &mut muster_model::artifact::PublisherKey| {
        key.revoked_at = Some(at(5));
        key.revoked_reason = Some("lost".to_owned());
        key.version += 1;
    };
    covered.insert(conforms(&store, |name| key::key(project, name), revoke, elsewhere).await);
    let rotate = |secret: &mut muster_model::secret::ProjectSecret| {
        (secret.revision, secret.size, secret.sealed, secret.updated_at) = (2, 2, vec![9, 9], at(5));
        secret.version += 1;
    };
    covered.insert(conforms(&store, |name| secret::secret(project, name), rotate, elsewhere).await);
    let mut resources = Resources(store, Vec::new());
    visit_resources(&mut resources);
    for noun in resources.1 {
        covered.insert(noun.await);
    }
    let mut nouns = Nouns(BTreeSet::new());
    visit_records(&mut nouns);
    assert_eq!(covered, nouns.0, "each record needs a line above; a resource is tried with its own example");
}

/// Tries every statement of a record; `change` sets its changing columns and increments its version. Returns its noun.
async fn conforms<R: Record>(
    store: &Store,
    make: impl Fn(&str) -> R,
    change: impl Fn(&mut R),
    elsewhere: Option<R::Parent>,
) -> &'static str {
    let insert = async |record: &R| put(store, async |tx| tx.insert_record(record).await).await;
    let update = async |record: &R| put(store, async |tx| tx.update_record(record).await).await;
    let delete = async |record: &R| put(store, async |tx| tx.delete_record(record).await).await;
    let find = async |id: R::Id| store.find::<R>(id).await.unwrap();
    let (first, second) = (make("first"), make("second"));
    let parent = first.parent();
    let list = async |page: Page| store.list::<R>(page, parent).await.unwrap();
    let by_name = async |name: &str| -> Result<Option<R>> { store.find_by_name(parent, name).await };
    assert!(list(FIRST).await.is_empty(), "{}", R::NOUN);
    insert(&first).await.unwrap();
    insert(&second).await.unwrap();

    same(&find(first.id()).await, &Some(&first));
    same(&find(made::id()).await, &None::<R>);
    if R::IS_NAME_UNIQUE {
        same(&by_name("second").await.unwrap(), &Some(&second));
        same(&by_name("absent").await.unwrap(), &None::<R>);
        is_conflict(insert(&make("first")).await);
    }
    same(&list(FIRST).await, &[&first, &second]);
    same(&list(Page { size: 1, ..FIRST }).await, &[&first]);
    same(&list(made::page(first.id(), 10)).await, &[&second]);
    if let Some(elsewhere) = elsewhere {
        assert!(store.list::<R>(FIRST, elsewhere).await.unwrap().is_empty(), "{}", R::NOUN);
        assert!(store.find_by_name::<R>(elsewhere, "first").await.unwrap().is_none(), "{}", R::NOUN);
    }

    let mut next = first.clone();
    change(&mut next);
    assert_eq!(next.version(), first.version() + 1, "{}", R::NOUN);
    update(&next).await.unwrap();
    same(&find(first.id()).await, &Some(&next));
    same(&find(second.id()).await, &Some(&second));
    is_stale(update(&next).await);
    is_stale(delete(&first).await);
    same(&find(first.id()).await, &Some(&next));
    delete(&next).await.unwrap();
    is_stale(delete(&next).await);
    is_stale(update(&next).await);
    same(&list(FIRST).await, &[&second]);
    insert(&make("first")).await.unwrap();
    R::NOUN
}

struct Resources(Store, Vec<BoxFuture<'static, &'static str>>);

impl ResourceVisitor for Resources {
    fn visit<R: Resource>(&mut self) {
        let store = self.0.clone();
        let make = |name: &str| R::create(made::id(), R::example(name), at(0));
        let change = |record: &mut R| record.update(R::example_update(), at(5));
        self.1.push(async move { conforms(&store, make, change, None).await }.boxed());
    }
}

struct Nouns(BTreeSet<&'static str>);

impl RecordVisitor for Nouns {
    fn visit<R: Record>(&mut self) {
        self.0.insert(R::NOUN);
    }
}
