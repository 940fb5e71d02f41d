//! Nodes that stop sending heartbeats, with an interval of one second.

use std::time::{Duration, Instant};

use muster_model::node::NodeState;
use muster_testkit::{Database, Kit};
use serde_json::json;

use super::agent::Agent;

async fn state_of(kit: &Kit, agent: &Agent) -> NodeState {
    kit.store().node_lookup(agent.node).await.unwrap().unwrap().state
}

async fn events(kit: &Kit) -> String {
    kit.sealed().await;
    kit.operator().get("/v1/events?page_size=200").await.ok().text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_is_unreachable_and_comes_back_by_saying_hello() {
    for database in Database::both() {
        let kit = Kit::start_with(database, 1, &[("nodes.heartbeat_seconds", "1")]).await;
        let (mut silent, spoken) = (Agent::start(&kit, 0).await, Agent::start(&kit, 0).await);
        let started = Instant::now();
        while state_of(&kit, &silent).await != NodeState::Unreachable {
            assert!(started.elapsed() < Duration::from_secs(10), "nobody notices");
            spoken.poll(1).await.ok();
        }
        assert!(started.elapsed() >= Duration::from_millis(2400), "too soon: {:?}", started.elapsed());
        assert_eq!(state_of(&kit, &spoken).await, NodeState::Enrolling);
        assert!(silent.poll(0).await.refused(409, "invalid_state").contains("send hello"));
        silent.session = silent.hello(json!([])).await.ok()["session"].as_i64().unwrap();
        silent.poll(0).await.ok();
        assert_eq!(state_of(&kit, &silent).await, NodeState::Enrolling);
        let events = events(&kit).await;
        for told in ["node.unreachable", "node.reachable"] {
            assert!(events.contains(&format!("dev.muster.{told}.v1")), "{told} is not told: {events}");
        }
        assert!(kit.servers[0].platform.metrics.nodes_lost.get() == 1);
        assert!(kit.servers[0].platform.metrics.heartbeats.get() > 2);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_fall_silent_at_once_the_fault_is_presumed_ours() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("nodes.heartbeat_seconds", "1")]).await;
    // In parallel, so that on a busy machine none times out while the others still start.
    let agents: [Agent; 3] =
        tokio::join!(Agent::start(&kit, 0), Agent::start(&kit, 0), Agent::start(&kit, 0)).into();
    let started = Instant::now();
    while kit.servers[0].platform.metrics.mass_loss_suspected.get() == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "no loss is suspected");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for agent in &agents {
        assert_eq!(state_of(&kit, agent).await, NodeState::Enrolling);
    }
    let events = events(&kit).await;
    assert!(events.contains("dev.muster.fleet.mass_loss_suspected.v1"), "{events}");
    assert!(!events.contains("dev.muster.node.unreachable.v1"), "{events}");
    kit.stop().await;
}
