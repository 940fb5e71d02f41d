//! A hand-written agent: keys, a client over mTLS, and nothing of the real one. It validates every response against the
//! document.

use std::net::SocketAddr;
use std::sync::LazyLock;

use jiff::SignedDuration;
use muster_db::{Enrolment, Store};
use muster_ids::{EnrolmentId, Env, NodeId};
use muster_model::Labels;
use muster_model::token::{Secret, TokenKind};
use muster_testkit::Kit;
use muster_wire::inventory::{Gpu, Inventory};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

static DOCUMENT: LazyLock<Value> = LazyLock::new(muster_wire::document);

/// Returns a machine with this many GPUs.
pub(crate) fn machine(gpus: i64) -> Inventory {
    let gpu = |ordinal| Gpu {
        ordinal,
        uuid: format!("GPU-{ordinal:04}"),
        model: "NVIDIA H200".to_owned(),
        memory_mb: 143_771,
        pci: None,
        numa: 0,
        island: 0,
        nvlinks: 18,
        mig: false,
        ..Gpu::default()
    };
    Inventory {
        hostname: "gpu-1".to_owned(),
        memory_mb: 2048,
        gpus: (0..gpus).map(gpu).collect(),
        ..Inventory::default()
    }
}

/// Creates an enrolment in the database as `node_enrol` would.
pub(crate) async fn enrol(store: &Store, name: Option<&str>, minutes: i64) -> String {
    let env = Env::system();
    let secret = Secret::make(TokenKind::Join, &env);
    let enrolment = Enrolment {
        id: env.id::<EnrolmentId>(),
        node_name: name.map(str::to_owned),
        labels: Labels::new(),
        node_id: None,
        used_with: None,
    };
    let now = env.now();
    let until = now + SignedDuration::from_mins(minutes);
    let mut tx = store.begin().await.unwrap();
    tx.enrolment_insert(&enrolment, &secret.hash(), "operator", now, until).await.unwrap();
    tx.commit().await.unwrap();
    secret.reveal().to_owned()
}

/// A response, validated against the document.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body
    }

    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> String {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        self.body["detail"].as_str().unwrap_or_default().to_owned()
    }
}

/// Returns a certificate request for a key.
pub(crate) fn csr(key: &KeyPair) -> String {
    CertificateParams::default().serialize_request(key).unwrap().pem().unwrap()
}

/// Returns a client that trusts `authority` and presents this identity, if any.
pub(crate) fn client(authority: &str, identity: Option<(&KeyPair, &str)>) -> reqwest::Client {
    let root = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
    let mut builder = reqwest::Client::builder().no_proxy().tls_certs_only([root]);
    if let Some((key, certificate)) = identity {
        let both = format!("{}{certificate}", key.serialize_pem());
        builder = builder.identity(reqwest::Identity::from_pem(both.as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

/// Sends a request; fails only if there is no response.
pub(crate) async fn send(
    client: &reqwest::Client,
    address: SocketAddr,
    operation: &str,
    body: &Value,
) -> Result<Answer, reqwest::Error> {
    let url = format!("https://localhost:{}/node/v1/{operation}", address.port());
    let response = client.post(url).json(body).send().await?;
    let status = response.status().as_u16();
    assert!(response.headers().contains_key("x-correlation-id"), "{operation} answered without a thread");
    let body: Value = response.json().await?;
    let described =
        &DOCUMENT["paths"][format!("/node/v1/{operation}")]["post"]["responses"][status.to_string()];
    let content =
        described["content"].as_object().unwrap_or_else(|| panic!("{operation} answered {status}: {body}"));
    let mut schema = content.values().next().unwrap()["schema"].clone();
    schema["components"] = DOCUMENT["components"].clone();
    let faults: Vec<String> = jsonschema::draft202012::new(&schema)
        .unwrap()
        .iter_errors(&body)
        .map(|error| error.to_string())
        .collect();
    assert!(faults.is_empty(), "{operation}: the answer does not fit the document: {faults:?}\n{body}");
    Ok(Answer { status, body })
}

/// A node's agent.
pub(crate) struct Agent {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    pub(crate) key: KeyPair,
    pub(crate) certificate: String,
    pub(crate) http: reqwest::Client,
    pub(crate) address: SocketAddr,
    pub(crate) session: i64,
}

impl Agent {
    /// Joins at server `at` of the kit.
    pub(crate) async fn join(kit: &Kit, at: usize) -> Self {
        let token = enrol(kit.store(), None, 10).await;
        Self::join_with(kit, at, &token, KeyPair::generate().unwrap()).await
    }

    /// Joins with this token and this key.
    pub(crate) async fn join_with(kit: &Kit, at: usize, token: &str, key: KeyPair) -> Self {
        let authority = kit.authority().await;
        let body = join_body(token, &csr(&key));
        let address = kit.nodes_address(at);
        let joined = send(&client(&authority, None), address, "join", &body).await.unwrap().ok();
        let certificate = joined["certificate"].as_str().unwrap().to_owned();
        assert_eq!(joined["authority"], json!(authority));
        Self {
            node: joined["node_id"].as_str().unwrap().parse().unwrap(),
            name: joined["name"].as_str().unwrap().to_owned(),
            http: client(&authority, Some((&key, &certificate))),
            key,
            certificate,
            address,
            session: 0,
        }
    }

    /// Joins, and sends hello with nothing on the node.
    pub(crate) async fn start(kit: &Kit, at: usize) -> Self {
        let mut agent = Self::join(kit, at).await;
        let welcome = agent.hello(json!([])).await.ok();
        agent.session = welcome["session"].as_i64().unwrap();
        agent
    }

    pub(crate) async fn send(&self, operation: &str, body: &Value) -> Answer {
        send(&self.http, self.address, operation, body).await.unwrap()
    }

    pub(crate) async fn hello(&self, places: Value) -> Answer {
        let body = json!({"agent_version": "0.1.0", "inventory": machine(2), "sandboxes": places});
        self.send("hello", &body).await
    }

    pub(crate) async fn poll(&self, wait_seconds: u64) -> Answer {
        self.send("poll", &json!({"session": self.session, "wait_seconds": wait_seconds})).await
    }
}

pub(crate) fn join_body(token: &str, csr: &str) -> Value {
    json!({"token": token, "csr": csr, "name": "gpu-1.example.org", "agent_version": "0.1.0",
           "inventory": machine(2)})
}
