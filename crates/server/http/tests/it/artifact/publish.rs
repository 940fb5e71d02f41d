//! How content becomes an artifact: by a push, or by publication.

use muster_testkit::Database;
use muster_trust::PrivateKey;
use serde_json::json;

use super::{Shelf, sign, sign_by_tag};
use crate::registry::{Image, MANIFEST, descriptor, digest};

#[tokio::test(flavor = "multi_thread")]
async fn a_push_with_a_tag_is_published_and_nothing_else_is() {
    for database in Database::both() {
        let shelf = Shelf::new(database).await;
        let list = async || {
            let found = shelf.admin.get(&format!("{}/artifacts", shelf.base)).await.ok().body;
            let digests = found["items"].as_array().unwrap().iter();
            digests.map(|artifact| artifact["digest"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (one, two) = (Image::of("one"), Image::of("two"));
        shelf.remote.push("v1", &one).await.is(201);
        assert_eq!(list().await, [one.digest()]);
        let shown = shelf.shown("base:v1").await;
        assert_eq!(
            (&shown["state"], &shown["line"], &shown["kind"]),
            (&json!("draft"), &json!("main"), &json!("oci"))
        );
        let whole = one.manifest.len() + one.config.len() + one.layer.len();
        assert_eq!(
            (&shown["size"], &shown["version"], shown.get("verdict")),
            (&json!(whole), &json!(1), None)
        );
        assert_eq!(shelf.shown(&format!("base@{}", one.digest())).await, shown);
        // A second tag, or the same tag again, is the same artifact.
        shelf.remote.push("v1", &one).await.is(201);
        shelf.remote.push("latest", &one).await.is(201);
        assert_eq!(shelf.shown("base:latest").await, shown);
        // A push by digest only; a signature under its tag; a referrer; an old client's list of referrers.
        shelf.remote.push(&two.digest(), &two).await.is(201);
        let key = PrivateKey::generate();
        sign_by_tag(&shelf.remote, &key, &one).await;
        sign(&shelf.remote, &key, &one).await;
        let empty = b"{}";
        shelf.remote.blob(empty).await.is(201);
        let about = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "text/x-note",
            "config": descriptor("application/vnd.oci.empty.v1+json", empty),
            "layers": [descriptor("application/vnd.oci.empty.v1+json", empty)],
            "subject": descriptor(MANIFEST, &one.manifest),
        });
        let about = about.to_string().into_bytes();
        assert_eq!(shelf.remote.manifest("note", &about).await.is(201).header("oci-subject"), one.digest());
        let fallback = format!("sha256-{}", one.digest().trim_start_matches("sha256:"));
        let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []});
        let sent = shelf.remote.index(&fallback, index.to_string().as_bytes()).await;
        assert_eq!(list().await, [one.digest()], "{}", sent.text());
        shelf.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_is_published_with_its_line_and_labels() {
    let shelf = Shelf::new(Database::sqlite()).await;
    let (key, key_id) = shelf.key("build").await;
    let (one, two) = (Image::of("one"), Image::of("two"));
    shelf.remote.push(&one.digest(), &one).await.is(201);
    sign(&shelf.remote, &key, &one).await;
    let artifacts = format!("{}/artifacts", shelf.base);
    let body =
        json!({"repository": "base", "reference": one.digest(), "line": "edge", "labels": {"team": "ml"}});
    let made = shelf.admin.post_with_key(&artifacts, body.clone(), "once").await.ok();
    assert_eq!(
        (made.status, made.text_of("line").as_str(), made.text_of("state").as_str()),
        (201, "edge", "draft")
    );
    assert_eq!(
        (&made.body["labels"], &made.body["verdict"]["trust"]),
        (&json!({"team": "ml"}), &json!("trusted"))
    );
    assert_eq!(made.body["verdict"]["key_id"], json!(key_id));
    // The same key returns the same response; the same content again updates its properties while it is a draft.
    let again = shelf.admin.post_with_key(&artifacts, body, "once").await.ok();
    assert_eq!(again.body, made.body);
    let body = json!({"repository": "base", "reference": one.digest(), "line": "main"});
    let moved = shelf.admin.post(&artifacts, body).await.ok();
    assert_eq!((moved.text_of("id"), moved.text_of("line").as_str()), (made.text_of("id"), "main"));
    assert_eq!(moved.body["labels"], json!({"team": "ml"}), "labels that are not named stay");
    shelf.promote(&made.text_of("id"), "staged").await.ok();
    let body = json!({"repository": "base", "reference": one.digest(), "line": "edge"});
    let refused = shelf.admin.post(&artifacts, body).await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/line");
    assert_eq!(shelf.state(&made.text_of("id")).await, "staged", "to publish it again takes nothing from it");

    let refuse = async |repository: &str, reference: &str, pointer: &str| {
        let body = json!({"repository": repository, "reference": reference});
        let refused = shelf.admin.post(&artifacts, body).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], pointer, "{}", refused.text);
    };
    refuse("never", "v1", "/repository").await;
    refuse("base", "v1", "/reference").await;
    refuse("base", &two.digest(), "/reference").await;
    let speaks = shelf.remote.get(&format!("{{}}/referrers/{}", one.digest())).await.is(200).json();
    refuse("base", speaks["manifests"][0]["digest"].as_str().unwrap(), "/reference").await;
    let history = shelf.admin.get(&format!("{}/references", shelf.path(&made.text_of("id")))).await.ok().body;
    let states: Vec<_> =
        history["changes"].as_array().unwrap().iter().map(|change| change["after"].clone()).collect();
    assert_eq!(states, [json!("draft"), json!("staged")], "to publish it again is no change of state");
    shelf.kit.stop().await;
}

/// An artifact is not found in another project by any reference.
#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_is_found_in_its_own_project_alone() {
    let shelf = Shelf::new(Database::sqlite()).await;
    let id = shelf.pushed("one").await;
    let serve = format!("/v1/projects/{}/artifacts", shelf.fixture.id("serve"));
    let both = shelf.fixture.client(&shelf.kit, "tenant_admin");
    for reference in [id.as_str(), "base:one", &format!("base@{}", Image::of("one").digest())] {
        both.get(&format!("{serve}/{reference}")).await.refused(404, "not_found");
        both.get(&format!("{serve}/{reference}/references")).await.refused(404, "not_found");
        let step = json!({"to": "staged", "reason": "x"});
        both.post(&format!("{serve}/{reference}/promote"), step.clone()).await.refused(404, "not_found");
        both.post(&format!("{serve}/{reference}/demote"), step).await.refused(404, "not_found");
        both.post(&format!("{serve}/{reference}/verify"), json!({})).await.refused(404, "not_found");
        both.delete(&format!("{serve}/{reference}")).await.refused(404, "not_found");
    }
    for reference in ["base:two", "never:one", "base", &format!("base@{}", digest(b"x"))] {
        shelf.admin.get(&shelf.path(reference)).await.refused(404, "not_found");
    }
    shelf.kit.stop().await;
}
