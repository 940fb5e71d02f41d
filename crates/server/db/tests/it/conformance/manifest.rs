//! Manifests: none without its dependencies, which cannot be removed while it exists.

use muster_db::{Result, Store};
use muster_ids::RepositoryId;
use muster_model::artifact::Manifest;
use serde_json::json;

use super::repository::{blob, repository};
use crate::made::{self, at, fleet, is_conflict, is_gone, put};

on_both![
    a_manifest_reads_back_byte_by_byte,
    a_manifest_needs_its_blobs_and_its_manifests_in_its_own_repository,
    a_manifest_is_taken_once,
    the_sizes_of_those_that_are_there_are_told,
    referrers_of_a_manifest_are_found_by_kind,
    a_page_of_referrers_is_bounded_in_rows_and_in_bytes,
    blobs_children_and_parents_of_a_manifest_are_listed,
    a_manifest_goes_with_its_tags_unless_an_index_needs_it,
];

/// Builds a manifest with these dependencies.
pub(super) fn manifest(digest: &str, blobs: &[&str], children: &[&str]) -> Manifest {
    Manifest {
        digest: digest.to_owned(),
        media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
        artifact_type: None,
        subject: None,
        annotations: json!({}),
        content: format!("{{ \"digest\": {digest:?} }}\0\u{e4}").into_bytes(),
        total_size: 30,
        blobs: blobs.iter().map(|blob| (*blob).to_owned()).collect(),
        children: children.iter().map(|child| (*child).to_owned()).collect(),
    }
}

pub(super) async fn put_manifest(store: &Store, id: RepositoryId, manifest: &Manifest) -> Result<bool> {
    put(store, async |tx| tx.manifest_put(id, manifest, at(0)).await).await
}

/// Pushes a new manifest to a repository.
pub(super) async fn pushed(store: &Store, id: RepositoryId, manifest: &Manifest) {
    assert!(put_manifest(store, id, manifest).await.unwrap());
}

async fn made(store: &Store) -> RepositoryId {
    let (_, project) = fleet::place(store).await;
    repository(store, &project, "base").await.id
}

async fn a_manifest_reads_back_byte_by_byte(store: Store) {
    let id = made(&store).await;
    let kept = manifest("sha256:m", &[], &[]);
    pushed(&store, id, &kept).await;
    put(&store, async |tx| tx.tag_set(id, "latest", "sha256:m", false, at(0)).await).await.unwrap();
    let found = store.manifest_lookup(id, "sha256:m").await.unwrap().unwrap();
    assert_eq!(
        (found.digest, found.media_type, found.content.to_vec()),
        (kept.digest, kept.media_type, kept.content)
    );
    let tagged = store.manifest_by_tag(id, "latest").await.unwrap().unwrap();
    assert_eq!(tagged.digest, "sha256:m");
    assert!(store.manifest_lookup(id, "sha256:n").await.unwrap().is_none());
    assert!(store.manifest_lookup(made::id(), "sha256:m").await.unwrap().is_none());
    assert!(store.manifest_by_tag(id, "other").await.unwrap().is_none());
    assert!(store.manifest_by_tag(made::id(), "latest").await.unwrap().is_none());
}

async fn a_manifest_needs_its_blobs_and_its_manifests_in_its_own_repository(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (one, two) =
        (repository(&store, &project, "one").await.id, repository(&store, &project, "two").await.id);
    blob(&store, two, "sha256:a", 0).await;
    pushed(&store, two, &manifest("sha256:child", &["sha256:a"], &[])).await;
    is_gone(put_manifest(&store, one, &manifest("sha256:m", &["sha256:never-put"], &[])).await);
    is_gone(put_manifest(&store, one, &manifest("sha256:m", &["sha256:a"], &[])).await);
    is_gone(put_manifest(&store, one, &manifest("sha256:m", &[], &["sha256:child"])).await);
    is_gone(put_manifest(&store, made::id(), &manifest("sha256:m", &[], &[])).await);
    assert!(store.manifest_lookup(one, "sha256:m").await.unwrap().is_none(), "a refusal leaves nothing");
    blob(&store, one, "sha256:a", 0).await;
    is_gone(put_manifest(&store, one, &manifest("sha256:m", &["sha256:a", "sha256:b"], &[])).await);
    pushed(&store, one, &manifest("sha256:child", &["sha256:a"], &[])).await;
    pushed(&store, one, &manifest("sha256:m", &["sha256:a"], &["sha256:child"])).await;
    let less = Manifest { total_size: -1, ..manifest("sha256:n", &[], &[]) };
    is_conflict(put_manifest(&store, one, &less).await);
}

