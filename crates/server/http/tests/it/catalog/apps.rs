//! One catalog for all projects, and each project's view of it.

use muster_testkit::{Client, Database};
use serde_json::json;

use super::{Catalog, manifest};

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_made_shown_changed_and_removed() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        let body = json!({"slug": "notebook", "display_name": "Notebook", "labels": {"team": "ml"}});
        let made = catalog.admin.post(&catalog.at("train", "apps"), body).await.ok();
        assert_eq!(made.status, 201);
        assert_eq!((&made.body["audience"], &made.body["entitled"]), (&json!("project"), &json!(false)));
        let id = made.text_of("id");
        for reference in [id.as_str(), "notebook"] {
            let shown = catalog.admin.get(&catalog.at("train", &format!("apps/{reference}"))).await.ok();
            assert_eq!(shown.body, made.body);
        }
        let path = catalog.at("train", "apps/notebook");
        let changed = json!({"display_name": "Notebooks", "audience": "everyone", "labels": {}});
        let after = catalog.admin.patch(&path, changed).await.ok();
        assert_eq!((&after.body["display_name"], &after.body["version"]), (&json!("Notebooks"), &json!(2)));
        let stale = catalog.admin.request(reqwest::Method::PATCH, &path).header("if-match", "\"1\"");
        catalog.admin.send(stale.json(&json!({"description": "x"}))).await.refused(412, "version_mismatch");
        catalog.released("notebook", "1", &[]).await;
        let gone = catalog.admin.delete(&path).await.ok();
        assert_eq!(gone.body["removed"], json!({"app_versions": 1}));
        catalog.admin.get(&path).await.refused(404, "not_found");
        let told: Vec<String> =
            catalog.events(&catalog.admin, "train", &id).await.into_iter().map(|(word, _)| word).collect();
        assert_eq!(told, ["app.created", "app.updated", "app.deleted"]);
        assert_eq!(catalog.audited("acme", "app.update").await.len(), 2, "the refusal is in the audit too");
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slug_means_one_app_and_a_taken_one_says_no_more() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "project").await;
        let body = json!({"slug": "notebook", "display_name": "x"});
        let refused =
            catalog.stranger.post(&catalog.at("lab", "apps"), body).await.refused(409, "name_taken");
        assert!(refused.text.contains("possibly one you have no access to"), "{}", refused.text);
        assert!(!refused.text.contains("acme") && !refused.text.contains("train"), "{}", refused.text);
        // Of many concurrent requests, one succeeds.
        let path = catalog.at("train", "apps");
        let asks = (0..8).map(|n| {
            let body = json!({"slug": "race", "display_name": format!("{n}")});
            catalog.admin.post(&path, body)
        });
        let answers = futures::future::join_all(asks).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
        assert!(
            answers.iter().filter(|answer| answer.status != 201).all(|answer| answer.code() == "name_taken")
        );
        for slug in ["Notebook", "a b", "", "-a", "a-", "a/b"] {
            let body = json!({"slug": slug, "display_name": "x"});
            catalog.admin.post(&path, body).await.refused(400, "invalid_request");
        }
        catalog.kit.stop().await;
    }
}

