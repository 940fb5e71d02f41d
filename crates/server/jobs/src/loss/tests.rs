use super::*;
use proptest::prelude::*;

const HEARTBEAT: SignedDuration = SignedDuration::from_secs(10);

fn start() -> Timestamp {
    Timestamp::from_second(1_790_000_000).unwrap()
}

fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

/// A node with its last heartbeat this many seconds before `now`; never, if absent.
fn node(number: usize, heard_before: Option<i64>, now: Timestamp, unreachable: bool) -> NodeHeartbeat {
    use muster_ids::TypedId as _;
    NodeHeartbeat {
        id: NodeId::from_uuid(uuid::Uuid::from_u128(number as u128 + 1)),
        name: format!("node-{number}"),
        seen_at: heard_before.map(|before| now - seconds(before)),
        unreachable_since: unreachable.then_some(start()),
        confirmed_at: None,
    }
}

/// `present` nodes with a recent heartbeat, and `silent` ones with their last `before` seconds ago.
fn fleet(present: usize, silent: usize, before: i64, now: Timestamp) -> Vec<NodeHeartbeat> {
    let heard = |number| node(number, Some(if number < silent { before } else { 1 }), now, false);
    (0..present + silent).map(heard).collect()
}

fn judged(heard: &[NodeHeartbeat], good_for: i64) -> LossDecision {
    let now = start() + seconds(10_000);
    verdicts(heard, now, now - seconds(good_for), HEARTBEAT)
}

#[test]
fn one_of_many_is_lost_after_three_heartbeats_and_not_before() {
    let now = start() + seconds(10_000);
    assert_eq!(judged(&fleet(9, 1, 29, now), 5000), LossDecision::default());
    assert_eq!(judged(&fleet(9, 1, 30, now), 5000).lost.len(), 1);
}

#[test]
fn no_node_is_lost_before_the_server_could_receive_heartbeats() {
    let now = start() + seconds(10_000);
    for good_for in 0..30 {
        assert_eq!(
            judged(&fleet(9, 1, 5000, now), good_for),
            LossDecision::default(),
            "{good_for} s after the start"
        );
    }
    assert_eq!(judged(&fleet(9, 1, 5000, now), 30).lost.len(), 1);
}

#[test]
fn node_without_any_heartbeat_is_lost_like_any_other() {
    let now = start() + seconds(10_000);
    let never = [node(1, None, now, false)];
    assert_eq!(judged(&never, 29), LossDecision::default());
    assert_eq!(judged(&never, 30).lost.len(), 1);
}

#[test]
fn more_than_a_fifth_at_once_is_our_fault_until_it_lasts() {
    let now = start() + seconds(10_000);
    let fifth = judged(&fleet(80, 20, 60, now), 5000);
    assert_eq!((fifth.lost.len(), fifth.presumed_ours), (20, None), "exactly a fifth is not more");
    let more = judged(&fleet(79, 21, 60, now), 5000);
    assert_eq!((more.lost.len(), more.presumed_ours), (0, Some(21)));
    let still = judged(&fleet(79, 21, 129, now), 5000);
    assert_eq!((still.lost.len(), still.presumed_ours), (0, Some(21)));
    let real = judged(&fleet(79, 21, 130, now), 5000);
    assert_eq!((real.lost.len(), real.presumed_ours), (21, None));
    // After a restart of the server the ten heartbeats start over, however long the nodes were silent before.
    let restarted = judged(&fleet(79, 21, 5000, now), 100);
    assert_eq!((restarted.lost.len(), restarted.presumed_ours), (0, Some(21)));
}

#[test]
fn two_nodes_are_too_few_to_suspect_ourselves() {
    let now = start() + seconds(10_000);
    assert_eq!(judged(&fleet(0, 2, 60, now), 5000).lost.len(), 2);
    assert_eq!(judged(&fleet(0, 3, 60, now), 5000).presumed_ours, Some(3));
}

proptest! {
    #[test]
    fn the_rules_hold_for_every_fleet(
        nodes in prop::collection::vec((prop::option::of(0_i64..400), any::<bool>()), 0..40),
        good_for in 0_i64..400,
    ) {
        let now = start() + seconds(10_000);
        let heard: Vec<NodeHeartbeat> = nodes.iter().enumerate()
            .map(|(number, (before, unreachable))| node(number, *before, now, *unreachable))
            .collect();
        let verdict = judged(&heard, good_for);
        // Silence by the documented rules, computed differently from the code.
        let silence = |node: &NodeHeartbeat| {
            let heard_before = node.seen_at.map_or(i64::MAX, |at| now.duration_since(at).as_secs());
            heard_before.min(good_for)
        };
        let present: Vec<&NodeHeartbeat> = heard.iter().filter(|node| node.unreachable_since.is_none()).collect();
        let silent = present.iter().filter(|node| silence(node) >= 30).count();
        for node in &heard {
            let lost = verdict.lost.contains(&node.id);
            if node.unreachable_since.is_some() || silence(node) < 30 {
                prop_assert!(!lost, "{node:?} is declared lost");
            } else if silence(node) >= 130 {
                prop_assert!(lost, "{node:?} was silent long enough, whatever the others did");
            }
        }
        let many = silent > 2 && silent * 5 > present.len();
        if many {
            prop_assert_eq!(verdict.presumed_ours.unwrap_or(0) + verdict.lost.len(), silent);
        } else {
            prop_assert_eq!(verdict.presumed_ours, None);
            prop_assert_eq!(verdict.lost.len(), silent);
        }
        if good_for < 30 {
            prop_assert_eq!(verdict, LossDecision::default());
        }
    }
}
