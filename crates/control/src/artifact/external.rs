//! Other registries: content that they have, by digest, with a project's own credential.
//!
//! Documents (manifests, configs, signatures) are read when the content is published; layers when a node first needs them. All of
//! it is compared with its digest on the way in, so that another registry is trusted in nothing. Addresses that lead inside the
//! operator's network are not called, whatever a name resolves to at that moment, and no redirect is followed but for a blob, by
//! the same rule and without the credential.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use muster_api::artifact::External;
use muster_api::{Code, Problem};
use muster_ids::{RepositoryId, SecretId};
use muster_model::Scope;
use muster_model::secret::ProjectSecret;
use muster_registry::Digest;
use muster_registry::error::{Code as Codes, Refusal};
use muster_registry::manifest::{LONGEST, Manifest};
use muster_store::ExternalSource;
use reqwest::header::{ACCEPT, AUTHORIZATION, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url};
use zeroize::Zeroizing;

use crate::refuse::{Result, refuse};
use crate::registry::{Answered, Visit, manifest_row, stored};
use crate::{Cx, outbound};

/// What we ask other registries for.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";
/// An index leads to so many manifests at most.
const MOST_MANIFESTS: usize = 64;
/// Redirects of a blob that are followed.
const MOST_REDIRECTS: usize = 3;

/// Another registry, as we call it.
struct Caller {
    client: Client,
    base: Url,
    source: ExternalSource,
    credential: Option<Zeroizing<String>>,
    /// What the registry's token service gave us.
    bearer: Option<Zeroizing<String>>,
    private: bool,
}

fn said(why: impl std::fmt::Display) -> Problem {
    Problem::new(Code::ExternalRegistry, format!("the other registry: {why}"))
}

impl Caller {
    async fn new(cx: &Cx, scope: Scope, source: ExternalSource) -> Result<Self> {
        if !cx.platform.options.registries {
            let why = "the operator has switched references to other registries off: push the content here";
            return Err(Problem::new(Code::UrlNotAllowed, why));
        }
        let private = cx.platform.options.registries_to_private;
        let scheme = if private && source.registry.starts_with("127.") { "http" } else { "https" };
        let base = outbound::check_url(&format!("{scheme}://{}/", source.registry), private)
            .map_err(|problem| Problem::field("/external/registry", problem.detail))?;
        if base.path() != "/" || base.query().is_some() {
            return Err(Problem::field(
                "/external/registry",
                "name the host, and a port where it has an uncommon one",
            ));
        }
        let credential = match source.secret_id {
            Some(id) => Some(credential(cx, scope, id).await?),
            None => None,
        };
        let client = outbound::streaming_client(private).map_err(said)?;
        Ok(Self { client, base, source, credential, bearer: None, private })
    }

    fn url(&self, kind: &str, reference: &str) -> Result<Url> {
        self.base.join(&format!("/v2/{}/{kind}/{reference}", self.source.repository)).map_err(said)
    }

    /// Asks, and asks again with a token where the registry says that it wants one.
    async fn get(&mut self, url: Url, accept: &str) -> Result<Response> {
        let response = self.send(&url, accept).await?;
        if response.status() != StatusCode::UNAUTHORIZED || self.bearer.is_some() {
            return Ok(response);
        }
        let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let Some(challenge) = challenge.filter(|text| text.to_ascii_lowercase().starts_with("bearer "))
        else {
            return Ok(response);
        };
        let challenge = challenge.to_owned();
        self.bearer = Some(self.token(&challenge).await?);
        self.send(&url, accept).await
    }

