//! People, accounts, tokens and sessions: revocation is final, and no actor can escalate its own permissions.

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
    // An expired token cannot be rotated, nor can another person's.
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
        // The audit log remains, although the tenant is gone.
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
async fn actor_cannot_grant_or_gain_more_than_it_holds() {
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
    // A permission list may only contain permissions that exist, can be granted, and are held by the grantor.
    let path = format!("/v1/projects/{}/service-accounts", fixture.id("train"));
    for (permission, status) in [("no.such", 400), ("service_account.create", 400), ("tenant.delete", 400)] {
        let made = admin.post(&path, json!({"name": "x", "permissions": [permission]})).await;
        assert_eq!(made.status, status, "{permission}: {}", made.text);
    }
    // A service account cannot change its own permissions, nor issue itself another token.
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
    let login = |password: &str| json!({"method": "password", "tenant": "acme", "email": "sam@acme.example", "password": password});
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
    // The cookie's value is not a bearer token, and a token is not a cookie.
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

#[tokio::test(flavor = "multi_thread")]
async fn issued_token_ends_with_its_parent_at_the_latest() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let account = fixture.id("account_without_grant");
        let year = 31_536_000;
        let short = json!({"service_account": account, "name": "ci", "expires_in_seconds": 60});
        let short = admin.post("/v1/tokens", short).await.ok();
        let end: jiff::Timestamp = short.text_of("expires_at").parse().unwrap();
        let ci = admin.with_token(&short.text_of("secret"));
        // It can rotate itself, without extending its lifetime.
        let path = format!("/v1/tokens/{}/rotate", short.text_of("id"));
        let rotated = ci.post(&path, json!({"expires_in_seconds": year})).await.ok();
        assert!(rotated.text_of("expires_at").parse::<jiff::Timestamp>().unwrap() <= end);
        // It cannot rotate another token of its account.
        let path = format!("/v1/tokens/{}/rotate", fixture.id("account_without_grant_token"));
        ci.post(&path, json!({})).await.refused(403, "permission_denied");
        // A token issued by a person's token expires with it too.
        let mine = admin.post("/v1/tokens", json!({"name": "mine", "expires_in_seconds": 60})).await.ok();
        let me = admin.with_token(&mine.text_of("secret"));
        let child = me.post("/v1/tokens", json!({"name": "child", "expires_in_seconds": year})).await.ok();
        assert!(child.text_of("expires_at") <= mine.text_of("expires_at"), "{}", child.text);
        let ours = json!({"service_account": account, "name": "ours"});
        let ours = me.post("/v1/tokens", ours).await.ok();
        assert_eq!(ours.text_of("parent_id"), mine.text_of("id"));
        // Revoking it also revokes the tokens it issued, at any depth.
        let grandchild =
            me.with_token(&child.text_of("secret")).post("/v1/tokens", json!({"name": "x"})).await.ok();
        admin.post(&format!("/v1/tokens/{}/revoke", mine.text_of("id")), json!({})).await.ok();
        for token in [&mine, &child, &ours, &grandchild] {
            dead_within_five_seconds(&admin.with_token(&token.text_of("secret"))).await;
        }
        admin.get("/v1/whoami").await.ok();
        kit.stop().await;
    }
}

/// Attack: a token that another replica revoked is in this one's cache for two seconds more. What it issued or rotated meanwhile
/// would be revoked by nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_that_is_still_cached_issues_nothing() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let mine = admin.post("/v1/tokens", json!({"name": "mine"})).await.ok();
        let me = admin.with_token(&mine.text_of("secret"));
        let account = json!({"service_account": fixture.id("account_without_grant"), "name": "ci"});
        let ours = me.post("/v1/tokens", account.clone()).await.ok();
        let count = async || admin.get("/v1/tokens").await.ok().body["items"].as_array().unwrap().len();
        let before = count().await;
        me.get("/v1/whoami").await.ok();
        // As another replica does it: this server's cache is not cleared.
        let mut tx = kit.store().begin().await.unwrap();
        tx.token_revoke(mine.text_of("id").parse().unwrap(), muster_ids::Env::system().now()).await.unwrap();
        tx.commit().await.unwrap();
        me.post("/v1/tokens", json!({"name": "child"})).await.refused(401, "unauthenticated");
        me.post("/v1/tokens", account).await.refused(401, "unauthenticated");
        for token in [&mine, &ours] {
            let path = format!("/v1/tokens/{}/rotate", token.text_of("id"));
            let answer = me.post(&path, json!({})).await;
            assert!(answer.status == 401 || answer.status == 409, "{}: {}", answer.status, answer.text);
        }
        assert_eq!(count().await, before, "nothing was issued");
        kit.stop().await;
    }
}

