//! Repositories: their blobs, tags, pull rights and garbage.

use jiff::Timestamp;
use muster_db::{BlobPlace, ExternalSource, Page, PullRight, Result, Store};
use muster_ids::RepositoryId;
use muster_model::Project;
use muster_model::artifact::Repository;
use muster_model::cell::{Cell, CellState};
use muster_model::secret::{Purpose, RuntimeSecret};
use muster_testkit::Database;

use super::cell::{asked, place};
use super::manifest::{manifest, pushed, put_manifest};
use crate::concurrency::{RACERS, race, replicas};
use crate::made::{self, FIRST, at, fleet, is_gone, is_stale, put, same};

on_both![
    a_repository_is_made_once_and_found,
    repositories_are_listed_by_page_and_by_name,
    of_two_files_with_one_content_the_first_counts,
    a_repository_has_what_was_put_into_it_and_nothing_else,
    a_blob_goes_unless_a_manifest_needs_it,
    a_reference_has_the_size_that_its_own_repository_declares,
    another_registry_that_has_a_blob_is_remembered,
    a_tag_moves_only_where_it_may,
    a_tag_names_what_is_there,
    tags_are_listed_in_order_and_removed_by_name_or_by_digest,
    a_right_to_pull_lasts_as_long_as_the_incarnation_it_was_issued_to,
    a_link_is_garbage_when_no_manifest_needs_it_and_nobody_renewed_it,
    a_blob_is_garbage_when_no_repository_has_it,
    a_file_is_known_while_a_row_names_it,
    the_first_folder_is_the_databases,
    a_repository_goes_on_the_version_that_was_seen_with_all_that_is_in_it,
    repositories_go_with_their_project_or_tenant,
];

/// Creates a repository of this name.
pub(super) async fn repository(store: &Store, project: &Project, name: &str) -> Repository {
    ensure(store, project, name, 0).await.unwrap()
}

async fn ensure(store: &Store, project: &Project, name: &str, seconds: i64) -> Result<Repository> {
    let (tenant, project) = (project.tenant_id, project.id);
    put(store, async |tx| tx.repository_ensure(made::id(), tenant, project, name, at(seconds)).await).await
}

/// Adds ten bytes of content to a repository at `seconds`, in a file named after it.
pub(super) async fn blob(store: &Store, id: RepositoryId, digest: &str, seconds: i64) {
    put(store, async |tx| {
        tx.blob_put(digest, 10, Some(&format!("file of {digest}")), at(seconds)).await?;
        tx.repository_blob_put(id, digest, at(seconds)).await
    })
    .await
    .unwrap();
}

async fn tag(store: &Store, id: RepositoryId, name: &str, digest: &str, may_move: bool) -> Result<bool> {
    put(store, async |tx| tx.tag_set(id, name, digest, may_move, at(5)).await).await
}

async fn a_repository_is_made_once_and_found(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let first = repository(&store, &project, "train/base").await;
    assert_eq!((first.name.as_str(), first.version, first.created_at), ("train/base", 1, at(0)));
    assert_eq!((first.tenant_id, first.project_id), (project.tenant_id, project.id));
    same(&ensure(&store, &project, "train/base", 9).await.unwrap(), &first);
    same(&store.repository_lookup(first.id).await.unwrap().unwrap(), &first);
    same(&store.repository_by_name(project.id, "train/base").await.unwrap().unwrap(), &first);
    assert!(store.repository_lookup(made::id()).await.unwrap().is_none());
    assert!(store.repository_by_name(made::id(), "train/base").await.unwrap().is_none());
    assert!(store.repository_by_name(project.id, "train").await.unwrap().is_none());
    is_gone(ensure(&store, &Project { id: made::id(), ..project }, "base", 0).await);
}

