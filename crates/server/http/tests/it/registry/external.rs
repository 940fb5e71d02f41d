//! External registries: where a project's secrets are sent, how declared sizes are treated, and how often content is
//! downloaded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use muster_testkit::{Client, Database, Fixture, Kit};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Image, MANIFEST, Remote, descriptor, digest};
use crate::secret::account;

/// Content of the credential.
const CREDENTIAL: &str = "reader:let me in";

/// A registry's response to a path.
#[derive(Clone, Default)]
struct Says {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    wait: Duration,
}

/// A path, and the credential sent with it.
type AskedFor = (String, Option<String>);

/// A registry with scripted responses that records requests and their credentials.
#[derive(Clone, Default)]
struct Elsewhere {
    host: String,
    message: Arc<Mutex<HashMap<String, Says>>>,
    /// Path and `Authorization`.
    asked: Arc<Mutex<Vec<AskedFor>>>,
    /// Header required to read content.
    wants: Arc<Mutex<Option<(String, String)>>>,
}

impl Elsewhere {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let registry = Self { host: listener.local_addr().unwrap().to_string(), ..Self::default() };
        let shared = registry.clone();
        let app = Router::new().fallback(move |request: Request<Body>| {
            let shared = shared.clone();
            let shown = request.headers().get("authorization").and_then(|value| value.to_str().ok());
            let (path, shown) = (request.uri().path().to_owned(), shown.map(str::to_owned));
            async move { shared.answer(path, shown).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        registry
    }

    async fn answer(&self, path: String, shown: Option<String>) -> Response<Body> {
        self.asked.lock().push((path.clone(), shown.clone()));
        let wants = self.wants.lock().clone();
        if let Some((header, challenge)) = wants.filter(|_| path.starts_with("/v2/"))
            && shown != Some(header)
        {
            let response = Response::builder().status(401).header("www-authenticate", challenge);
            return response.body(Body::empty()).unwrap();
        }
        let says = self.message.lock().get(&path).cloned();
        let Some(says) = says else { return Response::builder().status(404).body(Body::empty()).unwrap() };
        tokio::time::sleep(says.wait).await;
        let mut response = Response::builder().status(says.status);
        for (name, value) in says.headers {
            response = response.header(name, value);
        }
        response.body(Body::from(says.body)).unwrap()
    }

    fn say(&self, path: &str, body: &[u8]) {
        let says = Says { status: 200, body: body.to_vec(), ..Says::default() };
        self.message.lock().insert(path.to_owned(), says);
    }

    /// Adds an image under `library/app`.
    fn has(&self, image: &Image) {
        self.say(&format!("/v2/library/app/manifests/{}", image.digest()), &image.manifest);
        for bytes in [&image.config, &image.layer] {
            self.say(&format!("/v2/library/app/blobs/{}", digest(bytes)), bytes);
        }
    }

    fn basic() -> String {
        format!("Basic {}", STANDARD.encode(CREDENTIAL))
    }

    /// Counts the requests for a path.
    fn times(&self, path: &str) -> usize {
        self.asked.lock().iter().filter(|(asked, _)| asked.ends_with(path)).count()
    }

    /// Returns the credentials it received.
    fn shown(&self) -> Vec<String> {
        self.asked.lock().iter().filter_map(|(_, shown)| shown.clone()).collect()
    }
}

struct Site {
    kit: Kit,
    fixture: Fixture,
    admin: Client,
    base: String,
}

impl Site {
    async fn new(database: Database) -> Self {
        let kit = Kit::start_with(database, 1, &[("registry.allow_private", "true")]).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "project_admin");
        let base = format!("/v1/projects/{}", fixture.id("train"));
        Self { kit, fixture, admin, base }
    }

    async fn secret(&self, name: &str, registry: Option<&str>) -> Value {
        let body = json!({"name": name, "value": CREDENTIAL, "registry": registry});
        let body = match registry {
            Some(_) => body,
            None => json!({"name": name, "value": CREDENTIAL}),
        };
        self.admin.post(&format!("{}/secrets", self.base), body).await.ok().body
    }

    async fn publish(
        &self,
        by: &Client,
        at: &str,
        digest: &str,
        secret: Option<&str>,
    ) -> muster_testkit::Answer {
        let mut external = json!({"registry": at, "repository": "library/app"});
        if let Some(secret) = secret {
            external["secret"] = json!(secret);
        }
        let body = json!({"repository": "outside", "reference": digest, "external": external});
        by.post(&format!("{}/artifacts", self.base), body).await
    }

    async fn audited(&self, action: &str) -> Vec<Value> {
        self.kit.sealed().await;
        let admin = self.fixture.client(&self.kit, "tenant_admin");
        let records = crate::property::chain(&admin, "acme").await.unwrap();
        records.into_iter().filter(|record| record["action"] == action).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_sent_to_no_registry_but_the_one_it_is_for() {
    for database in Database::both() {
        let site = Site::new(database).await;
        let (good, evil) = (Elsewhere::start().await, Elsewhere::start().await);
        let image = Image::of("one");
        for registry in [&good, &evil] {
            registry.has(&image);
            *registry.wants.lock() = Some((Elsewhere::basic(), "Basic realm=\"x\"".to_owned()));
        }
        assert_eq!(site.secret("reader", Some(&good.host)).await["registry"], json!(good.host));
        site.secret("prod-db", None).await;
        for secret in ["reader", "prod-db"] {
            let refused = site.publish(&site.admin, &evil.host, &image.digest(), Some(secret)).await;
            refused.refused(400, "invalid_request");
        }
        assert_eq!(evil.asked.lock().len(), 0, "it was not even called");
        assert!(site.audited("secret.use").await.is_empty());
        site.publish(&site.admin, &good.host, &image.digest(), Some("reader")).await.ok();
        assert!(good.shown().iter().all(|shown| *shown == Elsewhere::basic()) && !good.shown().is_empty());
        let uses = site.audited("secret.use").await;
        assert_eq!(uses.len(), 1, "{uses:#?}");
        assert_eq!(uses[0]["detail"]["registry"], json!(good.host));
        assert_eq!(uses[0]["target"]["name"], "reader");
        // A layer pulled later is fetched with it too, and audited.
        let remote = Remote::new(&site.kit, 0, site.fixture.token("project_admin"), "acme.train/outside");
        remote.pulls(&image).await.unwrap();
        assert_eq!(site.audited("secret.use").await.len(), 2);
        site.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_sent_only_after_a_challenge_and_to_no_other_realm() {
    let site = Site::new(Database::sqlite()).await;
    let (registry, other) = (Elsewhere::start().await, Elsewhere::start().await);
    let image = Image::of("one");
    registry.has(&image);
    site.secret("reader", Some(&registry.host)).await;
    site.publish(&site.admin, &registry.host, &image.digest(), Some("reader")).await.ok();
    assert!(registry.shown().is_empty(), "it asked for no credential: {:?}", registry.shown());
    // A realm on another host does not receive the credential.
    let bearer = |host: &str| format!("Bearer realm=\"http://{host}/token\",service=\"x\"");
    for host in [&other, &registry] {
        host.say("/token", br#"{"token": "short-lived"}"#);
    }
    let next = Image::of("two");
    registry.has(&next);
    *registry.wants.lock() = Some(("Bearer short-lived".to_owned(), bearer(&other.host)));
    let refused = site.publish(&site.admin, &registry.host, &next.digest(), Some("reader")).await;
    let refused = refused.refused(502, "external_registry");
    assert!(refused.text.contains("the secret is only for"), "{}", refused.text);
    assert!(other.asked.lock().is_empty() && registry.shown().is_empty());
    // Without a credential any token service may be used; with one, only the registry's own.
    site.publish(&site.admin, &registry.host, &next.digest(), None).await.ok();
    assert_eq!(other.shown(), Vec::<String>::new());
    *registry.wants.lock() = Some(("Bearer short-lived".to_owned(), bearer(&registry.host)));
    site.publish(&site.admin, &registry.host, &next.digest(), Some("reader")).await.ok();
    assert!(registry.shown().contains(&Elsewhere::basic()));
    site.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_permission_does_not_include_use_of_a_secret() {
    let site = Site::new(Database::sqlite()).await;
    let registry = Elsewhere::start().await;
    let image = Image::of("one");
    registry.has(&image);
    site.secret("reader", Some(&registry.host)).await;
    let publisher = account(&site.kit, &site.fixture, "publisher", &["artifact.publish"]).await;
    let refused = site.publish(&publisher, &registry.host, &image.digest(), Some("reader")).await;
    refused.refused(403, "permission_denied");
    site.publish(&publisher, &registry.host, &image.digest(), None).await.ok();
    let both = account(&site.kit, &site.fixture, "both", &["artifact.publish", "secret.use"]).await;
    site.publish(&both, &registry.host, &image.digest(), Some("reader")).await.ok();
    site.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_is_named_by_host_and_port_alone() {
    let site = Site::new(Database::sqlite()).await;
    for name in
        ["example.com#@127.0.0.1", "user@127.0.0.1", "127.0.0.1/x", "127.0.0.1?x", "[::1]:80", "a b", ""]
    {
        let refused = site.publish(&site.admin, name, &digest(b"x"), None).await;
        refused.refused(400, "invalid_request");
        let body = json!({"name": "s", "value": CREDENTIAL, "registry": name});
        site.admin.post(&format!("{}/secrets", site.base), body).await.refused(400, "invalid_request");
    }
    site.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_one_tenant_declares_is_no_other_tenants_trouble() {
    for database in Database::both() {
        let site = Site::new(database).await;
        let registry = Elsewhere::start().await;
        let image = Image::of("one");
        registry.has(&image);
        site.publish(&site.admin, &registry.host, &image.digest(), None).await.ok();
        // Another tenant's manifest claims that the same layer has one byte.
        let mut layer = descriptor("application/vnd.oci.image.layer.v1.tar", &image.layer);
        layer["size"] = json!(1);
        let lie = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer],
            "config": descriptor("application/vnd.oci.image.config.v1+json", &image.config),
        });
        let lie = lie.to_string().into_bytes();
        registry.say(&format!("/v2/library/app/manifests/{}", digest(&lie)), &lie);
        let other = site.fixture.client(&site.kit, "other_tenant_admin");
        let body = json!({"repository": "outside", "reference": digest(&lie),
                          "external": {"registry": registry.host, "repository": "library/app"}});
        other.post(&format!("/v1/projects/{}/artifacts", site.fixture.id("lab")), body).await.ok();
        let remote = Remote::new(&site.kit, 0, site.fixture.token("project_admin"), "acme.train/outside");
        remote.pulls(&image).await.unwrap();
        site.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_many_ask_for_at_once_is_downloaded_once() {
    let site = Site::new(Database::sqlite()).await;
    let registry = Elsewhere::start().await;
    let image = Image::of("one");
    registry.has(&image);
    site.publish(&site.admin, &registry.host, &image.digest(), None).await.ok();
    let path = format!("/blobs/{}", digest(&image.layer));
    for (at, says) in registry.message.lock().iter_mut() {
        if at.ends_with(&path) {
            says.wait = Duration::from_millis(500);
        }
    }
    let remote = Remote::new(&site.kit, 0, site.fixture.token("project_admin"), "acme.train/outside");
    let pulls = (0..10).map(|_| remote.pulls(&image));
    for pulled in futures::future::join_all(pulls).await {
        pulled.unwrap();
    }
    assert_eq!(registry.times(&path), 1);
    site.kit.stop().await;
}

/// Attack: an index of the most manifests, each of the largest size, which would take hundreds of megabytes in one request.
#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_of_an_external_index_are_bounded_together() {
    let site = Site::new(Database::sqlite()).await;
    let registry = Elsewhere::start().await;
    let mut children = Vec::new();
    for at in 0..5 {
        let mut manifest = Image::of(&format!("large{at}")).manifest;
        manifest.resize(2 << 20, b' ');
        registry.say(&format!("/v2/library/app/manifests/{}", digest(&manifest)), &manifest);
        children.push(descriptor(MANIFEST, &manifest));
    }
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                       "manifests": children});
    let index = index.to_string().into_bytes();
    registry.say(&format!("/v2/library/app/manifests/{}", digest(&index)), &index);
    let refused = site.publish(&site.admin, &registry.host, &digest(&index), None).await;
    let refused = refused.refused(502, "external_registry");
    assert!(refused.text_of("detail").contains("8 MiB"), "{}", refused.text);
    assert_eq!(registry.times(""), 5, "it stops at the manifest that is too much");
    site.kit.stop().await;
}
