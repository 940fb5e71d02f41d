use std::collections::VecDeque;

use muster_agent::{Identity, Trust};

use crate::machine::Machine;
use crate::server::{Instead, Server};

#[tokio::test]
async fn a_machine_joins_the_server_whose_authority_it_was_told_of() {
    let (server, machine) = (Server::start().await, Machine::new());
    let trust = Trust::fingerprint(&server.ca_sha256).unwrap();
    let identity = machine.join(&server, trust, false).await.unwrap();
    assert_eq!(identity.node.name, "m");
    assert_eq!(identity.node.server, server.url);
    assert_eq!(muster_agent::authority_fingerprint(&identity).unwrap(), server.ca_sha256);
    let kept = Identity::lookup(&machine.agent_folder()).unwrap().unwrap();
    assert_eq!(kept.node, identity.node);
    let state = server.state.lock();
    assert_eq!(state.joins[0].token, "mst_join_x");
    assert!(!state.joins[0].csr.contains("PRIVATE"));
    assert_eq!(state.joins[0].inventory.gpus.len(), 4);
}

#[tokio::test]
async fn another_authority_is_refused_before_the_token_is_sent() {
    let (server, machine) = (Server::start().await, Machine::new());
    let trust = Trust::fingerprint(&"00".repeat(32)).unwrap();
    let refused = machine.join(&server, trust, false).await.unwrap_err().to_string();
    assert!(refused.contains("fingerprint"), "{refused}");
    assert!(server.state.lock().asked.is_empty());
    assert!(Identity::lookup(&machine.agent_folder()).unwrap().is_none());
}

#[tokio::test]
async fn trust_on_first_use_accepts_any_server() {
    let (server, machine) = (Server::start().await, Machine::new());
    let identity = machine.join(&server, Trust::FirstUse, false).await.unwrap();
    assert_eq!(muster_agent::authority_fingerprint(&identity).unwrap(), server.ca_sha256);
}

#[tokio::test]
async fn a_folder_joins_once_unless_it_starts_anew() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let refused = machine.join(&server, Trust::FirstUse, false).await.unwrap_err().to_string();
    assert!(refused.contains("already joined") && refused.contains("--force"), "{refused}");
    assert_eq!(server.count("join"), 1);
    machine.join(&server, Trust::FirstUse, true).await.unwrap();
    let state = server.state.lock();
    assert_ne!(state.joins[0].csr, state.joins[1].csr, "it has a new key");
}

#[tokio::test]
async fn an_answer_that_was_lost_is_asked_for_again_with_the_same_key() {
    let (server, machine) = (Server::start().await, Machine::new());
    server.script(|state| {
        state.instead.insert("join", VecDeque::from([Instead::BreakOff, Instead::Refuse(503, "later")]));
    });
    machine.join(&server, Trust::FirstUse, false).await.unwrap();
    assert_eq!(server.count("join"), 3);
    let state = server.state.lock();
    let key = |at: usize| {
        let params = rcgen::CertificateSigningRequestParams::from_pem(&state.joins[at].csr).unwrap();
        rcgen::PublicKeyData::der_bytes(&params.public_key).to_vec()
    };
    assert_eq!(key(0), key(1));
}

#[tokio::test]
async fn a_refused_token_is_told_as_the_server_says_it() {
    let (server, machine) = (Server::start().await, Machine::new());
    server.script(|state| {
        state.instead.insert("join", VecDeque::from([Instead::Refuse(401, "the token was used")]));
    });
    let refused = machine.join(&server, Trust::FirstUse, false).await.unwrap_err();
    assert!(refused.to_string().contains("the token was used"), "{refused}");
    assert_eq!(refused.exit_code(), 1);
}
