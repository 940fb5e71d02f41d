//! Calls driven by the API description.
//!
//! This module does what callers would have to remember: it generates the idempotency key if none is given and keeps it
//! across retries, reads the version for `If-Match` first if none is given, and retries only where it is safe. A read can
//! always be retried, a command only with its key. A change guarded only by `If-Match` cannot: after a lost success, its
//! retry would be refused as stale.

use std::collections::BTreeMap;

use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::connect::{Connection, Exchange, fresh_key};
use crate::describe::{Answer, Description, Endpoint};
use crate::{Error, Problem};

/// Maximum number of retries of a call.
const REPEATS: u32 = 3;
/// Longest server-requested delay that is honoured, in seconds; beyond it the caller decides.
const PATIENCE: u64 = 5;

/// Characters that a path segment cannot contain.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Arguments of a call.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    /// Path parameters, by name.
    pub path: BTreeMap<String, String>,
    /// Query parameters.
    pub query: Vec<(String, String)>,
    /// The body; an endpoint with a body gets an empty object if this is `None`.
    pub body: Option<Value>,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// The caller's own idempotency key, for commands.
    pub idempotency_key: Option<String>,
    /// The expected version as an entity tag, for changes.
    pub if_match: Option<String>,
}

/// A successful response.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Version of the resource, as an entity tag.
    pub etag: Option<String>,
    /// Correlation id, shared with audit, events and logs.
    pub correlation_id: Option<String>,
    /// Whether this is the stored response of an earlier call with the same key.
    pub replayed: bool,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
}

/// Body of a response.
#[derive(Debug)]
pub enum Body {
    /// A document.
    Json(Value),
    /// A streamed body.
    Stream(Chunks),
}

/// Chunks of a streamed response.
#[derive(Debug)]
pub struct Chunks {
    response: reqwest::Response,
    server: String,
}

impl Chunks {
    /// Returns the next chunk; `None` at the proper end. A truncated response is an error, never an end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.response.chunk().await.map_err(|error| Error::network(&self.server, &error))
    }
}

impl Response {
    /// Returns the document; null for a stream.
    pub fn json(self) -> Value {
        match self.body {
            Body::Json(document) => document,
            Body::Stream(_) => Value::Null,
        }
    }
}

/// A request, ready to be sent repeatedly.
struct Prepared<'o> {
    method: reqwest::Method,
    url: String,
    endpoint: &'o Endpoint,
    body: Option<Value>,
    headers: Vec<(String, String)>,
    query: Vec<(String, String)>,
}

impl Connection {
    /// Calls an endpoint.
    pub async fn call(&self, endpoint: &Endpoint, arguments: &Arguments) -> Result<Response, Error> {
        let mut headers = arguments.headers.clone();
        if endpoint.needs_idempotency_key {
            headers.push((
                "Idempotency-Key".to_owned(),
                arguments.idempotency_key.clone().unwrap_or_else(fresh_key),
            ));
        }
        if endpoint.if_match {
            let version = match &arguments.if_match {
                Some(version) => version.clone(),
                None => self.version(endpoint, arguments).await?,
            };
            headers.push(("If-Match".to_owned(), version));
        }
        let body = endpoint
            .body_fields
            .as_ref()
            .map(|_| arguments.body.clone().unwrap_or_else(|| Value::Object(serde_json::Map::new())));
        let prepared = Prepared {
            method: method(&endpoint.method)?,
            url: format!("{}{}", self.server, fill(&endpoint.path, &arguments.path)?),
            endpoint,
            body,
            headers,
            query: arguments.query.clone(),
        };
        self.repeat(&prepared).await
    }

    /// Calls an endpoint by its id and returns its response as one of the [`types`](crate::types).
    pub async fn fetch<T: DeserializeOwned>(&self, id: &str, arguments: &Arguments) -> Result<T, Error> {
        let endpoint = Description::embedded()
            .endpoint(id)
            .ok_or_else(|| Error::Setup(format!("the API has no endpoint {id}")))?;
        let response = self.call(endpoint, arguments).await?;
        let status = response.status;
        serde_json::from_value(response.json())
            .map_err(|error| Error::Answer { status, why: error.to_string() })
    }

    /// Returns the current version of the resource, for callers that accept any version as long as it does not change in
    /// between.
    async fn version(&self, endpoint: &Endpoint, arguments: &Arguments) -> Result<String, Error> {
        let mut shown = endpoint.clone();
        shown.answer = Answer::Json;
        let prepared = Prepared {
            method: reqwest::Method::GET,
            url: format!("{}{}", self.server, fill(endpoint.resource_path(), &arguments.path)?),
            endpoint: &shown,
            body: None,
            headers: arguments.headers.clone(),
            query: Vec::new(),
        };
        let response = self.repeat(&prepared).await?;
        let status = response.status;
        response
            .etag
            .ok_or_else(|| Error::Answer { status, why: "it has no ETag, so no version is known".to_owned() })
    }

