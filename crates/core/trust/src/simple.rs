//! Cosign's simple signing: a small JSON document names the manifest's digest, and its signature is in an annotation.
//!
//! The documents are the layers of a manifest tagged `sha256-….sig` in the artifact's own repository. The repository's name
//! in the document is not compared, like in cosign: a signature is over content, and content may be copied.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::oci::{
    self, Attachment, Blob, IMAGE_CONFIG, IMAGE_MANIFEST, Manifest, ManifestError, ManifestLayer,
};
use crate::{Digest, shown};

/// Media type of the documents.
pub const MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Annotation with the signature, in base64.
pub const ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const TYPE: &str = "cosign container image signature";

#[derive(Serialize, Deserialize)]
struct Payload {
    critical: Critical,
    // Written like cosign does, and never read: nothing depends on it.
    #[serde(skip_deserializing)]
    optional: Option<()>,
}

#[derive(Serialize, Deserialize)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Serialize, Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// Returns the tag of a manifest's signatures.
pub fn tag(manifest: &Digest) -> String {
    format!("sha256-{}.sig", manifest.hex())
}

/// Builds the document to sign.
pub fn payload(manifest: &Digest, reference: &str) -> Vec<u8> {
    let identity = Identity { reference: reference.to_owned() };
    let image = Image { digest: manifest.to_string() };
    oci::json(&Payload { critical: Critical { identity, image, kind: TYPE.to_owned() }, optional: None })
}

/// Returns the digest of the manifest that the document names. The error explains why it names none.
pub(crate) fn signed(payload: &[u8]) -> Result<Digest, String> {
    let payload: Payload = serde_json::from_slice(payload)
        .map_err(|why| format!("the signed content is not a simple signing document ({why})"))?;
    let Critical { image, kind, .. } = payload.critical;
    if kind != TYPE {
        return Err(format!("the signed content has the type {:?}, expected {TYPE:?}", shown(&kind)));
    }
    image.digest.parse().map_err(|why: crate::DigestError| why.to_string())
}

/// One signature in the manifest of signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Digest of the document.
    pub digest: Digest,
    /// Size of the document.
    pub size: u64,
    /// The signature. Empty if the annotation is missing or invalid base64: such a layer must not hide the others.
    pub signature: Vec<u8>,
    /// All annotations, so that nothing is lost when a signature is added.
    pub annotations: BTreeMap<String, String>,
}

/// Returns the signatures that such a manifest lists, at most [`crate::MOST_SIGNATURES`].
pub fn layers(manifest: &[u8]) -> Result<Vec<Layer>, ManifestError> {
    let layers = oci::layers(manifest, MEDIA_TYPE)?.into_iter().map(|layer| {
        let signature = layer.annotations.get(ANNOTATION).and_then(|text| STANDARD.decode(text.trim()).ok());
        Ok(Layer {
            digest: layer.digest()?,
            size: layer.size,
            signature: signature.unwrap_or_default(),
            annotations: layer.annotations,
        })
    });
    layers.collect()
}

/// Builds the manifest of signatures with one more signature, and the blobs that it needs.
///
/// `before` are the signatures already listed; an existing signature is not added again.
pub fn attach(before: Vec<Layer>, payload: Vec<u8>, signature: &[u8]) -> Attachment {
    let payload = Blob::new(MEDIA_TYPE, payload);
    let mut layers = before;
    let digest = payload.descriptor.digest;
    if !layers.iter().any(|layer| layer.digest == digest && layer.signature == signature) {
        layers.push(Layer {
            digest,
            size: payload.descriptor.size,
            signature: signature.to_vec(),
            annotations: BTreeMap::from([(ANNOTATION.to_owned(), STANDARD.encode(signature))]),
        });
    }
    let config = config(&layers);
    let layers: Vec<_> = layers.into_iter().map(ManifestLayer::from).collect();
    let manifest = Manifest {
        schema_version: 2,
        media_type: IMAGE_MANIFEST,
        artifact_type: None,
        config: &config.descriptor,
        layers: &layers,
        subject: None,
        annotations: BTreeMap::new(),
    };
    let manifest = manifest.blob();
    Attachment { blobs: vec![config, payload], manifest }
}

impl From<Layer> for ManifestLayer {
    fn from(layer: Layer) -> Self {
        let (digest, size, annotations) = (layer.digest.to_string(), layer.size, layer.annotations);
        Self { media_type: MEDIA_TYPE.to_owned(), digest, size, annotations }
    }
}

