//! Manifests: parsed facts, and rejected input.

use muster_registry::Digest;
use muster_registry::manifest::{
    LARGEST, LONGEST, MOST_ANNOTATIONS, MOST_DESCRIPTORS, Manifest, ManifestError, MediaType,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn descriptor(media_type: &str, number: u64) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(&number.to_le_bytes()), "size": number})
}

fn image() -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MediaType::Image.as_str(),
        "config": descriptor(CONFIG, 1),
        "layers": [descriptor(LAYER, 2), descriptor(LAYER, 3)],
    })
}

fn index() -> Value {
    let mut arm = descriptor(MediaType::Image.as_str(), 5);
    arm["platform"] = json!({"os": "linux", "architecture": "arm64", "variant": "v8"});
    json!({
        "schemaVersion": 2,
        "mediaType": MediaType::Index.as_str(),
        "manifests": [descriptor(MediaType::Image.as_str(), 4), arm],
    })
}

fn with(mut document: Value, key: &str, value: Value) -> Value {
    document[key] = value;
    document
}

fn without(mut document: Value, key: &str) -> Value {
    document.as_object_mut().unwrap().remove(key).unwrap();
    document
}

fn parse(document: &Value) -> Result<Manifest, ManifestError> {
    Manifest::parse(document.to_string().as_bytes(), None)
}

#[test]
fn an_image_s_facts() {
    let mut document = image();
    document["annotations"] = json!({"k": "v"});
    document["subject"] = descriptor(MediaType::Image.as_str(), 9);
    document["layers"][1]["annotations"] = json!({"org.opencontainers.image.title": "model.bin"});
    document["layers"][1]["urls"] = json!(["https://example.com/x"]);
    let manifest = parse(&document).unwrap();
    assert_eq!(manifest.media_type, MediaType::Image);
    assert_eq!(manifest.artifact_type.as_deref(), Some(CONFIG), "it falls back to the configuration's");
    assert!(!manifest.names_its_type);
    assert_eq!(manifest.subject.as_ref().unwrap().size, 9);
    assert_eq!(manifest.config.as_ref().unwrap().media_type, CONFIG);
    assert_eq!(manifest.layers[0].title(), None);
    assert_eq!(manifest.layers[1].title(), Some("model.bin"));
    assert_eq!(manifest.layers[1].urls, ["https://example.com/x"]);
    assert_eq!(manifest.annotations["k"], "v");
    let sizes = |manifest: &Manifest| manifest.needs_blobs().iter().map(|blob| blob.size).collect::<Vec<_>>();
    assert_eq!(sizes(&manifest), [1, 2, 3]);
    assert!(manifest.needs_manifests().is_empty(), "a subject may come later");
    let named = parse(&with(document, "artifactType", json!("application/vnd.example.model"))).unwrap();
    assert_eq!(named.artifact_type.as_deref(), Some("application/vnd.example.model"));
    assert!(named.names_its_type);
}

#[test]
fn an_index_s_facts() {
    let manifest = parse(&index()).unwrap();
    assert_eq!(manifest.media_type, MediaType::Index);
    assert_eq!(manifest.artifact_type, None);
    assert_eq!(manifest.children[0].platform, None);
    let platform = manifest.children[1].platform.as_ref().unwrap();
    let words = (platform.os.as_str(), platform.architecture.as_str(), platform.variant.as_deref());
    assert_eq!(words, ("linux", "arm64", Some("v8")));
    assert_eq!(manifest.needs_manifests().len(), 2);
    assert!(manifest.needs_blobs().is_empty());
}

#[test]
fn layers_that_may_not_be_passed_on_are_needed_only_if_they_are_nowhere_else() {
    for foreign in [
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    ] {
        let mut layer = descriptor(foreign, 7);
        let manifest = parse(&with(image(), "layers", json!([layer]))).unwrap();
        assert_eq!(manifest.needs_blobs().len(), 2, "{foreign}");
        layer["urls"] = json!(["https://example.com/x"]);
        let manifest = parse(&with(image(), "layers", json!([layer]))).unwrap();
        assert_eq!(manifest.needs_blobs().len(), 1, "{foreign}");
    }
    let mut ordinary = descriptor(LAYER, 7);
    ordinary["urls"] = json!(["https://example.com/x"]);
    let manifest = parse(&with(image(), "layers", json!([ordinary]))).unwrap();
    assert_eq!(manifest.needs_blobs().len(), 2, "urls alone excuse nothing");
}

