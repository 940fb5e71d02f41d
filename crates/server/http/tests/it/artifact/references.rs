//! References to an artifact, and when it may be removed.

use muster_testkit::Database;
use serde_json::json;

use super::{Shelf, sign, sign_by_tag};
use crate::registry::{Image, MANIFEST, descriptor};

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_hangs_on_an_artifact_is_shown() {
    let shelf = Shelf::new(Database::sqlite()).await;
    let image = Image::of("one");
    let id = shelf.pushed("one").await;
    shelf.remote.manifest("also", &image.manifest).await.is(201);
    let (key, _) = shelf.key("build").await;
    sign(&shelf.remote, &key, &image).await;
    sign_by_tag(&shelf.remote, &key, &image).await;
    let mut child = descriptor(MANIFEST, &image.manifest);
    child["platform"] = json!({"os": "linux", "architecture": "amd64"});
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [child]});
    let index = index.to_string().into_bytes();
    let put = shelf.remote.index("all", &index).await.is(201);
    let found = shelf.admin.get(&format!("{}/references", shelf.path(&id))).await.ok().body;
    assert_eq!(found["tags"], json!(["also", "one"]));
    let by: Vec<_> =
        found["signatures"].as_array().unwrap().iter().map(|signature| signature["by"].clone()).collect();
    assert_eq!(by, [json!("tag"), json!("referrer")]);
    assert_eq!(found["indexes"], json!([put.header("docker-content-digest")]));
    assert_eq!(
        (&found["cells"], &found["supersedes"], &found["holds"]),
        (&json!([]), &json!([]), &json!([]))
    );
    assert_eq!(found["changes"].as_array().unwrap().len(), 1);
    assert_eq!(found["artifact"], shelf.shown(&id).await);
    // It stays while it is part of an index.
    shelf.admin.delete(&shelf.path(&id)).await.refused(409, "invalid_state");
    shelf
        .remote
        .send("DELETE", &format!("{{}}/manifests/{}", image.digest()), b"")
        .await
        .refused(409, "DENIED");
    shelf.admin.delete(&shelf.path("base:all")).await.ok();
    shelf.admin.delete(&shelf.path(&id)).await.ok();
    shelf.remote.get("{}/manifests/one").await.refused(404, "MANIFEST_UNKNOWN");
    shelf.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_drafts_and_retired_artifacts_go() {
    for database in Database::both() {
        let shelf = Shelf::new(database).await;
        shelf.rules(json!({"unsigned_up_to": "active", "grace_hours": 1})).await;
        let id = shelf.pushed("one").await;
        let image = Image::of("one");
        let held = async || {
            shelf.admin.delete(&shelf.path(&id)).await.refused(409, "invalid_state");
            let by_registry = format!("{{}}/manifests/{}", image.digest());
            shelf.remote.send("DELETE", &by_registry, b"").await.refused(409, "DENIED");
            let whole = format!("{}/repositories/base", shelf.base);
            shelf.admin.delete(&whole).await.refused(409, "not_empty");
            let layer = format!("{{}}/blobs/{}", crate::registry::digest(&image.layer));
            shelf.remote.send("DELETE", &layer, b"").await.refused(409, "DENIED");
            shelf.remote.pulls(&image).await.unwrap();
        };
        for to in ["staged", "canary", "active"] {
            shelf.promote(&id, to).await.ok();
            held().await;
        }
        shelf.demote(&id, "deprecated").await.ok();
        held().await;
        let refused = shelf.demote(&id, "retired").await.refused(409, "invalid_state");
        assert!(refused.text.contains("grace period"), "{}", refused.text);
        let found = shelf.admin.get(&format!("{}/references", shelf.path(&id))).await.ok().body;
        assert!(found["holds"][0].as_str().unwrap().contains("grace period"), "{found:#}");
        shelf.rules(json!({"grace_hours": 0})).await;
        shelf.demote(&id, "retired").await.ok();
        // A stale version is refused; with the current one it is removed, with its manifest and tags.
        let stale =
            shelf.admin.request(reqwest::Method::DELETE, &shelf.path(&id)).header("if-match", "\"1\"");
        shelf.admin.send(stale).await.refused(412, "version_mismatch");
        shelf.admin.delete(&shelf.path(&id)).await.ok();
        shelf.admin.get(&shelf.path(&id)).await.refused(404, "not_found");
        shelf.remote.get("{}/manifests/one").await.refused(404, "MANIFEST_UNKNOWN");
        let told: Vec<String> = shelf.events(&id).await.into_iter().map(|(word, _)| word).collect();
        assert_eq!(told.last().map(String::as_str), Some("artifact.deleted"), "{told:?}");
        // A draft can also be removed through the registry, and a new push creates another artifact.
        let again = shelf.pushed("one").await;
        assert_ne!(again, id);
        shelf.remote.send("DELETE", &format!("{{}}/manifests/{}", image.digest()), b"").await.is(202);
        shelf.admin.get(&shelf.path(&again)).await.refused(404, "not_found");
        shelf.admin.delete(&format!("{}/repositories/base", shelf.base)).await.ok();
        shelf.kit.stop().await;
    }
}

/// A damaged byte on the registry's disk is found, reported, and repaired by another push.
#[tokio::test(flavor = "multi_thread")]
async fn damage_is_found_by_looking_and_mended_by_a_push() {
    let shelf = Shelf::new(Database::sqlite()).await;
    let id = shelf.pushed("one").await;
    let image = Image::of("one");
    let verify = format!("{}/verify", shelf.path(&id));
    shelf.admin.post(&verify, json!({})).await.ok();
    let hex = crate::registry::digest(&image.layer).trim_start_matches("sha256:").to_owned();
    let folder = shelf.kit.database.folder().join("registry/blobs").join(&hex[..2]);
    let file = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let file = file.into_iter().find(|file| file.display().to_string().contains(&hex)).unwrap();
    let mut damaged = image.layer.clone();
    damaged[0] ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, damaged).unwrap();
    let refused = shelf.admin.post(&verify, json!({})).await.refused(409, "invalid_state");
    assert!(refused.text.contains("damaged"), "{}", refused.text);
    shelf.remote.push("one", &image).await.is(201);
    shelf.admin.post(&verify, json!({})).await.ok();
    shelf.remote.pulls(&image).await.unwrap();
    shelf.kit.stop().await;
}
