//! The command line as typed, without a server.

use std::collections::BTreeSet;

use clap::ArgMatches;
use jiff::Timestamp;
use muster_sdk::Arguments;
use muster_sdk::describe::Description;
use serde_json::json;

use crate::collect::collect;
use crate::examples::EXAMPLES;
use crate::words::{BY_HAND, generated, meant};
use crate::{command, failure, options};

mod advice;
mod names;
mod workloads;

fn leaf(matches: &ArgMatches) -> &ArgMatches {
    let levels = options::levels(matches);
    levels[levels.len() - 1]
}

/// Returns the arguments of the call for a typed line, or the error.
fn sent(line: &str, input: &str) -> Result<Arguments, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let matches = command().try_get_matches_from(&words).map_err(|error| error.to_string())?;
    let typed = crate::words_of(&matches);
    let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
    let operation = meant(Description::embedded(), &typed).expect("it is a generated command");
    let default = |name: &str| (name == "project").then(|| "acme.kept".to_owned());
    collect(operation, leaf(&matches), default, &mut input.as_bytes(), Timestamp::UNIX_EPOCH)
        .map_err(|failure: failure::Failure| failure.detail)
}

fn body(line: &str) -> serde_json::Value {
    sent(line, "").unwrap().body.unwrap()
}

#[test]
fn the_commands_are_in_order_for_clap() {
    command().debug_assert();
}

#[test]
fn every_operation_has_a_command() {
    let whole = command();
    let exists = |path: &[&str]| {
        let mut at = &whole;
        path.iter().all(|word| at.find_subcommand(word).inspect(|found| at = found).is_some())
    };
    let mut reached = BTreeSet::new();
    for (operation, words) in generated(Description::embedded()) {
        assert!(exists(&words.path()), "{} has no command {:?}", operation.id, words.path());
        reached.insert(operation.id.as_str());
    }
    for (id, path) in BY_HAND {
        assert!(exists(path), "{id} has no command {path:?}");
        reached.insert(id);
    }
    for operation in &Description::embedded().endpoints {
        assert!(reached.contains(operation.id.as_str()), "{} cannot be reached", operation.id);
    }
    assert_eq!(
        reached.len(),
        Description::embedded().endpoints.len(),
        "a command stands for an operation that is gone"
    );
}

#[test]
fn no_two_operations_share_a_command() {
    let mut paths = BTreeSet::new();
    for (operation, words) in generated(Description::embedded()) {
        assert!(paths.insert(words.path().join(" ")), "{}", operation.id);
    }
}

#[test]
fn flags_become_the_body() {
    assert_eq!(body("muster tenant create --slug acme"), json!({"slug": "acme"}));
    assert_eq!(
        body(
            "muster service-account create --name ci --permission event.list --permission event.stream --label a=b --label c=d=e"
        ),
        json!({"name": "ci", "permissions": ["event.list", "event.stream"], "labels": {"a": "b", "c": "d=e"}})
    );
    assert_eq!(
        body("muster token issue --name ci --expires-in-seconds 60"),
        json!({"name": "ci", "expires_in_seconds": 60})
    );
    assert_eq!(body("muster user update sam@acme.example --disabled"), json!({"disabled": true}));
    assert_eq!(body("muster user update sam@acme.example --disabled=false"), json!({"disabled": false}));
    assert_eq!(
        body("muster service-account update ci --no-permissions --no-labels"),
        json!({"permissions": [], "labels": {}})
    );
    assert_eq!(body("muster token revoke tok_1"), json!({}));
}

#[test]
fn a_whole_body_is_taken_and_flags_win_over_it() {
    let given = r#"{"slug": "acme", "display_name": "Acme"}"#;
    let arguments = sent("muster tenant create --body - --display-name Other", given).unwrap();
    assert_eq!(arguments.body, Some(json!({"slug": "acme", "display_name": "Other"})));
    assert!(sent("muster tenant create --body -", "[]").unwrap_err().contains("must be a JSON object"));
    assert!(sent("muster tenant create --body -", "{").unwrap_err().contains("is not JSON"));
}

#[test]
fn missing_or_invalid_arguments_are_reported_before_any_request() {
    let nameless = sent("muster tenant create", "").unwrap_err();
    assert!(
        nameless.contains("--slug") && nameless.contains("Usage: muster tenant create <SLUG>"),
        "{nameless}"
    );
    assert!(sent("muster tenant get", "").unwrap_err().contains("TENANT"));
    assert!(sent("muster tenant create --slug a --label b", "").unwrap_err().contains("is not KEY=VALUE"));
    assert!(
        sent("muster role-binding create --user a --role king", "").unwrap_err().contains("tenant_admin")
    );
    assert!(sent("muster tenant create --slug a --colour red", "").unwrap_err().contains("--colour"));
}

