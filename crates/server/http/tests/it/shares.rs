//! Fair shares: one caller's worst load takes nothing from operators, logins, probes and other tenants.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends a request with a body that never arrives.
async fn slow_login(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Idempotency-Key: k\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Sends a GET and returns the first line of the response, or nothing if the connection ends without one.
async fn first_line(address: SocketAddr, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let bearer = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = vec![0; 512];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut bytes)).await;
    let read = read.expect("an answer within five seconds").unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).lines().next().unwrap_or_default().to_owned()
}

/// Opens an event stream.
async fn listen(address: SocketAddr, token: &str, query: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /v1/events/stream?{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = vec![0; 2048];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut bytes)).await;
    let read = read.expect("an answer within five seconds").unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
    (stream, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_come_lock_neither_operators_nor_logins_out() {
    let settings = [("limits.tenant_in_flight", "64"), ("limits.address_in_flight", "16")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let operator = kit.operator();
    let person = json!({"email": "op2@localhost", "password": "correct horse battery"});
    operator.post("/v1/users", person).await.ok();
    let mut slow = Vec::new();
    for _ in 0..200 {
        slow.push(slow_login(kit.servers[0].address).await);
    }
    operator.get("/v1/whoami").await.ok();
    let login = json!({"method": "password", "email": "op2@localhost", "password": "correct horse battery"});
    operator.with_token("").post("/v1/sessions", login).await.ok();
    drop(slow);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_does_not_hold_takes_the_share_of_its_address_alone() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("limits.address_per_second", "5")]).await;
    let stranger = kit.operator().with_token("mst_pat_not-a-token");
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(stranger.get("/v1/whoami").await.status);
    }
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
    kit.operator().get("/v1/whoami").await.ok();
    // Registry clients are no exception.
    let request = reqwest::Client::new().get(format!("http://{}/v2/", kit.servers[0].address));
    let mut registry = Vec::new();
    for _ in 0..20 {
        let sent = request.try_clone().unwrap().basic_auth("x", Some("mst_pat_not-a-token")).send();
        registry.push(sent.await.unwrap().status().as_u16());
    }
    assert!(registry.contains(&429), "{registry:?}");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_are_capped_for_an_actor_and_for_a_tenant() {
    let settings = [("events.streams_per_actor", "3"), ("events.streams_per_tenant", "4")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let fixture = Fixture::build(&kit).await;
    let address = kit.servers[0].address;
    let mut open = Vec::new();
    for _ in 0..3 {
        let (stream, answer) = listen(address, fixture.token("tenant_admin"), "tenant=acme").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        open.push(stream);
    }
    let (_, answer) = listen(address, fixture.token("tenant_admin"), "tenant=acme").await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.to_lowercase().contains("retry-after: 1"), "{answer}");
    let train = format!("project={}", fixture.id("train"));
    let (stream, answer) = listen(address, fixture.token("viewer"), &train).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    open.push(stream);
    let (_, answer) = listen(address, fixture.token("project_admin"), &train).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "the tenant's are used up: {answer}");
    let (_other, answer) = listen(address, fixture.token("other_tenant_admin"), "tenant=globex").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "another tenant has its own: {answer}");
    // A closed stream frees its slot.
    drop(open);
    let started = Instant::now();
    loop {
        let (_stream, answer) = listen(address, fixture.token("project_admin"), &train).await;
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{answer}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_and_operators_are_answered_when_every_connection_is_in_use() {
    let settings = [("http.max_connections", "8"), ("http.timeout_seconds", "60")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let fixture_token = {
        let operator = kit.operator();
        operator.post("/v1/tenants", json!({"slug": "acme"})).await.ok();
        let body =
            json!({"email": "sam@acme.example", "tenant": "acme", "password": "correct horse battery"});
        operator.post("/v1/users", body).await.ok();
        let nobody = operator.with_token("");
        let login = json!({"method": "password", "tenant": "acme", "email": "sam@acme.example",
                           "password": "correct horse battery"});
        let session = nobody.post("/v1/sessions", login).await.ok();
        let cookie = session.header("set-cookie").split(';').next().unwrap().to_owned();
        let issue = nobody
            .request(reqwest::Method::POST, "/v1/tokens")
            .header("cookie", cookie)
            .header("x-csrf-token", session.text_of("csrf_token"))
            .header("idempotency-key", "t")
            .json(&json!({"name": "t"}));
        nobody.send(issue).await.ok().text_of("secret")
    };
    let address = kit.servers[0].address;
    // The clients above keep their connections open for a while; idle ones fill the rest.
    let mut idle = Vec::new();
    for _ in 0..12 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Slots of the reserve are freed when their clients take longer than two seconds.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(first_line(address, "/healthz", "").await.contains("200"));
    assert!(first_line(address, "/readyz", "").await.contains("200"));
    assert!(first_line(address, "/v1/whoami", &kit.operator_token).await.contains("200"));
    let refused = first_line(address, "/v1/whoami", &fixture_token).await;
    assert!(refused.contains("429"), "{refused}");
    drop(idle);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_so_many_connections_and_a_proxy_names_its_callers() {
    let settings = [("http.connections_per_address", "6"), ("http.timeout_seconds", "60")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let address = kit.servers[0].address;
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let mut ended = 0;
    for stream in &mut idle {
        let mut byte = [0];
        if let Ok(Ok(0) | Err(_)) =
            tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte)).await
        {
            ended += 1;
        }
    }
    assert_eq!(ended, 34, "all but those that the address may have were turned away");
    assert!(first_line(address, "/healthz", "").await.contains("200"), "probes are answered by the reserve");
    drop(idle);
    kit.stop().await;

    let settings = [
        ("http.proxies", "127.0.0.1"),
        ("limits.address_per_second", "3"),
        ("http.connections_per_address", "1"),
    ];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let stranger = kit.operator().with_token("mst_pat_not-a-token");
    let ask = async |from: &str| {
        let request = stranger.request(reqwest::Method::GET, "/v1/whoami");
        stranger.send(request.header("x-forwarded-for", from)).await.status
    };
    let mut first = Vec::new();
    for _ in 0..10 {
        first.push(ask("10.9.9.9, 192.0.2.1").await);
    }
    assert!(first.contains(&429), "{first:?}");
    assert_eq!(
        ask("192.0.2.1, 192.0.2.2").await,
        401,
        "another caller of the same proxy has a share of its own"
    );
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_that_do_not_end_take_a_few_places_of_their_share() {
    let settings = [("limits.address_in_flight", "8"), ("limits.tenant_in_flight", "8")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let address = kit.servers[0].address;
    let mut slow = Vec::new();
    let mut refused = 0;
    for _ in 0..6 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Idempotency-Key: k\r\nContent-Length: 200000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&[b' '; 60_000]).await.unwrap();
        slow.push(stream);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    for stream in &mut slow {
        let mut bytes = vec![0; 512];
        if let Ok(Ok(read)) = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut bytes)).await {
            refused += usize::from(String::from_utf8_lossy(&bytes[..read]).starts_with("HTTP/1.1 429"));
        }
    }
    assert_eq!(refused, 4, "a quarter of eight arrive, the others are refused");
    kit.operator().get("/v1/whoami").await.ok();
    kit.stop().await;
}

/// Attack: many valid large bodies whose commands wait, here for the database. Each keeps its parsed body in memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_counts_until_it_is_answered() {
    let settings = [("limits.tenant_in_flight", "8")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");
    // SQLite has one writer: no command is carried out until this transaction ends.
    let blocker = kit.store().begin().await.unwrap();
    let create = async |at: usize| {
        // Spaces make it large.
        let body = json!({"name": format!("p{at}")}).to_string() + &" ".repeat(20 << 10);
        let request = admin.request(reqwest::Method::POST, "/v1/tenants/acme/projects");
        let request = request.header("idempotency-key", format!("k{at}"));
        admin.send(request.header("content-type", "application/json").body(body)).await
    };
    let waiting = futures::future::join_all((0..6).map(create));
    let ended = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        blocker.rollback().await;
    };
    let (answers, ()) = tokio::join!(waiting, ended);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!(refused, 4, "a quarter of eight are answered, the others are refused: {statuses:?}");
    kit.stop().await;
}
