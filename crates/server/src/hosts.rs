//! Which names the server answers to. A page of another site, or a name that somebody points at our loopback address, must
//! not speak to the server through the user's browser.

use std::net::SocketAddr;

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use muster_api::{Code, Problem};

/// The allowed host names, lower case, without ports.
#[derive(Debug, Clone)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    pub(crate) fn new(listen: SocketAddr, named: &str) -> Self {
        let mut hosts: Vec<String> =
            named.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect();
        hosts.push(listen.ip().to_string());
        if listen.ip().is_loopback() {
            hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        }
        Self(hosts)
    }

    fn allows(&self, authority: &str) -> bool {
        let name = match authority.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
        };
        self.0.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    /// Checks `Host`, `Origin` and `Sec-Fetch-Site` of any request, whatever its method.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text =
            |name| headers.get(name).map(|value: &http::HeaderValue| value.to_str().unwrap_or_default());
        match text(HOST) {
            Some(host) if self.allows(host) => {}
            _ => {
                let detail = "the server does not answer to this name; an operator can add it to http.hosts";
                return Err(Problem::new(Code::HostNotAllowed, detail));
            }
        }
        let foreign_origin = text(ORIGIN).is_some_and(|origin| {
            let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
            !self.allows(authority)
        });
        let foreign_fetch = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
        if foreign_origin || foreign_fetch {
            return Err(Problem::new(
                Code::OriginNotAllowed,
                "requests from pages of other sites are not taken",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn rebinding_and_other_sites_are_refused() {
        let hosts = Hosts::new("127.0.0.1:7480".parse().unwrap(), "muster.example");
        for good in ["localhost:7480", "127.0.0.1", "[::1]:7480", "MUSTER.example"] {
            assert!(hosts.check(&headers(&[("host", good)])).is_ok(), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.example:7480"] {
            assert!(hosts.check(&headers(&[("host", bad)])).is_err(), "{bad}");
        }
        assert!(hosts.check(&HeaderMap::new()).is_err());
        for bad in ["https://evil.example", "null", "http://localhost.evil.example"] {
            assert!(hosts.check(&headers(&[("host", "localhost"), ("origin", bad)])).is_err(), "{bad}");
        }
        assert!(hosts.check(&headers(&[("host", "localhost"), ("origin", "http://localhost:7480")])).is_ok());
        assert!(hosts.check(&headers(&[("host", "localhost"), ("sec-fetch-site", "cross-site")])).is_err());
    }
}
