//! Sigstore bundles v0.3 of key pairs, and the manifests that attach them to their subjects.
//!
//! Transparency logs, timestamps and certificates in a bundle are ignored: a key is trusted here because it was configured,
//! until it is revoked. The key hint is not trusted either; it only improves the message about a signature that no known key
//! made.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::oci::{
    self, Attachment, Blob, Descriptor, EMPTY, IMAGE_MANIFEST, Manifest, ManifestError, ManifestLayer,
};
use crate::statement::{self, Head, PAYLOAD_TYPE, SIGN};
use crate::{Digest, FilesError, PrivateKey, files, shown};

/// Media type of a bundle, and artifact type of the manifest that attaches it.
pub const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    media_type: String,
    #[serde(default)]
    verification_material: Material,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dsse_envelope: Option<Envelope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_signature: Option<MessageSignature>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public_key: Option<KeyHint>,
}

#[derive(Serialize, Deserialize)]
struct KeyHint {
    #[serde(default)]
    hint: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Serialize, Deserialize)]
struct EnvelopeSignature {
    sig: String,
    // Written because some readers require it; nothing depends on it.
    #[serde(default)]
    keyid: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: MessageDigest,
    signature: String,
}

#[derive(Serialize, Deserialize)]
struct MessageDigest {
    algorithm: String,
    digest: String,
}

/// Signed content of a bundle.
pub(crate) enum Content {
    /// A statement in an envelope.
    Statement { head: Head, payload: Vec<u8>, signature: Vec<u8> },
    /// The artifact's own bytes: the manifest, in our case. It is verified by its digest, which Ed25519 and SHA-384 do not
    /// support; such a bundle counts as one by another key.
    Message { digest: Digest, signature: Vec<u8> },
}

/// A parsed bundle. None of it is verified.
pub(crate) struct Bundle {
    pub(crate) hint: Option<String>,
    pub(crate) content: Content,
}

impl Bundle {
    /// Parses a bundle. The error explains why it is invalid or unsupported.
    pub(crate) fn read(json: &[u8]) -> Result<Self, String> {
        if json.len() > crate::MOST_BUNDLE {
            return Err(format!("the bundle is longer than {} bytes", crate::MOST_BUNDLE));
        }
        let document: Document =
            serde_json::from_slice(json).map_err(|why| format!("it is not a Sigstore bundle ({why})"))?;
        if document.media_type != MEDIA_TYPE {
            let found = shown(&document.media_type);
            return Err(format!("the bundle has the media type {found:?}, expected {MEDIA_TYPE}"));
        }
        let content = match (document.dsse_envelope, document.message_signature) {
            (Some(envelope), None) => of_envelope(envelope)?,
            (None, Some(message)) => of_message(message)?,
            _ => return Err("the bundle must hold either a dsseEnvelope or a messageSignature".into()),
        };
        Ok(Self { hint: document.verification_material.public_key.and_then(|key| key.hint), content })
    }
}

fn of_envelope(envelope: Envelope) -> Result<Content, String> {
    if envelope.payload_type != PAYLOAD_TYPE {
        let found = shown(&envelope.payload_type);
        return Err(format!("the envelope's payload has the type {found:?}, expected {PAYLOAD_TYPE}"));
    }
    let [signature] = envelope.signatures.as_slice() else {
        return Err(format!("the envelope has {} signatures, expected one", envelope.signatures.len()));
    };
    let signature = decode("signature", &signature.sig)?;
    let payload = decode("payload", &envelope.payload)?;
    if payload.len() > crate::MOST_PAYLOAD {
        return Err(format!("the signed content is longer than {} bytes", crate::MOST_PAYLOAD));
    }
    Ok(Content::Statement { head: Head::read(&payload)?, payload, signature })
}

fn of_message(message: MessageSignature) -> Result<Content, String> {
    let MessageDigest { algorithm, digest } = message.message_digest;
    if algorithm != "SHA2_256" {
        let found = shown(&algorithm);
        return Err(format!("the message was signed by its {found:?}, expected SHA2_256"));
    }
    let digest = <[u8; 32]>::try_from(decode("digest", &digest)?)
        .map_err(|bytes| format!("the message's digest has {} bytes, expected 32", bytes.len()))?;
    Ok(Content::Message {
        digest: Digest::from_bytes(digest),
        signature: decode("signature", &message.signature)?,
    })
}

fn decode(what: &str, text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|why| format!("the bundle's {what} is not base64 ({why})"))
}

/// Creates a bundle that signs a manifest, like `cosign sign`.
pub fn sign_manifest(key: &PrivateKey, manifest: &Digest) -> Vec<u8> {
    write(key, key.public().sigstore_hint(), &statement::sign(manifest))
}

/// Creates a bundle that signs files, like `model_signing sign key`. The name is the folder's, for display.
///
/// `model_signing` itself does not support Ed25519 keys; sign with ECDSA if it must verify.
pub fn sign_files(key: &PrivateKey, name: &str, files: &[(String, Digest)]) -> Result<Vec<u8>, FilesError> {
    Ok(write(key, key.public().model_signing_hint(), &files::statement(name, files)?))
}

fn write(key: &PrivateKey, hint: String, payload: &[u8]) -> Vec<u8> {
    let signature = key.sign(&statement::pae(PAYLOAD_TYPE, payload));
    oci::json(&Document {
        media_type: MEDIA_TYPE.to_owned(),
        verification_material: Material { public_key: Some(KeyHint { hint: Some(hint) }) },
        dsse_envelope: Some(Envelope {
            payload: STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![EnvelopeSignature {
                sig: STANDARD.encode(signature),
                keyid: Some(String::new()),
            }],
        }),
        message_signature: None,
    })
}

