//! The catalog over real HTTP: visibility of apps, lifecycle of releases and their holds, and consent before an adapter
//! operates anything.

mod apps;
mod cascade;
mod entitlements;
mod publish;
mod starts;
mod steps;
mod tokens;

use muster_ids::{Env, TypedId as _};
use muster_model::instance::{Instance, InstanceState, NewInstance};
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_testkit::{Answer, Client, Database, Fixture, Kit};
use serde_json::{Value, json};

use crate::registry::{Image, Remote};

/// A platform with people. The project `acme.train` publishes; `acme.serve` is its sibling, and `globex.lab` belongs to
/// another tenant.
pub(crate) struct Catalog {
    pub(crate) kit: Kit,
    pub(crate) fixture: Fixture,
    /// The publisher's admin.
    admin: Client,
    /// The admin of a project of the same tenant.
    sibling: Client,
    /// The admin of another tenant.
    stranger: Client,
    remote: Remote,
}

/// Returns a minimal release with these artifacts.
pub(crate) fn manifest(app: &str, version: &str, images: &[&str]) -> Value {
    let artifacts: Vec<Value> = images
        .iter()
        .map(|word| json!({"name": word, "repository": "base", "digest": Image::of(word).digest()}))
        .collect();
    let root = match images.first() {
        Some(word) => json!({"artifact": word}),
        None => json!({"host": ["/usr"]}),
    };
    // A release must use every artifact that it names.
    let components: Vec<Value> = images
        .iter()
        .skip(1)
        .map(|word| (format!("of-{word}"), json!({"artifact": word})))
        .chain([("worker".to_owned(), root)])
        .map(|(key, root)| {
            json!({
                "key": key, "count": {"min": 1, "max": 8},
                "capacity": {"gpus": 1, "cpus": 1, "memory_mb": 1024, "disk_mb": 1024},
                "runtime": {"root": root, "services": [{"name": "main", "command": ["/bin/true"]}]},
            })
        })
        .collect();
    json!({
        "app": app, "version": version, "artifact_kind": "oci", "artifacts": artifacts,
        "compatibility": {"requires_capacity_shape": ["gpu_slice", "baremetal"]},
        "components": components,
    })
}

