//! How a program comes to speak with the platform.

use std::sync::Arc;
use std::time::Duration;

use rand::TryRng;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use url::Url;

use crate::{Client, Error};

/// One request and what came back, for whoever wants to watch.
#[derive(Debug)]
pub struct Exchange<'e> {
    /// The method.
    pub method: &'e str,
    /// The whole address.
    pub url: &'e str,
    /// The status, if an answer came.
    pub status: Option<u16>,
    /// The correlation id, if an answer came.
    pub correlation_id: Option<&'e str>,
    /// Why none came.
    pub error: Option<&'e str>,
}

pub(crate) type Watcher = Arc<dyn Fn(&Exchange<'_>) + Send + Sync>;

/// The settings of a connection.
#[derive(Clone)]
pub struct Connector {
    server: String,
    token: Option<String>,
    ca: Option<Vec<u8>>,
    user_agent: String,
    watcher: Option<Watcher>,
    pause: Duration,
}

/// A platform that can be called. Cheap to clone; clones share the sockets.
#[derive(Clone)]
pub struct Connection {
    /// The typed client.
    pub client: Client,
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

/// A connection with a token and otherwise the usual settings.
pub fn connect(server: &str, token: &str) -> Result<Connection, Error> {
    Connector::new(server).token(token).connect()
}

impl Connector {
    /// To the server at this address.
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

    /// With a token.
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.trim().to_owned());
        self
    }

    /// Trusting these certificate authorities (PEM), and no others.
    pub fn ca_pem(mut self, pem: Vec<u8>) -> Self {
        self.ca = Some(pem);
        self
    }

    /// Under this name.
    pub fn user_agent(mut self, name: &str) -> Self {
        self.user_agent = name.to_owned();
        self
    }

    /// With somebody who sees every request and answer, without their contents.
    pub fn watch(mut self, watcher: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }

    /// Waiting this long before the first repetition of a call, twice as long before the next.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Makes the connection; the network is used at the first call.
    pub fn connect(self) -> Result<Connection, Error> {
        let url = Url::parse(&self.server).map_err(|error| {
            Error::Setup(format!(
                "the server's address {:?} cannot be read: {error}; write it as http://HOST:PORT",
                self.server
            ))
        })?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(Error::Setup(format!(
                "the server's address {:?} must begin with http:// or https://",
                self.server
            )));
        }
        // No overall timeout: streams last for hours. What is silent for a minute is gone, because they send a sign of
        // life four times a minute. Redirects are not followed: a token must not travel to where it was not meant.
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
            // The machine's certificate authorities are not needed, and reading them takes longer than a call.
            builder = builder.tls_certs_only([]);
        }
        if is_loopback(&url) {
            // What is on this machine is never asked for through a proxy, whatever the environment says.
            builder = builder.no_proxy();
        }
        let http =
            builder.build().map_err(|error| Error::Setup(format!("no client can be made: {error}")))?;
        Ok(Connection {
            client: Client::new_with_client(&self.server, http.clone()),
            http,
            server: self.server,
            watcher: self.watcher,
            pause: self.pause,
        })
    }

    fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::Setup("the token holds characters that no token has".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }
}

impl Connection {
    /// Where it goes.
    pub fn server(&self) -> &str {
        &self.server
    }
}

/// Whether an address is on this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// An idempotency key that nobody else will use: 128 bits from the operating system.
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
