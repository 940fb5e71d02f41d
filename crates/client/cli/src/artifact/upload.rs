//! Sends content, and goes on where it stopped: after a broken connection, after a restarted server, in a later run of the program.
//! How much is there is never remembered here but asked for, because only the registry knows.

use muster_trust::Digest;

use super::content::Content;
use super::patience::Patience;
use super::pending::Pending;
use super::progress::Bar;
use super::registry::Registry;
use super::trouble::Trouble;
use crate::amount::bytes;
use crate::failure::{Exit, Failure, Result};

/// How much goes into one request: what is lost at most when a connection breaks in the worst moment, and what is in memory.
const CHUNK: usize = 32 << 20;
/// What is smaller goes in one request.
const SMALL: u64 = 1 << 20;
/// How often an upload is begun anew.
const BEGINNINGS: u32 = 3;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The repository had it.
    Before,
    /// It has it now.
    Now,
}

/// Sends content unless the repository has it.
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

/// Where an upload stands.
struct Stand {
    location: String,
    /// How much is there, if that is known.
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
                // It says how much it has; if not, it is asked.
                open.at = refusal.length;
                if !patience.count() {
                    return Err(registry.failed(trouble));
                }
            }
            (Trouble::Refused(refusal), Some(open)) if lost(refusal.status, &refusal.code) => {
                let mismatch = refusal.code == "DIGEST_INVALID";
                if mismatch {
                    // It is this file that changed, or what an earlier run sent.
                    content.still_the_same()?;
                    registry.upload_cancel(&open.location).await;
                }
                pending.forget(digest);
                beginnings += 1;
                // An upload whose last answer was lost is gone because it ended well.
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

/// Whether an upload must be begun anew.
fn lost(status: u16, code: &str) -> bool {
    status == 404 || code == "BLOB_UPLOAD_UNKNOWN" || code == "DIGEST_INVALID"
}

enum Step {
    Further,
    Finished,
}

/// One request of an upload. The outer error is ours and final, the inner one the network's or the registry's.
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
                bar.remark(&format!("going on at {}", bytes(length)));
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
            "the registry has more of an upload than was sent",
        )
        .next("push it again; if it stays so, tell whoever runs the platform"));
    }
    if at == total {
        content.still_the_same()?;
        return Ok(registry.upload_finish(&open.location, digest).await.map(|()| Step::Finished));
    }
    let chunk = match content.read(at, CHUNK) {
        Ok(chunk) => chunk,
        Err(failure) => {
            // What was sent of a file that is no more is of use to nobody.
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
