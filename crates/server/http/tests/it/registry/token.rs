//! Registry tokens: short-lived, limited to their scope, and never beyond the credential they were fetched with.

use std::sync::Arc;

use base64::Engine as _;
use jiff::SignedDuration;
use muster_db::Location;
use muster_http::Settings;
use muster_ids::{Env, ManualClock, SystemEntropy};
use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;

use super::{Image, Remote, reply};

/// Fetches a token for these scopes.
async fn fetched(remote: &Remote, scope: &str) -> String {
    let answer = remote.get(&format!("token?service=x&scope={scope}")).await.is(200);
    assert_eq!(answer.header("cache-control"), "no-store");
    let body = answer.json();
    assert_eq!((&body["access_token"], &body["expires_in"]), (&body["token"], &json!(600)));
    body["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_for_what_it_names_and_for_nothing_else() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
    let other = base.named("acme.train/other");
    for remote in [&base, &other] {
        remote.push("v1", &Image::of("one")).await.is(201);
    }
    let pull = base.with_token(&fetched(&base, "repository:acme.train/base:pull").await);
    pull.pulls(&Image::of("one")).await.unwrap();
    pull.get("").await.is(200);
    pull.blob(b"x").await.refused(403, "DENIED");
    pull.send("DELETE", "{}/manifests/v1", b"").await.refused(403, "DENIED");
    pull.named("acme.train/other").get("{}/tags/list").await.refused(403, "DENIED");
    let push = base.with_token(&fetched(&base, "repository:acme.train/base:pull,push").await);
    push.push("v2", &Image::of("two")).await.is(201);
    push.send("DELETE", "{}/manifests/v2", b"").await.refused(403, "DENIED");
    // A mount reads its source: a token without that scope finds nothing there.
    let layer = super::digest(&Image::of("one").layer);
    let mount = format!("{{}}/blobs/uploads/?mount={layer}&from=acme.train/other");
    push.send("POST", &mount, b"").await.is(202);
    let both = "repository:acme.train/base:pull,push%20repository:acme.train/other:pull";
    let both = base.with_token(&fetched(&base, both).await);
    both.send("POST", &mount, b"").await.is(201);
    // Without scopes there is no access; and a registry token neither issues another nor opens the API.
    let nothing = base.with_token(&fetched(&base, "").await);
    nothing.get("").await.is(200);
    nothing.get("{}/tags/list").await.refused(403, "DENIED");
    let again = push.get("token?scope=repository:acme.train/base:pull,push,delete").await;
    again.refused(403, "DENIED");
    let token = fetched(&base, "repository:acme.train/base:pull").await;
    kit.client_of(0, &token).get("/v1/whoami").await.refused(401, "unauthenticated");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_never_more_than_its_credential() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
    base.push("v1", &Image::of("one")).await.is(201);
    let scope = "repository:acme.train/base:pull,push,delete";
    let viewer = base.with_token(fixture.token("viewer"));
    let viewing = viewer.with_token(&fetched(&viewer, scope).await);
    viewing.pulls(&Image::of("one")).await.unwrap();
    viewing.blob(b"x").await.refused(403, "DENIED");
    let stranger = base.with_token(fixture.token("other_tenant_admin"));
    let strange = stranger.with_token(&fetched(&stranger, scope).await);
    strange.get("{}/tags/list").await.refused(404, "NAME_UNKNOWN");
    // A modified token is invalid.
    let good = fetched(&base, scope).await;
    let (claims, tag) = good.strip_prefix("mst_reg_").unwrap().split_once('.').unwrap();
    let mut forged = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
    let until = forged.windows(7).position(|window| window == b"\"until\"").unwrap();
    forged[until + 8] = b'9';
    let forged = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(forged);
    for bad in [
        format!("mst_reg_{forged}.{tag}"),
        format!("mst_reg_{claims}."),
        format!("mst_reg_{claims}"),
        good[..good.len() - 1].to_owned(),
    ] {
        base.with_token(&bad).get("{}/tags/list").await.refused(401, "UNAUTHORIZED");
    }
    base.with_token(&good).get("{}/tags/list").await.is(200);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_the_credential_it_was_fetched_with() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");
    let issued = admin.post("/v1/tokens", json!({"name": "ci"})).await.ok();
    let base = Remote::new(&kit, 0, &issued.text_of("secret"), "acme.train/base");
    base.push("v1", &Image::of("one")).await.is(201);
    let bearer = base.with_token(&fetched(&base, "repository:acme.train/base:pull").await);
    bearer.get("{}/tags/list").await.is(200);
    admin.post(&format!("/v1/tokens/{}/revoke", issued.text_of("id")), json!({})).await.ok();
    for remote in [&bearer, &base] {
        remote.get("{}/tags/list").await.refused(401, "UNAUTHORIZED");
    }
    kit.stop().await;
}

/// Without a credential the response names the token service, as the protocol defines; Basic and Bearer are equivalent.
#[tokio::test(flavor = "multi_thread")]
async fn request_without_a_credential_is_challenged_with_the_token_service() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let token = fixture.token("project_admin");
    let base = Remote::new(&kit, 0, token, "acme.train/base");
    base.push("v1", &Image::of("one")).await.is(201);
    let nobody = base.with_token("");
    let challenge = async |method: &str, path: &str| {
        let refused = nobody.send(method, path, b"").await.refused(401, "UNAUTHORIZED");
        refused.header("www-authenticate")
    };
    let realm = format!("Bearer realm=\"http://{}/v2/token\"", kit.servers[0].address);
    let read = challenge("GET", "{}/tags/list").await;
    assert!(read.starts_with(&realm) && read.contains("repository:acme.train/base:pull\""), "{read}");
    let written = challenge("POST", "{}/blobs/uploads/").await;
    assert!(written.contains("repository:acme.train/base:pull,push\""), "{written}");
    assert!(!challenge("GET", "").await.contains("scope"));
    let basic = |user: &str, password: &str| {
        let sent = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        let request = nobody.client.request(reqwest::Method::GET, "/v2/acme.train/base/tags/list");
        reply(request.header("authorization", format!("Basic {sent}")))
    };
    basic("anybody", token).await.is(200);
    basic("", token).await.is(200);
    basic("anybody", "wrong").await.refused(401, "UNAUTHORIZED");
    basic(token, "").await.refused(401, "UNAUTHORIZED");
    kit.stop().await;
}

