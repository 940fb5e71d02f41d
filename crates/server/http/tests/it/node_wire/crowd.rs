//! Many connections to the node listener: those of one address or one node keep no other agent out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use muster_testkit::{Database, Kit};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::agent::{Agent, csr, enrol, join_body, send};

/// With 64 connections there are 16 handshakes and 8 joins per address, and 32 connections per node.
const SETTINGS: &[(&str, &str)] = &[("http.max_connections", "64"), ("http.timeout_seconds", "60")];
const ATTACKER: &str = "127.0.0.66:0";

async fn dial(address: SocketAddr) -> TcpStream {
    dial_from(ATTACKER, address).await
}

async fn dial_from(source: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(source.parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
}

/// Connects with this identity, or without a certificate.
async fn dial_tls(kit: &Kit, agent: Option<&Agent>) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(kit.authority().await.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match agent {
        None => builder.with_no_client_auth(),
        Some(agent) => {
            let chain = CertificateDer::pem_slice_iter(agent.certificate.as_bytes());
            let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(agent.key.serialize_pem().as_bytes());
            builder.with_client_auth_cert(chain.collect::<Result<_, _>>().unwrap(), key.unwrap()).unwrap()
        }
    };
    let stream = dial(kit.nodes_address(0)).await;
    TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream).await
}

/// Reports whether the server has closed the connection.
async fn is_closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> bool {
    let read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut [0])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_one_address_keep_no_agent_out() {
    let kit = Kit::start_with(Database::sqlite(), 1, SETTINGS).await;
    let agent = Agent::start(&kit, 0).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(dial(kit.nodes_address(0)).await);
    }
    let began = Instant::now();
    let other = tokio::time::timeout(Duration::from_secs(4), Agent::start(&kit, 0)).await;
    let other = other.expect("another machine joins while they idle");
    agent.poll(0).await.ok();
    other.poll(0).await.ok();
    let mut open = 0;
    for stream in &mut idle {
        open += usize::from(!is_closed(stream).await);
    }
    assert!(open <= 16, "{open} connections of one address wait for their handshake");
    // Each of them has its time, so that agents behind the same address are served after it.
    while !is_closed(idle.last_mut().unwrap()).await || open > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "{open} idle connections are left");
        open = 0;
        for stream in &mut idle {
            open += usize::from(!is_closed(stream).await);
        }
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_of_one_address_leave_room_for_machines_that_join() {
    let kit = Kit::start_with(Database::sqlite(), 1, SETTINGS).await;
    let mut strangers = Vec::new();
    for _ in 0..24 {
        // One beyond the limit is closed after its handshake, which the client may see as an error.
        if let Ok(stranger) = dial_tls(&kit, None).await {
            strangers.push(stranger);
        }
    }
    let mut open = 0;
    for stream in &mut strangers {
        open += usize::from(!is_closed(stream).await);
    }
    assert!((1..=8).contains(&open), "{open} connections without a certificate");
    Agent::start(&kit, 0).await;
    // They cannot stay by asking for nothing again and again.
    let stranger = strangers.first_mut().unwrap();
    let ask = b"POST /node/v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    stranger.write_all(ask).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stranger.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "one request each: {}", String::from_utf8_lossy(&answer));
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_so_many_connections_and_no_more() {
    let kit = Kit::start_with(Database::sqlite(), 1, SETTINGS).await;
    let hostile = Agent::start(&kit, 0).await;
    let honest = Agent::join(&kit, 0).await;
    let mut held = Vec::new();
    for _ in 0..100 {
        if let Ok(stream) = dial_tls(&kit, Some(&hostile)).await {
            held.push(stream);
        }
    }
    let mut open = 0;
    for stream in &mut held {
        open += usize::from(!is_closed(stream).await);
    }
    assert!((1..=32).contains(&open), "{open} connections of one node");
    let welcome = tokio::time::timeout(Duration::from_secs(4), honest.hello(json!([]))).await;
    welcome.expect("another node is served").ok();
    drop(held);
    let began = Instant::now();
    while dial_tls(&kit, Some(&hostile)).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(5), "its connections are free again");
    }
    kit.stop().await;
}

