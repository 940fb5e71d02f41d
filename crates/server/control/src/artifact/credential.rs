//! Credentials for external registries.
//!
//! A secret is sent only to the one registry that it was created for, never to an address named by a publisher or a
//! registry: permission to publish artifacts must not give access to the project's secrets. Each use is audited before the
//! credential is sent.
use muster_authz::Permission;
use muster_db::ExternalSource;
use muster_ids::SecretId;
use muster_model::audit::Actor;
use muster_model::event::EventType;
use muster_model::origin::Audited;
use muster_model::secret::ProjectSecret;
use muster_model::{Record as _, Scope};
use serde_json::json;
use zeroize::Zeroizing;

use super::external::failed;
use crate::{Cx, Error, Result};

/// A registry's host and port, normalized for comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegistryHost(String);

impl RegistryHost {
    /// Parses `HOST` or `HOST:PORT`. Rejects anything else that a URL may hold.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if host.len() > 253 || !host.split('.').all(is_label) {
            return None;
        }
        let host = host.to_ascii_lowercase();
        match port {
            None => Some(Self(host)),
            Some(port) => {
                let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                let port = digits.then(|| port.parse::<u16>().ok()).flatten().filter(|port| *port > 0)?;
                Some(Self(if port == 443 { host } else { format!("{host}:{port}") }))
            }
        }
    }

    /// Returns the normalized form.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether it is a loopback address.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.0.split(':').next().unwrap_or_default();
        host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
    }
}

/// A secret that may be sent to a registry.
pub(super) struct Credential {
    secret: ProjectSecret,
    text: Zeroizing<String>,
    is_audited: bool,
}

/// Returns the secret of this name, if the actor may have it sent to this registry.
pub(super) async fn usable(cx: &Cx, scope: Scope, name: &str, registry: &RegistryHost) -> Result<SecretId> {
    cx.authorize(Permission::SecretUse, scope, "secret")?;
    let project = scope.project().ok_or_else(|| Error::not_found("project"))?;
    let found = cx.platform.store.find_by_name::<ProjectSecret>(project, name).await?;
    let found = found.ok_or_else(|| Error::field("/external/secret", "the project has no such secret"))?;
    ensure_for(&found, registry).map_err(|why| Error::field("/external/secret", why))?;
    Ok(found.id)
}

fn ensure_for(secret: &ProjectSecret, registry: &RegistryHost) -> Result<(), String> {
    let asked = registry.as_str();
    match &secret.registry {
        Some(named) if named == asked => Ok(()),
        Some(named) => Err(format!("the secret {} is for {named}, and is not sent to {asked}", secret.name)),
        None => Err(format!(
            "the secret {} is for no registry: create one for it: `muster secret create NAME --registry {asked} --from-file FILE`",
            secret.name
        )),
    }
}

impl Credential {
    /// Opens the secret of a source. Verifies again that it is for this registry.
    pub(super) async fn open(cx: &Cx, scope: Scope, id: SecretId, registry: &RegistryHost) -> Result<Self> {
        let platform = &cx.platform;
        let secret = platform.store.find::<ProjectSecret>(id).await?;
        let secret = secret
            .filter(|secret| secret.scope() == scope)
            .ok_or_else(|| failed("the secret for reading it no longer exists"))?;
        ensure_for(&secret, registry).map_err(failed)?;
        let context = ProjectSecret::context(secret.id, secret.revision);
        let plain = platform.envelope.open(&platform.store, &scope.chain(), &context, &secret.sealed).await?;
        let text = std::str::from_utf8(&plain).ok().map(str::trim).filter(|text| text.contains(':'));
        let text = text.ok_or_else(|| failed("the secret must have the form `user:password`"))?.to_owned();
        Ok(Self { secret, text: Zeroizing::new(text), is_audited: false })
    }

    /// Returns the credential, after its use has been audited.
    pub(super) async fn reveal(&mut self, cx: &Cx, source: &ExternalSource) -> Result<&str> {
        if !self.is_audited {
            record_use(cx, &self.secret, source).await?;
            self.is_audited = true;
        }
        Ok(&self.text)
    }
}

async fn record_use(cx: &Cx, secret: &ProjectSecret, source: &ExternalSource) -> Result<()> {
    let (platform, scope) = (&cx.platform, secret.scope());
    let data = json!({"name": secret.name, "secret_id": secret.id, "revision": secret.revision,
        "registry": source.registry, "repository": source.repository});
    let mut origin = cx.origin(scope);
    // Without an actor, a node pulled a layer and the platform fetches it.
    if cx.actor.is_none() {
        origin.actor = Actor::platform("platform");
    }
    let audited = Audited::success("secret.use", secret.target(), data.clone());
    let mut tx = platform.store.begin().await?;
    tx.outbox_append(
        &platform.env,
        &origin,
        Some(audited),
        vec![(EventType::SecretUsed, secret.path(), data)],
    )
    .await?;
    tx.commit().await?;
    platform.sealer_wake.notify_one();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_a_host_with_a_port_and_nothing_else() {
        for (text, expected) in [
            ("registry.example", "registry.example"),
            ("Registry.Example:443", "registry.example"),
            ("registry.example:5000", "registry.example:5000"),
            ("127.0.0.1:5000", "127.0.0.1:5000"),
            ("a-b", "a-b"),
        ] {
            assert_eq!(RegistryHost::parse(text).map(|host| host.0).as_deref(), Some(expected), "{text}");
        }
        for bad in [
            "",
            ".",
            "example.com#@127.0.0.1",
            "user@example.com",
            "user:password@example.com",
            "example.com/path",
            "example.com?x",
            "example.com\\x",
            "example.com:0",
            "example.com:",
            "example.com:66000",
            "example.com:80:80",
            "example..com",
            "example.com.",
            "-a.example",
            "[::1]",
            " example.com",
            "exämple.com",
            "http://example.com",
        ] {
            assert_eq!(RegistryHost::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_an_address_is_loopback() {
        let is_loopback = |text: &str| RegistryHost::parse(text).unwrap().is_loopback();
        assert!(is_loopback("127.0.0.1:5000") && is_loopback("127.9.9.9"));
        assert!(
            !is_loopback("127.evil.example")
                && !is_loopback("127.0.0.1.evil.example:80")
                && !is_loopback("10.0.0.1")
        );
    }
}
