//! People, accounts, tokens and sessions: what ends, ends; nobody rises above themselves.

use std::time::{Duration, Instant};

use muster_testkit::{Client, Database, Fixture, Kit};
use reqwest::Method;
use serde_json::json;

async fn dead_within_five_seconds(client: &Client) {
    let started = Instant::now();
    while client.get("/v1/whoami").await.status == 200 {
        assert!(started.elapsed() < Duration::from_secs(5), "the credential still works");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    client.get("/v1/whoami").await.refused(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_rotates_with_an_overlap_and_both_work_meanwhile() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "project_admin");
    let id = fixture.id("account_with_grant_token");
    let old = kit.client_of(1, fixture.token("account_with_grant"));
    old.get("/v1/whoami").await.ok();
    let fresh = admin.post(&format!("/v1/tokens/{id}/rotate"), json!({"overlap_seconds": 2})).await.ok();
    let new = kit.client_of(1, &fresh.text_of("secret"));
    new.get("/v1/whoami").await.ok();
    old.get("/v1/whoami").await.ok();
    dead_within_five_seconds(&old).await;
    new.get("/v1/whoami").await.ok();
    // A token that has ended cannot be rotated; nobody rotates another person's.
    admin.post(&format!("/v1/tokens/{id}/rotate"), json!({})).await.refused(409, "invalid_state");
    let tenant_admin = fixture.client(&kit, "tenant_admin");
    let path = format!("/v1/tokens/{}/rotate", fixture.id("bystander_token"));
    tenant_admin.post(&path, json!({})).await.refused(403, "permission_denied");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_use_is_noted_to_the_minute() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    fixture.client(&kit, "account_with_grant").get("/v1/whoami").await.ok();
    kit.servers[0].platform.note_used_tokens().await.unwrap();
    let token =
        kit.operator().get(&format!("/v1/tokens/{}", fixture.id("account_with_grant_token"))).await.ok();
    assert!(token.body["last_used_at"].is_string());
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_derived_from_a_person_ends_with_password_disabling_or_removal() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");
    let elsewhere = |actor: &str| kit.client_of(1, fixture.token(actor));

    let viewer = elsewhere("viewer");
    viewer.get("/v1/whoami").await.ok();
    let path = format!("/v1/users/{}/set-password", fixture.id("viewer"));
    admin.post(&path, json!({"password": "a long enough one"})).await.ok();
    dead_within_five_seconds(&viewer).await;

    let disabled = elsewhere("sibling_project_admin");
    disabled.get("/v1/whoami").await.ok();
    let path = format!("/v1/users/{}", fixture.id("sibling_project_admin"));
    admin.patch(&path, json!({"disabled": true})).await.ok();
    dead_within_five_seconds(&disabled).await;

    let removed = elsewhere("project_admin");
    removed.get("/v1/whoami").await.ok();
    let answer = admin.delete(&format!("/v1/users/{}", fixture.id("project_admin"))).await.ok();
    assert_eq!(answer.body["removed"], json!({"role_bindings": 1, "tokens": 1}));
    dead_within_five_seconds(&removed).await;

    let account = elsewhere("account_with_grant");
    account.get("/v1/whoami").await.ok();
    let path =
        format!("/v1/projects/{}/service-accounts/{}", fixture.id("train"), fixture.id("account_with_grant"));
    admin.patch(&path, json!({"disabled": true})).await.ok();
    dead_within_five_seconds(&account).await;
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_tenant_needs_cascade_and_takes_everything() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let operator = kit.operator();
        let refused = operator.delete("/v1/tenants/acme").await.refused(409, "not_empty");
        assert!(refused.body["detail"].as_str().unwrap().contains("2 projects"), "{}", refused.text);
        fixture.client(&kit, "viewer").get("/v1/whoami").await.ok();
        let removed = operator.delete("/v1/tenants/acme?cascade=true").await.ok();
        assert_eq!(removed.body["removed"]["projects"], 2);
        assert_eq!(removed.body["removed"]["service_accounts"], 3);
        for actor in ["viewer", "tenant_admin", "account_with_grant"] {
            fixture.client(&kit, actor).get("/v1/whoami").await.refused(401, "unauthenticated");
        }
        operator.get("/v1/tenants/acme").await.refused(404, "not_found");
        fixture.client(&kit, "other_tenant_admin").get("/v1/tenants/globex").await.ok();
        // What happened stays written, although the tenant is gone.
        kit.sealed().await;
        let head = kit.store().audit_head(fixture.id("acme")).await.unwrap();
        assert!(head.sequence > 10);
        let kept =
            operator.get(&format!("/v1/audit?tenant={}&action=tenant.delete", fixture.id("acme"))).await.ok();
        assert_eq!(kept.body["items"][0]["record"]["target"]["name"], "acme");
        let other = fixture.client(&kit, "other_tenant_admin");
        other.get(&format!("/v1/audit?tenant={}", fixture.id("acme"))).await.refused(404, "not_found");
        // The name is free again.
        operator.post("/v1/tenants", json!({"slug": "acme"})).await.ok();
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_rises_above_themselves() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "project_admin");
    let me = "project_admin@acme.example";
    for binding in [
        json!({"user": me, "role": "tenant_admin", "tenant": "acme"}),
        json!({"user": me, "role": "platform_operator"}),
    ] {
        admin.post("/v1/role-bindings", binding).await.refused(403, "permission_denied");
    }
    let elsewhere = json!({"user": me, "role": "project_admin", "project": "acme.serve"});
    admin.post("/v1/role-bindings", elsewhere).await.refused(404, "not_found");
    // A role is bound at its own level, to people of the tenant.
    let tenant_admin = fixture.client(&kit, "tenant_admin");
    let odd = json!({"user": me, "role": "project_admin", "tenant": "acme"});
    tenant_admin.post("/v1/role-bindings", odd).await.refused(400, "invalid_request");
    let stranger =
        json!({"user": "other_tenant_admin@globex.example", "role": "tenant_admin", "tenant": "acme"});
    tenant_admin.post("/v1/role-bindings", stranger).await.refused(400, "invalid_request");
    let operator = json!({"user": "operator@localhost", "role": "tenant_admin", "tenant": "acme"});
    tenant_admin.post("/v1/role-bindings", operator).await.refused(400, "invalid_request");
    // An allow list names what exists, what can be given, and what its giver has.
    let path = format!("/v1/projects/{}/service-accounts", fixture.id("train"));
    for (permission, status) in [("no.such", 400), ("service_account.create", 400), ("tenant.delete", 400)] {
        let made = admin.post(&path, json!({"name": "x", "permissions": [permission]})).await;
        assert_eq!(made.status, status, "{permission}: {}", made.text);
    }
    // A service account cannot touch its own allow list, nor make itself another token.
    let account = fixture.client(&kit, "account_with_grant");
    let own = format!("{path}/{}", fixture.id("account_with_grant"));
    account.patch(&own, json!({"permissions": ["project.get"]})).await.refused(403, "permission_denied");
    account.post("/v1/tokens", json!({"name": "second"})).await.refused(403, "permission_denied");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_operator_stays() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let operator = kit.operator();
        let me = operator.get("/v1/whoami").await.ok().text_of("id");
        operator.delete(&format!("/v1/users/{me}")).await.refused(409, "last_operator");
        operator
            .patch(&format!("/v1/users/{me}"), json!({"disabled": true}))
            .await
            .refused(409, "last_operator");
        let bindings = operator.get("/v1/role-bindings").await.ok();
        let binding = bindings.body["items"][0]["id"].as_str().unwrap().to_owned();
        operator.delete(&format!("/v1/role-bindings/{binding}")).await.refused(409, "last_operator");
        operator.post("/v1/users", json!({"email": "second@localhost"})).await.ok();
        let second = json!({"user": "second@localhost", "role": "platform_operator"});
        operator.post("/v1/role-bindings", second).await.ok();
        operator.delete(&format!("/v1/users/{me}")).await.ok();
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_log_in_with_a_browser_and_need_the_csrf_token_to_change_anything() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    operator.post("/v1/tenants", json!({"slug": "acme"})).await.ok();
    let person = json!({"email": "Sam@Acme.example", "tenant": "acme", "password": "correct horse battery"});
    operator.post("/v1/users", person).await.ok();
    let nobody = operator.with_token("");
    let login =
        |password: &str| json!({"method": "password", "email": "sam@acme.example", "password": password});
    let session = nobody.post("/v1/sessions", login("correct horse battery")).await.ok();
    let cookie = session.header("set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!session.text.contains("mst_ses_"), "the session itself is in the cookie alone");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let csrf = session.text_of("csrf_token");
    let browser = |method, path: &str| nobody.request(method, path).header("cookie", cookie.clone());
    nobody.send(browser(Method::GET, "/v1/whoami")).await.ok();
    let issue =
        || browser(Method::POST, "/v1/tokens").header("idempotency-key", "k").json(&json!({"name": "t"}));
    nobody.send(issue()).await.refused(403, "csrf_required");
    nobody.send(issue().header("x-csrf-token", "0".repeat(32))).await.refused(403, "csrf_required");
    nobody.send(issue().header("x-csrf-token", csrf.clone())).await.ok();
    // The cookie's value is no bearer token, and a token is no cookie.
    let value = cookie.split_once('=').unwrap().1;
    nobody.with_token(value).get("/v1/whoami").await.refused(401, "unauthenticated");
    let fake = nobody
        .request(Method::GET, "/v1/whoami")
        .header("cookie", format!("muster_session={}", kit.operator_token));
    nobody.send(fake).await.refused(401, "unauthenticated");
    let end = browser(Method::POST, "/v1/sessions/current/end")
        .header("idempotency-key", "e")
        .header("x-csrf-token", csrf);
    nobody.send(end.json(&json!({}))).await.ok();
    nobody.send(browser(Method::GET, "/v1/whoami")).await.refused(401, "unauthenticated");
    tokio::time::sleep(Duration::from_secs(6)).await;
    nobody.post("/v1/sessions", login("wrong")).await.refused(401, "unauthenticated");
    nobody.post("/v1/sessions", login("wrong")).await.refused(429, "rate_limited");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_taken_for_ids_and_ambiguity_is_explained() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let operator = kit.operator();
    operator.post("/v1/tenants/globex/projects", json!({"name": "train"})).await.ok();
    let ambiguous = operator.get("/v1/projects/train").await.refused(409, "ambiguous_name");
    assert!(ambiguous.text.contains("acme.train") && ambiguous.text.contains("globex.train"));
    assert_eq!(operator.get("/v1/projects/acme.train").await.ok().text_of("id"), fixture.id("train"));
    let viewer = fixture.client(&kit, "viewer");
    assert_eq!(
        viewer.get("/v1/projects/train").await.ok().text_of("id"),
        fixture.id("train"),
        "one is visible"
    );
    let account = fixture.client(&kit, "tenant_admin");
    account.get("/v1/projects/acme.train/service-accounts/account-with-grant").await.ok();
    kit.stop().await;
}