async fn repositories_are_listed_by_page_and_by_name(store: Store) {
    let (tenant, project) = fleet::place(&store).await;
    let serve = made::project(&tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    let (b, a) = (repository(&store, &project, "b").await, repository(&store, &project, "a").await);
    repository(&store, &serve, "c").await;
    let list = async |page| store.repository_list(page, project.id).await.unwrap();
    same(&list(FIRST).await, &[&b, &a]);
    same(&list(Page { size: 1, ..FIRST }).await, &[&b]);
    same(&list(made::page(b.id, 10)).await, &[&a]);
    let names = async |after, most| store.repository_names(project.id, after, most).await.unwrap();
    assert_eq!(names("", 10).await, ["a", "b"]);
    assert_eq!(names("", 1).await, ["a"]);
    assert_eq!(names("a", 10).await, ["b"]);
    assert!(store.repository_names(made::id(), "", 10).await.unwrap().is_empty());
}

async fn of_two_files_with_one_content_the_first_counts(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let id = repository(&store, &project, "base").await.id;
    let keep = async |file| put(&store, async |tx| tx.blob_put("sha256:a", 10, file, at(0)).await).await;
    assert_eq!(keep(None).await.unwrap(), None, "another registry has it, and nobody needed it yet");
    assert_eq!(keep(Some("one")).await.unwrap().as_deref(), Some("one"));
    assert_eq!(keep(Some("two")).await.unwrap().as_deref(), Some("one"));
    assert_eq!(keep(None).await.unwrap().as_deref(), Some("one"));
    put(&store, async |tx| tx.repository_blob_put(id, "sha256:a", at(0)).await).await.unwrap();
    // A damaged blob is lost in this file only, and can be pushed again.
    let lost = async |file| put(&store, async |tx| tx.blob_lost("sha256:a", file).await).await.unwrap();
    lost("two").await;
    let found = async || store.repository_blob(id, "sha256:a").await.unwrap().unwrap();
    assert_eq!(found().await, BlobPlace { size: 10, file: Some("one".to_owned()) });
    lost("one").await;
    assert_eq!(found().await, BlobPlace { size: 10, file: None });
    assert_eq!(keep(Some("three")).await.unwrap().as_deref(), Some("three"));
    made::is_conflict(put(&store, async |tx| tx.blob_put("sha256:b", 1, Some("three"), at(0)).await).await);
    made::is_conflict(put(&store, async |tx| tx.blob_put("sha256:b", -1, None, at(0)).await).await);
}

async fn a_repository_has_what_was_put_into_it_and_nothing_else(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (one, two) =
        (repository(&store, &project, "one").await.id, repository(&store, &project, "two").await.id);
    blob(&store, one, "sha256:a", 0).await;
    blob(&store, one, "sha256:b", 0).await;
    blob(&store, two, "sha256:b", 0).await;
    assert_eq!(store.repository_blob(one, "sha256:a").await.unwrap().unwrap().size, 10);
    assert_eq!(store.repository_blob(two, "sha256:a").await.unwrap(), None, "only the other one has it");
    let wanted = ["sha256:a", "sha256:b", "sha256:c"].map(str::to_owned);
    let mut had = store.repository_blobs_had(one, &wanted).await.unwrap();
    had.sort();
    assert_eq!(had, [("sha256:a".to_owned(), 10), ("sha256:b".to_owned(), 10)]);
    assert_eq!(store.repository_blobs_had(two, &wanted).await.unwrap(), [("sha256:b".to_owned(), 10)]);
    assert!(store.repository_blobs_had(one, &[]).await.unwrap().is_empty());
    pushed(&store, one, &manifest("sha256:m", &["sha256:a"], &[])).await;
    assert_eq!(store.repository_content(one).await.unwrap(), (1, 20));
    assert_eq!(store.repository_content(two).await.unwrap(), (0, 10));
    assert_eq!(store.repository_content(made::id()).await.unwrap(), (0, 0));
    let link =
        async |id, digest| put(&store, async |tx| tx.repository_blob_put(id, digest, at(0)).await).await;
    is_gone(link(one, "sha256:never-put").await);
    is_gone(link(made::id(), "sha256:a").await);
}

async fn a_blob_goes_unless_a_manifest_needs_it(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (one, two) =
        (repository(&store, &project, "one").await.id, repository(&store, &project, "two").await.id);
    blob(&store, one, "sha256:a", 0).await;
    blob(&store, two, "sha256:a", 0).await;
    pushed(&store, one, &manifest("sha256:m", &["sha256:a"], &[])).await;
    let remove = async |id| put(&store, async |tx| tx.repository_blob_delete(id, "sha256:a").await).await;
    is_gone(remove(one).await);
    assert!(remove(two).await.unwrap(), "the manifest of another repository does not hold it");
    assert!(!remove(two).await.unwrap());
    assert!(put(&store, async |tx| tx.manifest_delete(one, "sha256:m").await).await.unwrap());
    assert!(remove(one).await.unwrap());
}

async fn a_reference_has_the_size_that_its_own_repository_declares(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (one, two) =
        (repository(&store, &project, "one").await.id, repository(&store, &project, "two").await.id);
    let refer = async |id, size| {
        put(&store, async |tx| {
            tx.blob_put("sha256:a", size, None, at(0)).await?;
            tx.repository_blob_refer(id, "sha256:a", size, at(0)).await
        })
        .await
        .unwrap();
    };
    refer(one, 10).await;
    refer(two, 1).await;
    let size = async |id| store.repository_blob(id, "sha256:a").await.unwrap().unwrap().size;
    assert_eq!((size(one).await, size(two).await), (10, 1));
    // Pushed content has a measured size, which a reference does not change.
    put(&store, async |tx| tx.blob_put("sha256:a", 10, Some("file"), at(0)).await).await.unwrap();
    put(&store, async |tx| tx.repository_blob_put(one, "sha256:a", at(0)).await).await.unwrap();
    refer(two, 2).await;
    assert_eq!((size(one).await, size(two).await), (10, 2));
    let file = muster_db::BlobFile { digest: "sha256:a".to_owned(), size: 10, file: "file".to_owned() };
    assert_eq!(store.blob_files("", 10).await.unwrap(), [file]);
    assert!(store.blob_files("sha256:a", 10).await.unwrap().is_empty());
    put(&store, async |tx| tx.blob_lost("sha256:a", "file").await).await.unwrap();
    refer(two, 3).await;
    assert_eq!((size(one).await, size(two).await), (10, 3), "what was measured once stays known");
    assert!(store.blob_files("", 10).await.unwrap().is_empty());
}

async fn another_registry_that_has_a_blob_is_remembered(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let id = repository(&store, &project, "base").await.id;
    let keep = async |source: &ExternalSource| {
        put(&store, async |tx| tx.external_put(id, "sha256:a", source).await).await.unwrap();
    };
    let first = ExternalSource {
        registry: "registry.example".to_owned(),
        repository: "library/base".to_owned(),
        secret_id: None,
    };
    keep(&first).await;
    assert_eq!(store.external_source(id, "sha256:a").await.unwrap(), Some(first.clone()));
    let second =
        ExternalSource { secret_id: Some(made::id()), registry: "other.example".to_owned(), ..first };
    keep(&second).await;
    assert_eq!(store.external_source(id, "sha256:a").await.unwrap(), Some(second));
    assert_eq!(store.external_source(id, "sha256:b").await.unwrap(), None);
    assert_eq!(store.external_source(made::id(), "sha256:a").await.unwrap(), None);
    // It is deleted with the last link, and not before.
    let forget = async || put(&store, async |tx| tx.garbage_external_delete().await).await.unwrap();
    blob(&store, id, "sha256:a", 0).await;
    assert_eq!(forget().await, 0);
    put(&store, async |tx| tx.repository_blob_delete(id, "sha256:a").await).await.unwrap();
    assert_eq!(forget().await, 1);
    assert_eq!(store.external_source(id, "sha256:a").await.unwrap(), None);
}

async fn a_tag_moves_only_where_it_may(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let id = repository(&store, &project, "base").await.id;
    for digest in ["sha256:m", "sha256:n"] {
        pushed(&store, id, &manifest(digest, &[], &[])).await;
    }
    let named = async || store.tag_lookup(id, "latest").await.unwrap();
    assert!(tag(&store, id, "latest", "sha256:m", false).await.unwrap(), "nobody has it yet");
    assert!(tag(&store, id, "latest", "sha256:m", false).await.unwrap(), "it names this very digest");
    assert!(!tag(&store, id, "latest", "sha256:n", false).await.unwrap());
    assert_eq!(named().await.as_deref(), Some("sha256:m"));
    assert!(tag(&store, id, "latest", "sha256:n", true).await.unwrap());
    assert_eq!(named().await.as_deref(), Some("sha256:n"));
    assert_eq!(store.tag_lookup(id, "other").await.unwrap(), None);
    assert_eq!(store.tag_lookup(made::id(), "latest").await.unwrap(), None);
}

async fn a_tag_names_what_is_there(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (one, two) =
        (repository(&store, &project, "one").await.id, repository(&store, &project, "two").await.id);
    pushed(&store, one, &manifest("sha256:m", &[], &[])).await;
    is_gone(tag(&store, one, "latest", "sha256:never-pushed", true).await);
    is_gone(tag(&store, two, "latest", "sha256:m", true).await);
    tag(&store, one, "latest", "sha256:m", true).await.unwrap();
    is_gone(tag(&store, one, "latest", "sha256:never-pushed", true).await);
    assert_eq!(store.tag_lookup(one, "latest").await.unwrap().as_deref(), Some("sha256:m"));
}

async fn tags_are_listed_in_order_and_removed_by_name_or_by_digest(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let id = repository(&store, &project, "base").await.id;
    for digest in ["sha256:m", "sha256:n"] {
        pushed(&store, id, &manifest(digest, &[], &[])).await;
    }
    for (name, digest) in [("v2", "sha256:n"), ("v1", "sha256:m"), ("latest", "sha256:n")] {
        tag(&store, id, name, digest, false).await.unwrap();
    }
    let names = async |after, most| -> Vec<String> {
        let found = store.tag_list(id, after, most).await.unwrap();
        assert!(found.iter().all(|tag| tag.updated_at == at(5)));
        found.into_iter().map(|tag| format!("{} {}", tag.name, tag.digest)).collect()
    };
    assert_eq!(names("", 10).await, ["latest sha256:n", "v1 sha256:m", "v2 sha256:n"]);
    assert_eq!(names("latest", 1).await, ["v1 sha256:m"]);
    assert!(store.tag_list(made::id(), "", 10).await.unwrap().is_empty());
    assert_eq!(store.tags_of(id, "sha256:n").await.unwrap(), ["latest", "v2"]);
    let remove = async |name| put(&store, async |tx| tx.tag_delete(id, name).await).await.unwrap();
    assert!(remove("v1").await);
    assert!(!remove("v1").await);
    let of = async |digest| put(&store, async |tx| tx.tag_delete_of(id, digest).await).await.unwrap();
    assert_eq!((of("sha256:m").await, of("sha256:n").await), (0, 2));
    assert!(names("", 10).await.is_empty());
}

async fn a_right_to_pull_lasts_as_long_as_the_incarnation_it_was_issued_to(store: Store) {
    let place = place(&store).await;
    let id = repository(&store, &place.project, "base").await.id;
    let before = asked(&store, &place, "a", 2).await;
    let first = Cell { state: CellState::Provisioning, incarnation: 1, ..before.clone() };
    put(&store, async |tx| tx.cell_move(&before, &first, at(9)).await).await.unwrap();
    let secret = RuntimeSecret {
        id: made::id(),
        tenant_id: place.tenant.id,
        project_id: place.project.id,
        purpose: Purpose::ArtifactPull,
        name: "a".to_owned(),
        repository_id: Some(id),
        cell_id: Some(before.id),
        incarnation: Some(1),
        instance_id: None,
        hash: Some([7; 32]),
        sealed: None,
        expires_at: Some(at(3600)),
        revoked_at: None,
        created_at: at(0),
        version: 1,
    };
    put(&store, async |tx| tx.runtime_secret_insert(&secret).await).await.unwrap();
    let right = async |hash, now: Timestamp| store.pull_right(hash, now).await.unwrap();
    let (tenant_id, project_id) = (place.tenant.id, place.project.id);
    let expected = PullRight { tenant_id, project_id, repository_id: id, node_id: before.node_id };
    assert_eq!(right([7; 32], at(0)).await, Some(expected));
    assert!(right([7; 32], at(3599)).await.is_some());
    assert_eq!(right([7; 32], at(3600)).await, None, "it has expired");
    assert_eq!(right([8; 32], at(0)).await, None);
    let seen = store.cell_lookup(before.id).await.unwrap().unwrap();
    let again = Cell { incarnation: 2, ..seen.clone() };
    put(&store, async |tx| tx.cell_move(&seen, &again, at(9)).await).await.unwrap();
    assert_eq!(right([7; 32], at(0)).await, None, "the cell was made anew");
    let seen = store.cell_lookup(before.id).await.unwrap().unwrap();
    let other = RuntimeSecret { id: made::id(), incarnation: Some(2), hash: Some([9; 32]), ..secret };
    put(&store, async |tx| tx.runtime_secret_insert(&other).await).await.unwrap();
    assert!(right([9; 32], at(0)).await.is_some());
    let going = Cell { state: CellState::Destroying, ..seen.clone() };
    put(&store, async |tx| tx.cell_move(&seen, &going, at(9)).await).await.unwrap();
    assert_eq!(right([9; 32], at(0)).await, None, "the cell goes");
}

async fn a_link_is_garbage_when_no_manifest_needs_it_and_nobody_renewed_it(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (one, two) =
        (repository(&store, &project, "one").await.id, repository(&store, &project, "two").await.id);
    for (digest, seconds) in [("sha256:needed", 0), ("sha256:old", 1), ("sha256:fresh", 50)] {
        blob(&store, one, digest, seconds).await;
    }
    blob(&store, two, "sha256:needed", 2).await;
    pushed(&store, one, &manifest("sha256:m", &["sha256:needed"], &[])).await;
    let found = async |most| store.garbage_links(at(10), most).await.unwrap();
    assert_eq!(found(10).await, [(one, "sha256:old".to_owned()), (two, "sha256:needed".to_owned())]);
    assert_eq!(found(1).await, [(one, "sha256:old".to_owned())]);
    let remove = async |id, digest, before| {
        put(&store, async |tx| tx.garbage_link_delete(id, digest, at(before)).await).await.unwrap()
    };
    assert!(!remove(one, "sha256:needed", 100).await);
    assert!(!remove(one, "sha256:fresh", 10).await);
    put(&store, async |tx| tx.repository_blob_put(one, "sha256:old", at(60)).await).await.unwrap();
    assert!(!remove(one, "sha256:old", 10).await, "somebody pushed it again since it was found");
    assert!(remove(two, "sha256:needed", 10).await);
    assert!(!remove(two, "sha256:needed", 10).await);
    assert!(found(10).await.is_empty());
}

async fn a_blob_is_garbage_when_no_repository_has_it(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let id = repository(&store, &project, "one").await.id;
    for digest in ["sha256:a", "sha256:b"] {
        blob(&store, id, digest, 0).await;
    }
    let remove = async |digest| put(&store, async |tx| tx.garbage_blob_delete(digest).await).await.unwrap();
    assert!(store.garbage_blobs(10).await.unwrap().is_empty());
    assert_eq!(remove("sha256:a").await, None, "a repository has it");
    assert!(store.repository_blob(id, "sha256:a").await.unwrap().is_some());
    for digest in ["sha256:a", "sha256:b"] {
        put(&store, async |tx| tx.repository_blob_delete(id, digest).await).await.unwrap();
    }
    assert_eq!(store.garbage_blobs(10).await.unwrap(), ["sha256:a", "sha256:b"]);
    assert_eq!(store.garbage_blobs(1).await.unwrap(), ["sha256:a"]);
    assert_eq!(remove("sha256:a").await.as_deref(), Some("file of sha256:a"));
    assert_eq!(remove("sha256:a").await, None);
    assert_eq!(store.garbage_blobs(10).await.unwrap(), ["sha256:b"]);
}

async fn a_file_is_known_while_a_row_names_it(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let id = repository(&store, &project, "one").await.id;
    blob(&store, id, "sha256:a", 0).await;
    let files = ["file of sha256:a", "file of nobody"].map(str::to_owned);
    assert_eq!(store.blob_files_known(&files).await.unwrap(), ["file of sha256:a"]);
    assert!(store.blob_files_known(&[]).await.unwrap().is_empty());
    put(&store, async |tx| tx.blob_lost("sha256:a", "file of sha256:a").await).await.unwrap();
    assert!(store.blob_files_known(&files).await.unwrap().is_empty());
}

async fn the_first_folder_is_the_databases(store: Store) {
    let (mine, other) = (made::uuid(), made::uuid());
    let id = muster_ids::TypedId::uuid(made::id::<muster_ids::RepositoryId>());
    assert_eq!(store.storage_claim(mine, id).await.unwrap(), (mine, id));
    assert_eq!(store.storage_claim(other, other).await.unwrap(), (mine, id));
    assert_eq!(store.storage_claim(mine, mine).await.unwrap(), (mine, id));
}

/// Creates a repository with rows in every table that refers to repositories, except artifacts.
async fn full(store: &Store, project: &Project, name: &str) -> Repository {
    let made = repository(store, project, name).await;
    let source = ExternalSource { registry: "r".to_owned(), repository: "x".to_owned(), secret_id: None };
    blob(store, made.id, "sha256:a", 0).await;
    pushed(store, made.id, &manifest("sha256:m", &["sha256:a"], &[])).await;
    pushed(store, made.id, &manifest("sha256:index", &[], &["sha256:m"])).await;
    tag(store, made.id, "latest", "sha256:index", false).await.unwrap();
    put(store, async |tx| tx.external_put(made.id, "sha256:a", &source).await).await.unwrap();
    made
}

async fn a_repository_goes_on_the_version_that_was_seen_with_all_that_is_in_it(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let made = full(&store, &project, "base").await;
    let remove = async |version| put(&store, async |tx| tx.repository_delete(made.id, version).await).await;
    is_stale(remove(2).await);
    assert_eq!(store.repository_content(made.id).await.unwrap(), (2, 10), "nothing was taken from it");
    assert!(store.tag_lookup(made.id, "latest").await.unwrap().is_some());
    remove(1).await.unwrap();
    is_stale(remove(1).await);
    assert!(store.repository_lookup(made.id).await.unwrap().is_none());
    assert_eq!(store.garbage_blobs(10).await.unwrap(), ["sha256:a"], "its content is garbage now");
    full(&store, &project, "base").await;
}

async fn repositories_go_with_their_project_or_tenant(store: Store) {
    let (tenant, project) = fleet::place(&store).await;
    let serve = made::project(&tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    let of_project =
        async |id| put(&store, async |tx| tx.repository_delete_of_project(id).await).await.unwrap();
    let of_tenant =
        async |id| put(&store, async |tx| tx.repository_delete_of_tenant(id).await).await.unwrap();
    for (project, name) in [(&project, "one"), (&project, "two"), (&serve, "three")] {
        full(&store, project, name).await;
    }
    is_gone(put(&store, async |tx| tx.project_delete(project.id, project.version).await).await);
    assert_eq!((of_project(made::id()).await, of_tenant(made::id()).await), (0, 0));
    assert_eq!(of_project(project.id).await, 2);
    put(&store, async |tx| tx.project_delete(project.id, project.version).await).await.unwrap();
    assert_eq!(of_tenant(tenant.id).await, 1);
    assert!(store.repository_by_name(serve.id, "three").await.unwrap().is_none());
}

/// Pushes content while it is collected as garbage: after a successful push the content exists, in a file that the collector
/// was not told to remove.
#[tokio::test(flavor = "multi_thread")]
async fn content_pushed_during_garbage_collection_exists_or_is_stored_anew() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let (_, project) = fleet::place(&stores[0]).await;
    let id = repository(&stores[0], &project, "base").await.id;
    for round in 0..60 {
        let digest = format!("sha256:{round}");
        put(&stores[0], async |tx| tx.blob_put(&digest, 10, Some(&format!("{round} old")), at(0)).await)
            .await
            .unwrap();
        let removed = race(&stores, |n, store| {
            let digest = digest.clone();
            async move {
                if n < RACERS / 2 {
                    let pushed = put(&store, async |tx| {
                        tx.blob_put(&digest, 10, Some(&format!("{round} {n}")), at(1)).await?;
                        tokio::task::yield_now().await;
                        tx.repository_blob_put(id, &digest, at(1)).await
                    });
                    pushed.await.expect("a push is never refused for the collector's sake");
                    return None;
                }
                // The foreign key rejects a collector that read before the push and deletes after it.
                match put(&store, async |tx| tx.garbage_blob_delete(&digest).await).await {
                    Ok(file) => file,
                    refused => {
                        is_gone(refused);
                        None
                    }
                }
            }
        })
        .await;
        let removed: Vec<String> = removed.into_iter().flatten().collect();
        let place = stores[0].repository_blob(id, &digest).await.unwrap().expect("a link to no row");
        let file = place.file.expect("it was pushed");
        assert!(!removed.contains(&file), "round {round}: {file} is removed, and a row names it");
    }
}

/// Manifests that refer to content while its link is collected: one of the two is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_was_taken_has_its_blobs_whatever_is_collected() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let (_, project) = fleet::place(&stores[0]).await;
    let id = repository(&stores[0], &project, "base").await.id;
    let (mut kept, mut lost) = (0, 0);
    for round in 0..60 {
        let digest = format!("sha256:{round}");
        blob(&stores[0], id, &digest, 0).await;
        let taken = race(&stores, |n, store| {
            let digest = digest.clone();
            async move {
                // Many collectors in one round, few in the next.
                if (n % 4 == 0) == (round % 2 == 0) {
                    let of_link =
                        put(&store, async |tx| tx.garbage_link_delete(id, &digest, at(9)).await).await;
                    let of_blob = put(&store, async |tx| tx.garbage_blob_delete(&digest).await).await;
                    of_link.map_or_else(|error| is_gone::<bool>(Err(error)), drop);
                    of_blob.map_or_else(|error| is_gone::<Option<String>>(Err(error)), drop);
                    return false;
                }
                let wanted = manifest(&format!("sha256:m{round}-{n}"), &[&digest], &[]);
                match put_manifest(&store, id, &wanted).await {
                    Ok(new) => new,
                    refused => {
                        is_gone(refused);
                        false
                    }
                }
            }
        })
        .await;
        let there = stores[0].repository_blob(id, &digest).await.unwrap();
        if taken.into_iter().any(|taken| taken) {
            assert!(there.expect("a manifest needs it").file.is_some());
            kept += 1;
        } else {
            assert_eq!(there, None, "nothing needs it, and everybody collected");
            lost += 1;
        }
    }
    assert!(kept > 0 && lost > 0, "kept in {kept} rounds, lost in {lost}: it was no race");
}