#[test]
fn a_secret_comes_from_a_file_or_a_line_and_never_from_a_flag() {
    let arguments = sent(
        "muster user set-password sam --current-password-file - --password-file -",
        "new one\nold one\n",
    );
    assert_eq!(arguments.unwrap().body, Some(json!({"password": "new one", "current_password": "old one"})));
    assert!(sent("muster user set-password sam --password hunter2hunter2", "").is_err());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "from a file\n").unwrap();
    let line = format!("muster user create --email a@b --password-file {}", file.display());
    assert_eq!(body(&line), json!({"email": "a@b", "password": "from a file"}));
}

#[test]
fn the_thing_is_a_position_and_its_place_a_flag_with_a_default() {
    let path = |line: &str| sent(line, "").map(|arguments| arguments.path.into_iter().collect::<Vec<_>>());
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(path("muster project get train").unwrap(), [pair("project", "train")]);
    assert_eq!(
        path("muster service-account get ci").unwrap(),
        [pair("project", "acme.kept"), pair("service_account", "ci")]
    );
    assert_eq!(
        path("muster service-account list --project acme.other").unwrap(),
        [pair("project", "acme.other")]
    );
    assert!(path("muster project create --name train").unwrap_err().contains("no tenant selected"));
    assert_eq!(path("muster project create --name train --tenant acme").unwrap(), [pair("tenant", "acme")]);
}

#[test]
fn queries_keys_and_versions_are_passed_on() {
    let list = sent("muster tenant list -l team=ml,stage!=test --page-size 5", "").unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(list.query, [pair("page_size", "5"), pair("labels", "team=ml,stage!=test")]);
    // The profile's project is the default: `can-i` must not deny what the next command would allow.
    let ask = sent("muster can-i instance.create", "").unwrap();
    assert_eq!(ask.query, [pair("permission", "instance.create"), pair("project", "acme.kept")]);
    let ask = sent("muster can-i tenant.create --platform", "").unwrap();
    assert_eq!(ask.query, [pair("permission", "tenant.create")]);
    let ask = sent("muster can-i project.create --tenant acme", "").unwrap();
    assert_eq!(ask.query, [pair("permission", "project.create"), pair("tenant", "acme")]);
    let delete = sent("muster tenant delete acme --cascade --if-match 3", "").unwrap();
    assert_eq!((delete.query, delete.if_match.as_deref()), (vec![pair("cascade", "true")], Some("\"3\"")));
    assert_eq!(sent("muster tenant delete acme --if-match *", "").unwrap().if_match.as_deref(), Some("*"));
    assert_eq!(
        sent("muster tenant create --slug a --idempotency-key k", "").unwrap().idempotency_key.as_deref(),
        Some("k")
    );
}

#[test]
fn completions_cover_every_noun_in_every_shell() {
    for shell in [crate::Shell::Bash, crate::Shell::Zsh, crate::Shell::Fish] {
        let script = String::from_utf8(crate::completion(shell, &mut command())).unwrap();
        assert!(
            [
                "service-account",
                "rotate-key",
                "completion",
                "watch",
                "timeline",
                "wait",
                "timeout",
                "dry-run",
                "decommission",
                "endpoints",
                "recover",
                "config-file",
                "component-key"
            ]
            .iter()
            .all(|word| script.contains(word)),
            "{shell}"
        );
    }
}

