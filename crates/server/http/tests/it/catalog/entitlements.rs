//! Entitlements: the right to launch an app, and the consent to its permissions.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Catalog, manifest};

const CONTRACT: [&str; 12] = [
    "adapter_step.complete",
    "adapter_step.fail",
    "adapter_step.get",
    "adapter_step.heartbeat",
    "adapter_step.lease",
    "adapter_step.list",
    "adapter_step.progress",
    "adapter_task.create",
    "adapter_task.get",
    "instance.get",
    "member.get",
    "member.list",
];

/// Returns the contract's permissions and these, sorted.
fn asked(more: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = CONTRACT.iter().chain(more).map(|word| (*word).to_owned()).collect();
    all.sort();
    all
}

/// Publishes a release that requests these permissions, promoted to `to`.
async fn asking(catalog: &Catalog, version: &str, permissions: &[&str], to: &str) {
    let mut document = manifest("notebook", version, &[]);
    document["permissions"] = json!(permissions);
    catalog.publish("notebook", document).await.ok();
    catalog.brought("notebook", version, to).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_is_to_exactly_what_is_asked_for_and_makes_exactly_that_account() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "everyone").await;
        let path = catalog.at("lab", "entitlements");
        let grant = async |body: Value| catalog.stranger.post(&path, body).await;
        grant(json!({"app": "notebook", "dry_run": true})).await.refused(409, "invalid_state");
        grant(json!({"app": "absent", "dry_run": true})).await.refused(404, "not_found");
        asking(&catalog, "1", &["runtime_secret.issue", "runtime_secret.cluster_bootstrap"], "active").await;
        let dry = grant(json!({"app": "notebook", "dry_run": true})).await.ok();
        let wanted = asked(&["runtime_secret.issue", "runtime_secret.cluster_bootstrap"]);
        assert_eq!(dry.body, json!({"permissions": wanted}));
        let list = catalog.stranger.get(&path).await.ok();
        assert_eq!(list.body["items"], json!([]), "a dry run keeps nothing");
        // Too few, too many and no permissions are refused, each with its location and the list.
        let less = &wanted[1..];
        let refused =
            grant(json!({"app": "notebook", "consent": less})).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], json!("/consent"));
        assert!(refused.text.contains(&wanted[0]), "{}", refused.text);
        let mut more = wanted.clone();
        more.push("allocation.create".to_owned());
        let refused =
            grant(json!({"app": "notebook", "consent": more})).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], json!(format!("/consent/{}", wanted.len())));
        grant(json!({"app": "notebook"})).await.refused(400, "invalid_request");
        let granted = grant(json!({"app": "notebook", "consent": wanted})).await.ok();
        assert_eq!(granted.status, 201);
        let entitlement = &granted.body["entitlement"];
        assert_eq!((&entitlement["app"], &entitlement["permissions"]), (&json!("notebook"), &json!(wanted)));
        let account = entitlement["operator_account_id"].as_str().unwrap();
        let account =
            catalog.stranger.get(&catalog.at("lab", &format!("service-accounts/{account}"))).await.ok().body;
        assert_eq!((&account["name"], &account["permissions"]), (&json!("app-notebook"), &json!(wanted)));
        assert_eq!(account["disabled"], json!(false));
        assert_eq!(
            catalog.stranger.get(&catalog.at("lab", "apps/notebook")).await.ok().body["entitled"],
            json!(true)
        );
        // Only the two parties find it.
        let id = entitlement["id"].as_str().unwrap();
        catalog.stranger.get(&format!("{path}/{id}")).await.ok();
        catalog.admin.get(&catalog.at("train", &format!("entitlements/{id}"))).await.ok();
        catalog
            .sibling
            .get(&catalog.at("serve", &format!("entitlements/{id}")))
            .await
            .refused(404, "not_found");
        let published =
            catalog.admin.get(&catalog.at("train", "entitlements?published=true")).await.ok().body;
        assert_eq!(published["items"], json!([entitlement]));
        assert_eq!(
            catalog.admin.get(&catalog.at("train", "entitlements")).await.ok().body["items"],
            json!([])
        );
        let (word, data) = catalog.events(&catalog.stranger, "lab", id).await.pop().unwrap();
        assert_eq!((word.as_str(), &data["permissions"]), ("entitlement.granted", &json!(wanted)));
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_release_that_asks_for_more_changes_nothing_until_it_is_consented_to() {
    let catalog = Catalog::new(Database::sqlite()).await;
    catalog.offer("notebook", "everyone").await;
    asking(&catalog, "1", &[], "active").await;
    let first = catalog.grant(&catalog.stranger, "lab", "notebook").await;
    assert_eq!(first["permissions"], json!(asked(&[])));
    asking(&catalog, "2", &["member.drain"], "active").await;
    let path = catalog.at("lab", &format!("entitlements/{}", first["id"].as_str().unwrap()));
    assert_eq!(catalog.stranger.get(&path).await.ok().body, first);
    let again = catalog.grant(&catalog.stranger, "lab", "notebook").await;
    assert_eq!((&again["id"], &again["permissions"]), (&first["id"], &json!(asked(&["member.drain"]))));
    assert_eq!(again["operator_account_id"], first["operator_account_id"]);
    let account = catalog.at("lab", "service-accounts/app-notebook");
    assert_eq!(catalog.stranger.get(&account).await.ok().body["permissions"], again["permissions"]);
    // In the publisher's own project it works the same way.
    let own = catalog.grant(&catalog.admin, "train", "notebook").await;
    assert_ne!(own["id"], first["id"]);
    catalog.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_account_is_not_changed_by_hand() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "everyone").await;
        asking(&catalog, "1", &[], "active").await;
        let version = catalog.shown("notebook", "1").await["id"].as_str().unwrap().to_owned();
        let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
        let account = catalog.at("lab", "service-accounts/app-notebook");
        let held = async || {
            let change = json!({"permissions": ["project.get"]});
            let refused = catalog.stranger.patch(&account, change).await.refused(409, "invalid_state");
            assert!(refused.text.contains("notebook"), "{}", refused.text);
            catalog.stranger.patch(&account, json!({"disabled": true})).await.refused(409, "invalid_state");
            catalog.stranger.delete(&account).await.refused(409, "invalid_state");
        };
        held().await;
        let instance = catalog.runs(&entitlement, &version, "mine").await;
        let revoke =
            catalog.at("lab", &format!("entitlements/{}/revoke", entitlement["id"].as_str().unwrap()));
        let revoked = catalog.stranger.post(&revoke, json!({})).await.ok();
        assert!(revoked.body["revoked_at"].is_string());
        catalog.stranger.post(&revoke, json!({})).await.refused(409, "invalid_state");
        // Running instances stay operable.
        held().await;
        assert_eq!(catalog.stranger.get(&account).await.ok().body["disabled"], json!(false));
        assert_eq!(
            catalog.stranger.get(&catalog.at("lab", "apps/notebook")).await.ok().body["entitled"],
            json!(false)
        );
        catalog.stops(&instance).await;
        let refused = catalog.stranger.delete(&account).await.refused(409, "invalid_state");
        assert!(refused.text.contains("on record"), "{}", refused.text);
        // A renewed grant is the same entitlement and the same account.
        let again = catalog.grant(&catalog.stranger, "lab", "notebook").await;
        assert_eq!(
            (&again["id"], &again["operator_account_id"]),
            (&entitlement["id"], &entitlement["operator_account_id"])
        );
        assert!(again["revoked_at"].is_null());
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_entitlement_without_instances_shuts_its_account_out_and_can_go_with_it() {
    let catalog = Catalog::new(Database::sqlite()).await;
    catalog.offer("notebook", "everyone").await;
    asking(&catalog, "1", &[], "active").await;
    let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
    let id = entitlement["id"].as_str().unwrap();
    // Only its holder can revoke it.
    let theirs = format!("entitlements/{id}/revoke");
    catalog.admin.post(&catalog.at("train", &theirs), json!({})).await.refused(404, "not_found");
    catalog.stranger.post(&catalog.at("lab", &theirs), json!({})).await.ok();
    let account = catalog.at("lab", "service-accounts/app-notebook");
    assert_eq!(catalog.stranger.get(&account).await.ok().body["disabled"], json!(true));
    let gone = catalog.stranger.delete(&account).await.ok();
    assert_eq!(gone.body["removed"], json!({"entitlements": 1}));
    catalog.stranger.get(&catalog.at("lab", &format!("entitlements/{id}"))).await.refused(404, "not_found");
    // A manually created account with the operator's name is not taken over.
    let body = json!({"name": "app-notebook", "permissions": []});
    catalog.stranger.post(&catalog.at("lab", "service-accounts"), body).await.ok();
    let consent = json!({"app": "notebook", "consent": asked(&[])});
    let refused =
        catalog.stranger.post(&catalog.at("lab", "entitlements"), consent).await.refused(409, "name_taken");
    assert!(refused.text.contains("app-notebook"), "{}", refused.text);
    catalog.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_grant_at_once_one_entitlement_comes() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        catalog.offer("notebook", "everyone").await;
        asking(&catalog, "1", &[], "active").await;
        let path = catalog.at("lab", "entitlements");
        let asks =
            (0..6).map(|_| catalog.stranger.post(&path, json!({"app": "notebook", "consent": asked(&[])})));
        let answers = futures::future::join_all(asks).await;
        assert!(answers.iter().any(|answer| answer.status == 201));
        for refused in answers.iter().filter(|answer| answer.status != 201) {
            assert!(["invalid_state", "name_taken"].contains(&refused.code()), "{}", refused.text);
        }
        let list = catalog.stranger.get(&path).await.ok().body;
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_instances_ends_by_its_bytes() {
    let catalog = Catalog::new(Database::sqlite()).await;
    catalog.offer("notebook", "everyone").await;
    asking(&catalog, "1", &[], "active").await;
    let version = catalog.shown("notebook", "1").await["id"].as_str().unwrap().to_owned();
    let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
    for at in 0..75 {
        let config = json!({"text": "x".repeat(60_000)});
        catalog.runs_with(&entitlement, &version, &format!("i{at}"), config).await;
    }
    let list = catalog.at("lab", "app-instances?page_size=200");
    let first = catalog.stranger.get(&list).await.ok();
    assert!(first.text.len() < 5 << 20, "{} bytes", first.text.len());
    let token = first.body["next_page_token"].as_str().expect("a second page");
    let rest = catalog.stranger.get(&format!("{list}&page_token={token}")).await.ok();
    let count = |page: &Value| page["items"].as_array().unwrap().len();
    assert_eq!(count(&first.body) + count(&rest.body), 75);
    assert!(rest.body["next_page_token"].is_null());
    catalog.kit.stop().await;
}
