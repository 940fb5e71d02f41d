//! An operator's tasks: start a server wrongly, start it correctly, inspect it, stop it.

use std::process::Command;

use muster_http::{Settings, StartError};
use muster_ids::Env;
use muster_testkit::{Client, Database, Kit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    settings.set("nodes.listen", "127.0.0.1:0".to_owned(), "the test").unwrap();
    for (key, value) in pairs {
        settings.set(key, (*value).to_owned(), "the test").unwrap();
    }
    settings
}

#[test]
fn the_document_of_settings_is_the_table() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/configuration.md");
    let document = std::fs::read_to_string(path).unwrap();
    // A release does not have the setting of the feature `test-api`.
    let table: Vec<_> = muster_http::TABLE.iter().filter(|setting| setting.key != "engine.kill_at").collect();
    for setting in &table {
        let default =
            if setting.default.is_empty() { "–".to_owned() } else { format!("`{}`", setting.default) };
        let row = format!(
            "| `{}` | `{}` | `--{}` | {default} | {} |",
            setting.key,
            setting.environment(),
            setting.flag(),
            setting.meaning
        );
        assert!(document.contains(&row), "docs/reference/configuration.md lacks this row:\n{row}");
    }
    let rows = document.lines().filter(|line| line.starts_with("| `") && line.contains("`MUSTER_")).count();
    assert_eq!(rows, table.len(), "a row stands there for a setting that does not exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_at_a_plain_listener_is_answered_with_the_reason() {
    let kit = muster_testkit::Kit::sqlite().await;
    let mut stream = tokio::net::TcpStream::connect(kit.servers[0].address).await.unwrap();
    // The beginning of a ClientHello.
    stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("use http://"), "{answer}");
    kit.stop().await;
}

