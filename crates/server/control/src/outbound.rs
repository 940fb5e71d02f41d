//! Calls to URLs supplied by tenants. The name is resolved once and only public addresses are connected to, so that neither
//! a private address nor DNS rebinding reaches into the operator's network.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use muster_api::Code;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::{Error, Result};

/// Reports whether an address is on the public internet. IPv6 is an allow list: 2000::/3 is public, except for the blocks
/// inside of it that embed an IPv4 address or serve a special purpose.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_broadcast()
                || v4.is_documentation()
                || v4.is_multicast()
                || a == 0
                || a >= 240
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && c == 0)
                || (a == 192 && b == 88 && c == 99)
                || (a == 198 && (18..20).contains(&b)))
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public(IpAddr::V4(v4)),
            None => {
                let [first, second, ..] = v6.segments();
                (first & 0xe000) == 0x2000
                    // Protocol assignments (Teredo and others), documentation, 6to4.
                    && !(first == 0x2001 && second < 0x200)
                    && !(first == 0x2001 && second == 0xdb8)
                    && first != 0x2002
                    && !(first == 0x3fff && second < 0x1000)
            }
        },
    }
}

/// Validates a URL before it is stored; every call validates it again when its name is resolved.
pub fn check_url(text: &str, private: bool) -> Result<Url> {
    let refused = |why: &str| Error::new(Code::UrlNotAllowed, why);
    let url = Url::parse(text).map_err(|error| Error::field("/url", format!("not a URL: {error}")))?;
    if url.scheme() != "https" && !(private && url.scheme() == "http") {
        return Err(refused("only https URLs are called"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused(
            "a URL with a password would expose it to all readers of the webhook: remove it",
        ));
    }
    let inside = match url.host() {
        None => return Err(refused("the URL names no host")),
        Some(Host::Domain(name)) => {
            name == "localhost" || name.ends_with(".localhost") || name.ends_with(".internal")
        }
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
    };
    if inside && !private {
        return Err(refused("addresses inside the operator's network are not called"));
    }
    Ok(url)
}

/// Returns the part of a URL for audit and events: the path of many receivers is a secret.
pub(crate) fn host(url: &str) -> String {
    Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

struct PublicOnly {
    private: bool,
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| private || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err("the name resolves to no public address".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Returns the client for such calls: no redirects, no proxy, and timeouts.
pub fn client(private: bool) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .dns_resolver(Arc::new(PublicOnly { private }))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(5))
        .timeout(Duration::from_secs(10))
        .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Returns the client for long transfers: the timeout applies to each read.
pub(crate) fn streaming_client(private: bool) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .dns_resolver(Arc::new(PublicOnly { private }))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(Duration::from_secs(30))
        .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_to_an_internal_address_is_refused() {
        for bad in [
            "http://hooks.example/x",
            "https://127.0.0.1/x",
            "https://[::1]/x",
            "https://[::ffff:10.0.0.1]/x",
            "https://169.254.169.254/latest/meta-data",
            "https://10.1.2.3/",
            "https://100.64.0.1/",
            "https://0.0.0.0/",
            "https://localhost/x",
            "https://metadata.google.internal/",
            "https://user:pass@hooks.example/",
            "file:///etc/passwd",
            "gopher://x/",
            "not a url",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://192.0.0.8/",
            "https://192.88.99.1/",
            "https://[fec0::1]/",
            "https://[2002:a00:1::]/",
            "https://[::10.0.0.1]/",
            "https://[2001::1]/",
            "https://[100::1]/",
            "https://[5f00::1]/",
            "https://[64:ff9b::a00:1]/",
            "https://[3fff::1]/",
        ] {
            assert!(check_url(bad, false).is_err(), "{bad}");
        }
        assert!(check_url("https://hooks.example/x?y=1", false).is_ok());
        assert!(check_url("https://[2600:1901::1]/", false).is_ok());
        assert!(check_url("https://[2001:4860:4860::8888]/", false).is_ok());
        assert!(check_url("http://127.0.0.1:9/x", true).is_ok());
    }
}