#[test]
fn a_blob_that_is_named_twice_is_needed_once_and_the_empty_one_is_needed_too() {
    let empty = json!({
        "mediaType": "application/vnd.oci.empty.v1+json",
        "digest": Digest::of(b"{}"), "size": 2, "data": "e30=",
    });
    let mut document = with(image(), "config", empty.clone());
    document["layers"] = json!([empty, descriptor(LAYER, 2), descriptor(LAYER, 2)]);
    let manifest = parse(&document).unwrap();
    let needed: Vec<_> = manifest.needs_blobs().iter().map(|blob| blob.digest).collect();
    assert_eq!(needed, [Digest::of(b"{}"), Digest::of(&2_u64.to_le_bytes())]);
}

#[test]
fn the_kind_comes_from_the_document_the_request_or_what_is_in_it() {
    let kind = |document: &Value, said: Option<&str>| {
        Manifest::parse(document.to_string().as_bytes(), said).map(|manifest| manifest.media_type)
    };
    let (image_type, index_type) = (MediaType::Image.as_str(), MediaType::Index.as_str());
    assert_eq!(kind(&image(), Some(image_type)), Ok(MediaType::Image));
    let parameters = format!("{}; charset=utf-8", image_type.to_uppercase());
    assert_eq!(kind(&image(), Some(&parameters)), Ok(MediaType::Image));
    let (plain_image, plain_index) = (without(image(), "mediaType"), without(index(), "mediaType"));
    assert_eq!(kind(&plain_image, None), Ok(MediaType::Image));
    assert_eq!(kind(&plain_index, None), Ok(MediaType::Index));
    let docker = MediaType::DockerImage.as_str();
    assert_eq!(kind(&plain_image, Some(docker)), Ok(MediaType::DockerImage));
    assert_eq!(kind(&with(image(), "mediaType", json!(docker)), None), Ok(MediaType::DockerImage));
    let list = MediaType::DockerList.as_str();
    assert_eq!(kind(&with(index(), "mediaType", json!(list)), Some(list)), Ok(MediaType::DockerList));
    for (document, said) in [(image(), docker), (image(), "application/json"), (index(), image_type)] {
        let refused = kind(&document, Some(said));
        assert!(matches!(refused, Err(ManifestError::Contradiction { .. })), "{said}: {refused:?}");
    }
    assert!(matches!(kind(&plain_image, Some("text/plain")), Err(ManifestError::MediaType(_))));
    assert!(matches!(kind(&plain_image, Some(index_type)), Err(ManifestError::Document(_))));
    let unknown = with(image(), "mediaType", json!("application/vnd.example+json"));
    assert!(matches!(kind(&unknown, None), Err(ManifestError::MediaType(_))));
}

#[test]
fn schema_1_is_told_apart() {
    let old = json!({"schemaVersion": 1, "name": "a", "tag": "b", "fsLayers": [], "signatures": []});
    assert_eq!(parse(&old), Err(ManifestError::Schema1));
    for said in ["v1+json", "v1+prettyjws"] {
        let said = format!("application/vnd.docker.distribution.manifest.{said}");
        assert_eq!(Manifest::parse(b"{}", Some(&said)), Err(ManifestError::Schema1));
    }
    assert!(ManifestError::Schema1.to_string().contains("push the image again"));
}

