//! Commands against a server with scripted responses.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Exit;
use crate::options::{Surroundings, levels};
use crate::profile::{Profile, Profiles};
use crate::{command, dispatch, login};

#[path = "../../sdk/tests/scripted/mod.rs"]
mod scripted;

mod artifacts;
mod fleet;
mod workloads;

use scripted::{Reply, Scripted, ok, problem};

struct Desk {
    folder: tempfile::TempDir,
    server: Scripted,
}

impl Desk {
    fn new(replies: Vec<Reply>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), server: Scripted::start(replies) }
    }

    fn surroundings(&self) -> Surroundings {
        let variables = [("MUSTER_SERVER".to_owned(), self.server.url.clone())].into();
        Surroundings {
            profiles_path: self.folder.path().join("profiles.toml"),
            cache_path: self.folder.path().join("cache"),
            variables,
            now: Timestamp::UNIX_EPOCH,
            has_screen: false,
            has_error_screen: false,
            can_ask: false,
        }
    }

    /// Runs a typed line.
    async fn type_in(&self, line: &str) -> Result<(), crate::Failure> {
        let matches = command().try_get_matches_from(line.split(' ')).unwrap();
        dispatch(&matches, self.surroundings()).await.map(drop)
    }

    fn lines(&self) -> Vec<String> {
        let requests = self.server.requests();
        requests.into_iter().map(|request| request.line.replace(" HTTP/1.1", "")).collect()
    }
}

const WHO: &str = r#"{"kind":"user","id":"usr_1","name":"sam@acme.example","token_id":"tok_1","expires_at":"2027-02-13T09:10:29Z"}"#;

