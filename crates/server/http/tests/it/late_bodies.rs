//! Bodies that arrive after the right of their sender has ended: they change nothing.

use std::net::SocketAddr;
use std::time::Duration;

use muster_testkit::{Database, Fixture, Kit};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::node_wire::agent::{Agent, csr, machine};
use crate::node_wire::refusals::retire;
use crate::registry::{Image, MANIFEST, Remote, digest};

/// A request whose body arrives in two parts.
struct LateBody {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl LateBody {
    /// Sends head and first half; returns when the server reads the body, and so has authenticated the sender.
    async fn open(address: SocketAddr, request: &str, headers: &str, body: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\nContent-Length: {}\r\n\
             Connection: close\r\nExpect: 100-continue\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 25];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n", "{}", String::from_utf8_lossy(&answer));
        let (first, rest) = body.split_at(body.len() / 2);
        stream.write_all(first).await.unwrap();
        Self { stream, rest: rest.to_vec() }
    }

    /// Opens a command.
    async fn command(address: SocketAddr, path: &str, credential: &str, body: &Value) -> Self {
        let body = body.to_string();
        let key = digest(body.as_bytes());
        let headers = format!("Content-Type: application/json\r\nIdempotency-Key: {key}\r\n{credential}");
        Self::open(address, &format!("POST {path}"), &headers, body.as_bytes()).await
    }

    /// Opens a push.
    async fn push(address: SocketAddr, request: &str, token: &str, body: &[u8]) -> Self {
        let headers = format!("Content-Type: {MANIFEST}\r\nAuthorization: Bearer {token}");
        Self::open(address, request, &headers, body).await
    }