    async fn send(&self, url: &Url, accept: &str) -> Result<Response> {
        let mut request = self.client.get(url.clone()).header(ACCEPT, accept);
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, format!("Bearer {}", bearer.as_str()));
        } else if let Some(credential) = &self.credential {
            request =
                request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(credential.as_bytes())));
        }
        request.send().await.map_err(|error| said(without_url(error)))
    }

    /// Fetches a token from where the registry says. The credential goes to no other site than the registry's own or one that
    /// it names, which is what every client of registries does; inside the operator's network nobody is asked.
    async fn token(&self, challenge: &str) -> Result<Zeroizing<String>> {
        let part = |name: &str| {
            let at = challenge.find(&format!("{name}=\""))? + name.len() + 2;
            challenge[at..].split('"').next().map(str::to_owned)
        };
        let realm =
            part("realm").ok_or_else(|| said("it asks for a token and does not say where to get one"))?;
        let mut url = outbound::check_url(&realm, self.private)?;
        url.query_pairs_mut()
            .append_pair("service", &part("service").unwrap_or_default())
            .append_pair("scope", &format!("repository:{}:pull", self.source.repository));
        let mut request = self.client.get(url);
        if let Some(credential) = &self.credential {
            request =
                request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(credential.as_bytes())));
        }
        let response = request.send().await.map_err(|error| said(without_url(error)))?;
        let bytes = document(response, LONGEST).await?;
        let answer: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|_| said("its token cannot be read"))?;
        let token = answer["token"].as_str().or(answer["access_token"].as_str());
        Ok(Zeroizing::new(token.ok_or_else(|| said("it gave no token"))?.to_owned()))
    }

    /// A document, compared with its digest.
    async fn document(&mut self, kind: &str, digest: &Digest, accept: &str) -> Result<Vec<u8>> {
        let url = self.url(kind, &digest.to_string())?;
        let response = self.follow(url, accept).await?;
        let bytes = document(response, LONGEST).await?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(said(format!("{digest} was asked for, and what came has the digest {found}")));
        }
        Ok(bytes)
    }

    /// Blobs are often elsewhere. Where to is checked like any address, and the credential stays here.
    async fn follow(&mut self, url: Url, accept: &str) -> Result<Response> {
        let mut response = self.get(url, accept).await?;
        for _ in 0..MOST_REDIRECTS {
            if !response.status().is_redirection() {
                break;
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| response.url().join(location).ok());
            let next = next.ok_or_else(|| said("it redirects to nowhere"))?;
            let next = outbound::check_url(next.as_str(), self.private)?;
            response = self.client.get(next).send().await.map_err(|error| said(without_url(error)))?;
        }
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::NOT_FOUND => Err(said("it has no such content there")),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(said("it does not let us read that: name a secret with `user:password` that may"))
            }
            other => Err(said(format!("it answered {other}"))),
        }
    }
}

/// An error without the address: a redirect's address may hold a signature.
fn without_url(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}

