//! The access matrix of the registry: every kind of request by every actor. The result is a golden file, so that a policy
//! change shows up as a diff in review.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use muster_testkit::{ACTORS, Fixture, Kit, golden};
use serde_json::json;

use super::{Image, Remote, Reply, digest, reply};

/// Service accounts of the project, by permission.
const ACCOUNTS: &[(&str, &[&str])] = &[
    ("account_pull", &["repository.pull"]),
    ("account_push", &["repository.pull", "repository.push"]),
    ("account_push_only", &["repository.push"]),
    ("account_retag", &["repository.pull", "repository.push", "repository.retag"]),
    ("account_delete", &["repository.pull", "repository.delete"]),
    ("account_list", &["repository.list"]),
];

/// Every kind of request.
const ROWS: &[&str] = &[
    "base",
    "token",
    "catalog",
    "tags",
    "manifest_get",
    "manifest_head",
    "manifest_put",
    "manifest_put_digest",
    "manifest_retag",
    "manifest_delete",
    "tag_delete",
    "blob_head",
    "blob_get",
    "blob_delete",
    "upload_start",
    "upload_whole",
    "upload_append",
    "upload_status",
    "upload_finish",
    "upload_cancel",
    "mount",
    "referrers",
];

/// A repository with everything the rows need.
struct Stage {
    owner: Remote,
    upload: String,
}

impl Stage {
    async fn new(owner: &Remote, name: &str) -> Self {
        let owner = owner.named(name);
        owner.push("v1", &Image::of("one")).await.is(201);
        // Content pushed only by digest is no artifact; it can be removed or tagged with the permission to do so.
        owner.push(&Image::of("two").digest(), &Image::of("two")).await.is(201);
        owner.blob(b"spare").await.is(201);
        for bytes in [Image::of("three").config, Image::of("three").layer] {
            owner.blob(&bytes).await.is(201);
        }
        owner.named("acme.train/source").blob(b"mounted").await.is(201);
        let upload = owner.upload().await;
        Self { owner, upload }
    }

    /// Tries a row, in the repository of this name.
    async fn knock(&self, row: &str, token: &str, cookie: &str, name: &str) -> Reply {
        let (one, two, three) = (Image::of("one"), Image::of("two"), Image::of("three"));
        let upload = self.upload.replace(&self.owner.name, "{}");
        let layer = digest(&one.layer);
        let (method, path, body): (&str, String, Vec<u8>) = match row {
            "base" => ("GET", String::new(), vec![]),
            "token" => ("GET", "token?service=x&scope=repository:{}:pull,push".to_owned(), vec![]),
            "catalog" => ("GET", "_catalog".to_owned(), vec![]),
            "tags" => ("GET", "{}/tags/list".to_owned(), vec![]),
            "manifest_get" => ("GET", "{}/manifests/v1".to_owned(), vec![]),
            "manifest_head" => ("HEAD", format!("{{}}/manifests/{}", one.digest()), vec![]),
            "manifest_put" => ("PUT", "{}/manifests/v3".to_owned(), three.manifest),
            "manifest_put_digest" => ("PUT", format!("{{}}/manifests/{}", three.digest()), three.manifest),
            "manifest_retag" => ("PUT", "{}/manifests/v1".to_owned(), two.manifest),
            "manifest_delete" => ("DELETE", format!("{{}}/manifests/{}", two.digest()), vec![]),
            "tag_delete" => ("DELETE", "{}/manifests/v1".to_owned(), vec![]),
            "blob_head" => ("HEAD", format!("{{}}/blobs/{layer}"), vec![]),
            "blob_get" => ("GET", format!("{{}}/blobs/{layer}"), vec![]),
            "blob_delete" => ("DELETE", format!("{{}}/blobs/{}", digest(b"spare")), vec![]),
            "upload_start" => ("POST", "{}/blobs/uploads/".to_owned(), vec![]),
            "upload_whole" => {
                ("POST", format!("{{}}/blobs/uploads/?digest={}", digest(b"whole")), b"whole".to_vec())
            }
            "upload_append" => ("PATCH", upload, b"part".to_vec()),
            "upload_status" => ("GET", upload, vec![]),
            "upload_finish" => ("PUT", format!("{upload}?digest={}", digest(b"whole")), b"whole".to_vec()),
            "upload_cancel" => ("DELETE", upload, vec![]),
            "mount" => {
                let mounted = digest(b"mounted");
                let path = format!("{{}}/blobs/uploads/?mount={mounted}&from=acme.train/source");
                ("POST", path, vec![])
            }
            "referrers" => ("GET", format!("{{}}/referrers/{}", one.digest()), vec![]),
            other => panic!("no such row: {other}"),
        };
        let remote = self.owner.with_token(token).named(name);
        let path = format!("/v2/{}", path.replace("{}", name));
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = remote.client.request(method, &path).header("content-type", super::MANIFEST);
        if !cookie.is_empty() {
            request = request.header("cookie", cookie);
        }
        reply(request.body(body)).await
    }
}

