//! Reads from the registry.

use std::io;

use axum::body::{Body, Bytes};
use futures::{Stream, TryStreamExt as _};
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LINK};
use http::{Method, Response};
use muster_control::registry::{self, Answered, ContentPart, Right, TransferGuard};
use muster_registry::page::Page;
use muster_registry::path::{Name, Reference};
use muster_registry::range::{Pull, pull};
use muster_registry::referrers::{Referrer, answer as index};
use muster_registry::{Digest, Reading};
use serde_json::json;

use super::Asked;
use super::answer::{DIGEST, FILTERS, of, set};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

pub(super) async fn manifest(asked: &Asked, name: &Name, reference: &Reference) -> Answered<Response<Body>> {
    let found = registry::manifest_get(&asked.cx, &asked.guest, name, reference).await?;
    let length = found.content.len();
    let body = match asked.method == Method::HEAD {
        true => Body::empty(),
        false => asked.counted(found.content.clone())?,
    };
    let mut response = of(200, &found.media_type, body);
    set(&mut response, CONTENT_LENGTH, &length.to_string());
    set(&mut response, DIGEST, &found.digest);
    set(&mut response, ETAG, &format!("\"{}\"", found.digest));
    Ok(response)
}

pub(super) async fn blob(asked: &Asked, name: &Name, digest: &Digest) -> Answered<Response<Body>> {
    let content = registry::blob_look(&asked.cx, &asked.guest, name, digest).await?;
    let part = pull(asked.header("range"), content.size);
    let range = match &part {
        Pull::Whole => 0..content.size,
        Pull::Part(range) => range.clone(),
        Pull::Unsatisfiable => 0..0,
    };
    let length = range.end - range.start;
    let body = match asked.method == Method::HEAD || length == 0 {
        true => Body::empty(),
        false => {
            let opened = asked.download()?;
            match registry::blob_read(&asked.cx, &content, range).await? {
                ContentPart::Bytes(bytes) => asked.counted(bytes)?,
                ContentPart::Stream(reading) => {
                    let held = asked.hold(Reading::BUFFERED)?;
                    let guard = asked.guard(name, Right::Pull);
                    Body::from_stream(guarded(reading, guard, (opened, held)))
                }
            }
        }
    };
    let mut response = of(part.status(), "application/octet-stream", body);
    set(&mut response, CONTENT_LENGTH, &length.to_string());
    set(&mut response, ACCEPT_RANGES, "bytes");
    set(&mut response, DIGEST, &digest.to_string());
    set(&mut response, ETAG, &format!("\"{digest}\""));
    if let Some(range) = part.content_range(content.size) {
        set(&mut response, CONTENT_RANGE, &range);
    }
    Ok(response)
}

/// Passes content on for as long as its reader may read it. An error breaks the transfer off, so that the reader takes no part
/// of the content for the whole.
fn guarded(
    reading: Reading,
    guard: TransferGuard,
    held: impl Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    futures::stream::try_unfold((reading, guard, held), |(mut reading, mut guard, held)| async move {
        guard.check().await.map_err(|refusal| io::Error::other(refusal.message))?;
        let part = reading.try_next().await?;
        Ok(part.map(|part| (part, (reading, guard, held))))
    })
}

fn page(asked: &Asked) -> Answered<Page> {
    Page::parse(asked.query("n"), asked.query("last")).map_err(|error| error.refusal())
}

fn listed(
    asked: &Asked,
    page: &Page,
    found: Vec<String>,
    body: impl FnOnce(Vec<String>) -> serde_json::Value,
) -> Answered<Response<Body>> {
    let (found, link) = page.cut(&asked.path, found);
    let mut response = of(200, "application/json", asked.counted(body(found).to_string())?);
    if let Some(link) = link {
        set(&mut response, LINK, &link);
    }
    Ok(response)
}

pub(super) async fn tags(asked: &Asked, name: &Name) -> Answered<Response<Body>> {
    let page = page(asked)?;
    let last = page.last.as_deref().unwrap_or_default();
    let found = registry::tags(&asked.cx, &asked.guest, name, last, page.look_up()).await?;
    listed(asked, &page, found, |tags| json!({"name": name.as_str(), "tags": tags}))
}

pub(super) async fn catalog(asked: &Asked) -> Answered<Response<Body>> {
    let page = page(asked)?;
    let last = page.last.as_deref().unwrap_or_default();
    let found = registry::catalog(&asked.cx, &asked.guest, last, page.look_up()).await?;
    listed(asked, &page, found, |repositories| json!({"repositories": repositories}))
}

pub(super) async fn referrers(asked: &Asked, name: &Name, digest: &Digest) -> Answered<Response<Body>> {
    let kind = asked.query("artifactType").filter(|kind| !kind.is_empty());
    let page = page(asked)?;
    let last = page.last.as_deref().unwrap_or_default();
    asked.cx.large_answer().await;
    let (found, more) =
        registry::referrers(&asked.cx, &asked.guest, name, digest, kind, last, page.n).await?;
    let found: Vec<Referrer> = found
        .into_iter()
        .filter_map(|row| {
            Some(Referrer {
                media_type: row.media_type,
                digest: row.digest.parse().ok()?,
                size: u64::try_from(row.size).ok()?,
                artifact_type: row.artifact_type,
                annotations: serde_json::from_value(row.annotations).unwrap_or_default(),
            })
        })
        .collect();
    let answer = index(&found, kind);
    let mut response = of(200, INDEX, asked.counted(answer.body)?);
    if answer.filtered {
        set(&mut response, FILTERS, "artifactType");
    }
    let last = answer.cut_after.or(found.last().filter(|_| more).map(|last| last.digest));
    if let Some(last) = last {
        let kind = kind.map(|kind| ("artifactType", kind));
        set(&mut response, LINK, &page.link_with(&asked.path, kind, &last.to_string()));
    }
    Ok(response)
}