#[tokio::test]
async fn a_login_issues_a_token_ends_its_session_and_a_logout_revokes_it() {
    let cookie = ("set-cookie", "muster_session=mst_ses_x; Path=/; HttpOnly".to_owned());
    let desk = Desk::new(vec![
        Reply::Answer(201, vec![cookie], r#"{"id":"tok_0","csrf_token":"csrf"}"#.to_owned()),
        ok(r#"{"id":"tok_1","secret":"mst_pat_new"}"#),
        ok("{}"),
        ok(WHO),
        ok(WHO),
        ok("{}"),
    ]);
    let typed = "muster login --email sam@acme.example --password-stdin --project acme.train";
    let matches = command().try_get_matches_from(typed.split(' ')).unwrap();
    let context = Context::new(&matches, desk.surroundings(), true).unwrap();
    login::login(&context, levels(&matches)[1], &mut &b"correct horse battery\n"[..]).await.unwrap();

    let path = desk.folder.path().join("profiles.toml");
    let profiles = Profiles::load(&path).unwrap();
    let (name, profile) = profiles.chosen(None).unwrap().unwrap();
    assert_eq!(
        (name, profile.token.as_deref(), profile.project.as_deref()),
        ("default", Some("mst_pat_new"), Some("acme.train"))
    );

    desk.type_in("muster logout").await.unwrap();
    assert!(Profiles::load(&path).unwrap().profiles["default"].token.is_none());

    let expected = [
        "POST /v1/sessions",
        "POST /v1/tokens",
        "POST /v1/sessions/current/end",
        "GET /v1/whoami",
        "GET /v1/whoami",
        "POST /v1/tokens/tok_1/revoke",
    ];
    assert_eq!(desk.lines(), expected);
    let requests = desk.server.requests();
    let body: Value = serde_json::from_str(&requests[0].body).unwrap();
    assert_eq!(
        body,
        json!({"method": "password", "tenant": "acme", "email": "sam@acme.example", "password": "correct horse battery"})
    );
    assert_eq!(requests[0].header("authorization"), None);
    for request in &requests[1..3] {
        assert_eq!(request.header("cookie"), Some("muster_session=mst_ses_x"));
        assert_eq!(request.header("x-csrf-token"), Some("csrf"));
        assert!(request.header("idempotency-key").is_some());
    }
    assert!(
        serde_json::from_str::<Value>(&requests[1].body).unwrap()["name"]
            .as_str()
            .unwrap()
            .starts_with("muster cli on ")
    );
    assert!(
        requests[3..].iter().all(|request| request.header("authorization") == Some("Bearer mst_pat_new"))
    );
}

#[tokio::test]
async fn a_wrong_password_keeps_nothing() {
    let desk = Desk::new(vec![problem(401, "unauthenticated")]);
    let matches =
        command().try_get_matches_from(["muster", "login", "--email", "a@b", "--password-stdin"]).unwrap();
    let context = Context::new(&matches, desk.surroundings(), true).unwrap();
    let failure = login::login(&context, levels(&matches)[1], &mut &b"no\n"[..]).await.unwrap_err();
    assert_eq!(failure.exit, Exit::Unauthenticated);
    assert!(failure.next.unwrap().contains("set-password"));
    assert!(!desk.folder.path().join("profiles.toml").exists());
}

#[tokio::test]
async fn a_list_is_followed_to_its_end() {
    let desk = Desk::new(vec![
        ok(r#"{"items":[{"slug":"a"}],"next_page_token":"t=1"}"#),
        ok(r#"{"items":[{"slug":"b"}]}"#),
    ]);
    desk.type_in("muster tenant list --all --page-size 1 -o name").await.unwrap();
    assert_eq!(desk.lines(), ["GET /v1/tenants?page_size=1", "GET /v1/tenants?page_size=1&page_token=t%3D1"]);
}

#[tokio::test]
async fn a_change_is_made_to_the_version_that_was_just_read() {
    let shown = Reply::Answer(200, vec![("etag", "\"4\"".to_owned())], "{}".to_owned());
    let desk = Desk::new(vec![shown, problem(412, "version_mismatch")]);
    let failure = desk.type_in("muster project update acme.train --display-name Training").await.unwrap_err();
    assert_eq!(failure.exit, Exit::Conflict);
    assert_eq!(desk.lines(), ["GET /v1/projects/acme.train", "PATCH /v1/projects/acme.train"]);
    assert_eq!(desk.server.requests()[1].header("if-match"), Some("\"4\""));
}

#[tokio::test]
async fn a_command_whose_answer_was_lost_is_repeated_and_has_one_effect() {
    let desk = Desk::new(vec![Reply::HangUp, ok(r#"{"slug":"acme"}"#)]);
    desk.type_in("muster tenant create --slug acme -o name").await.unwrap();
    let requests = desk.server.requests();
    assert_eq!(desk.lines(), ["POST /v1/tenants", "POST /v1/tenants"]);
    assert_eq!(requests[0].header("idempotency-key"), requests[1].header("idempotency-key"));
    assert_eq!(requests[0].body, requests[1].body);
}

#[tokio::test]
async fn no_is_an_exit_code_too() {
    let no = r#"{"permission":"tenant.create","allowed":false,"reason":"because"}"#;
    let sick = r#"{"version":"0","api_version":"1.0.0","healthy":false,"checks":[{"name":"database","ok":false,"detail":"gone"}]}"#;
    let desk = Desk::new(vec![ok(no), ok(sick)]);
    assert_eq!(desk.type_in("muster can-i tenant.create").await.unwrap_err().exit, Exit::Denied);
    assert_eq!(desk.type_in("muster status").await.unwrap_err().exit, Exit::Failed);
}

#[tokio::test]
async fn an_export_that_was_cut_off_leaves_no_file() {
    let desk =
        Desk::new(vec![Reply::CutOff("application/x-ndjson", "{\"chain\":\"platform\"}\n".to_owned())]);
    let file = desk.folder.path().join("audit.jsonl");
    let failure =
        desk.type_in(&format!("muster audit export --platform --file {}", file.display())).await.unwrap_err();
    assert_eq!(failure.exit, Exit::Unavailable);
    let left: Vec<_> = std::fs::read_dir(desk.folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn events_begin_with_the_latest_of_the_place_that_was_said() {
    let newest = r#"{"items":[],"next_after":0,"sealed_up_to":120}"#;
    let page = r#"{"items":[{"sequence":120,"time":"2026-11-15T09:10:29Z","type":"t","subject":"s","actorid":"a"}],"next_after":120,"sealed_up_to":120}"#;
    let desk = Desk::new(vec![ok(newest), ok(page)]);
    desk.type_in("muster events --tenant acme --last 20 -o json").await.unwrap();
    assert_eq!(
        desk.lines(),
        ["GET /v1/events?tenant=acme&page_size=1", "GET /v1/events?tenant=acme&after=100&page_size=200"]
    );
}

#[tokio::test]
async fn a_logout_shows_the_token_to_nobody_but_the_profiles_server() {
    let desk = Desk::new(vec![ok("{}")]);
    let mut profiles = Profiles::load(&desk.surroundings().profiles_path).unwrap();
    let profile = Profile {
        server: "http://elsewhere".to_owned(),
        token: Some("mst_pat_x".to_owned()),
        ..Profile::default()
    };
    profiles.profiles.insert("default".to_owned(), profile);
    profiles.current = Some("default".to_owned());
    profiles.save().unwrap();
    assert_eq!(desk.type_in("muster logout").await.unwrap_err().exit, Exit::Usage);
    assert!(desk.lines().is_empty());
    assert!(Profiles::load(&desk.surroundings().profiles_path).unwrap().profiles["default"].token.is_some());
}
