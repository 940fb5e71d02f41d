//! One client of a registry: the requests of the distribution protocol, each held to the one status that is right.

use std::fmt::Write as _;

use crate::http::{Answer, Body, Connection};
use crate::registry::content::{Arriving, Blob, Image, Layer, MANIFEST_TYPE};

const BYTES_TYPE: &str = "application/octet-stream";

/// Why a run is broken. The status is 0 where there was none.
pub(crate) struct Failed {
    pub(crate) status: u16,
    pub(crate) what: String,
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self { status: 0, what: format!("the connection broke: {error}") }
    }
}

fn wrong(what: impl Into<String>) -> Failed {
    Failed { status: 0, what: what.into() }
}

pub(crate) struct Client {
    connection: Connection,
    /// Headers of every request: the host, and the credential.
    common: String,
    repository: String,
    request: Vec<u8>,
}

impl Client {
    pub(crate) async fn open(
        address: &str,
        token: Option<&str>,
        repository: String,
    ) -> std::io::Result<Self> {
        let connection = Connection::open(address).await?;
        let mut common = format!("Host: {address}\r\n");
        if let Some(token) = token {
            let _ = write!(common, "Authorization: Bearer {token}\r\n");
        }
        Ok(Self { connection, common, repository, request: Vec::new() })
    }

    fn head(&mut self, method: &str, path: &str, more: &str) {
        self.request.clear();
        let head = format!("{method} {path} HTTP/1.1\r\n{}{more}\r\n", self.common);
        self.request.extend_from_slice(head.as_bytes());
    }

    fn expect(&self, answer: &Answer, status: u16, asked: &str) -> Result<(), Failed> {
        if answer.status == status {
            return Ok(());
        }
        let what = format!("{asked}: {} where {status} is right: {}", answer.status, self.connection.body());
        Err(Failed { status: answer.status, what })
    }

    async fn ask(&mut self, body: Body, status: u16, asked: &str) -> Result<(), Failed> {
        let answer = self.connection.exchange(&self.request, body).await?;
        self.expect(&answer, status, asked)
    }

    /// Returns the path at which an upload continues.
    fn location(&self) -> Result<String, Failed> {
        let location =
            self.connection.header("location").ok_or_else(|| wrong("an upload without a Location"))?;
        let path = match location.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
            None => location,
        };
        Ok(path.to_owned())
    }

    /// Asks whether a blob is there, which it must not be, and starts its upload.
    async fn start(&mut self, digest: &str) -> Result<String, Failed> {
        self.head("HEAD", &format!("/v2/{}/blobs/{digest}", self.repository), "");
        self.ask(Body::Absent, 404, "HEAD of a blob").await?;
        self.head("POST", &format!("/v2/{}/blobs/uploads/", self.repository), "Content-Length: 0\r\n");
        self.ask(Body::Kept, 202, "POST of an upload").await?;
        self.location()
    }

    fn last(location: &str, digest: &str) -> String {
        let joint = if location.contains('?') { '&' } else { '?' };
        format!("{location}{joint}digest={digest}")
    }

    async fn blob(&mut self, blob: &Blob, patched: bool) -> Result<(), Failed> {
        let mut location = self.start(&blob.digest).await?;
        let content = format!("Content-Type: {BYTES_TYPE}\r\nContent-Length: {}\r\n", blob.bytes.len());
        if patched {
            self.head("PATCH", &location, &content);
            self.request.extend_from_slice(&blob.bytes);
            self.ask(Body::Kept, 202, "PATCH of an upload").await?;
            location = self.location()?;
            self.head("PUT", &Self::last(&location, &blob.digest), "Content-Length: 0\r\n");
        } else {
            self.head("PUT", &Self::last(&location, &blob.digest), &content);
            self.request.extend_from_slice(&blob.bytes);
        }
        self.ask(Body::Kept, 201, "PUT of an upload").await
    }

    /// A whole image, as clients push it. `patched`: content comes by PATCH, and the PUT only ends the upload.
    pub(crate) async fn push(&mut self, image: &Image, patched: bool) -> Result<u64, Failed> {
        self.blob(&image.layer, patched).await?;
        self.blob(&image.config, patched).await?;
        let bytes = &image.manifest.bytes;
        let content = format!("Content-Type: {MANIFEST_TYPE}\r\nContent-Length: {}\r\n", bytes.len());
        self.head("PUT", &format!("/v2/{}/manifests/{}", self.repository, image.tag), &content);
        self.request.extend_from_slice(bytes);
        self.ask(Body::Kept, 201, "PUT of a manifest").await?;
        Ok((image.layer.bytes.len() + image.config.bytes.len() + bytes.len()) as u64)
    }

    /// A manifest, which must be this one.
    pub(crate) async fn manifest(&mut self, image: &Image, by_tag: bool) -> Result<u64, Failed> {
        let reference = if by_tag { &image.tag } else { &image.manifest.digest };
        let path = format!("/v2/{}/manifests/{reference}", self.repository);
        self.head("GET", &path, &format!("Accept: {MANIFEST_TYPE}\r\n"));
        self.ask(Body::Kept, 200, "GET of a manifest").await?;
        match self.connection.bytes() == image.manifest.bytes {
            true => Ok(image.manifest.bytes.len() as u64),
            false => Err(wrong("a manifest that is not the one that was pushed")),
        }
    }

    /// A large layer in one stream.
    pub(crate) async fn layer_push(&mut self, layer: &mut Layer) -> Result<u64, Failed> {
        let location = self.start(&layer.digest).await?;
        let length = layer.length();
        self.head("PATCH", &location, &format!("Content-Type: {BYTES_TYPE}\r\nContent-Length: {length}\r\n"));
        self.connection.send(&self.request).await?;
        for number in layer.parts() {
            self.connection.send(layer.part(number)).await?;
        }
        let answer = self.connection.answer(Body::Kept).await?;
        self.expect(&answer, 202, "PATCH of an upload")?;
        let location = self.location()?;
        self.head("PUT", &Self::last(&location, &layer.digest), "Content-Length: 0\r\n");
        self.ask(Body::Kept, 201, "PUT of an upload").await?;
        Ok(length)
    }

    /// Reads a large layer. All of it must come, and with `compare` it must be this one.
    pub(crate) async fn layer_pull(&mut self, layer: &Layer, compare: bool) -> Result<u64, Failed> {
        self.head("GET", &format!("/v2/{}/blobs/{}", self.repository, layer.digest), "");
        self.connection.send(&self.request).await?;
        let mut arriving = Arriving::default();
        let part = |bytes: &[u8]| {
            if compare {
                arriving.part(bytes);
            }
        };
        let answer = self.connection.pour(part).await?;
        self.expect(&answer, 200, "GET of a blob")?;
        if answer.length as u64 != layer.length() {
            return Err(wrong("a layer of another length"));
        }
        if compare && arriving.digest() != layer.digest {
            return Err(wrong("a layer that is not the one that was pushed"));
        }
        Ok(layer.length())
    }
}
