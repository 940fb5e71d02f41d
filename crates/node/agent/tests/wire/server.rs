//! A scripted server: it delivers its content, records requests, and can refuse, stay silent and break off.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use muster_ids::{Env, NodeId, TaskId};
use muster_wire::cell::{CellRef, DesiredState};
use muster_wire::task::{Report, SandboxRef, Task};
use muster_wire::wire::{
    CellObservation, Hello, Join, Joined, Noted, Observations, Observed, Poll, Renew, Renewed, Reports,
    ReportsAccepted, SecretAsk, SecretValue, SecretWhat, Welcome, Work,
};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use rustls_pki_types::PrivateKeyDer;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::registry::{self, Registry};

/// Scripted behaviour.
#[derive(Debug, Clone)]
pub(crate) enum Instead {
    /// A refusal.
    Refuse(u16, &'static str),
    /// The request is processed, and the connection breaks before the response.
    BreakOff,
}

#[derive(Default)]
pub(crate) struct State {
    /// Every request, in order: the last segment of its path.
    pub(crate) asked: Vec<String>,
    pub(crate) hellos: Vec<Hello>,
    pub(crate) joins: Vec<Join>,
    pub(crate) reports: Vec<Report>,
    /// Reported cell observations, oldest first.
    pub(crate) observed: Vec<CellObservation>,
    pub(crate) renewals: usize,
    /// Scripted behaviour by the last segment of the path, once each.
    pub(crate) instead: BTreeMap<&'static str, VecDeque<Instead>>,
    /// Stale copies in the response to each hello.
    pub(crate) stale_allocations: VecDeque<Vec<SandboxRef>>,
    /// Stale cells in the response to each hello.
    pub(crate) stale_cells: VecDeque<Vec<CellRef>>,
    /// Desired state in each response.
    pub(crate) desired: VecDeque<DesiredState>,
    /// Revision in each poll.
    pub(crate) revisions: Vec<i64>,
    /// The page of the desired state that each poll asked for.
    pub(crate) pages: Vec<Option<String>>,
    /// Work for each poll.
    pub(crate) work: VecDeque<Vec<Task>>,
    /// Raw tasks sent with the next work.
    pub(crate) strange: Vec<serde_json::Value>,
    /// Tasks delivered again to every new session until they are reported.
    pub(crate) redeliver: Vec<Task>,
    /// Reports that are refused.
    pub(crate) refused: Vec<TaskId>,
    /// Last issued session.
    pub(crate) session: i64,
    /// Session of each node, by key.
    pub(crate) sessions: BTreeMap<Vec<u8>, i64>,
    /// Lifetime of certificates signed from now on, in seconds.
    pub(crate) lifetime: u64,
    /// Renewal time sent to agents.
    pub(crate) renew_after: u64,
    /// Secrets, by file name.
    pub(crate) secrets: BTreeMap<String, Vec<u8>>,
    /// Requests for secrets.
    pub(crate) secret_asks: Vec<SecretAsk>,
    /// The registry.
    pub(crate) registry: Registry,
}

pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) ca_sha256: String,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) changed: Arc<Notify>,
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    node: NodeId,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let ca = params.self_signed(&key).unwrap();
        let (pem, ca_der) = (ca.pem(), ca.der().clone());
        let authority = Authority { pem, issuer: Issuer::new(params, key), node: Env::for_tests(5).id() };
        let leaf_key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::default();
        leaf.subject_alt_names = vec![SanType::IpAddress("127.0.0.1".parse().unwrap())];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = leaf.signed_by(&leaf_key, &authority.issuer).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(ca_der.clone()).unwrap();
        let verifier = rustls::server::WebPkiClientVerifier::builder(Arc::new(roots));
        let config = rustls::ServerConfig::builder()
            .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
            .with_single_cert(
                vec![leaf.der().clone(), ca_der.clone()],
                PrivateKeyDer::Pkcs8(leaf_key.serialize_der().into()),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("https://{}", listener.local_addr().unwrap()),
            ca_sha256: Sha256::digest(&ca_der).iter().map(|byte| format!("{byte:02x}")).collect(),
            state: Arc::new(Mutex::new(State { lifetime: 3600, renew_after: 2400, ..State::default() })),
            changed: Arc::new(Notify::new()),
        };
        let (state, changed, authority) = (server.state.clone(), server.changed.clone(), Arc::new(authority));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, changed, authority) = (state.clone(), changed.clone(), authority.clone());
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let who = stream.get_ref().1.peer_certificates().map(|chain| key_of(&chain[0]));
                    let service = service_fn(|request| {
                        answer(request, who.clone(), state.clone(), changed.clone(), authority.clone())
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        server
    }

    /// Waits for a condition; fails after ten seconds.
    pub(crate) async fn until(&self, what: &str, so: impl Fn(&State) -> bool) {
        for _ in 0..1000 {
            if so(&self.state.lock()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never came to this: {what}; asked: {:?}", self.state.lock().asked);
    }

    /// Returns the reports so far.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.state.lock().reports.clone()
    }

    pub(crate) fn script(&self, script: impl FnOnce(&mut State)) {
        script(&mut self.state.lock());
        self.changed.notify_waiters();
    }

    /// Returns the number of requests of this kind.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.state.lock().asked.iter().filter(|asked| *asked == what).count()
    }
}

