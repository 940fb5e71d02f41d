//! Artifacts over real HTTP: publication, promotion and the signatures it needs, supersession, and holds.

mod cells;
mod crowd;
mod property;
mod publish;
mod references;
mod steps;
mod supersede;

use muster_testkit::{Answer, Client, Database, Fixture, Kit};
use muster_trust::{Attachment, Descriptor, Digest, PrivateKey, bundle, simple};
use serde_json::{Value, json};

use crate::registry::{Image, MANIFEST, Remote};

/// A platform with people, and artifacts in the repository `base` of the project `acme.train`.
struct Shelf {
    kit: Kit,
    fixture: Fixture,
    admin: Client,
    /// The project's path.
    base: String,
    remote: Remote,
}

impl Shelf {
    async fn new(database: Database) -> Self {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "project_admin");
        let base = format!("/v1/projects/{}", fixture.id("train"));
        let remote = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        Self { kit, fixture, admin, base, remote }
    }

    fn path(&self, reference: &str) -> String {
        format!("{}/artifacts/{reference}", self.base)
    }

    /// Pushes an image under a tag; returns the resulting artifact.
    async fn pushed(&self, word: &str) -> String {
        self.remote.push(word, &Image::of(word)).await.is(201);
        self.shown(&format!("base:{word}")).await["id"].as_str().unwrap().to_owned()
    }

    async fn shown(&self, reference: &str) -> Value {
        self.admin.get(&self.path(reference)).await.ok().body
    }

    async fn state(&self, reference: &str) -> String {
        self.shown(reference).await["state"].as_str().unwrap().to_owned()
    }

    async fn promote(&self, id: &str, to: &str) -> Answer {
        let body = json!({"to": to, "reason": format!("to {to}")});
        self.admin.post(&format!("{}/promote", self.path(id)), body).await
    }

    async fn demote(&self, id: &str, to: &str) -> Answer {
        let body = json!({"to": to, "reason": format!("to {to}")});
        self.admin.post(&format!("{}/demote", self.path(id)), body).await
    }

    /// Promotes an artifact step by step.
    async fn brought(&self, id: &str, to: &str) {
        for state in ["staged", "canary", "active"] {
            self.promote(id, state).await.ok();
            if state == to {
                return;
            }
        }
    }

    /// Sets the project's trust policy.
    async fn rules(&self, rules: Value) {
        self.admin.patch(&format!("{}/trust-policy", self.base), rules).await.ok();
    }

    /// Creates a key that the project trusts; returns it with its id.
    async fn key(&self, name: &str) -> (PrivateKey, String) {
        let key = PrivateKey::generate();
        let body = json!({"name": name, "public_key": key.public().to_pem()});
        let id = self.admin.post(&format!("{}/keys", self.base), body).await.ok().text_of("id");
        (key, id)
    }

    async fn revoke(&self, key: &str) {
        self.admin.post(&format!("{}/keys/{key}/revoke", self.base), json!({"reason": "lost"})).await.ok();
    }

    /// Returns the types and data of the events on a resource, oldest first.
    async fn events(&self, of: &str) -> Vec<(String, Value)> {
        self.kit.sealed().await;
        let path = format!("/v1/events?project={}&page_size=200", self.fixture.id("train"));
        let events = self.admin.get(&path).await.ok().body;
        let about = |event: &&Value| event["subject"].as_str().is_some_and(|subject| subject.ends_with(of));
        let told = |event: &Value| {
            let word = event["type"].as_str().unwrap();
            (word.trim_start_matches("dev.muster.").trim_end_matches(".v1").to_owned(), event["data"].clone())
        };
        events["items"].as_array().unwrap().iter().filter(about).map(told).collect()
    }

    /// Returns the audit entries of an action, oldest first.
    async fn audited(&self, action: &str) -> Vec<Value> {
        self.kit.sealed().await;
        let admin = self.fixture.client(&self.kit, "tenant_admin");
        let records = crate::property::chain(&admin, "acme").await.unwrap();
        records.into_iter().filter(|record| record["action"] == action).collect()
    }
}

/// Pushes a signature of an image as cosign 3 does: a manifest that refers to it.
async fn sign(remote: &Remote, key: &PrivateKey, image: &Image) {
    let subject = Descriptor {
        media_type: MANIFEST.to_owned(),
        digest: Digest::of(&image.manifest),
        size: image.manifest.len() as u64,
    };
    let attachment = bundle::attach(&subject, bundle::sign_manifest(key, &subject.digest)).unwrap();
    attach(remote, &attachment, &attachment.manifest.descriptor.digest.to_string()).await;
}

/// The same as older versions do: under a tag derived from the digest.
async fn sign_by_tag(remote: &Remote, key: &PrivateKey, image: &Image) {
    let digest = Digest::of(&image.manifest);
    let payload = simple::payload(&digest, &remote.name);
    let signature = key.sign(&payload);
    attach(remote, &simple::attach(Vec::new(), payload, &signature), &simple::tag(&digest)).await;
}

async fn attach(remote: &Remote, attachment: &Attachment, reference: &str) {
    for blob in &attachment.blobs {
        remote.blob(&blob.bytes).await.is(201);
    }
    remote.manifest(reference, &attachment.manifest.bytes).await.is(201);
}
