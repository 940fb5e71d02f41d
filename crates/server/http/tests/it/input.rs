//! Bad input: a 4xx that names the field, never a 5xx.

use std::time::Duration;

use muster_testkit::{Database, Fixture, Kit};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::registry::{Image, Remote};

fn names(answer: &muster_testkit::Answer, pointer: &str) {
    let errors = answer.body["errors"].as_array().cloned().unwrap_or_default();
    let found = errors.iter().any(|error| error["pointer"].as_str().unwrap_or_default() == pointer)
        || answer.text.contains(pointer.trim_start_matches('/'));
    assert!(found, "{pointer} is not named: {}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_body_are_named_by_their_place() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    for (body, pointer) in [
        (json!({"slug": "acme", "owner": "me"}), "/owner"),
        (json!({"slug": "acme", "tenant_id": "ten_x", "version": 9}), "/tenant_id"),
        (json!({"slug": 7}), "/slug"),
        (json!({"slug": "Not A Slug"}), "/slug"),
        (json!({}), "slug"),
        (json!({"slug": "acme", "labels": {"k": 1}}), "/labels/k"),
        (json!({"slug": "acme", "labels": {"Bad Key": "x"}}), "/labels"),
        (json!({"slug": "acme", "display_name": "nul\u{0}"}), "/display_name"),
        (json!({"slug": "acme", "display_name": "x".repeat(201)}), "/display_name"),
        (json!([]), "object"),
    ] {
        let answer = operator.post("/v1/tenants", body).await.refused(400, "invalid_request");
        names(&answer, pointer);
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_or_oversized_json_is_refused() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("http.body_limit_bytes", "20000")]).await;
    let operator = kit.operator();
    let post = |body: String, content_type: &'static str| {
        let request = operator.request(Method::POST, "/v1/tenants").header("idempotency-key", "k");
        operator.send(request.header("content-type", content_type).body(body))
    };
    post("{".into(), "application/json").await.refused(400, "malformed_request");
    post("\u{feff}{}".into(), "application/json").await.refused(400, "malformed_request");
    post("slug=acme".into(), "application/x-www-form-urlencoded")
        .await
        .refused(415, "unsupported_media_type");
    post(format!("{{\"slug\": \"{}\"}}", "x".repeat(30_000)), "application/json")
        .await
        .refused(413, "body_too_large");
    let deep = format!("{}1{}", "[".repeat(9_000), "]".repeat(9_000));
    post(deep, "application/json").await.refused(400, "malformed_request");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_cursors_and_headers_are_checked() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let operator = kit.operator();
    for (path, pointer) in [
        ("/v1/tenants?colour=red", "query/colour"),
        ("/v1/tenants?page_size=0", "query/page_size"),
        ("/v1/tenants?page_size=many", "query/page_size"),
        ("/v1/tenants?page_size=1&page_size=2", "query/page_size"),
        ("/v1/tenants?labels=%00", "query/labels"),
        ("/v1/tenants?labels=$.x=1", "query/labels"),
        ("/v1/events?after=-1", "query/after"),
        ("/v1/can-i?permission=dance", "query/permission"),
        ("/v1/can-i", "permission"),
    ] {
        let answer = operator.get(path).await.refused(400, "invalid_request");
        names(&answer, pointer);
    }
    operator.get("/v1/tenants?page_token=AAAA").await.refused(400, "bad_cursor");
    // A page token of one list is invalid for another.
    let page = operator.get("/v1/tenants?page_size=1").await.ok();
    let token = page.text_of("next_page_token");
    assert_eq!(
        operator.get(&format!("/v1/tenants?page_token={token}")).await.ok().body["items"][0]["slug"],
        "globex"
    );
    operator.get(&format!("/v1/projects?page_token={token}")).await.refused(400, "bad_cursor");
    operator.get(&format!("/v1/tenants?labels=a=b&page_token={token}")).await.refused(400, "bad_cursor");

    let path = format!("/v1/projects/{}", fixture.id("train"));
    let patch = |if_match: Option<&str>| {
        let mut request = operator.request(Method::PATCH, &path).json(&json!({"display_name": "x"}));
        if let Some(value) = if_match {
            request = request.header("if-match", value);
        }
        operator.send(request)
    };
    patch(None).await.refused(428, "version_required");
    patch(Some("3")).await.refused(400, "invalid_request");
    patch(Some("\"99\"")).await.refused(412, "version_mismatch");
    assert_eq!(patch(Some("\"1\"")).await.ok().body["version"], 2);
    patch(Some("\"1\"")).await.refused(412, "version_mismatch");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_are_problems_too() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    operator.get("/v1/nothing").await.refused(404, "not_found");
    operator.get("/v1/tenants/%ff").await.refused(404, "not_found");
    operator.get("/v1/tenants/..%2f..%2fetc").await.refused(404, "not_found");
    let wrong =
        operator.send(operator.request(Method::PUT, "/v1/tenants")).await.refused(405, "method_not_allowed");
    assert!(wrong.header("allow").contains("POST"), "{:?}", wrong.headers);
    let made = operator.request(Method::TRACE, "/v1/tenants");
    assert_eq!(operator.send(made).await.status, 405);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_and_other_names_are_refused_whatever_the_method() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    for (name, value, status) in [
        ("host", "evil.example", 421),
        ("origin", "https://evil.example", 403),
        ("sec-fetch-site", "cross-site", 403),
    ] {
        for method in [Method::GET, Method::DELETE] {
            let request = operator.request(method.clone(), "/v1/tenants/acme").header("if-match", "*");
            let response = request.header(name, value).send().await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{method} {name}");
        }
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_disconnected() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("http.timeout_seconds", "1")]).await;
    let address = kit.servers[0].address;
    let mut slow = tokio::net::TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(5), slow.read_to_end(&mut answer))
        .await
        .expect("headers time out")
        .ok();

    let mut slow = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/tenants HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nIdempotency-Key: k\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        kit.operator_token
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read =
        tokio::time::timeout(Duration::from_secs(5), slow.read(&mut answer)).await.expect("a body times out");
    let text = String::from_utf8_lossy(&answer[..read.unwrap()]).into_owned();
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_that_is_used_up_is_told_when_to_come_back() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("limits.actor_per_second", "5")]).await;
    let operator = kit.operator();
    let mut limited: Option<Value> = None;
    for _ in 0..20 {
        let answer = operator.get("/v1/whoami").await;
        if answer.status == 429 {
            assert_eq!(answer.header("retry-after"), "1");
            limited = Some(answer.body);
        }
    }
    assert_eq!(limited.expect("twenty at once are too many")["code"], "rate_limited");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    operator.get("/v1/whoami").await.ok();
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_refused_is_not_repeated() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    let me = operator.get("/v1/whoami").await.ok().text_of("id");
    let long = "MyRealPw1".repeat(40);
    for (path, body) in [
        ("/v1/users".to_owned(), json!({"email": "a@b.example", "password": "MyRealPw1"})),
        (format!("/v1/users/{me}/set-password"), json!({"password": "MyRealPw1"})),
        (format!("/v1/users/{me}/set-password"), json!({"password": ["MyRealPw1"]})),
        ("/v1/sessions".to_owned(), json!({"method": "password", "email": "a@b.example", "password": long})),
    ] {
        let answer = operator.post(&path, body).await.refused(400, "invalid_request");
        assert!(!answer.text.contains("MyRealPw1"), "{}", answer.text);
        names(&answer, "/password");
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_character_nul_is_refused_wherever_it_stands() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        for path in
            ["/v1/tenants/a%00b", "/v1/projects/a%00b", "/v1/projects/acme.%00/cells", "/v1/users/a%00@b"]
        {
            admin.get(path).await.refused(400, "invalid_request");
        }
        let base = format!("http://{}", kit.servers[0].address);
        let http = reqwest::Client::new();
        for path in [
            "/v2/acme.train/a%00b/tags/list",
            "/v2/acme.train/a/tags/list?last=%00",
            "/v2/acme.train/a/manifests/%00",
        ] {
            let sent =
                http.get(format!("{base}{path}")).basic_auth("x", Some(fixture.token("tenant_admin"))).send();
            let status = sent.await.unwrap().status().as_u16();
            assert!((400..500).contains(&status), "{path}: {status}");
        }
        // In an annotation it is valid JSON, and PostgreSQL cannot store it.
        let remote = Remote::new(&kit, 0, fixture.token("tenant_admin"), "acme.train/nul");
        let mut image = Image::of("nul");
        let mut manifest: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
        manifest["annotations"] = json!({"note": "a\u{0}b"});
        image.manifest = manifest.to_string().into_bytes();
        let pushed = remote.push("v1", &image).await;
        let is_stored = kit.store().kind() == "sqlite" && pushed.status == 201;
        assert!(is_stored || (400..500).contains(&pushed.status), "{}", pushed.status);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_given_twice_is_refused() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    let request = operator.request(Method::POST, "/v1/tenants").header("idempotency-key", "k");
    let body = r#"{"slug": "dupa", "slug": "dupb"}"#;
    operator
        .send(request.header("content-type", "application/json").body(body))
        .await
        .refused(400, "malformed_request");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_token_is_written_to_a_file_of_its_own() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let database = Database::sqlite();
    let elsewhere = database.folder().join("elsewhere");
    std::fs::write(&elsewhere, "").unwrap();
    std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o666)).unwrap();
    symlink(&elsewhere, database.folder().join("operator.token")).unwrap();
    let kit = Kit::start(database, 1).await;
    let file = kit.database.folder().join("operator.token");
    let found = std::fs::symlink_metadata(&file).unwrap();
    assert!(found.is_file(), "the link is not followed");
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "");
    kit.operator().get("/v1/whoami").await.ok();
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_be_meant_stop_the_start() {
    for (key, value) in [
        ("http.timeout_seconds", "0"),
        ("database.url", "mysql://localhost/x"),
        ("http.proxies", "proxy.example"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = muster_http::Settings::default();
        let data = folder.path().display().to_string();
        for (key, value) in
            [("data.dir", data.as_str()), ("http.listen", "127.0.0.1:0"), ("nodes.listen", ""), (key, value)]
        {
            settings.set(key, value.to_owned(), "the test").unwrap();
        }
        let Err(error) = muster_http::start(&settings, muster_ids::Env::system()).await else {
            panic!("{key} = {value} was taken");
        };
        assert!(error.to_string().contains(key) && error.to_string().contains("the test"), "{error}");
    }
}
