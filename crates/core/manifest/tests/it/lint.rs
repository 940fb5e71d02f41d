//! One broken manifest for each rule; each has that error and no other.

use std::time::{Duration, Instant};

use muster_manifest::{AppKind, lint, read};
use serde_json::{Value, json};

use crate::example::{CONTEXT, good, set, with};

/// Returns the lint's errors without their messages, which must exist and contain advice.
fn told(document: &Value) -> Vec<(String, &'static str, bool)> {
    let faults = lint(document, &CONTEXT);
    for fault in &faults {
        assert!(fault.message.len() > 15 && !fault.message.ends_with('.'), "{fault:?}");
        assert!(fault.path.is_empty() || fault.path.starts_with('/'), "{fault:?}");
    }
    faults.into_iter().map(|fault| (fault.path, fault.rule, fault.error)).collect()
}

fn errors(cases: Vec<(&str, Value, &str, &str)>) {
    for (place, value, path, rule) in cases {
        assert_eq!(told(&with(place, value.clone())), [(path.to_owned(), rule, true)], "{place} = {value}");
    }
}

fn warnings(cases: Vec<(&str, Value, &str, &str)>) {
    for (place, value, path, rule) in cases {
        assert_eq!(told(&with(place, value.clone())), [(path.to_owned(), rule, false)], "{place} = {value}");
    }
}

#[test]
fn a_good_one_has_no_fault_and_is_read_as_it_is_written() {
    assert_eq!(told(&good()), []);
    let manifest = read(&good()).unwrap();
    let written = serde_json::to_value(&manifest).unwrap();
    assert_eq!(told(&written), [], "what we write ourselves passes too");
    assert_eq!(read(&written).unwrap(), manifest);
    assert_eq!(manifest.artifact_kind, AppKind::Oci);
}

#[test]
fn the_shape_is_named_by_field() {
    errors(vec![
        ("/colour", json!("red"), "/colour", "unknown_field"),
        ("/components/0/count", json!({"min": 1}), "/components/0/count/max", "missing_field"),
        ("/app", json!(5), "/app", "wrong_type"),
        ("/version", json!(null), "/version", "wrong_type"),
        ("/app", json!("No Slug"), "/app", "pattern"),
        ("/artifact_kind", json!("binary"), "/artifact_kind", "not_a_choice"),
        ("/components/0/capacity/cpus", json!(0), "/components/0/capacity/cpus", "out_of_range"),
        ("/components/0/capacity/cpus", json!(2.0), "/components/0/capacity/cpus", "wrong_type"),
        (
            "/components/0/runtime/ports/0/port",
            json!(70000),
            "/components/0/runtime/ports/0/port",
            "out_of_range",
        ),
        (
            "/components/0/runtime/services/0/ready/by/tcp",
            json!(65_536),
            "/components/0/runtime/services/0/ready/by/tcp",
            "out_of_range",
        ),
        (
            "/components/0/witnesses/drained/0/uid",
            json!(4_294_967_296u64),
            "/components/0/witnesses/drained/0/uid",
            "out_of_range",
        ),
        ("/components/0/quorum", json!("all"), "/components/0/quorum", "not_a_choice"),
        (
            "/components/0/witnesses/drained/0/within",
            json!("soon"),
            "/components/0/witnesses/drained/0/within",
            "pattern",
        ),
        ("/artifacts/0/digest", json!("latest"), "/artifacts/0/digest", "pattern"),
    ]);
    assert_eq!(told(&json!([])), [(String::new(), "wrong_type", true)]);
}

#[test]
fn names_stand_once_and_are_those_of_something() {
    let service = json!({"name": "store", "command": ["/usr/bin/x"]});
    let mut second = good()["components"][1].clone();
    second["count"]["min"] = json!(0);
    errors(vec![
        ("/components/-", second, "/components/2/key", "duplicate"),
        ("/artifacts/-", good()["artifacts"][0].clone(), "/artifacts/1/name", "duplicate"),
        (
            "/components/0/runtime/ports/-",
            json!({"name": "api", "port": 1}),
            "/components/0/runtime/ports/2/name",
            "duplicate",
        ),
        (
            "/components/0/runtime/ports/-",
            json!({"name": "b", "port": 7001, "protocol": "tcp"}),
            "/components/0/runtime/ports/2/port",
            "duplicate_port",
        ),
        ("/components/0/runtime/services/-", service, "/components/0/runtime/services/3/name", "duplicate"),
        (
            "/components/0/runtime/secrets/-",
            json!({"secret": "b", "file": "key"}),
            "/components/0/runtime/secrets/1/file",
            "duplicate",
        ),
        ("/meters/-", json!({"name": "tokens", "unit": "t", "kind": "delta"}), "/meters/1/name", "duplicate"),
        ("/operations/-", json!("drain"), "/operations/3", "duplicate"),
        ("/permissions/-", json!("member.get"), "/permissions/2", "duplicate"),
        (
            "/compatibility/requires_capacity_shape",
            json!(["baremetal", "baremetal"]),
            "/compatibility/requires_capacity_shape/1",
            "duplicate",
        ),
        (
            "/components/1/runtime/root",
            json!({"artifact": "other"}),
            "/components/1/runtime/root/artifact",
            "unknown_artifact",
        ),
    ]);
    let digest = good()["artifacts"][0]["digest"].clone();
    warnings(vec![(
        "/artifacts/-",
        json!({"name": "weights", "repository": "w", "digest": digest}),
        "/artifacts/1",
        "unused_artifact",
    )]);
}

