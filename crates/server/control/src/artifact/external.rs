//! External registries: content referenced by digest and read with a project's own credential.
//!
//! Documents (manifests, configs, signatures) are read on publish; layers when a node first needs them. Everything is
//! verified against its digest on the way in, so external registries need not be trusted. Addresses inside the operator's
//! network are never called, whatever a name resolves to at that moment. Redirects are followed only for blobs, under the
//! same rule and without the credential. The credential is sent only after a challenge, and only to the host that it is for.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use muster_api::Code;
use muster_api::artifact::External;
use muster_db::{BlobPlace, ExternalSource};
use muster_ids::RepositoryId;
use muster_model::Scope;
use muster_registry::Digest;
use muster_registry::error::{Code as Codes, Refusal};
use muster_registry::manifest::{LONGEST, Manifest};
use reqwest::header::{ACCEPT, AUTHORIZATION, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url};
use zeroize::Zeroizing;

use super::credential::{Credential, RegistryHost, usable};
use crate::keyed_locks::KeyedLocks;
use crate::registry::{Answered, Visit, manifest_row, stored};
use crate::{Cx, Error, Result, outbound};

/// Media types requested from external registries.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";
/// Maximum number of manifests in an index.
const MOST_MANIFESTS: usize = 64;
/// Maximum size of all manifests of an index together: they are in memory until the last one is read.
const MOST_MANIFEST_BYTES: usize = 8 << 20;
/// Maximum number of redirects of a blob.
const MOST_REDIRECTS: usize = 3;
/// Download timeout of a blob: a terabyte at 100 MB/s.
const LONGEST_DOWNLOAD: Duration = Duration::from_secs(3 * 3600);

/// Client of an external registry.
struct Caller {
    cx: Cx,
    client: Client,
    base: Url,
    source: ExternalSource,
    credential: Option<Credential>,
    /// Whether the registry demanded basic authentication.
    wants_basic: bool,
    /// Token from the registry's token service.
    bearer: Option<Zeroizing<String>>,
    private: bool,
}

pub(super) fn failed(why: impl std::fmt::Display) -> Error {
    Error::new(Code::ExternalRegistry, format!("the other registry: {why}"))
}

impl Caller {
    async fn new(cx: &Cx, scope: Scope, source: ExternalSource) -> Result<Self> {
        if !cx.platform.options.registries {
            let why = "references to other registries are disabled by the operator: push the content here";
            return Err(Error::new(Code::UrlNotAllowed, why));
        }
        let private = cx.platform.options.registries_to_private;
        let host = host_of(&source.registry)?;
        let scheme = if private && host.is_loopback() { "http" } else { "https" };
        let base = outbound::check_url(&format!("{scheme}://{}/", host.as_str()), private)
            .map_err(|error| Error::field("/external/registry", error.detail))?;
        let credential = match source.secret_id {
            Some(id) => Some(Credential::open(cx, scope, id, &host).await?),
            None => None,
        };
        let client = outbound::streaming_client(private).map_err(failed)?;
        let cx = cx.clone();
        Ok(Self { cx, client, base, source, credential, wants_basic: false, bearer: None, private })
    }

    fn url(&self, kind: &str, reference: &str) -> Result<Url> {
        self.base.join(&format!("/v2/{}/{kind}/{reference}", self.source.repository)).map_err(failed)
    }

    /// Sends the request without a credential, and once more with the one that the registry's challenge demands.
    async fn get(&mut self, url: Url, accept: &str) -> Result<Response> {
        let response = self.send(&url, accept).await?;
        if response.status() != StatusCode::UNAUTHORIZED || self.bearer.is_some() || self.wants_basic {
            return Ok(response);
        }
        let challenges: Vec<String> = response
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .collect();
        let asks_for = |scheme: &str| {
            let begins = |text: &&String| text.to_ascii_lowercase().starts_with(scheme);
            challenges.iter().find(begins)
        };
        if let Some(challenge) = asks_for("bearer ") {
            self.bearer = Some(self.token(challenge).await?);
        } else if asks_for("basic").is_some() && self.credential.is_some() {
            self.wants_basic = true;
        } else {
            return Ok(response);
        }
        self.send(&url, accept).await
    }

