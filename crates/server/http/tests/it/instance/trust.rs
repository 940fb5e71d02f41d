//! Instances and their artifacts: an artifact that may not start as a cell may not start as a member.

use muster_testkit::{Answer, Database};
use muster_trust::{Descriptor, Digest, PrivateKey, bundle};
use serde_json::{Value, json};

use super::{Good, Stage, pool, publish_as};
use crate::registry::{Image, MANIFEST, Remote};

/// Returns a release with workers made from an image.
fn of_image(version: &str, image: &Image) -> Value {
    let mut manifest = pool(version);
    manifest["artifacts"] = json!([{"name": "image", "repository": "base", "digest": image.digest()}]);
    manifest["components"][1]["runtime"]["root"] = json!({"artifact": "image"});
    manifest
}

struct Shelf {
    stage: Stage,
    remote: Remote,
    image: Image,
}

impl Shelf {
    /// A platform with a project that requires signatures, a signed active image, and a release of it.
    async fn new(database: Database) -> (Self, String) {
        let stage = Stage::new(database).await;
        let remote =
            Remote::new(&stage.scene.kit, 0, stage.scene.fixture.token("project_admin"), "acme.train/base");
        let shelf = Self { stage, remote, image: Image::of("one") };
        let rules = json!({"unsigned_up_to": "draft"});
        shelf.stage.scene.admin.patch(&shelf.stage.at("trust-policy"), rules).await.ok();
        let key = PrivateKey::generate();
        let body = json!({"name": "publisher", "public_key": key.public().to_pem()});
        let id = shelf.stage.post("keys", body).await.ok().text_of("id");
        shelf.remote.push("v1", &shelf.image).await.is(201);
        shelf.sign(&key).await;
        for state in ["staged", "canary", "active"] {
            shelf.artifact("promote", state).await.ok();
        }
        publish_as(&shelf.stage.scene, "2", of_image("2", &shelf.image)).await;
        (shelf, id)
    }

    async fn sign(&self, key: &PrivateKey) {
        let subject = Descriptor {
            media_type: MANIFEST.to_owned(),
            digest: Digest::of(&self.image.manifest),
            size: self.image.manifest.len() as u64,
        };
        let attachment = bundle::attach(&subject, bundle::sign_manifest(key, &subject.digest)).unwrap();
        for blob in &attachment.blobs {
            self.remote.blob(&blob.bytes).await.is(201);
        }
        let digest = attachment.manifest.descriptor.digest.to_string();
        self.remote.manifest(&digest, &attachment.manifest.bytes).await.is(201);
    }

    async fn artifact(&self, verb: &str, to: &str) -> Answer {
        self.stage.post(&format!("artifacts/base:v1/{verb}"), json!({"to": to, "reason": "a test"})).await
    }

    async fn create(&self, name: &str, dry_run: bool) -> Answer {
        let body = json!({"name": name, "app": "pool", "app_version": "2", "dry_run": dry_run,
                          "components": [{"component_key": "worker", "count": 1}]});
        self.stage.post("app-instances", body).await
    }

    async fn scale(&self, worker: i64, dry_run: bool) -> Answer {
        let body = json!({"components": [{"component_key": "worker", "count": worker}], "dry_run": dry_run});
        self.stage.post("app-instances/farm/scale", body).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_instance_starts_from_an_artifact_whose_key_was_revoked() {
    for database in Database::both() {
        let (shelf, key) = Shelf::new(database).await;
        let stage = &shelf.stage;
        stage.running(1).await;
        let adapter = Good::start(stage);
        stage.scene.done(stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await).await;
        stage.post(&format!("keys/{key}/revoke"), json!({"reason": "lost"})).await.ok();
        for dry_run in [true, false] {
            shelf.create("other", dry_run).await.refused(409, "untrusted");
            shelf.scale(2, dry_run).await.refused(409, "untrusted");
            let add = json!({"component_key": "worker", "dry_run": dry_run});
            stage.order("add", add).await.refused(409, "untrusted");
            let replace = json!({"members": ["farm-worker-1"], "dry_run": dry_run});
            stage.order("replace", replace).await.refused(409, "untrusted");
            let config = json!({"config": {"partitions": 2}, "app_version": "2", "dry_run": dry_run});
            stage.post("app-instances/farm/upgrade", config).await.refused(409, "untrusted");
        }
        // Actions that start nothing from it still work: fewer members, and the rollback to a release without it.
        stage.scene.done(shelf.scale(0, false).await).await;
        stage.scene.done(stage.post("app-instances/farm/rollback", json!({})).await).await;
        // Another key signs it, and it starts again.
        stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await.refused(409, "untrusted");
        let other = PrivateKey::generate();
        let body = json!({"name": "other", "public_key": other.public().to_pem()});
        stage.post("keys", body).await.ok();
        shelf.sign(&other).await;
        stage.scene.done(stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await).await;
        stage.scene.done(shelf.scale(1, false).await).await;
        adapter.stop().await;
        shelf.stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_while_a_member_is_added_stops_it_before_its_cell_is_made() {
    for database in Database::both() {
        let (shelf, _) = Shelf::new(database).await;
        let stage = &shelf.stage;
        let adapter = Good::start(stage);
        stage.scene.done(shelf.create("farm", false).await).await;
        // The policy revision stays, so that the command still accepts its verification result: as if the key were
        // revoked right after it.
        let revoked = "UPDATE publisher_keys SET revoked_at = created_at, revoked_reason = 'lost'";
        stage.scene.kit.store().sabotage(revoked).await.unwrap();
        let added = stage.order("add", json!({"component_key": "worker"})).await.ok();
        let ended = stage.scene.ended(&added).await;
        assert_eq!(
            (&ended["state"], &ended["reason"]),
            (&json!("failed"), &json!("permission")),
            "{ended:#}"
        );
        assert!(ended.to_string().contains("was revoked"), "{ended:#}");
        let cells = stage.get("cells?page_size=200").await;
        assert!(!cells.to_string().contains("farm-worker-2"), "{cells:#}");
        adapter.stop().await;
        shelf.stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deprecated_artifact_starts_no_instance_and_keeps_those_that_run() {
    for database in Database::both() {
        let (shelf, _) = Shelf::new(database).await;
        let stage = &shelf.stage;
        let adapter = Good::start(stage);
        stage.scene.done(shelf.create("farm", false).await).await;
        publish_as(&stage.scene, "3", of_image("3", &shelf.image)).await;
        shelf.artifact("demote", "deprecated").await.ok();
        for dry_run in [true, false] {
            let refused = shelf.create("other", dry_run).await.refused(409, "invalid_state");
            assert!(refused.text.contains("deprecated"), "{}", refused.text);
            let upgrade = json!({"app_version": "3", "dry_run": dry_run});
            stage.post("app-instances/farm/upgrade", upgrade).await.refused(409, "invalid_state");
        }
        stage.scene.done(shelf.scale(2, false).await).await;
        stage.scene.done(stage.order("replace", json!({"members": ["farm-worker-1"]})).await).await;
        adapter.stop().await;
        shelf.stage.stop().await;
    }
}