#[test]
fn counts_quorums_and_state_make_sense() {
    errors(vec![
        ("/components/0/count", json!({"min": 4, "max": 3}), "/components/0/count/min", "count_order"),
        (
            "/components/0/count",
            json!({"min": 1, "max": 3, "default": 4}),
            "/components/0/count/default",
            "count_order",
        ),
        (
            "/components/0/count",
            json!({"min": 1, "max": 3, "default": 0}),
            "/components/0/count/default",
            "count_order",
        ),
        ("/components/1/quorum", json!({"at_least": 9}), "/components/1/quorum/at_least", "quorum_range"),
        ("/components/1/quorum", json!({"at_least": 0}), "/components/1/quorum/at_least", "quorum_range"),
        ("/components/0/state/0", json!("var/lib"), "/components/0/state/0", "state_path"),
        ("/components/0/state/0", json!("/var/../etc"), "/components/0/state/0", "state_path"),
        ("/components/0/state/0", json!("/"), "/components/0/state/0", "state_path"),
        ("/components/0/state/0", json!("/run"), "/components/0/state/0", "state_path"),
        ("/components/0/state/-", json!("/var/lib/app/inner"), "/components/0/state/2", "state_nested"),
        ("/components/0/state/-", json!("/var/lib/app"), "/components/0/state/2", "state_nested"),
        ("/components/0/shared", json!(["home"]), "/components/0/shared/0", "state_path"),
        ("/components/0/shared", json!(["/home", "/home/inner"]), "/components/0/shared/1", "state_nested"),
        ("/components/0/shared", json!(["/var/lib/app"]), "/components/0/shared/0", "state_nested"),
        ("/compatibility/min_gpu_count", json!(9), "/compatibility/min_gpu_count", "min_gpu_count"),
        (
            "/compatibility/requires_exclusive_node",
            json!(true),
            "/compatibility/requires_exclusive_node",
            "exclusive_slice",
        ),
        ("/components/1/runtime/root", json!({"host": []}), "/components/1/runtime/root/host", "root_path"),
        (
            "/components/1/runtime/root/host/0",
            json!("/etc"),
            "/components/1/runtime/root/host/0",
            "root_path",
        ),
    ]);
    warnings(vec![
        ("/components/0/count", json!({"min": 1, "max": 2}), "/components/0/quorum", "quorum_small"),
        (
            "/components/0/drain_pace",
            json!({"at_once": 2}),
            "/components/0/drain_pace/at_once",
            "pace_over_quorum",
        ),
        ("/components/1/witnesses/active", json!([]), "/components/1/witnesses/active", "active_unwitnessed"),
    ]);
    let mut alone = with("/components/1/stop_after_partition", json!(60));
    alone["components"][1].as_object_mut().unwrap().remove("quorum");
    let at = "/components/1/stop_after_partition".to_owned();
    assert_eq!(told(&alone), [(at, "stop_without_quorum", false)]);
    let mut restarts = with("/components/1/restart", json!("always"));
    let at = "/components/1/restart".to_owned();
    assert_eq!(told(&restarts), [(at, "restart_without_recover", true)]);
    set(&mut restarts, "/operations", json!(["drain", "resume", "replace", "recover"]));
    assert_eq!(told(&restarts), []);
    // A single member protects itself.
    set(&mut alone, "/components/1/count", json!({"min": 0, "max": 1}));
    set(&mut alone, "/compatibility/min_gpu_count", json!(1));
    assert_eq!(told(&alone), []);
}