impl Catalog {
    pub(crate) async fn new(database: Database) -> Self {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "project_admin");
        let sibling = fixture.client(&kit, "sibling_project_admin");
        let stranger = fixture.client(&kit, "other_tenant_admin");
        let remote = Remote::new(&kit, 0, fixture.token("project_admin"), "acme.train/base");
        Self { kit, fixture, admin, sibling, stranger, remote }
    }

    /// Returns a path in a project of the fixture.
    pub(crate) fn at(&self, project: &str, rest: &str) -> String {
        format!("/v1/projects/{}/{rest}", self.fixture.id(project))
    }

    /// Creates an app of the publisher.
    pub(crate) async fn offer(&self, slug: &str, audience: &str) -> String {
        let body = json!({"slug": slug, "display_name": slug, "audience": audience});
        self.admin.post(&self.at("train", "apps"), body).await.ok().text_of("id")
    }

    async fn publish(&self, app: &str, manifest: Value) -> Answer {
        self.admin
            .post(&self.at("train", &format!("apps/{app}/versions")), json!({"manifest": manifest}))
            .await
    }

    /// Publishes a release; returns its id.
    async fn released(&self, app: &str, version: &str, images: &[&str]) -> String {
        let published = self.publish(app, manifest(app, version, images)).await.ok();
        published.body["app_version"]["id"].as_str().unwrap().to_owned()
    }

    async fn step(&self, verb: &str, app: &str, version: &str, to: &str) -> Answer {
        let path = self.at("train", &format!("apps/{app}/versions/{version}/{verb}"));
        self.admin.post(&path, json!({"to": to, "reason": format!("to {to}")})).await
    }

    async fn promote(&self, app: &str, version: &str, to: &str) -> Answer {
        self.step("promote", app, version, to).await
    }

    async fn demote(&self, app: &str, version: &str, to: &str) -> Answer {
        self.step("demote", app, version, to).await
    }

    /// Promotes a release step by step.
    async fn brought(&self, app: &str, version: &str, to: &str) {
        for state in ["staged", "canary", "active"] {
            self.promote(app, version, state).await.ok();
            if state == to {
                return;
            }
        }
    }

    async fn shown(&self, app: &str, version: &str) -> Value {
        self.admin.get(&self.at("train", &format!("apps/{app}/versions/{version}"))).await.ok().body
    }

    /// Pushes an image, and promotes the resulting artifact.
    async fn image(&self, word: &str, to: Option<&str>) {
        self.remote.push(word, &Image::of(word)).await.is(201);
        for state in ["staged", "canary", "active"] {
            let Some(wanted) = to else { return };
            self.artifact(word, "promote", state).await.ok();
            if state == wanted {
                return;
            }
        }
    }

    async fn artifact(&self, word: &str, verb: &str, to: &str) -> Answer {
        let path = self.at("train", &format!("artifacts/base:{word}/{verb}"));
        self.admin.post(&path, json!({"to": to, "reason": format!("to {to}")})).await
    }

    /// Sets the publisher's trust policy.
    async fn rules(&self, rules: Value) {
        self.admin.patch(&self.at("train", "trust-policy"), rules).await.ok();
    }

    /// Grants an app to a project, with consent to everything it requests.
    pub(crate) async fn grant(&self, client: &Client, project: &str, app: &str) -> Value {
        let path = self.at(project, "entitlements");
        let asked = client.post(&path, json!({"app": app, "dry_run": true})).await.ok().body;
        let body = json!({"app": app, "consent": asked["permissions"]});
        client.post(&path, body).await.ok().body["entitlement"].clone()
    }

    /// Returns a project's events on a resource, oldest first.
    async fn events(&self, client: &Client, project: &str, of: &str) -> Vec<(String, Value)> {
        self.kit.sealed().await;
        let path = format!("/v1/events?project={}&page_size=200", self.fixture.id(project));
        let events = client.get(&path).await.ok().body;
        let about = |event: &&Value| event["subject"].as_str().is_some_and(|subject| subject.ends_with(of));
        let told = |event: &Value| {
            let word = event["type"].as_str().unwrap();
            (word.trim_start_matches("dev.muster.").trim_end_matches(".v1").to_owned(), event["data"].clone())
        };
        events["items"].as_array().unwrap().iter().filter(about).map(told).collect()
    }

    /// Returns a tenant's audit entries of an action, oldest first.
    async fn audited(&self, tenant: &str, action: &str) -> Vec<Value> {
        self.kit.sealed().await;
        let admin = if tenant == "acme" { "tenant_admin" } else { "other_tenant_admin" };
        let admin = self.fixture.client(&self.kit, admin);
        let records = crate::property::chain(&admin, tenant).await.unwrap();
        records.into_iter().filter(|record| record["action"] == action).collect()
    }

    /// Creates an instance that is live according to the database.
    async fn runs(&self, entitlement: &Value, version: &str, name: &str) -> Instance {
        self.runs_with(entitlement, version, name, json!({})).await
    }

    /// The same with this configuration.
    async fn runs_with(&self, entitlement: &Value, version: &str, name: &str, config: Value) -> Instance {
        let env = Env::system();
        let id = |member: &str| entitlement[member].as_str().unwrap().to_owned();
        let (tenant, project) = (id("tenant_id").parse().unwrap(), id("project_id").parse().unwrap());
        let store = self.kit.store();
        let mut tx = store.begin().await.unwrap();
        let network = tx.network_ensure(env.id(), tenant, project, "default", env.now()).await.unwrap();
        let new = NewInstance {
            id: env.id(),
            tenant_id: tenant,
            project_id: project,
            app_id: id("app_id").parse().unwrap(),
            app_version_id: version.parse().unwrap(),
            operator_account_id: id("operator_account_id").parse().unwrap(),
            network_id: network.id,
            name: name.to_owned(),
            now: env.now(),
        };
        let instance = Instance { app: id("app"), config, ..Instance::requested(new) };
        tx.instance_request(&instance).await.unwrap();
        tx.commit().await.unwrap();
        instance
    }

    /// Stops it, with evidence, as the engine would.
    async fn stops(&self, instance: &Instance) {
        let env = Env::system();
        let store = self.kit.store();
        let witness = Witness {
            id: env.id(),
            subject_id: instance.id.uuid(),
            transition: Transition::Stopped,
            kind: WitnessKind::Witnessed,
            incarnation: 1,
            operation_id: None,
            node_id: None,
            task_id: None,
            actor_id: None,
            checked: json!({}),
            result: json!({}),
            at: env.now(),
        };
        let mut tx = store.begin().await.unwrap();
        tx.witness_insert(&witness).await.unwrap();
        tx.commit().await.unwrap();
        for state in [InstanceState::Stopping, InstanceState::Stopped] {
            let before = store.instance_lookup(instance.id).await.unwrap().unwrap();
            let after = Instance { state, stopped_witness_id: Some(witness.id), ..before.clone() };
            let mut tx = store.begin().await.unwrap();
            tx.instance_move(&before, &after, env.now()).await.unwrap();
            tx.commit().await.unwrap();
        }
    }
}
