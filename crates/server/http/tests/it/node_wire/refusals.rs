//! Agents that are not admitted.

use std::time::{Duration, Instant};

use jiff::SignedDuration;
use muster_control::{Cx, fleet};
use muster_ids::{Env, TypedId as _};
use muster_keys::{CertificateRequest, Identity};
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_testkit::{Database, Kit};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair, SanType};
use serde_json::json;

use super::agent::{Agent, client, csr, join_body, machine, send};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_certificate_only_joining_is_possible() {
    let kit = Kit::sqlite().await;
    let http = client(&kit.authority().await, None);
    for operation in muster_wire::ENDPOINTS.iter().filter(|operation| operation.certificate) {
        let answer = send(&http, kit.nodes_address(0), operation.id, &json!({})).await.unwrap();
        assert!(answer.refused(401, "unauthenticated").contains("certificate"), "{}", operation.id);
    }
    let mut body = join_body("x", "y");
    body["shell"] = json!("sh");
    let answer = send(&http, kit.nodes_address(0), "join", &body).await.unwrap();
    let detail = answer.refused(400, "invalid_request");
    assert!(detail.contains("shell"), "an unknown member is refused by name: {detail}");
    kit.stop().await;
}

/// Reports whether the handshake with this certificate fails, so that there is no response.
async fn is_shut_out(kit: &Kit, key: &KeyPair, certificate: &str) -> bool {
    let http = client(&kit.authority().await, Some((key, certificate)));
    send(&http, kit.nodes_address(0), "poll", &json!({"session": 1, "wait_seconds": 0})).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_another_authority_and_ended_ones_are_shut_out() {
    let kit = Kit::sqlite().await;
    let agent = Agent::start(&kit, 0).await;
    let platform = &kit.servers[0].platform;
    assert!(!is_shut_out(&kit, &agent.key, &agent.certificate).await, "the test's own client works");

    let key = KeyPair::generate().unwrap();
    let mut forged = CertificateParams::default();
    let name = format!("spiffe://muster/node/{}", agent.node);
    forged.subject_alt_names = vec![SanType::URI(name.as_str().try_into().unwrap())];
    forged.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let forged = forged.self_signed(&key).unwrap().pem();
    assert!(is_shut_out(&kit, &key, &forged).await, "anybody can sign for himself");

    let earlier = platform.env.now() - SignedDuration::from_hours(25);
    let ended = platform
        .authority
        .issue_node(
            platform.custody(),
            &CertificateRequest::parse(&csr(&key)).unwrap(),
            agent.node,
            (earlier, SignedDuration::from_hours(24)),
        )
        .await
        .unwrap();
    assert!(is_shut_out(&kit, &key, &ended.certificate).await, "a day is over after a day");

    // On a connection that outlives its certificate there is no handshake; the request handler verifies it.
    let cx = Cx {
        platform: platform.clone(),
        actor: None,
        correlation_id: "c".to_owned(),
        now: platform.env.now(),
        if_match: None,
        address: None,
        answer_slot: muster_control::AnswerSlot::default(),
    };
    let key = CertificateRequest::parse(&csr(&agent.key)).unwrap().key_hash();
    let identity = Identity { node: agent.node, until: cx.now, key };
    assert_eq!(fleet::admit(&cx, identity).await.unwrap_err().code.as_str(), "unauthenticated");
    let identity = Identity { until: cx.now + SignedDuration::from_secs(1), ..identity };
    assert!(fleet::admit(&cx, identity).await.is_ok());
    // A valid certificate that is not the node's current one.
    let identity = Identity { key: [0; 32], ..identity };
    assert!(fleet::admit(&cx, identity).await.unwrap_err().detail.contains("replaced"));

    // The listener's own certificate grants no access.
    let server =
        platform.authority.issue_server(platform.custody(), &["localhost".to_owned()], cx.now).await.unwrap();
    assert_eq!(muster_keys::identity(&server.chain[0]), None);
    kit.stop().await;
}

pub(crate) async fn retire(kit: &Kit, agent: &Agent) {
    let env = Env::system();
    let witness = Witness {
        id: env.id(),
        subject_id: agent.node.uuid(),
        transition: Transition::Retired,
        kind: WitnessKind::Witnessed,
        incarnation: 0,
        operation_id: None,
        node_id: Some(agent.node),
        task_id: None,
        actor_id: None,
        checked: json!({}),
        result: json!({}),
        at: env.now(),
    };
    let mut tx = kit.store().begin().await.unwrap();
    tx.witness_insert(&witness).await.unwrap();
    tx.node_retire(agent.node, witness.id, env.now()).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retired_node_is_refused_at_once_also_in_the_middle_of_a_poll() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let agent = Agent::start(&kit, 0).await;
        let (answer, retired) = tokio::join!(async { (agent.poll(10).await, Instant::now()) }, async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            retire(&kit, &agent).await;
            Instant::now()
        });
        assert!(answer.0.refused(401, "unauthenticated").contains("retired"));
        let after = answer.1.duration_since(retired);
        assert!(after < Duration::from_secs(1), "it was told {after:?} after");
        agent.hello(json!([])).await.refused(401, "unauthenticated");
        agent.send("renew", &json!({"csr": csr(&agent.key)})).await.refused(401, "unauthenticated");
        let inventory = json!({"session": agent.session, "inventory": machine(1)});
        agent.send("inventory", &inventory).await.refused(401, "unauthenticated");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_session_is_over_also_in_the_middle_of_a_poll_at_another_replica() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let mut agent = Agent::start(&kit, 0).await;
    let other = client(&kit.authority().await, Some((&agent.key, &agent.certificate)));
    let hello = json!({"agent_version": "0.1.0", "inventory": machine(2), "sandboxes": []});
    let (answer, welcome) = tokio::join!(
        async {
            let started = Instant::now();
            (agent.poll(10).await, started.elapsed())
        },
        async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            send(&other, kit.nodes_address(1), "hello", &hello).await.unwrap().ok()
        }
    );
    assert!(answer.0.refused(409, "invalid_state").contains("another agent replaced this one"));
    assert!(answer.1 < Duration::from_secs(2), "{:?}", answer.1);
    let reports = json!({"session": agent.session, "reports": []});
    agent.send("report", &reports).await.refused(409, "invalid_state");
    agent.session = welcome["session"].as_i64().unwrap();
    agent.poll(0).await.ok();
    kit.stop().await;
}