fn key_of(certificate: &[u8]) -> Vec<u8> {
    let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
    certificate.public_key().raw.to_vec()
}

fn sign(authority: &Authority, csr: &str, lifetime: u64) -> String {
    let mut request = rcgen::CertificateSigningRequestParams::from_pem(csr).unwrap();
    // Whole seconds, as in certificates.
    let now =
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(Env::system().now().as_second()).unwrap());
    request.params.not_before = now.into();
    request.params.not_after = (now + Duration::from_secs(lifetime)).into();
    request.params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    request.signed_by(&authority.issuer).unwrap().pem()
}

pub(crate) type Content = BoxBody<Bytes, std::io::Error>;
pub(crate) type Answer = Result<Response<Content>, std::io::Error>;

pub(crate) fn content(bytes: impl Into<Bytes>) -> Content {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

fn ok(document: &impl Serialize) -> Answer {
    Ok(Response::new(content(serde_json::to_vec(document).unwrap())))
}

fn refuse(status: u16, detail: &str) -> Answer {
    let problem = serde_json::json!({"status": status, "code": "scripted", "detail": detail});
    Ok(Response::builder().status(status).body(content(problem.to_string())).unwrap())
}

async fn answer(
    request: Request<Incoming>,
    who: Option<Vec<u8>>,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    authority: Arc<Authority>,
) -> Answer {
    if let Some(what) = request.uri().path().strip_prefix("/v2/") {
        assert!(who.is_some(), "the registry is asked with the node's certificate");
        return registry::answer(what, &request, &mut state.lock().registry);
    }
    let word = request.uri().path().rsplit('/').next().unwrap().to_owned();
    assert!(request.uri().path().starts_with("/node/v1/"), "{}", request.uri());
    assert_eq!(who.is_some(), word != "join", "only who joins comes without a certificate");
    let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    let instead = {
        let mut state = state.lock();
        state.asked.push(word.clone());
        state.instead.get_mut(word.as_str()).and_then(VecDeque::pop_front)
    };
    if let Some(Instead::Refuse(status, detail)) = instead {
        return refuse(status, detail);
    }
    let answer = carry_out(&word, &body, &who.unwrap_or_default(), &state, &changed, &authority).await;
    if instead.is_some() { Err(std::io::Error::other("scripted: broken off")) } else { answer }
}

async fn carry_out(
    word: &str,
    body: &[u8],
    who: &[u8],
    state: &Mutex<State>,
    changed: &Notify,
    authority: &Authority,
) -> Answer {
    match word {
        "join" => {
            let join: Join = serde_json::from_slice(body).unwrap();
            let mut state = state.lock();
            let joined = Joined {
                node_id: authority.node,
                name: join.name.clone(),
                certificate: sign(authority, &join.csr, state.lifetime),
                authority: authority.pem.clone(),
                renew_after_seconds: state.renew_after,
            };
            state.joins.push(join);
            ok(&joined)
        }
        "renew" => {
            let renew: Renew = serde_json::from_slice(body).unwrap();
            let mut state = state.lock();
            state.renewals += 1;
            ok(&Renewed {
                certificate: sign(authority, &renew.csr, state.lifetime),
                authority: authority.pem.clone(),
                renew_after_seconds: state.renew_after,
            })
        }
        "hello" => {
            let mut state = state.lock();
            state.hellos.push(serde_json::from_slice(body).unwrap());
            state.session += 1;
            let session = state.session;
            state.sessions.insert(who.to_vec(), session);
            let told: Vec<TaskId> = state.reports.iter().map(|report| report.task_id).collect();
            let again = state.redeliver.iter().filter(|task| !told.contains(&task.id));
            let again: Vec<Task> = again.cloned().collect();
            if !again.is_empty() {
                state.work = VecDeque::from([again]);
            }
            let stale_allocations = state.stale_allocations.pop_front().unwrap_or_default();
            let stale_cells = state.stale_cells.pop_front().unwrap_or_default();
            ok(&Welcome { session, stale_allocations, stale_cells, heartbeat_seconds: 2 })
        }
        "poll" => {
            let poll: Poll = serde_json::from_slice(body).unwrap();
            if state.lock().sessions.get(who) != Some(&poll.session) {
                return refuse(409, "that session is over");
            }
            state.lock().revisions.push(poll.revision);
            state.lock().pages.push(poll.desired_after.clone());
            let waiting = async {
                loop {
                    let notified = changed.notified();
                    let (tasks, desired) = {
                        let mut state = state.lock();
                        (
                            state.work.pop_front(),
                            if poll.tasks_only { None } else { state.desired.pop_front() },
                        )
                    };
                    if tasks.is_some() || desired.is_some() {
                        return Work { tasks: tasks.unwrap_or_default(), desired };
                    }
                    notified.await;
                }
            };
            let waited = tokio::time::timeout(Duration::from_secs(poll.wait_seconds), waiting).await;
            let nothing = Work { tasks: Vec::new(), desired: None };
            let mut work = serde_json::json!(waited.unwrap_or(nothing));
            let strange = std::mem::take(&mut state.lock().strange);
            work["tasks"].as_array_mut().unwrap().extend(strange);
            ok(&work)
        }
        "report" => {
            let Reports { reports, .. } = serde_json::from_slice(body).unwrap();
            let mut state = state.lock();
            let refused = state.refused.clone();
            state.reports.extend(reports);
            ok(&ReportsAccepted { refused })
        }
        "secret" => {
            let ask: SecretAsk = serde_json::from_slice(body).unwrap();
            let mut state = state.lock();
            if state.sessions.get(who) != Some(&ask.session) {
                return refuse(409, "that session is over");
            }
            let told = match &ask.what {
                SecretWhat::File(file) => state.secrets.get(file).cloned(),
                SecretWhat::ArtifactPull => Some(state.registry.new_token().into_bytes()),
            };
            state.secret_asks.push(ask);
            match told {
                Some(told) => ok(&SecretValue { value: STANDARD.encode(told) }),
                None => refuse(404, "there is no such secret"),
            }
        }
        "observe" => {
            let Observations { session, cells } = serde_json::from_slice(body).unwrap();
            let mut state = state.lock();
            if state.sessions.get(who) != Some(&session) {
                return refuse(409, "that session is over");
            }
            state.observed.extend(cells);
            ok(&Observed { refused: Vec::new() })
        }
        "inventory" => ok(&Noted { needs_approval: true }),
        other => panic!("nobody asks for {other}"),
    }
}
