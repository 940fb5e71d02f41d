//! Registry content, signatures, smoke tests: the requests on the wire, also when something breaks.

use std::path::PathBuf;

use muster_trust::{Digest, PrivateKey, Signature, Subject, TrustedKey, Verdict, decide};
use serde_json::{Value, json};

use super::scripted::{Reply, Request, ok};
use super::{Desk, Exit};
use crate::operation::samples::operation;

const UPLOAD: &str = "/v2/acme.ml/models/x/blobs/uploads/0f0f-1";
/// More than fits in one request.
const LENGTH: usize = 1_500_000;

fn answer(status: u16, headers: &[(&'static str, &str)]) -> Reply {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Reply::Answer(status, headers, String::new())
}

fn refused(status: u16, code: &str, detail: &Value) -> Reply {
    let body = json!({"errors": [{"code": code, "message": "so it is", "detail": detail}]});
    Reply::Answer(status, vec![("content-type", "application/json".to_owned())], body.to_string())
}

fn absent() -> Reply {
    answer(404, &[])
}

fn begun() -> Reply {
    answer(202, &[("location", UPLOAD), ("range", "0-0")])
}

fn has(length: usize) -> Reply {
    let range = format!("0-{}", length - 1);
    answer(204, &[("location", UPLOAD), ("range", range.as_str())])
}

/// Responses after the file's upload: the empty configuration, the manifest, the artifact.
fn published() -> Vec<Reply> {
    vec![answer(200, &[]), answer(201, &[]), ok(r#"{"id":"art_1","digest":"sha256:0"}"#)]
}

impl Desk {
    /// A desk with a file of some length, and the line that pushes it.
    fn with_file(before: Vec<Reply>, published: Vec<Reply>) -> (Self, PathBuf, String) {
        let desk = Desk::new(before.into_iter().chain(published).collect());
        let file = desk.folder.path().join("weights.bin");
        std::fs::write(&file, "a".repeat(LENGTH)).unwrap();
        let line = format!("muster artifact push {} models/x:v1 --project acme.ml -o name", file.display());
        (desk, file, line)
    }

    fn chunks(&self) -> Vec<(Option<String>, usize)> {
        let requests = self.server.requests();
        let chunks = requests.iter().filter(|request| request.line.starts_with("PATCH"));
        chunks
            .map(|request| (request.header("content-range").map(str::to_owned), request.body.len()))
            .collect()
    }

    fn pending(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("cache/uploads")).map_or(0, Iterator::count)
    }
}

fn manifest(request: &Request) -> Value {
    serde_json::from_str(&request.body).unwrap()
}

#[tokio::test]
async fn a_push_whose_connection_breaks_goes_on_where_it_stopped() {
    let sent =
        vec![absent(), absent(), begun(), Reply::HangUp, has(1_000_000), has(LENGTH), answer(201, &[])];
    let (desk, _, line) = Desk::with_file(sent, published());
    desk.type_in(&line).await.unwrap();
    let whole = (Some(format!("0-{}", LENGTH - 1)), LENGTH);
    let rest = (Some(format!("1000000-{}", LENGTH - 1)), LENGTH - 1_000_000);
    assert_eq!(desk.chunks(), [whole, rest]);
    assert_eq!(desk.pending(), 0);
    let digest = Digest::of("a".repeat(LENGTH).as_bytes());
    let lines = desk.lines();
    assert_eq!(lines[6], format!("PUT {UPLOAD}?digest={digest}"));
    assert_eq!(lines[8], "PUT /v2/acme.ml/models/x/manifests/v1");
    assert_eq!(lines[9], "GET /v1/projects/acme.ml/artifacts/models%2Fx:v1");
    let manifest = manifest(&desk.server.requests()[8]);
    assert_eq!(manifest["artifactType"], "application/vnd.muster.files.v1");
    assert_eq!(manifest["layers"][0]["digest"], digest.to_string());
    assert_eq!(manifest["layers"][0]["annotations"]["org.opencontainers.image.title"], "weights.bin");
}

#[tokio::test]
async fn another_run_goes_on_with_the_upload_of_the_one_before() {
    let full = refused(507, "UNSUPPORTED", &Value::Null);
    let first = vec![absent(), absent(), begun(), full];
    let second = vec![absent(), absent(), has(1_000_000), has(LENGTH), answer(201, &[])];
    let (desk, _, line) = Desk::with_file(first.into_iter().chain(second).collect(), published());
    let failure = desk.type_in(&line).await.unwrap_err();
    assert_eq!(failure.exit, Exit::Unavailable);
    assert_eq!(desk.pending(), 1);
    desk.type_in(&line).await.unwrap();
    assert_eq!(desk.lines()[6], format!("GET {UPLOAD}"));
    assert_eq!(desk.chunks()[1].1, LENGTH - 1_000_000);
    assert_eq!(desk.pending(), 0);
}

#[tokio::test]
async fn upload_unknown_to_the_registry_is_started_anew() {
    let full = refused(507, "UNSUPPORTED", &Value::Null);
    let gone = refused(404, "BLOB_UPLOAD_UNKNOWN", &Value::Null);
    let first = vec![absent(), absent(), begun(), full];
    let second = vec![absent(), absent(), gone, absent(), begun(), has(LENGTH), answer(201, &[])];
    let (desk, _, line) = Desk::with_file(first.into_iter().chain(second).collect(), published());
    desk.type_in(&line).await.unwrap_err();
    desk.type_in(&line).await.unwrap();
    assert_eq!(desk.chunks()[1], (Some(format!("0-{}", LENGTH - 1)), LENGTH));
}

#[tokio::test]
async fn an_upload_whose_last_answer_was_lost_is_not_sent_again() {
    let gone = refused(404, "BLOB_UPLOAD_UNKNOWN", &Value::Null);
    let sent = vec![absent(), absent(), begun(), has(LENGTH), Reply::HangUp, gone, answer(200, &[])];
    let (desk, _, line) = Desk::with_file(sent, published());
    desk.type_in(&line).await.unwrap();
    assert_eq!(desk.chunks().len(), 1);
}

#[tokio::test]
async fn the_registry_says_where_the_next_chunk_belongs() {
    let offset = refused(416, "BLOB_UPLOAD_INVALID", &json!({"length": 1}));
    let sent = vec![absent(), absent(), begun(), offset, has(LENGTH), answer(201, &[])];
    let (desk, _, line) = Desk::with_file(sent, published());
    desk.type_in(&line).await.unwrap();
    assert_eq!(desk.chunks()[1], (Some(format!("1-{}", LENGTH - 1)), LENGTH - 1));
}

#[tokio::test]
async fn content_already_in_the_registry_is_not_uploaded_again() {
    let (desk, _, line) = Desk::with_file(vec![absent(), answer(200, &[])], published());
    desk.type_in(&line).await.unwrap();
    assert!(desk.lines().iter().all(|line| !line.starts_with("PATCH") && !line.starts_with("POST")));
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_sent_is_refused_and_nothing_is_published() {
    let sent = vec![absent(), absent(), begun(), Reply::HangUp, has(1_000_000), answer(204, &[])];
    let (desk, file, line) = Desk::with_file(sent, Vec::new());
    let change = async {
        while desk.chunks().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        std::fs::write(&file, "b".repeat(LENGTH)).unwrap();
    };
    let (pushed, ()) = tokio::join!(desk.type_in(&line), change);
    assert_eq!(pushed.unwrap_err().code, "file_changed");
    let lines = desk.lines();
    assert_eq!(lines[lines.len() - 1], format!("DELETE {UPLOAD}"));
    assert!(lines.iter().all(|line| !line.contains("/manifests/")));
    assert_eq!(desk.pending(), 0);
}

#[tokio::test]
async fn unauthenticated_push_fails_before_the_file_is_read() {
    let desk = Desk::new(vec![answer(401, &[])]);
    let failure = desk.type_in("muster artifact push nowhere models/x --project acme.ml").await.unwrap_err();
    assert_eq!(failure.exit, Exit::Unauthenticated);
    assert!(failure.next.unwrap().contains("muster login"));
}

#[tokio::test]
async fn an_image_is_pushed_from_a_layout_its_parts_first() {
    let desk = Desk::new(
        [
            absent(),
            absent(),
            answer(201, &[]),
            absent(),
            answer(201, &[]),
            answer(201, &[]),
            answer(201, &[]),
        ]
        .into_iter()
        .chain([ok(r#"{"id":"art_1","digest":"sha256:0"}"#)])
        .collect(),
    );
    let folder = desk.folder.path().join("layout");
    std::fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
    let blob = |bytes: &[u8], media: &str| {
        let digest = Digest::of(bytes);
        std::fs::write(folder.join("blobs/sha256").join(digest.hex()), bytes).unwrap();
        json!({"mediaType": media, "digest": digest, "size": bytes.len()})
    };
    let (config, layer) = (blob(b"config", "c"), blob(b"layer", "l"));
    let image = json!({"schemaVersion": 2, "config": config, "layers": [layer]}).to_string();
    let image = blob(image.as_bytes(), "application/vnd.oci.image.manifest.v1+json");
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [image]});
    let index = blob(index.to_string().as_bytes(), "application/vnd.oci.image.index.v1+json");
    std::fs::write(folder.join("oci-layout"), "{}").unwrap();
    std::fs::write(folder.join("index.json"), json!({"manifests": [index]}).to_string()).unwrap();
    desk.type_in(&format!("muster artifact push {} base:2 --project acme.ml", folder.display()))
        .await
        .unwrap();
    let lines = desk.lines();
    let image = image["digest"].as_str().unwrap();
    assert_eq!(lines[5], format!("PUT /v2/acme.ml/base/manifests/{image}"));
    assert_eq!(lines[6], "PUT /v2/acme.ml/base/manifests/2");
    assert_eq!(
        desk.server.requests()[6].header("content-type"),
        Some("application/vnd.oci.image.index.v1+json")
    );
}

fn files(layers: &[(&str, &[u8])]) -> Reply {
    let layers: Vec<Value> = layers
        .iter()
        .map(|(name, bytes)| {
            json!({"mediaType": "application/octet-stream", "digest": Digest::of(bytes), "size": bytes.len(),
                   "annotations": {"org.opencontainers.image.title": name}})
        })
        .collect();
    let manifest =
        json!({"schemaVersion": 2, "artifactType": "application/vnd.muster.files.v1", "layers": layers});
    Reply::Answer(
        200,
        vec![("content-type", "application/vnd.oci.image.manifest.v1+json".to_owned())],
        manifest.to_string(),
    )
}

fn pull(desk: &Desk) -> (PathBuf, String) {
    let folder = desk.folder.path().join("out");
    let line = format!("muster artifact pull models/x:v1 {} --project acme.ml", folder.display());
    (folder, line)
}

#[tokio::test]
async fn a_pull_that_was_cut_off_fetches_only_the_rest() {
    let rest = Reply::Answer(206, vec![("content-range", "bytes 5-9/10".to_owned())], "56789".to_owned());
    let desk =
        Desk::new(vec![files(&[("deep/f", b"0123456789")]), Reply::CutOff("x/y", "01234".to_owned()), rest]);
    let (folder, line) = pull(&desk);
    desk.type_in(&line).await.unwrap();
    assert_eq!(std::fs::read(folder.join("deep/f")).unwrap(), b"0123456789");
    assert_eq!(desk.server.requests()[2].header("range"), Some("bytes=5-"));
    assert!(!folder.join(".muster-parts").exists());
}

#[tokio::test]
async fn a_pull_goes_on_with_what_another_run_left_and_not_with_what_is_damaged() {
    for (left, second) in [("01234", None), ("xxxxx", Some("0123456789"))] {
        let rest = Reply::Answer(206, Vec::new(), "56789".to_owned());
        let whole = second.map(|body| Reply::Answer(200, Vec::new(), body.to_owned()));
        let desk = Desk::new([files(&[("f", b"0123456789")]), rest].into_iter().chain(whole).collect());
        let (folder, line) = pull(&desk);
        std::fs::create_dir_all(folder.join(".muster-parts")).unwrap();
        std::fs::write(folder.join(".muster-parts").join(Digest::of(b"0123456789").hex()), left).unwrap();
        desk.type_in(&line).await.unwrap();
        assert_eq!(std::fs::read(folder.join("f")).unwrap(), b"0123456789", "{left}");
        let ranges: Vec<_> = desk.server.requests()[1..]
            .iter()
            .map(|asked| asked.header("range").map(str::to_owned))
            .collect();
        let expected = [Some("bytes=5-".to_owned()), None];
        assert_eq!(ranges, expected[..=usize::from(second.is_some())], "{left}");
    }
}

#[tokio::test]
async fn content_with_another_digest_leaves_no_file() {
    let wrong = Reply::Answer(200, Vec::new(), "9876543210".to_owned());
    let desk = Desk::new(vec![files(&[("f", b"0123456789")]), wrong]);
    let (folder, line) = pull(&desk);
    assert_eq!(desk.type_in(&line).await.unwrap_err().code, "digest_mismatch");
    assert!(!folder.join("f").exists());
    assert_eq!(std::fs::read_dir(folder.join(".muster-parts")).unwrap().count(), 0);
}

#[tokio::test]
async fn nothing_is_written_beside_the_folder_or_through_a_link() {
    for name in ["../f", "/f", "a/../../f", "a\\f", "", "a//f", ".muster-parts/f"] {
        let desk = Desk::new(vec![files(&[("fine", b"x"), (name, b"x")])]);
        let (folder, line) = pull(&desk);
        assert_eq!(desk.type_in(&line).await.unwrap_err().code, "strange_manifest", "{name}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{name}");
    }
    let desk = Desk::new(vec![files(&[("out/f", b"x")])]);
    let (folder, line) = pull(&desk);
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(desk.folder.path(), folder.join("out")).unwrap();
    assert_eq!(desk.type_in(&line).await.unwrap_err().code, "file_there");
    assert!(!desk.folder.path().join("f").exists());
}

#[tokio::test]
async fn a_manifest_that_is_not_the_one_that_was_asked_for_is_refused() {
    let desk = Desk::new(vec![files(&[("f", b"x")])]);
    let line = format!(
        "muster artifact pull models/x@{} {} --project acme.ml",
        Digest::of(b"other"),
        desk.folder.path().display()
    );
    assert_eq!(desk.type_in(&line).await.unwrap_err().code, "digest_mismatch");
}

#[tokio::test]
async fn a_signature_over_files_is_attached_and_holds() {
    let layers: &[(&str, &[u8])] = &[("a", b"x"), ("b/c", b"y")];
    let Reply::Answer(_, _, manifest) = files(layers) else { unreachable!() };
    let digest = Digest::of(manifest.as_bytes());
    let artifact = json!({"id": "art_1", "repository": "models/x", "digest": digest, "kind": "blob",
                          "verdict": {"trust": "trusted", "message": "so"}});
    let desk = Desk::new(vec![
        ok(&artifact.to_string()),
        files(layers),
        answer(200, &[]),
        absent(),
        answer(201, &[]),
        answer(201, &[]),
        ok(&artifact.to_string()),
    ]);
    let key = desk.folder.path().join("k.pem");
    desk.type_in(&format!("muster key generate {}", key.display())).await.unwrap();
    let again = desk.type_in(&format!("muster key generate {}", key.display())).await.unwrap_err();
    assert_eq!(again.code, "file_there");
    desk.type_in(&format!("muster artifact sign models/x:v1 --key {} --project acme.ml", key.display()))
        .await
        .unwrap();

    let requests = desk.server.requests();
    assert!(requests[5].line.starts_with("PUT /v2/acme.ml/models/x/manifests/sha256:"));
    assert_eq!(self::manifest(&requests[5])["subject"]["digest"], digest.to_string());
    assert_eq!(desk.lines()[6], "POST /v1/projects/acme.ml/artifacts/art_1/verify");
    let bundle = requests[4].body.as_bytes();
    let signature = [Signature::Bundle { json: bundle.to_vec(), digest: Digest::of(bundle) }];
    let private = PrivateKey::from_pem(&std::fs::read_to_string(&key).unwrap()).unwrap();
    let trusted = [TrustedKey { id: "k".to_owned(), key: private.public().clone(), revoked: false }];
    let mut files: Vec<(String, Digest)> =
        layers.iter().map(|(name, bytes)| ((*name).to_owned(), Digest::of(bytes))).collect();
    let subject = Subject { manifest_digest: digest, files: Some(&files) };
    assert!(matches!(decide(&subject, &signature, &trusted), Verdict::Trusted { .. }));
    files[0].1 = Digest::of(b"z");
    let subject = Subject { manifest_digest: digest, files: Some(&files) };
    assert!(!matches!(decide(&subject, &signature, &trusted), Verdict::Trusted { .. }));
}

#[tokio::test]
async fn a_smoke_test_makes_a_cell_of_the_digest_destroys_it_and_stages_with_it() {
    let artifact = json!({"id": "art_1", "repository": "base", "digest": format!("sha256:{}", "ab".repeat(32)), "kind": "oci"});
    let started = || {
        let mut started = operation("accepted");
        started["subject_id"] = json!("cel_1");
        ok(&json!({"operation": started, "plan": {}}).to_string())
    };
    let done = || ok(&operation("succeeded").to_string());
    let desk = Desk::new(vec![
        ok(&artifact.to_string()),
        started(),
        done(),
        started(),
        done(),
        ok(&artifact.to_string()),
    ]);
    desk.type_in("muster artifact smoke base:2 --allocation a1 --promote --project acme.ml").await.unwrap();
    let requests = desk.server.requests();
    let body = |at: usize| manifest(&requests[at]);
    assert_eq!(
        body(1),
        json!({"name": "smoke-abababababab", "allocation": "a1", "spec": {"root": {"image": artifact["digest"]}}})
    );
    assert!(desk.lines()[3].contains("/cells/cel_1"), "{:?}", desk.lines());
    assert_eq!(body(5), json!({"to": "staged", "reason": "its smoke test passed", "smoke_cell": "cel_1"}));
}

#[tokio::test]
async fn a_smoke_test_in_no_allocation_says_where_allocations_are_listed() {
    let artifact = json!({"id": "art_1", "repository": "base", "digest": format!("sha256:{}", "ab".repeat(32)), "kind": "oci"});
    let absent = json!({"status": 404, "code": "not_found", "detail": "allocation not found, or no access"});
    let headers = vec![("content-type", "application/problem+json".to_owned())];
    let desk = Desk::new(vec![ok(&artifact.to_string()), Reply::Answer(404, headers, absent.to_string())]);
    let line = "muster artifact smoke base:2 --allocation nope --project acme.ml";
    let failure = desk.type_in(line).await.unwrap_err();
    assert_eq!(failure.exit, Exit::NotFound);
    assert!(failure.next.unwrap().starts_with("`muster allocation list`"));
}