async fn document(response: Response, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut parts = response.bytes_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| said(without_url(error)))?;
        if bytes.len() + part.len() > most {
            return Err(said(format!("it sent more than {most} bytes where a document was asked for")));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

async fn credential(cx: &Cx, scope: Scope, id: SecretId) -> Result<Zeroizing<String>> {
    let platform = &cx.platform;
    let secret = platform.store.secret_lookup(id).await.map_err(refuse)?;
    let secret = secret
        .filter(|secret| secret.scope() == scope)
        .ok_or_else(|| said("the secret to read it with is gone"))?;
    let context = ProjectSecret::context(secret.id, secret.revision);
    let plain = platform.envelope.open(&platform.store, &scope.chain(), &context, &secret.sealed).await?;
    let text = std::str::from_utf8(&plain).ok().map(str::trim).filter(|text| text.contains(':'));
    Ok(Zeroizing::new(text.ok_or_else(|| said("the secret should read `user:password`"))?.to_owned()))
}

/// Takes a reference to content of another registry into a repository: its manifests and configs are read now, and its layers are
/// written down as content that can be had.
pub(super) async fn reference(
    cx: &Cx,
    scope: Scope,
    repository: &str,
    reference: &str,
    from: &External,
) -> Result<()> {
    let (Some(tenant), Some(project)) = (scope.tenant(), scope.project()) else {
        return Err(Problem::not_found("project"));
    };
    repository
        .parse::<muster_registry::path::Name>()
        .map_err(|error| Problem::field("/repository", error.to_string()))?;
    from.repository
        .parse::<muster_registry::path::Name>()
        .map_err(|error| Problem::field("/external/repository", error.to_string()))?;
    let digest: Digest = reference.parse().map_err(|_| {
        Problem::field(
            "/reference",
            "content of another registry is named by its digest: sha256:…; tags move",
        )
    })?;
    let secret_id = match &from.secret {
        None => None,
        Some(name) => {
            let found = cx.platform.store.secret_by_name(project, name).await.map_err(refuse)?;
            Some(
                found.ok_or_else(|| Problem::field("/external/secret", "the project has no such secret"))?.id,
            )
        }
    };
    let source =
        ExternalSource { registry: from.registry.clone(), repository: from.repository.clone(), secret_id };
    let mut caller = Caller::new(cx, scope, source.clone()).await?;
    let mut waiting = vec![digest];
    let mut read: Vec<(Digest, Manifest, Vec<u8>)> = Vec::new();
    while let Some(digest) = waiting.pop() {
        if read.iter().any(|(known, ..)| *known == digest) {
            continue;
        }
        if read.len() >= MOST_MANIFESTS {
            return Err(said(format!("it leads to more than {MOST_MANIFESTS} manifests")));
        }
        let bytes = caller.document("manifests", &digest, MANIFESTS).await?;
        let manifest = Manifest::parse(&bytes, None).map_err(said)?;
        waiting.extend(manifest.children.iter().map(|child| child.digest));
        read.push((digest, manifest, bytes));
    }
    let mut tx = cx.platform.store.begin().await.map_err(refuse)?;
    let made = tx
        .repository_ensure(cx.platform.world.id(), tenant, project, repository, cx.now)
        .await
        .map_err(refuse)?;
    tx.commit().await.map_err(refuse)?;
    // Children before those that need them.
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
    // The config is short, and staging reads it.
    let mut config_file = None;
    if let Some(config) = &manifest.config {
        let content = caller.document("blobs", &config.digest, "*/*").await?;
        let body = futures::stream::iter([Ok::<_, std::convert::Infallible>(bytes::Bytes::from(content))]);
        let finished = cx.platform.blobs.put(&config.digest, LONGEST as u64, body).await;
        config_file = Some((config.digest, finished.map_err(|error| said(error.to_string()))?.file));
    }
    let mut total = bytes.len() as u64;
    let mut blobs = Vec::new();
    for blob in manifest.needs_blobs() {
        total = total.saturating_add(blob.size);
        let file =
            config_file.as_ref().filter(|(config, _)| *config == blob.digest).map(|(_, file)| file.clone());
        blobs.push((blob.digest.to_string(), i64::try_from(blob.size).unwrap_or(i64::MAX), file));
    }
    let children: Vec<String> =
        manifest.needs_manifests().iter().map(|child| child.digest.to_string()).collect();
    let sizes = cx.platform.store.manifest_sizes(repository, &children).await.map_err(refuse)?;
    let total = sizes
        .iter()
        .fold(i64::try_from(total).unwrap_or(i64::MAX), |sum, (_, size)| sum.saturating_add(*size));
    let row = manifest_row(manifest, &digest, bytes, total);
    let mut spare = Vec::new();
    let mut tx = cx.platform.store.begin().await.map_err(refuse)?;
    for (digest, size, file) in &blobs {
        let counts = tx.blob_put(digest, *size, file.as_deref(), cx.now).await.map_err(refuse)?;
        if let Some(file) = file
            && counts.as_deref() != Some(file.as_str())
        {
            spare.push(file.clone());
        }
        match file {
            Some(_) => tx.repository_blob_put(repository, digest, cx.now).await.map_err(refuse)?,
            None => tx.repository_blob_refer(repository, digest, cx.now).await.map_err(refuse)?,
        }
        tx.external_put(repository, digest, source).await.map_err(refuse)?;
    }
    tx.manifest_put(repository, &row, cx.now).await.map_err(refuse)?;
    tx.commit().await.map_err(refuse)?;
    for file in spare {
        let _ = cx.platform.blobs.remove(&file).await;
    }
    Ok(())
}

/// Fetches a blob that a repository has only by reference, and keeps it; says in which file it is now.
pub(crate) async fn fetch(cx: &Cx, visit: &Visit, digest: &Digest, size: i64) -> Answered<String> {
    let unknown = || Refusal::new(Codes::BlobUnknown, format!("the repository has no blob {digest}"));
    let failed = |problem: Problem| Refusal::new(Codes::BlobUnknown, problem.detail).with_status(502);
    let text = digest.to_string();
    let source = cx.platform.store.external_source(visit.repository()?, &text).await.map_err(stored)?;
    let source = source.ok_or_else(unknown)?;
    let mut caller = Caller::new(cx, visit.scope(), source).await.map_err(failed)?;
    let url = caller.url("blobs", &text).map_err(failed)?;
    let response = caller.follow(url, "*/*").await.map_err(failed)?;
    let most = u64::try_from(size).unwrap_or_default();
    let body = response.bytes_stream().map(|part| part.map_err(without_url));
    let finished = cx.platform.blobs.put(digest, most, body).await;
    let finished = finished.map_err(|error| failed(said(error.to_string())))?;
    crate::registry::keep(cx, visit, digest, finished).await?;
    let kept = cx.platform.store.repository_blob(visit.repository()?, &text).await.map_err(stored)?;
    kept.and_then(|kept| kept.file).ok_or_else(unknown)
}