async fn a_manifest_is_taken_once(store: Store) {
    let id = made(&store).await;
    blob(&store, id, "sha256:a", 0).await;
    // A repeated blob is one dependency.
    pushed(&store, id, &manifest("sha256:m", &["sha256:a", "sha256:a"], &[])).await;
    let other = Manifest { media_type: "other".to_owned(), ..manifest("sha256:m", &[], &[]) };
    assert!(!put_manifest(&store, id, &other).await.unwrap());
    let kept = store.manifest_lookup(id, "sha256:m").await.unwrap().unwrap();
    assert_eq!(kept.media_type, "application/vnd.oci.image.manifest.v1+json");
    assert_eq!(store.manifest_blobs(id, "sha256:m").await.unwrap(), ["sha256:a"]);
}

async fn the_sizes_of_those_that_are_there_are_told(store: Store) {
    let id = made(&store).await;
    pushed(&store, id, &manifest("sha256:m", &[], &[])).await;
    pushed(&store, id, &Manifest { total_size: 70, ..manifest("sha256:n", &[], &[]) }).await;
    let wanted = ["sha256:n", "sha256:m", "sha256:o"].map(str::to_owned);
    let mut found = store.manifest_sizes(id, &wanted).await.unwrap();
    found.sort();
    assert_eq!(found, [("sha256:m".to_owned(), 30), ("sha256:n".to_owned(), 70)]);
    assert!(store.manifest_sizes(made::id(), &wanted).await.unwrap().is_empty());
    assert_eq!(store.manifest_total(id, "sha256:n").await.unwrap(), Some(70));
    assert_eq!(store.manifest_total(id, "sha256:o").await.unwrap(), None);
}

async fn referrers_of_a_manifest_are_found_by_kind(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let (one, two) =
        (repository(&store, &project, "one").await.id, repository(&store, &project, "two").await.id);
    let about = |digest: &str, kind: &str| Manifest {
        artifact_type: Some(kind.to_owned()),
        // The subject need not exist: clients push signatures first.
        subject: Some("sha256:m".to_owned()),
        annotations: json!({"made.by": "a test"}),
        ..manifest(digest, &[], &[])
    };
    pushed(&store, one, &about("sha256:y", "sbom")).await;
    pushed(&store, one, &about("sha256:x", "signature")).await;
    pushed(&store, two, &about("sha256:z", "signature")).await;
    let found = async |kind| -> Vec<String> {
        let found = store.referrers(one, "sha256:m", kind, "", 100).await.unwrap();
        found.into_iter().map(|found| found.digest).collect()
    };
    assert_eq!(found(None).await, ["sha256:x", "sha256:y"]);
    assert_eq!(found(Some("sbom")).await, ["sha256:y"]);
    assert!(found(Some("other")).await.is_empty());
    assert!(store.referrers(one, "sha256:x", None, "", 100).await.unwrap().is_empty());
    assert_eq!(store.referrers_total(one, "sha256:m", "signature").await.unwrap(), (1, 30));
    pushed(&store, one, &Manifest { total_size: 70, ..about("sha256:w", "signature") }).await;
    assert_eq!(store.referrers_total(one, "sha256:m", "signature").await.unwrap(), (2, 100));
    assert_eq!(store.referrers_total(one, "sha256:m", "other").await.unwrap(), (0, 0));
    let row = store.referrers(one, "sha256:m", Some("sbom"), "", 100).await.unwrap().remove(0);
    assert_eq!(row.size, i64::try_from(manifest("sha256:y", &[], &[]).content.len()).unwrap());
    assert_eq!((row.artifact_type.as_deref(), row.annotations), (Some("sbom"), json!({"made.by": "a test"})));
}

