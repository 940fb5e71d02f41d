//! Allocations with members: released with them by their owner and on expiry, and restarted, over HTTP.

use jiff::SignedDuration;
use muster_ids::Env;
use muster_testkit::{Answer, Database};
use serde_json::{Value, json};

use super::{Good, Stage};

impl Stage {
    /// Returns the allocation of a member.
    async fn place_of(&self, member: &str) -> String {
        self.member(member).await["allocation_id"].as_str().unwrap().to_owned()
    }

    async fn release(&self, allocation: &str, body: Value) -> Answer {
        self.post(&format!("allocations/{allocation}/release"), body).await
    }

    async fn desired(&self, component: usize) -> Value {
        self.get("app-instances/farm").await["topology"]["components"][component]["desired"].clone()
    }

    async fn update_allocation(&self, allocation: &str, body: Value) -> Answer {
        let path = self.at(&format!("allocations/{allocation}"));
        let request = self.scene.admin.request(reqwest::Method::PATCH, &path).header("if-match", "*");
        self.scene.admin.send(request.json(&body)).await
    }

    /// Makes an allocation expire immediately.
    async fn expire(&self, allocation: &str) {
        let soon = Env::system().now() + SignedDuration::from_secs(1);
        self.update_allocation(allocation, json!({"expires_at": soon})).await.ok();
    }

    /// Returns the releases of an allocation, newest last.
    async fn releases(&self, allocation: &str) -> Vec<Value> {
        let project = self.scene.fixture.id("train");
        let path = format!("/v1/operations?project={project}&subject={allocation}&page_size=200");
        let page = self.scene.admin.get(&path).await.ok();
        let items = page.body["items"].as_array().unwrap().clone();
        items.into_iter().filter(|operation| operation["kind"] == "allocation.release").collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_with_cascade_removes_the_members_and_respects_what_their_instance_needs() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(2).await;
        let (worker, head) = (stage.place_of("farm-worker-1").await, stage.place_of("farm-head-1").await);
        let refused = stage.release(&worker, json!({})).await.refused(409, "invalid_state");
        assert!(
            refused.text.contains("farm-worker-1") && refused.text.contains("--cascade"),
            "{}",
            refused.text
        );
        // Force alone is not to wait for a node: it removes no member.
        let forced = stage.release(&worker, json!({"force": true})).await.refused(409, "invalid_state");
        assert!(forced.text.contains("--cascade"), "{}", forced.text);
        // The plan names the member, and changes nothing.
        let plan =
            stage.release(&worker, json!({"cascade": true, "dry_run": true})).await.ok().body["plan"].clone();
        let member = stage.member("farm-worker-1").await["id"].clone();
        assert!(plan["locks"].as_array().unwrap().contains(&member), "{plan}");
        assert_eq!(plan["steps"][1]["name"], "remove_members");
        assert_eq!(stage.desired(1).await, 2);
        let adapter = Good::start(&stage);
        stage.scene.done(stage.release(&worker, json!({"cascade": true, "reason": "a test"})).await).await;
        assert_eq!(stage.get(&format!("allocations/{worker}")).await["state"], "released");
        assert_eq!(stage.member(member.as_str().unwrap()).await["state"], "removed");
        assert_eq!(stage.desired(1).await, 1);
        // The instance needs its head: only with force.
        for dry_run in [true, false] {
            let asked = json!({"cascade": true, "dry_run": dry_run});
            let refused = stage.release(&head, asked).await.refused(409, "invalid_state");
            assert!(refused.text.contains("farm would be broken"), "{}", refused.text);
        }
        stage.scene.done(stage.release(&head, json!({"cascade": true, "force": true})).await).await;
        assert_eq!(stage.get(&format!("allocations/{head}")).await["state"], "released");
        assert_eq!(stage.desired(0).await, 0);
        adapter.stop().await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_allocation_takes_its_members_along_or_says_why_it_cannot() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(2).await;
        let (worker, head) = (stage.place_of("farm-worker-1").await, stage.place_of("farm-head-1").await);
        let adapter = Good::start(&stage);
        for place in [&worker, &head] {
            stage.expire(place).await;
        }
        swept("it is released", async || {
            stage.get(&format!("allocations/{worker}")).await["state"] == "released"
        })
        .await;
        assert_eq!(stage.desired(1).await, 1);
        // Its head is required: blocked, as shown on the allocation and in the list of operations.
        swept("it is blocked", async || {
            stage.releases(&head).await.last().is_some_and(|release| release["state"] == "blocked")
        })
        .await;
        let shown = stage.get(&format!("allocations/{head}")).await;
        assert_eq!((&shown["state"], &shown["reason"]), (&json!("active"), &json!("members_needed")));
        assert!(shown["message"].as_str().unwrap().contains("farm would be broken"), "{shown}");
        let release = stage.releases(&head).await.pop().unwrap();
        assert!(release.to_string().contains("farm would be broken"), "{release}");
        // A later expiry ends it, and the allocation no longer has a reason.
        let later = Env::system().now() + SignedDuration::from_hours(5);
        let updated = stage.update_allocation(&head, json!({"expires_at": later})).await.ok().body;
        assert_eq!(updated["reason"], Value::Null, "{updated}");
        let release = stage.releases(&head).await.pop().unwrap();
        assert_eq!(release["state"], "cancelled", "{release}");
        assert_eq!(stage.get(&format!("allocations/{head}")).await["reason"], Value::Null);
        assert_eq!(stage.member("farm-head-1").await["state"], "active");
        adapter.stop().await;
        stage.stop().await;
    }
}

/// Waits for the sweeper, which runs every twenty seconds.
async fn swept(what: &str, mut so: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if so().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("it never came to this: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_has_its_members_join_again_and_keeps_a_quorum_unless_it_is_forced() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(3).await;
        let adapter = Good::start(&stage);
        let before = stage.member("farm-worker-1").await;
        let place = stage.place_of("farm-worker-1").await;
        let restart = format!("allocations/{place}/restart");
        stage.scene.done(stage.post(&restart, json!({"reason": "a test"})).await).await;
        let again = stage.member("farm-worker-1").await;
        assert_eq!((&again["state"], &again["cell_id"]), (&json!("active"), &before["cell_id"]), "{again:#}");
        assert_eq!(again["incarnation"].as_i64().unwrap(), before["incarnation"].as_i64().unwrap() + 1);
        assert_eq!(stage.get(&format!("allocations/{place}")).await["incarnation"], 2);
        assert_eq!(stage.desired(1).await, 3);
        // With one drained, the other two are the quorum.
        stage.scene.done(stage.order("drain", json!({"members": ["farm-worker-2"]})).await).await;
        let refused = stage.post(&restart, json!({})).await.refused(409, "invalid_state");
        assert!(refused.text.contains("quorum") && refused.text.contains("--force"), "{}", refused.text);
        stage.scene.done(stage.post(&restart, json!({"force": true})).await).await;
        assert_eq!(stage.member("farm-worker-1").await["state"], "active");
        adapter.stop().await;
        stage.stop().await;
    }
}
