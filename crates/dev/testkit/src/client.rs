//! A client that checks every response against the API document.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use muster_api::{Endpoint, document, endpoints, self_contained};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::Value;

static ENDPOINTS: LazyLock<Vec<Endpoint>> = LazyLock::new(endpoints);
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

/// A client with a token.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    /// Bearer token for `Authorization`; no header if empty.
    pub token: String,
    /// Headers of every request, for clients without a bearer token.
    headers: Vec<(&'static str, String)>,
}

/// A response that matches the document.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// JSON body; null for any other content.
    pub body: Value,
    /// Raw body.
    pub text: String,
    /// Headers.
    pub headers: reqwest::header::HeaderMap,
}

impl Answer {
    /// Returns the error code, or an empty text.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// Fails the test unless the request succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.status < 300, "expected success, got {} {}", self.status, self.text);
        self
    }

    /// Fails the test unless the request failed with this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code()), (status, code), "{}", self.text);
        self
    }

    /// Returns a field of the body as text.
    #[track_caller]
    pub fn text_of(&self, member: &str) -> String {
        self.body[member].as_str().unwrap_or_else(|| panic!("no {member} in {}", self.text)).to_owned()
    }

    /// Returns a header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Client {
    /// Creates a client of the server at `address`.
    pub fn new(address: SocketAddr, token: &str) -> Self {
        // Without the system's certificates: loading them took longer than the request, and this client uses plain HTTP.
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
        Self { http, base: format!("http://{address}"), token: token.to_owned(), headers: Vec::new() }
    }

    /// Returns the same client with another token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    /// Returns the same client with an additional header.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Builds a request that the shorthands do not cover.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if self.token.is_empty() { request } else { request.bearer_auth(&self.token) }
    }

    /// Sends a request and checks the response against the document.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let request = request.build().expect("a request");
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = self.http.execute(request).await.expect("the server answers");
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await.expect("a body");
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        let answer = Answer { status, body, text, headers };
        check(method.as_str(), &path, &answer);
        answer
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// POST with a new idempotency key.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        let key = format!("key-{}-{}", std::process::id(), NEXT_KEY.fetch_add(1, Ordering::Relaxed));
        self.post_with_key(path, body, &key).await
    }

    /// POST with this idempotency key.
    pub async fn post_with_key(&self, path: &str, body: Value, key: &str) -> Answer {
        self.send(self.request(Method::POST, path).header("idempotency-key", key).json(&body)).await
    }

    /// PATCH with any version.
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::PATCH, path).header("if-match", "*").json(&body)).await
    }

    /// DELETE with any version.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path).header("if-match", "*")).await
    }
}

/// Returns the endpoint of a request.
fn find(method: &str, path: &str) -> Option<&'static Endpoint> {
    let fits = |template: &str| {
        let (wanted, given): (Vec<&str>, Vec<&str>) =
            (template.split('/').collect(), path.split('/').collect());
        wanted.len() == given.len()
            && wanted.iter().zip(&given).all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
    };
    let mut found: Vec<&Endpoint> = ENDPOINTS
        .iter()
        .filter(|operation| operation.method.as_str() == method && fits(operation.path))
        .collect();
    // A literal path wins over one with a parameter, as in the router.
    found.sort_by_key(|operation| operation.path.matches('{').count());
    found.first().copied()
}

/// Schema of a response, with the components it refers to.
struct Compiled {
    schema: Value,
    validator: Validator,
}

/// Returns the schema of one kind of response, compiled once for each process.
fn compiled(operation: &'static str, status: u16, content_type: &str, schema: &Value) -> Arc<Compiled> {
    type Key = (&'static str, u16, String);
    static COMPILED: LazyLock<Mutex<HashMap<Key, Arc<Compiled>>>> = LazyLock::new(Mutex::default);
    let mut all = COMPILED.lock();
    let compile = || {
        let schema = self_contained(document(), schema);
        let validator = jsonschema::draft202012::new(&schema).expect("a schema of the document");
        Arc::new(Compiled { schema, validator })
    };
    all.entry((operation, status, content_type.to_owned())).or_insert_with(compile).clone()
}

#[track_caller]
fn check(method: &str, path: &str, answer: &Answer) {
    let Some(operation) = find(method, path) else { return };
    let described =
        &document()["paths"][operation.path][method.to_lowercase()]["responses"][answer.status.to_string()];
    let name = operation.id;
    assert!(
        !described.is_null(),
        "{name} answered {}, which is not in the document: {}",
        answer.status,
        answer.text
    );
    let content_type = answer.header("content-type").split(';').next().unwrap_or_default().to_owned();
    let content = &described["content"][&content_type];
    assert!(
        !content.is_null(),
        "{name} answered {} as {content_type:?}, which is not in the document",
        answer.status
    );
    assert!(!answer.header("x-correlation-id").is_empty(), "{name} answered without X-Correlation-Id");
    if content_type.ends_with("json") && content_type != "application/x-ndjson" {
        let compiled = compiled(operation.id, answer.status, &content_type, &content["schema"]);
        let faults: Vec<String> = compiled
            .validator
            .iter_errors(&answer.body)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(
            faults.is_empty(),
            "{name}: the answer does not fit the document: {faults:?}\n{}",
            answer.text
        );
        // The document lists every field of a type, so an unknown field is a leak or an omission.
        unknown_members(name, &compiled.schema, &answer.body);
    }
}

fn unknown_members(name: &str, schema: &Value, body: &Value) {
    let target = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    let Some(target) = target else { return };
    let properties = &schema["components"]["schemas"][target]["properties"];
    for member in body.as_object().into_iter().flatten().map(|(member, _)| member) {
        assert!(properties.get(member).is_some(), "{name}: {member} is not in the document ({target})");
    }
}