/// A server with a clock controlled by the test.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_expires_after_ten_minutes() {
    let database = Arc::new(Database::sqlite());
    let Location::Sqlite(file) = &database.location else { unreachable!() };
    let (folder, file) = (database.folder().display().to_string(), file.display().to_string());
    let mut settings = Settings::default();
    for (key, value) in [
        ("http.listen", "127.0.0.1:0"),
        ("nodes.listen", "127.0.0.1:0"),
        ("data.dir", folder.as_str()),
        ("database.url", file.as_str()),
        ("webhooks.allow_private", "true"),
        ("limits.actor_per_second", "100000"),
        ("limits.tenant_per_second", "100000"),
    ] {
        settings.set(key, value.to_owned(), "the test").unwrap();
    }
    let clock = Arc::new(ManualClock::at(Env::system().now()));
    let env = Env::new(clock.clone(), Arc::new(SystemEntropy));
    let running = muster_http::start(&settings, env).await.unwrap();
    let operator_token = std::fs::read_to_string(database.folder().join("operator.token")).unwrap();
    let kit = Kit { database, servers: vec![running], operator_token: operator_token.trim().to_owned() };
    let fixture = Fixture::build(&kit).await;
    let base = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
    base.push("v1", &Image::of("one")).await.is(201);
    let bearer = base.with_token(&fetched(&base, "repository:acme.train/base:pull").await);
    clock.advance(SignedDuration::from_secs(598));
    bearer.get("{}/tags/list").await.is(200);
    clock.advance(SignedDuration::from_secs(3));
    bearer.get("{}/tags/list").await.refused(401, "UNAUTHORIZED");
    // The credential itself lives longer, and fetches another.
    base.with_token(&fetched(&base, "repository:acme.train/base:pull").await)
        .get("{}/tags/list")
        .await
        .is(200);
    kit.stop().await;
}
