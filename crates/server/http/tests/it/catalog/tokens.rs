//! Operator tokens: short-lived, only for the publisher's own apps, and audited on both sides.

use jiff::Timestamp;
use muster_testkit::{Client, Database};
use serde_json::json;

use super::Catalog;

/// The publisher's adapter: an account of `acme.train` with or without the permission to mint.
async fn adapter(catalog: &Catalog, name: &str, permissions: &[&str]) -> Client {
    let admin = &catalog.admin;
    let body = json!({"name": name, "permissions": permissions});
    let account = admin.post(&catalog.at("train", "service-accounts"), body).await.ok().text_of("id");
    let token = admin.post("/v1/tokens", json!({"service_account": account, "name": "adapter"})).await.ok();
    catalog.kit.client_of(0, &token.text_of("secret"))
}

async fn offered(catalog: &Catalog) {
    catalog.offer("notebook", "everyone").await;
    catalog.released("notebook", "1", &[]).await;
    catalog.brought("notebook", "1", "active").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minted_token_lives_shortly_opens_the_consumers_project_and_is_told_on_both_sides() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        offered(&catalog).await;
        let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
        let adapter = adapter(&catalog, "adapter", &["operator_token.mint"]).await;
        let path = catalog.at("train", "operator-tokens");
        let body = json!({"entitlement": entitlement["id"]});
        let minted = adapter.post_with_key(&path, body.clone(), "once").await.ok();
        assert_eq!(minted.status, 201);
        assert_eq!(minted.body["service_account_id"], entitlement["operator_account_id"]);
        assert_eq!(
            (&minted.body["kind"], &minted.body["name"]),
            (&json!("service_account"), &json!("minted by adapter"))
        );
        let time = |member: &str| minted.text_of(member).parse::<Timestamp>().unwrap();
        let lives = time("expires_at").as_second() - time("created_at").as_second();
        assert_eq!(lives, 900);
        // The secret is shown once: a repeat returns the same token without it.
        let again = adapter.post_with_key(&path, body, "once").await.ok();
        assert_eq!((&again.body["id"], &again.body["secret_shown_once"]), (&minted.body["id"], &json!(true)));
        assert!(again.body["secret"].is_null());
        // It opens the consumer's project, within the consent, and no other.
        let operator = catalog.kit.client_of(0, &minted.text_of("secret"));
        let me = operator.get("/v1/whoami").await.ok().body;
        assert!(me.to_string().contains(entitlement["operator_account_id"].as_str().unwrap()), "{me:#}");
        operator.get(&catalog.at("lab", "apps")).await.refused(403, "permission_denied");
        operator.get(&catalog.at("train", "apps")).await.refused(404, "not_found");
        // It cannot extend its own lifetime, and no longer one can be created by hand.
        let token = minted.text_of("id");
        let longer = json!({"expires_in_seconds": 86400});
        let refused = operator
            .post(&format!("/v1/tokens/{token}/rotate"), longer.clone())
            .await
            .refused(409, "invalid_state");
        assert!(refused.text.contains("15 minutes"), "{}", refused.text);
        catalog
            .stranger
            .post(&format!("/v1/tokens/{token}/rotate"), longer)
            .await
            .refused(409, "invalid_state");
        let by_hand = json!({"service_account": entitlement["operator_account_id"], "name": "mine"});
        catalog.stranger.post("/v1/tokens", by_hand).await.refused(409, "invalid_state");
        let too_long = json!({"entitlement": entitlement["id"], "expires_in_seconds": 901});
        adapter.post(&path, too_long).await.refused(400, "invalid_request");
        // Both chains have it, with the same correlation id, and neither has the secret.
        let thread = minted.header("x-correlation-id").to_owned();
        for (tenant, project, client) in
            [("acme", "train", &catalog.admin), ("globex", "lab", &catalog.stranger)]
        {
            let records = catalog.audited(tenant, "operator_token.mint").await;
            let of_it: Vec<_> = records
                .iter()
                .filter(|record| {
                    record["correlation_id"] == json!(thread) && record["outcome"] == "succeeded"
                })
                .collect();
            assert_eq!(of_it.len(), 1, "{tenant}: {records:#?}");
            assert_eq!(of_it[0]["project_id"], json!(catalog.fixture.id(project)));
            assert_eq!(of_it[0]["actor"]["name"], json!("adapter"));
            assert_eq!(of_it[0]["detail"]["entitlement_id"], entitlement["id"]);
            assert!(!of_it[0].to_string().contains(&minted.text_of("secret")));
            let events = catalog.events(client, project, &token).await;
            assert_eq!(events.len(), 1, "{tenant}");
            assert_eq!(events[0].0, "operator_token.minted");
        }
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn minting_for_another_projects_app_or_without_permission_is_refused() {
    let catalog = Catalog::new(Database::sqlite()).await;
    offered(&catalog).await;
    let body = json!({"slug": "theirs", "display_name": "x", "audience": "everyone"});
    catalog.stranger.post(&catalog.at("lab", "apps"), body).await.ok();
    let manifest = json!({"manifest": super::manifest("theirs", "1", &[])});
    catalog.stranger.post(&catalog.at("lab", "apps/theirs/versions"), manifest).await.ok();
    let step = json!({"to": "staged", "reason": "x"});
    catalog.stranger.post(&catalog.at("lab", "apps/theirs/versions/1/promote"), step).await.ok();
    let ours = catalog.grant(&catalog.sibling, "serve", "notebook").await;
    let theirs = catalog.grant(&catalog.sibling, "serve", "theirs").await;
    let minting = adapter(&catalog, "adapter", &["operator_token.mint"]).await;
    let path = catalog.at("train", "operator-tokens");
    let mint =
        async |client: &Client, id: &serde_json::Value| client.post(&path, json!({"entitlement": id})).await;
    mint(&minting, &ours["id"]).await.ok();
    // An entitlement to another project's app does not exist, just like an unknown id.
    let refused = mint(&minting, &theirs["id"]).await.refused(404, "not_found");
    let absent = mint(&minting, &json!("ent_01h455vb4pex5vsknk084sn02q")).await.refused(404, "not_found");
    assert_eq!(refused.body["detail"], absent.body["detail"]);
    mint(&minting, &json!("notebook")).await.refused(404, "not_found");
    // The consumer's own project has nothing to mint for them.
    let at_home = catalog.at("serve", "operator-tokens");
    minting.post(&at_home, json!({"entitlement": ours["id"]})).await.refused(404, "not_found");
    // No person can mint, and no account without the permission.
    mint(&catalog.admin, &ours["id"]).await.refused(403, "permission_denied");
    let without = adapter(&catalog, "without", &["app.get"]).await;
    mint(&without, &ours["id"]).await.refused(403, "permission_denied");
    catalog.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_ends_every_token_unless_something_still_runs() {
    for database in Database::both() {
        let catalog = Catalog::new(database).await;
        offered(&catalog).await;
        let version = catalog.shown("notebook", "1").await["id"].as_str().unwrap().to_owned();
        let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
        let adapter = adapter(&catalog, "adapter", &["operator_token.mint"]).await;
        let path = catalog.at("train", "operator-tokens");
        let mint = async || adapter.post(&path, json!({"entitlement": entitlement["id"]})).await;
        let revoke =
            catalog.at("lab", &format!("entitlements/{}/revoke", entitlement["id"].as_str().unwrap()));
        let instance = catalog.runs(&entitlement, &version, "mine").await;
        catalog.stranger.post(&revoke, json!({})).await.ok();
        // A running instance must be operable until it is decommissioned.
        let operator = catalog.kit.client_of(0, &mint().await.ok().text_of("secret"));
        operator.get("/v1/whoami").await.ok();
        catalog.stops(&instance).await;
        let refused = mint().await.refused(409, "invalid_state");
        assert!(refused.text.contains("revoked"), "{}", refused.text);
        // Granted and revoked with no instance running: the tokens end with it.
        catalog.grant(&catalog.stranger, "lab", "notebook").await;
        let operator = catalog.kit.client_of(0, &mint().await.ok().text_of("secret"));
        operator.get("/v1/whoami").await.ok();
        catalog.stranger.post(&revoke, json!({})).await.ok();
        operator.get("/v1/whoami").await.refused(401, "unauthenticated");
        mint().await.refused(409, "invalid_state");
        catalog.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adapters_are_listed_where_they_work() {
    let catalog = Catalog::new(Database::sqlite()).await;
    offered(&catalog).await;
    let entitlement = catalog.grant(&catalog.stranger, "lab", "notebook").await;
    let env = muster_ids::Env::system();
    let id = |member: &str| entitlement[member].as_str().unwrap();
    let adapter = muster_model::adapter::Adapter {
        id: env.id(),
        tenant_id: id("tenant_id").parse().unwrap(),
        project_id: id("project_id").parse().unwrap(),
        service_account_id: id("operator_account_id").parse().unwrap(),
        name: "one".to_owned(),
        adapter_version: "0.1.0".to_owned(),
        contract_version: 1,
        created_at: env.now(),
        seen_at: env.now(),
    };
    let mut tx = catalog.kit.store().begin().await.unwrap();
    tx.adapter_seen(&adapter).await.unwrap();
    tx.commit().await.unwrap();
    let listed = catalog.stranger.get(&catalog.at("lab", "adapters")).await.ok().body;
    let one = &listed["items"][0];
    assert_eq!(
        (&one["name"], &one["leases"], &one["contract_version"]),
        (&json!("one"), &json!(0), &json!(1))
    );
    assert_eq!(one["service_account_id"], entitlement["operator_account_id"]);
    assert_eq!(catalog.admin.get(&catalog.at("train", "adapters")).await.ok().body["items"], json!([]));
    catalog.kit.stop().await;
}
