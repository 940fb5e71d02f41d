//! Each rule reports its problem, and nothing for valid input.

use std::collections::BTreeSet;

use muster_registry::Digest;
use muster_registry::lint::{Finding, Severity, lint, rules};
use muster_registry::manifest::{Manifest, MediaType};
use proptest::prelude::*;
use serde_json::{Value, json};

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn descriptor(media_type: &str, number: u64) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(&number.to_le_bytes()), "size": number})
}

fn titled(title: &str, number: u64) -> Value {
    let mut blob = descriptor("application/octet-stream", number);
    blob["annotations"] = json!({"org.opencontainers.image.title": title});
    blob
}

fn image(layers: Value) -> Value {
    json!({"schemaVersion": 2, "mediaType": MediaType::Image.as_str(), "config": descriptor(CONFIG, 1), "layers": layers})
}

fn artifact(layers: Value) -> Value {
    let mut document = image(layers);
    document["config"] = descriptor(EMPTY, 2);
    document["artifactType"] = json!("application/vnd.example.model");
    document
}

fn index(children: Value) -> Value {
    json!({"schemaVersion": 2, "mediaType": MediaType::Index.as_str(), "manifests": children})
}

fn configuration() -> Value {
    let settings = json!({"Env": ["PATH=/bin"], "Entrypoint": ["/bin/app"], "User": "1000"});
    let rootfs = json!({"type": "layers", "diff_ids": [Digest::of(b"2")]});
    json!({"os": "linux", "architecture": "amd64", "created": "2026-01-01T00:00:00Z", "config": settings, "rootfs": rootfs})
}

fn look(document: &Value, config: Option<&Value>) -> Vec<Finding> {
    let manifest = Manifest::parse(document.to_string().as_bytes(), None).unwrap();
    lint(&manifest, config.map(Value::to_string).as_deref().map(str::as_bytes))
}

fn found(document: &Value, config: Option<&Value>) -> Vec<(Severity, &'static str)> {
    look(document, config).into_iter().map(|finding| (finding.severity, finding.rule)).collect()
}

/// Lints the usual image with one value of its configuration changed.
fn configured(at: &str, value: Value) -> Vec<(Severity, &'static str)> {
    let mut config = configuration();
    *config.pointer_mut(at).unwrap() = value;
    found(&image(json!([descriptor(LAYER, 2)])), Some(&config))
}

#[test]
fn valid_manifest_has_no_findings() {
    assert_eq!(found(&image(json!([descriptor(LAYER, 2)])), Some(&configuration())), []);
    let model = json!([titled("model.bin", 1), titled("tokenizer/vocab.json", 3), descriptor(EMPTY, 2)]);
    assert_eq!(found(&artifact(model), None), []);
    let mut child = descriptor(MediaType::Image.as_str(), 4);
    child["platform"] = json!({"os": "linux", "architecture": "amd64"});
    assert_eq!(found(&index(json!([child])), None), []);
}

#[test]
fn each_rule_finds_what_it_is_for() {
    use Severity::{Error, Warning};
    let usual = image(json!([descriptor(LAYER, 2)]));
    let layers = |media_type: &str| image(json!([descriptor(media_type, 2)]));
    let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    let mut many = configuration();
    many["rootfs"]["diff_ids"] = json!(vec![Digest::of(b"2"); 128]);
    let mut untyped = artifact(json!([titled("a", 1)]));
    untyped.as_object_mut().unwrap().remove("artifactType");
    let child = descriptor(MediaType::Image.as_str(), 4);
    let cases = [
        ("config_unreadable", Error, found(&usual, None)),
        ("config_unreadable", Error, found(&usual, Some(&json!("text")))),
        ("platform_missing", Error, configured("/os", json!(""))),
        ("platform_missing", Error, configured("/architecture", json!(""))),
        (
            "layer_format",
            Error,
            found(&layers("application/vnd.oci.image.layer.v1.tar+xz"), Some(&configuration())),
        ),
        ("layer_foreign", Error, found(&layers(foreign), Some(&configuration()))),
        ("too_many_layers", Error, found(&image(json!(vec![descriptor(LAYER, 2); 128])), Some(&many))),
        ("layers_differ", Error, configured("/rootfs/diff_ids", json!([]))),
        ("layers_differ", Error, configured("/rootfs", Value::Null)),
        ("secret_in_environment", Error, configured("/config/Env", json!(["API_KEY=x"]))),
        ("nothing_to_run", Warning, configured("/config/Entrypoint", json!([]))),
        ("runs_as_root", Warning, configured("/config/User", json!("root"))),
        ("runs_as_root", Warning, configured("/config/User", json!("0:1000"))),
        ("runs_as_root", Warning, configured("/config/User", Value::Null)),
        ("created_missing", Warning, configured("/created", Value::Null)),
        ("title_missing", Error, found(&artifact(json!([descriptor("a/b", 1)])), None)),
        ("title_missing", Error, found(&artifact(json!([titled("", 1)])), None)),
        ("title_twice", Error, found(&artifact(json!([titled("a", 1), titled("a", 3)])), None)),
        ("title_unsafe", Error, found(&artifact(json!([titled("/etc/passwd", 1)])), None)),
        ("artifact_type_missing", Error, found(&untyped, None)),
        ("index_empty", Error, found(&index(json!([])), None)),
        ("index_platform_missing", Warning, found(&index(json!([child])), None)),
    ];
    let mut tried = BTreeSet::new();
    for (rule, severity, findings) in cases {
        assert_eq!(findings, [(severity, rule)]);
        tried.insert(rule);
    }
    assert_eq!(tried, rules().collect(), "every rule is tried");
}