/// Returns everything in a response that could distinguish two absent resources.
fn stripped(reply: &Reply, name: &str) -> String {
    let mut headers: Vec<String> = reply
        .headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "date" | "x-correlation-id" | "content-length"))
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or_default()))
        .collect();
    headers.sort();
    format!("{} {} {}", reply.status, headers.join(" | "), reply.text()).replace(name, "NAME")
}

/// Returns the fixture's actors and the accounts of this matrix: name, token, cookie.
async fn actors(kit: &Kit, fixture: &Fixture) -> Vec<(String, String, String)> {
    let admin = fixture.client(kit, "tenant_admin");
    let mut actors: Vec<(String, String, String)> = ACTORS
        .iter()
        .map(|actor| ((*actor).to_owned(), fixture.token(actor).to_owned(), String::new()))
        .collect();
    for (name, permissions) in ACCOUNTS {
        let path = format!("/v1/projects/{}/service-accounts", fixture.id("train"));
        let body = json!({"name": name.replace('_', "-"), "permissions": permissions});
        let id = admin.post(&path, body).await.ok().text_of("id");
        let token = admin.post("/v1/tokens", json!({"service_account": id, "name": "t"})).await.ok();
        actors.push(((*name).to_owned(), token.text_of("secret"), String::new()));
    }
    // A person with push permission and a browser session: neither the cookie nor its value opens the registry.
    let (email, password) = ("browser@acme.example", "correct horse battery");
    let person = json!({"email": email, "tenant": "acme", "password": password});
    kit.operator().post("/v1/users", person).await.ok();
    let role = json!({"user": email, "role": "project_admin", "project": "acme.train"});
    admin.post("/v1/role-bindings", role).await.ok();
    let login = json!({"method": "password", "tenant": "acme", "email": email, "password": password});
    let session = admin.with_token("").post("/v1/sessions", login).await.ok();
    let cookie = session.header("set-cookie").split(';').next().unwrap().to_owned();
    let value = cookie.split_once('=').unwrap().1.to_owned();
    actors.push(("session_cookie".to_owned(), String::new(), cookie));
    actors.push(("session_value".to_owned(), value, String::new()));
    actors
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_registry_access() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let actors = actors(&kit, &fixture).await;
    let owner = Remote::new(&kit, 0, fixture.token("tenant_admin"), "");
    let mut table = format!("{:20}", "request");
    table.extend(actors.iter().map(|(actor, ..)| format!(" {actor}")));
    table.push('\n');
    let mut answers = BTreeSet::new();
    let mut invisible: BTreeMap<(&str, &str), (Reply, String)> = BTreeMap::new();
    let mut number = 0;
    for row in ROWS {
        table.push_str(&format!("{row:20}"));
        let mut stage = None;
        for (actor, token, cookie) in &actors {
            let used = match stage.take() {
                Some(stage) => stage,
                None => {
                    number += 1;
                    Stage::new(&owner, &format!("acme.train/s{number}")).await
                }
            };
            let name = used.owner.name.clone();
            let answer = used.knock(row, token, cookie, &name).await;
            answers.insert(format!("{} {}", answer.status, answer.code()).trim().to_owned());
            // A mount answered with an upload mounted nothing.
            let granted = answer.status < 300 && (*row, answer.status) != ("mount", 202);
            let cell = if granted { "yes".to_owned() } else { answer.status.to_string() };
            table.push_str(&format!(" {cell:>width$}", width = actor.len()));
            let changes =
                !matches!(*row, "base" | "token" | "catalog" | "tags" | "referrers" | "upload_status")
                    && !row.ends_with("_get")
                    && !row.ends_with("_head");
            if answer.status == 404 {
                invisible.insert((row, actor), (answer.clone(), name));
            }
            if !(changes && answer.status < 300) {
                stage = Some(used);
            }
        }
        table.push('\n');
    }
    table.push_str("\nanswers that were seen:\n");
    table.extend(answers.iter().map(|answer| format!("{answer}\n")));
    golden(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/registry-access.txt"), &table);

    // Invisible equals absent, byte by byte: no repository, no project, no tenant.
    assert!(invisible.len() > 50, "many were told that nothing is there: {}", invisible.len());
    let stage = Stage::new(&owner, "acme.train/last").await;
    for ((row, actor), (answer, name)) in &invisible {
        let (_, token, cookie) = actors.iter().find(|(name, ..)| name == actor).unwrap();
        let seen = stripped(answer, name);
        for absent in ["acme.train/never", "acme.never/base", "never.train/base", "never/base"] {
            let other = stage.knock(row, token, cookie, absent).await;
            assert_eq!(stripped(&other, absent), seen, "{row} by {actor}: {absent} is told apart");
        }
    }
    kit.stop().await;
}

/// Content that exists only in unreadable repositories is absent, for reads and for mounts.
#[tokio::test(flavor = "multi_thread")]
async fn content_of_others_cannot_be_taken_over_or_felt() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let theirs = Remote::new(&kit, 0, fixture.token("other_tenant_admin"), "globex.lab/secret");
    theirs.push("v1", &Image::of("secret")).await.is(201);
    let mine = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/mine");
    mine.push("v1", &Image::of("mine")).await.is(201);
    let (there, nowhere) = (digest(&Image::of("secret").layer), digest(b"nobody has this"));
    let told = async |path: &str, method: &str| {
        let mut answers = Vec::new();
        for digest in [&there, &nowhere] {
            let answer = mine.send(method, &path.replace("DIGEST", digest), b"").await;
            answers.push(stripped(&answer, digest));
        }
        answers
    };
    for (method, path) in
        [("GET", "{}/blobs/DIGEST"), ("HEAD", "{}/blobs/DIGEST"), ("DELETE", "{}/blobs/DIGEST")]
    {
        let answers = told(path, method).await;
        assert!(answers[0].starts_with("404"), "{method}: {answers:?}");
        assert_eq!(answers[0], answers[1], "{method} {path}");
    }
    // A mount from an unreadable repository is an ordinary upload, whether or not the content exists.
    for from in ["globex.lab/secret", "globex.lab/never", "never.lab/secret", "acme.train/never"] {
        let path = format!("{{}}/blobs/uploads/?mount={there}&from={from}");
        let started = mine.send("POST", &path, b"").await.is(202);
        assert!(started.header("location").contains("/blobs/uploads/"), "{from}");
    }
    mine.get(&format!("{{}}/blobs/{there}")).await.refused(404, "BLOB_UNKNOWN");
    // A manifest cannot refer to it either, and a push of the same bytes only shares the disk.
    let reaching = Image::of("secret");
    mine.blob(&reaching.config).await.is(201);
    mine.manifest("v2", &reaching.manifest).await.refused(404, "MANIFEST_BLOB_UNKNOWN");
    mine.blob(&reaching.layer).await.is(201);
    mine.manifest("v2", &reaching.manifest).await.is(201);
    mine.pulls(&reaching).await.unwrap();
    // An upload is only found in its own repository.
    let upload = mine.upload().await;
    let elsewhere = upload.replace("acme.train/mine", "acme.train/other");
    mine.named("acme.train/other").blob(b"x").await.is(201);
    mine.send("PATCH", &elsewhere, b"x").await.refused(404, "BLOB_UPLOAD_UNKNOWN");
    mine.send("PATCH", &upload, b"x").await.is(202);
    kit.stop().await;
}