/// Logs in; returns the cookie and the CSRF token.
async fn session(client: &Client, tenant: &str, email: &str, password: &str) -> (String, String) {
    let login = json!({"method": "password", "tenant": tenant, "email": email, "password": password});
    let made = client.with_token("").post("/v1/sessions", login).await.ok();
    (made.header("set-cookie").split(';').next().unwrap().to_owned(), made.text_of("csrf_token"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_issues_tokens_that_outlive_it_and_logging_out_leaves_them() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    operator.post("/v1/tenants", json!({"slug": "acme"})).await.ok();
    let password = "correct horse battery";
    let person = json!({"email": "sam@acme.example", "tenant": "acme", "password": password});
    operator.post("/v1/users", person).await.ok();
    let nobody = operator.with_token("");
    let (cookie, csrf) = session(&nobody, "acme", "sam@acme.example", password).await;
    let browser = |path: &str, key: &str, body: serde_json::Value| {
        let request = nobody.request(Method::POST, path).header("cookie", cookie.clone());
        nobody.send(
            request
                .header("x-csrf-token", csrf.clone())
                .header("idempotency-key", key.to_owned())
                .json(&body),
        )
    };
    let issued =
        browser("/v1/tokens", "a", json!({"name": "t", "expires_in_seconds": 31_536_000})).await.ok();
    let lives = issued
        .text_of("expires_at")
        .parse::<jiff::Timestamp>()
        .unwrap()
        .duration_since(muster_ids::Env::system().now());
    assert!(lives.as_hours() > 300 * 24, "{}", issued.text);
    assert!(issued.body["parent_id"].is_null());
    browser("/v1/sessions/current/end", "b", json!({})).await.ok();
    nobody.with_token(&issued.text_of("secret")).get("/v1/whoami").await.ok();
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_may_be_in_several_tenants_and_says_nothing_of_the_others() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let (acme, globex) =
            (fixture.client(&kit, "tenant_admin"), fixture.client(&kit, "other_tenant_admin"));
        let person = |tenant: &str, password: &str| json!({"email": "sam@x.example", "tenant": tenant, "password": password});
        let first = acme.post("/v1/users", person("acme", "the password at acme")).await.ok();
        let second = globex.post("/v1/users", person("globex", "the password at globex")).await.ok();
        acme.post("/v1/users", person("acme", "the password at acme")).await.refused(409, "name_taken");
        session(&acme, "acme", "sam@x.example", "the password at acme").await;
        session(&acme, "globex", "sam@x.example", "the password at globex").await;
        // By e-mail address each tenant finds its own person; for an operator it is ambiguous.
        assert_eq!(acme.get("/v1/users/sam@x.example").await.ok().text_of("id"), first.text_of("id"));
        assert_eq!(globex.get("/v1/users/sam@x.example").await.ok().text_of("id"), second.text_of("id"));
        kit.operator().get("/v1/users/sam@x.example").await.refused(409, "ambiguous_name");
        // A wrong tenant, address or password gets the same response.
        let nobody = acme.with_token("");
        let attempt = |tenant: serde_json::Value, email: &str| {
            nobody.post(
                "/v1/sessions",
                json!({"method": "password", "tenant": tenant, "email": email, "password": "no"}),
            )
        };
        let wrong = attempt(json!("acme"), "bystander@acme.example").await.refused(401, "unauthenticated");
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let absent = attempt(json!("nowhere"), "sam@x.example").await.refused(401, "unauthenticated");
        assert_eq!(wrong.text_of("detail"), absent.text_of("detail"));
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_logins_are_audited_paced_by_address_and_keep_nobody_else_out() {
    for database in Database::both() {
        let kit = Kit::start_with(database, 1, &[("http.proxies", "127.0.0.1")]).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let body =
            json!({"email": "sam@acme.example", "tenant": "acme", "password": "correct horse battery"});
        let sam = admin.post("/v1/users", body).await.ok();
        let nobody = admin.with_token("");
        let login = |from: &str, password: &str| {
            let body = json!({"method": "password", "tenant": "acme", "email": "sam@acme.example", "password": password});
            let request =
                nobody.request(Method::POST, "/v1/sessions").header("x-forwarded-for", from.to_owned());
            nobody.send(request.header("idempotency-key", "login-1").json(&body))
        };
        for from in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            login(from, "wrong").await.refused(401, "unauthenticated");
        }
        login("192.0.2.1", "wrong").await.refused(429, "rate_limited");
        // The person logs in from elsewhere; there, the same key is a new login.
        let first = login("192.0.2.9", "correct horse battery").await.ok();
        assert!(first.header("set-cookie").contains("muster_session=mst_ses_"));
        let again = login("192.0.2.10", "correct horse battery").await.ok();
        assert!(
            again.header("set-cookie").contains("muster_session=mst_ses_"),
            "no answer without its cookie"
        );
        assert!(again.header("idempotency-replayed").is_empty());
        let started = Instant::now();
        let entries = loop {
            kit.sealed().await;
            let found = admin.get("/v1/audit?tenant=acme&action=session.create").await.ok();
            let failed: Vec<serde_json::Value> = found.body["items"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|entry| entry["record"]["outcome"] == "refused")
                .cloned()
                .collect();
            if !failed.is_empty() {
                break failed;
            }
            assert!(started.elapsed() < Duration::from_secs(10), "{}", found.text);
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(entries.len() <= 2, "one a minute: {entries:?}");
        assert_eq!(entries[0]["record"]["target"]["id"], sam.text_of("id"));
        assert_eq!(entries[0]["record"]["code"], "unauthenticated");
        let text = serde_json::to_string(&entries).unwrap();
        assert!(text.contains("192.0.2.") && !text.contains("wrong\""), "{text}");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_have_one_pace_however_their_tenant_is_spelled() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let nobody = kit.operator().with_token("");
        let guess = |tenant: &str, email: &str| {
            let body = json!({"method": "password", "tenant": tenant, "email": email, "password": "no"});
            nobody.post("/v1/sessions", body)
        };
        let id = fixture.id("acme");
        guess("acme", "bystander@acme.example").await.refused(401, "unauthenticated");
        guess(id, "Bystander@acme.example").await.refused(429, "rate_limited");
        guess(id, "viewer@acme.example").await.refused(401, "unauthenticated");
        guess("acme", "viewer@acme.example").await.refused(429, "rate_limited");
        guess(fixture.id("globex"), "viewer@acme.example").await.refused(401, "unauthenticated");
        kit.stop().await;
    }
}

/// Attack: guesses for many users at once, each of which costs a hash before the first has failed. The audit counts them.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_sent_at_once_are_counted_before_their_hashes_are_computed() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("limits.address_per_second", "50")]).await;
    kit.operator().post("/v1/tenants", json!({"slug": "acme"})).await.ok();
    for number in 0..24 {
        let user = json!({"email": format!("user{number}@acme.example"), "tenant": "acme"});
        kit.operator().post("/v1/users", user).await.ok();
    }
    let nobody = kit.operator().with_token("");
    let guesses = (0..24).map(|number| {
        let email = format!("user{number}@acme.example");
        let body = json!({"method": "password", "tenant": "acme", "email": email, "password": "guess"});
        nobody.post("/v1/sessions", body)
    });
    let answers = futures::future::join_all(guesses).await;
    let verified = answers.iter().filter(|answer| answer.status == 401).count();
    assert!(answers.iter().all(|answer| [401, 429].contains(&answer.status)));
    // Eight at once, and one for each second that they took.
    assert!((8..=14).contains(&verified), "{verified} of 24");
    // A refused guess was not verified: the audit has one entry for each that was.
    let started = Instant::now();
    loop {
        kit.sealed().await;
        let path = "/v1/audit?tenant=acme&action=session.create&page_size=100";
        let audited = kit.operator().get(path).await.ok().body["items"].as_array().unwrap().len();
        if audited == verified {
            break;
        }
        let waited = started.elapsed();
        assert!(waited < Duration::from_secs(10), "{audited} hashes for {verified} answers");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_that_succeed_count_as_no_failures() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("limits.address_per_second", "50")]).await;
    let operator = kit.operator();
    let nobody = operator.with_token("");
    for number in 0..12 {
        let email = format!("user{number}@localhost");
        let user = json!({"email": email, "password": "correct horse battery"});
        operator.post("/v1/users", user).await.ok();
        let body = json!({"method": "password", "email": email, "password": "correct horse battery"});
        nobody.post("/v1/sessions", body).await.ok();
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_changed_at_a_persons_pace_and_a_first_one_not_by_a_derived_token() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    let me = operator.get("/v1/whoami").await.ok().text_of("id");
    let path = format!("/v1/users/{me}/set-password");
    let derived = operator.post("/v1/tokens", json!({"name": "ci"})).await.ok().text_of("secret");
    let new = json!({"password": "a long enough password"});
    operator.with_token(&derived).post(&path, new.clone()).await.refused(403, "permission_denied");
    operator.post(&path, new).await.ok();
    dead_within_five_seconds(&operator).await;
    let login =
        json!({"method": "password", "email": "operator@localhost", "password": "a long enough password"});
    let made = operator.with_token("").post("/v1/sessions", login).await.ok();
    let (cookie, csrf) =
        (made.header("set-cookie").split(';').next().unwrap().to_owned(), made.text_of("csrf_token"));
    let attempt = async |key: &str| {
        let nobody = operator.with_token("");
        let request = nobody.request(Method::POST, &path).header("cookie", cookie.clone());
        let body = json!({"password": "another long password", "current_password": "guess"});
        let request = request.header("x-csrf-token", csrf.clone()).header("idempotency-key", key.to_owned());
        nobody.send(request.json(&body)).await
    };
    attempt("1").await.refused(400, "invalid_request");
    attempt("2").await.refused(429, "rate_limited");
    kit.stop().await;
}