    async fn send(&mut self, url: &Url, accept: &str) -> Result<Response> {
        let mut request = self.client.get(url.clone()).header(ACCEPT, accept);
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, format!("Bearer {}", bearer.as_str()));
        } else if self.wants_basic
            && let Some(basic) = self.basic().await?
        {
            request = request.header(AUTHORIZATION, basic.as_str());
        }
        request.send().await.map_err(|error| failed(without_url(error)))
    }

    /// Returns the header with the credential and audits that use.
    async fn basic(&mut self) -> Result<Option<Zeroizing<String>>> {
        let Some(credential) = &mut self.credential else { return Ok(None) };
        let text = credential.reveal(&self.cx, &self.source).await?;
        Ok(Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(text)))))
    }

    /// Fetches a token from the realm in the challenge. The credential is sent only to the registry's own host: a
    /// compromised or malicious registry would name one that collects credentials.
    async fn token(&mut self, challenge: &str) -> Result<Zeroizing<String>> {
        let part = |name: &str| {
            let at = challenge.find(&format!("{name}=\""))? + name.len() + 2;
            challenge[at..].split('"').next().map(str::to_owned)
        };
        let realm =
            part("realm").ok_or_else(|| failed("it asks for a token without naming the token endpoint"))?;
        let mut url = outbound::check_url(&realm, self.private)?;
        if self.credential.is_some() && url.origin() != self.base.origin() {
            let elsewhere = url.host_str().unwrap_or_default();
            return Err(failed(format!(
                "it wants the credential to be sent to {elsewhere}, but the secret is only for {}",
                self.source.registry
            )));
        }
        url.query_pairs_mut()
            .append_pair("service", &part("service").unwrap_or_default())
            .append_pair("scope", &format!("repository:{}:pull", self.source.repository));
        let mut request = self.client.get(url);
        if let Some(basic) = self.basic().await? {
            request = request.header(AUTHORIZATION, basic.as_str());
        }
        let response = request.send().await.map_err(|error| failed(without_url(error)))?;
        let bytes = document(response, LONGEST).await?;
        let answer: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|_| failed("its token response is invalid"))?;
        let token = answer["token"].as_str().or(answer["access_token"].as_str());
        Ok(Zeroizing::new(token.ok_or_else(|| failed("it returned no token"))?.to_owned()))
    }

    /// Fetches a document and verifies its digest.
    async fn document(&mut self, kind: &str, digest: &Digest, accept: &str) -> Result<Vec<u8>> {
        let url = self.url(kind, &digest.to_string())?;
        let response = self.follow(url, accept).await?;
        let bytes = document(response, LONGEST).await?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(failed(format!(
                "{digest} was requested, but the received content has the digest {found}"
            )));
        }
        Ok(bytes)
    }

    /// Follows the redirects of a blob. Each target is validated like any address and receives no credential.
    async fn follow(&mut self, url: Url, accept: &str) -> Result<Response> {
        let mut response = self.get(url, accept).await?;
        for _ in 0..MOST_REDIRECTS {
            if !response.status().is_redirection() {
                break;
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| response.url().join(location).ok());
            let next = next.ok_or_else(|| failed("its redirect has no target"))?;
            let next = outbound::check_url(next.as_str(), self.private)?;
            response = self.client.get(next).send().await.map_err(|error| failed(without_url(error)))?;
        }
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::NOT_FOUND => Err(failed("it does not have this content")),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(failed("it denied access: name a secret for it with a `user:password` that has access"))
            }
            other => Err(failed(format!("it answered {other}"))),
        }
    }
}

/// Returns the error without its URL: a redirect's URL may hold a signature.
fn without_url(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}