/// Builds an image configuration, because older clients treat the manifest of signatures as an image. Its dates are zero,
/// like cosign's, so that its digest does not depend on a clock.
fn config(layers: &[Layer]) -> Blob {
    const NEVER: &str = "0001-01-01T00:00:00Z";
    let diff_ids: Vec<_> = layers.iter().map(|layer| layer.digest).collect();
    let history: Vec<_> = layers.iter().map(|_| serde_json::json!({ "created": NEVER })).collect();
    let config = serde_json::json!({
        "architecture": "",
        "created": NEVER,
        "history": history,
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
        "config": {},
    });
    Blob::new(IMAGE_CONFIG, oci::json(&config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> Digest {
        Digest::of(b"manifest")
    }

    #[test]
    fn the_payload_is_written_as_cosign_writes_it() {
        let text = String::from_utf8(payload(&digest(), "site/\"app\"")).unwrap();
        let expected = format!(
            "{{\"critical\":{{\"identity\":{{\"docker-reference\":\"site/\\\"app\\\"\"}},\"image\":{{\"docker-manifest-digest\":\"{}\"}},\"type\":\"cosign container image signature\"}},\"optional\":null}}",
            digest()
        );
        assert_eq!(text, expected);
        assert_eq!(signed(text.as_bytes()), Ok(digest()));
        let with_more = text.replace("null", "{\"creator\":\"cosign/v2\",\"timestamp\":17}");
        assert_eq!(signed(with_more.as_bytes()), Ok(digest()));
    }

    #[test]
    fn other_documents_are_refused() {
        let good = String::from_utf8(payload(&digest(), "a")).unwrap();
        let image = format!("\"image\":{{\"docker-manifest-digest\":\"{}\"}}", digest());
        for (text, says) in [
            (good.replace("container image", "blob"), "has the type"),
            (good.replace("sha256:", "sha512:"), "invalid digest"),
            (good.replace("critical", "optional "), "not a simple signing document"),
            // Two parsers must not find two digests in one document.
            (good.replace(&image, &format!("{image},{image}")), "duplicate field"),
            (good[1..].to_owned(), "not a simple signing document"),
            (format!("{good}x"), "not a simple signing document"),
            ("[".repeat(100_000), "not a simple signing document"),
            (String::new(), "not a simple signing document"),
        ] {
            let why = signed(text.as_bytes()).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn a_second_signature_joins_the_first_and_a_repeated_one_does_not() {
        let first = attach(Vec::new(), payload(&digest(), "a"), b"one");
        let mut before = layers(&first.manifest.bytes).unwrap();
        assert_eq!(before.len(), 1);
        assert_eq!(
            (before[0].signature.as_slice(), before[0].digest),
            (&b"one"[..], first.blobs[1].descriptor.digest)
        );
        before[0].annotations.insert("dev.sigstore.cosign/certificate".into(), "kept".into());

        let second = attach(before, payload(&digest(), "a"), b"two");
        let both = layers(&second.manifest.bytes).unwrap();
        assert_eq!(both.iter().map(|layer| layer.signature.as_slice()).collect::<Vec<_>>(), [b"one", b"two"]);
        assert_eq!(both[0].annotations.get("dev.sigstore.cosign/certificate").unwrap(), "kept");
        assert_eq!(attach(both, payload(&digest(), "a"), b"one").manifest, second.manifest);

        let config: serde_json::Value = serde_json::from_slice(&second.blobs[0].bytes).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
        for blob in second.blobs.iter().chain([&second.manifest]) {
            assert_eq!(
                (blob.descriptor.digest, blob.descriptor.size),
                (Digest::of(&blob.bytes), blob.bytes.len() as u64)
            );
        }
    }

    #[test]
    fn a_manifest_is_read_within_bounds() {
        let layer = |media: &str, annotations: serde_json::Value| serde_json::json!({ "mediaType": media, "digest": digest(), "size": 3, "annotations": annotations });
        let read = |layers_json: Vec<serde_json::Value>| {
            layers(&oci::json(&serde_json::json!({ "schemaVersion": 2, "layers": layers_json })))
        };
        let good = layer(MEDIA_TYPE, serde_json::json!({ ANNOTATION: "b25l" }));
        let found = read(vec![
            layer("application/vnd.dsse.envelope.v1+json", serde_json::json!({})),
            layer(MEDIA_TYPE, serde_json::json!({ ANNOTATION: "not base64" })),
            layer(MEDIA_TYPE, serde_json::json!({})),
            good.clone(),
        ]);
        let signatures: Vec<_> = found.unwrap().into_iter().map(|layer| layer.signature).collect();
        assert_eq!(signatures, [&b""[..], b"", b"one"]);
        assert_eq!(read(vec![good.clone(); 5000]).unwrap().len(), crate::MOST_SIGNATURES);

        let wrong = serde_json::json!({ "mediaType": MEDIA_TYPE, "digest": "sha256:12", "size": 3 });
        assert!(read(vec![wrong]).unwrap_err().to_string().contains("invalid digest"));
        let negative = serde_json::json!({ "mediaType": MEDIA_TYPE, "digest": digest(), "size": -3 });
        assert!(read(vec![negative]).is_err());
        assert!(layers(&vec![b' '; 5 * 1024 * 1024]).unwrap_err().to_string().contains("longer than"));
        assert!(layers(b"{}").is_err());
    }

    #[test]
    fn the_tag_is_the_digest() {
        assert_eq!(tag(&digest()), format!("sha256-{}.sig", digest().hex()));
    }
}
