//! The server's registry as a node uses it: one repository, with a token issued for one cell.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue};
use muster_wire::act::CellTarget;
use muster_wire::task::Refusal;
use muster_wire::wire::SecretWhat;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::ask::ask;
use super::connection::{Answer, RegistryConnection};
use super::given::Token;
use super::persist::{Persistence, said};
use crate::driver::Undone;
use crate::link::CallError;
use crate::node::Running;

/// Manifest types that a node can read.
const DOCUMENTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.docker.distribution.manifest.v2+json";
/// Maximum size of an error body.
const EXPLANATION: u64 = 64 << 10;

pub(super) struct Registry<'n> {
    pub(super) node: &'n Running,
    pub(super) repository: &'n str,
    cell: CellTarget,
    /// Current token, if requested, and its number.
    token: Mutex<(u64, Option<Token>)>,
    /// Whether any token was ever accepted. If none was, a new one would not help.
    opened: AtomicBool,
}

impl<'n> Registry<'n> {
    pub(super) fn new(node: &'n Running, cell: CellTarget, repository: &'n str) -> Result<Self, Undone> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(plain);
        if !repository.split('/').all(part) {
            let why = format!("invalid repository name {repository:?}");
            return Err(Undone::because(Refusal::ArtifactPull, why));
        }
        let (token, opened) = (Mutex::new((0, None)), AtomicBool::new(false));
        Ok(Self { node, repository, cell, token, opened })
    }

    /// Returns the token. It is requested on first use, and again if `stale` is the current one.
    pub(super) async fn token(&self, stale: Option<u64>) -> Result<(u64, Token), CallError> {
        let mut held = self.token.lock().await;
        if let (number, Some(token)) = &*held
            && stale != Some(*number)
        {
            return Ok((*number, token.clone()));
        }
        let told = ask(self.node, self.cell, SecretWhat::ArtifactPull).await?;
        let token = Token::read(&told);
        let token = token.ok_or_else(|| CallError::Strange("its response is not a token".to_owned()))?;
        *held = (held.0 + 1, Some(token.clone()));
        Ok((held.0, token))
    }

    /// Requests an object of the repository. Returns only successful responses.
    pub(super) async fn get(
        &self,
        line: &mut RegistryConnection,
        what: &str,
        headers: &HeaderMap,
    ) -> Result<Answer, CallError> {
        let mut stale = None;
        loop {
            let (number, token) = self.token(stale).await?;
            let mut headers = headers.clone();
            headers.insert(AUTHORIZATION, token.header());
            let answer = line.get(&format!("/v2/{}/{what}", self.repository), headers).await?;
            if (200..300).contains(&answer.status) {
                self.opened.store(true, Ordering::Relaxed);
                return Ok(answer);
            }
            let status = answer.status;
            // A token can expire during a long pull.
            if status == 401 && stale.is_none() && self.opened.load(Ordering::Relaxed) {
                stale = Some(number);
                continue;
            }
            let body = line.whole(answer, EXPLANATION).await?;
            return Err(refused(status, &body));
        }
    }

    /// Reads a complete object; none if it does not exist.
    pub(super) async fn lookup(
        &self,
        line: &mut RegistryConnection,
        what: &str,
        most: u64,
    ) -> Result<Option<Bytes>, CallError> {
        match self.read(line, what, most).await {
            Err(CallError::Refused { status: 404, .. }) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Reads a complete object, with retries.
    pub(super) async fn read(
        &self,
        line: &mut RegistryConnection,
        what: &str,
        most: u64,
    ) -> Result<Bytes, CallError> {
        let mut persistence = Persistence::new(&self.node.env);
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(DOCUMENTS))]);
        loop {
            let answer = match self.get(line, what, &headers).await {
                Ok(answer) => line.whole(answer, most).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(bytes) => return Ok(bytes),
                Err(error) => persistence.pause_after(error).await?,
            }
        }
    }

    /// Returns the error for an image that cannot be pulled.
    pub(super) fn failed(&self, error: &CallError) -> Undone {
        let why = format!("the image could not be pulled from {}: {}", self.repository, said(error));
        Undone::because(Refusal::ArtifactPull, why)
    }
}

/// Parses an error, in the registry's format or as a problem document from the server in front of it.
fn refused(status: u16, body: &[u8]) -> CallError {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Said>,
    }
    #[derive(Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Said {
        code: String,
        message: String,
    }
    match serde_json::from_slice::<Errors>(body) {
        Ok(mut errors) if !errors.errors.is_empty() => {
            let Said { code, message } = errors.errors.swap_remove(0);
            CallError::Refused { status, code, detail: message }
        }
        _ => CallError::refused(status, body),
    }
}