#[test]
fn malformed_manifest_is_refused() {
    let layer = |key: &str, value: Value| {
        let mut document = image();
        document["layers"][0][key] = value;
        document
    };
    let many: Vec<Value> = (0..=MOST_DESCRIPTORS as u64).map(|number| descriptor(LAYER, number)).collect();
    let mut two_sizes = descriptor(LAYER, 2);
    two_sizes["size"] = json!(99);
    let cases = [
        ("no version", without(image(), "schemaVersion"), "schemaVersion"),
        ("another version", with(image(), "schemaVersion", json!(3)), "schemaVersion"),
        ("no config", without(image(), "config"), "config and layers"),
        ("no layers", without(image(), "layers"), "config and layers"),
        ("null layers", with(image(), "layers", Value::Null), "config and layers"),
        ("both", with(image(), "manifests", json!([])), "config and layers"),
        ("both the other way", with(index(), "layers", json!([])), "neither"),
        ("an index with a config", with(index(), "config", descriptor(CONFIG, 1)), "neither"),
        ("a negative size", layer("size", json!(-1)), "-1"),
        ("half a byte", layer("size", json!(1.5)), "1.5"),
        ("a huge size", layer("size", json!(LARGEST + 1)), "at most"),
        ("a size beyond 64 bits", layer("size", json!(1e30)), "1e+30"),
        ("no size", layer("size", Value::Null), "null"),
        ("no digest", layer("digest", json!("")), "digest"),
        ("an upper-case digest", layer("digest", json!(format!("sha256:{}", "A".repeat(64)))), "digest"),
        ("another algorithm", layer("digest", json!(format!("sha512:{}", "a".repeat(128)))), "sha512"),
        ("no media type", layer("mediaType", json!("")), "media type"),
        ("half a media type", layer("mediaType", json!("a/")), "media type"),
        ("a split media type", layer("mediaType", json!("a/b\r\nx: y")), "media type"),
        ("a long media type", layer("mediaType", json!(format!("a/{}", "b".repeat(300)))), "media type"),
        ("a strange artifact type", with(image(), "artifactType", json!("model")), "media type"),
        ("annotations that are no texts", with(image(), "annotations", json!({"a": 1})), "string"),
        ("too many", with(image(), "layers", json!(many)), "descriptors"),
        (
            "two sizes",
            with(image(), "layers", json!([descriptor(LAYER, 2), two_sizes])),
            "two different sizes",
        ),
        ("other letters", with(image(), "Layers", json!([])), "must be spelled"),
        ("too deep", with(image(), "x", (0..20).fold(json!(1), |inner, _| json!([inner]))), "nested"),
        ("a list", json!([]), "is invalid"),
        ("nothing", json!({}), "schemaVersion"),
    ];
    for (what, document, says) in cases {
        let error = parse(&document).unwrap_err();
        assert!(error.to_string().contains(says), "{what}: {error}");
        assert_eq!(error.refusal().status, 400);
    }
    let twice = image().to_string().replacen('{', r#"{"layers":[],"#, 1);
    assert!(Manifest::parse(twice.as_bytes(), None).unwrap_err().to_string().contains("twice"));
    let long = vec![b' '; LONGEST + 1];
    let error = Manifest::parse(&long, None).unwrap_err();
    assert_eq!((error.refusal().status, error), (413, ManifestError::Long(LONGEST + 1)));
}

#[test]
fn the_largest_manifests_that_are_allowed_are_read() {
    let many: Vec<Value> = (0..MOST_DESCRIPTORS as u64).map(|number| descriptor(LAYER, number)).collect();
    let manifest = parse(&with(image(), "layers", json!(many))).unwrap();
    assert_eq!(manifest.layers.len(), MOST_DESCRIPTORS);
    let text = image().to_string();
    let padded = format!("{text}{}", " ".repeat(LONGEST - text.len()));
    assert!(Manifest::parse(padded.as_bytes(), None).is_ok());
}

/// Documents that are almost manifests.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![Just(image().to_string()), Just(index().to_string())];
    (
        whole,
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(text, changes, cut)| {
            let mut bytes = text.into_bytes();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if cut.index(4) == 0 {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        })
}

proptest! {
    #[test]
    fn nothing_is_too_strange(bytes in prop_oneof![nearly(), prop::collection::vec(any::<u8>(), 0..200)], said in prop::option::of(".{0,60}")) {
        match Manifest::parse(&bytes, said.as_deref()) {
            Ok(manifest) => {
                prop_assert!(manifest.media_type.is_index() == manifest.config.is_none());
                prop_assert!(manifest.layers.is_empty() || manifest.children.is_empty());
            }
            Err(error) => prop_assert!(error.to_string().len() < 1000),
        }
    }
}

#[test]
fn annotations_beyond_their_limit_are_refused() {
    let with = |length: usize| {
        json!({
            "schemaVersion": 2, "mediaType": MediaType::Index.as_str(), "manifests": [],
            "annotations": {"k": "v".repeat(length - 1)},
        })
        .to_string()
    };
    assert!(Manifest::parse(with(MOST_ANNOTATIONS).as_bytes(), None).is_ok());
    let error = Manifest::parse(with(MOST_ANNOTATIONS + 1).as_bytes(), None).unwrap_err();
    assert!(error.to_string().contains("annotations"), "{error}");
}
