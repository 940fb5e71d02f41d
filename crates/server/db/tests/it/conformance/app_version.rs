//! Releases: state constraints, their artifacts, and their use.

use muster_db::{AppVersionUse, ArtifactRelease, Page, Result, Store};
use muster_ids::ArtifactId;
use muster_model::Project;
use muster_model::app::{App, AppVersion, Audience};
use muster_model::artifact::{Artifact, ArtifactState, Repository};
use muster_testkit::Database;

use super::artifact::{brought as artifact_brought, draft};
use super::repository::repository;
use crate::concurrency::{race, replicas};
use crate::made::catalog::{
    brought, change, granted, launched, member, offered, published, step, stopped, to, version,
};
use crate::made::{self, FIRST, fleet, is_conflict, is_gone, is_stale, put, same};

on_both![
    a_release_reads_back_as_it_was_published,
    a_name_is_used_once_within_an_app,
    drafts_are_the_publishers_alone,
    a_release_moves_as_it_can_and_on_the_version_that_was_seen,
    an_app_has_one_active_release_and_one_canary,
    a_share_belongs_to_a_canary_and_what_is_deprecated_has_been_so_since_a_time,
    the_newest_and_those_in_a_state_are_found,
    changes_are_numbered_as_they_come,
    releases_hold_what_they_are_made_of_until_they_are_retired,
    an_artifact_serves_only_a_release_that_is_not_ahead_of_it,
    live_instances_and_living_members_use_a_release,
    nothing_starts_from_what_is_deprecated_and_nothing_returns_to_what_is_retired,
];

async fn shelf(store: &Store) -> (Project, App) {
    let (_, project) = fleet::place(store).await;
    let app = offered(store, &project, "notebook", Audience::Everyone).await;
    (project, app)
}

async fn stranger(store: &Store) -> Project {
    let tenant = made::tenant("globex");
    let project = made::project(&tenant, "lab");
    put(store, async |tx| {
        tx.tenant_insert(&tenant).await?;
        tx.project_insert(&project).await
    })
    .await
    .unwrap();
    project
}

async fn names(store: &Store, by: &Project, app: &App, page: Page) -> Vec<String> {
    let all = store.app_version_list(page, by.id, app.id).await.unwrap();
    all.into_iter().map(|found| found.version.name).collect()
}

async fn a_release_reads_back_as_it_was_published(store: Store) {
    let (project, app) = shelf(&store).await;
    let one = published(&store, &app, "1").await;
    let by_id = store.app_version_lookup(project.id, one.id).await.unwrap().unwrap();
    same(&by_id.version, &one);
    assert_eq!(by_id.instances, 0);
    same(&store.app_version_by_name(project.id, app.id, "1").await.unwrap().unwrap(), &by_id);
    assert!(store.app_version_by_name(project.id, app.id, "2").await.unwrap().is_none());
    assert!(store.app_version_by_name(project.id, made::id(), "1").await.unwrap().is_none());
    assert_eq!(store.app_version_artifacts(one.id).await.unwrap(), []);
    let two = published(&store, &app, "2").await;
    assert_eq!(names(&store, &project, &app, FIRST).await, ["1", "2"]);
    assert_eq!(names(&store, &project, &app, Page { size: 1, ..FIRST }).await, ["1"]);
    assert_eq!(names(&store, &project, &app, made::page(one.id, 9)).await, ["2"]);
    assert_eq!(names(&store, &project, &app, made::page(two.id, 9)).await, Vec::<String>::new());
}

async fn a_name_is_used_once_within_an_app(store: Store) {
    let (project, app) = shelf(&store).await;
    published(&store, &app, "1").await;
    let again = version(&app, "1");
    let first = change(None, ArtifactState::Draft);
    is_conflict(put(&store, async |tx| tx.app_version_publish(&again, &[], &first).await).await);
    let other = offered(&store, &project, "other", Audience::Project).await;
    published(&store, &other, "1").await;
    let gone = version(&made::catalog::app(&project, "nowhere"), "1");
    is_gone(put(&store, async |tx| tx.app_version_publish(&gone, &[], &first).await).await);
    let missing: Vec<(String, ArtifactId)> = vec![("base".to_owned(), made::id())];
    let two = version(&app, "2");
    is_gone(put(&store, async |tx| tx.app_version_publish(&two, &missing, &first).await).await);
    assert_eq!(names(&store, &project, &app, FIRST).await, ["1"]);
}