/// Attack: strangers with many addresses hold every slot for handshakes, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_many_addresses_keep_no_known_node_out() {
    let kit = Kit::start_with(Database::sqlite(), 1, SETTINGS).await;
    let agent = Agent::start(&kit, 0).await;
    let mut idle = Vec::new();
    for number in 0..300 {
        let source = format!("127.0.2.{}:0", number % 100 + 1);
        idle.push(dial_from(&source, kit.nodes_address(0)).await);
    }
    // With a connection of its own, which needs a handshake.
    let identity = Some((&agent.key, agent.certificate.as_str()));
    let again = super::agent::client(&kit.authority().await, identity);
    let body = json!({"session": agent.session, "wait_seconds": 0});
    let polled = send(&again, kit.nodes_address(0), "poll", &body);
    let polled = tokio::time::timeout(Duration::from_secs(3), polled).await;
    polled.expect("a known node is served meanwhile").unwrap().ok();
    let mut open = 0;
    for stream in &mut idle {
        open += usize::from(!is_closed(stream).await);
    }
    assert!(open <= 32, "{open} handshakes of strangers");
    kit.stop().await;
}

/// Attack: the certificates of a few nodes take every connection.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_a_few_nodes_leave_some_to_other_nodes() {
    let kit = Kit::start_with(Database::sqlite(), 1, SETTINGS).await;
    let honest = Agent::join(&kit, 0).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let hostile = Agent::join(&kit, 0).await;
        for _ in 0..40 {
            if let Ok(stream) = dial_tls(&kit, Some(&hostile)).await {
                held.push(stream);
            }
        }
    }
    let mut open = 0;
    for stream in &mut held {
        open += usize::from(!is_closed(stream).await);
    }
    assert!((40..=60).contains(&open), "{open} of 64 connections");
    let welcome = tokio::time::timeout(Duration::from_secs(4), honest.hello(json!([]))).await;
    welcome.expect("another node is served").ok();
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_of_one_node_take_a_few_slots_of_its_own() {
    let kit = Kit::sqlite().await;
    let (hostile, honest) = (Agent::start(&kit, 0).await, Agent::start(&kit, 0).await);
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = dial_tls(&kit, Some(&hostile)).await.unwrap();
        let head = "POST /node/v1/hello HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Content-Length: 200000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&[b' '; 60_000]).await.unwrap();
        slow.push(stream);
    }
    // A refused body is read for two seconds, so that its sender sees the refusal.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut refused = 0;
    for stream in &mut slow {
        let mut bytes = vec![0; 512];
        if let Ok(Ok(read)) = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut bytes)).await {
            refused += usize::from(bytes[..read].starts_with(b"HTTP/1.1 429"));
        }
    }
    assert_eq!(refused, 5, "three arrive");
    let large = json!({"agent_version": "0.1.0", "inventory": super::agent::machine(256), "sandboxes": []});
    assert!(large.to_string().len() > 16 << 10);
    hostile.send("hello", &large).await.refused(429, "rate_limited");
    hostile.poll(0).await.ok();
    honest.send("hello", &large).await.ok();
    drop(slow);
    kit.stop().await;
}

/// Agents behind one address, such as a simulated fleet: more than dial at once are served one after another.
#[tokio::test(flavor = "multi_thread")]
async fn agents_that_share_an_address_are_all_served() {
    let settings = [("http.max_connections", "256")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    let authority = kit.authority().await;
    let joins = (0..48).map(|_| async {
        let token = enrol(kit.store(), None, 10).await;
        let key = rcgen::KeyPair::generate().unwrap();
        let http = super::agent::client(&authority, None);
        let began = Instant::now();
        loop {
            let body = join_body(&token, &csr(&key));
            match send(&http, kit.nodes_address(0), "join", &body).await {
                Ok(answer) => break answer.ok(),
                // As an agent does.
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it never joins");
        }
    });
    let joined = joins.collect::<FuturesUnordered<_>>().count().await;
    assert_eq!(joined, 48);
    kit.stop().await;
}