#[test]
fn services_start_in_an_order_and_by_programs() {
    let at = "/components/0/runtime/services";
    errors(vec![
        (&format!("{at}/0/command/0"), json!("store"), &format!("{at}/0/command/0"), "program_path"),
        (&format!("{at}/2/ready/by/command"), json!([]), &format!("{at}/2/ready/by/command"), "program_path"),
        (
            &format!("{at}/2/ready/by/command"),
            json!(["true"]),
            &format!("{at}/2/ready/by/command/0"),
            "program_path",
        ),
        (
            &format!("{at}/1/ready/by/http/path"),
            json!("ready"),
            &format!("{at}/1/ready/by/http/path"),
            "probe_path",
        ),
        (&format!("{at}/0/ready/by/tcp"), json!(0), &format!("{at}/0/ready/by/tcp"), "probe_port"),
        (
            &format!("{at}/0/working_directory"),
            json!("here"),
            &format!("{at}/0/working_directory"),
            "working_directory",
        ),
        (&format!("{at}/1/after/-"), json!("nobody"), &format!("{at}/1/after/1"), "unknown_service"),
        (&format!("{at}/0/after"), json!(["store"]), &format!("{at}/0/after"), "service_cycle"),
        (
            &format!("{at}/0/environment"),
            json!({"1A": "x"}),
            &format!("{at}/0/environment/1A"),
            "environment",
        ),
        (
            "/components/0/runtime/environment",
            json!({"a/b": "x"}),
            "/components/0/runtime/environment/a~1b",
            "environment",
        ),
    ]);
    // A cycle is reported at each service in it, and at none that only waits for them.
    let circle = told(&with(&format!("{at}/0/after"), json!(["head"])));
    assert_eq!(
        circle,
        [(format!("{at}/0/after"), "service_cycle", true), (format!("{at}/1/after"), "service_cycle", true)]
    );
    let mut waits = with(&format!("{at}/2/after"), json!([]));
    set(&mut waits, &format!("{at}/0/after"), json!(["later"]));
    assert_eq!(told(&waits), [(format!("{at}/0/after"), "waits_for_request", false)]);
}

#[test]
fn checks_are_bounded_and_run_nothing_of_the_cell() {
    let at = "/components/1/witnesses/drained/0";
    let field = |name: &str| format!("{at}/{name}");
    errors(vec![
        (&field("in"), json!("nobody"), &field("in"), "unknown_component"),
        (&field("exec/0"), json!("state"), &field("exec/0"), "program_path"),
        (&field("exec/0"), json!("/usr/../bin/x"), &field("exec/0"), "program_path"),
        (&field("exec/0"), json!("/usr/bin/{member.name}"), &field("exec/0"), "variable"),
        (&field("exec/1"), json!("{secret.key}"), &field("exec/1"), "variable"),
        (&field("exec/1"), json!("{"), &field("exec/1"), "variable"),
        (&field("expect/stdout"), json!("("), &field("expect/stdout"), "expression"),
        (&field("expect/stdout"), json!("((a{100}){100}){100}"), &field("expect/stdout"), "expression"),
        (&field("within"), json!("25h"), &field("within"), "within"),
        (&field("within"), json!("86401s"), &field("within"), "within"),
        (&field("environment"), json!({"": "x"}), &field("environment/"), "environment"),
    ]);
    for odd in [
        "/",
        "/proc",
        "/sys/kernel",
        "/dev/shm",
        "/bin",
        "/sbin",
        "/usr/local/data",
        "/lib",
        "/lib64",
        "/libexec",
        "/etc",
        "data",
        "/data/",
        "/data/../etc",
        "/data//x",
    ] {
        assert_eq!(told(&with(&field("sees/0"), json!(odd))), [(field("sees/0"), "sees", true)], "{odd}");
    }
    let twice = with(&field("sees"), json!(["/data", "/run/app", "/data"]));
    assert_eq!(told(&twice), [(field("sees/2"), "sees", true)]);
    for good in ["/var/lib/app", "/etc/app", "/procfs", "/data"] {
        assert_eq!(told(&with(&field("sees/0"), json!(good))), [], "{good}");
    }
    assert_eq!(told(&with(&field("within"), json!("24h"))), []);
    errors(vec![(
        "/components/1/witnesses/drained",
        json!([]),
        "/components/1/witnesses/drained",
        "drain_unwitnessed",
    )]);
}

#[test]
fn a_launchable_app_is_one_component_that_is_asked_itself() {
    let mut document = with("/artifact_kind", json!("launchable"));
    let faults = told(&document);
    assert!(faults.contains(&("/components".to_owned(), "launchable_one_component", true)), "{faults:?}");
    document["components"].as_array_mut().unwrap().remove(0);
    let places =
        ["active", "drained", "removed"].map(|state| format!("/components/0/witnesses/{state}/0/in"));
    let mut expected = vec![("/artifacts/0".to_owned(), "unused_artifact", false)];
    expected.extend(places.clone().map(|place| (place, "launchable_self_only", true)));
    assert_eq!(told(&document), expected);
    for place in places {
        set(&mut document, &place, json!("self"));
    }
    document["artifacts"] = json!([]);
    assert_eq!(told(&document), []);
}

