//! Instances and members over the wire.

use serde_json::{Value, json};

use super::scripted::{Reply, ok, problem};
use super::{Context, Desk, Exit, command};
use crate::member::view::tests::sample as member;
use crate::operation::samples::operation;
use crate::operation::screen::Screen;
use crate::operation::watch::follow;
use crate::workload::instance::tests::sample as instance;

const AT: &str = "/v1/projects/acme.train/app-instances";

fn on(kind: &str, subject: &str, state: &str) -> Value {
    let mut operation = operation(state);
    operation["kind"] = json!(kind);
    operation["subject_kind"] = json!(if subject.starts_with("mem_") { "member" } else { "instance" });
    operation["subject_id"] = json!(subject);
    operation
}

fn shows(thing: &Value) -> Reply {
    ok(&thing.to_string())
}

fn started(operation: &Value) -> Reply {
    shows(&json!({"operation": operation, "plan": {"kind": operation["kind"], "steps": []}}))
}

fn sent(desk: &Desk, place: usize) -> Value {
    serde_json::from_str(&desk.server.requests()[place].body).unwrap()
}

#[tokio::test]
async fn an_instance_is_launched_and_waited_for() {
    let [accepted, done] = ["accepted", "succeeded"].map(|state| on("instance.create", "ins_1", state));
    let desk = Desk::new(vec![started(&accepted), shows(&done)]);
    desk.type_in("muster instance create notebook --set unit=2 --config rate=5 --project acme.train --wait")
        .await
        .unwrap();
    assert_eq!(desk.lines(), [format!("POST {AT}"), "GET /v1/operations/op_1?wait_seconds=1".to_owned()]);
    assert_eq!(
        sent(&desk, 0),
        json!({"app": "notebook", "name": "notebook", "config": {"rate": 5},
               "components": [{"component_key": "unit", "count": 2}]})
    );
    assert!(desk.server.requests()[0].header("idempotency-key").is_some());
}

#[tokio::test]
async fn a_failed_launch_ends_with_the_advice_of_the_instance() {
    let failed = on("instance.create", "ins_1", "failed");
    let mut seen = instance();
    seen["advice"] = json!("see its items");
    let desk =
        Desk::new(vec![started(&on("instance.create", "ins_1", "accepted")), shows(&failed), shows(&seen)]);
    let failure =
        desk.type_in("muster instance create notebook --project acme.train --wait").await.unwrap_err();
    assert_eq!((failure.exit, failure.next.as_deref()), (Exit::OperationFailed, Some("see its items")));
    assert_eq!(desk.lines()[2], "GET /v1/projects/prj_1/app-instances/ins_1");
}

#[tokio::test]
async fn a_failed_member_is_looked_for_to_have_its_advice() {
    let failed = on("member.add", "mem_1", "failed");
    let page = json!({"items": [{"id": "ins_0", "state": "stopped"}, {"id": "ins_1", "state": "running"}]});
    let mut seen = member();
    seen["advice"] = json!("see its logs");
    let desk = Desk::new(vec![shows(&failed), shows(&page), shows(&seen)]);
    let failure = desk.type_in("muster operation watch op_1").await.unwrap_err();
    assert_eq!(failure.next.as_deref(), Some("see its logs"));
    assert_eq!(
        desk.lines()[2],
        "GET /v1/projects/prj_1/app-instances/ins_1/members/mem_1",
        "the living first"
    );

    let desk = Desk::new(vec![shows(&failed), problem(403, "permission_denied")]);
    let failure = desk.type_in("muster operation watch op_1").await.unwrap_err();
    assert_eq!(
        (failure.exit, failure.next),
        (Exit::OperationFailed, None),
        "what cannot be seen is left out"
    );
}

