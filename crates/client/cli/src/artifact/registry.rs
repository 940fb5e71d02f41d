//! Client of one repository: the requests of the OCI distribution protocol for pushing and pulling. It never retries:
//! callers know what is safe to repeat.

use bytes::Bytes;
use muster_sdk::Connection;
use muster_trust::Digest;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, LOCATION, RANGE};
use reqwest::{Method, RequestBuilder, Response};

use super::progress::Bar;
use super::trouble::{Trouble, deepest, header};
use super::{DOCKER_LIST, IMAGE_INDEX, IMAGE_MANIFEST, LONGEST_MANIFEST};
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::join::operation;
use crate::operate::call;
use crate::printable::printable;

/// Chunk size of a request body, which sets the granularity of progress.
const PIECE: usize = 256 << 10;

/// One repository of the registry.
pub(super) struct Registry {
    http: reqwest::Client,
    server: String,
    /// Name in the protocol: the project and the repository.
    pub(super) name: String,
    verbose: bool,
}

type Answered<T> = std::result::Result<T, Trouble>;

/// A fetched manifest.
pub(super) struct Fetched {
    pub(super) bytes: Bytes,
    pub(super) digest: Digest,
    pub(super) media_type: String,
}

impl Registry {
    /// Returns the repository of that name in a project.
    pub(super) async fn of(
        context: &Context,
        connection: &Connection,
        project: &str,
        repository: &str,
    ) -> Result<Self> {
        Ok(Self {
            http: connection.http().clone(),
            server: connection.server().to_owned(),
            name: format!("{}/{repository}", qualified(connection, project).await?),
            verbose: context.is_verbose(),
        })
    }

    /// Returns the registry's address and the repository, as signatures contain it.
    pub(super) fn reference(&self) -> String {
        let host = self.server.split_once("://").map_or(self.server.as_str(), |(_, host)| host);
        format!("{host}/{}", self.name)
    }