async fn a_page_of_referrers_is_bounded_in_rows_and_in_bytes(store: Store) {
    let (_, project) = fleet::place(&store).await;
    let id = repository(&store, &project, "one").await.id;
    let half = "x".repeat(usize::try_from(muster_db::REFERRERS_BYTES).unwrap() / 2);
    for (digest, text) in
        [("sha256:a", "short"), ("sha256:b", &half), ("sha256:c", &half), ("sha256:d", &half)]
    {
        let manifest = Manifest {
            subject: Some("sha256:m".to_owned()),
            annotations: json!({"text": text}),
            ..manifest(digest, &[], &[])
        };
        pushed(&store, id, &manifest).await;
    }
    let page = async |after: &str, limit| -> Vec<String> {
        let found = store.referrers(id, "sha256:m", None, after, limit).await.unwrap();
        found.into_iter().map(|found| found.digest).collect()
    };
    assert_eq!(page("", 2).await, ["sha256:a", "sha256:b"]);
    assert_eq!(page("", 100).await, ["sha256:a", "sha256:b", "sha256:c"], "it ends once it has enough bytes");
    assert_eq!(page("sha256:c", 100).await, ["sha256:d"]);
    assert!(page("sha256:d", 100).await.is_empty());
}

async fn blobs_children_and_parents_of_a_manifest_are_listed(store: Store) {
    let id = made(&store).await;
    for digest in ["sha256:b", "sha256:a"] {
        blob(&store, id, digest, 0).await;
    }
    pushed(&store, id, &manifest("sha256:m", &["sha256:b", "sha256:a"], &[])).await;
    pushed(&store, id, &manifest("sha256:n", &[], &[])).await;
    pushed(&store, id, &manifest("sha256:index", &[], &["sha256:n", "sha256:m"])).await;
    assert_eq!(store.manifest_blobs(id, "sha256:m").await.unwrap(), ["sha256:a", "sha256:b"]);
    assert!(store.manifest_blobs(id, "sha256:index").await.unwrap().is_empty());
    assert_eq!(store.manifest_children(id, "sha256:index").await.unwrap(), ["sha256:m", "sha256:n"]);
    assert!(store.manifest_children(id, "sha256:m").await.unwrap().is_empty());
    assert_eq!(store.manifest_parents(id, "sha256:m").await.unwrap(), ["sha256:index"]);
    assert!(store.manifest_parents(id, "sha256:index").await.unwrap().is_empty());
    assert!(store.manifest_parents(made::id(), "sha256:m").await.unwrap().is_empty());
}

async fn a_manifest_goes_with_its_tags_unless_an_index_needs_it(store: Store) {
    let id = made(&store).await;
    blob(&store, id, "sha256:a", 0).await;
    pushed(&store, id, &manifest("sha256:m", &["sha256:a"], &[])).await;
    pushed(&store, id, &manifest("sha256:index", &[], &["sha256:m"])).await;
    for (name, digest) in [("v1", "sha256:m"), ("latest", "sha256:index")] {
        put(&store, async |tx| tx.tag_set(id, name, digest, false, at(0)).await).await.unwrap();
    }
    let remove = async |digest| put(&store, async |tx| tx.manifest_delete(id, digest).await).await;
    is_gone(remove("sha256:m").await);
    assert_eq!(
        store.tag_lookup(id, "v1").await.unwrap().as_deref(),
        Some("sha256:m"),
        "its tags stay with it"
    );
    assert!(remove("sha256:index").await.unwrap());
    assert!(!remove("sha256:index").await.unwrap());
    assert_eq!(store.tag_lookup(id, "latest").await.unwrap(), None);
    assert!(remove("sha256:m").await.unwrap());
    assert_eq!(store.garbage_links(at(1), 10).await.unwrap(), [(id, "sha256:a".to_owned())]);
}
