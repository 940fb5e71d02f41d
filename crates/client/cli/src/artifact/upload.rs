//! Uploads content, and resumes after a broken connection, a server restart, or in a later run of the program. The offset
//! is never stored but always requested, because only the registry knows it.

use muster_trust::Digest;

use super::content::Content;
use super::patience::Patience;
use super::pending::Pending;
use super::progress::Bar;
use super::registry::Registry;
use super::trouble::Trouble;
use crate::amount::bytes;
use crate::failure::{Exit, Failure, Result};

/// Size of one request: the maximum loss when a connection breaks, and the memory in use.
const CHUNK: usize = 32 << 20;
/// Maximum size of an upload in a single request.
const SMALL: u64 = 1 << 20;
/// Maximum number of restarts of an upload.
const BEGINNINGS: u32 = 3;

/// Result of an upload.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The repository already had it.
    Before,
    /// It was uploaded.
    Now,
}

/// Uploads content unless the repository has it.
pub(super) async fn send(
    registry: &Registry,
    pending: &Pending,
    digest: &Digest,
    content: &Content,
    bar: &Bar,
) -> Result<Sent> {
    let mut patience = Patience::new();
    loop {
        match registry.has_blob(digest).await {
            Ok(true) => {
                pending.forget(digest);
                return Ok(Sent::Before);
            }
            Ok(false) => break,
            Err(trouble) => patience.bear(registry, trouble, bar).await?,
        }
    }
    if content.length() <= SMALL {
        at_once(registry, digest, content, bar).await
    } else {
        in_chunks(registry, pending, digest, content, bar).await
    }
}

async fn at_once(registry: &Registry, digest: &Digest, content: &Content, bar: &Bar) -> Result<Sent> {
    let mut patience = Patience::new();
    loop {
        let whole = content.read(0, CHUNK)?;
        match registry.put_blob(digest, whole).await {
            Ok(()) => return Ok(Sent::Now),
            Err(trouble) => patience.bear(registry, trouble, bar).await?,
        }
    }
}

/// State of an upload.
struct Stand {
    location: String,
    /// Length so far, if known.
    at: Option<u64>,
}

async fn in_chunks(
    registry: &Registry,
    pending: &Pending,
    digest: &Digest,
    content: &Content,
    bar: &Bar,
) -> Result<Sent> {
    let kept = pending
        .recall(digest)
        .filter(|location| registry.own(&format!("/v2/{}/{location}", registry.name)).is_some());
    let mut stand = kept.map(|location| Stand { location, at: None });
    let (mut patience, mut beginnings) = (Patience::new(), 0);
    loop {
        let before = stand.as_ref().and_then(|stand| stand.at);
        let trouble = match step(registry, pending, digest, content, &mut stand, bar).await? {
            Ok(Step::Finished) => {
                pending.forget(digest);
                return Ok(Sent::Now);
            }
            Ok(Step::Further) => {
                if stand.as_ref().and_then(|stand| stand.at) > before {
                    patience.renew();
                }
                continue;
            }
            Err(trouble) => trouble,
        };
        match (&trouble, &mut stand) {
            (Trouble::Refused(refusal), Some(open)) if refusal.status == 416 => {
                // Use the offset from the response, or request it.
                open.at = refusal.length;
                if !patience.count() {
                    return Err(registry.failed(trouble));
                }
            }
            (Trouble::Refused(refusal), Some(open)) if lost(refusal.status, &refusal.code) => {
                let mismatch = refusal.code == "DIGEST_INVALID";
                if mismatch {
                    // Either this file changed, or the content that an earlier run sent.
                    content.still_the_same()?;
                    registry.upload_cancel(&open.location).await;
                }
                pending.forget(digest);
                beginnings += 1;
                // An upload with a lost final response is gone because it succeeded.
                if !mismatch && matches!(registry.has_blob(digest).await, Ok(true)) {
                    return Ok(Sent::Now);
                }
                if beginnings >= BEGINNINGS {
                    return Err(registry.failed(trouble));
                }
                bar.at(0);
                stand = None;
            }
            _ => {
                patience.bear(registry, trouble, bar).await?;
                if let Some(open) = &mut stand {
                    open.at = None;
                }
            }
        }
    }
}

/// Reports whether an upload must be restarted.
fn lost(status: u16, code: &str) -> bool {
    status == 404 || code == "BLOB_UPLOAD_UNKNOWN" || code == "DIGEST_INVALID"
}

enum Step {
    Further,
    Finished,
}

/// Sends one request of an upload. The outer error is local and final, the inner one the network's or the registry's.
async fn step(
    registry: &Registry,
    pending: &Pending,
    digest: &Digest,
    content: &Content,
    stand: &mut Option<Stand>,
    bar: &Bar,
) -> Result<std::result::Result<Step, Trouble>> {
    let total = content.length();
    let Some(open) = stand else {
        return Ok(match registry.upload_start().await {
            Ok(location) => {
                pending.keep(digest, &location);
                *stand = Some(Stand { location, at: Some(0) });
                Ok(Step::Further)
            }
            Err(trouble) => Err(trouble),
        });
    };
    let Some(at) = open.at else {
        return Ok(match registry.upload_length(&open.location).await {
            Ok(length) => {
                open.at = Some(length);
                bar.at(length);
                bar.remark(&format!("continuing at {}", bytes(length)));
                Ok(Step::Further)
            }
            Err(trouble) => Err(trouble),
        });
    };
    if at > total {
        pending.forget(digest);
        return Err(Failure::new(
            Exit::Failed,
            "strange_answer",
            "the registry has more of the upload than was sent",
        )
        .next("push it again; if it keeps failing, report it to the platform's operators"));
    }
    if at == total {
        content.still_the_same()?;
        return Ok(registry.upload_finish(&open.location, digest).await.map(|()| Step::Finished));
    }
    let chunk = match content.read(at, CHUNK) {
        Ok(chunk) => chunk,
        Err(failure) => {
            // The uploaded part of a changed file is useless.
            registry.upload_cancel(&open.location).await;
            pending.forget(digest);
            return Err(failure);
        }
    };
    bar.at(at);
    Ok(match registry.upload_append(&open.location, at, chunk, bar).await {
        Ok(length) => {
            open.at = Some(length);
            Ok(Step::Further)
        }
        Err(trouble) => Err(trouble),
    })
}
