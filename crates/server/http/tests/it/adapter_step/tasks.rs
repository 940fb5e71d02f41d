//! Tasks that an adapter runs in cells.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{generation, joining, joining_with};
use crate::instance::Stage;

async fn ask(stage: &Stage, step: &Value, key: &str, act: Value) -> muster_testkit::Answer {
    let body = json!({"key": key, "member_id": step["step"]["member_id"], "act": act, "wait_seconds": 20});
    stage.say(step, "tasks", generation(step), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn files_services_and_commands_are_done_once_a_key_also_for_the_next_holder() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        let step = joining(&stage).await;
        let files = json!({"files": {"write": [{"path": "/etc/pool.conf", "text": "role=head"}]}});
        let written = ask(&stage, &step, "conf", files.clone()).await.ok();
        assert_eq!(
            (&written.body["state"], &written.body["key"]),
            (&json!("done"), &json!("conf")),
            "{}",
            written.text
        );
        let read =
            ask(&stage, &step, "read", json!({"command": {"command": ["/bin/cat", "/etc/pool.conf"]}}))
                .await
                .ok();
        assert_eq!(
            (&read.body["ran"]["exit"], &read.body["ran"]["stdout"]),
            (&json!(0), &json!("role=head"))
        );
        let failed = ask(&stage, &step, "fails", json!({"command": {"command": ["/bin/false"]}})).await.ok();
        assert_eq!((&failed.body["state"], &failed.body["ran"]["exit"]), (&json!("done"), &json!(1)));
        let probe = ask(&stage, &step, "probe", json!({"probe": {"command": ["/bin/true"]}})).await.ok();
        assert_eq!(probe.body["ran"]["exit"], 0);
        let restart = json!({"service": {"name": "main", "action": "restart"}});
        let restarted = ask(&stage, &step, "restart", restart).await.ok();
        assert_eq!(restarted.body["state"], "done");

        let id = step["step"]["id"].as_str().unwrap();
        let path = stage.at(&format!("adapter-steps/{id}/tasks/{}", read.text_of("id")));
        let got = stage.operator.get(&format!("{path}?wait_seconds=1")).await.ok();
        assert_eq!(got.body, read.body);
        // The same key returns the same task for any lease holder; with another action it is refused.
        let reading = json!({"command": {"command": ["/bin/cat", "/etc/pool.conf"]}});
        let again = ask(&stage, &step, "read", reading.clone()).await.ok();
        assert_eq!(again.text_of("id"), read.text_of("id"));
        let other = ask(&stage, &step, "read", json!({"command": {"command": ["/bin/true"]}})).await;
        assert!(other.refused(409, "invalid_state").text.contains("another key"));
        let later = json!({"reason": "busy", "message": "not now", "retry_after_seconds": 0});
        stage.say(&step, "fail", generation(&step), later).await.ok();
        let old = json!({"key": "read", "member_id": step["step"]["member_id"], "act": reading});
        stage.say(&step, "tasks", generation(&step), old).await.refused(409, "fenced");
        // The next holder gets the last effect in the cell; earlier tasks may have been undone since, and run again.
        let next = stage.lease(20).await.remove(0);
        let restart = json!({"service": {"name": "main", "action": "restart"}});
        let same = ask(&stage, &next, "restart", restart).await.ok();
        assert_eq!(same.text_of("id"), restarted.text_of("id"));
        let anew = ask(&stage, &next, "read", reading.clone()).await.ok();
        assert_ne!(anew.text_of("id"), read.text_of("id"));
        assert_eq!(ask(&stage, &next, "read", reading).await.ok().text_of("id"), anew.text_of("id"));
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_opens_the_cells_of_its_own_instance_and_of_no_other() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    let other = json!({"name": "barn", "app": "pool", "app_version": "1"});
    stage.post("app-instances", other).await.ok();
    let step = stage.lease(20).await.remove(0);
    assert_eq!(step["snapshot"]["instance"], "barn");
    let theirs = stage.member("farm-worker-1").await;
    let act = json!({"command": {"command": ["/bin/true"]}});
    let wrong = json!({"key": "k", "member_id": theirs["id"], "act": act});
    stage.say(&step, "tasks", generation(&step), wrong).await.refused(404, "not_found");
    // A member of its own instance that has no cell yet.
    let members = stage.get("app-instances/barn/members").await;
    let worker = members["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|member| member["component_key"] == "worker")
        .unwrap()
        .clone();
    let early = json!({"key": "k", "member_id": worker["id"], "act": act});
    let refused = stage.say(&step, "tasks", generation(&step), early).await.refused(409, "invalid_state");
    assert!(refused.text.contains("does not run"), "{}", refused.text);
    let relative =
        json!({"key": "k", "member_id": step["step"]["member_id"], "act": {"command": {"command": ["sh"]}}});
    let refused =
        stage.say(&step, "tasks", generation(&step), relative).await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/act/command/command");
    let absent = format!(
        "adapter-steps/{}/tasks/tsk_01h455vb4pex5vsknk084sn02q",
        step["step"]["id"].as_str().unwrap()
    );
    stage.operator.get(&stage.at(&absent)).await.refused(404, "not_found");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_written_only_with_the_projects_consent_and_told_to_the_node_that_has_the_task() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.post("secrets", json!({"name": "shared", "value": "hush-hush-canary"})).await.ok();
    let step = joining(&stage).await;
    let secret = |name: &str| json!({"files": {"secrets": [{"secret": name, "file": "key"}]}});
    let refused = ask(&stage, &step, "none", secret("nothing")).await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/act/files/secrets/0/secret");
    let refused = ask(&stage, &step, "theirs", secret("shared")).await.refused(400, "invalid_request");
    assert!(refused.text.contains("did not consent"), "{}", refused.text);
    // Nor does it get secrets shared by others of the project; its members only share those issued for this instance.
    let account = stage.scene.fixture.client(&stage.scene.kit, "account_with_grant");
    let issued = json!({"purpose": "cluster_bootstrap", "name": "gossip"});
    let others = account.post(&stage.at("runtime-secrets"), issued.clone()).await.ok().text_of("id");
    let refused = ask(&stage, &step, "others", secret(&others)).await.refused(400, "invalid_request");
    assert!(refused.text.contains("not issued for this instance"), "{}", refused.text);
    stage.operator.get(&stage.at(&format!("runtime-secrets/{others}"))).await.refused(404, "not_found");
    let refused = stage.operator.post(&stage.at("runtime-secrets"), issued.clone()).await;
    assert_eq!(refused.refused(400, "invalid_request").body["errors"][0]["pointer"], "/instance");
    let mut for_it = issued;
    for_it["instance"] = step["snapshot"]["instance_id"].clone();
    let issued = stage.operator.post(&stage.at("runtime-secrets"), for_it).await.ok().text_of("id");
    let listed = stage.operator.get(&stage.at("runtime-secrets")).await.ok();
    assert_eq!(listed.body["items"].as_array().unwrap().len(), 1, "{}", listed.text);
    let written = ask(&stage, &step, "key", secret(&issued)).await.ok();
    assert_eq!(written.body["state"], "done", "{}", written.text);
    let told = stage.scene.told().await;
    assert!(
        told.iter().any(|word| word == "secret.delivered"),
        "the node was told, and that is known: {told:?}"
    );
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_consents_to_a_secret_only_in_a_field_that_the_schema_marks() {
    for (config, consents) in [(json!({"title": "shared"}), false), (json!({"key": "shared"}), true)] {
        let stage = Stage::new(Database::sqlite()).await;
        stage.post("secrets", json!({"name": "shared", "value": "hush-hush-canary"})).await.ok();
        let step = joining_with(&stage, config).await;
        let secret = json!({"files": {"secrets": [{"secret": "shared", "file": "key"}]}});
        let answer = ask(&stage, &step, "theirs", secret).await;
        if consents {
            assert_eq!(answer.ok().body["state"], "done");
        } else {
            let refused = answer.refused(400, "invalid_request");
            assert!(refused.text.contains("did not consent"), "{}", refused.text);
        }
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_was_overtaken_is_had_again_by_the_next_holder() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        let step = joining(&stage).await;
        let switch = |word: &str| json!({"files": {"write": [{"path": "/etc/switch", "text": word}]}});
        let other = json!({"files": {"write": [{"path": "/etc/other", "text": "x"}]}});
        let reading = json!({"command": {"command": ["/bin/cat", "/etc/switch"]}});
        let first = ask(&stage, &step, "off", switch("off")).await.ok();
        let apart = ask(&stage, &step, "other", other.clone()).await.ok();
        ask(&stage, &step, "on", switch("on")).await.ok();
        // A command that only reads undoes nothing.
        let member = &step["step"]["member_id"];
        let look = json!({"key": "look", "member_id": member, "act": reading.clone(), "effect": "reads"});
        stage.say(&step, "tasks", generation(&step), look).await.ok();
        // Under the same lease the key returns the same task, even after later ones: the response may have been lost.
        assert_eq!(ask(&stage, &step, "off", switch("off")).await.ok().text_of("id"), first.text_of("id"));
        let later = json!({"reason": "busy", "message": "not now", "retry_after_seconds": 0});
        stage.say(&step, "fail", generation(&step), later).await.ok();
        let next = stage.lease(20).await.remove(0);
        let again = ask(&stage, &next, "off", switch("off")).await.ok();
        assert_eq!(again.body["key"], "off");
        assert_ne!(again.text_of("id"), first.text_of("id"));
        assert_eq!(ask(&stage, &next, "other", other).await.ok().text_of("id"), apart.text_of("id"));
        let says = ask(&stage, &next, "read", reading).await.ok();
        assert_eq!(says.body["ran"]["stdout"], "off", "{}", says.text);
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_in_a_dead_cell_fails_with_a_word_for_it() {
    let stage = Stage::new(Database::sqlite()).await;
    let step = joining(&stage).await;
    let head = stage.member("farm-head-1").await;
    let cell = head["cell_id"].as_str().unwrap().parse().unwrap();
    assert!((0..2).any(|at| stage.nodes.fleet.kill_cell(at, cell).unwrap()), "it died");
    for (key, act) in [
        ("run", json!({"command": {"command": ["/bin/true"]}})),
        ("write", json!({"files": {"write": [{"path": "/etc/x", "text": ""}]}})),
        ("start", json!({"service": {"name": "main", "action": "start"}})),
        ("probe", json!({"probe": {"command": ["/bin/true"]}})),
    ] {
        let failed = ask(&stage, &step, key, act).await.ok();
        assert_eq!(
            (&failed.body["state"], &failed.body["reason"]),
            (&json!("failed"), &json!("cell_dead")),
            "{}",
            failed.text
        );
    }
    let stopped =
        ask(&stage, &step, "stop", json!({"service": {"name": "main", "action": "stop"}})).await.ok();
    assert_eq!((&stopped.body["state"], &stopped.body["reason"]), (&json!("done"), &Value::Null));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_lease_has_only_so_many_tasks_under_way() {
    let stage = Stage::new(Database::sqlite()).await;
    let step = joining(&stage).await;
    // Nothing reaches the nodes, so no task ends.
    for at in 0..2 {
        stage.nodes.fleet.partition(at, true);
    }
    let asked = async |number: usize| {
        let act = json!({"command": {"command": ["/bin/true"]}});
        let body = json!({"key": format!("k{number}"), "member_id": step["step"]["member_id"], "act": act});
        stage.say(&step, "tasks", generation(&step), body).await
    };
    for number in 0..256 {
        asked(number).await.ok();
    }
    let refused = asked(256).await.refused(429, "rate_limited");
    assert!(refused.text.contains("256 tasks of this lease"), "{}", refused.text);
    // A repeated task does not count as a new one.
    asked(3).await.ok();
    for at in 0..2 {
        stage.nodes.fleet.partition(at, false);
    }
    crate::cell::until("some have ended", async || asked(256).await.status < 300).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_removed_checks_a_member_is_removed_by_the_platforms_own_evidence() {
    let stage = Stage::new(Database::sqlite()).await;
    let mut manifest = crate::instance::pool("2");
    // This check may depend on a file that the adapter's `remove` deletes: it only applies to a drained member.
    manifest["components"][1]["witnesses"]["drained"] = json!([{"in": "self", "exec": ["/bin/cat", "/run/pool/drained"], "expect": {"stdout": "^yes$"}, "within": "3s",
                "sees": ["/run/pool"]}]);
    crate::instance::publish_as(&stage.scene, "2", manifest).await;
    let good = crate::instance::Good::start(&stage);
    let body = json!({"name": "farm", "app": "pool", "app_version": "2",
                      "components": [{"component_key": "worker", "count": 3}]});
    stage.scene.done(stage.post("app-instances", body).await).await;
    good.stop().await;
    let asked = stage.order("remove", json!({"members": ["farm-worker-3"]})).await;
    for (verb, act) in [
        ("drain", json!({"files": {"write": [{"path": "/run/pool/drained", "text": "yes"}]}})),
        ("remove", json!({"files": {"remove": ["/run/pool/drained"]}})),
    ] {
        let step = stage.lease(20).await.remove(0);
        assert_eq!(step["step"]["verb"], verb);
        ask(&stage, &step, verb, act).await.ok();
        stage.say(&step, "complete", generation(&step), json!({})).await.ok();
    }
    stage.scene.done(asked).await;
    assert!(stage.members().await.iter().all(|member| member["name"] != "farm-worker-3"));
    stage.stop().await;
}
