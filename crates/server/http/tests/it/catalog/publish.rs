//! A release gets all lint findings at once, and is immutable after publication.

use muster_testkit::Database;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Catalog, manifest};
use crate::registry::Image;

/// Returns rule by location from a problem.
fn told(body: &Value) -> Vec<(String, String)> {
    let errors = body["errors"].as_array().unwrap();
    let word = |error: &Value| error["detail"].as_str().unwrap().split(':').next().unwrap().to_owned();
    errors.iter().map(|error| (error["pointer"].as_str().unwrap().to_owned(), word(error))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_published_and_never_changes() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "everyone").await;
        catalog.image("one", None).await;
        let document = manifest("notebook", "1.0", &["one"]);
        let published = catalog.publish("notebook", document.clone()).await.ok();
        assert_eq!(published.status, 201);
        let version = published.body["app_version"].clone();
        assert_eq!((&version["state"], &version["name"]), (&json!("draft"), &json!("1.0")));
        assert_eq!((&version["manifest"], &version["instances"]), (&document, &json!(0)));
        let id = version["id"].as_str().unwrap();
        for reference in [id, "1.0"] {
            assert_eq!(catalog.shown("notebook", reference).await, version);
        }
        // The digest can be recomputed from the document: members sorted by name, without whitespace.
        let text = sorted(&document);
        let hex: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(version["digest"], json!(format!("sha256:{hex}")));
        // The same name again is refused, regardless of its content.
        let refused = catalog.publish("notebook", document).await.refused(409, "lint_failed");
        assert_eq!(told(&refused.body)[0], ("/manifest/version".to_owned(), "version_taken".to_owned()));
        // Drafts are only visible to the publisher.
        catalog
            .stranger
            .get(&catalog.at("lab", "apps/notebook/versions/1.0"))
            .await
            .refused(404, "not_found");
        let list = catalog.stranger.get(&catalog.at("lab", "apps/notebook/versions")).await.ok();
        assert_eq!(list.body["items"], json!([]));
        catalog.artifact("one", "promote", "staged").await.ok();
        catalog.promote("notebook", "1.0", "staged").await.ok();
        let list = catalog.stranger.get(&catalog.at("lab", "apps/notebook/versions")).await.ok();
        assert_eq!(list.body["items"].as_array().unwrap().len(), 1);
        let words: Vec<String> =
            catalog.events(&catalog.admin, "train", id).await.into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, ["app_version.published", "app_version.promoted"]);
        catalog.kit.stop().await;
    }
}

