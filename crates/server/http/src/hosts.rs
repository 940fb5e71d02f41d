//! Host names that the server accepts. A page of another site, or a foreign name that resolves to our loopback address
//! (DNS rebinding), must not reach the server through the user's browser.

use std::net::SocketAddr;

use muster_control::{Error, Result};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};
use muster_api::Code;

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
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<()> {
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(Error::new(Code::MalformedRequest, "the request names its host twice"));
        }
        let text =
            |name| headers.get(name).map(|value: &http::HeaderValue| value.to_str().unwrap_or_default());
        match text(HOST) {
            // A request may also name its host in the request line, which then takes precedence.
            Some(host)
                if self.allows(host)
                    && uri.authority().is_none_or(|authority| self.allows(authority.as_str())) => {}
            _ => {
                let detail = "the server does not serve this host name; an operator can add it to http.hosts";
                return Err(Error::new(Code::HostNotAllowed, detail));
            }
        }
        let foreign_origin = text(ORIGIN).is_some_and(|origin| {
            let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
            // Another port is another origin; without a port it is the name of a TLS-terminating proxy.
            let is_same = text(HOST).is_some_and(|host| host.eq_ignore_ascii_case(authority));
            let is_default_port = !authority.ends_with(']') && !authority.contains(':');
            !(is_same || is_default_port && self.allows(authority))
        });
        let foreign_fetch = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
        if foreign_origin || foreign_fetch {
            return Err(Error::new(
                Code::OriginNotAllowed,
                "requests from pages of other sites are rejected",
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
        let check = |headers: &HeaderMap| hosts.check(headers, &Uri::from_static("/v1/whoami"));
        for good in ["localhost:7480", "127.0.0.1", "[::1]:7480", "MUSTER.example"] {
            assert!(check(&headers(&[("host", good)])).is_ok(), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.example:7480"] {
            assert!(check(&headers(&[("host", bad)])).is_err(), "{bad}");
        }
        assert!(check(&HeaderMap::new()).is_err());
        let from = |origin: &str| check(&headers(&[("host", "localhost:7480"), ("origin", origin)]));
        for bad in ["https://evil.example", "null", "http://localhost.evil.example", "http://localhost:9999"]
        {
            assert!(from(bad).is_err(), "{bad}");
        }
        for good in ["http://localhost:7480", "https://muster.example"] {
            assert!(from(good).is_ok(), "{good}");
        }
        assert!(check(&headers(&[("host", "localhost"), ("sec-fetch-site", "cross-site")])).is_err());
    }

    #[test]
    fn a_request_names_one_host_in_one_way() {
        let hosts = Hosts::new("127.0.0.1:7480".parse().unwrap(), "");
        let mut twice = headers(&[("host", "localhost")]);
        twice.append("host", "localhost".parse().unwrap());
        let plain = Uri::from_static("/v1/whoami");
        assert_eq!(hosts.check(&twice, &plain).unwrap_err().code, Code::MalformedRequest);
        let once = headers(&[("host", "localhost")]);
        assert!(hosts.check(&once, &Uri::from_static("http://evil.example/v1/whoami")).is_err());
        assert!(hosts.check(&once, &Uri::from_static("http://localhost:7480/v1/whoami")).is_ok());
    }
}