/// Builds the manifest that attaches a bundle to its subject, like cosign 3, and the blobs that it needs.
pub fn attach(subject: &Descriptor, bundle: Vec<u8>) -> Result<Attachment, ManifestError> {
    let read = Bundle::read(&bundle).map_err(ManifestError)?;
    let (content, predicate) = match &read.content {
        Content::Statement { head, .. } => ("dsse-envelope", head.predicate_type()),
        Content::Message { .. } => ("message-signature", SIGN),
    };
    let annotations = BTreeMap::from([
        ("dev.sigstore.bundle.content", content),
        ("dev.sigstore.bundle.predicateType", predicate),
    ]);
    let config = Blob::new(EMPTY, b"{}".to_vec());
    let bundle = Blob::new(MEDIA_TYPE, bundle);
    let layer = ManifestLayer {
        media_type: MEDIA_TYPE.to_owned(),
        digest: bundle.descriptor.digest.to_string(),
        size: bundle.descriptor.size,
        annotations: BTreeMap::new(),
    };
    let manifest = Manifest {
        schema_version: 2,
        media_type: IMAGE_MANIFEST,
        artifact_type: Some(MEDIA_TYPE),
        config: &config.descriptor,
        layers: &[layer],
        subject: Some(subject),
        annotations,
    };
    let manifest = manifest.blob();
    Ok(Attachment { blobs: vec![config, bundle], manifest })
}

/// Returns the bundles that such a manifest attaches: one, if cosign pushed it.
pub fn layers(manifest: &[u8]) -> Result<Vec<Descriptor>, ManifestError> {
    let layers = oci::layers(manifest, MEDIA_TYPE)?;
    let descriptors = layers.into_iter().map(|layer| {
        Ok(Descriptor { digest: layer.digest()?, media_type: layer.media_type, size: layer.size })
    });
    descriptors.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Descriptor {
        Descriptor { media_type: IMAGE_MANIFEST.into(), digest: Digest::of(b"manifest"), size: 8 }
    }

    #[test]
    fn a_bundle_is_attached_as_cosign_does() {
        let bundle = sign_manifest(&PrivateKey::generate(), &subject().digest);
        let attached = attach(&subject(), bundle.clone()).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&attached.manifest.bytes).unwrap();
        let expected = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "config": {
                "mediaType": "application/vnd.oci.empty.v1+json",
                "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
                "size": 2,
            },
            "layers": [{
                "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                "digest": Digest::of(&bundle),
                "size": bundle.len(),
            }],
            "subject": { "mediaType": IMAGE_MANIFEST, "digest": subject().digest, "size": 8 },
            "annotations": {
                "dev.sigstore.bundle.content": "dsse-envelope",
                "dev.sigstore.bundle.predicateType": "https://sigstore.dev/cosign/sign/v1",
            },
        });
        assert_eq!(manifest, expected);
        assert_eq!(layers(&attached.manifest.bytes).unwrap(), [attached.blobs[1].descriptor.clone()]);
        assert!(attach(&subject(), b"{}".to_vec()).is_err());
    }

    #[test]
    fn a_message_is_named_by_its_sha_256_alone() {
        let bundle = |algorithm: &str, digest: &[u8]| {
            let message_digest =
                serde_json::json!({ "algorithm": algorithm, "digest": STANDARD.encode(digest) });
            let message = serde_json::json!({ "messageDigest": message_digest, "signature": "c2ln" });
            Bundle::read(&oci::json(
                &serde_json::json!({ "mediaType": MEDIA_TYPE, "messageSignature": message }),
            ))
        };
        assert!(bundle("SHA2_256", &[7; 32]).is_ok());
        for (algorithm, digest) in
            [("SHA2_384", &[7; 32][..]), ("SHA2_256", &[7; 31]), ("SHA2_256", &[7; 48])]
        {
            assert!(bundle(algorithm, digest).err().unwrap().contains("expected"));
        }
    }

    #[test]
    fn malformed_bundle_is_refused() {
        let good = String::from_utf8(sign_manifest(&PrivateKey::generate(), &subject().digest)).unwrap();
        assert!(Bundle::read(good.as_bytes()).is_ok());
        let envelope = &good[good.find("{\"payload\"").unwrap()..good.len() - 1];
        let signatures = &envelope[envelope.find("[{").unwrap() + 1..envelope.len() - 2];
        for (text, says) in [
            (good.replace("bundle.v0.3", "bundle.v0.1"), "expected"),
            (good.replace("vnd.in-toto+json", "json"), "expected"),
            (good.replace("dsseEnvelope", "envelope"), "either"),
            (
                good.replace("\"dsseEnvelope\":", &format!("\"dsseEnvelope\":{envelope},\"dsseEnvelope\":")),
                "duplicate",
            ),
            (good.replace(signatures, &format!("{signatures},{signatures}")), "2 signatures"),
            (good.replace(signatures, ""), "0 signatures"),
            (good.replace("\"payload\":\"", "\"payload\":\"*"), "not base64"),
            (good.replace("\"sig\":\"", "\"sig\":\"*"), "not base64"),
            (good.replace("\"payload\":\"", "\"payload\":\"AAAA"), "not an in-toto statement"),
            (" ".repeat(crate::MOST_BUNDLE + 1), "longer than"),
            ("[".repeat(100_000), "not a Sigstore bundle"),
        ] {
            let why = Bundle::read(text.as_bytes()).err().unwrap_or_else(|| panic!("read: {says}"));
            assert!(why.contains(says), "{why}");
        }
    }
}