/// Returns the text of a document with the members of every object sorted by name.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let ordered: std::collections::BTreeMap<_, _> = object.iter().collect();
            let members: Vec<String> = ordered
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json!(name), sorted(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        plain => plain.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_reports_every_fault_at_once_and_stores_nothing() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "project").await;
        catalog.image("there", None).await;
        let mut document = manifest("other", "1", &["there", "absent"]);
        document["artifacts"][0]["repository"] = json!("nowhere");
        document["permissions"] = json!(["operator_token.mint", "no.such"]);
        document["surprise"] = json!(1);
        let refused = catalog.publish("notebook", document.clone()).await.refused(409, "lint_failed");
        let told = told(&refused.body);
        for (pointer, rule) in [
            ("/manifest/app", "wrong_app"),
            ("/manifest/artifacts/0/repository", "no_repository"),
            ("/manifest/artifacts/1/digest", "no_artifact"),
        ] {
            assert!(told.contains(&(pointer.to_owned(), rule.to_owned())), "{rule} in {told:?}");
        }
        for place in ["/manifest/permissions/0", "/manifest/permissions/1"] {
            assert!(told.iter().any(|(pointer, _)| pointer == place), "{place} in {told:?}");
        }
        assert!(refused.text.contains("surprise"), "{}", refused.text);
        // A dry run returns the same findings as a response, and stores nothing either.
        let path = catalog.at("train", "apps/notebook/versions");
        let dry = catalog.admin.post(&path, json!({"manifest": document, "dry_run": true})).await.ok();
        let faults = dry.body["faults"].as_array().unwrap();
        assert_eq!(faults.len(), told.len());
        assert!(faults.iter().any(|fault| fault["path"] == "/artifacts/1/digest" && fault["error"] == true));
        assert!(dry.body["app_version"].is_null());
        let right = json!({"manifest": manifest("notebook", "1", &["there"]), "dry_run": true});
        let dry = catalog.admin.post(&path, right).await.ok();
        let errors =
            |body: &Value| body["faults"].as_array().unwrap().iter().any(|fault| fault["error"] == true);
        assert!(!errors(&dry.body), "{:#}", dry.body);
        assert_eq!(catalog.admin.get(&path).await.ok().body["items"], json!([]));
        for nonsense in
            [json!({}), json!({"artifacts": 7}), json!({"artifacts": [7, {"digest": 1}], "app": []})]
        {
            catalog.publish("notebook", nonsense).await.refused(409, "lint_failed");
        }
        catalog.admin.post(&path, json!({"manifest": []})).await.refused(400, "invalid_request");
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_that_is_out_of_use_or_of_another_project_makes_no_release() {
    let catalog = Catalog::new(Database::sqlite()).await;
    catalog.rules(json!({"unsigned_up_to": "active", "grace_hours": 0})).await;
    catalog.offer("notebook", "project").await;
    catalog.image("old", Some("active")).await;
    catalog.artifact("old", "demote", "deprecated").await.ok();
    let refused =
        catalog.publish("notebook", manifest("notebook", "1", &["old"])).await.refused(409, "lint_failed");
    assert_eq!(
        told(&refused.body)[0],
        ("/manifest/artifacts/0/digest".to_owned(), "artifact_out_of_use".to_owned())
    );
    // The same content in a sibling's repository of the same name does not belong to the publisher.
    let sibling = catalog.fixture.token("sibling_project_admin");
    let theirs = crate::registry::Remote::new(&catalog.kit, 0, sibling, "acme.serve/base");
    theirs.push("theirs", &Image::of("theirs")).await.is(201);
    let refused = catalog.publish("notebook", manifest("notebook", "1", &["theirs"])).await;
    assert_eq!(told(&refused.refused(409, "lint_failed").body)[0].1, "no_artifact");
    catalog.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_publish_a_name_at_once_one_does() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "project").await;
        let asks = (0..6).map(|_| catalog.publish("notebook", manifest("notebook", "1", &[])));
        let answers = futures::future::join_all(asks).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
        for refused in answers.iter().filter(|answer| answer.status != 201) {
            assert!(["name_taken", "lint_failed"].contains(&refused.code()), "{}", refused.text);
        }
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_releases_ends_by_its_bytes() {
    let catalog = Catalog::new(Database::sqlite()).await;
    catalog.offer("notebook", "everyone").await;
    for at in 0..75 {
        let mut document = manifest("notebook", &format!("{at}.0"), &[]);
        document["config_schema"] = json!({"type": "object", "description": "x".repeat(60_000)});
        catalog.publish("notebook", document).await.ok();
    }
    let list = catalog.at("train", "apps/notebook/versions");
    let mut names = Vec::new();
    let mut token = String::new();
    let mut pages = 0;
    loop {
        let page = catalog.admin.get(&format!("{list}?page_size=200{token}")).await.ok();
        assert!(page.text.len() < 5 << 20, "{} bytes", page.text.len());
        let items = page.body["items"].as_array().unwrap();
        names.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        pages += 1;
        match page.body["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(pages, 2);
    let all: Vec<String> = (0..75).map(|at| format!("{at}.0")).collect();
    assert_eq!(names, all, "none is missing and none comes twice");
    let short = catalog.admin.get(&format!("{list}?page_size=3")).await.ok();
    assert_eq!(short.body["items"].as_array().unwrap().len(), 3);
    assert!(short.body["next_page_token"].is_string());
    catalog.kit.stop().await;
}