#[test]
fn permissions_exist_and_can_be_given() {
    errors(vec![
        ("/permissions/0", json!("member.fly"), "/permissions/0", "unknown_permission"),
        ("/permissions/0", json!("member"), "/permissions/0", "unknown_permission"),
        ("/permissions/0", json!("member.*"), "/permissions/0", "unknown_permission"),
        ("/permissions/0", json!("user.create"), "/permissions/0", "forbidden_permission"),
    ]);
}

#[test]
fn twelve_faults_are_told_in_one_pass() {
    let mut document = good();
    let broken = [
        ("/colour", json!("red"), "/colour", "unknown_field"),
        ("/version", json!("1 0"), "/version", "pattern"),
        ("/components/0/count", json!({"min": 5, "max": 3}), "/components/0/count/min", "count_order"),
        ("/components/1/quorum", json!({"at_least": 99}), "/components/1/quorum/at_least", "quorum_range"),
        (
            "/components/0/runtime/root",
            json!({"artifact": "x"}),
            "/components/0/runtime/root/artifact",
            "unknown_artifact",
        ),
        (
            "/components/0/runtime/services/1/after",
            json!(["x"]),
            "/components/0/runtime/services/1/after/0",
            "unknown_service",
        ),
        (
            "/components/1/witnesses/active/0/in",
            json!("x"),
            "/components/1/witnesses/active/0/in",
            "unknown_component",
        ),
        (
            "/components/1/witnesses/active/0/exec/0",
            json!("x"),
            "/components/1/witnesses/active/0/exec/0",
            "program_path",
        ),
        (
            "/components/1/witnesses/active/0/sees",
            json!(["/proc"]),
            "/components/1/witnesses/active/0/sees/0",
            "sees",
        ),
        ("/permissions/0", json!("x.y"), "/permissions/0", "unknown_permission"),
        ("/config_schema/type", json!("x"), "/config_schema/type", "config_schema"),
        (
            "/compatibility/requires_exclusive_node",
            json!(true),
            "/compatibility/requires_exclusive_node",
            "exclusive_slice",
        ),
    ];
    let mut expected: Vec<(String, &str, bool)> = Vec::new();
    for (place, value, path, rule) in broken {
        set(&mut document, place, value);
        expected.push((path.to_owned(), rule, true));
    }
    let mut faults: Vec<_> = told(&document).into_iter().filter(|(_, _, error)| *error).collect();
    faults.sort();
    expected.sort();
    assert_eq!(faults, expected);
    assert_eq!(faults.len(), 12);
}

#[test]
fn a_part_that_cannot_be_read_hides_no_fault_of_another() {
    let mut document = with("/components/0/count", json!("many"));
    set(&mut document, "/components/0/runtime/services/0/command/0", json!("store"));
    set(&mut document, "/components/0/key", json!(7));
    // With an unknown key, "nobody" cannot be reported as missing.
    set(&mut document, "/components/1/witnesses/active/0/in", json!("nobody"));
    let mut faults = told(&document);
    faults.sort();
    assert_eq!(
        faults,
        [
            ("/components/0/count".to_owned(), "wrong_type", true),
            ("/components/0/key".to_owned(), "wrong_type", true),
            ("/components/0/runtime/services/0/command/0".to_owned(), "program_path", true),
        ]
        .to_vec(),
        "{faults:?}"
    );
}

#[test]
fn a_flood_of_faults_is_cut_and_says_so() {
    let many: Vec<Value> = (0..5_000).map(|_| json!("x")).collect();
    let faults = lint(&with("/permissions", json!(many)), &CONTEXT);
    assert_eq!(faults.len(), 201);
    assert_eq!(faults.last().unwrap().rule, "too_many_faults");
}

#[test]
fn a_hostile_document_is_answered_soon() {
    let begun = Instant::now();
    assert_eq!(told(&json!({"notes": "x".repeat(300_000)})), [(String::new(), "too_long", true)]);
    // Many expressions, each near the cost limit.
    let check = json!({"exec": ["/x"], "expect": {"stdout": "(\\w\\d\\s){20}"}});
    let checks: Vec<Value> = (0..16).map(|_| check.clone()).collect();
    let mut document = good();
    let mut worker = document["components"][1].clone();
    worker["witnesses"] = json!({"active": checks, "drained": checks, "removed": checks});
    for index in 2..8 {
        worker["key"] = json!(format!("w{index}"));
        document["components"].as_array_mut().unwrap().push(worker.clone());
    }
    lint(&document, &CONTEXT);
    // Lists far longer than allowed.
    let many: Vec<String> = (0..20_000).map(|_| "/a".to_owned()).collect();
    lint(&with("/components/0/state", json!(many)), &CONTEXT);
    let services: Vec<Value> =
        (0..3_000).map(|n| json!({"name": format!("s{n}"), "command": ["/x"], "after": ["s1"]})).collect();
    lint(&with("/components/0/runtime/services", json!(services)), &CONTEXT);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
