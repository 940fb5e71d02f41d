//! The list of operations.

use muster_ids::Env;
use muster_model::audit::Actor;
use muster_model::operation::{Operation, OperationKind, OperationState};
use muster_model::operation_input::OperationInput;
use muster_testkit::{Fixture, Kit};
use serde_json::json;

/// An operation's input may hold a whole configuration, which is read with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_operations_ends_by_its_bytes() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let (env, train) = (Env::system(), fixture.id("train").parse().unwrap());
    let far = env.now() + jiff::SignedDuration::from_hours(1);
    let mut tx = kit.store().begin().await.unwrap();
    for at in 0..10 {
        let operation = Operation {
            id: env.id(),
            kind: OperationKind::InstanceUpgrade,
            tenant_id: None,
            project_id: Some(train),
            subject_kind: "instance".to_owned(),
            subject_id: env.uuid(),
            subject_name: format!("i{at}"),
            timeline: muster_model::event::Timeline::default(),
            asked_by: Actor { kind: "user".to_owned(), id: "usr_1".to_owned(), name: "Ada".to_owned() },
            correlation_id: "c-1".to_owned(),
            state: OperationState::Accepted,
            input: OperationInput { config: Some(json!("x".repeat(1_000_000))), ..OperationInput::default() },
            exclusive_locks: Vec::new(),
            shared_locks: Vec::new(),
            steps: Vec::new(),
            items: Vec::new(),
            waiting: None,
            blocked: None,
            reason: None,
            message: None,
            cancel_requested: false,
            supersedes: None,
            parent_id: None,
            // The engine leaves it alone.
            due_at: far,
            deadline_at: far,
            generation: 0,
            wakes: 0,
            created_at: env.now(),
            updated_at: env.now(),
            finished_at: None,
            version: 1,
        };
        tx.operation_open(&operation).await.unwrap();
    }
    tx.commit().await.unwrap();
    let admin = fixture.client(&kit, "project_admin");
    let list = "/v1/operations?project=train&page_size=200";
    let (mut counts, mut token) = (Vec::new(), None);
    loop {
        let page = token.as_ref().map_or_else(String::new, |token| format!("&page_token={token}"));
        let page = admin.get(&format!("{list}{page}")).await.ok();
        counts.push(page.body["items"].as_array().unwrap().len());
        token = page.body["next_page_token"].as_str().map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    assert_eq!(counts, [4, 4, 2], "a page ends after four megabytes");
    kit.stop().await;
}