#[tokio::test]
async fn a_member_is_found_by_its_id_alone() {
    let first = json!({"items": [{"id": "ins_0", "state": "running"}], "next_page_token": "t"});
    let second = json!({"items": [{"id": "ins_1", "state": "running"}]});
    let desk = Desk::new(vec![
        shows(&first),
        shows(&second),
        problem(404, "not_found"),
        shows(&member()),
        started(&on("member.drain", "mem_1", "accepted")),
    ]);
    desk.type_in("muster member drain mem_1 --reason maintenance --project acme.train").await.unwrap();
    assert_eq!(
        desk.lines(),
        [
            format!("GET {AT}?page_size=200"),
            format!("GET {AT}?page_size=200&page_token=t"),
            format!("GET {AT}/ins_0/members/mem_1"),
            format!("GET {AT}/ins_1/members/mem_1"),
            format!("POST {AT}/ins_1/member-operations/drain"),
        ]
    );
    assert_eq!(sent(&desk, 4), json!({"members": ["mem_1"], "reason": "maintenance"}));

    let desk = Desk::new(vec![shows(&json!({"items": []}))]);
    let failure = desk.type_in("muster member get mem_1 --project acme.train").await.unwrap_err();
    assert_eq!(failure.exit, Exit::NotFound);
    assert!(failure.next.unwrap().contains("muster member list INSTANCE"));
}

#[tokio::test]
async fn an_amount_that_was_left_out_is_what_the_component_asks_for() {
    let desk = Desk::new(vec![shows(&instance()), started(&on("member.add", "mem_1", "accepted"))]);
    desk.type_in("muster member add lab unit --gpus 2 --project acme.train").await.unwrap();
    assert_eq!(desk.lines(), [format!("GET {AT}/lab"), format!("POST {AT}/lab/member-operations/add")]);
    assert_eq!(
        sent(&desk, 1),
        json!({"component_key": "unit", "allocation": {"capacity": {"gpus": 2, "cpus": 2, "memory_mb": 4096, "disk_mb": 8192}}})
    );
    let whole = "--gpus 2 --cpus 1 --memory-mb 1 --disk-mb 1";
    let desk = Desk::new(vec![started(&on("member.add", "mem_1", "accepted"))]);
    desk.type_in(&format!("muster member add lab unit {whole} --project acme.train")).await.unwrap();
    assert_eq!(desk.lines().len(), 1, "what was said whole needs no look");
}

#[tokio::test]
async fn an_instance_is_shown_with_what_is_under_way_and_scripts_get_it_as_it_is() {
    let desk = Desk::new(vec![shows(&instance()), shows(&on("instance.scale", "ins_1", "running"))]);
    desk.type_in("muster instance get lab --project acme.train").await.unwrap();
    assert_eq!(desk.lines(), [format!("GET {AT}/lab"), "GET /v1/operations/op_1".to_owned()]);
    let desk = Desk::new(vec![shows(&instance()), problem(403, "permission_denied")]);
    desk.type_in("muster instance get lab --project acme.train").await.unwrap();
    let desk = Desk::new(vec![shows(&instance())]);
    desk.type_in("muster instance get lab --project acme.train -o json").await.unwrap();
    assert_eq!(desk.lines(), [format!("GET {AT}/lab")]);
}

#[tokio::test]
async fn the_parts_of_an_operation_are_watched_with_it_until_each_has_ended() {
    let item =
        |state: &str| json!([{"id": "mem_1", "name": "unit-0", "state": state, "operation_id": "op_2"}]);
    let whole = |state: &str, part: &str| {
        let mut whole = on("members.add", "ins_1", state);
        whole["items"] = item(part);
        whole["witnesses"] = json!([]);
        whole
    };
    let part = |state: &str| {
        let mut part = on("member.add", "mem_1", state);
        part["id"] = json!("op_2");
        part
    };
    let desk = Desk::new(vec![
        shows(&whole("running", "running")),
        shows(&part("running")),
        shows(&whole("running", "running")),
        shows(&part("running")),
        shows(&whole("running", "running")),
        shows(&part("succeeded")),
        shows(&whole("succeeded", "succeeded")),
    ]);
    let matches = command().try_get_matches_from(["muster", "whoami"]).unwrap();
    let context = Context::new(&matches, desk.surroundings(), false).unwrap();
    let mut out = Vec::new();
    let mut screen = Screen::new(&mut out, false);
    let (end, _) =
        follow(&context, &context.connect().unwrap(), "op_1", &Value::Null, None, &mut screen).await.unwrap();
    assert_eq!(end["state"], "succeeded");
    assert_eq!(
        desk.lines().iter().filter(|line| line.ends_with("/op_2")).count(),
        3,
        "what has ended is not asked again"
    );
    let shown = String::from_utf8(out).unwrap();
    assert_eq!(
        shown.matches("    … unit-0 [✓…·] prepare: the node has not answered yet").count(),
        1,
        "{shown}"
    );
    assert_eq!(shown.matches("    ✓ unit-0 active (verified on nod_1)").count(), 1, "{shown}");
    assert!(shown.contains("  ✓ unit-0: done\n"), "{shown}");
}

