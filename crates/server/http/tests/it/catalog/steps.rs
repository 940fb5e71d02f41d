//! Lifecycle of releases: never ahead of their artifacts, one active and one canary, and none retired while in use.

use muster_testkit::Database;
use serde_json::json;

use super::{Catalog, manifest};
use crate::registry::Image;

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_never_ahead_of_what_it_is_made_of() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.rules(json!({"unsigned_up_to": "active"})).await;
        catalog.offer("notebook", "everyone").await;
        catalog.image("one", None).await;
        catalog.image("two", Some("canary")).await;
        catalog.released("notebook", "1", &["one", "two"]).await;
        for to in ["staged", "canary"] {
            let refused = catalog.promote("notebook", "1", to).await.refused(409, "invalid_state");
            if to == "staged" {
                assert!(refused.text.contains("artifact one is draft"), "{}", refused.text);
            }
            catalog.artifact("one", "promote", to).await.ok();
            catalog.promote("notebook", "1", to).await.ok();
        }
        let refused = catalog.promote("notebook", "1", "active").await.refused(409, "invalid_state");
        assert!(refused.text.contains("promote the artifact to active first"), "{}", refused.text);
        // Both artifacts are of one release line, which has one active artifact: only a release of that one can be
        // active.
        catalog.demote("notebook", "1", "staged").await.ok();
        catalog.released("notebook", "2", &["one"]).await;
        catalog.brought("notebook", "2", "canary").await;
        catalog.artifact("one", "promote", "active").await.ok();
        catalog.promote("notebook", "2", "active").await.ok();
        // A superseded artifact continues to serve existing releases, and only those.
        catalog.artifact("one", "demote", "deprecated").await.ok();
        assert_eq!(catalog.shown("notebook", "2").await["state"], json!("active"));
        let refused = catalog.promote("notebook", "1", "canary").await.refused(409, "invalid_state");
        assert!(refused.text.contains("artifact one is deprecated"), "{}", refused.text);
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_is_not_taken_from_under_a_release() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.rules(json!({"unsigned_up_to": "active", "grace_hours": 0})).await;
        catalog.offer("notebook", "project").await;
        catalog.image("one", None).await;
        catalog.released("notebook", "1", &["one"]).await;
        let artifact = catalog.at("train", "artifacts/base:one");
        let refused = catalog.admin.delete(&artifact).await.refused(409, "invalid_state");
        assert!(refused.text.contains("a release that is not retired"), "{}", refused.text);
        // Neither through the registry, nor by removing its repository.
        let by_registry = format!("{{}}/manifests/{}", Image::of("one").digest());
        catalog.remote.send("DELETE", &by_registry, b"").await.refused(409, "DENIED");
        let repository = catalog.at("train", "repositories/base");
        let refused = catalog.admin.delete(&repository).await.refused(409, "not_empty");
        assert!(refused.text.contains("a release that is not retired"), "{}", refused.text);
        let holds = catalog.admin.get(&format!("{artifact}/references")).await.ok().body["holds"].clone();
        assert!(holds[0].as_str().unwrap().contains("the release 1 of the app notebook"), "{holds:#}");
        for to in ["staged", "canary"] {
            catalog.artifact("one", "promote", to).await.ok();
            catalog.promote("notebook", "1", to).await.ok();
        }
        // The canary's artifact cannot be demoted while the release uses it; after the release it can.
        let refused = catalog.artifact("one", "demote", "staged").await.refused(409, "invalid_state");
        assert!(refused.text.contains("demote the release first"), "{}", refused.text);
        catalog.demote("notebook", "1", "staged").await.ok();
        catalog.artifact("one", "demote", "staged").await.ok();
        for to in ["canary", "active"] {
            catalog.artifact("one", "promote", to).await.ok();
            catalog.promote("notebook", "1", to).await.ok();
        }
        catalog.artifact("one", "demote", "deprecated").await.ok();
        catalog.artifact("one", "demote", "retired").await.refused(409, "invalid_state");
        catalog.demote("notebook", "1", "deprecated").await.ok();
        catalog.artifact("one", "demote", "retired").await.refused(409, "invalid_state");
        catalog.demote("notebook", "1", "retired").await.ok();
        catalog.artifact("one", "demote", "retired").await.ok();
        catalog.admin.delete(&artifact).await.ok();
        assert_eq!(catalog.shown("notebook", "1").await["state"], json!("retired"));
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_is_judged_again_at_every_step() {
    let catalog = Catalog::new(Database::sqlite()).await;
    catalog.rules(json!({"unsigned_up_to": "active"})).await;
    catalog.offer("notebook", "project").await;
    catalog.image("one", Some("active")).await;
    catalog.released("notebook", "1", &["one"]).await;
    catalog.promote("notebook", "1", "staged").await.ok();
    // The publisher has required signatures since the artifact's promotion.
    catalog.rules(json!({"unsigned_up_to": "staged"})).await;
    let refused = catalog.promote("notebook", "1", "canary").await.refused(409, "untrusted");
    assert!(refused.text.contains("the artifact one"), "{}", refused.text);
    assert_eq!(catalog.shown("notebook", "1").await["state"], json!("staged"));
    catalog.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_active_release_takes_the_place_of_the_old_one() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "everyone").await;
        let one = catalog.released("notebook", "1", &[]).await;
        let two = catalog.released("notebook", "2", &[]).await;
        catalog.brought("notebook", "1", "active").await;
        catalog.brought("notebook", "2", "staged").await;
        let path = catalog.at("train", "apps/notebook/versions/2/promote");
        let body = json!({"to": "canary", "percent": 25, "reason": "a quarter"});
        let canary = catalog.admin.post(&path, body).await.ok();
        assert_eq!(canary.body["canary_percent"], json!(25));
        let app = catalog.admin.get(&catalog.at("train", "apps/notebook")).await.ok().body;
        assert_eq!((&app["active_version"], &app["canary_version"]), (&json!("1"), &json!("2")));
        // There is one canary at a time, and it can be demoted.
        catalog.released("notebook", "3", &[]).await;
        catalog.promote("notebook", "3", "staged").await.ok();
        let refused = catalog.promote("notebook", "3", "canary").await.refused(409, "invalid_state");
        assert!(refused.text.contains("2 is already the app's canary"), "{}", refused.text);
        catalog.demote("notebook", "2", "staged").await.ok();
        assert!(catalog.shown("notebook", "2").await["canary_percent"].is_null());
        catalog.promote("notebook", "2", "canary").await.ok();
        let promoted = catalog.promote("notebook", "2", "active").await.ok();
        let old = catalog.shown("notebook", "1").await;
        assert_eq!((&old["state"], &old["superseded_by"]), (&json!("deprecated"), &json!(two)));
        // Both changes emit an event, with the same correlation id, and the command is audited once with both.
        let (word, data) = catalog.events(&catalog.admin, "train", &one).await.pop().unwrap();
        assert_eq!((word.as_str(), &data["after"]), ("app_version.demoted", &json!("deprecated")));
        let (word, data) = catalog.events(&catalog.admin, "train", &two).await.pop().unwrap();
        assert_eq!(
            (word.as_str(), &data["before"], &data["after"]),
            ("app_version.promoted", &json!("canary"), &json!("active"))
        );
        let thread = promoted.header("x-correlation-id").to_owned();
        let audited = catalog.audited("acme", "app_version.promote").await;
        let of_it: Vec<_> =
            audited.iter().filter(|record| record["correlation_id"] == json!(thread)).collect();
        assert_eq!(of_it.len(), 1);
        assert_eq!(of_it[0]["detail"]["supersedes"]["name"], json!("1"));
        // The history has the actor, both states and the reason.
        let changes = catalog.kit.store().app_version_changes(one.parse().unwrap()).await.unwrap();
        let last = changes.last().unwrap();
        assert_eq!(last.actor_id, catalog.fixture.id("project_admin"));
        assert_eq!((changes.len(), last.reason.as_str()), (5, "2 became active and replaced it"));
        // A deprecated release does not return, and no step can be skipped.
        catalog.promote("notebook", "1", "active").await.refused(409, "invalid_state");
        catalog.promote("notebook", "3", "active").await.refused(409, "invalid_state");
        catalog.demote("notebook", "2", "retired").await.refused(409, "invalid_state");
        let percent = json!({"to": "staged", "percent": 5, "reason": "x"});
        let refused = catalog
            .admin
            .post(&catalog.at("train", "apps/notebook/versions/3/promote"), percent.clone())
            .await;
        assert_eq!(refused.refused(400, "invalid_request").body["errors"][0]["pointer"], json!("/percent"));
        catalog
            .admin
            .post(&catalog.at("train", "apps/notebook/versions/3/demote"), percent)
            .await
            .refused(400, "invalid_request");
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_promote_at_once_one_does_and_there_is_one_active() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "project").await;
        let versions: Vec<String> = (1..=4).map(|n| n.to_string()).collect();
        for version in &versions {
            catalog.released("notebook", version, &[]).await;
            catalog.promote("notebook", version, "staged").await.ok();
        }
        // Concurrent promotions cannot create two canaries.
        let answers = futures::future::join_all(
            versions.iter().map(|version| catalog.promote("notebook", version, "canary")),
        )
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        let canary = answers.iter().position(|answer| answer.status == 200).unwrap();
        let answers = futures::future::join_all(
            (0..6).map(|_| catalog.promote("notebook", &versions[canary], "active")),
        )
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        assert!(
            answers
                .iter()
                .filter(|answer| answer.status != 200)
                .all(|answer| answer.code() == "invalid_state")
        );
        let list = catalog.admin.get(&catalog.at("train", "apps/notebook/versions")).await.ok().body;
        let active = list["items"].as_array().unwrap().iter().filter(|one| one["state"] == "active").count();
        assert_eq!(active, 1);
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn release_in_use_or_needed_for_rollback_is_not_retired() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.rules(json!({"grace_hours": 1})).await;
        catalog.offer("notebook", "everyone").await;
        let one = catalog.released("notebook", "1", &[]).await;
        catalog.released("notebook", "2", &[]).await;
        catalog.brought("notebook", "1", "active").await;
        let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
        let instance = catalog.runs(&entitlement, &one, "mine").await;
        catalog.brought("notebook", "2", "active").await;
        let refused = catalog.demote("notebook", "1", "retired").await.refused(409, "invalid_state");
        assert!(refused.text.contains("grace period"), "{}", refused.text);
        catalog.rules(json!({"grace_hours": 0})).await;
        let refused = catalog.demote("notebook", "1", "retired").await.refused(409, "invalid_state");
        assert!(refused.text.contains("1 live instances"), "{}", refused.text);
        // The publisher gets the total usage of its release, others only their own.
        assert_eq!(catalog.shown("notebook", "1").await["instances"], json!(1));
        let path = catalog.at("serve", "apps/notebook/versions/1");
        assert_eq!(catalog.sibling.get(&path).await.ok().body["instances"], json!(0));
        // A rollback target is kept too.
        let store = catalog.kit.store();
        let two = catalog.shown("notebook", "2").await["id"].as_str().unwrap().parse().unwrap();
        let before = store.instance_lookup(instance.id).await.unwrap().unwrap();
        let after = muster_model::instance::Instance {
            app_version_id: two,
            previous_version_id: Some(before.app_version_id),
            ..before.clone()
        };
        let mut tx = store.begin().await.unwrap();
        tx.instance_move(&before, &after, before.updated_at).await.unwrap();
        tx.commit().await.unwrap();
        catalog.demote("notebook", "1", "retired").await.refused(409, "invalid_state");
        catalog.stops(&instance).await;
        catalog.demote("notebook", "1", "retired").await.ok();
        let refused = catalog.publish("notebook", manifest("notebook", "1", &[])).await;
        refused.refused(409, "lint_failed");
        // A release that was never offered is retired immediately, and starts nothing any more.
        for (name, staged) in [("3", true), ("4", false)] {
            catalog.released("notebook", name, &[]).await;
            if staged {
                catalog.promote("notebook", name, "staged").await.ok();
            }
            catalog.demote("notebook", name, "retired").await.ok();
            assert_eq!(catalog.shown("notebook", name).await["state"], "retired");
        }
        catalog.kit.stop().await;
    }
}

