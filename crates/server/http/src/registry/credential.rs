//! Credentials of registry clients: Basic with a token as the password, or Bearer with a platform token or a registry
//! token.

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response};
use muster_control::Cx;
use muster_control::registry::{Answered, Granted, Guest};
use muster_registry::challenge::{Action, Challenge, Scope, scopes};
use muster_registry::error::{Code, Refusal};
use muster_registry::path::{self, Route};

use super::answer;

/// Scheme and host under which the server was reached, to build the address of the token service.
pub(super) struct Reached {
    host: Option<HeaderValue>,
    https: bool,
    pushes: bool,
    /// Whether only headers are returned.
    pub(super) head: bool,
}

impl Reached {
    pub(super) fn of(parts: &Parts, tls: bool) -> Self {
        // A TLS-terminating proxy sets this header; a client that forges it only misleads itself.
        let forwarded = parts.headers.get("x-forwarded-proto");
        Self {
            host: parts.headers.get(HOST).cloned(),
            https: tls || forwarded.is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https")),
            pushes: !matches!(parts.method, Method::GET | Method::HEAD),
            head: parts.method == Method::HEAD,
        }
    }

    /// Returns the `WWW-Authenticate` value for a request to this path.
    pub(super) fn challenge(&self, rest: &str) -> String {
        let name = match path::parse(rest) {
            Ok(
                Route::Tags { name }
                | Route::Manifest { name, .. }
                | Route::Blob { name, .. }
                | Route::UploadStart { name }
                | Route::Upload { name, .. }
                | Route::Referrers { name, .. },
            ) => Some(name),
            _ => None,
        };
        let host = self.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        let scheme = if self.https { "https" } else { "http" };
        let actions = if self.pushes { vec![Action::Pull, Action::Push] } else { vec![Action::Pull] };
        let challenge = Challenge {
            realm: format!("{scheme}://{host}/v2/token"),
            service: host.to_owned(),
            scopes: name.map(|name| Scope::new(name, actions)).into_iter().collect(),
            problem: None,
        };
        challenge.to_string()
    }
}

/// Returns the token of a request in either form, if any.
pub(super) fn secret(headers: &HeaderMap) -> Answered<Option<String>> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let wrong = |why: &str| Refusal::new(Code::Unauthorized, why);
    let text = value.to_str().unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Some(rest.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(wrong("send a token as the password (Basic), or as a Bearer token"));
    }
    let decoded = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.ok_or_else(|| wrong("the Basic credential is invalid"))?;
    let (_, password) =
        decoded.split_once(':').ok_or_else(|| wrong("the Basic credential has no password"))?;
    Ok(Some(password.to_owned()))
}

/// Serves `/v2/token`, which clients call first.
pub(super) async fn token(
    cx: &Cx,
    guest: &Guest,
    secret: &str,
    query: &[(String, String)],
) -> Answered<Response<Body>> {
    if !matches!(guest, Guest::Actor { granted: None, .. }) {
        return Err(Refusal::new(
            Code::Denied,
            "fetch a token with a credential of your own, not with another token",
        ));
    }
    let asked = scopes(query.iter().filter(|(name, _)| name == "scope").map(|(_, value)| value.as_str()));
    let granted = Granted::new(asked.into_iter().map(|scope| {
        let words = scope.actions.iter().map(|action| action.word().to_owned()).collect();
        (scope.name.as_str().to_owned(), words)
    }));
    let token = cx.platform.registry_token(cx, secret, granted).await?;
    let body = serde_json::to_vec(&token)
        .map_err(|_| Refusal::new(Code::Unsupported, "no token").with_status(500))?;
    let mut response = answer::of(200, "application/json", Body::from(body));
    answer::set(&mut response, http::header::CACHE_CONTROL, "no-store");
    Ok(response)
}