/// A replacement has no items: only `blocked_by` names the child that blocks it.
#[tokio::test]
async fn a_wait_on_an_operation_whose_last_child_is_blocked_ends_with_13_and_the_childs_actions() {
    let mut replace = on("member.replace", "mem_1", "running");
    replace["subject_name"] = json!("unit-0");
    replace["witnesses"] = json!([]);
    replace["blocked_by"] = json!([{"operation_id": "op_2", "kind": "member.remove", "subject_kind": "member",
        "subject_name": "unit-0", "blocked": {"reason": "check 0 does not hold", "resolvable_by": "tenant",
        "actions": ["retry"], "since": "2026-11-15T12:25:19Z", "escalates_at": "2026-11-15T13:25:19Z"}}]);
    let ends = async |line: &str| {
        let first = match line.contains("watch") {
            true => None,
            false if line.contains("resolve") => Some(shows(&replace)),
            false => Some(started(&replace)),
        };
        let looks = (0..200).map(|_| shows(&replace));
        let desk = Desk::new(first.into_iter().chain(looks).collect());
        let failure = desk.type_in(line).await.unwrap_err();
        assert_eq!((failure.exit as u8, failure.code.as_str()), (13, "operation_blocked"), "{line}");
        assert_eq!(
            failure.detail,
            "member.replace of unit-0 is blocked by member.remove of unit-0: check 0 does not hold"
        );
        let action = "muster operation resolve op_2 --action retry";
        assert!(failure.lines[1].ends_with(action), "{:?}", failure.lines);
        assert!(failure.next.unwrap().ends_with("muster operation watch op_1"));
    };
    tokio::join!(
        ends("muster member replace lab unit-0 --project acme.train --wait"),
        ends("muster operation watch op_1"),
        ends("muster operation resolve op_1 --action retry --wait"),
    );
}

#[tokio::test]
async fn ctrl_c_ends_the_wait_and_says_that_the_operation_continues() {
    let running = on("instance.create", "ins_1", "running");
    let desk = Desk::new((0..200).map(|_| shows(&running)).collect());
    let interrupt = async {
        while desk.lines().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let own = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &own]).status().unwrap().success());
    };
    let (ended, ()) = tokio::join!(desk.type_in("muster operation watch op_1"), interrupt);
    let failure = ended.unwrap_err();
    assert_eq!(failure.exit as u8, 130);
    assert_eq!(failure.next.as_deref(), Some("it continues: muster operation watch op_1"));
}

#[tokio::test]
async fn of_what_was_started_the_operations_id_is_the_name() {
    let mut accepted = on("instance.create", "ins_1", "accepted");
    accepted["items"] = json!([{"id": "mem_1", "name": "unit-0", "state": "pending"}]);
    let desk = Desk::new(vec![started(&accepted)]);
    desk.type_in("muster instance create notebook --project acme.train -o name").await.unwrap();
    assert_eq!(crate::operate::names(&["operation", "get"], &accepted).unwrap(), "op_1\n");
}

