//! Connection to the platform.

use std::sync::Arc;
use std::time::Duration;

use rand::TryRng;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use url::Url;

use crate::Error;

/// One request and its response, for a watcher.
#[derive(Debug)]
pub struct Exchange<'e> {
    /// The method.
    pub method: &'e str,
    /// The whole address.
    pub url: &'e str,
    /// The status, if there was a response.
    pub status: Option<u16>,
    /// The correlation id, if there was a response.
    pub correlation_id: Option<&'e str>,
    /// The error, if there was no response.
    pub error: Option<&'e str>,
}

pub(crate) type Watcher = Arc<dyn Fn(&Exchange<'_>) + Send + Sync>;

/// Settings of a connection.
#[derive(Clone)]
pub struct Connector {
    server: String,
    token: Option<String>,
    ca: Option<Vec<u8>>,
    user_agent: String,
    watcher: Option<Watcher>,
    pause: Duration,
}

/// A connection to the platform. Cheap to clone; clones share the sockets.
#[derive(Clone)]
pub struct Connection {
    pub(crate) http: reqwest::Client,
    pub(crate) server: String,
    pub(crate) watcher: Option<Watcher>,
    pub(crate) pause: Duration,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Returns a connection with a token and default settings.
pub fn connect(server: &str, token: &str) -> Result<Connection, Error> {
    Connector::new(server).token(token).connect()
}

impl Connector {
    /// Starts with the server's address.
    pub fn new(server: &str) -> Self {
        Self {
            server: server.trim_end_matches('/').to_owned(),
            token: None,
            ca: None,
            user_agent: concat!("muster-sdk/", env!("CARGO_PKG_VERSION")).to_owned(),
            watcher: None,
            pause: Duration::from_millis(250),
        }
    }

    /// Sets the token.
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.trim().to_owned());
        self
    }

    /// Trusts only these certificate authorities (PEM).
    pub fn ca_pem(mut self, pem: Vec<u8>) -> Self {
        self.ca = Some(pem);
        self
    }

    /// Sets the user agent.
    pub fn user_agent(mut self, name: &str) -> Self {
        self.user_agent = name.to_owned();
        self
    }

    /// Sets a watcher for every request and response, without their contents.
    pub fn watch(mut self, watcher: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }

    /// Sets the delay before the first retry; it doubles with each further one.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Creates the connection; the network is first used by a call.
    pub fn connect(self) -> Result<Connection, Error> {
        let url = Url::parse(&self.server).map_err(|error| {
            Error::Setup(format!(
                "the server's address {:?} is invalid: {error}; write it as http://HOST:PORT",
                self.server
            ))
        })?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(Error::Setup(format!(
                "the server's address {:?} must begin with http:// or https://",
                self.server
            )));
        }
        // No overall timeout: streams last for hours. A minute of silence means a dead connection, because servers send
        // four keep-alives a minute. Redirects are not followed: a token must not be sent to an unintended host.
        let mut builder = reqwest::Client::builder()
            .user_agent(&self.user_agent)
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(Duration::from_secs(60))
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(self.headers()?);
        if let Some(pem) = &self.ca {
            let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| {
                Error::Setup(format!("the certificate authorities cannot be read: {error}"))
            })?;
            builder = builder.tls_certs_only(certificates);
        } else if url.scheme() == "http" {
            // The system's certificate authorities are not needed, and loading them takes longer than a call.
            builder = builder.tls_certs_only([]);
        }
        if is_loopback(&url) {
            // Loopback never uses a proxy, regardless of the environment.
            builder = builder.no_proxy();
        }
        let http =
            builder.build().map_err(|error| Error::Setup(format!("no client can be created: {error}")))?;
        Ok(Connection { http, server: self.server, watcher: self.watcher, pause: self.pause })
    }

    fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::Setup("the token contains invalid characters".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }
}

impl Connection {
    /// Returns the HTTP client, for requests beside the API with the same credential.
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Returns the server's address.
    pub fn server(&self) -> &str {
        &self.server
    }
}

/// Reports whether an address is on this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Returns a unique idempotency key: 128 random bits from the operating system.
pub fn fresh_key() -> String {
    let mut bytes = [0_u8; 16];
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).expect("the operating system can always give random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_called_are_refused_with_the_right_form() {
        for wrong in ["", "localhost:7480", "127.0.0.1", "ftp://host"] {
            let Err(Error::Setup(why)) = connect(wrong, "t") else { panic!("{wrong:?} was taken") };
            assert!(why.contains("http://"), "{why}");
        }
        assert!(connect("http://127.0.0.1:7480/", "t").is_ok());
    }

    #[test]
    fn a_token_with_a_line_end_is_taken_and_one_with_a_line_inside_is_not() {
        assert!(connect("http://[::1]:7480", "mst_pat_x\n").is_ok());
        assert!(matches!(connect("http://[::1]:7480", "mst\npat"), Err(Error::Setup(_))));
    }

    #[test]
    fn keys_differ() {
        assert_ne!(fresh_key(), fresh_key());
        assert_eq!(fresh_key().len(), 32);
    }
}
