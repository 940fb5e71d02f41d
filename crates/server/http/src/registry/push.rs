//! Writes to the registry.

use axum::body::{Body, Bytes};
use futures::Stream;
use http::Response;
use http::header::{CONTENT_TYPE, LOCATION, RANGE};
use muster_control::registry::{self, Answered, Chunk, Right, Started};
use muster_registry::Digest;
use muster_registry::error::{Code, Refusal};
use muster_registry::path::{self, Name, Reference};
use muster_registry::range::{Received, chunk};
use uuid::Uuid;

use super::Asked;
use super::answer::{DIGEST, SUBJECT, UPLOAD, empty, set};

pub(super) async fn manifest(
    asked: &Asked,
    name: &Name,
    reference: &Reference,
    bytes: Vec<u8>,
) -> Answered<Response<Body>> {
    let content_type = asked.header(CONTENT_TYPE.as_str()).map(str::to_owned);
    let pushed =
        registry::manifest_push(&asked.cx, &asked.guest, name, reference, bytes, content_type.as_deref())
            .await?;
    let mut response = empty(201);
    let digest = pushed.digest.to_string();
    set(&mut response, LOCATION, &format!("/v2/{name}/manifests/{digest}"));
    set(&mut response, DIGEST, &digest);
    if let Some(subject) = pushed.subject {
        set(&mut response, SUBJECT, &subject.to_string());
    }
    Ok(response)
}

pub(super) async fn manifest_delete(
    asked: &Asked,
    name: &Name,
    reference: &Reference,
) -> Answered<Response<Body>> {
    registry::manifest_delete(&asked.cx, &asked.guest, name, reference).await?;
    Ok(empty(202))
}

pub(super) async fn blob_delete(asked: &Asked, name: &Name, digest: &Digest) -> Answered<Response<Body>> {
    registry::blob_delete(&asked.cx, &asked.guest, name, digest).await?;
    Ok(empty(202))
}

/// Returns the digest in a query parameter.
fn digest(asked: &Asked, parameter: &str) -> Answered<Option<Digest>> {
    asked.query(parameter).map(path::digest).transpose().map_err(|error| error.refusal())
}

pub(super) async fn start(asked: &Asked, name: &Name) -> Answered<Response<Body>> {
    if let Some(digest) = digest(asked, "digest")? {
        registry::finish(&asked.cx, &asked.guest, name, None, &digest, chunk_of(asked, name, None)).await?;
        return Ok(stored(name, &digest));
    }
    let mount = digest(asked, "mount")?
        .map(|digest| (digest, asked.query("from").and_then(|from| from.parse().ok())));
    let mounts = mount.as_ref().map(|(digest, _)| *digest);
    match registry::start(&asked.cx, &asked.guest, name, mount).await? {
        Started::Upload(id) => Ok(under_way(name, id, 0, 202)),
        Started::Mounted => Ok(mounts.map_or_else(|| empty(201), |digest| stored(name, &digest))),
    }
}

fn stored(name: &Name, digest: &Digest) -> Response<Body> {
    let mut response = empty(201);
    set(&mut response, LOCATION, &format!("/v2/{name}/blobs/{digest}"));
    set(&mut response, DIGEST, &digest.to_string());
    response
}

fn under_way(name: &Name, id: Uuid, length: u64, status: u16) -> Response<Body> {
    let mut response = empty(status);
    set(&mut response, LOCATION, &format!("/v2/{name}/blobs/uploads/{id}"));
    set(&mut response, RANGE, &Received(length).to_string());
    set(&mut response, UPLOAD, &id.to_string());
    response
}

/// Returns the offset of a chunk, if the client sends one; refuses a chunk whose length does not match its range.
fn offset(asked: &Asked) -> Answered<Option<u64>> {
    let Some(text) = asked.header("content-range") else { return Ok(None) };
    let said = chunk(text).map_err(|error| Refusal::new(Code::BlobUploadInvalid, error.to_string()))?;
    let length = asked.header("content-length").and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length != said.length) {
        let why = "Content-Range and Content-Length differ";
        return Err(Refusal::new(Code::SizeInvalid, why));
    }
    Ok(Some(said.start))
}

/// Returns the content of a request, with its sender's permission.
fn chunk_of(
    asked: &Asked,
    name: &Name,
    offset: Option<u64>,
) -> Chunk<impl Stream<Item = Result<Bytes, String>> + Send + use<>> {
    Chunk { offset, body: asked.body.parts(asked.patience), guard: asked.guard(name, Right::Push) }
}

pub(super) async fn append(asked: &Asked, name: &Name, id: Uuid) -> Answered<Response<Body>> {
    let chunk = chunk_of(asked, name, offset(asked)?);
    let length = registry::append(&asked.cx, &asked.guest, name, id, chunk).await?;
    Ok(under_way(name, id, length, 202))
}

pub(super) async fn finish(asked: &Asked, name: &Name, id: Uuid) -> Answered<Response<Body>> {
    let digest = digest(asked, "digest")?.ok_or_else(|| {
        Refusal::new(Code::DigestInvalid, "add the digest of the content: ?digest=sha256:…")
    })?;
    let chunk = chunk_of(asked, name, offset(asked)?);
    registry::finish(&asked.cx, &asked.guest, name, Some(id), &digest, chunk).await?;
    Ok(stored(name, &digest))
}

pub(super) async fn length(asked: &Asked, name: &Name, id: Uuid) -> Answered<Response<Body>> {
    let length = registry::length(&asked.cx, &asked.guest, name, id).await?;
    Ok(under_way(name, id, length, 204))
}

pub(super) async fn cancel(asked: &Asked, name: &Name, id: Uuid) -> Answered<Response<Body>> {
    registry::cancel(&asked.cx, &asked.guest, name, id).await?;
    Ok(empty(204))
}
