//! Working streams.

use std::time::Duration;

use muster_sdk::Said;
use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Scene, all, cell_of, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_says_what_it_has_to_say_and_how_it_ended() {
    let scene = Scene::new().await;
    let (input, output) = scene.command(&["echo", "hello", "world"]).await;
    let heard = all((input, output)).await;
    assert_eq!((heard.started, heard.text().as_str(), heard.status), (true, "hello world\n", Some(0)));
    let (input, output) = scene.command(&["exit", "42"]).await;
    assert_eq!(all((input, output)).await.status, Some(42));
    let (input, output) = scene.command(&["missing"]).await;
    assert!(all((input, output)).await.failed.unwrap().contains("no program"));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_goes_in_and_its_end_is_its_end() {
    let scene = Scene::new().await;
    let (mut input, mut output) = scene.command(&["cat"]).await;
    input.send(b"one ").await.unwrap();
    input.send(b"two").await.unwrap();
    until(&mut output, "one two").await;
    input.end().await.unwrap();
    assert_eq!(all((input, output)).await.status, Some(0));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_echoes_and_follows_its_size() {
    let scene = Scene::new().await;
    let (mut input, mut output) = scene
        .open(json!({"command": {"command": ["size"], "terminal": true, "columns": 100, "rows": 30}}))
        .await;
    input.send(b"first\n").await.unwrap();
    // The terminal itself echoes the typed line.
    assert!(until(&mut output, "100 columns, 30 rows").await.text().contains("first"));
    input.resize(132, 43).await.unwrap();
    input.send(b"second\n").await.unwrap();
    until(&mut output, "132 columns, 43 rows").await;
    // Ctrl-D.
    input.send(&[4]).await.unwrap();
    assert_eq!(all((input, output)).await.status, Some(0));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_and_go_whole() {
    let scene = Scene::new().await;
    let (input, output) = scene.open(json!({"read": {"path": "/data/3000000"}})).await;
    let heard = all((input, output)).await;
    assert_eq!((heard.output.len(), heard.status), (3_000_000, Some(0)));
    let (input, output) = scene.open(json!({"read": {"path": "/data/none"}})).await;
    assert!(all((input, output)).await.failed.is_some());
    let (mut input, output) = scene.open(json!({"write": {"path": "/data/x", "mode": "0640"}})).await;
    input.send(&vec![7; 2_000_000]).await.unwrap();
    input.end().await.unwrap();
    assert_eq!(all((input, output)).await.status, Some(0));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn viewer_reads_logs_and_runs_no_command() {
    let scene = Scene::new().await;
    let viewer = scene.client("viewer");
    scene.ask(&viewer, json!({"command": {"command": ["echo"]}})).await.refused(403, "permission_denied");
    let asked = scene.ask_logs(&viewer, json!({"tail": 2})).await.ok();
    let (input, output) =
        scene.join_at(0, scene.fixture.token("viewer"), &asked.text_of("path")).await.unwrap();
    let heard = all((input, output)).await;
    assert_eq!((heard.text().lines().count(), heard.status), (2, Some(0)));
    scene.stop().await;
}

/// In a cell with the project's people a command runs as its caller, unless it names another user id.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_cell_with_people_everybody_is_who_they_are_unless_they_say_otherwise() {
    let scene = Scene::new().await;
    let (project, store) = (scene.fixture.id("train").to_owned(), scene.kit.store());
    cell_of(store, &project, scene.node, "open", true).await;
    let asked = async |actor: &str, cell: &str, body: Value| {
        let path = format!("/v1/projects/{project}/cells/{cell}/streams");
        let granted = scene.client(actor).post(&path, json!({"command": body})).await.ok();
        let stream = store.stream_lookup(granted.text_of("id").parse().unwrap()).await.unwrap().unwrap();
        stream.what["command"].clone()
    };
    let me = scene.client("project_admin").get("/v1/whoami").await.ok();
    let user = scene.kit.operator().get(&format!("/v1/users/{}", me.text_of("id"))).await.ok().body;
    let (login, uid) = (user["login"].as_str().unwrap().to_owned(), user["uid"].clone());
    assert!(uid.as_i64().is_some_and(|uid| uid >= 30_000), "{user}");

    let mine =
        asked("project_admin", "open", json!({"command": ["id"], "environment": {"USER": "else"}})).await;
    assert_eq!((&mine["uid"], &mine["gid"]), (&uid, &uid));
    assert_eq!(
        mine["environment"],
        json!({"HOME": format!("/home/{login}"), "LOGNAME": login, "USER": "else"}),
        "what was said stays"
    );
    let root = asked("project_admin", "open", json!({"command": ["id"], "uid": 0})).await;
    assert_eq!((&root["uid"], &root["gid"], root["environment"].get("HOME")), (&json!(0), &json!(0), None));
    let other = asked("project_admin", "open", json!({"command": ["id"], "uid": 7})).await;
    assert_eq!((&other["uid"], &other["gid"]), (&json!(7), &json!(7)));
    let closed = asked("project_admin", "shell", json!({"command": ["id"]})).await;
    assert_eq!(closed["uid"], 0, "a cell without people knows nobody");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_audit_names_the_program_and_omits_secrets() {
    let scene = Scene::new().await;
    let body = json!({"command": {"command": ["echo", "aloud"], "environment": {"KEY": "hidden"}}});
    let (input, output) = scene.open(body).await;
    all((input, output)).await;
    scene.kit.sealed().await;
    let audit = scene.client("tenant_admin").get("/v1/audit?tenant=acme&page_size=200").await.ok();
    let entry = audit.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["record"]["action"] == "stream.create");
    let text = entry.unwrap_or_else(|| panic!("{}", audit.text)).to_string();
    // The arguments may contain a password: the audit only names the program and the number of arguments.
    assert!(text.contains("echo") && text.contains("KEY"), "{text}");
    assert!(!text.contains("aloud") && !text.contains("hidden"), "{text}");
    scene.stop().await;
}

/// The agent polls at one server, the person joins at another; the task contains the address to dial.
#[tokio::test(flavor = "multi_thread")]
async fn it_does_not_matter_which_server_is_joined() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let here = format!("127.0.0.1:{port}");
    let mut scene = Scene::with(Database::postgres(), 1, &[]).await;
    scene.kit.add_server(&[("nodes.listen", &here), ("nodes.advertise", &here)]).await;
    let asked =
        scene.ask(&scene.client("project_admin"), json!({"command": {"command": ["echo", "hi"]}})).await;
    let token = scene.fixture.token("project_admin");
    let (input, output) = scene.join_at(1, token, &asked.ok().text_of("path")).await.unwrap();
    let heard = all((input, output)).await;
    assert_eq!((heard.text().as_str(), heard.status), ("hi\n", Some(0)));
    scene.stop().await;
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Server, agent and cell are all in this process: a backlog anywhere would show in its memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_holds_up_the_writer_and_memory_does_not_grow() {
    let scene = Scene::new().await;
    let (input, mut output) = scene.command(&["yes"]).await;
    until(&mut output, "y\n").await;
    let before = resident_mib();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = resident_mib();
    assert!(after < before + 24, "{before} MiB before, {after} MiB after");
    // It was delayed, not cut off.
    for _ in 0..1000 {
        output.next().await.unwrap();
    }
    drop((input, output));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_may_pause_for_longer_than_an_answer_may_stay_unread() {
    let scene = Scene::with(Database::sqlite(), 1, &[("http.timeout_seconds", "1")]).await;
    let (input, mut output) = scene.command(&["yes"]).await;
    until(&mut output, "y\n").await;
    // An answer that is not read ends after two seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    // More than the system buffers on the way.
    let mut read = 0;
    while read < 32 << 20 {
        if let Said::Output(bytes) = output.next().await.expect("it goes on") {
            read += bytes.len();
        }
    }
    drop((input, output));
    scene.stop().await;
}