#[tokio::test]
async fn lists_and_views_of_workloads_are_shown() {
    let lists = [
        ("app list", json!({"slug": "notebook", "display_name": "Notebooks", "entitled": true})),
        (
            "app-version list notebook",
            json!({"app": "notebook", "name": "1.2", "state": "active", "instances": 1}),
        ),
        ("entitlement list", json!({"app": "notebook", "permissions": ["cell.list"]})),
        ("adapter list", json!({"name": "kit-1", "adapter_version": "1", "leases": 0})),
        ("instance list", instance()),
        ("member list lab", member()),
        ("adapter-step list", json!({"verb": "join", "state": "queued", "attempts": 0})),
    ];
    for (words, item) in lists {
        let desk = Desk::new(vec![shows(&json!({"items": [item]}))]);
        desk.type_in(&format!("muster {words} --project acme.train")).await.unwrap();
    }
    let views = [
        ("member get lab/unit-0 -o json", member()),
        ("instance endpoints lab", json!({"endpoints": []})),
        ("app compatibility notebook", json!({"version": "1.2", "answers": []})),
        ("entitlement grant notebook --dry-run", json!({"permissions": ["cell.list"]})),
        ("adapter-step get ast_1", json!({"step": {"id": "ast_1"}, "snapshot": {"members": []}})),
    ];
    for (words, answer) in views {
        let desk = Desk::new(vec![shows(&answer)]);
        desk.type_in(&format!("muster {words} --project acme.train")).await.unwrap();
        assert_eq!(desk.lines().len(), 1, "{words}");
    }
}

#[tokio::test]
async fn apply_without_changes_starts_no_operation_to_wait_for() {
    let desk = Desk::new(vec![shows(&json!({"plan": {"kind": "instance.apply", "steps": []}}))]);
    desk.type_in("muster instance apply notebook --name lab --project acme.train --wait").await.unwrap();
    assert_eq!(desk.lines(), [format!("POST {AT}/apply")], "there is nothing to wait for");
}

#[tokio::test]
async fn a_dry_run_of_a_publication_ends_as_a_lint_does() {
    let typed = "muster app-version publish notebook --project acme.train --manifest {} --dry-run";
    let fault = |error: bool| json!({"path": "/version", "rule": "version_taken", "message": "choose another", "error": error});
    for output in ["table", "json", "name"] {
        for (faults, exit) in [
            (json!([]), None),
            (json!([fault(false)]), None),
            (json!([fault(false), fault(true)]), Some(Exit::Invalid)),
        ] {
            let desk = Desk::new(vec![shows(&json!({"faults": faults}))]);
            let ended = desk.type_in(&format!("{typed} -o {output}")).await;
            assert_eq!(
                ended.map_err(|failure| (failure.exit, failure.code)).err(),
                exit.map(|exit| (exit, "lint_failed".to_owned()))
            );
        }
    }
    // A successful publication is not a failure, despite lint warnings.
    let desk = Desk::new(vec![shows(&json!({"app_version": {"name": "1.2"}, "faults": [fault(false)]}))]);
    desk.type_in("muster app-version publish notebook --project acme.train --manifest {}").await.unwrap();
}

#[tokio::test]
async fn a_mistyped_name_is_quoted_and_the_closest_one_suggested() {
    let absent = json!({"status": 404, "code": "not_found", "detail": "instance not found, or no access"});
    let page = json!({"items": [{"name": "other"}, {"name": "lab"}]});
    let desk = Desk::new(vec![Reply::Answer(404, Vec::new(), absent.to_string()), shows(&page)]);
    let failure = desk.type_in("muster instance get lba --project acme.train").await.unwrap_err();
    assert_eq!(failure.exit, Exit::NotFound);
    assert_eq!(failure.detail, "instance \"lba\" not found, or no access. Did you mean lab?");
    assert_eq!(desk.lines()[1], format!("GET {AT}?page_size=200"));

    let desk = Desk::new(vec![
        Reply::Answer(404, Vec::new(), absent.to_string()),
        problem(403, "permission_denied"),
    ]);
    let failure = desk.type_in("muster instance get lba --project acme.train").await.unwrap_err();
    assert_eq!((failure.exit, failure.detail.contains("Did you mean")), (Exit::NotFound, false));
}
