//! Artifacts: their states, state constraints, and references to them.

use muster_db::{ArtifactFilter, Page, Result, Store};
use muster_ids::ArtifactId;
use muster_model::Project;
use muster_model::artifact::{Artifact, ArtifactKind, ArtifactState, Change, Repository, Trust, Verdict};
use muster_model::cell::Cell;
use muster_model::witness::Transition;
use muster_testkit::Database;

use super::cell::{Place, cell, gone, place, request};
use super::manifest::{manifest, pushed};
use super::repository::repository;
use crate::concurrency::{race, replicas};
use crate::made::{self, FIRST, at, fleet, is_conflict, is_gone, is_stale, put, same, selector};

on_both![
    a_draft_is_published_once_and_reads_back,
    an_artifact_needs_its_manifest_and_holds_it,
    an_artifact_moves_as_it_can_and_on_the_version_that_was_seen,
    a_verdict_is_written_down_and_changes_no_version,
    nothing_goes_beyond_draft_unjudged,
    a_share_belongs_to_a_canary_and_to_nothing_else,
    deprecated_artifact_records_since_when,
    a_line_has_one_active_artifact,
    the_furthest_of_a_digest_speaks_for_it,
    lists_page_and_select,
    changes_are_numbered_as_they_come,
    superseded_artifact_records_its_successor,
    only_living_cells_hold_an_artifact,
    nothing_starts_from_what_is_deprecated_or_retired,
    an_artifact_goes_on_the_version_that_was_seen_unless_a_cell_lives,
    artifacts_go_with_their_repository,
    artifacts_go_with_their_project_or_tenant,
];