#[test]
fn new_resource_takes_its_name_by_position_or_flag_not_both() {
    let named = json!({"name": "train-1", "gpus": 2});
    assert_eq!(body("muster allocation create train-1 --gpus 2"), named);
    assert_eq!(body("muster allocation create --gpus 2 train-1"), named);
    assert_eq!(body("muster allocation create --gpus 2 --name train-1"), named);
    assert_eq!(body("muster tenant create acme"), json!({"slug": "acme"}));
    assert!(sent("muster allocation create train-1 --name train-2", "").is_err());
    let whole =
        sent("muster allocation create train-2 --body -", r#"{"name": "train-1", "gpus": 2}"#).unwrap();
    assert_eq!(whole.body, Some(json!({"name": "train-2", "gpus": 2})));
}

#[test]
fn times_can_be_said_by_their_distance() {
    assert_eq!(
        body("muster allocation create a --wait-until 2h --expires-at 2026-12-01T00:00:00Z"),
        json!({"name": "a", "wait_until": "1970-01-01T02:00:00Z", "expires_at": "2026-12-01T00:00:00Z"})
    );
    assert_eq!(
        body("muster allocation update a --expires-at 3d"),
        json!({"expires_at": "1970-01-04T00:00:00Z"})
    );
    assert!(
        sent("muster allocation create a --wait-until soon", "")
            .unwrap_err()
            .contains("--wait-until takes a time")
    );
}

#[test]
fn everything_that_only_starts_something_can_be_waited_for() {
    for line in [
        "muster allocation create a --wait --timeout 10m",
        "muster allocation release a --wait",
        "muster allocation restart a --wait",
        "muster allocation resize a --gpus 1 --wait",
        "muster node drain n --wait",
        "muster node retire n --wait --timeout 1h30m",
    ] {
        assert!(sent(line, "").is_ok(), "{line}");
    }
    assert!(sent("muster tenant create a --wait", "").is_err());
    assert!(sent("muster allocation release a --timeout 10m", "").unwrap_err().contains("--wait"));
    assert!(
        sent("muster allocation release a --wait --timeout 10", "").unwrap_err().contains("90s, 10m or 2h")
    );
}

#[test]
fn operations_are_listed_of_the_profiles_project_unless_something_else_is_said() {
    let project = |line: &str| sent(line, "").unwrap().query;
    let pair = |value: &str| vec![("project".to_owned(), value.to_owned())];
    assert_eq!(project("muster operation list"), pair("acme.kept"));
    assert_eq!(project("muster operation list --project acme.other"), pair("acme.other"));
    assert_eq!(project("muster operation list --platform"), []);
}

#[test]
fn every_example_can_be_typed_and_stands_in_the_help() {
    for (words, lines) in EXAMPLES {
        for line in *lines {
            let said = line.split(" #").next().unwrap().trim();
            let typed = shell_words(said);
            let matches =
                command().try_get_matches_from(&typed).unwrap_or_else(|error| panic!("{line}: {error}"));
            let reached = crate::words_of(&matches).join(" ");
            assert!(
                reached == *words || format!("{reached} get") == *words,
                "{line} is no example of {words}"
            );
        }
        let mut at = command();
        for word in words.split(' ') {
            at = at.find_subcommand(word).unwrap_or_else(|| panic!("there is no {words}")).clone();
        }
        assert!(at.render_long_help().to_string().contains(lines[0]), "{words}");
    }
}

/// Splits a line as a shell does: words, with single quotes around those with spaces.
fn shell_words(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate();
    quoted
        .flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

#[test]
fn the_content_of_a_secret_is_read_whole_and_never_from_a_flag() {
    for line in [
        "muster secret create s --value hunter2",
        "muster secret rotate s --value hunter2",
        "muster secret create s hunter2",
    ] {
        assert!(sent(line, "").is_err(), "{line}");
    }
    let given = |line: &str, input: &str| sent(line, input).unwrap().body.unwrap();
    let typed = "two\nlines\n";
    assert_eq!(given("muster secret create s --from-file -", typed), json!({"name": "s", "value": typed}));
    assert_eq!(given("muster secret rotate s --from-file -", "x"), json!({"value": "x"}));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.der");
    std::fs::write(&file, [0xff, 0, 1]).unwrap();
    let line = format!("muster secret create s --from-file {}", file.display());
    assert_eq!(given(&line, ""), json!({"name": "s", "encoding": "base64", "value": "/wAB"}));
    std::fs::write(&file, "").unwrap();
    assert!(sent(&line, "").unwrap_err().contains("empty"));
    let whole = given("muster secret create --body -", r#"{"name": "s", "value": "x"}"#);
    assert_eq!(whole, json!({"name": "s", "value": "x"}));
}

#[test]
fn no_command_takes_a_secret_as_a_word() {
    let whole = command();
    for (operation, words) in generated(Description::embedded()) {
        let mut at = &whole;
        for word in words.path() {
            at = at.find_subcommand(word).unwrap();
        }
        for field in operation.body_fields.iter().flatten().filter(|field| field.secret) {
            let flag = crate::words::kebab(&field.name);
            assert!(
                at.get_arguments().all(|argument| argument.get_long() != Some(flag.as_str())),
                "{}",
                operation.id
            );
        }
    }
}

#[test]
fn a_key_comes_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.pub");
    std::fs::write(&file, "-----BEGIN\nx\n").unwrap();
    let line = format!("muster key create release --file {}", file.display());
    assert_eq!(body(&line), json!({"name": "release", "public_key": "-----BEGIN\nx\n"}));
    assert!(sent("muster key create release", "").is_err());
    assert!(sent(&format!("{line} --public-key x"), "").is_err());
}

#[test]
fn a_manifest_comes_from_a_file_and_is_json_in_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("manifest.json");
    std::fs::write(&file, r#"{"app": "notebook", "version": "1"}"#).unwrap();
    let line = format!("muster app-version publish notebook --project p --dry-run --file {}", file.display());
    let wanted = json!({"manifest": {"app": "notebook", "version": "1"}, "dry_run": true});
    assert_eq!(body(&line), wanted);
    let inline = "muster app-version publish notebook --project p --manifest {}";
    assert_eq!(body(inline), json!({"manifest": {}}));
}
