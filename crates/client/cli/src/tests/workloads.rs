//! Apps, instances and members, as typed.

use serde_json::json;

use super::{body, sent};

fn path(line: &str) -> Vec<(String, String)> {
    sent(line, "").unwrap().path.into_iter().collect()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn an_instance_is_launched_by_the_apps_name_and_has_it_unless_another_is_said() {
    assert_eq!(body("muster instance create notebook"), json!({"app": "notebook", "name": "notebook"}));
    let lab = json!({"app": "notebook", "name": "lab"});
    assert_eq!(body("muster instance create notebook --name lab"), lab);
    assert_eq!(body("muster instance create --app notebook --name lab"), lab);
    assert!(sent("muster instance create notebook --app other", "").is_err());
    assert!(sent("muster instance create", "").unwrap_err().contains("<APP>"));
    assert!(sent("muster instance create app_1", "").unwrap_err().contains("no name given"));
    assert_eq!(body("muster instance create app_1 --name lab"), json!({"app": "app_1", "name": "lab"}));
}

#[test]
fn components_are_set_by_their_keys() {
    assert_eq!(
        body(
            "muster instance create notebook --set unit=2 --set hub=1 --allocation unit=shared --shape baremetal"
        ),
        json!({"app": "notebook", "name": "notebook", "shape": "baremetal", "components": [
            {"component_key": "unit", "count": 2, "allocation": "shared"}, {"component_key": "hub", "count": 1}]})
    );
    assert_eq!(
        body("muster instance scale lab --set unit=4"),
        json!({"components": [{"component_key": "unit", "count": 4}]})
    );
    assert_eq!(body("muster instance scale lab --set unit=0")["components"][0]["count"], 0);
    let said = |line: &str| sent(line, "").unwrap_err();
    assert!(said("muster instance scale lab").contains("no component count given"));
    assert!(said("muster instance scale lab --set unit").contains("COMPONENT=COUNT"));
    assert!(said("muster instance scale lab --set unit=").contains("COMPONENT=COUNT"));
    assert!(said("muster instance scale lab --set =4").contains("COMPONENT=COUNT"));
    assert!(said("muster instance scale lab --set unit=many").contains("\"many\" is not a number"));
    assert!(said("muster instance scale lab --set unit=-1").contains("is not a number"));
    assert!(said("muster instance scale lab --set unit=1 --set unit=2").contains("given twice"));
    assert!(said("muster instance create notebook --allocation shared").contains("COMPONENT=ALLOCATION"));
}

#[test]
fn set_flag_overrides_a_components_list_and_keeps_its_other_fields() {
    let list = r#"[{"component_key":"unit","count":1,"capacity":{"gpus":2}}]"#;
    let line = format!("muster instance scale lab --components {list} --set unit=4 --set hub=1");
    assert_eq!(
        body(&line),
        json!({"components": [{"component_key": "unit", "count": 4, "capacity": {"gpus": 2}},
                              {"component_key": "hub", "count": 1}]})
    );
    assert!(
        sent("muster instance scale lab --components {} --set unit=1", "").unwrap_err().contains("a list")
    );
    assert!(sent("muster instance scale lab --components [", "").unwrap_err().contains("takes JSON"));
}

#[test]
fn config_value_is_json_if_it_parses_and_text_otherwise() {
    let config = |line: &str| body(&format!("muster instance create notebook {line}"))["config"].clone();
    assert_eq!(
        config(
            "--config rate=5 --config on=true --config name=hub --config list=[1,2] --config eq=a=b --config none="
        ),
        json!({"rate": 5, "on": true, "name": "hub", "list": [1, 2], "eq": "a=b", "none": ""})
    );
    assert_eq!(config("--config version=\"1\""), json!({"version": "1"}), "a quoted number stays a text");
    assert_eq!(config(r#"--config {"a":{"b":1},"c":2} --config c=3"#), json!({"a": {"b": 1}, "c": 3}));
    assert!(sent("muster instance create notebook --config rate", "").unwrap_err().contains("KEY=VALUE"));
    let from_file =
        sent("muster instance upgrade lab --config-file - --config rate=8", r#"{"rate": 5, "on": true}"#);
    assert_eq!(from_file.unwrap().body, Some(json!({"config": {"rate": 8, "on": true}})));
    let no_object = sent("muster instance upgrade lab --config-file -", "[1]").unwrap_err();
    assert!(no_object.contains("--config-file - must be a JSON object"), "{no_object}");
}

#[test]
fn apply_reads_a_file_and_flags_override_it() {
    let whole =
        r#"{"app": "notebook", "name": "lab", "components": [{"component_key": "unit", "count": 2}]}"#;
    let applied = |line: &str| sent(line, whole).unwrap().body.unwrap();
    assert_eq!(
        applied("muster instance apply -f -"),
        serde_json::from_str::<serde_json::Value>(whole).unwrap()
    );
    assert_eq!(applied("muster instance apply --file - --set unit=4")["components"][0]["count"], 4);
    assert_eq!(applied("muster instance apply --body - --name other")["name"], "other");
    let nameless = sent("muster instance apply -f -", r#"{"app": "notebook"}"#).unwrap();
    assert_eq!(nameless.body.unwrap()["name"], "notebook");
    assert!(sent("muster instance apply", "").is_err());
    assert!(sent("muster instance create -f x", "").is_err(), "only what is applied is a file as a rule");
}

#[test]
fn an_upgrade_goes_to_a_release_and_everything_that_starts_can_be_waited_for() {
    assert_eq!(body("muster instance upgrade lab --to 1.3"), json!({"app_version": "1.3"}));
    assert_eq!(body("muster instance upgrade lab --app-version 1.3"), json!({"app_version": "1.3"}));
    assert_eq!(body("muster instance upgrade lab"), json!({}));
    assert_eq!(
        body("muster instance decommission lab --force --reason done"),
        json!({"force": true, "reason": "done"})
    );
    for verb in ["create", "apply", "scale", "upgrade", "rollback", "decommission"] {
        let set = if verb == "scale" { " --set a=1" } else { "" };
        assert!(
            sent(&format!("muster instance {verb} lab{set} --wait --timeout 10m --dry-run"), "").is_ok(),
            "{verb}"
        );
    }
}

#[test]
fn a_member_is_added_to_a_component_into_an_allocation_or_an_amount() {
    assert_eq!(body("muster member add lab unit"), json!({"component_key": "unit"}));
    assert_eq!(path("muster member add lab unit"), [pair("instance", "lab"), pair("project", "acme.kept")]);
    assert_eq!(
        body("muster member add lab unit --count 2 --allocation shared"),
        json!({"component_key": "unit", "count": 2, "allocation": {"id": "shared"}})
    );
    assert_eq!(
        body("muster member add lab unit --gpus 2 --memory-mb 4096")["allocation"],
        json!({"capacity": {"gpus": 2, "memory_mb": 4096}})
    );
    assert_eq!(
        body(r#"muster member add lab unit --allocation {"id":"a"}"#)["allocation"],
        json!({"id": "a"})
    );
    assert!(sent("muster member add lab unit --allocation a --gpus 2", "").is_err());
    assert!(sent("muster member add lab", "").is_err());
    assert!(sent("muster member add lab unit --gpus=-1", "").is_err());
}

#[test]
fn member_is_given_by_two_words_one_reference_or_its_id() {
    for verb in ["drain", "resume", "remove", "replace", "recover"] {
        for words in ["lab a b", "lab/a b", "lab/a lab/b", "lab a lab/b", "lab --member a --member b"] {
            let line = format!("muster member {verb} {words} --wait");
            assert_eq!(body(&line), json!({"members": ["a", "b"]}), "{line}");
            assert_eq!(path(&line)[0], pair("instance", "lab"), "{line}");
        }
        let none = sent(&format!("muster member {verb} lab"), "").unwrap_err();
        assert!(none.contains("no member given"), "{none}");
        let other = sent(&format!("muster member {verb} lab/a other/b"), "").unwrap_err();
        assert!(other.contains("belongs to instance other, not to lab"), "{other}");
    }
    assert_eq!(
        body("muster member drain mem_1 mem_2 --reason x"),
        json!({"members": ["mem_1", "mem_2"], "reason": "x"})
    );
    let got = [pair("instance", "lab"), pair("member", "a"), pair("project", "acme.kept")];
    assert_eq!(path("muster member get lab a"), got);
    assert_eq!(path("muster member get lab/a"), got);
    assert!(sent("muster member get lab", "").unwrap_err().contains("no member given"));
    assert!(sent("muster member get lab/a b", "").unwrap_err().contains("given twice"));
    assert!(sent("muster member get", "").is_err());
    for halves in ["get lab/", "get /a", "drain lab/", "drain /a", "drain lab a lab/"] {
        let refused = sent(&format!("muster member {halves}"), "").unwrap_err();
        assert!(refused.contains("half of") || refused.contains("without a name"), "{halves}: {refused}");
    }
    let whole = sent("muster member drain lab --body -", r#"{"members": ["a"]}"#).unwrap();
    assert_eq!(whole.body, Some(json!({"members": ["a"]})));
}

#[test]
fn the_help_says_the_rule_for_members() {
    for verb in ["get", "drain", "resume", "remove", "replace", "recover"] {
        let mut command = crate::command();
        let noun = command.find_subcommand_mut("member").unwrap();
        let help = noun.find_subcommand_mut(verb).unwrap().render_long_help().to_string();
        assert!(help.contains("INSTANCE/MEMBER"), "{verb}: {help}");
    }
}

#[test]
fn an_app_is_entitled_by_its_name_with_a_consent_to_each_permission() {
    assert_eq!(
        body("muster entitlement grant notebook --dry-run"),
        json!({"app": "notebook", "dry_run": true})
    );
    assert_eq!(
        body("muster entitlement grant notebook --consent member.get --consent cell.list"),
        json!({"app": "notebook", "consent": ["member.get", "cell.list"]})
    );
}

#[test]
fn printed_reference_is_accepted_by_other_commands() {
    use crate::reference::reference;
    let member = json!({"id": "mem_1", "instance_id": "ins_1", "name": "unit-0"});
    assert_eq!(reference(&["member", "list"], &member).as_deref(), Some("ins_1/unit-0"));
    assert_eq!(
        reference(&["app", "list"], &json!({"id": "app_1", "slug": "notebook"})).as_deref(),
        Some("notebook")
    );
    assert_eq!(
        reference(&["instance", "list"], &json!({"id": "ins_1", "name": "lab"})).as_deref(),
        Some("ins_1")
    );
}

#[test]
fn every_command_of_the_guide_can_be_typed() {
    let guide = include_str!("../../../../../docs/guides/apps.md");
    let mut typed = 0;
    for line in guide.lines().filter(|line| line.starts_with("muster ")) {
        let said = line.split(" #").next().unwrap().trim();
        let parsed = crate::command().try_get_matches_from(super::shell_words(said));
        parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        typed += 1;
    }
    assert!(typed > 40, "the guide has {typed} commands");
    // Inline commands are often incomplete; their beginning must still exist.
    for span in guide.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("muster ")) {
        let whole = crate::command();
        let mut at = &whole;
        for word in span.split_whitespace() {
            let Some(deeper) = at.find_subcommand(word) else { break };
            at = deeper;
        }
        assert!(at.get_subcommands().next().is_none() || at.get_name() == "capacity", "muster {span}");
    }
}