async fn drafts_are_the_publishers_alone(store: Store) {
    let (project, app) = shelf(&store).await;
    let other = stranger(&store).await;
    let one = published(&store, &app, "1").await;
    let seen = async |by: &Project| {
        let by_id = store.app_version_lookup(by.id, one.id).await.unwrap().is_some();
        let by_name = store.app_version_by_name(by.id, app.id, "1").await.unwrap().is_some();
        let newest = store.app_version_newest(by.id, app.id).await.unwrap().is_some();
        let listed = !names(&store, by, &app, FIRST).await.is_empty();
        (by_id, by_name, newest, listed)
    };
    assert_eq!(seen(&project).await, (true, true, true, true));
    assert_eq!(seen(&other).await, (false, false, false, false));
    brought(&store, &one, ArtifactState::Staged).await;
    assert_eq!(seen(&other).await, (true, true, true, true));
}

async fn a_release_moves_as_it_can_and_on_the_version_that_was_seen(store: Store) {
    let (project, app) = shelf(&store).await;
    let one = published(&store, &app, "1").await;
    is_conflict(step(&store, &one, &to(&one, ArtifactState::Active)).await);
    step(&store, &one, &to(&one, ArtifactState::Staged)).await.unwrap();
    is_stale(step(&store, &one, &to(&one, ArtifactState::Staged)).await);
    let staged = store.app_version_lookup(project.id, one.id).await.unwrap().unwrap().version;
    assert_eq!((staged.state, staged.version), (ArtifactState::Staged, 2));
    let canary = brought(&store, &staged, ArtifactState::Canary).await;
    assert_eq!(canary.canary_percent, Some(10));
    step(&store, &canary, &to(&canary, ArtifactState::Staged)).await.unwrap();
}

