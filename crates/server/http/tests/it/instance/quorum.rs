//! Two concurrent drains: the quorum holds, on both databases.

use muster_testkit::Database;
use serde_json::json;

use super::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn of_two_drains_at_once_that_break_a_quorum_only_together_one_is_refused() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(3).await;
        // A majority of three is two: either may be drained, but not both. There is no adapter, so neither drain
        // advances.
        for round in 0..4 {
            let (one, two) = tokio::join!(
                stage.order("drain", json!({"members": ["farm-worker-1"]})),
                stage.order("drain", json!({"members": ["farm-worker-2"]}))
            );
            let statuses = [one.status, two.status];
            assert!(
                statuses.contains(&202) && statuses.contains(&409),
                "round {round}: {statuses:?} {} {}",
                one.text,
                two.text
            );
            let (won, lost) = if one.status == 202 { (one, two) } else { (two, one) };
            let lost = lost.refused(409, "invalid_state");
            assert!(lost.body["detail"].as_str().unwrap().contains("needs 2 of 3 members"), "{}", lost.text);
            let id = won.body["operation"]["id"].as_str().unwrap();
            let path = format!("/v1/operations/{id}/cancel");
            stage.scene.admin.post(&path, json!({})).await.ok();
            let good = super::Good::start(&stage);
            stage.scene.ended(&won).await;
            good.stop().await;
            back_to_work(&stage).await;
        }
        // Both in one request are refused for the same reason, in a dry run too.
        for dry_run in [true, false] {
            let both = json!({"members": ["farm-worker-1", "farm-worker-2"], "dry_run": dry_run});
            stage.order("drain", both).await.refused(409, "invalid_state");
        }
        stage.stop().await;
    }
}

/// Returns all workers to active after a cancelled drain.
async fn back_to_work(stage: &Stage) {
    let good = super::Good::start(stage);
    for name in ["farm-worker-1", "farm-worker-2"] {
        let state = stage.member(name).await["state"].as_str().unwrap().to_owned();
        if state == "drained" || state == "draining" {
            let resumed = stage.order("resume", json!({"members": [name]})).await;
            stage.scene.done(resumed).await;
        }
    }
    good.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_removed_once_however_often_that_is_asked_for_at_once() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(3).await;
    let remove = || stage.order("remove", json!({"members": ["farm-worker-3"]}));
    let (one, two, three) = tokio::join!(remove(), remove(), remove());
    let accepted = [&one, &two, &three].iter().filter(|answer| answer.status == 202).count();
    assert_eq!(accepted, 1, "{} {} {}", one.text, two.text, three.text);
    let desired = stage.get("app-instances/farm").await["topology"]["components"][1]["desired"].clone();
    assert_eq!(desired, 2);
    // With force the same member's drain is superseded, and nothing is counted twice.
    let forced = stage.order("remove", json!({"members": ["farm-worker-3"], "force": true})).await.ok();
    assert!(forced.body["operation"]["supersedes"].is_string(), "{}", forced.text);
    let desired = stage.get("app-instances/farm").await["topology"]["components"][1]["desired"].clone();
    assert_eq!(desired, 2);
    let good = super::Good::start(&stage);
    stage.scene.done(forced).await;
    good.stop().await;
    stage.stop().await;
}