/// Returns the slugs visible to a project.
async fn finds(catalog: &Catalog, client: &Client, project: &str, query: &str) -> Vec<String> {
    let page = client.get(&catalog.at(project, &format!("apps{query}"))).await.ok().body;
    page["items"].as_array().unwrap().iter().map(|app| app["slug"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn invisible_is_absent_word_for_word() {
    let catalog = Catalog::new(Database::sqlite()).await;
    for (slug, audience) in [("own", "project"), ("shared", "tenant"), ("public", "everyone")] {
        let id = catalog.offer(slug, audience).await;
        catalog.released(slug, "1", &[]).await;
        catalog.promote(slug, "1", "staged").await.ok();
        let seen = |client: &Client, project: &str| {
            let (client, path) = (client.clone(), catalog.at(project, "apps"));
            let references = [slug.to_owned(), id.clone()];
            async move {
                let mut all = Vec::new();
                for reference in references {
                    for rest in ["", "/versions", "/versions/1", "/compatibility"] {
                        let answer = client.get(&format!("{path}/{reference}{rest}")).await;
                        let absent =
                            client.get(&format!("{path}/nothing{rest}")).await.refused(404, "not_found");
                        if answer.status == 404 {
                            assert_eq!(answer.body["detail"], absent.body["detail"]);
                        }
                        all.push(answer.status == 200);
                    }
                    // An invisible app cannot be acted on either.
                    let step = json!({"to": "canary", "reason": "x"});
                    let refused = client.post(&format!("{path}/{reference}/versions/1/promote"), step).await;
                    let expected = if all.last() == Some(&true) { 403 } else { 404 };
                    assert_eq!(refused.status, expected, "{}", refused.text);
                }
                assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
                all[0]
            }
        };
        assert_eq!(seen(&catalog.sibling, "serve").await, audience != "project", "{slug}");
        assert_eq!(seen(&catalog.stranger, "lab").await, audience == "everyone", "{slug}");
    }
    assert_eq!(finds(&catalog, &catalog.admin, "train", "").await, ["own", "shared", "public"]);
    assert_eq!(finds(&catalog, &catalog.sibling, "serve", "").await, ["shared", "public"]);
    assert_eq!(finds(&catalog, &catalog.stranger, "lab", "").await, ["public"]);
    assert_eq!(finds(&catalog, &catalog.stranger, "lab", "?own=true").await, Vec::<String>::new());
    assert_eq!(finds(&catalog, &catalog.admin, "train", "?page_size=1").await, ["own"]);
    // Another tenant's project reveals nothing of the catalog.
    catalog.stranger.get(&catalog.at("train", "apps/public")).await.refused(404, "not_found");
    // Hidden again, it stays visible to projects that are entitled to it.
    catalog.grant(&catalog.stranger, "lab", "public").await;
    catalog.admin.patch(&catalog.at("train", "apps/public"), json!({"audience": "project"})).await.ok();
    assert_eq!(finds(&catalog, &catalog.sibling, "serve", "").await, ["shared"]);
    assert_eq!(finds(&catalog, &catalog.stranger, "lab", "").await, ["public"]);
    let shown = catalog.stranger.get(&catalog.at("lab", "apps/public")).await.ok();
    assert_eq!(shown.body["entitled"], json!(true));
    // A project that only finds an app cannot change it.
    let path = catalog.at("lab", "apps/public");
    catalog.stranger.patch(&path, json!({"description": "mine"})).await.refused(403, "permission_denied");
    catalog.stranger.delete(&path).await.refused(403, "permission_denied");
    let published = json!({"manifest": manifest("public", "2", &[])});
    catalog.stranger.post(&format!("{path}/versions"), published).await.refused(403, "permission_denied");
    catalog.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn app_in_use_cannot_be_removed() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "everyone").await;
        let version = catalog.released("notebook", "1", &[]).await;
        catalog.promote("notebook", "1", "staged").await.ok();
        let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
        let path = catalog.at("train", "apps/notebook");
        let refused = catalog.admin.delete(&path).await.refused(409, "invalid_state");
        assert!(refused.text.contains("1 projects are entitled"), "{}", refused.text);
        let instance = catalog.runs(&entitlement, &version, "mine").await;
        let revoke = format!("entitlements/{}/revoke", entitlement["id"].as_str().unwrap());
        catalog.stranger.post(&catalog.at("lab", &revoke), json!({})).await.ok();
        catalog.admin.delete(&path).await.refused(409, "invalid_state");
        catalog.stops(&instance).await;
        let refused = catalog.admin.delete(&path).await.refused(409, "invalid_state");
        assert!(refused.text.contains("1 instances of it are on record"), "{}", refused.text);
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_fits_is_answered_for_each_shape_with_reasons_and_a_change() {
    let catalog = Catalog::new(Database::sqlite()).await;
    catalog.offer("flat", "everyone").await;
    let path = catalog.at("train", "apps/flat/compatibility");
    catalog.admin.get(&path).await.refused(409, "invalid_state");
    let mut document = manifest("flat", "1", &[]);
    document["components"][0]["reach"] = json!("flat");
    document["components"][0]["count"] = json!({"min": 1, "max": 8, "default": 2});
    catalog.publish("flat", document).await.ok();
    let answer = catalog.admin.get(&path).await.ok().body;
    assert_eq!(answer["version"], json!("1"));
    let answers = answer["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 2);
    let of = |shape: &str| answers.iter().find(|answer| answer["shape"] == shape).unwrap().clone();
    assert_eq!(of("baremetal")["fits"], json!(true));
    let slices = of("gpu_slice");
    assert_eq!(slices["fits"], json!(false));
    assert!(!slices["reasons"].as_array().unwrap().is_empty() && slices["change"].is_string(), "{slices:#}");
    // In one allocation they need no network across nodes.
    let together = catalog.admin.get(&format!("{path}?shape=gpu_slice&allocations=1")).await.ok().body;
    assert_eq!(together["answers"][0]["fits"], json!(true), "{together:#}");
    let one = catalog.admin.get(&format!("{path}?shape=gpu_slice&components=worker=1&version=1")).await.ok();
    assert_eq!(one.body["answers"][0]["fits"], json!(true));
    for wrong in
        ["components=worker", "components=queen=1", "components=worker=x", "components=worker=1,worker=2"]
    {
        let refused = catalog.admin.get(&format!("{path}?{wrong}")).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], json!("query/components"));
    }
    catalog.admin.get(&format!("{path}?version=9")).await.refused(404, "not_found");
    let schema = catalog.stranger.get("/v1/manifest-schema").await.ok().body;
    assert!(schema["schema"]["properties"]["components"].is_object(), "{schema:#}");
    catalog.kit.stop().await;
}
