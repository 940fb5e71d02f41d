//! Parsed and validated input of a handler.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use muster_api::Code;
use muster_control::{Error, Expected, Result, StreamSlot};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The parts of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Input {
    /// The path's parameters, in order.
    pub(crate) path: Vec<String>,
    /// The query, validated against its schema.
    pub(crate) query: Value,
    /// The body, validated against its schema.
    pub(crate) body: Value,
    /// The number in `Last-Event-ID`.
    pub(crate) last_event_id: Option<i64>,
    /// Whether the body may contain a secret; then no error may repeat any of it.
    pub(crate) silent_body: bool,
    /// The credential, for streams that must verify it again.
    pub(crate) secret: String,
}

impl Input {
    pub(crate) fn path(&self, at: usize) -> &str {
        self.path.get(at).map_or("", String::as_str)
    }

    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T> {
        read(&self.query, "query")
    }

    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T> {
        match read(&self.body, "body") {
            Err(_) if self.silent_body => {
                Err(Error::new(Code::InvalidRequest, "body: it does not match the schema"))
            }
            read => read,
        }
    }
}

/// Deserializes a value that passed its schema; what the type still rejects is reported by field.
pub(crate) fn read<T: DeserializeOwned>(value: &Value, place: &str) -> Result<T> {
    T::deserialize(value).map_err(|error| Error::new(Code::InvalidRequest, format!("{place}: {error}")))
}

/// Size up to which a body does not count as large.
const SMALL_BODY: usize = 16 << 10;

/// A parsed body.
pub(crate) struct JsonBody {
    pub(crate) value: Value,
    /// Slot of a large one.
    pub(crate) held: Option<StreamSlot>,
}

/// Reads a JSON body within a size limit and a timeout. A refused body stays unread in `body`. `memory` acquires a slot
/// for a large body, or refuses; the slot is returned with the body.
pub(crate) async fn read_json(
    headers: &HeaderMap,
    body: &mut Option<Body>,
    limit: usize,
    timeout: Duration,
    memory: impl FnOnce() -> Result<StreamSlot>,
) -> Result<JsonBody> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Error::new(
            Code::UnsupportedMediaType,
            "send the body as `Content-Type: application/json`",
        ));
    }
    let mut incoming = body.take().unwrap_or_default();
    let (bytes, held) = match tokio::time::timeout(timeout, collect(&mut incoming, limit, memory)).await {
        Err(_) => return Err(Error::new(Code::RequestTimeout, "the body did not arrive in time")),
        Ok(Ok(collected)) => collected,
        Ok(Err(error)) => {
            if error.code == Code::RateLimited {
                *body = Some(incoming);
            }
            return Err(error);
        }
    };
    let value = crate::unique::parse(&bytes)
        .map_err(|error| Error::new(Code::MalformedRequest, format!("the body is not JSON: {error}")))?;
    Ok(JsonBody { value, held })
}

/// A refused body is drained for so long at most.
const DRAINING: Duration = Duration::from_secs(2);

/// Reads at most so many bytes of a refused body and discards each frame as it arrives, so that it never takes memory.
pub(crate) async fn drain(body: &mut Body, most: usize) {
    let discard = async {
        let mut left = most;
        while let Some(Ok(frame)) = body.frame().await {
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(DRAINING, discard).await;
}

/// Collects a body within a size limit. `memory` acquires a slot for a large one, or refuses.
pub(crate) async fn collect(
    body: &mut Body,
    limit: usize,
    memory: impl FnOnce() -> Result<StreamSlot>,
) -> Result<(Vec<u8>, Option<StreamSlot>)> {
    let mut bytes = Vec::new();
    let (mut memory, mut held) = (Some(memory), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::new(Code::MalformedRequest, "the body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(Error::new(Code::BodyTooLarge, format!("the body is larger than {limit} bytes")));
        }
        bytes.extend_from_slice(&data);
        if bytes.len() > SMALL_BODY
            && let Some(memory) = memory.take()
        {
            held = Some(memory()?);
        }
    }
    Ok((bytes, held))
}

/// Returns the refusal for too many concurrent large bodies of one share.
pub(crate) fn too_many_large() -> Error {
    Error::new(Code::RateLimited, "too many large requests of yours are arriving; wait and repeat")
}

/// `If-Match`: a version in quotes, or `*`.
pub(crate) fn if_match(text: Option<&str>) -> Result<Option<Expected>> {
    let Some(text) = text else { return Ok(None) };
    let number = |text: &str| text.strip_prefix('"')?.strip_suffix('"')?.parse().ok();
    match (text.trim(), number(text.trim())) {
        ("*", _) => Ok(Some(Expected::Any)),
        (_, Some(version)) => Ok(Some(Expected::Version(version))),
        _ => Err(Error::field("header/If-Match", "it must be a version in quotes, as in \"3\", or *")),
    }
}

/// `Idempotency-Key`: visible ASCII, as a bare word or as a quoted string.
pub(crate) fn idempotency_key(text: Option<&str>) -> Result<String> {
    let Some(text) = text else {
        return Err(Error::new(
            Code::IdempotencyKeyRequired,
            "send a key of your own as `Idempotency-Key`: the same key and body take effect once, however often sent",
        ));
    };
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    if bare.is_empty() || bare.len() > 255 || !bare.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::field("header/Idempotency-Key", "it must be 1 to 255 visible ASCII characters"));
    }
    Ok(bare.to_owned())
}

