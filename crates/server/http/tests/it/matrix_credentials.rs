//! The access matrix of credentials other than personal and account tokens: an adapter's minted token, pull credentials
//! of registries and nodes, a browser's cookie with and without its CSRF token, and a node's certificate.

use std::collections::BTreeMap;
use std::path::Path;

use muster_api::{Kind, endpoints};
use muster_testkit::{Client, Database, Fixture, Kit, golden};
use serde_json::{Value, json};

use crate::matrix::{Templates, copy_of, knock, request_of};
use crate::node_wire::agent::Agent;
use crate::registry::Remote;

const PASSWORD: &str = "correct horse battery";

/// In column order.
const CREDENTIALS: &[&str] =
    &["minted_token", "registry_token", "pull_secret", "project_admin", "cookie", "cookie_without_csrf"];

/// Headers by credential.
type Credentials = BTreeMap<&'static str, Vec<(&'static str, String)>>;

/// Obtains one of each. All are valid for their intended use.
async fn obtain(kit: &Kit, fixture: &Fixture) -> Credentials {
    let project = format!("/v1/projects/{}", fixture.id("train"));
    let account = fixture.client(kit, "account_with_grant");
    let bearer = |token: &str| vec![("authorization", format!("Bearer {token}"))];
    let mint = json!({"entitlement": fixture.id("entitlement")});
    let minted = account.post(&format!("{project}/operator-tokens"), mint).await.ok().text_of("secret");
    let minted = bearer(&minted);
    client_with(kit, &minted).get("/v1/whoami").await.ok();
    let remote = Remote::new(kit, 0, fixture.token("project_admin"), "acme.train/base");
    let registry =
        remote.get("token?service=x&scope=repository:acme.train/base:pull,push").await.is(200).json();
    let registry = registry["token"].as_str().unwrap().to_owned();
    remote.with_token(&registry).send("GET", "{}/tags/list", b"").await.is(200);
    let pull = json!({"purpose": "artifact_pull", "name": "pulls", "repository": "base", "cell": fixture.id("cell")});
    let pull = account.post(&format!("{project}/runtime-secrets"), pull).await.ok();
    let pull = pull.body["value"].as_str().unwrap_or_else(|| panic!("{}", pull.text)).to_owned();
    let admin = fixture.id("project_admin");
    let password = json!({"password": PASSWORD});
    let tenant_admin = fixture.client(kit, "tenant_admin");
    tenant_admin.post(&format!("/v1/users/{admin}/set-password"), password).await.ok();
    let login = json!({"method": "password", "tenant": "acme", "email": "project_admin@acme.example", "password": PASSWORD});
    let session = kit.client_of(0, "").post("/v1/sessions", login).await.ok();
    let cookie = session.header("set-cookie").split(';').next().unwrap().to_owned();
    let csrf = ("x-csrf-token", session.text_of("csrf_token"));
    let browser = vec![("cookie", cookie.clone()), csrf];
    // The new password revoked the person's tokens.
    let token = client_with(kit, &browser).post("/v1/tokens", json!({"name": "after"})).await.ok();
    [
        ("minted_token", minted),
        ("registry_token", bearer(&registry)),
        ("pull_secret", bearer(&pull)),
        ("project_admin", bearer(&token.text_of("secret"))),
        ("cookie", browser),
        ("cookie_without_csrf", vec![("cookie", cookie)]),
    ]
    .into()
}

fn client_with(kit: &Kit, headers: &[(&'static str, String)]) -> Client {
    let nobody = kit.client_of(0, "");
    headers.iter().fold(nobody, |client, (name, value)| client.with_header(name, value))
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_access_by_credential() {
    access_by_credential(Database::sqlite()).await;
}

/// The same file: the answers must not depend on the database.
#[tokio::test(flavor = "multi_thread")]
async fn golden_access_by_credential_on_postgres() {
    access_by_credential(Database::postgres()).await;
}

async fn access_by_credential(database: Database) {
    let (templates, fixture) = Templates::build(database).await;
    let kit = copy_of(&templates.holding).await;
    let credentials = obtain(&kit, &fixture).await;
    kit.sealed().await;
    let with_credentials = kit.database.clone();
    kit.stop().await;
    let mut server: Option<Kit> = None;
    let mut table = format!("{:24} {}\n", "operation", CREDENTIALS.join(" "));
    for operation in endpoints() {
        table.push_str(&format!("{:24}", operation.id));
        let mut answers = BTreeMap::new();
        for name in CREDENTIALS {
            let kit = match server.take() {
                Some(kit) => kit,
                None => copy_of(&with_credentials).await,
            };
            let (status, _, _) = knock(&client_with(&kit, &credentials[name]), &operation, &fixture).await;
            answers.insert(*name, status);
            let cell = if status < 300 { "yes".to_owned() } else { status.to_string() };
            table.push_str(&format!(" {cell:>width$}", width = name.len()));
            // A stream can be joined once, so joining changes something too.
            if status < 300 && (operation.kind != Kind::Read || operation.id == "stream_join") {
                kit.stop().await;
            } else {
                server = Some(kit);
            }
        }
        table.push('\n');
        let id = operation.id;
        for stranger in ["registry_token", "pull_secret"] {
            assert_eq!(answers[stranger], 401, "{id}: {stranger} is no credential of the API");
        }
        // A session can be ended by its cookie only, which a token is not.
        if id != "session_delete" {
            assert_eq!(answers["cookie"], answers["project_admin"], "{id}: a cookie is its person");
        }
        if operation.kind != Kind::Read && !matches!(id, "session_create") {
            assert_eq!(answers["cookie_without_csrf"], 403, "{id}: a command needs the CSRF token");
        }
    }
    if let Some(kit) = server {
        kit.stop().await;
    }
    golden(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/access-by-credential.txt"), &table);
}

/// Nodes have their own listener, which does not serve the platform's API, regardless of the credential.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_certificate_opens_no_operation_of_the_platform() {
    for database in Database::both() {
        try_with_node_certificate(database).await;
    }
}

async fn try_with_node_certificate(database: Database) {
    let (templates, fixture) = Templates::build(database).await;
    let kit = copy_of(&templates.holding).await;
    let agent = Agent::start(&kit, 0).await;
    for operation in endpoints() {
        let (method, path, body) = request_of(&operation, &fixture);
        for token in ["", kit.operator_token.as_str()] {
            let url = format!("https://localhost:{}{path}", agent.address.port());
            let mut request = agent.http.request(method.clone(), url).header("idempotency-key", "k");
            if !token.is_empty() {
                request = request.bearer_auth(token);
            }
            if body != Value::Null {
                request = request.json(&body);
            }
            let status = request.send().await.unwrap().status().as_u16();
            assert!(matches!(status, 404 | 405), "{}: {status}", operation.id);
        }
    }
    kit.stop().await;
}