    /// Returns the server's address.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    fn ask(&self, method: Method, rest: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/v2/{}/{rest}", self.server, self.name))
    }

    async fn send(&self, request: RequestBuilder) -> Answered<Response> {
        let request = request.build().map_err(|error| Trouble::Network(error.to_string()))?;
        let said = format!("{} {}", request.method(), request.url());
        let answered = self.http.execute(request).await;
        if self.verbose {
            let result =
                answered.as_ref().map_or_else(deepest, |answer| answer.status().as_u16().to_string());
            eprintln!("{}: {}", printable(&said), printable(&result));
        }
        let answer = answered.map_err(|error| Trouble::Network(deepest(&error)))?;
        if answer.status().is_success() { Ok(answer) } else { Err(Trouble::of(answer).await) }
    }

    /// Reports whether the repository has this content.
    pub(super) async fn has_blob(&self, digest: &Digest) -> Answered<bool> {
        match self.send(self.ask(Method::HEAD, &format!("blobs/{digest}"))).await {
            Ok(_) => Ok(true),
            Err(Trouble::Refused(refusal)) if refusal.status == 404 => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// Uploads small content in one request.
    pub(super) async fn put_blob(&self, digest: &Digest, content: Bytes) -> Answered<()> {
        let request = self.ask(Method::POST, &format!("blobs/uploads/?digest={digest}"));
        let request =
            request.header(CONTENT_TYPE, "application/octet-stream").header(CONTENT_LENGTH, content.len());
        self.send(request.body(content)).await.map(drop)
    }

    /// Starts an upload; returns its location.
    pub(super) async fn upload_start(&self) -> Answered<String> {
        let answer = self.send(self.ask(Method::POST, "blobs/uploads/").header(CONTENT_LENGTH, 0)).await?;
        let location = header(answer.headers(), LOCATION.as_str()).unwrap_or_default();
        self.own(&location)
            .ok_or_else(|| Trouble::Network("the registry returned no location for the upload".to_owned()))
    }

    /// Validates an upload location of this repository. Any other address is not followed: the token would be sent there.
    pub(super) fn own(&self, location: &str) -> Option<String> {
        let path = location.strip_prefix(&self.server).unwrap_or(location);
        let id = path.strip_prefix(&format!("/v2/{}/blobs/uploads/", self.name))?;
        let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        plain.then(|| format!("blobs/uploads/{id}"))
    }

    /// Returns the length of an upload so far.
    pub(super) async fn upload_length(&self, location: &str) -> Answered<u64> {
        let answer = self.send(self.ask(Method::GET, location)).await?;
        Ok(received(answer.headers()))
    }

    /// Appends to an upload; returns its new length.
    pub(super) async fn upload_append(
        &self,
        location: &str,
        from: u64,
        content: Bytes,
        bar: &Bar,
    ) -> Answered<u64> {
        let length = content.len() as u64;
        let request = self
            .ask(Method::PATCH, location)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, length)
            .header(CONTENT_RANGE, format!("{from}-{}", from + length - 1))
            .body(pieces(content, bar.clone()));
        let answer = self.send(request).await?;
        Ok(received(answer.headers()))
    }

    /// Completes an upload: the registry verifies the digest.
    pub(super) async fn upload_finish(&self, location: &str, digest: &Digest) -> Answered<()> {
        let request = self.ask(Method::PUT, &format!("{location}?digest={digest}")).header(CONTENT_LENGTH, 0);
        self.send(request).await.map(drop)
    }

    /// Cancels an upload. If that fails, the registry eventually expires it.
    pub(super) async fn upload_cancel(&self, location: &str) {
        let _ = self.send(self.ask(Method::DELETE, location)).await;
    }

    /// Pushes a manifest under a tag or its digest.
    pub(super) async fn put_manifest(
        &self,
        reference: &str,
        media_type: &str,
        content: Bytes,
    ) -> Answered<()> {
        let request = self.ask(Method::PUT, &format!("manifests/{reference}"));
        let request = request.header(CONTENT_TYPE, media_type).header(CONTENT_LENGTH, content.len());
        self.send(request.body(content)).await.map(drop)
    }

    /// Returns a manifest by tag or digest, if there is one. Its digest is computed here and compared with the requested
    /// one.
    pub(super) async fn manifest(&self, reference: &str) -> Result<Option<Fetched>> {
        let accepted = format!(
            "{IMAGE_MANIFEST}, {IMAGE_INDEX}, application/vnd.docker.distribution.manifest.v2+json, {DOCKER_LIST}"
        );
        let request = self.ask(Method::GET, &format!("manifests/{reference}")).header(ACCEPT, accepted);
        let answer = match self.send(request).await {
            Ok(answer) => answer,
            Err(Trouble::Refused(refusal)) if refusal.code == "MANIFEST_UNKNOWN" => return Ok(None),
            Err(trouble) => return Err(self.failed(trouble)),
        };
        let media_type = header(answer.headers(), CONTENT_TYPE.as_str()).unwrap_or_default();
        let said = header(answer.headers(), "docker-content-digest");
        let bytes = self.short(answer).await?;
        let digest = Digest::of(&bytes);
        let wanted = if reference.contains(':') { Some(reference.to_owned()) } else { said };
        if let Some(wanted) = wanted.filter(|wanted| *wanted != digest.to_string()) {
            return Err(Failure::new(
                Exit::Failed,
                "digest_mismatch",
                format!("the registry returned a manifest with the digest {digest}, not {wanted}"),
            )
            .next("do not use it; report it to the platform's operators"));
        }
        Ok(Some(Fetched { bytes, digest, media_type }))
    }

    /// Reads a manifest, up to the maximum size.
    async fn short(&self, mut answer: Response) -> Result<Bytes> {
        let mut bytes = Vec::new();
        while let Some(piece) =
            answer.chunk().await.map_err(|error| self.failed(Trouble::Network(deepest(&error))))?
        {
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > LONGEST_MANIFEST {
                return Err(Failure::new(Exit::Failed, "strange_answer", "the manifest is too long"));
            }
        }
        Ok(bytes.into())
    }

    /// Requests a blob from an offset. The status shows whether the registry sends a part or the whole.
    pub(super) async fn blob(&self, digest: &Digest, from: u64) -> Answered<Response> {
        let mut request = self.ask(Method::GET, &format!("blobs/{digest}"));
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        self.send(request).await
    }

    /// Converts to a failure for the user.
    pub(super) fn failed(&self, trouble: Trouble) -> Failure {
        match trouble {
            Trouble::Network(cause) => {
                let detail = format!("the connection to {} failed: {cause}", self.server);
                Failure::new(Exit::Unavailable, "connection_lost", detail)
                    .next("repeat the same command: it continues where it stopped")
            }
            Trouble::Refused(refusal) => refusal.failure(),
        }
    }
}