    async fn repeat(&self, prepared: &Prepared<'_>) -> Result<Response, Error> {
        let safe = prepared.method == reqwest::Method::GET || prepared.endpoint.needs_idempotency_key;
        let mut pause = self.pause;
        for _ in 0..REPEATS {
            let result = self.attempt(prepared).await;
            let wait = match &result {
                Err(Error::Lost { .. }) if safe => pause,
                Err(Error::Problem(problem)) if safe && problem.status == 503 => match problem.retry_after {
                    Some(seconds) if seconds > PATIENCE => return result,
                    Some(seconds) => pause.max(std::time::Duration::from_secs(seconds)),
                    None => pause,
                },
                _ => return result,
            };
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
        self.attempt(prepared).await
    }

    async fn attempt(&self, prepared: &Prepared<'_>) -> Result<Response, Error> {
        let mut request = self.http.request(prepared.method.clone(), &prepared.url);
        if !prepared.query.is_empty() {
            request = request.query(&prepared.query);
        }
        for (name, value) in &prepared.headers {
            request = request.header(name, value);
        }
        if let Some(body) = &prepared.body {
            request = request.json(body);
        }
        let request = request
            .build()
            .map_err(|error| Error::Setup(format!("the request cannot be serialized: {error}")))?;
        let url = request.url().to_string();
        match self.http.execute(request).await {
            Ok(response) => {
                let status = response.status().as_u16();
                self.watched(
                    prepared,
                    &url,
                    Some(status),
                    header(response.headers(), "x-correlation-id").as_deref(),
                    None,
                );
                self.answer(prepared.endpoint.answer, response).await
            }
            Err(error) => {
                let error = Error::network(&self.server, &error);
                self.watched(prepared, &url, None, None, Some(&error.to_string()));
                Err(error)
            }
        }
    }

    fn watched(
        &self,
        prepared: &Prepared<'_>,
        url: &str,
        status: Option<u16>,
        id: Option<&str>,
        error: Option<&str>,
    ) {
        if let Some(watcher) = &self.watcher {
            watcher(&Exchange { method: prepared.method.as_str(), url, status, correlation_id: id, error });
        }
    }

    async fn answer(&self, form: Answer, response: reqwest::Response) -> Result<Response, Error> {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        if !response.status().is_success() {
            return Err(refusal(status, &headers, response.bytes().await.unwrap_or_default().as_ref()));
        }
        let body = match form {
            Answer::Json => {
                let text = response.bytes().await.map_err(|error| Error::network(&self.server, &error))?;
                let document = serde_json::from_slice(&text);
                Body::Json(
                    document
                        .map_err(|error| Error::Answer { status, why: format!("it is not JSON: {error}") })?,
                )
            }
            Answer::Socket => {
                let why = "it is a stream: join it instead".to_owned();
                return Err(Error::Answer { status, why });
            }
            Answer::EventStream | Answer::JsonLines => {
                Body::Stream(Chunks { response, server: self.server.clone() })
            }
        };
        Ok(Response {
            status,
            etag: header(&headers, "etag"),
            correlation_id: header(&headers, "x-correlation-id"),
            replayed: header(&headers, "idempotency-replayed").as_deref() == Some("true"),
            headers,
            body,
        })
    }
}

pub(crate) fn refusal(status: u16, headers: &HeaderMap, body: &[u8]) -> Error {
    match serde_json::from_slice::<Problem>(body) {
        Ok(mut problem) => {
            problem.retry_after = header(headers, "retry-after").and_then(|text| text.parse().ok());
            Error::Problem(Box::new(problem))
        }
        Err(_) => {
            let media = header(headers, CONTENT_TYPE.as_str()).unwrap_or_else(|| "nothing".to_owned());
            Error::Answer {
                status,
                why: format!("expected a problem document, got {media}; is this address a muster server?"),
            }
        }
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn method(word: &str) -> Result<reqwest::Method, Error> {
    word.parse().map_err(|_| Error::Setup(format!("{word} is not an HTTP method")))
}

/// Returns the path with its parameters filled in. Segments of dots are refused: even encoded, they would climb to
/// another path.
fn fill(path: &str, values: &BTreeMap<String, String>) -> Result<String, Error> {
    let parts = path.split('/').map(|part| {
        let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) else {
            return Ok(part.to_owned());
        };
        match values.get(name).map(String::as_str) {
            None => Err(Error::Setup(format!("{name} is missing"))),
            Some("" | "." | "..") => Err(Error::Setup(format!("{name} must be a name or an id"))),
            Some(value) => Ok(utf8_percent_encode(value, SEGMENT).to_string()),
        }
    });
    parts.collect::<Result<Vec<String>, Error>>().map(|parts| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_filled_and_nothing_in_it_can_climb_out() {
        let filled = |value: &str| {
            fill("/v1/things/{thing}/go", &BTreeMap::from([("thing".to_owned(), value.to_owned())]))
        };
        assert_eq!(filled("a/b c?d#e%").unwrap(), "/v1/things/a%2Fb%20c%3Fd%23e%25/go");
        for wrong in ["", ".", ".."] {
            assert!(matches!(filled(wrong), Err(Error::Setup(_))), "{wrong:?}");
        }
        assert!(matches!(fill("/v1/{other}", &BTreeMap::new()), Err(Error::Setup(_))));
    }
}
