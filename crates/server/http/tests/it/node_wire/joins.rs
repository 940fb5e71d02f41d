//! Joining: one token, one node, and a certificate with only server-defined content.

use futures::future::join_all;
use muster_db::Fault;
use muster_testkit::{Database, Kit};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType};
use serde_json::json;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::agent::{Agent, client, csr, enrol, join_body, machine, send};

/// Returns the number of machines, of twenty, that join with one token.
async fn joined_at_once(kit: &Kit) -> usize {
    let token = enrol(kit.store(), None, 10).await;
    let authority = kit.authority().await;
    let attempts = (0..20).map(|_| {
        let (http, token) = (client(&authority, None), token.clone());
        async move {
            let body = join_body(&token, &csr(&KeyPair::generate().unwrap()));
            send(&http, kit.nodes_address(0), "join", &body).await.unwrap()
        }
    });
    let answers = join_all(attempts).await;
    let joined = answers.iter().filter(|answer| answer.status == 200).count();
    for answer in answers.into_iter().filter(|answer| answer.status != 200) {
        answer.refused(401, "unauthenticated");
    }
    joined
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_works_once_however_many_try_at_once() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        assert_eq!(joined_at_once(&kit).await, 1);
        let nodes = kit.store().heartbeat_list().await.unwrap();
        assert_eq!(nodes.len(), 1, "the others left nothing behind: {nodes:?}");
        // Mutation check: without its guard the test fails.
        kit.store().faults().arm(Fault::Skip("ENROLMENT_USE"));
        assert!(joined_at_once(&kit).await > 1, "the test does not see a token that works twice");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn used_expired_unknown_and_other_tokens_are_refused_in_the_same_words() {
    let kit = Kit::sqlite().await;
    let agent = Agent::join(&kit, 0).await;
    let http = client(&kit.authority().await, None);
    let expired = enrol(kit.store(), None, -1).await;
    let (used, never) = (enrol(kit.store(), None, 10).await, enrol(kit.store(), None, 10).await);
    let try_it = async |token: &str| {
        let body = join_body(token, &csr(&KeyPair::generate().unwrap()));
        send(&http, agent.address, "join", &body).await.unwrap()
    };
    try_it(&used).await.ok();
    let mut words = Vec::new();
    for token in [used.as_str(), &expired, "mst_join_nothing", &kit.operator_token, ""] {
        words.push(try_it(token).await.refused(401, "unauthenticated"));
    }
    words.dedup();
    assert_eq!(words.len(), 1, "{words:?}");
    try_it(&never).await.ok();
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_made_to_fit_and_unique_and_a_fixed_one_is_kept() {
    let kit = Kit::sqlite().await;
    let names = [Agent::join(&kit, 0).await.name, Agent::join(&kit, 0).await.name];
    assert_eq!(names, ["gpu-1", "gpu-1-2"]);
    let http = client(&kit.authority().await, None);
    for (expected, status) in [("rack-7", 200), ("rack-7", 409)] {
        let token = enrol(kit.store(), Some("rack-7"), 10).await;
        let body = join_body(&token, &csr(&KeyPair::generate().unwrap()));
        let answer = send(&http, kit.nodes_address(0), "join", &body).await.unwrap();
        match status {
            200 => assert_eq!(answer.ok()["name"], expected),
            _ => drop(answer.refused(409, "name_taken")),
        }
    }
    kit.sealed().await;
    let events = kit.operator().get("/v1/events?page_size=200").await.ok();
    let joined: Vec<&str> = events.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "dev.muster.node.joined.v1")
        .filter_map(|event| event["data"]["name"].as_str())
        .collect();
    assert_eq!(joined, ["gpu-1", "gpu-1-2", "rack-7"]);
    let audit = kit.operator().get("/v1/audit?action=node.join").await.ok();
    assert_eq!(audit.body["items"][0]["record"]["actor"]["kind"], "node");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_carries_only_our_names_whatever_is_asked_for() {
    let kit = Kit::sqlite().await;
    let other = Agent::join(&kit, 0).await;
    let token = enrol(kit.store(), None, 10).await;
    let key = KeyPair::generate().unwrap();
    let mut asked =
        CertificateParams::new(vec!["muster.example".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let stolen = format!("spiffe://muster/node/{}", other.node);
    asked.subject_alt_names.push(SanType::URI(stolen.as_str().try_into().unwrap()));
    asked.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    asked.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::Any];
    let request = asked.serialize_request(&key).unwrap().pem().unwrap();
    let http = client(&kit.authority().await, None);
    let joined = send(&http, other.address, "join", &join_body(&token, &request)).await.unwrap().ok();

    let (_, pem) =
        x509_parser::pem::parse_x509_pem(joined["certificate"].as_str().unwrap().as_bytes()).unwrap();
    let (_, certificate) = X509Certificate::from_der(&pem.contents).unwrap();
    let names = &certificate.subject_alternative_name().unwrap().unwrap().value.general_names;
    let ours = format!("spiffe://muster/node/{}", joined["node_id"].as_str().unwrap());
    assert_eq!(names[..], [GeneralName::URI(&ours)]);
    assert!(!certificate.is_ca());
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth && !usage.any);
    let length = certificate.validity().not_after.timestamp() - certificate.validity().not_before.timestamp();
    assert_eq!(length, 24 * 3600 + 300, "a day, and five minutes before for clocks that are behind");
    assert_eq!(muster_keys::identity(&pem.contents).unwrap().node.to_string(), joined["node_id"]);

    // A request signed by a different key proves nothing.
    let der = CertificateParams::default().serialize_request(&key).unwrap();
    let mut bytes = der.der().to_vec();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let forged = pem_of(&bytes);
    let token = enrol(kit.store(), None, 10).await;
    let refused = send(&http, other.address, "join", &join_body(&token, &forged)).await.unwrap();
    assert!(refused.refused(400, "invalid_request").starts_with("/csr"));
    kit.stop().await;
}

fn pem_of(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
}

async fn fingerprint(platform: &muster_control::Platform) -> Result<String, muster_keys::KeyError> {
    platform.authority.fingerprint(platform.custody()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_start_at_once_end_with_one_authority() {
    for _ in 0..3 {
        let kit = Kit::start_with(Database::postgres(), 2, &[("nodes.listen", "")]).await;
        assert_eq!(kit.servers[0].nodes_address, None);
        let prints = join_all(kit.servers.iter().map(|server| fingerprint(&server.platform))).await;
        let prints: Vec<String> = prints.into_iter().map(|print| print.unwrap()).collect();
        assert_eq!((prints[0].len(), &prints[0]), (64, &prints[1]));
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_outlives_a_change_of_the_root_key() {
    let mut kit = Kit::sqlite().await;
    let agent = Agent::start(&kit, 0).await;
    let before = fingerprint(&kit.servers[0].platform).await.unwrap();
    let file = kit.database.folder().join("root.key");
    let platform = kit.servers[0].platform.clone();
    let old = platform.root_keys().active();
    let fresh = muster_keys::RootKeys::add(&file, &muster_ids::Env::system()).unwrap();
    muster_keys::RootKeys::activate(&file, &fresh).unwrap();
    assert!(platform.root_keys().reload().unwrap());
    muster_jobs::rewrap(&platform).await.unwrap();
    muster_keys::RootKeys::retire(&file, &old, 0).unwrap();
    drop(platform);
    kit.servers.remove(0).stop().await;
    kit.add_server(&[]).await;
    assert_eq!(fingerprint(&kit.servers[0].platform).await.unwrap(), before);
    let hello = json!({"agent_version": "0.1.0", "inventory": machine(2), "sandboxes": []});
    send(&agent.http, kit.nodes_address(0), "hello", &hello).await.unwrap().ok();
    kit.stop().await;
}