/// Returns the length of an upload from a response. The protocol writes an empty range like that of one byte, so `0-0`
/// counts as empty: the registry corrects an offset that is too low, but one that is too high leaves a hole.
fn received(headers: &HeaderMap) -> u64 {
    let range = header(headers, RANGE.as_str()).unwrap_or_default();
    let last = range.rsplit_once('-').and_then(|(_, last)| last.trim().parse::<u64>().ok());
    last.filter(|last| *last > 0).map_or(0, |last| last + 1)
}

/// Returns a body that reports its progress.
fn pieces(content: Bytes, bar: Bar) -> reqwest::Body {
    let starts = (0..content.len()).step_by(PIECE);
    let pieces = starts.map(move |start| {
        let piece = content.slice(start..content.len().min(start + PIECE));
        bar.further(piece.len() as u64);
        Ok::<Bytes, std::io::Error>(piece)
    });
    reqwest::Body::wrap_stream(futures::stream::iter(pieces))
}

/// Returns the project's qualified name: a bare name is ambiguous without its tenant.
async fn qualified(connection: &Connection, project: &str) -> Result<String> {
    if project.contains('.') || project.starts_with("prj_") {
        return Ok(project.to_owned());
    }
    let path = [("project".to_owned(), project.to_owned())].into();
    let arguments = muster_sdk::Arguments { path, ..Default::default() };
    let found = call(connection, operation("project_get")?, &arguments).await?;
    found["id"].as_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::Failed, "strange_answer", format!("the project {project} has no id"))
            .next("is --server the address of a muster server?")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_upload_is_not_taken_for_one_of_a_byte() {
        let length = |range: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, range.parse().unwrap());
            received(&headers)
        };
        assert_eq!([length("0-0"), length("0-9"), length("bytes=0-9"), length("x")], [0, 10, 10, 0]);
        assert_eq!(received(&HeaderMap::new()), 0);
    }

    #[test]
    fn an_upload_goes_on_in_its_own_repository_and_nowhere_else() {
        let registry = Registry {
            http: reqwest::Client::new(),
            server: "http://a:1".to_owned(),
            name: "acme.ml/base".to_owned(),
            verbose: false,
        };
        let own = Some("blobs/uploads/0f-1".to_owned());
        assert_eq!(registry.own("/v2/acme.ml/base/blobs/uploads/0f-1"), own);
        assert_eq!(registry.own("http://a:1/v2/acme.ml/base/blobs/uploads/0f-1"), own);
        for elsewhere in [
            "",
            "http://b/v2/acme.ml/base/blobs/uploads/0f-1",
            "/v2/acme.ml/other/blobs/uploads/0f-1",
            "/v2/acme.ml/base/blobs/uploads/",
            "/v2/acme.ml/base/blobs/uploads/../../x",
            "/v2/acme.ml/base/blobs/uploads/a?b",
        ] {
            assert_eq!(registry.own(elsewhere), None, "{elsewhere}");
        }
        assert_eq!(registry.reference(), "a:1/acme.ml/base");
    }
}