#[test]
fn every_layer_that_a_node_can_unpack_passes() {
    for media_type in [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    ] {
        let layers = image(json!([descriptor(media_type, 2)]));
        assert_eq!(found(&layers, Some(&configuration())), [], "{media_type}");
    }
}

#[test]
fn secrets_are_told_by_whole_words_and_never_shown() {
    for name in [
        "PASSWORD",
        "DB_PASSWORD",
        "db_password",
        "DBPASSWORD",
        "HF_TOKEN",
        "TOKEN",
        "CLIENT_SECRET",
        "SECRET_THING",
        "API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_APIKEY",
        "SSH_PRIVATE_KEY",
        "X-API-KEY",
    ] {
        let mut config = configuration();
        config["config"]["Env"] = json!([format!("{name}=hunter2"), "PATH=/bin"]);
        let findings = look(&image(json!([descriptor(LAYER, 2)])), Some(&config));
        assert_eq!(findings.len(), 1, "{name}");
        assert_eq!(findings[0].rule, "secret_in_environment");
        assert!(findings[0].message.contains(name));
        assert!(!format!("{findings:?}").contains("hunter2"));
    }
    for entry in [
        "TOKENIZERS_PARALLELISM=false",
        "MAX_TOKENS=4096",
        "PASSWORD=",
        "PASSWORD",
        "POSTGRES_PASSWORD_FILE=/run/p",
        "GPG_KEY=ABCD",
        "KEY=1",
        "API_URL=x",
        "=x",
        "",
    ] {
        assert_eq!(configured("/config/Env", json!([entry])), [], "{entry}");
    }
}

#[test]
fn titles_that_could_leave_a_folder_are_unsafe() {
    let long = "x".repeat(256);
    for title in ["/a", "..", "../a", "a/../b", "a/..", ".", "a//b", "a/", "a\0b", "a\nb", "a\\b", &long] {
        let findings = found(&artifact(json!([titled(title, 1)])), None);
        assert_eq!(findings, [(Severity::Error, "title_unsafe")], "{title:?}");
    }
    for title in ["a", "a/b", "a..b", "...", ".hidden", "Modèle 1.bin"] {
        assert_eq!(found(&artifact(json!([titled(title, 1)])), None), [], "{title:?}");
    }
}

#[test]
fn an_image_that_calls_itself_an_artifact_is_still_looked_at_as_an_image() {
    let mut document = image(json!([descriptor(LAYER, 2)]));
    document["artifactType"] = json!("application/vnd.example.model");
    let mut config = configuration();
    config["config"]["Env"] = json!(["TOKEN=x"]);
    assert_eq!(found(&document, Some(&config)), [(Severity::Error, "secret_in_environment")]);
}

#[test]
fn errors_come_before_warnings() {
    let findings = found(&image(json!([])), Some(&json!({})));
    assert!(findings.len() > 3, "{findings:?}");
    assert!(findings.windows(2).all(|pair| pair[0].0 >= pair[1].0), "{findings:?}");
}

proptest! {
    #[test]
    fn no_configuration_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), title in ".{0,40}") {
        let document = image(json!([titled(&title, 2)])).to_string();
        let manifest = Manifest::parse(document.as_bytes(), None).unwrap();
        let findings = lint(&manifest, Some(&bytes));
        prop_assert!(findings.iter().all(|finding| finding.message.len() < 1000 && !finding.fix.is_empty()));
    }

    #[test]
    fn a_safe_title_stays_in_its_folder(title in "[a./\\\\\0]{0,8}|.{0,20}") {
        let safe = found(&artifact(json!([titled(&title, 1)])), None).is_empty();
        if safe {
            let path = std::path::Path::new(&title);
            prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
            prop_assert!(!title.is_empty());
        }
    }
}