async fn document(response: Response, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut parts = response.bytes_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| failed(without_url(error)))?;
        if bytes.len() + part.len() > most {
            return Err(failed(format!("it sent more than {most} bytes for a document")));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

fn host_of(registry: &str) -> Result<RegistryHost> {
    RegistryHost::parse(registry).ok_or_else(|| {
        let why = "name a host, with a port if it is not the default: registry.example:5000";
        Error::field("/external/registry", why)
    })
}

/// Adds a reference to content of an external registry to a repository: manifests and configs are read now, and layers are
/// recorded as available there.
pub(super) async fn reference(
    cx: &Cx,
    scope: Scope,
    repository: &str,
    reference: &str,
    from: &External,
) -> Result<()> {
    let (Some(tenant), Some(project)) = (scope.tenant(), scope.project()) else {
        return Err(Error::not_found("project"));
    };
    repository
        .parse::<muster_registry::path::Name>()
        .map_err(|error| Error::field("/repository", error.to_string()))?;
    from.repository
        .parse::<muster_registry::path::Name>()
        .map_err(|error| Error::field("/external/repository", error.to_string()))?;
    let digest: Digest = reference.parse().map_err(|_| {
        Error::field("/reference", "name content of another registry by its digest: sha256:…; tags move")
    })?;
    let host = host_of(&from.registry)?;
    let secret_id = match &from.secret {
        None => None,
        Some(name) => Some(usable(cx, scope, name, &host).await?),
    };
    let registry = host.as_str().to_owned();
    let source = ExternalSource { registry, repository: from.repository.clone(), secret_id };
    let mut caller = Caller::new(cx, scope, source.clone()).await?;
    let mut waiting = vec![digest];
    let (mut read, mut size): (Vec<(Digest, Manifest, Vec<u8>)>, usize) = (Vec::new(), 0);
    while let Some(digest) = waiting.pop() {
        if read.iter().any(|(known, ..)| *known == digest) {
            continue;
        }
        if read.len() >= MOST_MANIFESTS {
            return Err(failed(format!("it references more than {MOST_MANIFESTS} manifests")));
        }
        let bytes = caller.document("manifests", &digest, MANIFESTS).await?;
        size += bytes.len();
        if size > MOST_MANIFEST_BYTES {
            let most = MOST_MANIFEST_BYTES >> 20;
            return Err(failed(format!("its manifests have more than {most} MiB together")));
        }
        let manifest = Manifest::parse(&bytes, None).map_err(failed)?;
        waiting.extend(manifest.children.iter().map(|child| child.digest));
        read.push((digest, manifest, bytes));
    }
    let mut tx = cx.platform.store.begin().await?;
    let made = tx.repository_ensure(cx.platform.env.id(), tenant, project, repository, cx.now).await?;
    tx.commit().await?;
    // Children before their parents.
    for (digest, manifest, bytes) in read.into_iter().rev() {
        keep(cx, &mut caller, made.id, &source, digest, &manifest, bytes).await?;
    }
    Ok(())
}

async fn keep(
    cx: &Cx,
    caller: &mut Caller,
    repository: RepositoryId,
    source: &ExternalSource,
    digest: Digest,
    manifest: &Manifest,
    bytes: Vec<u8>,
) -> Result<()> {
    // The config is short, and staging needs it.
    let mut config_file = None;
    if let Some(config) = &manifest.config {
        let content = caller.document("blobs", &config.digest, "*/*").await?;
        let body = futures::stream::iter([Ok::<_, std::convert::Infallible>(bytes::Bytes::from(content))]);
        let finished = cx.platform.blobs.put(&config.digest, LONGEST as u64, body).await;
        config_file = Some((config.digest, finished.map_err(|error| failed(error.to_string()))?));
    }
    let mut total = bytes.len() as u64;
    let mut blobs = Vec::new();
    for blob in manifest.needs_blobs() {
        total = total.saturating_add(blob.size);
        let is_here = config_file.as_ref().is_some_and(|(config, _)| *config == blob.digest);
        blobs.push((blob.digest.to_string(), i64::try_from(blob.size).unwrap_or(i64::MAX), is_here));
    }
    let children: Vec<String> =
        manifest.needs_manifests().iter().map(|child| child.digest.to_string()).collect();
    let sizes = cx.platform.store.manifest_sizes(repository, &children).await?;
    let total = sizes
        .iter()
        .fold(i64::try_from(total).unwrap_or(i64::MAX), |sum, (_, size)| sum.saturating_add(*size));
    let row = manifest_row(manifest, &digest, bytes, total);
    if let Some((config, finished)) = config_file {
        crate::registry::settle(cx, repository, &config, finished)
            .await
            .map_err(|refusal| failed(refusal.message))?;
    }
    let mut tx = cx.platform.store.begin().await?;
    for (digest, size, is_here) in &blobs {
        match is_here {
            true => tx.repository_blob_put(repository, digest, cx.now).await?,
            false => {
                tx.blob_put(digest, *size, None, cx.now).await?;
                tx.repository_blob_refer(repository, digest, *size, cx.now).await?;
            }
        }
        tx.external_put(repository, digest, source).await?;
    }
    tx.manifest_put(repository, &row, cx.now).await?;
    tx.commit().await.map_err(Error::from)
}

/// Downloads that are under way, each for one blob of one repository. A blob of another repository is not waited for: a slow
/// registry of one project would hold up the others.
pub(crate) type Fetches = KeyedLocks<(RepositoryId, Digest)>;

/// Fetches a blob that a repository has only by reference, or that was damaged, and stores it. Returns its new place, or
/// none if no external registry has it. Of several concurrent requests one downloads and the others wait for it.
pub(crate) async fn fetch(cx: &Cx, visit: &Visit, digest: &Digest, size: i64) -> Answered<Option<BlobPlace>> {
    let (repository, text) = (visit.repository()?, digest.to_string());
    let store = &cx.platform.store;
    let Some(source) = store.external_source(repository, &text).await.map_err(stored)? else {
        return Ok(None);
    };
    let _alone = cx.platform.fetches.lock((repository, *digest)).await;
    match store.repository_blob(repository, &text).await.map_err(stored)? {
        Some(place) if place.file.is_some() => Ok(Some(place)),
        _ => download(cx, visit, digest, size, source).await,
    }
}

async fn download(
    cx: &Cx,
    visit: &Visit,
    digest: &Digest,
    size: i64,
    source: ExternalSource,
) -> Answered<Option<BlobPlace>> {
    let gone = |error: Error| Refusal::new(Codes::BlobUnknown, error.detail).with_status(502);
    let text = digest.to_string();
    let mut caller = Caller::new(cx, visit.scope(), source).await.map_err(gone)?;
    let url = caller.url("blobs", &text).map_err(gone)?;
    let most = u64::try_from(size).unwrap_or_default().min(cx.platform.options.largest_blob);
    let finished = tokio::time::timeout(LONGEST_DOWNLOAD, async {
        let response = caller.follow(url, "*/*").await.map_err(gone)?;
        let body = response.bytes_stream().map(|part| part.map_err(without_url));
        let finished = cx.platform.blobs.put(digest, most, body).await;
        finished.map_err(|error| gone(failed(error.to_string())))
    });
    let finished = finished.await.map_err(|_| gone(failed("the download took too long")))??;
    crate::registry::keep(cx, visit, digest, finished).await?;
    cx.platform.store.repository_blob(visit.repository()?, &text).await.map_err(stored)
}
