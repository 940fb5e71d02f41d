//! Address of the server's listener for nodes.

use std::fmt;
use std::str::FromStr;

use rustls_pki_types::ServerName;

use crate::AgentError;

/// Address of a server's listener for nodes: `https://HOST:PORT` without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Returns the host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(crate) fn server_name(&self) -> Result<ServerName<'static>, AgentError> {
        ServerName::try_from(self.host.clone()).map_err(|_| {
            AgentError::Refused(format!("{} is not a name that a certificate can have", self.host))
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority())
    }
}

impl FromStr for Address {
    type Err = AgentError;

    fn from_str(text: &str) -> Result<Self, AgentError> {
        let wrong = || {
            AgentError::Refused(format!("{text:?} is not the address of a server: write https://HOST:PORT"))
        };
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let (Some("https"), Some(host), Some(port)) = (uri.scheme_str(), uri.host(), uri.port_u16()) else {
            return Err(wrong());
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || text.contains('@') {
            return Err(wrong());
        }
        Ok(Self { host: host.trim_matches(['[', ']']).to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn an_address_is_a_host_and_a_port_over_https() {
        for text in ["https://nodes.example:7481", "https://127.0.0.1:1", "https://[::1]:7481"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert!(address.server_name().is_ok());
        }
        for wrong in [
            "",
            "nodes.example:7481",
            "http://a:1",
            "https://a",
            "https://a:1/b",
            "https://a:1?b",
            "https://u@a:1",
        ] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