/// Returns the correlation id of a request: the caller's own, the trace's, or a new one.
pub(crate) fn correlation_id(
    given: Option<&str>,
    traceparent: Option<&str>,
    fresh: impl FnOnce() -> String,
) -> String {
    let fits = |text: &&str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if let Some(given) = given.filter(fits) {
        return given.to_owned();
    }
    let trace = traceparent.and_then(|parent| parent.split('-').nth(1)).filter(|trace| {
        trace.len() == 32
            && trace.bytes().all(|byte| byte.is_ascii_hexdigit())
            && trace.bytes().any(|byte| byte != b'0')
    });
    trace.map_or_else(fresh, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_strictly() {
        assert_eq!(if_match(Some("\"3\"")).unwrap(), Some(Expected::Version(3)));
        assert_eq!(if_match(Some("*")).unwrap(), Some(Expected::Any));
        assert!(if_match(Some("3")).is_err());
        assert_eq!(idempotency_key(Some("\"a\"")).unwrap(), "a");
        assert!(idempotency_key(Some("a b")).is_err());
        assert!(idempotency_key(Some("")).is_err());
        assert!(idempotency_key(None).is_err());
    }

    /// Memory of a frame, counted while it is held.
    struct Frame(std::sync::Arc<()>);

    impl AsRef<[u8]> for Frame {
        fn as_ref(&self) -> &[u8] {
            &[0; 1000]
        }
    }

    #[tokio::test]
    async fn a_refused_body_is_discarded_frame_by_frame_within_its_bounds() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};

        let (held, sent, most_held) =
            (Arc::new(()), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let frames = {
            let (held, sent, most_held) = (held.clone(), sent.clone(), most_held.clone());
            futures::stream::repeat_with(move || {
                sent.fetch_add(1, Ordering::SeqCst);
                let frame = Frame(held.clone());
                most_held.fetch_max(Arc::strong_count(&frame.0) - 2, Ordering::SeqCst);
                Ok::<_, std::convert::Infallible>(Bytes::from_owner(frame))
            })
        };
        drain(&mut Body::from_stream(frames), 100_000).await;
        assert_eq!(sent.load(Ordering::SeqCst), 101, "it ends at the first byte beyond the bound");
        assert_eq!(most_held.load(Ordering::SeqCst), 1, "no frame is kept");
        // One that never comes is not waited for.
        let began = std::time::Instant::now();
        let silent = futures::stream::pending::<Result<Bytes, std::convert::Infallible>>();
        drain(&mut Body::from_stream(silent), 100_000).await;
        assert!(began.elapsed() < 2 * DRAINING);
    }

    #[test]
    fn possible_secret_in_a_body_is_not_repeated() {
        let input =
            |silent_body| Input { body: serde_json::json!("canary"), silent_body, ..Input::default() };
        assert!(input(false).body::<u8>().unwrap_err().detail.contains("canary"));
        assert!(!format!("{:?}", input(true).body::<u8>().unwrap_err()).contains("canary"));
    }

    #[test]
    fn a_thread_is_taken_over_or_made() {
        let fresh = || "fresh".to_owned();
        assert_eq!(correlation_id(Some("mine-1"), None, fresh), "mine-1");
        assert_eq!(correlation_id(Some("line\nbreak"), None, fresh), "fresh");
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(correlation_id(None, Some(trace), fresh), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(correlation_id(None, Some("00-0-1-1"), fresh), "fresh");
    }
}