/// A release is promoted while its artifact is demoted: one of the two observes the other.
#[tokio::test(flavor = "multi_thread")]
async fn however_two_race_a_release_is_never_left_ahead_of_its_artifact() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.rules(json!({"unsigned_up_to": "active"})).await;
        catalog.offer("notebook", "project").await;
        catalog.image("one", Some("canary")).await;
        catalog.released("notebook", "1", &["one"]).await;
        catalog.promote("notebook", "1", "staged").await.ok();
        let mut won = [0, 0];
        for _ in 0..12 {
            let (promoted, demoted) = tokio::join!(
                catalog.promote("notebook", "1", "canary"),
                catalog.artifact("one", "demote", "staged"),
            );
            assert!(promoted.status == 409 || demoted.status == 409, "both were carried out");
            assert!(promoted.status == 200 || demoted.status == 200, "{} {}", promoted.text, demoted.text);
            let of_artifact = catalog.admin.get(&catalog.at("train", "artifacts/base:one")).await.ok();
            let (artifact, release) =
                (of_artifact.text_of("state"), catalog.shown("notebook", "1").await["state"].clone());
            assert!(
                artifact == "canary" || release == "staged",
                "a {release} release of a {artifact} artifact"
            );
            won[usize::from(demoted.status == 200)] += 1;
            if demoted.status == 200 {
                catalog.artifact("one", "promote", "canary").await.ok();
            } else {
                catalog.demote("notebook", "1", "staged").await.ok();
            }
        }
        assert_eq!(won.iter().sum::<i32>(), 12);
        catalog.kit.stop().await;
    }
}