fn artifact(repository: &Repository, digest: &str) -> Artifact {
    Artifact {
        id: made::id(),
        tenant_id: repository.tenant_id,
        project_id: repository.project_id,
        repository_id: repository.id,
        repository: repository.name.clone(),
        digest: digest.to_owned(),
        kind: ArtifactKind::Oci,
        media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
        size: 30,
        line: "main".to_owned(),
        state: ArtifactState::Draft,
        canary_percent: None,
        verdict: None,
        policy: None,
        smoke_witness_id: None,
        superseded_by: None,
        deprecated_at: None,
        labels: made::labels([("team", "ml")]),
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

fn change(before: Option<ArtifactState>, after: ArtifactState) -> Change {
    Change { before, after, actor_id: "usr_1".to_owned(), reason: "a test".to_owned(), at: at(3) }
}

async fn publish(store: &Store, artifact: &Artifact) -> Result<bool> {
    put(store, async |tx| tx.artifact_publish(artifact, &change(None, ArtifactState::Draft)).await).await
}

/// Creates a draft for an existing manifest.
pub(super) async fn draft(store: &Store, repository: &Repository, digest: &str) -> Artifact {
    pushed(store, repository.id, &manifest(digest, &[], &[])).await;
    let artifact = artifact(repository, digest);
    assert!(publish(store, &artifact).await.unwrap());
    artifact
}

/// Returns the same artifact in another state, with everything the state requires.
fn to(before: &Artifact, state: ArtifactState) -> Artifact {
    let verdict = Verdict {
        trust: Trust::Untrusted,
        reason: Some("other_key".to_owned()),
        message: "signed by nobody known".to_owned(),
        key_id: Some(made::id()),
        signature: None,
        checked_at: at(4),
    };
    let late = matches!(state, ArtifactState::Deprecated | ArtifactState::Retired);
    Artifact {
        state,
        verdict: Some(verdict),
        policy: Some(2),
        canary_percent: (state == ArtifactState::Canary).then_some(10),
        deprecated_at: late.then(|| at(7)),
        ..before.clone()
    }
}

async fn step(store: &Store, before: &Artifact, after: &Artifact) -> Result<()> {
    put(store, async |tx| tx.artifact_move(before, after, at(9)).await).await
}

async fn look(store: &Store, id: ArtifactId) -> Artifact {
    store.artifact_lookup(id).await.unwrap().unwrap()
}

/// Moves a draft forward, step by step.
pub(super) async fn brought(store: &Store, draft: &Artifact, to_state: ArtifactState) -> Artifact {
    let mut seen = look(store, draft.id).await;
    let from = seen.state;
    for state in ArtifactState::ALL.iter().copied().filter(|state| *state > from && *state <= to_state) {
        step(store, &seen, &to(&seen, state)).await.unwrap();
        seen = look(store, draft.id).await;
    }
    assert_eq!(seen.state, to_state);
    seen
}

async fn base(store: &Store) -> (Project, Repository) {
    let (_, project) = fleet::place(store).await;
    let repository = repository(store, &project, "base").await;
    (project, repository)
}

async fn a_draft_is_published_once_and_reads_back(store: Store) {
    let (project, base) = base(&store).await;
    let first = draft(&store, &base, "sha256:m").await;
    same(&look(&store, first.id).await, &first);
    same(&store.artifact_by_digest(base.id, "sha256:m").await.unwrap().unwrap(), &first);
    same(&store.artifact_of_project(project.id, "sha256:m").await.unwrap().unwrap(), &first);
    assert!(!publish(&store, &Artifact { id: made::id(), ..first.clone() }).await.unwrap());
    assert_eq!(store.artifact_changes(first.id).await.unwrap().len(), 1, "the second tells nothing new");
    assert!(store.artifact_lookup(made::id()).await.unwrap().is_none());
    assert!(store.artifact_by_digest(base.id, "sha256:n").await.unwrap().is_none());
    assert!(store.artifact_by_digest(made::id(), "sha256:m").await.unwrap().is_none());
    assert!(store.artifact_of_project(made::id(), "sha256:m").await.unwrap().is_none());
}

async fn an_artifact_needs_its_manifest_and_holds_it(store: Store) {
    let (_, base) = base(&store).await;
    is_gone(publish(&store, &artifact(&base, "sha256:never-pushed")).await);
    let first = draft(&store, &base, "sha256:m").await;
    is_gone(publish(&store, &Artifact { project_id: made::id(), ..artifact(&base, "sha256:n") }).await);
    is_gone(put(&store, async |tx| tx.manifest_delete(base.id, "sha256:m").await).await);
    is_gone(put(&store, async |tx| tx.repository_delete(base.id, 1).await).await);
    put(&store, async |tx| tx.artifact_delete(first.id, 1).await).await.unwrap();
    assert!(put(&store, async |tx| tx.manifest_delete(base.id, "sha256:m").await).await.unwrap());
}

async fn an_artifact_moves_as_it_can_and_on_the_version_that_was_seen(store: Store) {
    let (_, base) = base(&store).await;
    let first = draft(&store, &base, "sha256:m").await;
    for state in ArtifactState::ALL.iter().copied() {
        let possible = matches!(state, ArtifactState::Draft | ArtifactState::Staged | ArtifactState::Retired);
        if !possible {
            is_conflict(step(&store, &first, &to(&first, state)).await);
        }
    }
    let witness = fleet::witnessed(&store, made::uuid(), Transition::Active).await.id;
    let after = Artifact {
        smoke_witness_id: Some(witness),
        labels: made::labels([("team", "infra")]),
        line: "edge".to_owned(),
        ..to(&first, ArtifactState::Staged)
    };
    is_gone(step(&store, &first, &Artifact { smoke_witness_id: Some(made::id()), ..after.clone() }).await);
    step(&store, &first, &after).await.unwrap();
    let kept = look(&store, first.id).await;
    same(&kept, &Artifact { updated_at: at(9), version: 2, ..after.clone() });
    is_stale(step(&store, &first, &after).await);
    is_stale(step(&store, &Artifact { id: made::id(), ..kept }, &Artifact { id: made::id(), ..after }).await);
}

async fn a_verdict_is_written_down_and_changes_no_version(store: Store) {
    let (_, base) = base(&store).await;
    let first = draft(&store, &base, "sha256:m").await;
    let verdict = Verdict {
        trust: Trust::Unsigned,
        reason: None,
        message: "it has no signature".to_owned(),
        key_id: None,
        signature: None,
        checked_at: at(3),
    };
    let judge =
        async |seen: &Artifact| put(&store, async |tx| tx.artifact_judged(seen, &verdict, 7).await).await;
    assert!(judge(&first).await.unwrap());
    let expected = Artifact { verdict: Some(verdict.clone()), policy: Some(7), ..first.clone() };
    same(&look(&store, first.id).await, &expected);
    assert!(!judge(&Artifact { version: 2, ..first.clone() }).await.unwrap());
    assert!(!judge(&Artifact { id: made::id(), ..first }).await.unwrap());
}

async fn nothing_goes_beyond_draft_unjudged(store: Store) {
    let (_, base) = base(&store).await;
    let first = draft(&store, &base, "sha256:m").await;
    let staged = to(&first, ArtifactState::Staged);
    is_conflict(step(&store, &first, &Artifact { verdict: None, ..staged.clone() }).await);
    is_conflict(step(&store, &first, &Artifact { policy: None, ..staged.clone() }).await);
    step(&store, &first, &staged).await.unwrap();
    let seen = look(&store, first.id).await;
    is_conflict(step(&store, &seen, &Artifact { verdict: None, ..to(&seen, ArtifactState::Canary) }).await);
}

async fn a_share_belongs_to_a_canary_and_to_nothing_else(store: Store) {
    let (_, base) = base(&store).await;
    let first = draft(&store, &base, "sha256:m").await;
    let staged = to(&first, ArtifactState::Staged);
    is_conflict(step(&store, &first, &Artifact { canary_percent: Some(5), ..staged }).await);
    let seen = brought(&store, &first, ArtifactState::Staged).await;
    let canary = to(&seen, ArtifactState::Canary);
    for percent in [None, Some(0), Some(-1), Some(101)] {
        is_conflict(step(&store, &seen, &Artifact { canary_percent: percent, ..canary.clone() }).await);
    }
    step(&store, &seen, &Artifact { canary_percent: Some(100), ..canary }).await.unwrap();
    let seen = look(&store, first.id).await;
    let back = to(&seen, ArtifactState::Staged);
    is_conflict(step(&store, &seen, &Artifact { canary_percent: Some(100), ..back.clone() }).await);
    step(&store, &seen, &back).await.unwrap();
}

async fn deprecated_artifact_records_since_when(store: Store) {
    let (_, base) = base(&store).await;
    let first = draft(&store, &base, "sha256:m").await;
    let seen = brought(&store, &first, ArtifactState::Active).await;
    let after = to(&seen, ArtifactState::Deprecated);
    is_conflict(step(&store, &seen, &Artifact { deprecated_at: None, ..after.clone() }).await);
    step(&store, &seen, &after).await.unwrap();
    let seen = look(&store, first.id).await;
    step(&store, &seen, &to(&seen, ArtifactState::Retired)).await.unwrap();
    let seen = look(&store, first.id).await;
    assert!(seen.deprecated_at.is_some(), "it still says since when it was");
    is_conflict(step(&store, &seen, &to(&seen, ArtifactState::Active)).await);
    // An artifact that was never offered cannot be deprecated.
    let second = draft(&store, &base, "sha256:n").await;
    let gone = Artifact { deprecated_at: None, ..to(&second, ArtifactState::Retired) };
    step(&store, &second, &gone).await.unwrap();
}

async fn a_line_has_one_active_artifact(store: Store) {
    let (project, base) = base(&store).await;
    let other = repository(&store, &project, "other").await;
    let first = draft(&store, &base, "sha256:m").await;
    let first = brought(&store, &first, ArtifactState::Active).await;
    let second = draft(&store, &base, "sha256:n").await;
    let second = brought(&store, &second, ArtifactState::Canary).await;
    is_conflict(step(&store, &second, &to(&second, ArtifactState::Active)).await);
    same(&store.artifact_active(base.id, "main").await.unwrap().unwrap(), &first);
    assert!(store.artifact_active(base.id, "edge").await.unwrap().is_none());
    assert!(store.artifact_active(other.id, "main").await.unwrap().is_none());
    // The same line in another repository, and another line here, are independent.
    let elsewhere = draft(&store, &other, "sha256:n").await;
    brought(&store, &elsewhere, ArtifactState::Active).await;
    let edge = Artifact { line: "edge".to_owned(), ..to(&second, ArtifactState::Active) };
    step(&store, &second, &edge).await.unwrap();
    // One artifact replaces another in a single transaction.
    let third = draft(&store, &base, "sha256:o").await;
    let third = brought(&store, &third, ArtifactState::Canary).await;
    put(&store, async |tx| {
        tx.artifact_move(&first, &to(&first, ArtifactState::Deprecated), at(9)).await?;
        tx.artifact_move(&third, &to(&third, ArtifactState::Active), at(9)).await
    })
    .await
    .unwrap();
    assert_eq!(store.artifact_active(base.id, "main").await.unwrap().unwrap().id, third.id);
}

async fn the_furthest_of_a_digest_speaks_for_it(store: Store) {
    let (project, _) = base(&store).await;
    let mut last = None;
    for state in ["retired", "deprecated", "draft", "staged", "canary", "active"] {
        let place = repository(&store, &project, state).await;
        let made = draft(&store, &place, "sha256:m").await;
        brought(&store, &made, ArtifactState::parse(state).unwrap()).await;
        let found = store.artifact_of_project(project.id, "sha256:m").await.unwrap().unwrap();
        assert_eq!(found.state.as_str(), state, "it goes before {last:?}");
        last = Some(state);
    }
}

async fn lists_page_and_select(store: Store) {
    let (project, base) = base(&store).await;
    let other = repository(&store, &project, "other").await;
    let first = draft(&store, &base, "sha256:m").await;
    let second = draft(&store, &other, "sha256:m").await;
    let third = draft(&store, &base, "sha256:n").await;
    step(
        &store,
        &third,
        &Artifact { labels: made::labels([("team", "infra")]), ..to(&third, ArtifactState::Staged) },
    )
    .await
    .unwrap();
    let list = async |page, labels: &str, filter: ArtifactFilter| -> Vec<ArtifactId> {
        let found = store.artifact_list(page, &selector(labels), project.id, &filter).await.unwrap();
        found.into_iter().map(|artifact| artifact.id).collect()
    };
    let all = ArtifactFilter::default;
    assert_eq!(list(FIRST, "", all()).await, [first.id, second.id, third.id]);
    assert_eq!(list(Page { size: 1, ..FIRST }, "", all()).await, [first.id]);
    assert_eq!(list(made::page(first.id, 10), "", all()).await, [second.id, third.id]);
    assert_eq!(list(FIRST, "team=infra", all()).await, [third.id]);
    assert_eq!(list(FIRST, "team!=infra", all()).await, [first.id, second.id]);
    let draft = ArtifactFilter { state: Some(ArtifactState::Draft), ..all() };
    assert_eq!(list(FIRST, "", draft).await, [first.id, second.id]);
    assert_eq!(
        list(FIRST, "", ArtifactFilter { repository: Some(base.id), ..all() }).await,
        [first.id, third.id]
    );
    let digest = ArtifactFilter { digest: Some("sha256:m".to_owned()), repository: Some(other.id), ..all() };
    assert_eq!(list(FIRST, "", digest).await, [second.id]);
    assert!(store.artifact_list(FIRST, &selector(""), made::id(), &all()).await.unwrap().is_empty());
}

async fn changes_are_numbered_as_they_come(store: Store) {
    let (_, base) = base(&store).await;
    let (first, other) = (draft(&store, &base, "sha256:m").await, draft(&store, &base, "sha256:n").await);
    let next = change(Some(ArtifactState::Draft), ArtifactState::Staged);
    put(&store, async |tx| tx.artifact_change(first.id, &next).await).await.unwrap();
    same(
        &store.artifact_changes(first.id).await.unwrap(),
        &[change(None, ArtifactState::Draft), next.clone()],
    );
    assert_eq!(store.artifact_changes(other.id).await.unwrap().len(), 1);
    is_gone(put(&store, async |tx| tx.artifact_change(made::id(), &next).await).await);
}

async fn superseded_artifact_records_its_successor(store: Store) {
    let (_, base) = base(&store).await;
    let old = draft(&store, &base, "sha256:m").await;
    let old = brought(&store, &old, ArtifactState::Active).await;
    let new = draft(&store, &base, "sha256:n").await;
    let replaced = Artifact { superseded_by: Some(new.id), ..to(&old, ArtifactState::Deprecated) };
    is_gone(step(&store, &old, &Artifact { superseded_by: Some(made::id()), ..replaced.clone() }).await);
    step(&store, &old, &replaced).await.unwrap();
    assert_eq!(store.artifact_supersedes(new.id).await.unwrap(), [old.id]);
    assert!(store.artifact_supersedes(old.id).await.unwrap().is_empty());
    // The superseding artifact can be removed; the reference to it is cleared.
    put(&store, async |tx| tx.artifact_delete(new.id, 1).await).await.unwrap();
    assert_eq!(look(&store, old.id).await.superseded_by, None);
}

async fn started(store: &Store, place: &Place, name: &str, host: i64, artifact: ArtifactId) -> Cell {
    let cell = Cell { artifact_id: Some(artifact), ..cell(place, name, host) };
    request(store, &cell).await.unwrap();
    cell
}

async fn only_living_cells_hold_an_artifact(store: Store) {
    let place = place(&store).await;
    let base = repository(&store, &place.project, "base").await;
    let (first, other) = (draft(&store, &base, "sha256:m").await, draft(&store, &base, "sha256:n").await);
    is_gone(request(&store, &Cell { artifact_id: Some(made::id()), ..cell(&place, "x", 9) }).await);
    let a = started(&store, &place, "a", 2, first.id).await;
    let b = started(&store, &place, "b", 3, first.id).await;
    let held = async |id| -> Vec<String> {
        let cells = store.artifact_cells(id).await.unwrap();
        let now = put(&store, async |tx| tx.artifact_cells_now(id).await).await.unwrap();
        assert_eq!(now, cells.iter().map(|cell| cell.name.clone()).collect::<Vec<_>>());
        now
    };
    assert_eq!(held(first.id).await, ["a", "b"]);
    assert!(held(other.id).await.is_empty());
    let shown = store.artifact_cells(first.id).await.unwrap().remove(1);
    assert_eq!((shown.id, shown.state.as_str(), shown.incarnation), (b.id, "requested", 0));
    gone(&store, &a).await;
    assert_eq!(held(first.id).await, ["b"]);
}

async fn nothing_starts_from_what_is_deprecated_or_retired(store: Store) {
    let (_, base) = base(&store).await;
    let first = draft(&store, &base, "sha256:m").await;
    let start = async || put(&store, async |tx| tx.artifact_start(first.id).await).await.unwrap();
    for state in ArtifactState::ALL.iter().copied() {
        let seen = brought(&store, &first, state).await;
        assert_eq!(start().await, state.may_start(), "{state}");
        same(&look(&store, first.id).await, &seen);
    }
    assert!(!put(&store, async |tx| tx.artifact_start(made::id()).await).await.unwrap());
}

async fn an_artifact_goes_on_the_version_that_was_seen_unless_a_cell_lives(store: Store) {
    let place = place(&store).await;
    let base = repository(&store, &place.project, "base").await;
    let first = draft(&store, &base, "sha256:m").await;
    let cell = started(&store, &place, "a", 2, first.id).await;
    let remove = async |version| put(&store, async |tx| tx.artifact_delete(first.id, version).await).await;
    is_gone(remove(1).await);
    assert_eq!(store.artifact_changes(first.id).await.unwrap().len(), 1, "its history stays with it");
    gone(&store, &cell).await;
    is_stale(remove(2).await);
    assert_eq!(store.cell_lookup(cell.id).await.unwrap().unwrap().artifact_id, Some(first.id));
    remove(1).await.unwrap();
    assert!(store.artifact_lookup(first.id).await.unwrap().is_none());
    assert_eq!(store.cell_lookup(cell.id).await.unwrap().unwrap().artifact_id, None);
    assert!(store.manifest_lookup(base.id, "sha256:m").await.unwrap().is_some(), "the content stays");
    is_stale(remove(1).await);
}

async fn artifacts_go_with_their_repository(store: Store) {
    let (project, base) = base(&store).await;
    let other = repository(&store, &project, "other").await;
    let first = draft(&store, &base, "sha256:m").await;
    let second = draft(&store, &base, "sha256:n").await;
    let elsewhere = draft(&store, &other, "sha256:m").await;
    assert!(store.artifact_held_in(base.id).await.unwrap().is_empty(), "drafts hold nothing");
    for (state, held) in
        [(ArtifactState::Staged, true), (ArtifactState::Deprecated, true), (ArtifactState::Retired, false)]
    {
        brought(&store, &first, state).await;
        assert_eq!(store.artifact_held_in(base.id).await.unwrap() == ["sha256:m"], held, "{state}");
    }
    let seen = look(&store, first.id).await;
    step(&store, &seen, &Artifact { superseded_by: Some(second.id), ..seen.clone() }).await.unwrap();
    assert_eq!(put(&store, async |tx| tx.artifact_delete_in(base.id).await).await.unwrap(), 2);
    assert_eq!(put(&store, async |tx| tx.artifact_delete_in(base.id).await).await.unwrap(), 0);
    put(&store, async |tx| tx.repository_delete(base.id, 1).await).await.unwrap();
    same(&look(&store, elsewhere.id).await, &elsewhere);
}

async fn artifacts_go_with_their_project_or_tenant(store: Store) {
    let (tenant, project) = fleet::place(&store).await;
    let serve = made::project(&tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    let mut all = Vec::new();
    for project in [&project, &serve] {
        let base = repository(&store, project, "base").await;
        let old = draft(&store, &base, "sha256:m").await;
        let new = draft(&store, &base, "sha256:n").await;
        let old = brought(&store, &old, ArtifactState::Active).await;
        // Two artifacts that refer to each other can be removed together.
        step(&store, &old, &Artifact { superseded_by: Some(new.id), ..to(&old, ArtifactState::Deprecated) })
            .await
            .unwrap();
        all.push((old.id, new.id));
    }
    put(&store, async |tx| tx.repository_delete_of_project(project.id).await).await.unwrap();
    assert!(store.artifact_lookup(all[0].0).await.unwrap().is_none());
    assert!(store.artifact_lookup(all[1].0).await.unwrap().is_some());
    put(&store, async |tx| tx.repository_delete_of_tenant(tenant.id).await).await.unwrap();
    assert!(store.artifact_lookup(all[1].1).await.unwrap().is_none());
}

/// Starts cells while the artifact is being retired: a retired artifact has no live cell.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_lives_that_was_started_while_its_artifact_was_retired() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let place = place(&stores[0]).await;
    let base = repository(&stores[0], &place.project, "base").await;
    for round in 0..40_i64 {
        let made = draft(&stores[0], &base, &format!("sha256:{round}")).await;
        let seen = brought(&stores[0], &made, ArtifactState::Active).await;
        let went = race(&stores, |n, store| {
            let n = i64::try_from(n).unwrap();
            let seen = seen.clone();
            let cell = Cell {
                artifact_id: Some(seen.id),
                ..cell(&place, &format!("c{round}-{n}"), round * 100 + n + 2)
            };
            async move {
                if n == 0 {
                    return take_one(&store, &seen).await;
                }
                // Half of them start late, so that some find it deprecated.
                for _ in 0..n * round {
                    tokio::task::yield_now().await;
                }
                put(&store, async |tx| {
                    if tx.artifact_start(seen.id).await? {
                        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                        tx.cell_request(&cell).await?;
                    }
                    Ok(())
                })
                .await
                .unwrap();
                false
            }
        })
        .await;
        let living = stores[0].artifact_cells(seen.id).await.unwrap();
        let state = look(&stores[0], seen.id).await.state;
        if went.into_iter().any(|went| went) {
            assert_eq!((state, living.len()), (ArtifactState::Retired, 0), "round {round}: {living:?}");
        } else {
            assert_eq!(state, ArtifactState::Deprecated);
            assert!(!living.is_empty(), "round {round}: nothing held it");
        }
    }
}

/// Deprecates and retires, as two commands do; reports whether it is retired.
async fn take_one(store: &Store, seen: &Artifact) -> bool {
    step(store, seen, &to(seen, ArtifactState::Deprecated)).await.unwrap();
    let seen = look(store, seen.id).await;
    let mut tx = store.begin().await.unwrap();
    tx.artifact_move(&seen, &to(&seen, ArtifactState::Retired), at(9)).await.unwrap();
    if tx.artifact_cells_now(seen.id).await.unwrap().is_empty() {
        tx.commit().await.unwrap();
        return true;
    }
    tx.rollback().await;
    false
}