    /// Sends the second half; returns the status and the text of the answer.
    async fn finish(mut self) -> (u16, String) {
        self.stream.write_all(&self.rest).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), self.stream.read_to_end(&mut answer)).await;
        read.expect("an answer").unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        (answer[9..12].parse().unwrap(), answer)
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_credential_is_revoked_before_its_body_arrived_changes_nothing() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let (admin, address) = (fixture.client(&kit, "tenant_admin"), kit.servers[0].address);
        let operator = kit.operator();
        let projects = "/v1/tenants/acme/projects";
        let project = |name: &str| json!({"name": name});
        let valid = bearer(fixture.token("tenant_admin"));
        let valid = LateBody::command(address, projects, &valid, &project("valid")).await;
        let (status, answer) = valid.finish().await;
        assert_eq!(status, 201, "{answer}");

        let token = admin.post("/v1/tokens", json!({"name": "short"})).await.ok();
        let late = bearer(&token.text_of("secret"));
        let late = LateBody::command(address, projects, &late, &project("by-token")).await;
        admin.post(&format!("/v1/tokens/{}/revoke", token.text_of("id")), json!({})).await.ok();
        let (status, answer) = late.finish().await;
        assert!(status == 401 && answer.contains("revoked"), "{answer}");

        let person =
            json!({"email": "sam@acme.example", "tenant": "acme", "password": "correct horse battery"});
        operator.post("/v1/users", person).await.ok();
        let binding = json!({"user": "sam@acme.example", "role": "tenant_admin", "tenant": "acme"});
        let binding = admin.post("/v1/role-bindings", binding).await.ok();
        let login = json!({"method": "password", "tenant": "acme", "email": "sam@acme.example", "password": "correct horse battery"});
        let nobody = operator.with_token("");
        let session = nobody.post("/v1/sessions", login).await.ok();
        let cookie = session.header("set-cookie").split(';').next().unwrap().to_owned();
        let csrf = session.text_of("csrf_token");
        let browser = format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}");
        let demoted = LateBody::command(address, projects, &browser, &project("by-role")).await;
        let late = LateBody::command(address, "/v1/tokens", &browser, &json!({"name": "by-session"})).await;
        admin.delete(&format!("/v1/role-bindings/{}", binding.text_of("id"))).await.ok();
        let (status, answer) = demoted.finish().await;
        assert_eq!(status, 403, "a role that was lost: {answer}");
        let end = nobody.request(Method::POST, "/v1/sessions/current/end");
        let end = end.header("idempotency-key", "e").header("cookie", cookie).header("x-csrf-token", csrf);
        nobody.send(end.json(&json!({}))).await.ok();
        let (status, answer) = late.finish().await;
        assert_eq!(status, 401, "{answer}");

        let path = format!("/v1/projects/{}/secrets", fixture.id("train"));
        let late = bearer(fixture.token("account_with_grant"));
        let late = LateBody::command(address, &path, &late, &json!({"name": "late", "value": "x"})).await;
        let account = format!("/v1/tokens/{}/revoke", fixture.id("account_with_grant_token"));
        admin.post(&account, json!({})).await.ok();
        let (status, answer) = late.finish().await;
        assert_eq!(status, 401, "{answer}");

        let names = admin.get("/v1/projects").await.ok().text;
        assert!(names.contains("\"valid\"") && !names.contains("\"by-"), "{names}");
        assert!(admin.get(&path).await.ok().body["items"].as_array().unwrap().is_empty());
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_whose_credential_is_revoked_before_its_body_arrived_leaves_nothing() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let (admin, address) = (fixture.client(&kit, "tenant_admin"), kit.servers[0].address);
        let remote = Remote::new(&kit, 0, fixture.token("tenant_admin"), "acme.train/base");
        let (image, other) = (Image::of("one"), Image::of("other"));
        remote.push("v1", &image).await.is(201);
        let blobs = &kit.servers[0].platform.blobs;
        let before = blobs.files(None, 100).await.unwrap().len();
        for derived in [false, true] {
            let issued = admin.post("/v1/tokens", json!({"name": format!("short {derived}")})).await.ok();
            let own = issued.text_of("secret");
            let token = match derived {
                false => own,
                true => {
                    let scope = "token?service=x&scope=repository:acme.train/base:pull,push";
                    let fetched = remote.with_token(&own).get(scope).await.is(200).json();
                    fetched["token"].as_str().unwrap().to_owned()
                }
            };
            let base = "/v2/acme.train/base";
            let started = remote.with_token(&token).send("POST", "{}/blobs/uploads/", b"").await.is(202);
            let upload = started.header("location");
            let appended = remote.with_token(&token).send("POST", "{}/blobs/uploads/", b"").await.is(202);
            let content = format!("late content {derived}");
            let content = content.as_bytes();
            let blob = digest(content);
            let push =
                async |request: String, body: &[u8]| LateBody::push(address, &request, &token, body).await;
            let manifest = push(format!("PUT {base}/manifests/late"), &image.manifest).await;
            let single = format!("POST {base}/blobs/uploads/?digest={}", digest(&other.layer));
            let single = push(single, &other.layer).await;
            let finished = push(format!("PUT {upload}?digest={blob}"), content).await;
            let piece = push(format!("PATCH {}", appended.header("location")), &other.config).await;
            let valid = fixture.token("tenant_admin");
            let valid_blob = format!("valid {derived}");
            let path = format!("POST {base}/blobs/uploads/?digest={}", digest(valid_blob.as_bytes()));
            let valid = LateBody::push(address, &path, valid, valid_blob.as_bytes()).await;
            admin.post(&format!("/v1/tokens/{}/revoke", issued.text_of("id")), json!({})).await.ok();
            for (late, what) in
                [(manifest, "manifest"), (single, "blob"), (finished, "last piece"), (piece, "piece")]
            {
                let (status, answer) = late.finish().await;
                assert_eq!(status, 401, "{what}: {answer}");
            }
            let (status, answer) = valid.finish().await;
            assert_eq!(status, 201, "{answer}");
            remote.get("{}/manifests/late").await.is(404);
            for missing in [blob, digest(&other.layer)] {
                remote.get(&format!("{{}}/blobs/{missing}")).await.is(404);
            }
            remote.get(&format!("{{}}/blobs/{}", digest(valid_blob.as_bytes()))).await.is(200);
        }
        let files = blobs.files(None, 100).await.unwrap();
        assert_eq!(files.len(), before + 2, "only the valid pushes left a file: {files:?}");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_push_breaks_off_within_five_seconds_of_its_right() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let (admin, address) = (fixture.client(&kit, "tenant_admin"), kit.servers[0].address);
    let issued = admin.post("/v1/tokens", json!({"name": "short"})).await.ok();
    let content = vec![b'x'; 1 << 20];
    let path = format!("POST /v2/acme.train/base/blobs/uploads/?digest={}", digest(&content));
    let mut late = LateBody::push(address, &path, &issued.text_of("secret"), &content).await;
    admin.post(&format!("/v1/tokens/{}/revoke", issued.text_of("id")), json!({})).await.ok();
    let revoked = std::time::Instant::now();
    let mut answer = [0; 12];
    let ended = async {
        loop {
            tokio::select! {
                read = late.stream.read_exact(&mut answer) => break read,
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
            }
            // A trickle: the server has no other reason to end it.
            late.stream.write_all(b"x").await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("it ends").unwrap();
    assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());
    assert_eq!(&answer[9..], b"401");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_retired_before_its_body_arrived_is_refused() {
    let kit = Kit::sqlite().await;
    let agent = Agent::start(&kit, 0).await;
    let session = agent.session;
    let late = async |operation: &str, body: Value| {
        let body = body.to_string();
        let (first, rest) = body.split_at(10);
        let parts = [(first.to_owned(), 0), (rest.to_owned(), 2500)];
        let parts = futures::stream::unfold(parts.into_iter(), |mut parts| async move {
            let (part, delay) = parts.next()?;
            tokio::time::sleep(Duration::from_millis(delay)).await;
            Some((Ok::<_, std::io::Error>(part), parts))
        });
        let url = format!("https://localhost:{}/node/v1/{operation}", agent.address.port());
        let request = agent.http.post(url).header("content-type", "application/json");
        let answer = request.body(reqwest::Body::wrap_stream(parts)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (inventory, report, hello, renewed, ()) = tokio::join!(
        late("inventory", json!({"session": session, "inventory": machine(1)})),
        late("report", json!({"session": session, "reports": []})),
        late("hello", json!({"agent_version": "0.1.0", "inventory": machine(2), "sandboxes": []})),
        late("renew", json!({"csr": csr(&agent.key)})),
        async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            retire(&kit, &agent).await;
        }
    );
    for (status, text) in [inventory, report, hello, renewed] {
        assert!(status == 401 && text.contains("retired"), "{status} {text}");
    }
    kit.stop().await;
}