async fn an_app_has_one_active_release_and_one_canary(store: Store) {
    let (project, _) = shelf(&store).await;
    for (state, before) in
        [(ArtifactState::Canary, ArtifactState::Staged), (ArtifactState::Active, ArtifactState::Canary)]
    {
        let app = offered(&store, &project, state.as_str(), Audience::Project).await;
        let (one, two) = (published(&store, &app, "1").await, published(&store, &app, "2").await);
        let one = brought(&store, &one, state).await;
        let two = brought(&store, &two, before).await;
        is_conflict(step(&store, &two, &to(&two, state)).await);
        // Both move in one transaction: the first gives up the state and the second takes it.
        let back = match state {
            ArtifactState::Canary => ArtifactState::Staged,
            _ => ArtifactState::Deprecated,
        };
        put(&store, async |tx| {
            tx.app_version_move(&one, &to(&one, back), made::at(9)).await?;
            tx.app_version_move(&two, &to(&two, state), made::at(9)).await
        })
        .await
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_promote_at_once_one_release_becomes_active() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let (_, app) = shelf(&stores[0]).await;
    let one = published(&stores[0], &app, "one").await;
    let canary = brought(&stores[0], &one, ArtifactState::Canary).await;
    let answers = race(&stores, move |_, store| {
        let (before, after) = (canary.clone(), to(&canary, ArtifactState::Active));
        async move { step(&store, &before, &after).await }
    })
    .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    answers.into_iter().filter(Result::is_err).for_each(is_stale);
}

async fn a_share_belongs_to_a_canary_and_what_is_deprecated_has_been_so_since_a_time(store: Store) {
    let (_, app) = shelf(&store).await;
    let one = published(&store, &app, "1").await;
    let staged = brought(&store, &one, ArtifactState::Staged).await;
    for percent in [None, Some(0), Some(101)] {
        let wrong = AppVersion { canary_percent: percent, ..to(&staged, ArtifactState::Canary) };
        is_conflict(step(&store, &staged, &wrong).await);
    }
    let active = brought(&store, &staged, ArtifactState::Active).await;
    let shared = AppVersion { canary_percent: Some(5), ..to(&active, ArtifactState::Deprecated) };
    is_conflict(step(&store, &active, &shared).await);
    let timeless = AppVersion { deprecated_at: None, ..to(&active, ArtifactState::Deprecated) };
    is_conflict(step(&store, &active, &timeless).await);
}

async fn the_newest_and_those_in_a_state_are_found(store: Store) {
    let (project, app) = shelf(&store).await;
    assert!(store.app_version_newest(project.id, app.id).await.unwrap().is_none());
    let (one, two) = (published(&store, &app, "1").await, published(&store, &app, "2").await);
    let newest = async || store.app_version_newest(project.id, app.id).await.unwrap().unwrap().version.name;
    assert_eq!(newest().await, "2");
    let active = brought(&store, &one, ArtifactState::Active).await;
    let in_state = async |state| {
        let found = store.app_version_in_state(project.id, app.id, state).await.unwrap();
        found.map(|found| found.version.name)
    };
    assert_eq!(in_state(ArtifactState::Active).await.as_deref(), Some("1"));
    assert_eq!(in_state(ArtifactState::Canary).await, None);
    assert_eq!(in_state(ArtifactState::Draft).await.as_deref(), Some("2"));
    // A retired release is not offered for a launch.
    brought(&store, &two, ArtifactState::Canary).await;
    step(&store, &active, &to(&active, ArtifactState::Deprecated)).await.unwrap();
    brought(&store, &two, ArtifactState::Retired).await;
    assert_eq!(newest().await, "1");
}

async fn changes_are_numbered_as_they_come(store: Store) {
    let (_, app) = shelf(&store).await;
    let one = published(&store, &app, "1").await;
    let next = change(Some(ArtifactState::Draft), ArtifactState::Staged);
    put(&store, async |tx| tx.app_version_change(one.id, &next).await).await.unwrap();
    let changes = store.app_version_changes(one.id).await.unwrap();
    same(&changes, &[change(None, ArtifactState::Draft), next]);
    is_gone(
        put(&store, async |tx| tx.app_version_change(made::id(), &change(None, ArtifactState::Draft)).await)
            .await,
    );
}

/// Publishes a release that contains an artifact.
async fn made_of(store: &Store, app: &App, name: &str, artifact: &Artifact) -> AppVersion {
    let version = version(app, name);
    let parts = vec![("base".to_owned(), artifact.id)];
    let first = change(None, ArtifactState::Draft);
    put(store, async |tx| tx.app_version_publish(&version, &parts, &first).await).await.unwrap();
    assert_eq!(store.app_version_artifacts(version.id).await.unwrap(), parts);
    version
}

async fn with_artifact(store: &Store) -> (App, Repository, Artifact) {
    let (project, app) = shelf(store).await;
    let repository = repository(store, &project, "base").await;
    let artifact = draft(store, &repository, "sha256:one").await;
    (app, repository, artifact)
}

async fn releases_hold_what_they_are_made_of_until_they_are_retired(store: Store) {
    let (app, _, artifact) = with_artifact(&store).await;
    assert_eq!(store.artifact_releases(artifact.id).await.unwrap(), []);
    let one = made_of(&store, &app, "1", &artifact).await;
    let release = |state| ArtifactRelease { app: "notebook".to_owned(), name: "1".to_owned(), state };
    assert_eq!(store.artifact_releases(artifact.id).await.unwrap(), [release(ArtifactState::Draft)]);
    let delete = async || put(&store, async |tx| tx.artifact_delete(artifact.id, 1).await).await;
    is_gone(delete().await);
    brought(&store, &one, ArtifactState::Deprecated).await;
    let now = put(&store, async |tx| tx.artifact_releases_now(artifact.id).await).await.unwrap();
    assert_eq!(now, [release(ArtifactState::Deprecated)]);
    is_gone(delete().await);
    brought(&store, &one, ArtifactState::Retired).await;
    assert_eq!(store.artifact_releases(artifact.id).await.unwrap(), []);
    delete().await.unwrap();
    assert_eq!(store.app_version_artifacts(one.id).await.unwrap(), []);
}

async fn an_artifact_serves_only_a_release_that_is_not_ahead_of_it(store: Store) {
    use ArtifactState::{Active, Canary, Deprecated, Draft, Retired, Staged};
    let (_, _, artifact) = with_artifact(&store).await;
    for (state, serves) in [
        (Draft, [true, false, false, false]),
        (Staged, [true, true, false, false]),
        (Canary, [true, true, true, false]),
        (Active, [true, true, true, true]),
        (Deprecated, [false; 4]),
        (Retired, [false; 4]),
    ] {
        artifact_brought(&store, &artifact, state).await;
        for (wanted, expected) in [Draft, Staged, Canary, Active].into_iter().zip(serves) {
            let found = put(&store, async |tx| tx.artifact_serves(artifact.id, wanted).await).await.unwrap();
            assert_eq!(found, expected, "{state} for {wanted}");
        }
        for late in [Deprecated, Retired] {
            assert!(!put(&store, async |tx| tx.artifact_serves(artifact.id, late).await).await.unwrap());
        }
    }
}

async fn live_instances_and_living_members_use_a_release(store: Store) {
    let (project, app) = shelf(&store).await;
    let consumer = stranger(&store).await;
    let (one, two) = (published(&store, &app, "1").await, published(&store, &app, "2").await);
    let (one, two) = (
        brought(&store, &one, ArtifactState::Staged).await,
        brought(&store, &two, ArtifactState::Staged).await,
    );
    let (_, account) = granted(&store, &consumer, &app).await;
    let used = async |version: &AppVersion| {
        let now = put(&store, async |tx| tx.app_version_use(version.id).await).await.unwrap();
        assert_eq!(store.app_version_use(version.id).await.unwrap(), now);
        (now.instances, now.members)
    };
    assert_eq!(store.app_version_use(one.id).await.unwrap(), AppVersionUse { instances: 0, members: 0 });
    let instance = launched(&store, &consumer, &one, &account, "mine").await;
    assert_eq!(used(&one).await, (1, 0));
    let worker = member(&store, &instance, &one, "mine-worker-1").await;
    assert_eq!(used(&one).await, (1, 1));
    // Upgraded: the old release is the rollback target, and still runs in the member.
    let before = store.instance_lookup(instance.id).await.unwrap().unwrap();
    let after = muster_model::instance::Instance {
        app_version_id: two.id,
        previous_version_id: Some(one.id),
        ..before.clone()
    };
    put(&store, async |tx| tx.instance_move(&before, &after, made::at(5)).await).await.unwrap();
    assert_eq!((used(&one).await, used(&two).await), ((1, 1), (1, 0)));
    // The publisher reads the total use of its releases; other projects read only their own.
    let count =
        async |by: &Project| store.app_version_lookup(by.id, one.id).await.unwrap().unwrap().instances;
    let bystander = made::project(&made::tenant("initech"), "x");
    assert_eq!((count(&project).await, count(&consumer).await, count(&bystander).await), (1, 1, 0));
    stopped(&store, &instance).await;
    assert_eq!(used(&one).await, (0, 1), "a member that lives is not forgotten because its instance is");
    let removed = {
        use muster_ids::TypedId as _;
        fleet::witnessed(&store, worker.id.uuid(), muster_model::witness::Transition::Removed).await
    };
    for state in [muster_model::member::MemberState::Removing, muster_model::member::MemberState::Removed] {
        let before = store.member_lookup(worker.id).await.unwrap().unwrap();
        let after =
            muster_model::member::Member { state, removed_witness_id: Some(removed.id), ..before.clone() };
        put(&store, async |tx| tx.member_move(&before, &after, made::at(6)).await).await.unwrap();
    }
    assert_eq!((used(&one).await, used(&two).await), ((0, 0), (0, 0)));
}

async fn nothing_starts_from_what_is_deprecated_and_nothing_returns_to_what_is_retired(store: Store) {
    let (_, app) = shelf(&store).await;
    let one = published(&store, &app, "1").await;
    for state in ArtifactState::ALL.iter().copied() {
        brought(&store, &one, state).await;
        let starts = put(&store, async |tx| tx.app_version_start(one.id).await).await.unwrap();
        let returns = put(&store, async |tx| tx.app_version_return(one.id).await).await.unwrap();
        assert_eq!((starts, returns), (state.may_start(), state != ArtifactState::Retired), "{state}");
    }
}