/// SQLite takes an empty file for a new database: a platform that lost its rows would start as another one.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_database_is_refused_with_advice_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let start = || {
        let settings = settings(&[("http.listen", "127.0.0.1:0"), ("nodes.listen", ""), ("data.dir", &data)]);
        async move { muster_http::start(&settings, Env::system()).await }
    };
    start().await.unwrap().stop().await;
    let file = folder.path().join("muster.db");
    for beside in ["muster.db-wal", "muster.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(beside));
    }
    std::fs::write(&file, "").unwrap();
    let why = start().await.err().expect("it does not start").to_string();
    assert!(why.contains("muster.db is empty") && why.contains("restore it from a backup"), "{why}");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_beyond_loopback_is_refused_and_tls_works() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let plain =
        muster_http::start(&settings(&[("http.listen", "0.0.0.0:0"), ("data.dir", &data)]), Env::system())
            .await;
    assert!(matches!(plain, Err(StartError::Exposed(_))));

    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "1",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext"])
        .args([
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            key.to_str().unwrap(),
            "-out",
            cert.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let secured = [
        ("http.listen", "127.0.0.1:0"),
        ("data.dir", data.as_str()),
        ("tls.cert_file", cert.to_str().unwrap()),
        ("tls.key_file", key.to_str().unwrap()),
    ];
    let running = muster_http::start(&settings(&secured), Env::system()).await.unwrap();
    let ca = reqwest::Certificate::from_pem(&std::fs::read(&cert).unwrap()).unwrap();
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([ca]).build().unwrap();
    let token = std::fs::read_to_string(folder.path().join("operator.token")).unwrap();
    let url = format!("https://localhost:{}/v1/whoami", running.address.port());
    let answer = http.get(url).bearer_auth(token.trim()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    for address in [running.address, running.nodes_address.unwrap()] {
        let plain = reqwest::get(format!("http://{address}/healthz")).await.unwrap();
        let (status, text) = (plain.status(), plain.text().await.unwrap());
        assert!(status == 400 && text.contains("use https://"), "{status} {text}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_writes_the_operators_token_once_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let kit = Kit::sqlite().await;
    let file = kit.database.folder().join("operator.token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    kit.operator().get("/v1/whoami").await.ok();
    let database = kit.database.clone();
    let token = kit.operator_token.clone();
    kit.stop().await;
    std::fs::remove_file(&file).unwrap();
    let url = database.folder().join("muster.db").display().to_string();
    let folder = database.folder().display().to_string();
    let again = settings(&[("http.listen", "127.0.0.1:0"), ("data.dir", &folder), ("database.url", &url)]);
    let running = muster_http::start(&again, Env::system()).await.unwrap();
    assert!(running.first_token_file.is_none() && !file.exists());
    Client::new(running.address, &token).get("/v1/whoami").await.ok();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_with_another_root_key_does_not_start() {
    let kit = Kit::start(Database::postgres(), 1).await;
    let muster_db::Location::Postgres(url) = &kit.database.location else { unreachable!() };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let registry = kit.database.folder().join("registry").display().to_string();
    let alone = settings(&[
        ("http.listen", "127.0.0.1:0"),
        ("data.dir", &data),
        ("database.url", url),
        ("registry.dir", &registry),
    ]);
    let refused = muster_http::start(&alone, Env::system()).await.err().expect("it has no root key");
    assert!(refused.to_string().contains("root.key"), "{refused}");
    let file = folder.path().join("root.key");
    muster_keys::RootKeys::open(&file, true, &Env::system()).unwrap();
    let refused = muster_http::start(&alone, Env::system()).await.err().expect("it has another root key");
    assert!(refused.to_string().contains("root.key"), "{refused}");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_from_a_newer_release_is_refused() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let newer = match kit.store().kind() {
            "postgres" => {
                "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'later', true, ''::bytea, 0)"
            }
            _ => {
                "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'later', true, x'', 0)"
            }
        };
        kit.store().sabotage(newer).await.unwrap();
        let error = muster_db::Store::open(&kit.database.location, 2).await.err().expect("it is refused");
        assert!(error.to_string().contains("999"), "{error}");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_answer_and_metrics_are_for_operators() {
    let kit = Kit::sqlite().await;
    let nobody = kit.client_of(0, "");
    assert_eq!(nobody.get("/healthz").await.text, "ok\n");
    assert_eq!(nobody.get("/readyz").await.text, "ready\n");
    assert_eq!(nobody.get("/openapi.json").await.body["openapi"], "3.1.0");
    nobody.get("/metrics").await.refused(401, "unauthenticated");
    let operator = kit.operator();
    operator.post("/v1/tenants", json!({"slug": "acme"})).await.ok();
    let metrics = operator.get("/metrics").await;
    assert!(
        metrics.text.contains("muster_http_requests_total{endpoint=\"tenant_create\",status=\"201\"} 1"),
        "{}",
        metrics.text
    );
    operator.post("/v1/users", json!({"email": "a@acme.example", "tenant": "acme"})).await.ok();
    let status = operator.get("/v1/status").await.ok();
    assert_eq!(status.body["healthy"], true);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_see_each_other_in_the_status() {
    let kit = Kit::start(Database::postgres(), 2).await;
    for _ in 0..50 {
        let status = kit.operator().get("/v1/status").await.ok();
        if status.body["replicas"].as_array().unwrap().len() == 2 {
            return kit.stop().await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("two replicas should be seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_thread_of_a_request_is_taken_over_and_returned() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    let request = operator.request(reqwest::Method::POST, "/v1/tenants").header("idempotency-key", "k");
    let request = request.header("x-correlation-id", "my-thread").json(&json!({"slug": "acme"}));
    assert_eq!(operator.send(request).await.ok().header("x-correlation-id"), "my-thread");
    let request =
        operator.request(reqwest::Method::GET, "/v1/tenants/nothing").header("x-correlation-id", "my-thread");
    assert_eq!(operator.send(request).await.body["correlation_id"], "my-thread");
    kit.sealed().await;
    let events = operator.get("/v1/events?tenant=acme").await.ok();
    assert_eq!(events.body["items"][0]["correlationid"], "my-thread");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_room_makes_a_server_unready_until_a_write_succeeds() {
    let kit = Kit::start(Database::postgres(), 1).await;
    let operator = kit.operator();
    let becomes = async |word: &str| {
        for _ in 0..300 {
            if operator.with_token("").get("/readyz").await.text.contains(word) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("it did not become {word}");
    };
    becomes("ready").await;
    // Every write fails as on a full disk.
    kit.store()
        .sabotage(
            "CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$;
             DO $$ DECLARE name text; BEGIN
                FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
                    EXECUTE format('CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON %I EXECUTE FUNCTION disk_full()',
                        name);
                END LOOP;
             END $$",
        )
        .await
        .unwrap();
    operator.post("/v1/tenants", json!({"slug": "acme"})).await.refused(507, "storage_full");
    becomes("the disk of the database is full").await;
    assert_eq!(operator.get("/v1/status").await.ok().body["healthy"], false);
    kit.store().sabotage("DROP FUNCTION disk_full CASCADE").await.unwrap();
    becomes("ready").await;
    operator.post("/v1/tenants", json!({"slug": "acme"})).await.ok();
    kit.stop().await;
}
