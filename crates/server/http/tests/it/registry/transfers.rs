//! Transfers that last: downloads end with their right, and slow ones take nothing from other callers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::{Image, Remote, digest};

/// Far more than the system buffers between a server and a client on one machine.
const LONG: usize = 48 << 20;
const NAME: &str = "acme.train/base";

/// A download that is read by hand.
struct Download {
    stream: TcpStream,
    read: usize,
}

impl Download {
    async fn open(address: SocketAddr, token: &str, blob: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self::get(stream, token, &format!("blobs/{blob}")).await
    }

    async fn get(mut stream: TcpStream, token: &str, what: &str) -> Self {
        let head = format!(
            "GET /v2/{NAME}/{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream, read: 0 }
    }

    /// Returns the status of the answer.
    async fn status(&mut self) -> String {
        let mut bytes = vec![0; 12];
        self.stream.read_exact(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes[9..]).into_owned()
    }

    /// Reads until the transfer ends, pausing now and then; returns the bytes.
    async fn read_on(&mut self, most: usize, pause: Duration) -> usize {
        let mut bytes = vec![0; 1 << 20];
        while self.read < most {
            match self.stream.read(&mut bytes).await {
                Ok(0) | Err(_) => break,
                Ok(read) => self.read += read,
            }
            tokio::time::sleep(pause).await;
        }
        self.read
    }
}

async fn pushed(kit: &Kit, fixture: &Fixture) -> String {
    let content = vec![b'x'; LONG];
    Remote::new(kit, 0, fixture.token("tenant_admin"), NAME).blob(&content).await.is(201);
    digest(&content)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_ends_within_five_seconds_of_its_right_and_not_with_a_short_token() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let (admin, address) = (fixture.client(&kit, "tenant_admin"), kit.servers[0].address);
    let blob = pushed(&kit, &fixture).await;
    let issued = admin.post("/v1/tokens", json!({"name": "short"})).await.ok();
    let token = issued.text_of("secret");
    let scope = format!("token?service=x&scope=repository:{NAME}:pull");
    let fetched = Remote::new(&kit, 0, &token, NAME).get(&scope).await.is(200).json();
    let registry_token = fetched["token"].as_str().unwrap();

    let mut downloads = [
        Download::open(address, &token, &blob).await,
        Download::open(address, registry_token, &blob).await,
        Download::open(address, fixture.token("tenant_admin"), &blob).await,
    ];
    for download in &mut downloads {
        assert_eq!(download.status().await, "200");
    }
    admin.post(&format!("/v1/tokens/{}/revoke", issued.text_of("id")), json!({})).await.ok();
    let revoked = Instant::now();
    let [own, derived, valid] = &mut downloads;
    // The readers stay for longer than five seconds.
    let slowly = Duration::from_millis(250);
    let (own, derived, valid) = tokio::join!(
        own.read_on(LONG, slowly),
        derived.read_on(LONG, slowly),
        valid.read_on(LONG / 2, slowly)
    );
    assert!(revoked.elapsed() > Duration::from_secs(2), "{:?}", revoked.elapsed());
    assert!(own < LONG && derived < LONG, "{own} and {derived} bytes of {LONG}");
    assert!(valid >= LONG / 2, "{valid}");
    assert_eq!(
        downloads[2].read_on(LONG, Duration::ZERO).await.min(LONG),
        LONG,
        "the other goes on to its end"
    );
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_that_are_not_read_are_bounded_by_bytes_and_end_with_their_time() {
    // Four downloads' buffers: one tenant has two of them, and leaves two.
    let settings = [("http.unread_bytes", "1048576"), ("http.timeout_seconds", "1")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let fixture = Fixture::build(&kit).await;
    let address = kit.servers[0].address;
    let blob = pushed(&kit, &fixture).await;
    let mut unread = Vec::new();
    for expected in ["200", "200", "429"] {
        let mut download = Download::open(address, fixture.token("tenant_admin"), &blob).await;
        assert_eq!(download.status().await, expected);
        unread.push(download);
    }
    let admin = fixture.client(&kit, "tenant_admin");
    admin.get("/v1/whoami").await.ok();
    fixture.client(&kit, "other_tenant_admin").get("/v1/events?tenant=globex").await.ok();
    // Nothing is read for twice the timeout: the connections end, and their memory is free again.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let remote = Remote::new(&kit, 0, fixture.token("tenant_admin"), NAME);
    assert_eq!(remote.get(&format!("{{}}/blobs/{blob}")).await.is(200).bytes.len(), LONG);
    for download in &mut unread[..2] {
        let read = download.read_on(LONG, Duration::ZERO).await;
        assert!(read < LONG, "{read} bytes were kept for it");
    }
    kit.stop().await;
}

/// A manifest is held in memory, unlike a blob: one of nearly 4 MiB that is requested and never read counts.
#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_are_requested_and_never_read_count_by_their_bytes() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("http.unread_bytes", "12582912")]).await;
    let fixture = Fixture::build(&kit).await;
    let address = kit.servers[0].address;
    let remote = Remote::new(&kit, 0, fixture.token("tenant_admin"), NAME);
    let image = Image::of("many");
    remote.push("v1", &image).await.is(201);
    let mut manifest: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
    let mut layer = manifest["layers"][0].clone();
    layer["annotations"] = json!({"note": "x".repeat(750)});
    manifest["layers"] = json!(vec![layer; 4000]);
    let manifest = manifest.to_string().into_bytes();
    assert!(manifest.len() > 3 << 20);
    remote.send("PUT", "{}/manifests/long", &manifest).await.is(201);
    let (mut unread, mut statuses) = (Vec::new(), Vec::new());
    // The kernel's buffers take a part of each response, sometimes a whole one.
    while statuses.last().is_none_or(|last| last == "200") && statuses.len() < 12 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let stream = socket.connect(address).await.unwrap();
        let mut get = Download::get(stream, fixture.token("tenant_admin"), "manifests/long").await;
        statuses.push(get.status().await);
        unread.push(get);
    }
    assert!(statuses.len() > 2 && statuses.last().unwrap() == "429", "{statuses:?}");
    // Small answers and other tenants are served, and what is read no longer counts.
    remote.get("{}/manifests/v1").await.is(200);
    fixture.client(&kit, "other_tenant_admin").get("/v1/whoami").await.ok();
    unread.pop();
    for get in &mut unread {
        assert!(get.read_on(manifest.len(), Duration::ZERO).await >= manifest.len());
    }
    assert_eq!(remote.get("{}/manifests/long").await.is(200).bytes.len(), manifest.len());
    kit.stop().await;
}

/// Starts a push whose body never comes.
async fn slow(address: SocketAddr, token: &str, method: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} /v2/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: {}\r\nContent-Length: 100000\r\n\r\nx",
        super::MANIFEST
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Counts the pushes that were refused.
async fn refused(streams: &mut [TcpStream]) -> usize {
    let mut refused = 0;
    for stream in streams {
        let mut bytes = vec![0; 512];
        if let Ok(Ok(read)) = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut bytes)).await {
            refused += usize::from(bytes[..read].starts_with(b"HTTP/1.1 429"));
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_pushes_of_one_caller_take_no_slot_that_others_need() {
    let settings = [("limits.tenant_in_flight", "4"), ("limits.uploads_per_tenant", "8")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let fixture = Fixture::build(&kit).await;
    let (address, token) = (kit.servers[0].address, fixture.token("project_admin"));
    let remote = Remote::new(&kit, 0, fixture.token("tenant_admin"), NAME);
    let image = Image::of("one");
    remote.push("v1", &image).await.is(201);
    let mut slow_pushes = Vec::new();
    for number in 0..12 {
        let digest = digest(format!("{number}").as_bytes());
        let path = format!("{NAME}/blobs/uploads/?digest={digest}");
        slow_pushes.push(slow(address, token, "POST", &path).await);
    }
    for number in 0..12 {
        slow_pushes.push(slow(address, token, "PUT", &format!("{NAME}/manifests/v{number}")).await);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Others of the same tenant push, pull and work.
    remote.push("v2", &Image::of("two")).await.is(201);
    remote.pulls(&image).await.unwrap();
    fixture.client(&kit, "tenant_admin").get("/v1/whoami").await.ok();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(refused(&mut slow_pushes).await, 6, "six of eight uploads are one caller's at most");
    drop(slow_pushes);
    kit.stop().await;
}
