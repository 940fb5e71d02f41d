//! The registry over real HTTP: permissions, replicas, registry tokens, and garbage collection.

mod access;
mod collect;
mod damage;
mod external;
mod referrers;
mod replicas;
mod token;
mod transfers;

use muster_testkit::{Client, Kit};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Returns `sha256:…` of some bytes.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// A response of the registry.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// Returns the protocol's error code, or an empty string.
    pub(crate) fn code(&self) -> String {
        self.json()["errors"][0]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> String {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.text());
        self
    }
}

/// A repository, accessed by a registry client with a credential.
#[derive(Clone)]
pub(crate) struct Remote {
    client: Client,
    pub(crate) name: String,
}

/// A pushed image: a manifest and its blobs.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) manifest: Vec<u8>,
    pub(crate) config: Vec<u8>,
    pub(crate) layer: Vec<u8>,
}

impl Image {
    /// Returns an image that passes lint. Its content depends only on the word.
    pub(crate) fn of(word: &str) -> Self {
        let layer = format!("the files of {word}").into_bytes();
        let config = json!({
            "architecture": "amd64", "os": "linux", "created": "2026-01-01T00:00:00Z",
            "config": {"Cmd": ["/bin/true"], "User": "1000"},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
        });
        Self { manifest: manifest.to_string().into_bytes(), config, layer }
    }

    pub(crate) fn digest(&self) -> String {
        digest(&self.manifest)
    }
}

pub(crate) fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()})
}

impl Remote {
    /// Returns the repository at server `at`, with this token.
    pub(crate) fn new(kit: &Kit, at: usize, token: &str, name: &str) -> Self {
        Self { client: kit.client_of(at, token), name: name.to_owned() }
    }

    /// Returns the same repository with another credential.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { client: self.client.with_token(token), name: self.name.clone() }
    }

    /// Returns another repository with the same credential.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self { client: self.client.clone(), name: name.to_owned() }
    }

    /// Sends a request; `path` follows `/v2/`, and `{}` in it stands for the repository's name.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        self.send_as(method, path, body, MANIFEST).await
    }

    async fn send_as(&self, method: &str, path: &str, body: &[u8], content_type: &str) -> Reply {
        let path = format!("/v2/{}", path.replace("{}", &self.name));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(method, &path).header("content-type", content_type);
        reply(request.body(body.to_vec())).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, b"").await
    }

    /// Pushes a blob in one request.
    pub(crate) async fn blob(&self, bytes: &[u8]) -> Reply {
        self.send("POST", &format!("{{}}/blobs/uploads/?digest={}", digest(bytes)), bytes).await
    }

    /// Pushes a manifest, by tag or by digest.
    pub(crate) async fn manifest(&self, reference: &str, bytes: &[u8]) -> Reply {
        self.send("PUT", &format!("{{}}/manifests/{reference}"), bytes).await
    }

    /// Pushes an index.
    pub(crate) async fn index(&self, reference: &str, bytes: &[u8]) -> Reply {
        self.send_as("PUT", &format!("{{}}/manifests/{reference}"), bytes, INDEX).await
    }

    /// Pushes an image's blobs, then its manifest; returns the last response, or the first refusal.
    pub(crate) async fn push(&self, reference: &str, image: &Image) -> Reply {
        for bytes in [&image.config, &image.layer] {
            let kept = self.blob(bytes).await;
            if kept.status != 201 {
                return kept;
            }
        }
        self.manifest(reference, &image.manifest).await
    }

    /// Pulls an image by digest, and compares every byte.
    pub(crate) async fn pulls(&self, image: &Image) -> Result<(), String> {
        let manifest = self.get(&format!("{{}}/manifests/{}", image.digest())).await;
        if manifest.status != 200 || manifest.bytes != image.manifest {
            return Err(format!("the manifest: {} {}", manifest.status, manifest.text()));
        }
        for bytes in [&image.config, &image.layer] {
            let blob = self.get(&format!("{{}}/blobs/{}", digest(bytes))).await;
            if blob.status != 200 || blob.bytes != *bytes {
                return Err(format!("the blob {}: {} {}", digest(bytes), blob.status, blob.text()));
            }
        }
        Ok(())
    }

    /// Starts an upload; returns its path after `/v2/`.
    async fn upload(&self) -> String {
        let started = self.send("POST", "{}/blobs/uploads/", b"").await.is(202);
        started.header("location").trim_start_matches("/v2/").to_owned()
    }
}

/// Sends a request and reads the response.
async fn reply(request: reqwest::RequestBuilder) -> Reply {
    let response = request.send().await.expect("the server answers");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.bytes().await.unwrap_or_default().to_vec();
    Reply { status, headers, bytes }
}
